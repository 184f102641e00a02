"""Missing files, calls and models are said before a kernel starts, and before anything costs money."""

import csv
from importlib.util import find_spec

import pytest
from loopback import Fault, Loopback
from test_transcripts import ACME, as_markdown
from tiny import project

import ems.judge.wire
from ems.asking import Record
from ems.judge.store import Replies
from ems.study.run.preflight import check_models, check_transcripts
from ems.study.run.runner import Kernels, reproduce
from ems.types import InputError

GONE = Fault(404, {"error": {"message": "no such model", "code": "model_not_found"}})
PARAMETERS = """RUN = "runs/lab"  # folder
SOURCE = "q3-2024"  # data
TRANSCRIPTS = ""  # folder
COMPANIES = []  # tickers
WRITERS = []  # models
MODE = "replay"  # or live"""


@pytest.fixture(autouse=True)
def _no_memory_of_endpoints(monkeypatch):
    monkeypatch.setattr(ems.judge.wire, "LEARNED", {})


@pytest.fixture
def calls(tmp_path):
    """A project about two companies' calls, with the call of one of them."""
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / "companies.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, ACME)
        rows.writeheader()
        rows.writerows([ACME, {**ACME, "ticker": "BOR", "names": "Borealis", "transcript": "BOR_FY2024Q3"}])
    (tmp_path / "calls").mkdir()
    as_markdown(tmp_path / "calls").rename(tmp_path / "calls" / "ACM.md")
    return tmp_path


@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(Kernels, "execute", lambda *args: pytest.fail("a kernel was started"))


# --- calls ---

def test_every_call_that_is_missing_or_wrong_is_named_at_once(calls):
    (calls / "calls" / "ACM.md").write_text("Not the call.")
    with pytest.raises(InputError) as error:
        check_transcripts(calls, [{"TRANSCRIPTS": "calls"}])
    said = str(error.value)
    assert said.startswith("TRANSCRIPTS: of 2 calls, 2 cannot be used. ACM: ")
    assert "BOR: " in said
    assert "no transcript BOR_FY2024Q3" in said


@pytest.mark.parametrize("p", [
    {"TRANSCRIPTS": "calls", "COMPANIES": ["ACM"]}, {"TRANSCRIPTS": ""}, {},
    {"TRANSCRIPTS": "calls", "SOURCE": "files"},
])
def test_calls_that_are_there_or_not_wanted_pass(calls, p):
    check_transcripts(calls, [p])


def test_a_missing_call_is_said_before_a_kernel_starts(calls, no_kernel):
    if find_spec("papermill") is None:             # importing it takes seconds, and nothing here runs it
        pytest.skip("profiles need papermill (pip install 'ems-kit[notebooks]')")
    project(calls, "common: {TRANSCRIPTS: calls}", _01_dataset=[PARAMETERS])
    with pytest.raises(InputError, match="BOR"):
        reproduce("p", root=calls)
    assert not (calls / "runs").exists()


# --- models ---

def writer(server, **other):
    return {"model": "writer", "base_url": server.url, "context_chars": 0, **other}


def live(*writers, mode="live", **other):
    return {"MODE": mode, "WRITERS": list(writers), **other}


def missing(tmp_path, *notebooks):
    with pytest.raises(InputError) as error:
        check_models(tmp_path, tmp_path / "replies.sqlite", notebooks)
    return str(error.value)


def test_a_judge_that_is_gone_stops_the_run_before_its_writers_are_paid(tmp_path, monkeypatch, no_kernel):
    if find_spec("papermill") is None:             # importing it takes seconds, and nothing here runs it
        pytest.skip("profiles need papermill (pip install 'ems-kit[notebooks]')")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-for-a-test")
    judged = PARAMETERS.replace("WRITERS = []", 'JUDGE = "judge-1"  # model\nBASE_URL = ""  # place\nX = []')
    with Loopback(models=["writer"]) as well, Loopback(models=["judge-2"], faults=lambda n, body: GONE) as judges:
        project(tmp_path, f"01_dataset: {{WRITERS: [{{model: writer, base_url: '{well.url}'}}], SOURCE: findver, "
                f"MODE: live}}\n03_ems: {{BASE_URL: '{judges.url}', MODE: live}}",
                _01_dataset=[PARAMETERS], _03_ems=[judged])
        with pytest.raises(InputError, match="judge-1 at .*no such model.*near names: 'judge-2'"):
            reproduce("p", root=tmp_path)
        assert well.count == 0


@pytest.mark.parametrize("where", ["WRITERS", "REFERENCE_WRITERS", "CONSOLIDATOR", "OTHER_JUDGE"])
def test_every_model_of_a_notebook_is_looked_up(tmp_path, where):
    with Loopback(models=["other"], faults=lambda n, body: GONE) as server:
        one = {"MODE": "live", where: writer(server) if where in ("CONSOLIDATOR", "OTHER_JUDGE") else [writer(server)]}
        assert "writer at" in missing(tmp_path, one)
        check_models(tmp_path, tmp_path / "replies.sqlite", [{**one, "MODE": "replay"}])
        check_models(tmp_path, tmp_path / "replies.sqlite", [live(writer(server, recorded=True), mode="refresh")])
        assert "served-name at" in missing(tmp_path, live(writer(server, served="served-name")))


def test_a_model_with_saved_replies_may_be_gone_unless_all_is_asked_again(tmp_path):
    Replies(tmp_path / "replies.sqlite").put(Record("k" * 64, "answer", "writer", "An answer."))
    with Loopback(models=["other"], faults=lambda n, body: GONE) as server:
        check_models(tmp_path, tmp_path / "replies.sqlite", [live(writer(server))])
        assert "no such model" in missing(tmp_path, live(writer(server), mode="refresh"))


def test_a_missing_key_is_said_and_a_server_that_is_down_is_not(tmp_path):
    with Loopback() as server:
        pass
    check_models(tmp_path, tmp_path / "replies.sqlite", [live(writer(server))])
    assert "no key in A_KEY_THAT_IS_NOT_SET" in missing(
        tmp_path, live(writer(server, key_env="A_KEY_THAT_IS_NOT_SET")))


def test_nobody_is_asked_for_a_replay(tmp_path):
    check_models(tmp_path, tmp_path / "replies.sqlite", [{"MODE": "replay", "JUDGE": "gone"}, {}])
    assert list(tmp_path.iterdir()) == []
