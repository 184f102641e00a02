"""LLMJudge: what it sends, what it takes for a reply, what it keeps, and how a profile names it."""

import asyncio
import json
import logging
import socket
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
from doubles import ScriptedJudge, ask, echo, judge_of, refused, texts
from loopback import Fault, Loopback, completion, error, refusing

from ems.judge import MissingReplies, Request, as_judge, pace
from ems.judge.client import JudgeUnavailable, LLMJudge
from ems.judge.store import Replies
from ems.types import InputError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
SECRET = "sk-planted-0123456789"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(pace, "FIRST_WAIT", 0.01)


# --- keys, and what is sent ---


def test_reply_keys_are_frozen():
    """Computed by the first version of the kit: recorded replies are found by them."""
    assert LLMJudge("m").key(Request("match", "p", 16)) == (
        "c4165b6d46702e9747f8b929b4143cf0463f4356a3d26419f0a1493a79fee1bb"
    )
    other = LLMJudge("m", weights="3f9a", temperature=None, seed=None, top_p=0.5, sample=2)
    assert other.key(Request("match", "q", 256, SCHEMA)) == (
        "50b1a2b82a904592bdb71762540cf39cdba11be20a89702f204651917f3b123b"
    )
    assert LLMJudge("m", thinking_tokens=1000).key(Request("match", "naïve", 16)) == (
        "8f5662edf4aed3b671ced092a5f67a31084ff37f79797434649894b9dea6701d"
    )


@pytest.mark.parametrize(
    "setting",
    [
        {"temperature": 0.5},
        {"temperature": None},
        {"top_p": 0.9},
        {"seed": 8},
        {"seed": None},
        {"weights": "v2"},
        {"thinking_tokens": 9},
        {"sample": 1},
    ],
)
def test_key_and_signature_follow_what_can_change_the_reply(setting):
    request = Request("match", "p", 16)
    assert LLMJudge("m", **setting).key(request) != LLMJudge("m").key(request)
    assert LLMJudge("m", **setting).signature != LLMJudge("m").signature


def test_key_ignores_what_cannot_change_the_reply():
    same = LLMJudge("m", base_url="http://other", api_key="k", workers=2, timeout=9, temperature=0)
    assert same.key(Request("score", "p", 16, label="x")) == LLMJudge("m").key(
        Request("match", "p", 16)
    )
    assert (
        same.signature
        == LLMJudge("m").signature
        == {"judge": "m", "temperature": "0.0", "seed": "7"}
    )


def test_body_that_is_sent():
    with Loopback() as server:
        judge_of(server, top_p=0.5, sample=3).ask([Request("t", "p", 16, SCHEMA)])
        judge_of(server, seed=None, temperature=None, thinking_tokens=5).ask(
            [Request("t", "a\ud800", 16)]
        )
    form = {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }
    assert server.bodies == [
        {
            "model": "m",
            "messages": [{"role": "user", "content": "p"}],
            "max_tokens": 16,
            "temperature": 0.0,
            "top_p": 0.5,
            "seed": 7 + 3,
            "response_format": form,
        },
        {"model": "m", "messages": [{"role": "user", "content": "a?"}], "max_tokens": 16 + 5},
    ]


def test_equal_requests_are_asked_once_and_a_judge_with_a_sample_asks_again():
    with Loopback(lambda body: f"call {server.count}") as server:
        judge = judge_of(server, workers=1)
        first = texts(judge.ask(ask(1) * 3))
        assert first == texts(judge.ask(ask(1))) * 3 == ["call 1"] * 3
        again = judge_of(server, store=judge.store, sample=1)
        assert texts(again.ask(ask(1))) == ["call 2"]
        used = judge.usage()["match"]
        assert (used.requests, used.stored, used.calls) == (4, 1, 1)
        assert used.cost is None  # without prices


def test_workers_bound_the_calls_under_way_over_all_threads_also_inside_an_event_loop():
    with Loopback(echo, latency=0.05) as server:
        judge = judge_of(server, workers=4)
        with ThreadPoolExecutor(3) as threads:
            got = list(threads.map(judge.ask, [ask(8, max_tokens=i) for i in range(3)]))
        assert [texts(records) for records in got] == [[f"re: question {i}" for i in range(8)]] * 3
        assert (server.count, server.peak) == (24, 4)

        async def cell():
            return judge.ask(ask(3, "other"))

        assert texts(asyncio.run(cell())) == [f"re: question {i}" for i in range(3)]


def test_threads_that_ask_the_same_at_once_share_one_call():
    with Loopback(lambda body: f"call {server.count}", latency=0.1) as server:
        judge = judge_of(server)
        with ThreadPoolExecutor(3) as threads:
            got = list(threads.map(judge.ask, [ask(4)] * 3))
        assert texts(got[0]) == texts(got[1]) == texts(got[2])
        assert server.count == 4


# --- replies that are no answer ---


@pytest.mark.parametrize(
    ("code", "message", "why"),
    [
        (
            "",
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
            "too long for the judge",
        ),
        ("", "prompt is too long: 210000 tokens > 200000 maximum", "too long for the judge"),
        (
            "",
            "the request exceeds the available context size, try increasing it",
            "too long for the judge",
        ),
        (
            "",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "too long for the judge",
        ),
        ("content_filter", "filtered", "refusal"),
        # a wrong value is not taken for a parameter that the server does not know
        ("", "max_tokens must be at least 1, got -200", "http 400"),
        ("", "temperature must be between 0 and 2", "http 400"),
    ],
)
def test_a_prompt_that_a_server_does_not_take_fails_alone(code, message, why):
    def fault(number, body):
        return error(400, message, code=code) if "question 2" in str(body) else None

    with Loopback(echo, faults=fault) as server:
        assert [record.error for record in judge_of(server).ask(ask(4))] == ["", "", why, ""]
        assert server.count == 4


# --- what an endpoint cannot do ---


def no_seed(said):
    """Refuses the seed in words of its own."""
    return lambda number, body: Fault(422, said) if "seed" in body else None


@pytest.mark.parametrize(
    ("faults", "names", "instead"),
    [
        (refusing(), [], []),
        (refusing("response_format"), ["response_format"], []),
        (refusing("seed", "temperature"), ["seed", "temperature"], []),
        (refusing("max_tokens"), ["max_tokens"], ["max_completion_tokens"]),
        (
            no_seed(
                {
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", "seed"],
                            "msg": "Extra inputs are not permitted",
                        }
                    ]
                }
            ),
            ["seed"],
            [],
        ),
        (no_seed({"error": "Unrecognized request argument supplied: seed"}), ["seed"], []),
        (no_seed({"message": "seed is not supported unless beta features are on"}), ["seed"], []),
    ],
)
def test_what_an_endpoint_refuses_is_left_out_from_then_on(faults, names, instead, capsys):
    with Loopback(faults=faults) as server:
        judge = judge_of(server, top_p=0.5)
        assert texts(judge.ask([Request("t", "one", 5, SCHEMA)])) == ["ok"]
        assert server.count == len(names) + 1
        assert texts(judge.ask([Request("t", "two", 5, SCHEMA)])) == ["ok"]
        assert server.count == len(names) + 2
    assert server.bodies[-1].keys() == server.bodies[0].keys() - {*names} | {*instead}
    said = capsys.readouterr().err
    assert all(f"does not take {name}" in said for name in names)
    assert judge.signature["temperature"] == "0.0"  # what was asked for


# --- secrets ---


def test_the_key_appears_nowhere(tmp_path, monkeypatch, caplog, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    faults = [
        None,
        Fault(500),
        error(400, f"bad {SECRET}"),
        Fault(reset=True),
        Fault(body=f"<{SECRET}>"),
        None,
    ]
    with Loopback(f"your key is {SECRET}.", faults=faults) as server:
        store = Replies(tmp_path / "r.sqlite")
        judge = judge_of(server, store=store, workers=1)
        records = judge.ask(ask(3), "asking")
        assert server.headers[0]["authorization"] == f"Bearer {SECRET}"  # it was really used
        assert records[0].text == "your key is ***."
        server.faults = lambda n, body: error(401, f"no such key: {SECRET}")
        with pytest.raises(JudgeUnavailable, match=r"no such key: \*\*\*") as raised:
            judge.ask(ask(1, "more", max_tokens=1))
    store.export(tmp_path / "r.jsonl")
    with pytest.raises(MissingReplies):
        LLMJudge("m", store=store, mode="replay").ask(ask(9))
    store.export_pending(tmp_path / "batch.jsonl")
    trace = "".join(traceback.format_exception(raised.value))
    shown = [repr(judge), str(vars(judge)), str(vars(judge.endpoint)), trace, str(records)]
    shown += [caplog.text, *capsys.readouterr()]
    files = [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert len(files) >= 3
    assert caplog.text
    assert not [text for text in shown + files if SECRET in text]


@pytest.mark.parametrize(
    ("url", "key"),
    [(None, ""), ("http://127.0.0.1:9/v1", "sk-\n-split"), ("http://127.0.0.1:9/v1", "sk-ключ")],
)
def test_a_key_that_is_missing_or_cannot_be_sent_is_an_early_error_that_does_not_show_it(url, key):
    with pytest.raises(JudgeUnavailable, match="no key that can be sent") as raised:
        LLMJudge("m", base_url=url, api_key=key).ask(ask(1))
    assert "sk-" not in "".join(traceback.format_exception(raised.value))


def test_a_key_that_json_escapes_is_masked():
    key = "sk/1+2/0123456789"
    body = json.dumps(completion(f"your key is {key}")).replace("/", "\\/").replace("+", "\\u002b")
    with Loopback(faults=[Fault(body=body)]) as server:
        assert judge_of(server, api_key=key).ask(ask(1))[0].text == "your key is ***"


def test_the_word_that_a_local_server_takes_for_a_key_is_not_cut_out_of_replies():
    with Loopback("none of the points") as server:
        assert judge_of(server, api_key="none").ask(ask(1))[0].text == "none of the points"


# --- settings ---


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"mode": "dead"}, "mode must be one of replay, live, plan"),
        ({"workers": 0}, "workers must be"),
        ({"workers": "8"}, "workers must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"thinking_tokens": -1}, "thinking_tokens must be"),
        ({"sample": -1}, "sample must be"),
        ({"spend_limit": 5}, "needs prices"),
        *(
            ({"base_url": url}, "is an address such as")
            for url in ("localhost:8000/v1", "http://", "ftp://host/v1", "http://two words/v1")
        ),
    ],
)
def test_bad_settings(settings, says):
    with refused(says):
        LLMJudge("m", **settings)


def test_a_profile_names_a_judge(tmp_path, monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", SECRET)
    Replies().export(tmp_path / "old.jsonl")
    folder = tmp_path / "runs"
    judge = LLMJudge.of(
        {
            "model": "m",
            "mode": "live",
            "recorded": ["old.jsonl"],
            "base_url": "http://user:word@h:8/v1",
            "key_env": "MISTRAL_API_KEY",
            "weights": "",
            "temperature": None,
            "seed": None,
            "workers": 8,
            "prices": {"prompt": 1, "completion": 2},
            "spend_limit": 3.0,
            "sample": 1,
        },
        folder,
        tmp_path,
    )
    assert judge.signature == {"judge": "m", "sample": "1"}
    assert (judge.mode, judge.workers, judge.spending.limit) == ("live", 8, 3.0)
    assert judge.endpoint.where == "http://h:8/v1"  # without what may be secret
    assert judge.store.path == folder / "replies.sqlite"
    assert LLMJudge.of({"model": "m", "store": "s.sqlite"}, folder, tmp_path).mode == "replay"
    assert (tmp_path / "s.sqlite").exists()
    assert LLMJudge.of({"model": "", "mode": "live"}, folder, tmp_path) is None
    assert (
        LLMJudge.of({"model": "m", "mode": "plan"}, tmp_path / "new", tmp_path).store.path is None
    )
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"model": "m", "wieghts": "x"}, "no 'wieghts'; did you mean 'weights'"),
        ({"model": "m", "api_key": SECRET}, "no 'api_key'.*key_env names its variable"),
        ({"model": "m", "key_env": SECRET}, "must name an environment variable"),
        ({"model": "m", "key_env": "EMPTY_KEY", "mode": "live"}, "no key in EMPTY_KEY for m"),
        ({"model": "m", "recorded": ["none.jsonl"]}, "none.jsonl.*cannot be read"),
    ],
)
def test_a_profile_is_refused_in_one_line_that_shows_no_key(tmp_path, settings, says):
    with pytest.raises(InputError, match=says) as raised:
        LLMJudge.of(settings, tmp_path, tmp_path)
    assert SECRET not in str(raised.value)
    assert "\n" not in str(raised.value)


# --- replay and dry run ---


def test_a_replay_never_connects_and_says_what_is_missing(tmp_path, monkeypatch):
    with Loopback(echo) as server:
        judge_of(server, store=Replies(tmp_path / "r.sqlite")).ask(ask(4))

    def connect(*args):
        raise AssertionError("a replay must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", connect)
    judge = LLMJudge("m", store=Replies(tmp_path / "r.sqlite"), mode="replay")
    assert texts(judge.ask(ask(4))) == [f"re: question {i}" for i in range(4)]
    assert judge.usage()["match"].stored == 4
    with pytest.raises(
        MissingReplies, match=r"6 replies of m are not saved \(5 match, 1 score\)"
    ) as one:
        judge.ask(ask(9) + [Request("score", "how good", 5, SCHEMA)] * 2)
    assert "only scorers that ask no judge can change, such as rouge" in str(one.value)
    assert ("m", "score", judge.key(Request("score", "how good", 5, SCHEMA))) in one.value.missing
    assert judge.store.export_pending(tmp_path / "batch.jsonl") == 6


def test_a_dry_run_counts_at_most_and_sends_nothing(tmp_path):
    with Loopback(echo) as server:
        store = Replies(tmp_path / "r.sqlite")
        judge_of(server, store=store, thinking_tokens=100).ask(ask(1))
        judge = judge_of(
            server,
            store=store,
            mode="plan",
            thinking_tokens=100,
            prices={"prompt": 1, "completion": 10},
        )
        assumed = [
            Request("extract", "word" * 10, 50, SCHEMA),
            Request("extract", "more", 50, assumed=lambda: "long"),
        ]
        with ThreadPoolExecutor(4) as threads:
            got = list(threads.map(judge.ask, [[*ask(3), *assumed]] * 4))
        assert server.count == 1
        assert texts(got[0]) == ["re: question 0", "0", "0", "0", "long"]
    used = judge.usage()
    assert (used["match"].requests, used["match"].stored, used["match"].calls) == (12, 4, 2)
    assert (used["extract"].calls, used["extract"].completion_tokens) == (2, 2 * 150)
    assert used["extract"].cost == (used["extract"].prompt_tokens + 10 * 300) / 1e6
    assert len(store.records()) == 1


# --- other judges ---


def test_plain_functions_and_judges_are_judges():
    judge = as_judge(str.upper)
    assert (judge.name, judge.signature) == ("upper", {"judge": "upper"})
    assert texts(judge.ask([Request("t", "a", 5), Request("t", "b", 5)])) == ["A", "B"]
    assert as_judge(lambda prompt: None).ask(ask(1))[0].error == "not text"
    scripted = ScriptedJudge("yes")
    assert as_judge(scripted) is scripted
    with refused("pass LLMJudge"):
        as_judge("gpt-4o")
