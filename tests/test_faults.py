"""A judge whose server, network, disk or user gets in the way: what is repeated, what ends a run, what is kept."""

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from doubles import ask, echo, judge_of, texts
from loopback import Fault, Loopback, by_words, completion, error, mixed

import ems
from ems.judge import client, store
from ems.judge.client import Failed, JudgeUnavailable, Pace
from ems.judge.store import Replies
from ems.types import Answer, InputError, Triplet

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Waits a fiftieth as long: a run of nothing but errors ends after 0.3 seconds."""
    monkeypatch.setattr(client, "WAIT", 0.01)


def expected(n):
    return [f"re: question {i}" for i in range(n)]


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
        assert [(r.usable, r.error) for r in judge.ask(ask(3))] == [
            ("re: question 0", ""),
            (None, reason),
            ("re: question 2", ""),
        ]
        assert (
            server.count == 3
            if fault.status in (403, 418)
            else 5 <= server.count <= 3 + client.ERRORS
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
    monkeypatch.setattr(client, "QUIET", 0.2)
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
    monkeypatch.setattr(client, "QUIET", 0.2)
    with Loopback(echo, latency=0.5) as server:
        judge_of(server).ask(ask(3))
    assert f"m at {server.url}: no answer for 0.2 s, 3 calls under way" in capsys.readouterr().err


# --- what ends a run ---

PERMANENT = {
    "500": (error(500, "no weights here"), "'http 500': no weights here"),
    "429": (error(429, "slow\ndown"), "'http 429': slow down"),
    "reset": (Fault(reset=True), "'connection'"),
    "page": (Fault(body="<html><title>Hi</title></html>"), "'not JSON': <html><title>Hi</title>"),
    "empty": (Fault(body=""), "'empty body'"),
    "wrong shape": (Fault(body={"detail": "try /v2"}), "'wrong shape': .*try /v2"),
}


@pytest.mark.parametrize("good", [0, 100])
@pytest.mark.parametrize("kind", PERMANENT)
def test_nothing_but_errors_end_a_run_before_and_after_the_first_reply(kind, good):
    fault, shown = PERMANENT[kind]
    with Loopback(echo, faults=lambda n, body: fault if n >= good else None) as server:
        judge = judge_of(server, workers=128)
        with pytest.raises(
            JudgeUnavailable, match=f"nothing but errors, the last {shown}"
        ) as raised:
            judge.ask(ask(400))
        assert (
            server.count - good <= 2 * 35 + 12
        )  # a good reply that comes late opens the window once more
    assert f"{good} replies that came are saved in memory" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_run_ends_after_twenty_seconds_and_forty_calls(monkeypatch):
    """The rule with its own numbers, on a clock that jumps: 32 calls fail, then one at a time."""
    now = [1000.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(client, "WAIT", 0.5)
    pace, calls = Pace(128), []

    def run():
        while len(calls) < 100:
            while pace.may_start():
                pace.under_way += 1
                calls.append(now[0])
            now[0] += 0.1
            while pace.under_way:
                pace.under_way -= 1
                pace.failed(Failed("http 500", "no"), str(len(calls)))

    with pytest.raises(JudgeUnavailable, match="nothing but errors"):
        run()
    assert 10 < now[0] - 1000 <= 20
    assert 32 < len(calls) <= 40


@pytest.mark.parametrize(
    ("reply", "why", "kept", "hint"),
    [
        (completion("The point", finish="length"), "length", "The point", "needs thinking_tokens"),
        (completion(None, finish="length"), "length", "", "needs thinking_tokens"),
        (completion(None, reasoning_content="The point"), "no text", "", ""),
        (completion(None, refusal="No."), "refusal", "No.", ""),
        (completion("I am sorry."), "unreadable", "I am sorry.", ""),
    ],
)
def test_replies_of_no_use_end_a_run_and_are_kept(tmp_path, reply, why, kept, hint):
    with Loopback(lambda body: reply) as server:
        judge = judge_of(server, store=Replies(tmp_path / "r.sqlite"))
        with pytest.raises(
            JudgeUnavailable, match=rf"32 replies in a row cannot be used \(32 {why}\).*{hint}"
        ):
            judge.ask(ask(200, read=lambda text: None))
        (saved,) = judge.ask(ask(1))
        assert (saved.text, saved.error or "unreadable") == (kept, why)
        assert server.count == len(judge.store.records()) == 32


def test_one_good_reply_among_useless_ones_lets_a_run_go_on():
    with Loopback(lambda body: "no" if int(echo(body)[13:]) % 20 else "7") as server:
        records = judge_of(server, workers=1).ask(
            ask(100, read=lambda text: 7 if text == "7" else None)
        )
    assert Counter(record.text for record in records) == {"no": 95, "7": 5}
    assert server.count == 100


@pytest.mark.parametrize(
    ("fault", "workers", "says"),
    [
        (Fault(delay=30), 2, "timeout"),
        (Fault(delay=30), 32, "timeout"),
        (error(400, "Invalid model: m"), 32, "32 'http 400': Invalid model: m"),
    ],
)
def test_a_server_that_is_mute_or_refuses_every_request_ends_a_run(fault, workers, says):
    with Loopback(faults=lambda n, body: fault) as server:
        with pytest.raises(JudgeUnavailable, match=f"replies in a row cannot be used .*{says}"):
            judge_of(server, workers=workers, timeout=0.3 if says == "timeout" else 30).ask(
                ask(300)
            )
        assert server.count < 2 * 32


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (error(401, "Incorrect API key"), "Incorrect API key; check the address, the key"),
        (Fault(402), "'http 402'"),
        (error(404, "The model `m` does not exist"), "does not exist; check"),
        (error(429, "Your quota is used up", code="insufficient_quota"), "quota is used up; check"),
        (Fault(429, headers={"Retry-After": "3600"}), "longer than the time limit.*come back then"),
        (Fault(307, headers={"Location": "http://elsewhere/v1"}), "'http 307'.*check the address"),
    ],
)
def test_an_unusable_endpoint_is_one_early_error_and_loses_nothing(fault, says):
    with Loopback(echo, faults=lambda n, body: fault if n >= 5 else None) as server:
        judge = judge_of(server, workers=4)
        with pytest.raises(JudgeUnavailable, match=says) as raised:
            judge.ask(ask(200))
        assert server.count <= 5 + 2 * 4
        assert len(judge.store.records()) == 5
    assert "\n" not in str(raised.value)


def test_an_address_where_nobody_listens_is_one_early_error():
    with Loopback() as gone:
        pass
    with pytest.raises(JudgeUnavailable, match="'unreachable'.*connection attempts failed"):
        judge_of(gone).ask(ask(50))


# --- how many calls are under way ---


def test_the_window_grows_with_replies_and_shrinks_when_the_server_is_busy(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    pace = Pace(40)
    for _ in range(32):
        pace.reply("")
    assert pace.window == pytest.approx(32 * 1.05)
    for _ in range(500):
        pace.reply("")
    assert pace.window == 40  # `workers` is the ceiling
    for seconds, window in ((0, 32), (10, 32), (16, 25.6), (17, 25.6), (32, 20.48)):
        now[0] = seconds
        pace.failed(Failed("http 429"), "k")
        pace.reply("")
        assert pace.window == pytest.approx(window, abs=0.2)
    pace.failed(Failed("connection"), "k")  # says nothing of a server's load
    assert pace.window == pytest.approx(20.48, abs=0.2)
    assert Pace(4).window == 4


def test_more_than_32_calls_are_under_way_after_a_while():
    with Loopback(echo, latency=0.2) as server:
        assert texts(judge_of(server, workers=64).ask(ask(300))) == expected(300)
        assert 32 < server.peak <= 64


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


RUN = (
    "import sys; from ems.judge import Request; from ems.judge.client import *; url, path = sys.argv[1:]\n"
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
    """Faults of every kind, and now and then the reply to some other question: it must not become a number."""
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


@pytest.mark.parametrize(
    ("scorer", "joint"), [("llm", True), ("llm", False), ("ragchecker", False), ("judge", False)]
)
def test_a_judge_that_only_apologises_is_not_paid_to_the_end(scorer, joint):
    triplets = [Triplet(f"t{i}", f"t{i}", "What rose?", f"Sales rose {i}%.") for i in range(100)]
    answers = [Answer(t.id, "m", t.reference) for t in triplets]
    with Loopback("Sorry, I cannot help with that.") as server:
        evaluator = ems.build(judge_of(server), scorer, joint=joint)
        with pytest.raises(JudgeUnavailable, match="cannot be used"):
            evaluator.evaluate(triplets, answers)
        assert len(server.bodies) == client.USELESS
