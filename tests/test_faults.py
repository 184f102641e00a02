"""Whole evaluations against a server and a machine that fail in every way a test can arrange."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from math import isnan
from pathlib import Path

import pytest
from loopback import MIXED, Fault, Loopback, completion, mixed
from scripted import judgeable, judged
from tiny import project

import ems.judge.wire
from ems.baselines import RAGChecker
from ems.cli import main
from ems.io import write_jsonl
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.presets import build
from ems.study.run.runner import reproduce
from ems.types import InputError

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
TRIPLETS, ANSWERS = judgeable(50, 4)


@pytest.fixture(autouse=True)
def endpoint(monkeypatch):
    """No memory of earlier endpoints, and short waits between tries."""
    monkeypatch.setattr(ems.judge.wire, "LEARNED", {})
    monkeypatch.setattr(random, "uniform", lambda low, high: 0.01)


def files(folder: Path) -> list[str]:
    return [str(write_jsonl(folder / "t.jsonl", TRIPLETS)), str(write_jsonl(folder / "a.jsonl", ANSWERS))]


def to_another_prompt(body: dict) -> dict:
    """A reply that fits some other question; what it says must not become a number."""
    number_wanted = "JSON" not in body["messages"][-1]["content"]
    return completion('{"points": ["Another answer."]}' if number_wanted else "3", body)


def five_percent(number: int, body: dict) -> Fault | None:
    """Mixed faults, the same in every run: passing ones, a reply to another prompt, two stalls early on."""
    if number in (20, 40):
        return Fault(delay=60)
    dice = random.Random(number)
    kinds = (*MIXED, Fault(body=to_another_prompt(body)))
    return kinds[dice.randrange(len(kinds))] if dice.random() < 0.05 else None


def judge_of(server: Loopback, store: Replies | None = None, timeout: float = 600.0) -> LLMJudge:
    return LLMJudge("m", base_url=server.url, store=store, timeout=timeout)


def test_mixed_faults_change_nothing_but_what_is_shown_as_unscored(tmp_path):
    with Loopback(judged) as server:
        clean = build(judge_of(server), "llm").evaluate(TRIPLETS, ANSWERS)
        asked = server.count
    with Loopback(judged, faults=five_percent) as server:
        pipeline = build(judge_of(server, Replies(tmp_path / "r.sqlite"), timeout=8), "llm")
        faulty = pipeline.evaluate(TRIPLETS, ANSWERS)
        assert asked < server.count < asked * 1.1
    lost = [(a, b) for a, b in zip(clean, faulty, strict=True) if a != b]
    assert 0 < len(lost) < 25
    assert sum(pipeline.unread.values()) > 0
    for sound, hurt in lost:
        assert hurt.unscored > 0
        assert hurt.reason
        if isnan(hurt.recall):                 # a side's points were lost
            continue
        for i, (match, score) in enumerate(zip(hurt.match, hurt.score, strict=True)):
            assert match in (None, sound.match[i])
            assert score in (None, sound.score[i])
    with Loopback(judged) as server:           # what the network broke is asked again, and only that
        again = build(judge_of(server, Replies(tmp_path / "r.sqlite")), "llm").evaluate(TRIPLETS, ANSWERS)
        assert server.count < asked * 0.2
    assert sum(a != b for a, b in zip(clean, again, strict=True)) < len(lost)


def test_a_model_that_always_refuses_gives_no_number_and_exit_3(tmp_path, capsys):
    with Loopback(lambda body: completion(None, body, refusal="I cannot help with that.")) as server:
        status = main(["evaluate", *files(tmp_path), "-o", str(tmp_path / "o.jsonl"), "--judge", "m",
                       "--base-url", server.url, "--store", str(tmp_path / "r.sqlite")])
    rows = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert status == 3
    assert len(rows) == 50
    assert {row["f1"] for row in rows} == {None}
    assert all(row["unscored"] for row in rows)
    assert "50 of 50 points are unscored" in capsys.readouterr().err


def start(folder: Path, url: str, workers: int = 8) -> subprocess.Popen:
    command = [sys.executable, "-m", "ems.cli", "evaluate", *files(folder), "-o", str(folder / "out.jsonl"),
               "--judge", "m", "--base-url", url, "--store", str(folder / "r.sqlite"),
               "--workers", str(workers)]
    # A test run in the background ignores interrupts, and its children would inherit that.
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_killed_five_times_it_finishes_and_asks_nothing_twice_but_what_was_in_flight(tmp_path):
    workers, dice = 8, random.Random(5)
    with Loopback(judged) as server:
        expected = build(judge_of(server), "llm").evaluate(TRIPLETS, ANSWERS)
        asked = server.count
    with Loopback(judged, latency=0.01) as server:
        for _ in range(5):
            process, before = start(tmp_path, server.url, workers), server.count
            moment = before + dice.randint(1, asked // 7)
            while server.count < moment:
                assert process.poll() is None, process.communicate()
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert not (tmp_path / "out.jsonl").exists()
        process = start(tmp_path, server.url, workers)
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert asked <= server.count <= asked + 5 * workers
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(r["match"], r["score"]) for r in rows] == [(list(r.match), list(r.score)) for r in expected]


def test_an_interrupt_ends_within_two_seconds_and_says_how_to_go_on(tmp_path):
    tries = [interrupted(tmp_path / str(n)) for n in range(2)]   # the better of two, for a busy machine
    assert min(tries) < 2


def interrupted(folder: Path) -> float:
    """Seconds from the interrupt to the end of the process."""
    with Loopback(judged, faults=lambda n, body: Fault(delay=60) if n >= 30 else None) as server:
        process = start(folder, server.url)
        while server.count < 38:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        seconds = time.monotonic() - began
    assert process.returncode == 130
    assert re.search(r"ems: stopped with 30 of 100 replies of m received, saved in .*r.sqlite; "
                     r"run the same command again to go on$", err.strip())
    assert "Traceback" not in err
    assert len(Replies(folder / "r.sqlite")) == 30
    return seconds


SECRET = "sk-planted-in-the-environment-0123456789"
PARAMETERS = 'RUN = "runs/p"  # folder\nURL = ""  # address'
ASK = """import json
from pathlib import Path

from ems import data as frames
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.asking import Request

judge = LLMJudge("m", base_url=URL, store=Replies(f"{RUN}/replies.sqlite"))
replies = judge.ask([Request("match", f"question {i}", 16) for i in range(6)], "asking")
Path(f"{RUN}/usage_x.json").write_text(json.dumps(frames.judge_usage(judge)))
print(judge, vars(judge))
judge, replies"""


def test_a_key_in_the_environment_appears_nowhere_after_a_run(tmp_path, monkeypatch, capfd):
    pytest.importorskip("papermill", reason="profiles need papermill (pip install 'ems-kit[notebooks]')")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    scold = Fault(401, {"error": {"message": f"{SECRET} is no key of ours"}})
    bad = Fault(400, {"error": {"message": f"bad request with {SECRET}"}})
    with Loopback("1", faults=[bad, Fault(500), Fault(429), None, None, None, None, None, None]) as server:
        project(tmp_path, f"common: {{URL: '{server.url}'}}",
                _01_ask=[PARAMETERS, ASK], _02_fail=[PARAMETERS, ASK.replace("question", "other")])
        reproduce("p", only=["01"], root=tmp_path)
        assert server.headers[0]["authorization"] == f"Bearer {SECRET}"         # it was really used
        server.faults = lambda n, body: scold
        with pytest.raises(InputError, match="is no key of ours") as error:
            reproduce("p", only=["02"], root=tmp_path)
    assert "JudgeUnavailable" in (tmp_path / "runs/p/notebooks/02_fail.ipynb").read_text()
    assert main(["replies", "export", str(tmp_path / "export.jsonl"), "--prompts", "--store",
                 str(tmp_path / "runs/p/replies.sqlite")]) == 0
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert {"manifest.json", "01_ask.ipynb", "replies.sqlite", "usage_x.json"} <= {p.name for p in written}
    assert os.environ["OPENAI_API_KEY"] == SECRET
    assert not [p for p in written if SECRET.encode() in p.read_bytes()]
    assert SECRET not in str(error.value)
    assert SECRET not in "".join(capfd.readouterr())


def test_a_notebook_whose_judge_left_questions_open_is_run_again(tmp_path, capfd):
    pytest.importorskip("papermill", reason="profiles need papermill (pip install 'ems-kit[notebooks]')")
    busy, declined = Fault(400, {"error": {"message": "come back"}}), completion(None, refusal="No.")

    def fault(number: int, body: dict) -> Fault | None:
        asked = body["messages"][-1]["content"]
        if asked == "question 1" and number < 6:
            return busy
        return Fault(body=declined) if asked == "question 2" else None

    with Loopback("1", faults=fault) as server:
        project(tmp_path, f"common: {{URL: '{server.url}'}}", {"01_ask": ["usage_x.json"]}, _01_ask=[PARAMETERS, ASK])
        open_question = "1 questions had no reply (http 400 1): the same command asks again"
        for says, calls in ((open_question, 6), ("s\n", 7), ("skipped", 7)):
            reproduce("p", root=tmp_path)
            assert says in capfd.readouterr().err
            assert server.count == calls              # what the model declined is not asked again


def test_two_percent_of_malformed_bodies_cost_as_many_more_calls():
    with Loopback(judged, faults=mixed(0.02, seed=1, kinds=MIXED[-2:])) as server:
        judge = judge_of(server)
        RAGChecker(judge, check="single").check(TRIPLETS, ANSWERS)
        requests = sum(u.requests - u.shared for u in judge.usage().values())
        assert requests > 300
        assert requests < server.count <= requests * 1.025
