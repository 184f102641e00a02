"""`ems reproduce`: profiles against notebooks, what runs, how a failure ends; and one run of all notebooks."""

import csv
import json
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import run as runner
from doubles import until
from loopback import Loopback

from ems.judge.cost import plan_text
from ems.prompts import KIT
from ems.types import InputError

ROOT = Path(__file__).parent.parent
KEY = "sk-planted-in-the-environment-000000"
PARAMETERS = """RUN = "runs/lab"                        # folder
N = 1                                   # a number
JUDGE = {"model": "m", "mode": "replay"}
NAMES = []
ANYTHING = None"""


def runs_notebooks(test):
    # Looked up and not imported: that would take seconds, also where no notebook is run.
    absent = pytest.mark.skipif(
        find_spec("papermill") is None, reason="needs pip install -e '.[notebooks]'"
    )
    return pytest.mark.slow(absent(test))


def project(root, profile="common: {}", **notebooks):
    """A project of one profile, p, and notebooks: _NAME=[source of the parameters' cell, of other cells]."""
    for folder in ("notebooks", "profiles"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, sources in notebooks.items():
        cells = [
            {
                "cell_type": "code",
                "execution_count": None,
                "id": f"cell-{i}",
                "outputs": [],
                "source": source,
                "metadata": {} if i else {"tags": ["parameters"]},
            }
            for i, source in enumerate(sources)
        ]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        content = {
            "cells": cells,
            "metadata": {"kernelspec": kernel},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (root / "notebooks" / f"{name[1:]}.ipynb").write_text(json.dumps(content))
    (root / "profiles" / "p.yaml").write_text(profile)
    return root


# --- profiles and parameters ---


def test_a_value_comes_from_the_default_then_common_then_the_notebooks_block_then_the_command(
    tmp_path,
):
    root = project(tmp_path, _01_a=[PARAMETERS], _02_b=["RUN = ''\nN = 1"])
    profile = {
        "common": {"N": 2, "JUDGE.seed": 3, "ANYTHING": "x"},
        "01_a": {"N": 4, "JUDGE.mode": "live"},
    }
    one, two = runner.parameters_of(root, profile, {"JUDGE.base_url": "u", "NAMES": ["n"]}).values()
    assert two == {"RUN": "", "N": 2}
    assert one == {
        "RUN": "runs/lab",
        "N": 4,
        "NAMES": ["n"],
        "ANYTHING": "x",
        "JUDGE": {"model": "m", "mode": "live", "seed": 3, "base_url": "u"},
    }
    one, _ = runner.parameters_of(root, {"common": {"JUDGE": {}}}, {}).values()
    assert one["JUDGE"] == {}  # replaced whole


@pytest.mark.parametrize(
    ("profile", "given", "words"),
    [
        ({"commn": {}}, {}, "'commn'; did you mean 'common'"),
        ({"common": {"JUGDE": {}}}, {}, "common: no parameter 'JUGDE'; did you mean 'JUDGE'"),
        ({"01_a": {"X": 1}}, {}, "01_a: no parameter 'X'; there are ANYTHING, JUDGE"),
        ({}, {"M": 5}, "-p: no parameter 'M'"),
        ({}, {"N": True}, "01_a.ipynb: N must be int, got True"),
        ({}, {"JUDGE": "gpt-4o"}, "JUDGE must be dict"),
        ({}, {"N.x": 5}, "N must be int, got {'x': 5}"),
    ],
)
def test_what_no_notebook_has_is_refused_with_the_nearest(tmp_path, profile, given, words):
    with pytest.raises(InputError) as error:
        runner.parameters_of(project(tmp_path, _01_a=[PARAMETERS]), profile, given)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"), [("[1, 2]", "must map"), ("a: [", "is not YAML"), ("a: 1", "must map")]
)
def test_a_profile_is_a_mapping_of_mappings(tmp_path, content, words):
    with pytest.raises(InputError, match=words):
        runner.load_profile(project(tmp_path, content), "p")


def test_a_folder_without_notebooks_is_no_project(tmp_path):
    with pytest.raises(InputError, match="run this in a clone of the project"):
        runner.run_profile(root=tmp_path)


@pytest.mark.parametrize(
    "profile", [path.stem for path in sorted((ROOT / "profiles").glob("*.yaml"))]
)
def test_every_profile_fits_the_notebooks_and_repeats_no_default(profile):
    settings = runner.load_profile(ROOT, profile)
    for path, values in runner.parameters_of(ROOT, settings, {}).items():
        defaults = runner.declared(path)
        assert defaults["RUN"] == "runs/lab"
        idle = [
            name
            for name, value in settings.get(path.stem, {}).items()
            if defaults.get(name) == value and settings.get("common", {}).get(name, value) == value
        ]
        assert idle == [], path.stem
        assert values.keys() == defaults.keys()


# --- runs, with notebooks that are played ---


@pytest.fixture
def played(monkeypatch, tmp_path):
    """A project whose notebooks note that they ran and write a file; no kernel is started."""
    root = project(
        tmp_path,
        "{}",
        _01_a=[PARAMETERS],
        _02_b=[PARAMETERS],
        _03_c=[PARAMETERS],
        _04_d=[PARAMETERS],
        _09_e=[PARAMETERS],
    )
    ran = []

    def execute(path, target, values):
        ran.append(path.stem[:2])
        if values["N"] == 0 and path.stem == "02_b":
            raise InputError("broken")
        figures = root / values["RUN"] / "figures"
        figures.mkdir(parents=True, exist_ok=True)
        (figures / f"{path.stem}.png").write_text(str(values["N"]))

    monkeypatch.setattr(runner, "_execute", execute)

    def run(profile="p", **how):
        ran.clear()
        runner.run_profile(profile, root=root, **how)
        return sorted(ran)

    return root, run


def test_the_notebooks_of_a_run_and_a_failure_among_them(played):
    root, run = played
    assert run() == ["01", "02", "03", "04"]  # 09 is optional
    assert run(only=["09"]) == ["09"]
    with pytest.raises(InputError, match="broken"):
        run(given={"N": 0})
    notes = json.loads((root / "runs" / "p" / "manifest.json").read_text())["notebooks"]
    assert {
        name: note["parameters"]["N"] for name, note in notes.items()
    } == {  # 03 ran beside 02, and 04 not
        "01_a": 0,
        "03_c": 0,
        "04_d": 1,
        "09_e": 1,
    }


def test_the_manifest_says_what_ran_with_what(played):
    root, run = played
    run(given={"N": 7})
    manifest = json.loads((root / "runs" / "p" / "manifest.json").read_text())
    assert manifest["profile"] == "p"
    assert manifest["packages"]["numpy"]
    assert manifest["notebooks"]["02_b"]["parameters"] == {
        "RUN": "runs/p",
        "N": 7,
        "NAMES": [],
        "ANYTHING": None,
        "JUDGE": {"model": "m", "mode": "replay"},
    }
    assert set(manifest["files_sha256"]) == {
        f"figures/{name}.png" for name in ("01_a", "02_b", "03_c", "04_d")
    }


@pytest.mark.parametrize(
    ("profile", "how", "shown"),
    [
        ("default", {}, "2"),
        ("default", {"given": {"N": 3}}, "committed"),
        ("default", {"only": ["01"]}, "committed"),
        ("p", {}, "committed"),
    ],
    ids=["whole", "another parameter", "one notebook", "another profile"],
)
def test_only_a_whole_default_run_refreshes_the_figures_that_are_shown(played, profile, how, shown):
    root, run = played
    (root / "profiles" / "default.yaml").write_text("common: {N: 2}")
    (root / "figures").mkdir()
    (root / "figures" / "01_a.png").write_text("committed")
    run(profile, **how)
    assert (root / "figures" / "01_a.png").read_text() == shown


def test_a_parameter_of_the_command_is_yaml(monkeypatch):
    seen = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(runner, "plan", lambda profile, *, only, given: seen.update(given) or {})
    assert runner.main(["--dry-run", "-p", "N", "7", "-p", "NAMES", "[AAPL]"]) == 0
    assert seen == {"N": 7, "NAMES": ["AAPL"]}
    with pytest.raises(InputError, match="-p N is not YAML"):
        runner.main(["--dry-run", "-p", "N", "a: ["])


# --- kernels ---


@runs_notebooks
@pytest.mark.parametrize(
    ("run", "source", "words"),
    [
        (
            runner.run_profile,
            "1 / 0",
            r"01_a.ipynb, cell 3: ZeroDivisionError: division by zero; the executed copy",
        ),
        (
            runner.plan,
            "1 / 0",
            r"01_a.ipynb, cell 3: ZeroDivisionError: division by zero$",
        ),  # its copy is deleted
        (runner.run_profile, "import os\nos._exit(1)", "its kernel died"),
    ],
)
def test_a_failing_cell_is_named_once(run, source, words, tmp_path):
    with pytest.raises(InputError, match=words):
        run("p", given={"JUDGE.mode": "live"}, root=project(tmp_path, _01_a=[PARAMETERS, source]))


@runs_notebooks
def test_ctrl_c_ends_the_command_and_the_kernel(tmp_path):
    source = f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)"
    project(tmp_path, _01_a=[PARAMETERS, source])
    command = subprocess.Popen(
        [sys.executable, "-m", "ems", "reproduce", "--profile", "p"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    command.send_signal(signal.SIGINT)
    assert command.wait(20) == 130
    assert "Traceback" not in command.stderr.read()
    kernel = int((tmp_path / "pid").read_text())
    until(lambda: not Path(f"/proc/{kernel}").exists())


# --- the project's own notebooks: one run of the smoke profile that the tests below look at ---


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """A run with a key that nothing may keep, and without a mirror of public data sets."""
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("EMS_DATA_MIRROR", raising=False)
        patch.setenv("OPENAI_API_KEY", KEY)
        return runner.run_profile("smoke", given={"RUN": str(folder)}, root=ROOT)


@runs_notebooks
def test_the_smoke_run_gives_everything_promised(smoke):
    promised = [
        "triplets.jsonl",
        "answers.jsonl",
        "alignments.jsonl",
        "table1.csv",
        "table1.md",
        "table1.tex",
        "manifest.json",
        "figures/scaling.png",
        "figures/alignment.png",
    ]
    assert [name for name in promised if not (smoke / name).exists()] == []
    header, *rows = (smoke / "table1.csv").read_text(encoding="utf-8").splitlines()
    assert header == "metric,part,model,value,ci_low,ci_high,n,unscored,signature"
    assert {row.partition(",")[0] for row in rows} >= {
        "BLEU",
        "ROUGE",
        "BERTScore",
        "RAGChecker",
        "EMS(ROUGE)",
        "EMS(BERTScore)",
        "EMS(LLM)",
        "Coverage(local)",
    }


@runs_notebooks
def test_the_key_is_in_no_file_and_no_notebook_shows_a_warning(smoke):
    for path in smoke.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
    for path in (smoke / "notebooks").glob("*.ipynb"):
        outputs = [
            o for cell in json.loads(path.read_text())["cells"] for o in cell.get("outputs", ())
        ]
        said = ["".join(o.get("text", "")) for o in outputs if o.get("name") == "stderr"]
        assert not [text for text in said if "Warning" in text or "Error" in text], path.name
        assert not [o for o in outputs if o["output_type"] == "error"], path.name


@runs_notebooks
def test_a_dry_run_counts_what_an_unknown_judge_would_be_asked_and_starts_nothing_for_a_replay(
    monkeypatch,
):
    counted = runner.plan(
        "smoke", only=["02", "03"], given={"JUDGE": {"model": "nobody", "mode": "live"}}, root=ROOT
    )
    calls = {task: used.calls for tasks in counted.values() for task, used in tasks.items()}
    assert calls["claims"] == calls["extract"] == 6  # two references and four answers
    assert {"entail", "summary", "match", "score"} <= calls.keys()
    monkeypatch.setattr(runner, "_execute", lambda *args: pytest.fail("a kernel was started"))
    assert runner.plan("smoke", root=ROOT) == {}


@runs_notebooks
def test_a_notebook_opens_alone_without_what_the_others_write(tmp_path):
    path = ROOT / "notebooks" / "08_table1.ipynb"
    runner._execute(path, tmp_path / path.name, {"RUN": str(tmp_path)})
    assert (tmp_path / "table1.csv").exists()


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """Parameters for any profile that asks models: one question, calls and prompt set that are made up, few resamples."""
    for row in csv.DictReader(
        (ROOT / "data" / "companies.csv").read_text(encoding="utf-8").splitlines()
    ):
        text = (
            row["names"].partition("|")[0]
            + "\n\n"
            + "Sales rose. " * 5000
            + "\n\nThis concludes today's call."
        )
        (tmp_path / f"{row['transcript']}.txt").write_text(text)
    (tmp_path / "home/prompts/paper").mkdir(parents=True)
    for task in ("answer", "consolidate", "extract", "match", "score"):  # what the paper has
        shutil.copy(KIT / f"{task}.txt", tmp_path / "home/prompts/paper")
    monkeypatch.setenv("EMS_HOME", str(tmp_path / "home"))
    return {
        "COMPANIES": ["AAPL"],
        "LIMIT": 1,
        "RESAMPLES": 50,
        "RUN": str(tmp_path / "run"),
        "ENCODER": "all-MiniLM-L6-v2",
        "WRITING.transcripts": str(tmp_path),
        "TRANSCRIPTS": str(tmp_path),
    }


@runs_notebooks
@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        ("default", set()),
        ("findver", set()),
        ("smoke", set()),
        ("record", {"answer"}),
        (
            "paper",
            {
                "answer",
                "consolidate",
                "summary",
                "extract",
                "match",
                "score",
                "claims",
                "entail",
                "judge",
                "support",
            },
        ),
    ],
)
def test_every_profile_can_be_counted_whole(profile, asked, made_up):
    counted = runner.plan(profile, given=made_up if asked else {}, root=ROOT)
    assert {
        task for tasks in counted.values() for task, used in tasks.items() if used.calls
    } == asked
    print(plan_text(counted))  # as the command does


def reply(body):
    """What a judge might say: two points in every text, of two claims one entailed, 0 where a number is wanted."""
    if "response_format" in body:
        return json.dumps(
            {
                "claims": ["Sales rose.", "Margins fell."],
                "labels": ["Entailment", "Neutral"],
                "points": ["Sales rose.", "Margins fell."],
            }
        )
    return "0" if body["max_tokens"] <= 64 else "- Sales rose.\n- Margins fell."


@runs_notebooks
@pytest.mark.parametrize(("profile", "only"), [("paper", []), ("record", ["01"])])
def test_a_profile_that_asks_runs_live(profile, only, made_up):
    settings = runner.load_profile(ROOT, profile)
    with Loopback(reply) as server:
        for model in runner._mappings(settings):
            if "base_url" in model:
                model |= {"base_url": server.url, "key_env": "none"}
        given = {
            "WRITING": settings["01_dataset"]["WRITING"],
            "JUDGE.base_url": server.url,
            "JUDGE.key_env": "none",
            **made_up,
        }
        run = runner.run_profile(profile, only=only, root=ROOT, given=given)
    rows = [
        json.loads(line)
        for line in (run / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [row["answer"] for row in rows] == ["- Sales rose.\n- Margins fell."] * 3
    if profile == "paper":  # one claim of two is entailed, on either side
        table = (run / "table1.csv").read_text(encoding="utf-8").splitlines()
        assert [line.split(",")[3] for line in table if line.startswith("RAGChecker,F1")] == [
            "0.5"
        ] * 3
