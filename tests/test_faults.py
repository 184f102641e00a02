"""A judge whose server, network, disk or user gets in the way: what is repeated, what is kept."""

import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doubles import ask, echo, expected, judge_of, texts
from loopback import Fault, Loopback, by_words, completion, mixed

import ems
from ems.judge import pace, store
from ems.judge.store import Replies
from ems.types import Answer, InputError, Triplet

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Waits a fiftieth as long: a run of nothing but errors ends after 0.3 seconds."""
    monkeypatch.setattr(pace, "FIRST_WAIT", 0.01)


# --- what passes ---


@pytest.mark.parametrize(
    "fault",
    [
        Fault(429),
        Fault(429, headers={"Retry-After": "0.01"}),
        Fault(429, headers={"Retry-After": "soon"}),
        Fault(502, "<html>bad gateway</html>"),
        Fault(408),
        Fault(409),
        Fault(reset=True),
        Fault(body=completion("1", finish="error")),
        Fault(body={"choices": [{"message": {"content": "1"}, "error": {"code": 502}}]}),
        *(
            Fault(body=text)
            for text in (
                "<html>welcome</html>",
                '{"choices": [{',
                "[" * 100_000,
                "",
                "[]",
                "null",
                '{"error": {"message": "overloaded"}}',
            )
        ),
    ],
    ids=lambda fault: f"{fault.status}-{str(fault.body)[:24]}",
)
def test_a_passing_fault_is_tried_again(fault):
    with Loopback(echo, faults=[fault, fault]) as server:
        judge = judge_of(server)
        assert texts(judge.ask(ask(1))) == expected(1)
        assert server.count == judge.usage()["match"].calls == 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(500), "http 500"),
        (Fault(reset=True), "connection"),
        (Fault(body="<html>"), "not JSON"),
        (Fault(body=" "), "empty body"),
        (Fault(body={"choices": []}), "wrong shape"),
        (Fault(418), "http 418"),
        (Fault(403), "http 403"),
    ],
)
def test_a_lasting_fault_fails_one_request_and_is_asked_again_by_the_next_run(fault, reason):
    with Loopback(
        echo, faults=lambda n, body: fault if "question 1" in str(body) else None
    ) as server:
        judge = judge_of(server)
        assert [(r.text, r.error) for r in judge.ask(ask(3))] == [
            ("re: question 0", ""),
            ("", reason),
            ("re: question 2", ""),
        ]
        assert (
            server.count == 3
            if fault.status in (403, 418)
            else 5 <= server.count <= 3 + pace.ERROR_LIMIT
        )
        assert judge.usage()["match"].failures == {reason: 1}
        server.faults = ()
        assert texts(judge.ask(ask(3))) == expected(3)


def test_a_stalled_reply_fails_alone():
    for stall in (Fault(delay=20), Fault(drip=0.2)):
        with Loopback(
            echo, faults=lambda n, body, stall=stall: stall if "question 3" in str(body) else None
        ) as server:
            judge, began = judge_of(server, timeout=0.5), time.monotonic()
            assert [r.error for r in judge.ask(ask(12))] == [
                "timeout" if i == 3 else "" for i in range(12)
            ]
            assert time.monotonic() - began < 10


def test_a_server_that_restarts_is_waited_for():
    with Loopback(
        echo, faults=lambda n, body: Fault(reset=True) if 20 <= n < 55 else None
    ) as server:
        assert texts(judge_of(server).ask(ask(100))) == expected(100)
        assert server.count == 100 + 35


def test_a_wait_that_the_server_names_is_waited_out_and_announced(monkeypatch, capsys):
    monkeypatch.setattr(pace, "SILENCE", 0.2)
    busy = Fault(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.7"})
    with Loopback(echo, faults=lambda n, body: busy if n < 8 else None) as server:
        began = time.monotonic()
        assert texts(judge_of(server, workers=8).ask(ask(20))) == expected(20)
        assert time.monotonic() - began > 0.7  # longer than a run of errors may last here
    assert (
        "0 calls under way, the last error: 'http 429': (Retry-After: 0.7) slow down"
        in capsys.readouterr().err
    )


def test_silence_is_said_to_be_silence(monkeypatch, capsys):
    monkeypatch.setattr(pace, "SILENCE", 0.2)
    with Loopback(echo, latency=0.5) as server:
        judge_of(server).ask(ask(3))
    assert f"m at {server.url}: no answer for 0.2 s, 3 calls under way" in capsys.readouterr().err


# --- the disk, the user, other processes ---


def test_no_call_goes_out_without_room_for_its_reply(tmp_path, monkeypatch):
    room = iter([9e9] * 10 + [1000.0] * 10_000)
    monkeypatch.setattr(
        store.shutil, "disk_usage", lambda path: type("Usage", (), {"free": next(room)})
    )
    with Loopback(echo, latency=0.05) as server:
        judge = judge_of(server, store=Replies(tmp_path / "r.sqlite"))
        with pytest.raises(InputError, match="less than 8 MB"):
            judge.ask(ask(40))
        assert server.count == len(judge.store.records()) == 10  # those on their way are saved
        with pytest.raises(InputError, match="less than 8 MB"):
            judge.ask(ask(40))
        assert server.count == 10


def test_no_call_goes_out_where_its_reply_cannot_be_saved(tmp_path):
    path = tmp_path / "r.sqlite"
    saved = Replies(path)
    saved._db = sqlite3.connect(
        f"file:{path}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
    )
    with Loopback(echo) as server:
        with pytest.raises(InputError, match="cannot be written"):
            judge_of(server, store=saved).ask(ask(40))
        assert server.count == 0


RUN = (
    "import sys\n"
    "from ems.judge import Request\n"
    "from ems.judge.client import LLMJudge, Replies\n"
    "url, path = sys.argv[1:]\n"
    "judge = LLMJudge('m', base_url=url, store=Replies(path), workers=8)\n"
    "records = judge.ask([Request('t', f'question {i}', 5) for i in range(120)][::%d])\n"
    "print([record.text for record in records][::%d], flush=True)"
)


def start(server, path, step=1):
    return subprocess.Popen(
        [sys.executable, "-c", RUN % (step, step), server.url, str(path)],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_an_interrupt_saves_what_came_and_says_how_to_go_on(tmp_path):
    path = tmp_path / "r.sqlite"
    with Loopback(echo, faults=lambda n, body: Fault(delay=60) if n >= 20 else None) as server:
        process = start(server, path)
        while server.count < 28:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode != 0
    assert f"stopped; 20 replies that came are saved in {path}; run it again" in err
    (tmp_path / "copy.sqlite").write_bytes(path.read_bytes())  # the main file alone has them all
    assert len(Replies(tmp_path / "copy.sqlite").records()) == 20


@pytest.mark.slow
def test_killed_three_times_it_asks_nothing_twice_but_what_was_under_way(tmp_path):
    with Loopback(echo, latency=0.05) as server:
        for kill in range(3):
            process, before = start(server, tmp_path / "r.sqlite"), server.count
            while server.count < before + 20 + kill:
                assert process.poll() is None, process.communicate()
                time.sleep(0.003)
            process.kill()
            process.communicate()
        out, err = start(server, tmp_path / "r.sqlite").communicate()
        assert out == f"{expected(120)}\n", err
        assert 120 <= server.count <= 120 + 3 * 8


@pytest.mark.slow
def test_two_processes_share_a_store_without_mixing_replies(tmp_path):
    with Loopback(lambda body: f"{echo(body)} / call {server.count}", latency=0.02) as server:
        runs = [start(server, tmp_path / "r.sqlite", step) for step in (1, -1)]  # from both ends
        (one, err), (two, _) = [run.communicate() for run in runs]
        assert one == two, err  # every call differed: both use the one saved first
        assert one.count("call") == 120
        assert server.count < 200


# --- whole evaluations ---

TRIPLETS = [
    Triplet(
        f"t{i}",
        f"g{i // 3}",
        "What was said?",
        f"Sales rose by {i} percent. Costs fell by {i}0 dollars. Firm {i} opened {i} shops.",
    )
    for i in range(12)
]
ANSWERS = [
    Answer(f"t{i}", "m", f"Sales rose by {i} percent. Costs rose. Firm {i} opened {i} shops.")
    for i in range(12)
]


def other_prompt(number, body):
    """Faults of every kind, and at times the reply to another question: it must give no number."""
    if number % 11 == 5:
        return Fault(body=completion("Another answer altogether.", body))
    return mixed(0.1)(number, body)


def test_faults_change_no_value_and_what_they_lose_is_shown_as_unscored():
    with Loopback(by_words) as server:
        clean = ems.build(judge_of(server), joint=True).evaluate(TRIPLETS, ANSWERS)
        asked = server.count
    assert 0.3 < sum(result.recall for result in clean) / len(clean) < 1
    with Loopback(by_words, faults=mixed(0.2)) as server:
        assert ems.build(judge_of(server), joint=True).evaluate(TRIPLETS, ANSWERS) == clean
        assert server.count > asked
    with Loopback(by_words, faults=other_prompt) as server:
        hurt = ems.build(judge_of(server), joint=True).evaluate(TRIPLETS, ANSWERS)
    lost = [(sound, result) for sound, result in zip(clean, hurt, strict=True) if sound != result]
    assert lost
    for sound, result in lost:
        assert result.unscored > 0
        assert result.reason
        if result.ref_points == sound.ref_points and result.ans_points == sound.ans_points:
            assert all(i in (None, j) for i, j in zip(result.match, sound.match, strict=True))
            assert all(s in (None, t) for s, t in zip(result.score, sound.score, strict=True))
