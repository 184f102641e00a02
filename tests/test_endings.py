"""What ends a run of a judge, for all of its threads, and how many calls are under way."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from doubles import ask, echo, expected, judge_of, texts, until
from loopback import Fault, Loopback, completion, error

import ems
from ems.judge import pace
from ems.judge.client import JudgeUnavailable
from ems.judge.pace import Failed, Pace
from ems.judge.store import Replies
from ems.types import Answer, Triplet


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Waits a fiftieth as long: a run of nothing but errors ends after 0.3 seconds."""
    monkeypatch.setattr(pace, "FIRST_WAIT", 0.01)


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
        # Calls under way fail together: 32 at first, 128 after a hundred replies. A good reply that
        # comes late lets as many go out once more. Then they go out one at a time.
        window = 128 if good else 32
        assert server.count - good <= 2 * window + 12
    assert f"{good} replies that came are saved in memory" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_run_ends_after_twenty_seconds_and_forty_calls(monkeypatch):
    """The rule with its own numbers, on a clock that jumps: 32 calls fail, then one at a time."""
    now = [1000.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pace, "FIRST_WAIT", 0.5)
    limits, calls = Pace(128), []

    def run():
        while len(calls) < 100:
            while limits.may_start():
                limits.under_way += 1
                calls.append(now[0])
            now[0] += 0.1
            while limits.under_way:
                limits.under_way -= 1
                limits.failed(Failed("http 500", "no"), str(len(calls)))

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
        ) as error:
            judge.ask(ask(200, read=lambda text: None))
        assert (f"; the last one begins {kept!r}; 32 replies" in str(error.value)) == bool(kept)
        (saved,) = judge.ask(ask(1))
        assert (saved.text, saved.error or "unreadable") == (kept, why)
        assert server.count == len(judge.store.records()) == 32


def test_the_reply_that_is_shown_is_short_and_safe():
    with Loopback(lambda body: "\x1b[31mI\nam sorry. " + "No. " * 40) as server:
        with pytest.raises(JudgeUnavailable) as error:
            judge_of(server).ask(ask(200, read=lambda text: None))
    shown = str(error.value).rpartition("the last one begins ")[2].partition("; ")[0]
    assert shown == repr("\ufffd[31mI am sorry. " + "No. " * 15 + "No…")


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
        assert len(server.bodies) == pace.UNUSABLE_LIMIT


# --- threads ---


SEED = 7


def test_what_ends_the_asking_of_one_thread_ends_that_of_all():
    def fault(number, body):
        if "question 7" in str(body):
            return error(401, "no such key")
        return Fault(delay=0.5 if body["max_tokens"] == 7 else 0.05)  # the second thread is slow

    with Loopback(echo, faults=fault) as server:
        judge = judge_of(server, workers=4, seed=SEED)
        with judge.asking(), ThreadPoolExecutor(2) as threads:
            asking = [threads.submit(judge.ask, ask(n, f"t{n}", max_tokens=n)) for n in (8, 7)]
            asking.append(threads.submit(judge.ask, ask(7, "later")))
        for future in asking:
            with pytest.raises(JudgeUnavailable, match="no such key"):
                future.result()
        assert len(judge.store.records()) < 8 + 7
        server.faults = ()
        assert texts(judge.ask(ask(8, "t8", max_tokens=8))) == expected(8)  # it can be used again


def test_another_thread_can_stop_the_asking():
    with Loopback(echo, faults=lambda n, body: Fault(delay=60) if n >= 5 else None) as server:
        judge = judge_of(server, workers=4)
        with judge.asking() as stop, ThreadPoolExecutor(1) as threads:
            asking = threads.submit(judge.ask, ask(20))
            until(lambda: len(judge.store.records()) == 5)
            stop.set()
            with pytest.raises(JudgeUnavailable, match="stopped; 5 replies that came are saved"):
                asking.result(timeout=10)


def test_an_interrupt_of_a_block_says_what_is_saved():
    with Loopback(echo) as server:
        judge = judge_of(server)
        judge.ask(ask(3))
    with pytest.raises(KeyboardInterrupt, match="stopped; 3 replies that came are saved in memory"):
        with judge.asking():
            raise KeyboardInterrupt


# --- how many calls are under way ---


def test_the_window_doubles_until_the_server_complains():
    limits = Pace(512)
    for window in (64, 128, 256, 512):
        for _ in range(window // 2):  # a whole window of replies
            limits.replied("")
        assert limits.window == window
    limits.replied("")
    assert limits.window == 512  # `workers` is the ceiling
    assert Pace(4).window == 4


@pytest.mark.parametrize("reason", ["http 429", "http 503"])
def test_after_a_complaint_the_window_grows_by_a_twentieth(reason):
    limits = Pace(100)
    limits.failed(Failed(reason), "k")
    assert limits.window == pytest.approx(0.8 * 32)
    for _ in range(32):
        limits.replied("")
    assert limits.window == pytest.approx(0.8 * 32 + 32 * 0.05)
    for _ in range(2000):
        limits.replied("")
    assert limits.window == 100


def test_the_window_shrinks_once_in_fifteen_seconds_while_the_server_is_busy(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    limits = Pace(40)
    for _ in range(8):
        limits.replied("")
    assert limits.window == 40
    for seconds, window in ((0, 32), (10, 32), (16, 25.6), (17, 25.6), (32, 20.48)):
        now[0] = seconds
        limits.failed(Failed("http 429"), "k")
        limits.replied("")
        assert limits.window == pytest.approx(window, abs=0.2)
    limits.failed(Failed("connection"), "k")  # says nothing about the server's load
    assert limits.window == pytest.approx(20.48, abs=0.2)


def test_more_than_32_calls_are_under_way_after_a_while():
    with Loopback(echo, latency=0.2) as server:
        assert texts(judge_of(server, workers=64).ask(ask(300))) == expected(300)
        assert 32 < server.peak <= 64
