"""The judge's client against a server that misbehaves in every way a test can arrange."""

import asyncio
import gc
import json
import logging
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pytest
from doubles import ScriptedJudge
from loopback import Fault, Loopback, completion, mixed, refusing
from scripted import judgeable, judged

import ems.judge.wire
from ems.asking import Reply, Request, as_judge
from ems.baselines import RAGChecker
from ems.batches import MissingReplies
from ems.data import load_answers, to_frame
from ems.judge.budget import Planner
from ems.judge.calls import APART, STRIKES
from ems.judge.client import JudgeUnavailable, LLMJudge
from ems.judge.store import Record, Replies, StoreError
from ems.judge.wire import _retry_after
from ems.local.scorers import SimilarityMatcher
from ems.local.sentences import SentenceExtractor
from ems.pipeline import EMS, rescored
from ems.presets import build
from ems.score import LLMScorer
from ems.stats import summarise
from ems.study.ablations import shortening
from ems.study.ablations.reliability import RepeatedJudge, judged_again
from ems.study.dataset.calls import own_triplets
from ems.types import Answer, InputError, Triplet
from ems.variants.sides import SidesLLMScorer

ROOT = Path(__file__).parent.parent
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.fixture(autouse=True)
def endpoint(monkeypatch):
    """No memory of earlier endpoints, and short waits between tries."""
    monkeypatch.setattr(ems.judge.wire, "LEARNED", {})
    monkeypatch.setattr(random, "uniform", lambda low, high: 0.01)


def ask(n: int, task: str = "match", **other) -> list[Request]:
    return [Request(task, f"question {i}", 16, **other) for i in range(n)]


def echo(body: dict) -> str:
    return "re: " + body["messages"][-1]["content"]


def texts(replies: list[Reply]) -> list[str | None]:
    return [reply.text for reply in replies]


def judge_of(server: Loopback, **settings) -> LLMJudge:
    return LLMJudge("m", base_url=server.url, **settings)


def heed_interrupts() -> None:
    """A test run in the background ignores interrupts, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(code: str, *arguments) -> subprocess.Popen:
    prelude = (
        "import sys; sys.path[:0] = ['.', 'tests']\nfrom ems.judge.client import *\nfrom ems.asking import Request\nfrom ems.types import *\nfrom ems.judge.store import Replies\n"
        "url, path = sys.argv[1:3]\n"
    )
    return subprocess.Popen([sys.executable, "-c", prelude + code, *map(str, arguments)], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=heed_interrupts)


# --- asking ---

def test_replies_come_in_order_and_usage_is_counted():
    with Loopback(echo, latency=0.01) as server:
        judge = judge_of(server, store=Replies())
        asked = ask(20) + ask(20, "score")[::-1] + ask(5)               # the same 20 prompts three times over
        assert texts(judge.ask(asked)) == ["re: " + r.prompt for r in asked]
        assert server.count == 20
        assert texts(judge.ask(ask(5) * 2)) == [f"re: question {i}" for i in range(5)] * 2
        assert server.count == 20
        assert judge.ask([]) == []
    match, score = judge.usage()["match"], judge.usage()["score"]
    assert (match.requests, match.calls, match.shared, match.stored) == (20 + 5 + 10, 20, 5, 10)
    assert (score.requests, score.calls, score.shared, score.stored) == (20, 0, 20, 0)
    assert (match.prompt_tokens, match.completion_tokens) == (20 * 2, 20 * 3)     # "question 1" and "re: question 1"


def test_body_that_is_sent():
    with Loopback() as server:
        judge_of(server, top_p=0.5).ask([Request("t", "p", 16, SCHEMA, sample=2)])
        judge_of(server, seed=None, temperature=None).ask([Request("t", "p", 16)])
    shared = {"model": "m", "messages": [{"role": "user", "content": "p"}], "max_tokens": 16}
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
    assert server.bodies == [
        {**shared, "temperature": 0.0, "top_p": 0.5, "seed": 7 + 2, "response_format": form}, shared]


def test_identical_requests_in_flight_are_asked_once_across_threads():
    with Loopback(echo, latency=0.3) as server:
        judge = judge_of(server)
        with ThreadPoolExecutor(3) as threads:
            got = list(threads.map(judge.ask, [ask(4)] * 3))
        assert server.count == 4
        assert [texts(replies) for replies in got] == [[f"re: question {i}" for i in range(4)]] * 3


def test_workers_bound_the_calls_in_flight_over_all_threads():
    with Loopback(echo, latency=0.05) as server:
        judge = judge_of(server, workers=4)
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(judge.ask, [ask(8, sample=i) for i in range(3)]))
        assert server.count == 24
        assert server.peak == 4


def test_inside_a_running_event_loop():
    async def cell() -> list[Reply]:
        return judge_of(server).ask(ask(3))
    with Loopback(echo) as server:
        assert texts(asyncio.run(cell())) == ["re: question 0", "re: question 1", "re: question 2"]


def test_a_judge_that_is_dropped_closes_its_connections_on_their_own_loop():
    # A notebook's loop runs when the garbage collector comes upon the judge; closing them there would make calls
    # of other judges wait for ever.
    async def cell():
        with Loopback("yes") as server:
            judge = LLMJudge("m", base_url=server.url)
            judge.ask(ask(1))
            client = judge.endpoint._places[0]
            del judge
            for _ in range(100):
                gc.collect()
                assert asyncio.all_tasks() == {asyncio.current_task()}
                if client.is_closed():
                    return
                await asyncio.sleep(0.05)
        pytest.fail("the client is still open")
    asyncio.run(cell())


def test_clients_share_one_tls_context_and_calls_start_one_after_another(monkeypatch):
    contexts, pauses, sleep = [], [], asyncio.sleep

    async def noted(seconds):
        pauses.append(seconds)
        await sleep(seconds)

    load = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations",
                        lambda *arguments: contexts.append(1) or load(*arguments))
    monkeypatch.setattr(asyncio, "sleep", noted)
    with Loopback("yes", latency=0.2) as server:
        judge = judge_of(server, workers=32)
        judge.ask(ask(32))
        assert len(judge.endpoint._places) == 32             # of four clients
    assert len(contexts) == 1
    assert sum(0 < seconds <= 32 * APART for seconds in pauses) >= 20


@pytest.mark.parametrize(
    "setting",
    [{"temperature": 0.5}, {"temperature": None}, {"top_p": 0.9}, {"seed": 8}, {"seed": None},
     {"weights": "v2"}],
)
def test_key_follows_what_can_change_the_reply(setting):
    request = Request("match", "p", 16)
    assert LLMJudge("m", **setting).key(request) != LLMJudge("m").key(request)
    assert LLMJudge("m", **setting).signature != LLMJudge("m").signature


def test_a_model_that_thinks_first_has_tokens_for_it(tmp_path):
    """A server whose model thinks for 100 tokens before a word of its answer."""
    def thinking(body):
        done = body["max_tokens"] > 100
        return completion("7", body) if done else completion("", body, "length")
    with Loopback(thinking) as server:
        plain, thinker = (LLMJudge("m", base_url=server.url, store=Replies(tmp_path / f"{n}.sqlite"), thinking_tokens=n)
                          for n in (0, 1000))
        assert [r.error for r in plain.ask(ask(1))] == ["length"]
        assert [r.text for r in thinker.ask(ask(1))] == ["7"]
        assert [body["max_tokens"] for body in server.bodies] == [16, 1016]
    assert "thinking_tokens" not in plain.signature
    assert thinker.signature == plain.signature + "|thinking_tokens:1000"
    planner = Planner(thinker)
    planner.ask(ask(2))
    assert (planner.usage()["match"].stored, planner.usage()["match"].completion_tokens) == (1, 1016)
    with pytest.raises(InputError, match="thinking_tokens must be at least 0, got -1"):
        LLMJudge("m", thinking_tokens=-1)


def test_key_ignores_what_cannot_change_the_reply():
    same = LLMJudge("m", base_url="http://other", api_key="k", workers=2, timeout=9, retries=0, temperature=0)
    assert same.key(Request("score", "p", 16, label="x")) == LLMJudge("m").key(Request("match", "p", 16))
    other = [Request("match", "q", 16), Request("match", "p", 17), Request("match", "p", 16, SCHEMA),
             Request("match", "p", 16, sample=1)]
    assert len({LLMJudge("m").key(r) for r in [Request("match", "p", 16), *other]}) == 5


def test_refresh_replaces_what_is_saved():
    with Loopback(lambda body: f"call {server.count}") as server:
        store = Replies()
        assert texts(judge_of(server, store=store).ask(ask(1))) == ["call 1"]
        assert texts(judge_of(server, store=store, mode="refresh").ask(ask(1))) == ["call 2"]
        assert texts(judge_of(server, store=store).ask(ask(1))) == ["call 2"]


def test_refresh_asks_a_question_once_however_often_it_comes_up():
    with Loopback(lambda body: f"call {server.count}") as server:
        judge = judge_of(server, store=Replies(), mode="refresh")
        assert [texts(judge.ask(ask(1))), texts(judge.ask(ask(2)))] == [["call 1"], ["call 1", "call 2"]]
        assert server.count == 2
        assert judge.usage()["match"].stored == 1


def test_prompts_with_characters_that_no_encoding_has():
    with Loopback(echo) as server:
        store = Replies()
        assert texts(judge_of(server, store=store).ask([Request("t", "a\ud800\0b", 5)])) == ["re: a?\0b"]
        assert next(store.records()).prompt == "a?\0b"


def test_progress_is_shown_only_when_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Loopback() as server:
        judge_of(server).ask(ask(3), progress="matching points")
        assert "matching points: 100%" in capsys.readouterr().err
        judge_of(server).ask(ask(3))
        assert capsys.readouterr().err == ""


# --- faults ---

BAD_SHAPES = ["[]", '"yes"', "null", '{"choices": []}', '{"choices": [{"message": {"content": null}}]}',
              '{"error": {"message": "overloaded"}}']


@pytest.mark.parametrize("fault", [
    Fault(429), Fault(429, headers={"Retry-After": "0.01"}), Fault(429, headers={"Retry-After": "soon"}),
    Fault(500), Fault(502, "<html>bad gateway</html>"), Fault(503), Fault(408), Fault(409), Fault(reset=True),
    Fault(body=completion("1", finish="error")), Fault(body=completion("1", finish="abort")),
    Fault(body="<html>welcome</html>"), Fault(body="{\"choices\": [{"), Fault(body="[" * 100_000),
    *(Fault(body=shape) for shape in BAD_SHAPES),
], ids=lambda fault: f"{fault.status}-{str(fault.body)[:24]}")
def test_passing_fault_is_tried_again(fault):
    with Loopback(echo, faults=[fault, fault]) as server:
        judge = judge_of(server)
        assert texts(judge.ask(ask(1))) == ["re: question 0"]
        assert server.count == 3
        assert judge.usage()["match"].calls == 3


def test_body_whose_end_never_comes():
    with Loopback(faults=[Fault(body="half", headers={"Content-Length": "99"})]) as server:
        assert judge_of(server, timeout=0.3).ask(ask(1)) == [Reply(None, "timeout")]


@pytest.mark.parametrize(("fault", "error"), [
    (Fault(500), "http 500"), (Fault(429), "http 429"), (Fault(reset=True), "connection"),
    (Fault(body="<html>"), "not JSON"), (Fault(body={"choices": []}), "wrong shape"),
])
def test_lasting_fault_fails_one_reply_within_the_bound(fault, error):
    with Loopback(echo, faults=lambda n, body: fault if "question 1" in str(body) else None) as server:
        judge = judge_of(server, store=Replies(), retries=2)
        assert [(r.text, r.error) for r in judge.ask(ask(3))] == [
            ("re: question 0", ""), (None, error), ("re: question 2", "")]
        assert server.count == 2 + 3
        assert dict(judge.usage()["match"].failures) == {error: 1}
        assert len(judge.store) == 2                # what the network broke is asked again next time
        judge.ask(ask(3))
        assert server.count == 2 + 3 + 3


@pytest.mark.parametrize("status", [400, 405, 413, 422])
def test_other_refusals_are_not_tried_again(status):
    with Loopback(faults=lambda n, body: Fault(status)) as server:
        assert judge_of(server).ask(ask(2)) == [Reply(None, f"http {status}")] * 2
        assert server.count == 2


def test_retry_after_is_honoured():
    with Loopback(faults=[Fault(429, headers={"Retry-After": "0.4"})]) as server:
        began = time.monotonic()
        assert texts(judge_of(server).ask(ask(1))) == ["ok"]
        assert 0.4 <= time.monotonic() - began


def test_retry_after_past_the_time_limit_fails_at_once():
    with Loopback(faults=lambda n, body: Fault(429, headers={"Retry-After": "3600"})) as server:
        began = time.monotonic()
        assert judge_of(server, timeout=30).ask(ask(1)) == [Reply(None, "http 429")]
        assert time.monotonic() - began < 20
        assert server.count == 1


def test_a_wait_that_the_server_names_uses_up_no_try():
    busy = Fault(429, headers={"Retry-After": "0.02"})
    with Loopback(echo, faults=[busy] * 5) as server:
        assert texts(judge_of(server, retries=0).ask(ask(1))) == ["re: question 0"]
        assert server.count == 6


def test_a_named_wait_of_nothing_falls_back_to_ones_own(monkeypatch):
    waits = []
    monkeypatch.setattr(random, "uniform", lambda low, high: waits.append((low, high)) or 0.001)
    with Loopback(faults=lambda n, body: Fault(429, headers={"Retry-After": "0"})) as server:
        assert judge_of(server, retries=3).ask(ask(1)) == [Reply(None, "http 429")]
        assert server.count == 4
    assert set(waits) == {(0.5, 1.0)}


def test_not_all_workers_come_back_at_once(monkeypatch):
    spread = []
    monkeypatch.setattr(random, "uniform", lambda low, high: spread.append((low, high)) or 0.01)
    with Loopback(faults=[Fault(429, headers={"Retry-After": "0.1"})]) as server:
        judge_of(server).ask(ask(1))
    assert spread == [(0.0, 1.0)]


@pytest.mark.parametrize(("value", "seconds"), [
    ("7", 7), ("0.5", 0.5), ("0", 0), ("-3", 0), ("Fri, 15 Nov 2024 12:00:00 GMT", 0),
    *((nothing, None) for nothing in ("soon", "", "inf", "nan", "Mon, 99 Foo 2024")),
])
def test_retry_after(value, seconds):
    assert _retry_after({"retry-after": value}) == seconds
    assert _retry_after({}) is None
    assert 60 < _retry_after({"retry-after": formatdate(time.time() + 3600, usegmt=True)}) <= 3600


@pytest.mark.parametrize("stall", [Fault(delay=20), Fault(drip=0.2)], ids=["silent", "dripping"])
@pytest.mark.parametrize("workers", [1, 8])
def test_stall_past_the_limit_fails_alone(stall, workers):
    with Loopback(echo, faults=lambda n, body: stall if "question 3" in str(body) else None) as server:
        judge, began = judge_of(server, workers=workers, timeout=0.5), time.monotonic()
        replies = judge.ask(ask(12))
        assert time.monotonic() - began < 10
        assert [r.error for r in replies] == ["timeout" if i == 3 else "" for i in range(12)]
        assert texts(judge.ask(ask(3))) == ["re: question 0", "re: question 1", "re: question 2"]


def test_mixed_faults_change_no_reply():
    with Loopback(echo, faults=mixed(0.05, seed=3)) as server:
        replies = judge_of(server, store=Replies()).ask(ask(300))
        assert texts(replies) == [f"re: question {i}" for i in range(300)]
        assert 300 < server.count < 300 * 1.12      # every fault costs one more call and nothing else


def test_endpoint_that_only_fails_is_given_up():
    with Loopback(faults=lambda n, body: Fault(503) if n >= 5 else None) as server:
        judge = judge_of(server, store=Replies(), retries=0, workers=4)
        with pytest.raises(JudgeUnavailable, match=f"{STRIKES} calls in a row failed.*http 503"):
            judge.ask(ask(500))
        assert STRIKES + 5 <= server.count < STRIKES + 20
        assert len(judge.store) == 5


def test_endpoint_that_refuses_everything_is_given_up_in_its_own_words(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    refused = Fault(400, {"error": {"message": "Invalid model: m\nfor sk-planted-0123456789 " + "x" * 500}})
    with Loopback(faults=lambda n, body: refused) as server:
        says = r"32 calls in a row failed.*'http 400': Invalid model: m for \*\*\* xxx"
        with pytest.raises(JudgeUnavailable, match=says) as error:
            judge_of(server, workers=4).ask(ask(300))
        assert server.count < STRIKES + 20
    assert len(str(error.value)) < 400


def test_endpoint_that_hangs_is_given_up():
    with Loopback(faults=lambda n, body: Fault(delay=30)) as server:
        with pytest.raises(JudgeUnavailable, match="32 calls in a row failed, the last with 'timeout'"):
            judge_of(server, workers=16, timeout=0.2).ask(ask(300))
        assert server.count <= STRIKES + 2 * 16


PERMANENT = {
    "500": (Fault(500, {"error": {"message": "no weights here"}}), "'http 500': no weights here"),
    "429": (Fault(429, {"error": {"message": "slow down"}}), "'http 429': slow down"),
    "reset": (Fault(reset=True), "'connection'"),
    "not JSON": (Fault(body="oops\nmore"), "'not JSON': oops"),
    "HTML page": (Fault(body="<html><title>Hi</title></html>"), "'not JSON': <html><title>Hi</title>"),
    "HTML error": (Fault(502, "<html><title>Bad gateway</title>"), "'http 502': <html><title>Bad gateway"),
    "no choices": (Fault(body={"detail": "try /v2"}), "'wrong shape': try /v2"),
}


@pytest.mark.parametrize("workers", [1, 32, 128])
@pytest.mark.parametrize("kind", PERMANENT)
def test_an_address_from_which_nothing_ever_comes_is_given_up_early(kind, workers, monkeypatch):
    fault, shown = PERMANENT[kind]
    waits = []
    monkeypatch.setattr(random, "uniform", lambda low, high: waits.append(high) or 1e-3)
    with Loopback(faults=lambda n, body: fault) as server:
        says = f"no reply has ever come from this address; the last call failed with {shown}"
        with pytest.raises(JudgeUnavailable, match=re.escape(says)) as error:
            judge_of(server, workers=workers).ask(ask(300))
        assert server.count <= 40
    assert "\n" not in str(error.value)
    assert len(waits) <= 5
    # The waits together are 15 seconds at most.
    assert 2**4 - 1 >= sum(2**n for n in range(len(waits) - 1))


def test_a_server_that_comes_up_late_is_waited_for():
    with Loopback(echo, faults=lambda n, body: Fault(503) if n < 34 else None) as server:
        assert texts(judge_of(server).ask(ask(100))) == [f"re: question {i}" for i in range(100)]
        assert server.count == 100 + 34


def test_questions_all_too_long_at_an_address_that_never_replied_stop_the_run():
    long = Fault(400, {"error": {"message": "max_tokens is too large: 4096. This model supports at most 2048."}})
    with Loopback(faults=lambda n, body: long) as server:
        with pytest.raises(JudgeUnavailable, match="96 calls in a row failed.*max_tokens is too large: 4096"):
            judge_of(server).ask(ask(300))
        assert server.count < 96 + 2 * 32


def test_questions_too_long_for_a_model_do_not_speak_against_its_endpoint():
    long = Fault(400, {"error": {"message": "This model's maximum context length is 8192 tokens."}})
    with Loopback(echo, faults=lambda n, body: long if n < 2 * STRIKES else None) as server:
        replies = judge_of(server, workers=1).ask(ask(2 * STRIKES + 1))
    assert [r.error for r in replies] == ["http 400"] * 2 * STRIKES + [""]
    assert replies[0].message.startswith("This model's maximum")


def test_endpoint_that_fails_now_and_then_is_not_given_up():
    n = 2 * STRIKES + 10
    with Loopback(echo, faults=lambda number, body: Fault(503) if number % 2 else None) as server:
        replies = judge_of(server, retries=0, workers=1).ask(ask(n))
        assert [r.error for r in replies] == ["", "http 503"] * (n // 2)


# --- replies that are no answer ---

@pytest.mark.parametrize(("reply", "error", "kept"), [
    (completion("The point is th", finish="length"), "length", "The point is th"),
    (completion(None, finish="length"), "length", ""),
    (completion(None, refusal="I can't."), "refusal", "I can't."),
    (completion("", finish="content_filter"), "refusal", ""),
    (completion("1", finish="model_length"), "length", "1"),
    (completion(None, reasoning_content="The point is th"), "no text", ""),
    (completion(None, finish="tool_calls", tool_calls=[{"type": "function"}]), "no text", ""),
])
def test_cut_off_and_declining_replies_are_kept_but_do_not_count(reply, error, kept):
    with Loopback(lambda body: reply) as server:
        judge = judge_of(server, store=Replies())
        for stored in (False, True):
            got, = judge.ask(ask(1))
            assert (got.text, got.error, got.stored) == (None, error, stored)
        assert server.count == 1
        assert next(judge.store.records()).text == kept


def test_what_a_server_once_broke_off_is_asked_again_but_not_in_a_replay():
    with Loopback(echo) as server:
        judge = judge_of(server, store=Replies())
        judge.store.put(Record(key=judge.key(ask(1)[0]), task="match", model="m", text="1", finish_reason="error"))
        assert LLMJudge("m", store=judge.store, mode="replay").ask(ask(1))[0].error == "broken off"
        assert texts(judge.ask(ask(1))) == texts(judge.ask(ask(1))) == ["re: question 0"]
        assert server.count == 1


def test_filtered_prompt():
    blocked = Fault(400, {"error": {"message": "filtered", "code": "content_filter", "param": "prompt"}})
    with Loopback(faults=lambda n, body: blocked) as server:
        assert judge_of(server).ask(ask(1)) == [Reply(None, "refusal")]


# --- what an endpoint cannot do ---

@pytest.mark.parametrize(("refused", "used", "calls"), [
    ((), "json_schema", 1), (("json_schema",), "json_object", 2), (("json_schema", "json_object"), "text", 3),
])
def test_reply_format_falls_back_and_is_remembered(refused, used, calls):
    with Loopback(faults=refusing(*refused)) as server:
        store = Replies()
        assert texts(judge_of(server, store=store).ask([Request("t", "one", 5, SCHEMA)])) == ["ok"]
        assert server.count == calls
        assert texts(judge_of(server, store=store).ask([Request("t", "two", 5, SCHEMA)])) == ["ok"]
        assert server.count == calls + 1            # another judge knows by now
        assert [r.sent for r in store.records()] == [{"format": used, "temperature": 0.0, "seed": 7}] * 2
        assert server.bodies[-1].get("response_format", {}).get("type", "text") == used


@pytest.mark.parametrize(("refused", "dropped", "sent"),
                         [(("seed",), ["seed"], {"temperature": 0.0, "top_p": 0.5, "max_tokens": 16}),
                          (("temperature", "top_p"), ["temperature", "top_p"], {"seed": 7, "max_tokens": 16}),
                          (("max_tokens",), ["max_tokens"],
                           {"temperature": 0.0, "top_p": 0.5, "seed": 7, "max_completion_tokens": 16}),
                          (("max_tokens", "max_completion_tokens"), ["max_completion_tokens", "max_tokens"],
                           {"temperature": 0.0, "top_p": 0.5, "seed": 7})])
def test_refused_parameters_are_dropped_and_the_drop_recorded(refused, dropped, sent):
    with Loopback(faults=refusing(*refused)) as server:
        judge = judge_of(server, store=Replies(), top_p=0.5)
        assert texts(judge.ask(ask(1))) == ["ok"]
        assert server.count == len(refused) + 1
        assert {k: v for k, v in server.bodies[-1].items() if k not in ("model", "messages")} == sent
        asked = {"temperature": 0.0, "top_p": 0.5, "seed": 7}
        assert next(judge.store.records()).sent == {"format": "text", **asked, "dropped": dropped}


@pytest.mark.parametrize(("error", "dropped"), [
    ({"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted",
                  "input": {"temperature": 0}}]}, {"seed"}),
    ({"error": "Unrecognized request argument supplied: seed"}, {"seed"}),
    ({"message": "seed is not supported"}, {"seed"}),
    ({"message": "seed is not supported unless beta features are on"}, {"seed"}),
    ({"message": "seed is refused, regardless of its value"}, {"seed"}),
    ({"message": "seed cannot be used in this context"}, {"seed"}),
])
def test_refusals_as_different_servers_word_them(error, dropped):
    def fault(n: int, body: dict) -> Fault | None:
        return Fault(422, error) if "seed" in body else None
    with Loopback(faults=fault) as server:
        judge = judge_of(server)
        assert texts(judge.ask(ask(1))) == ["ok"]
        assert judge.endpoint.learned.dropped == dropped


@pytest.mark.parametrize("message", [
    "max_tokens is too large: 4096. This model supports at most 2048 completion tokens.",
    "This model's maximum context length is 8192 tokens, you requested 9000 (max_tokens 4096).",
    "temperature must be between 0 and 2",
    "Something is wrong with your request",
])
def test_wrong_value_is_not_taken_for_a_missing_parameter(message):
    refused = Fault(400, {"error": {"message": message, "param": "max_tokens" if "max_tokens" in message else None}})
    with Loopback(faults=lambda n, body: refused) as server:
        judge = judge_of(server)
        assert judge.ask(ask(1)) == [Reply(None, "http 400")]
        assert server.count == 1
        assert judge.endpoint.learned.dropped == set()


# --- endpoints that cannot be used ---

@pytest.mark.parametrize(
    ("fault", "says"),
    [(Fault(401, {"error": {"message": "Incorrect API key"}}),
      "Incorrect API key; check the key in OPENAI_API_KEY"),
     (Fault(403), "check the key in OPENAI_API_KEY"),
     (Fault(404, {"error": {"message": "The model `m` does not exist"}}),
      "does not exist; check the model's name"),
     (Fault(404, "<html>not here</html>"), "check the model's name and the address"),
     (Fault(429, {"error": {"message": "Your quota is used up", "code": "insufficient_quota"}}),
      "quota is used up")],
)
def test_unusable_endpoint_is_one_early_error_and_loses_nothing(fault, says):
    with Loopback(echo, faults=lambda n, body: fault if n >= 5 or fault.status == 403 else None) as server:
        judge = judge_of(server, store=Replies(), workers=4)
        with pytest.raises(JudgeUnavailable, match=re.escape(says)) as error:
            judge.ask(ask(200))
        assert "\n" not in str(error.value)
        assert server.count <= 5 + 2 * 4
        assert len(judge.store) == (0 if fault.status == 403 else 5)


def test_forbidden_prompt_at_a_working_endpoint_fails_alone():
    with Loopback(echo, faults=lambda n, body: Fault(403) if "question 2" in str(body) else None) as server:
        assert [r.error for r in judge_of(server, workers=1).ask(ask(4))] == ["", "", "http 403", ""]


def test_unreachable_endpoint_is_one_early_error():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:word@127.0.0.1:{free.getsockname()[1]}/v1?key=1"
    judge = LLMJudge("m", base_url=url, workers=1)
    with pytest.raises(JudgeUnavailable, match=r"m at http://127.0.0.1:\d+/v1: cannot be reached; check the address"):
        judge.ask(ask(50))
    assert judge.usage()["match"].calls == 3            # the first and two more, a second or two in all


def test_a_server_that_does_not_speak_https_is_told_apart_from_one_that_is_down():
    def serve():
        while True:                                         # the list of models is asked for as well
            line, _ = plain.accept()
            line.recv(1000)
            line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            line.close()
    with socket.create_server(("127.0.0.1", 0)) as plain:
        threading.Thread(target=serve, daemon=True).start()
        judge = LLMJudge("m", base_url=f"https://127.0.0.1:{plain.getsockname()[1]}/v1", retries=0)
        with pytest.raises(JudgeUnavailable, match=r"cannot be reached; .* \(.*SSL.*\)"):
            judge.ask(ask(1))


def test_no_key_for_the_official_endpoint():
    with pytest.raises(JudgeUnavailable, match="no key: set OPENAI_API_KEY"):
        LLMJudge("m").ask(ask(1))


@pytest.mark.parametrize(
    ("settings", "says"),
    [({"mode": "dead"}, "mode must be one of live, replay, refresh, got 'dead'"),
     ({"mode": "replay"}, "needs a store"), ({"workers": 0}, "workers must be at least 1"),
     ({"timeout": 0}, "timeout must be at least"), ({"timeout": float("nan")}, "timeout"),
     ({"retries": -1}, "retries"),
     *(({"base_url": url}, "must be an address such as http://localhost:8000/v1")
       for url in ("localhost:8000/v1", "http://", "ftp://host/v1", "http://[::1",
                   "http://host:99999/v1", "http://host:port/v1"))],
)
def test_bad_settings(settings, says):
    with pytest.raises(InputError, match=re.escape(says)):
        LLMJudge("m", **settings)


def test_recording_takes_no_live_replies(tmp_path):
    (tmp_path / "r.jsonl").write_text("")
    with pytest.raises(InputError, match="cannot take new replies"):
        LLMJudge("m", store=Replies(tmp_path / "r.jsonl"))


# --- secrets ---

def test_key_appears_nowhere(tmp_path, monkeypatch, caplog, capsys):
    secret = "sk-planted-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    caplog.set_level(logging.DEBUG)
    scold = Fault(401, {"error": {"message": f"no such key: {secret}"}})
    faults = [None, Fault(500), Fault(400, {"error": {"message": f"bad {secret}"}}), Fault(reset=True), None, scold]
    with Loopback(faults=faults) as server:
        store = Replies(tmp_path / "r.sqlite")
        judge = judge_of(server, store=store, workers=1)
        replies = judge.ask(ask(3), "asking")
        assert server.headers[0]["authorization"] == f"Bearer {secret}"      # it was really used
        with pytest.raises(JudgeUnavailable) as error:
            judge.ask([Request("t", "more", 5)])
        trace = "".join(traceback.format_exception(error.value))
        assert "no such key: ***" in trace
    store.export(tmp_path / "r.jsonl", prompts=True)
    with pytest.raises(MissingReplies):
        LLMJudge("m", store=store, mode="replay").ask(ask(9))
    store.export_pending(tmp_path / "batch.jsonl")
    shown = [repr(judge), str(vars(judge)), trace, str(replies), str(judge.usage()), caplog.text, *capsys.readouterr()]
    files = [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert len(files) >= 3
    assert caplog.text
    assert not [text for text in shown + files if secret in text]


@pytest.mark.parametrize("key", ["sk-\n-split", "sk-ключ"])
def test_key_that_cannot_be_sent_is_not_shown(key):
    with pytest.raises(JudgeUnavailable, match="has characters that no key has") as error:
        LLMJudge("m", base_url="http://127.0.0.1:9/v1", api_key=key).ask(ask(1))
    assert "sk-" not in "".join(traceback.format_exception(error.value))


def test_a_reply_that_repeats_the_key_is_masked(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with Loopback("your key is sk-planted-0123456789.") as server:
        store = Replies(tmp_path / "r.sqlite")
        assert texts(judge_of(server, store=store).ask(ask(1))) == ["your key is ***."]
    assert texts(LLMJudge("m", store=store, mode="replay").ask(ask(1))) == ["your key is ***."]
    assert not [file for file in tmp_path.iterdir() if b"sk-planted" in file.read_bytes()]


# --- replay ---

@pytest.mark.parametrize(("setting", "hint"), [
    ({"weights": None}, "the store has them with weights 'w1', and this judge has weights None"),
    ({"weights": "w2"}, "with weights 'w1', and this judge has weights 'w2'"),
    ({"temperature": 0.5}, "with temperature 0.0, and this judge has temperature 0.5"),
    ({"seed": None}, "with seed 7, and this judge has seed None"),
    ({"model": "other"}, "with model 'm', and this judge has model 'other'"),
])
@pytest.mark.parametrize("recorded", ["with decoding", "as before"])
def test_a_replay_that_differs_in_one_setting_says_which(tmp_path, setting, hint, recorded):
    with Loopback(echo) as server:
        store = Replies()
        judge_of(server, store=store, weights="w1").ask(ask(3))
    store.export(tmp_path / "r.jsonl")
    if recorded == "as before":                # recordings made before the decoding was noted
        lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
        lines = [{**line, "sent": {"format": "text", "weights": "w1"}} for line in lines]
        (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"model": "m", "weights": "w1", **setting}
    judge = LLMJudge(store=Replies(tmp_path / "r.jsonl"), mode="replay", **settings)
    with pytest.raises(MissingReplies, match=re.escape(hint)):
        judge.ask(ask(3))


def test_a_replay_that_differs_in_two_settings_has_no_hint(tmp_path):
    with Loopback(echo) as server:
        store = Replies()
        judge_of(server, store=store, weights="w1", seed=3).ask(ask(2))
    with pytest.raises(MissingReplies) as error:
        LLMJudge("m", store=store, mode="replay").ask(ask(2))
    assert error.value.hint == ""


RECORDING = ROOT / "data" / "q3-2024" / "replies.jsonl"


@pytest.mark.slow
def test_every_reply_of_the_committed_recording_is_still_used():
    root, store, used = ROOT, Replies(RECORDING), set()
    judge = LLMJudge("large-llm-2026-11", store=store, mode="replay", temperature=None, seed=None)
    find = store.get_many
    store.get_many = lambda keys: (saved := find(keys), used.update(saved))[0]
    triplets, answers = own_triplets(), load_answers(root / "data" / "q3-2024" / "answers.jsonl")
    judged = build(judge, "llm", variant="all")
    rescored(judged.evaluate(triplets, answers), SidesLLMScorer(judge), judged)
    judged_again(judge, triplets, answers, again=10, one_by_one=3, variant="all")
    RAGChecker(judge).check(triplets, answers)
    short = load_answers(root / "data" / "q3-2024" / "shortened.jsonl")
    shortening.study(triplets, answers, short, judged, checker=RAGChecker(judge))
    unused = {r.key for r in store.records() if r.task != "answer"} - used
    assert unused == set()


def test_replay_never_connects(tmp_path, monkeypatch):
    with Loopback(echo) as server:
        judge_of(server, store=Replies(tmp_path / "r.sqlite")).ask(ask(4))

    def connect(*args):
        raise AssertionError("a replay must not open a connection")
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    store = Replies(tmp_path / "r.sqlite")
    judge = LLMJudge("m", store=store, mode="replay")
    assert texts(judge.ask(ask(4))) == [f"re: question {i}" for i in range(4)]
    assert all(reply.stored for reply in judge.ask(ask(4)))
    wanted = ask(9) + [Request("score", "how good", 5, SCHEMA, label="AAPL-Q1")] * 2
    says = r"6 replies of m are not saved: 5 match \(\w{12}, .*, \.\.\.\); 1 score"
    with pytest.raises(MissingReplies, match=says) as error:
        judge.ask(wanted)
    assert error.value.keys == {"match": [judge.key(r) for r in ask(9)[4:]], "score": [judge.key(wanted[-1])]}
    assert store.pending() == {"match": 5, "score": 1}


def test_replay_needs_no_client(tmp_path):
    with Loopback(echo) as server:
        judge_of(server, store=Replies(tmp_path / "r.sqlite")).ask(ask(2))
    code = ("judge = LLMJudge('m', store=Replies(path), mode='replay')\n"
            "print([r.text for r in judge.ask([Request('match', 'question 1', 16)])])\n"
            "print(sorted({'openai', 'httpx2', 'tqdm', 'numpy', 'asyncio'} & set(sys.modules)))")
    out, err = start(code, "-", tmp_path / "r.sqlite").communicate()
    assert out == "['re: question 1']\n[]\n", err


def test_batch_round_trip_fills_a_replay(tmp_path):
    store = Replies(tmp_path / "r.sqlite")
    judge = LLMJudge("m", store=store, mode="replay")
    with pytest.raises(MissingReplies):
        judge.ask(ask(6, schema=SCHEMA))
    store.export_pending(tmp_path / "in.jsonl")
    sent = [json.loads(line) for line in (tmp_path / "in.jsonl").read_text().splitlines()]
    done = [{"custom_id": s["custom_id"], "error": None,
             "response": {"status_code": 200, "body": completion(echo(s["body"]), s["body"])}} for s in sent]
    done[2]["response"] = {"status_code": 429, "body": {"error": {"message": "busy"}}}
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, reversed(done))))
    assert store.import_batch(tmp_path / "out.jsonl")["imported"] == 5
    with pytest.raises(MissingReplies) as error:
        judge.ask(ask(6, schema=SCHEMA))
    assert error.value.keys == {"match": [sent[2]["custom_id"]]}
    # The one that failed is asked live, and the replay is whole.
    with Loopback(echo) as server:
        judge_of(server, store=store).ask(ask(6, schema=SCHEMA))
        assert server.count == 1
    assert texts(judge.ask(ask(6, schema=SCHEMA))) == [f"re: question {i}" for i in range(6)]
    assert store.pending() == {}


# --- interrupted, killed, crowded, full ---

RUN = ("judge = LLMJudge('m', base_url=url, store=Replies(path), workers=8)\n"
       "print(len(judge.ask([Request('t', f'question {i}', 5) for i in range(120)])), flush=True)")


@pytest.mark.slow
def test_interrupt_ends_within_two_seconds_and_says_how_to_go_on(tmp_path):
    with Loopback(echo, faults=lambda n, body: Fault(delay=60) if n >= 20 else None) as server:
        process = start(RUN, server.url, tmp_path / "r.sqlite")
        while server.now < 8 or server.count < 28:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        slow = time.monotonic() - began             # what a bare process takes on this machine just now
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - began < 2 + 20 * slow
    assert process.returncode != 0
    assert out == ""
    assert f"KeyboardInterrupt: stopped with 20 of 120 replies of m received, saved in {tmp_path}/r.sqlite; run" in err
    assert len(Replies(tmp_path / "r.sqlite")) == 20


@pytest.mark.slow
def test_killed_five_times_it_asks_nothing_twice_but_what_was_in_flight(tmp_path):
    with Loopback(echo, latency=0.05) as server:
        for kill in range(5):
            process, before = start(RUN, server.url, tmp_path / "r.sqlite"), server.count
            while server.count < before + 12 + kill:
                time.sleep(0.003)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        out, err = start(RUN, server.url, tmp_path / "r.sqlite").communicate()
        assert out == "120\n", err
        assert 120 <= server.count <= 120 + 5 * 8
    assert {r.text for r in Replies(tmp_path / "r.sqlite").records()} == {f"re: question {i}" for i in range(120)}


@pytest.mark.slow
def test_two_processes_share_a_store_without_mixing_replies(tmp_path):
    # From both ends, so that each comes to what the other has saved.
    code = ("judge = LLMJudge('m', base_url=url, store=Replies(path), workers=4)\n"
            "replies = judge.ask([Request('t', f'question {i}', 5) for i in range(60)][::%d])\n"
            "print([r.text for r in replies][::%d])")
    with Loopback(lambda body: f"{echo(body)} / call {server.count}", latency=0.01) as server:
        runs = [start(code % (step, step), server.url, tmp_path / "r.sqlite") for step in (1, -1)]
        (one, err), (two, _) = [run.communicate() for run in runs]
        # Every call differed: both use the one that was saved.
        assert one == two, err
        assert one.count("call") == 60
        # And each leaves alone what the other has saved.
        assert server.count < 120


def test_full_disk_loses_no_reply_that_was_paid_for(tmp_path):
    with Loopback(lambda body: "x" * 5000 + echo(body)) as server:
        store = Replies(tmp_path / "r.sqlite")
        judge = judge_of(server, store=store, workers=4)
        store._db.execute("PRAGMA max_page_count = 40")
        with pytest.raises(StoreError, match=r"database or disk is full.*\d+ replies were received but not saved"):
            judge.ask(ask(40))
        assert 0 < len(store) < 40
        assert server.count < 40
        store._db.execute("PRAGMA max_page_count = 100000")
        assert texts(judge.ask(ask(40))) == ["x" * 5000 + f"re: question {i}" for i in range(40)]
        assert server.count == 40
        assert len(store) == 40


# --- other judges ---

def test_plain_functions_and_judges_are_judges():
    judge = as_judge(str.upper)
    assert (judge.name, judge.signature) == ("upper", "judge:upper")
    assert judge.ask([Request("t", "a", 5), Request("t", "b", 5)]) == [Reply("A"), Reply("B")]
    assert as_judge(lambda prompt: None).ask(ask(1)) == [Reply(None, "not text")]
    llm, scripted = LLMJudge("m"), ScriptedJudge("yes")
    assert as_judge(llm) is llm
    assert as_judge(scripted) is scripted
    with pytest.raises(InputError, match="pass LLMJudge"):
        as_judge("gpt-4o")


def test_signature_is_what_was_asked_for_and_the_usage_says_what_the_server_dropped():
    with Loopback("5", faults=refusing("temperature", "seed", "max_tokens")) as server:
        live = judge_of(server, store=Replies())
        results = EMS(SentenceExtractor(), SimilarityMatcher(), LLMScorer(live)).evaluate(
            [Triplet("t", "g", "q", "Revenue was $5 billion.")], [Answer("t", "m", "Revenue was $5 billion.")]
        )
    replayed = LLMJudge("m", store=live.store, mode="replay")
    LLMScorer(replayed)([("Revenue was $5 billion.", "Revenue was $5 billion.")])
    assert live.signature == replayed.signature == "judge:m|temperature:0.0|seed:7"
    assert results[0].signature.endswith(live.signature)
    assert live.usage()["score"].dropped == replayed.usage()["score"].dropped == {"temperature": 1, "seed": 1}


def test_stored_replies_and_a_server_that_now_refuses_a_parameter_are_one_judge():
    pairs = judgeable(3, 2)
    with Loopback(judged) as server:
        store = Replies()
        build(judge_of(server, store=store), "llm").evaluate(*(side[:1] for side in pairs))
        ems.judge.wire.LEARNED.clear()
        server.faults = refusing("seed")
        judge = judge_of(server, store=store)
        results = build(judge, "llm").evaluate(*pairs)
    assert len({r.signature for r in results}) == 1
    assert summarise(to_frame(results, "EMS", pairs[0])).n.max() == 3
    assert 0 < judge.usage()["extract"].dropped["seed"] < judge.usage()["extract"].requests


def test_signature_names_the_model_and_its_decoding():
    judge = LLMJudge("m", weights="3f9a")
    assert judge.signature == "judge:m|temperature:0.0|seed:7|weights:3f9a"
    assert RepeatedJudge(judge, 2).signature == judge.signature + ",sample=2"

