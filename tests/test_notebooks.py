"""The notebooks: one run of the smoke profile that most tests look at, `make lab`, and other data."""

import importlib.util
import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tiny import project

from ems import baselines
from ems import data as frames
from ems.io import write_jsonl
from ems.presets import build
from ems.study.run.runner import chosen_notebooks, declared, load_profile, parameters_of, plan, reproduce
from ems.study.run.runner import notebooks as listed
from ems.types import Answer, InputError, Triplet

ROOT = Path(__file__).parent.parent
NOTEBOOKS = chosen_notebooks(ROOT, load_profile(ROOT, "smoke"))
PRODUCTS = ["triplets.jsonl", "answers.jsonl", "alignments.jsonl", "table1.csv", "table1.md", "table1.tex",
            "manifest.json", "figures/scaling.png", "figures/heatmap.png", "figures/extraction.png",
            "figures/alignment.png"]
# Looked up and not imported: that would take seconds in each process, also where no notebook is run.
runs_notebooks = pytest.mark.skipif(importlib.util.find_spec("papermill") is None,
                                    reason="running notebooks needs pip install 'ems-kit[notebooks]'")


# --- one run of the smoke profile ---

@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run of the smoke profile with a key that nothing may keep, and without a mirror."""
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EMS_DATA_MIRROR", raising=False)
        patch.setenv("OPENAI_API_KEY", "sk-planted-in-the-environment-000000")
        return reproduce("smoke", given={"RUN": str(folder)}, root=ROOT)


@pytest.fixture
def without_mirror(monkeypatch):
    """As the run was: a mirror is part of what a notebook's result depends on."""
    monkeypatch.delenv("EMS_DATA_MIRROR", raising=False)


@runs_notebooks
@pytest.mark.slow
def test_everything_promised_is_there(run):
    assert [name for name in PRODUCTS if not (run / name).exists()] == []
    assert len(list((run / "notebooks").glob("*.ipynb"))) == len(NOTEBOOKS)


@runs_notebooks
@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_each_notebook_ran_to_its_end_and_wrote_what_it_declares(run, path):
    writes = json.loads(path.read_text(encoding="utf-8"))["metadata"]["ems"]["writes"]
    assert writes
    assert [name for name in writes if not (run / name).exists()] == []
    executed = json.loads((run / "notebooks" / path.name).read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in executed if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]
    assert all(cell["execution_count"] for cell in code)
    assert not [output for cell in code for output in cell["outputs"] if output["output_type"] == "error"]


@runs_notebooks
@pytest.mark.slow
def test_table_1_has_the_promised_columns_and_metrics(run):
    import pandas as pd

    table = pd.read_csv(run / "table1.csv")
    assert list(table.columns) == ["metric", "part", "model", "value", "ci_low", "ci_high", "n", "unscored",
                                   "signature"]
    assert set(table.metric) == {"BLEU", "ROUGE", "BERTScore", "RAGChecker", "EMS(ROUGE)", "EMS(BERTScore)",
                                 "EMS(LLM)", "EMS(LLM, sides)", "EMS(local)", "EMS-Support", "EMS-open",
                                 "EMS-Support(LLM)", "EMS-open(LLM)"}
    assert table.value.dropna().between(0, 1).all()
    checked = table.metric == "EMS-Support"          # an answer without an amount has no value there
    assert table.signature[~checked].str.contains("interval:t,cluster=triplet_id,clusters=2").all()
    assert table.signature[checked].str.contains("interval:t,cluster=triplet_id,clusters=[012]").all()
    judged = table[table.metric.isin(["RAGChecker", "EMS(LLM)", "EMS(ROUGE)"])]
    assert judged.signature.str.contains("judge:large-llm-2026-11").all()


@runs_notebooks
@pytest.mark.slow
def test_the_manifest_says_what_ran_and_what_it_cost(run):
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["packages"]["openai"]
    assert len(manifest["notebooks"]) == len(NOTEBOOKS)
    assert manifest["judge"]["ems"]
    used = [task for part in manifest["judge"].values() for model in part.values() for task in model.values()]
    assert all(task["calls"] == 0 for task in used)


@runs_notebooks
@pytest.mark.slow
def test_the_key_is_nowhere(run):
    for path in run.rglob("*"):
        if path.is_file():
            assert b"sk-planted-in-the-environment" not in path.read_bytes(), path


@runs_notebooks
@pytest.mark.slow
@pytest.mark.usefixtures("without_mirror")
def test_a_second_run_does_nothing_and_a_changed_parameter_runs_what_depends_on_it(run, capsys):
    before = {name: (run / name).read_bytes() for name in PRODUCTS if name != "manifest.json"}
    reproduce("smoke", given={"RUN": str(run)}, root=ROOT)
    assert capsys.readouterr().err.count("unchanged, skipped") == len(NOTEBOOKS)
    reproduce("smoke", given={"RUN": str(run), "CLUSTER": "group"}, only=["04", "07"], root=ROOT)
    assert "skipped" not in capsys.readouterr().err
    reproduce("smoke", given={"RUN": str(run)}, only=["04", "07"], root=ROOT)
    assert {name: (run / name).read_bytes() for name in before} == before


# --- the runner, on notebooks of a line ---

@runs_notebooks
@pytest.mark.slow
def test_a_failing_notebook_is_named_the_run_resumes_and_a_lost_product_is_made_again(tmp_path, capsys):
    parameters = 'RUN = "runs/p"  # folder'
    project(tmp_path, "common: {}", {"01_first": ["one.txt"], "02_second": ["two.txt"]},
            _01_first=[parameters, 'open(f"{RUN}/one.txt", "w").write("1")'],
            _02_second=[parameters, 'open(f"{RUN}/two.txt", "w").write(open("needed.txt").read())'])
    with pytest.raises(InputError, match="02_second.ipynb, cell .*needed.txt"):
        reproduce("p", root=tmp_path)
    failed = tmp_path / "runs" / "p" / "notebooks" / "02_second.ipynb"      # the copy that the message names
    outputs = [output for cell in json.loads(failed.read_text())["cells"] for output in cell.get("outputs", ())]
    assert "error" in [output["output_type"] for output in outputs]
    (tmp_path / "needed.txt").write_text("2")
    capsys.readouterr()
    run = reproduce("p", root=tmp_path)
    assert "01_first: unchanged, skipped" in capsys.readouterr().err
    assert (run / "two.txt").read_text() == "2"
    (run / "one.txt").unlink()
    reproduce("p", root=tmp_path)
    shown = capsys.readouterr().err
    assert "02_second: unchanged, skipped" in shown
    assert "01_first: unchanged" not in shown
    assert (run / "one.txt").exists()


@pytest.mark.parametrize("profile", [p.stem for p in sorted((ROOT / "profiles").glob("*.yaml"))])
def test_every_profile_names_only_parameters_that_exist(profile):
    paths = listed(ROOT)
    assert parameters_of(paths, load_profile(ROOT, profile), {}, paths)


def test_unknown_names_and_kinds_are_refused():
    paths = listed(ROOT)
    for wrong, words in (({"common": {"NOPE": 1}}, "NOPE"), ({"01_dataset": {"JUDGE": "x"}}, "JUDGE"),
                         ({"99_more": {}}, "99_more"),
                         ({"04_scaling": {"SEED": "seven"}}, "SEED must be int")):
        with pytest.raises(InputError, match=words):
            parameters_of(paths, wrong, {}, paths)


def test_declared_parameters_are_read_from_the_tagged_cell():
    assert declared(ROOT / "notebooks" / "04_scaling.ipynb")["SEED"] == 7


@runs_notebooks
@pytest.mark.slow
def test_a_dry_run_of_the_notebooks_counts_every_stage_of_an_unknown_judge():
    shown = plan("smoke", given={"JUDGE": "nobody", "REPLIES": []}, root=ROOT)
    rows = {line.split()[1]: line.split() for line in shown.splitlines() if line.startswith("nobody ")}
    assert set(rows) == {"claims", "entail", "summary", "extract", "match", "score", "all"}
    # two references, four answers and one of them shortened, each once: exact
    assert rows["claims"][3] == rows["extract"][3] == "7"
    assert rows["all"][-1] == "unknown"                        # without prices


# --- as a reader runs them ---

@runs_notebooks
@pytest.mark.slow
def test_run_all_in_jupyterlab_needs_nothing_set_and_leaves_the_reproduced_run_alone(tmp_path, monkeypatch):
    """Each notebook from top to bottom as stored, on the smoke profile's triplets: its kernel starts in
    notebooks/.
    """
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
    for path in NOTEBOOKS:
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


# --- whole notebooks on other data, in this process ---

def run_here(number, **parameters):
    """Run a notebook's code in this process, its parameters replaced by those given."""
    path = next(p for p in NOTEBOOKS if p.name.startswith(number))
    names = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
            if "parameters" in cell["metadata"].get("tags", ()):
                names.update(parameters)


NUMBERS = "Revenue rose 5% to $10 billion. Costs fell 3%. Cash was $2 billion."
WORDS = "The company expects strong demand for its products. Management remains confident about the year."


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "models", "text", "more"), [
    ([f"{i:03d}" for i in range(45)], ["base", "rag"], NUMBERS, {"HEATMAP": "BLEU", "QUESTIONS": "correct"}),
    (["N/A", "7", "1.10"], ["None"], WORDS, {}),
], ids=["many groups, labels without rows", "one model, no numbers, names that look like other things"])
def test_a_users_own_data_reach_table_1(tmp_path, monkeypatch, groups, models, text, more):
    matplotlib = pytest.importorskip("matplotlib", reason="figures need pip install 'ems-kit[notebooks]'")
    import pandas as pd

    matplotlib.use("Agg")
    monkeypatch.chdir(ROOT)
    triplets = [Triplet(f"{i}.10", group, "q", text) for i, group in enumerate(groups)]
    answers = [Answer(t.id, model, text[:40 + 10 * k]) for t in triplets for k, model in enumerate(models)]
    write_jsonl(tmp_path / "triplets.jsonl", triplets)
    write_jsonl(tmp_path / "answers.jsonl", answers)
    (tmp_path / "labels.csv").write_text("triplet_id,model,correct\n")
    bleu = baselines.bleu([text] * len(answers), [a.answer for a in answers])
    values = frames.values_frame(answers, bleu, "BLEU", "Score", "s", triplets)
    values.to_csv(tmp_path / "values_baselines.csv", index=False)
    values = frames.to_frame(build(None, "local").evaluate(triplets, answers), "EMS(local)", triplets)
    values.to_csv(tmp_path / "values_ems.csv", index=False)
    run_here("04", RUN=str(tmp_path), **{"SIZES": {}, **more})
    if len(groups) < 40:                            # notebook 5 is slow, and treats no group in another way
        run_here("05", RUN=str(tmp_path), RESAMPLES=20, RECOMPUTE="no", TEXTS=2, MODELS=[])
    run_here("07", RUN=str(tmp_path), MODELS=[])
    table = pd.read_csv(tmp_path / "table1.csv", dtype=str, keep_default_na=False)
    table = table[table.value != ""]
    assert set(table.metric) == {"BLEU", "EMS(local)"}
    assert set(table.model) == set(models)
    assert set(table.n) == {str(len(groups))}


# --- hostile names, through every notebook and an HTML export ---

OWN = ({"<b>Jaccard": "notebooks.own_metric:jaccard"}, {"EMS(<b>)": "notebooks.own_metric:point_jaccard"})
NAMES = ["<script>alert(1)</script>", "[x](javascript:alert(2))", "=cmd|' /C calc'!A0\x1b[31m\u202e"]


class Exported(HTMLParser):
    """What of a page could run, or load something: scripts with an alert, handlers, links that run, pictures."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "img" and not dict(attrs).get("src", "").startswith("data:"):
            self.found.append((tag, attrs))
        self.found += [(tag, name) for name, value in attrs
                       if name.startswith("on") or (value or "").strip().lower().startswith("javascript:")]

    def handle_data(self, data):
        if self.cdata_elem == "script" and "alert(" in data:
            self.found.append(("script", data[:60]))


@runs_notebooks
@pytest.mark.slow
def test_hostile_names_are_harmless_in_every_notebook_and_file(tmp_path, monkeypatch):
    nbconvert = pytest.importorskip("nbconvert", reason="the HTML export needs pip install 'ems-kit[notebooks]'")
    monkeypatch.delenv("EMS_DATA_MIRROR", raising=False)
    monkeypatch.setenv("EMS_UPSTREAM_URL", "http://127.0.0.1:9")          # nobody answers there
    hostile = "<img src=x onerror=alert(3)>"
    triplets = [Triplet(f"{hostile}-{i}", f"{NAMES[1]} {i}", f"{NAMES[0]} {hostile}", f"{NUMBERS} {hostile}")
                for i in range(6)]
    answers = [Answer(t.id, model, f"{NUMBERS[:30 + 9 * k]} {NAMES[k]}")
               for t in triplets for k, model in enumerate(NAMES)]
    write_jsonl(tmp_path / "t.jsonl", triplets)
    write_jsonl(tmp_path / "a.jsonl", answers)
    profile = {"common": {"RUN": str(tmp_path / "run"), "JUDGE": "", "SHORTENED": "", "METRICS": OWN[0],
                          "SCORERS": OWN[1], "REPLIES": [], "RESAMPLES": 20, "SIZES": {},
                          "MODELS": [], "CLUSTER": "triplet_id", "SAVE": "", "RECOMPUTE": "no"},
               "01_dataset": {"SOURCE": "files", "TRIPLETS": str(tmp_path / "t.jsonl"),
                              "ANSWERS": str(tmp_path / "a.jsonl")},
               "04_scaling": {"HEATMAP": "EMS(local)"}, "05_granularity": {"TEXTS": 2, "DOSES": [0.75]},
               "09_own_metric": {"TEXTS": 2, "DOSES": [0.75]}}
    (tmp_path / "p.yaml").write_text(json.dumps(profile))
    run = reproduce(str(tmp_path / "p.yaml"), root=ROOT)
    exporter = nbconvert.HTMLExporter()
    for path in sorted((run / "notebooks").glob("*.ipynb")):
        page, _ = exporter.from_filename(str(path))
        assert Exported(page).found == [], path.name
    for name in ("table1.md", "table1.tex", "table1.csv"):
        text = (run / name).read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "EMS(&lt;b&gt;)" in (run / "table1.md").read_text(encoding="utf-8")
    assert set(frames.read_frames(run / "sensitivity.csv")["metric"]) > {"<b>Jaccard", "EMS(<b>)"}
    assert "<script" not in (run / "table1.md").read_text(encoding="utf-8")
    cells = (run / "table1.csv").read_text(encoding="utf-8").replace("\n", ",").split(",")
    assert not [cell for cell in cells if cell.strip('"').startswith(("=", "+", "@"))]


@pytest.mark.parametrize(("given", "value"), [(True, "yes"), (False, "no"), ("auto", "auto")])
def test_yes_and_no_are_words_where_a_notebook_has_them(given, value):
    """`-p RECOMPUTE yes` arrives as YAML's True."""
    paths = listed(ROOT)
    assert parameters_of(paths, {}, {"RECOMPUTE": given}, paths)["06_human_correlation"] == {"RECOMPUTE": value}
    assert parameters_of(paths, {}, {"SIDES": given == "auto"}, paths)["03_ems_variants"] == {"SIDES": given == "auto"}
