"""The notebooks, run by the strict runner on the smoke profile: what comes out, twice the same, never twice the work."""

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("papermill", reason="running notebooks needs pip install 'ems-kit[notebooks]'")

from ems.study.runner import declared, load_profile, parameters_of, reproduce
from ems.study.runner import notebooks as listed
from ems.types import InputError

ROOT = Path(__file__).parent.parent
PRODUCTS = ["triplets.jsonl", "answers.jsonl", "alignments.jsonl", "table1.csv", "table1.md", "table1.tex",
            "manifest.json", "figures/scaling.png", "figures/heatmap.png", "figures/extraction.png", "figures/alignment.png"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of the smoke profile without a key, without a mirror."""
    folder = tmp_path_factory.mktemp("smoke")
    kept = {name: os.environ.pop(name) for name in ("EMS_DATA_MIRROR", "OPENAI_API_KEY") if name in os.environ}
    os.environ["OPENAI_API_KEY"] = "sk-planted-in-the-environment-000000"
    try:
        yield reproduce("smoke", given={"RUN": str(folder)}, root=ROOT)
    finally:
        del os.environ["OPENAI_API_KEY"]
        os.environ.update(kept)


def test_everything_promised_is_there(run):
    assert [name for name in PRODUCTS if not (run / name).exists()] == []
    assert len(list((run / "notebooks").glob("*.ipynb"))) == 7


def test_table_1_has_the_promised_columns_and_metrics(run):
    import pandas as pd

    table = pd.read_csv(run / "table1.csv")
    assert list(table.columns) == ["metric", "part", "model", "value", "ci_low", "ci_high", "n", "unscored", "signature"]
    assert set(table.metric) == {"BLEU", "ROUGE", "BERTScore", "RAGChecker", "EMS(ROUGE)", "EMS(BERTScore)", "EMS(LLM)",
                                 "EMS(local)"}
    assert table.value.dropna().between(0, 1).all()
    assert table.signature.str.contains("seed:").all()
    judged = table[table.metric.isin(["RAGChecker", "EMS(LLM)", "EMS(ROUGE)"])]
    assert judged.signature.str.contains("sha256:cc324af070c2").all()


def test_the_manifest_says_what_ran_and_what_it_cost(run):
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["packages"]["openai"]
    assert len(manifest["notebooks"]) == 7
    assert manifest["judge"]["ems"]
    assert all(task["calls"] == 0 for part in manifest["judge"].values() for model in part.values() for task in model.values())


def test_the_key_is_nowhere(run):
    for path in run.rglob("*"):
        if path.is_file():
            assert b"sk-planted-in-the-environment" not in path.read_bytes(), path


def test_a_second_run_does_nothing_and_a_changed_parameter_runs_what_depends_on_it(run, capsys):
    before = {name: (run / name).read_bytes() for name in PRODUCTS if name != "manifest.json"}
    reproduce("smoke", given={"RUN": str(run)}, root=ROOT)
    assert capsys.readouterr().err.count("unchanged, skipped") == 7
    reproduce("smoke", given={"RUN": str(run), "RESAMPLES": 199}, only=["04", "07"], root=ROOT)
    assert "skipped" not in capsys.readouterr().err
    reproduce("smoke", given={"RUN": str(run)}, only=["04", "07"], root=ROOT)
    assert {name: (run / name).read_bytes() for name in before} == before


def test_a_lost_product_is_made_again(run, capsys):
    (run / "table1.tex").unlink()
    reproduce("smoke", given={"RUN": str(run)}, only=["07"], root=ROOT)
    assert (run / "table1.tex").exists()
    assert "skipped" not in capsys.readouterr().err


def test_a_failing_notebook_is_named_and_the_run_resumes(run, tmp_path, capsys):
    project = tmp_path / "project"
    for name in ("notebooks", "profiles", "data"):
        shutil.copytree(ROOT / name, project / name)
    (project / "data" / "paper" / "table1.csv").rename(project / "data" / "paper" / "elsewhere.csv")
    folder = tmp_path / "out"
    shutil.copytree(run, folder)
    with pytest.raises(InputError, match="07_table1.ipynb, cell"):
        reproduce("smoke", given={"RUN": str(folder)}, only=["07"], root=project)
    (project / "data" / "paper" / "elsewhere.csv").rename(project / "data" / "paper" / "table1.csv")
    reproduce("smoke", given={"RUN": str(folder)}, only=["07"], root=project)
    assert "07_table1" in capsys.readouterr().err


@pytest.mark.parametrize("profile", [p.stem for p in sorted((ROOT / "profiles").glob("*.yaml"))])
def test_every_profile_names_only_parameters_that_exist(profile):
    paths = listed(ROOT)
    assert parameters_of(paths, load_profile(ROOT, profile), {}, paths)


def test_unknown_names_and_kinds_are_refused():
    paths = listed(ROOT)
    for wrong, words in (({"common": {"NOPE": 1}}, "NOPE"), ({"01_dataset": {"JUDGE": "x"}}, "JUDGE"),
                         ({"99_more": {}}, "99_more"), ({"04_scaling": {"SEED": "seven"}}, "SEED must be int")):
        with pytest.raises(InputError, match=words):
            parameters_of(paths, wrong, {}, paths)


def test_declared_parameters_are_read_from_the_tagged_cell():
    assert declared(ROOT / "notebooks" / "04_scaling.ipynb")["SEED"] == 7


def cells_of(number, **given):
    """Run a notebook's code in this process, its parameters replaced by those given."""
    path = next((ROOT / "notebooks").glob(f"{number}_*.ipynb"))
    names = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            if "parameters" in cell["metadata"].get("tags", ()):
                names.update(given)
    return names


NUMBERS = "Revenue rose 5% to $10 billion. Costs fell 3%. Cash was $2 billion."
WORDS = "The company expects strong demand for its products. Management remains confident about the year ahead."


@pytest.mark.parametrize(("groups", "models", "text", "more"), [
    ([f"{i:03d}" for i in range(45)], ["base", "rag"], NUMBERS, {"HEATMAP": "BLEU", "QUESTIONS": "correct"}),
    (["N/A", "7", "1.10"], ["None"], WORDS, {}),
], ids=["many groups, labels without rows", "one model, no numbers, names that look like other things"])
def test_a_users_own_data_reach_table_1(tmp_path, monkeypatch, groups, models, text, more):
    import matplotlib

    from ems import baselines
    from ems import data as frames
    from ems.io import write_jsonl
    from ems.pipeline import build
    from ems.types import Answer, Triplet

    matplotlib.use("Agg")
    monkeypatch.chdir(ROOT)
    triplets = [Triplet(f"{i}.10", group, "q", text) for i, group in enumerate(groups)]
    answers = [Answer(t.id, model, text[:40 + 10 * k]) for t in triplets for k, model in enumerate(models)]
    write_jsonl(tmp_path / "triplets.jsonl", triplets)
    write_jsonl(tmp_path / "answers.jsonl", answers)
    (tmp_path / "labels.csv").write_text("triplet_id,model,correct\n")
    bleu = baselines.bleu([text] * len(answers), [a.answer for a in answers])
    frames.values_frame(answers, bleu, "BLEU", "Score", "s", triplets).to_csv(tmp_path / "values_baselines.csv", index=False)
    found = frames.to_frame(build(None, "local").evaluate(triplets, answers), "EMS(local)", triplets)
    found.to_csv(tmp_path / "values_ems.csv", index=False)
    cells_of("04", RUN=str(tmp_path), RESAMPLES=50, **{"SIZES": {}, **more})
    if len(groups) < 40:                               # notebook 5 is slow, and looks at no group but to draw it again
        cells_of("05", RUN=str(tmp_path), RESAMPLES=20, RECOMPUTE="no", TEXTS=2, MODELS=[])
    table = cells_of("07", RUN=str(tmp_path), RESAMPLES=50, MODELS=[])["summary"]
    assert set(table.model) == set(models)
    assert set(table.n) == {len(groups)}


def test_run_all_in_jupyterlab_needs_nothing_set_and_leaves_the_reproduced_run_alone(tmp_path, monkeypatch):
    """Each notebook from top to bottom as stored, on the smoke profile's triplets: its kernel starts in notebooks/."""
    import nbformat
    from nbclient import NotebookClient

    for name in ("ems", "notebooks", "profiles", "data", "figures"):
        shutil.copytree(ROOT / name, tmp_path / name)
    smaller = {"LIMIT = 0 ": "LIMIT = 5 ", "TEXTS = 10 ": "TEXTS = 2 ", "RESAMPLES = 1000": "RESAMPLES = 100"}
    (tmp_path / "runs" / "default").mkdir(parents=True)
    monkeypatch.delenv("EMS_DATA_MIRROR", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    committed = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for path in listed(ROOT):
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if "parameters" in cell.metadata.get("tags", ()):
                for whole, part in smaller.items():
                    cell.source = cell.source.replace(whole, part)
                cell.source = cell.source.replace('CLUSTER = "group"', 'CLUSTER = "triplet_id"')
        NotebookClient(notebook, kernel_name="python3",
                       resources={"metadata": {"path": str(tmp_path / "notebooks")}}).execute()
        shown = [o for c in notebook.cells for o in c.get("outputs", ()) if o.get("name") == "stderr"]
        assert not shown, shown[0]["text"]                      # a red block above the results
    assert (tmp_path / "runs" / "lab" / "table1.csv").exists()
    assert list((tmp_path / "runs" / "default").iterdir()) == []
    assert {path: path.read_bytes() for path in committed} == committed
