"""The runner without kernels: profiles against notebooks, order, files checked first, figures, the dry run.
"""

import json
import re
import shutil
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted import judgeable
from tiny import project

from ems.asking import Record
from ems.io import write_jsonl
from ems.judge.client import LLMJudge
from ems.judge.endpoint import ModelEndpoint
from ems.judge.store import Replies
from ems.study.dataset.writers import write_answers
from ems.study.run.project import open_run, project_root
from ems.study.run.runner import (
    Kernels,
    Step,
    declared,
    load_profile,
    notebooks,
    parameters_of,
    plan,
    reproduce,
    side_by_side,
)
from ems.types import InputError

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(("source", "words", "copied"), [
    ("1 / 0", "cell 3: ZeroDivisionError", True),
    ("import os\nos._exit(1)", "its kernel died, .* in the cell that begins 'import os'", False)])
def test_a_failing_cell_is_named(source, words, copied, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="it comes with pip install 'ems-kit[notebooks]'")
    cells = [nbformat.v4.new_code_cell(text) for text in ("x = 1", source, "print(x)")]
    cells[0].metadata["tags"] = ["parameters"]
    language = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=language), tmp_path / "n.ipynb")
    with pytest.raises(InputError, match=words):
        Kernels().execute(tmp_path / "n.ipynb", tmp_path / "copy.ipynb", {"x": 2}, tmp_path)
    assert (tmp_path / "copy.ipynb").exists() == copied


# --- where things are ---

def test_the_project_is_found_from_the_folder_of_the_notebooks(monkeypatch, tmp_path):
    for folder in ("notebooks", "profiles"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert open_run("runs/lab") == (tmp_path, tmp_path / "runs" / "lab")
    assert (tmp_path / "runs" / "lab").is_dir()
    assert open_run(str(tmp_path / "elsewhere"))[1] == tmp_path / "elsewhere"
    assert project_root(Path("/")) == ROOT                        # beside the package


def test_a_notebooks_tables_show_nothing_as_a_dash(monkeypatch, tmp_path):
    IPython = pytest.importorskip("IPython", reason="it comes with pip install 'ems-kit[notebooks]'")
    import pandas as pd
    from IPython.core.formatters import DisplayFormatter

    shell = SimpleNamespace(display_formatter=DisplayFormatter())
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    open_run(str(tmp_path))
    table = pd.DataFrame({"real": [0.25, float("nan")], "whole": pd.array([3, None], "Int64"), "text": [None, "<b>"]})
    shown = shell.display_formatter.format(table)[0]["text/html"]
    assert re.findall("<td>(.*)</td>", shown) == ["0.25", "3", "–", "–", "–", "&lt;b&gt;"]


def test_notebooks_are_by_themselves_what_the_default_profile_runs():
    paths = notebooks(ROOT)
    chosen = parameters_of(paths, load_profile(ROOT, "default"), {}, paths)
    for path in paths:
        own = declared(path)
        assert own["RUN"] == "runs/lab"
        assert own == {**own, **chosen[path.stem], "RUN": "runs/lab"}, path.name


# --- order ---

def step(name, reads=(), writes=()):
    return Step(Path(f"{name}.ipynb"), {}, tuple(reads), tuple(writes))


def kernels(jobs):
    return Kernels(jobs)


def test_notebooks_run_after_those_they_read_from_and_two_at_a_time():
    steps = [step("01", writes=["a"]), step("02", ["a"], ["b"]), step("03", ["a"], ["c"]),
             step("04", ["b", "c"]), step("05", ["a"])]
    log, together, lock = [], [], threading.Lock()
    meet = threading.Barrier(2)  # 02 and 03 must both be under way for either to go on

    def work(one):
        with lock:
            log.append(("begin", one.path.stem))
            together.append(sum(1 if what == "begin" else -1 for what, _ in log))
        if one.path.stem in ("02", "03"):
            meet.wait(timeout=20)
        with lock:
            log.append(("end", one.path.stem))
        return one.path.stem

    assert side_by_side(steps, work, kernels(2)) == ["01", "02", "03", "04", "05"]
    assert max(together) == 2
    for earlier, later in (("01", "02"), ("01", "05"), ("02", "04"), ("03", "04")):
        assert log.index(("end", earlier)) < log.index(("begin", later))


def test_one_at_a_time_keeps_the_order_and_a_failure_begins_no_other():
    log = []

    def work(one):
        log.append(one.path.stem)
        if one.path.stem == "02":
            raise InputError("broken")

    with pytest.raises(InputError, match="broken"):
        side_by_side([step("01"), step("02"), step("03")], work, kernels(1))
    assert log == ["01", "02"]


def test_when_one_fails_the_other_is_finished():
    finished = []

    def work(one):
        if one.path.stem == "01":
            raise InputError("broken")
        time.sleep(0.2)
        finished.append(one.path.stem)

    with pytest.raises(InputError, match="broken"):
        side_by_side([step("01"), step("02"), step("03")], work, kernels(2))
    assert finished == ["02"]


# --- runs, with notebooks that are played ---

@pytest.fixture
def played(monkeypatch, tmp_path):
    """A project whose one notebook writes its resamples as the run's figure; no kernel is started."""
    if find_spec("papermill") is None:             # importing it takes seconds, and nothing here runs it
        pytest.skip("profiles need papermill (pip install 'ems-kit[notebooks]')")
    parameters = """RUN = "runs/lab"  # folder
RESAMPLES = 10  # resamples
LIMIT = 0  # triplets
SPEND_LIMIT = 0.0  # money
REPLIES = []  # files
PROMPTS = "kit"  # words"""
    project(tmp_path, "common: {}", _01_draw=[parameters])
    for name in ("default", "other"):
        (tmp_path / "profiles" / f"{name}.yaml").write_text("common: {RESAMPLES: 2000}")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "x.png").write_text("committed")

    def execute(self, path, target, values, root):
        figures = Path(values["RUN"], "figures")
        figures.mkdir(parents=True, exist_ok=True)
        (figures / "x.png").write_text(str(values["RESAMPLES"]))

    monkeypatch.setattr(Kernels, "execute", execute)
    return tmp_path


@pytest.mark.parametrize(("how", "shown"), [
    ({}, "2000"), ({"given": {"RESAMPLES": 100}}, "committed"), ({"only": ["01"]}, "committed"),
    ({"profile": "other"}, "committed"), ({"given": {"RUN": "runs/mine"}}, "committed"),
], ids=["whole", "another parameter", "one notebook", "another profile", "another folder"])
def test_only_a_whole_default_run_with_its_own_parameters_refreshes_the_shown_figures(played, how, shown):
    folder = reproduce(**how, root=played)
    assert (folder / "figures" / "x.png").read_text() in ("100", "2000")
    assert (played / "figures" / "x.png").read_text() == shown


def test_the_manifest_keeps_the_notebooks_of_earlier_calls(played):
    shutil.copy(played / "notebooks" / "01_draw.ipynb", played / "notebooks" / "02_more.ipynb")
    for only in ("01", "02"):
        folder = reproduce(only=[only], root=played)
    kept = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["notebooks"]
    assert [report["notebook"] for report in kept] == ["01_draw", "02_more"]


@pytest.mark.parametrize(("given", "words"), [
    ({"REPLIES": ["data/nowhere.jsonl"]}, "REPLIES names data/nowhere.jsonl"),
    ({"PROMPTS": "nobodys"}, "nobodys"),
    ({"LIMIT": -1}, "LIMIT must be 0 or more, got -1"),
    ({"LIMIT": 2.5}, "LIMIT must be int like 0, got 2.5"),
    ({"SPEND_LIMIT": float("nan")}, "SPEND_LIMIT must be 0 or more, got nan"),
    ({"RESAMPLES": 0}, "RESAMPLES must be 1 or more, got 0"),
])
def test_what_is_missing_or_too_small_is_named_before_anything_runs(played, given, words):
    with pytest.raises(InputError, match=words):
        reproduce("p", given=given, root=played)
    assert not (played / "runs").exists()


# --- the dry run ---

@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(Kernels, "execute", lambda *args: pytest.fail("a kernel was started"))


def rows(shown):
    """Cells by model and stage."""
    return {tuple(line.split()[:2]): line.split() for line in shown.splitlines()}


def test_a_dry_run_counts_every_stage_of_an_unknown_judge(no_kernel):
    shown = rows(plan("smoke", given={"JUDGE": "nobody", "REPLIES": []}, root=ROOT))
    stages = {stage for model, stage in shown if model == "nobody"}
    assert stages == {"claims", "entail", "summary", "extract", "match", "score", "all"}
    # Two references, four answers, one of them shortened as well: exact.
    assert shown["nobody", "claims"][3] == shown["nobody", "extract"][3] == "7"
    assert shown["nobody", "all"][-1] == "unknown"                                 # without prices


def test_a_dry_run_counts_the_notebooks_that_were_named(no_kernel):
    shown = plan("smoke", only=["02"], given={"JUDGE": "nobody", "REPLIES": []}, root=ROOT)
    stages = {stage for _, stage in rows(shown)}
    assert "claims" in stages
    assert "match" not in stages


def test_what_the_recordings_and_the_runs_store_have_is_not_asked_again(no_kernel, tmp_path):
    replayed = rows(plan("smoke", given={"RUN": str(tmp_path)}, root=ROOT))
    assert replayed["large-llm-2026-11", "all"][3] == "0"
    assert list(tmp_path.iterdir()) == []                                          # nothing was written


def files(tmp_path):
    """A user's own triplets and answers, and where they are."""
    triplets, answers = judgeable(3, 2)
    write_jsonl(tmp_path / "t.jsonl", triplets)
    write_jsonl(tmp_path / "a.jsonl", answers)
    return triplets, {"SOURCE": "files", "TRIPLETS": str(tmp_path / "t.jsonl"), "REPLIES": [], "LIMIT": 0,
                      "ANSWERS": str(tmp_path / "a.jsonl"), "RUN": str(tmp_path / "run"), "COMPANIES": [],
                      "MODELS": []}


def test_models_that_write_are_counted_and_their_stored_answers_are_not(no_kernel, tmp_path):
    triplets, given = files(tmp_path)
    given |= {"WRITERS": [{"model": "w", "context_chars": 0}], "JUDGE": ""}
    assert rows(plan("smoke", given=given, root=ROOT))["w", "answer"][2:4] == ["0", "3"]
    store = Replies(tmp_path / "run" / "replies.sqlite")

    class Writer:
        """Saves a reply to the first question, as the model itself would have."""
        signature = ""

        def ask(self, requests, progress=""):
            judge = LLMJudge("w", store=store, mode="replay")
            store.put(Record(judge.key(requests[0]), "answer", "w", "An answer."))
            raise InputError("enough")

    with pytest.raises(InputError, match="enough"):
        write_answers(triplets, Writer(), ModelEndpoint(model="w", context_chars=0))
    assert rows(plan("smoke", given=given, root=ROOT))["w", "answer"][2:4] == ["1", "2"]
    fresh = rows(plan("smoke", given={**given, "MODE": "refresh"}, root=ROOT))
    assert fresh["w", "answer"][2:4] == ["0", "3"]


@pytest.mark.parametrize(("profile", "given"), [("findver", {}), ("smoke", {"JUDGE": ""})])
def test_a_profile_that_asks_nobody_says_so_at_once(no_kernel, monkeypatch, profile, given):
    monkeypatch.setattr("ems.study.run.steps.load_data", lambda *args, **settings: pytest.fail("data were read"))
    assert "nothing to pay" in plan(profile, given=given, root=ROOT)
    assert "nothing to pay" in plan("smoke", only=["07"], root=ROOT)


@pytest.mark.parametrize(("given", "words"), [
    ({"TRANSCRIPTS": "nowhere"}, "TRANSCRIPTS names nowhere"), ({"TRANSCRIPTS": ""}, "TRANSCRIPTS must name"),
])
def test_missing_transcripts_are_named_in_one_line(no_kernel, given, words):
    with pytest.raises(InputError, match=words) as error:
        plan("paper", given={**given, "PROMPTS": "kit"}, root=ROOT)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=words):
        reproduce("paper", given={**given, "PROMPTS": "kit"}, root=ROOT)


def test_a_dry_run_needs_no_key(no_kernel, tmp_path):
    given = files(tmp_path)[1] | {"JUDGE": "nobody", "MODE": "live", "KEY_ENV": "A_KEY_THAT_IS_NOT_SET"}
    assert ("nobody", "all") in rows(plan("smoke", given=given, root=ROOT))


def test_profiles_hold_mappings_of_parameters(tmp_path):
    project(tmp_path, "[1, 2]", _01_x=['RUN = "runs/lab"  # folder'])
    with pytest.raises(InputError, match="must map"):
        load_profile(tmp_path, "p")
    with pytest.raises(InputError, match="there are p"):
        load_profile(tmp_path, "q")
    path = notebooks(tmp_path)[0]
    cell = {"metadata": {"tags": ["parameters"]}, "source": ["RUN: str = 1"]}
    path.write_text(json.dumps({"cells": [cell]}))
    with pytest.raises(InputError, match="NAME = VALUE"):
        declared(path)
