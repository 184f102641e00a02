"""The reply store: nothing is lost or mixed, whatever happens to the disk or the file.

Processes that share a store, or are killed, are in test_faults.py.
"""

import json
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from doubles import echo, refused
from loopback import Loopback, run_batch

from ems.judge import MissingReplies, Record, Request
from ems.judge.client import LLMJudge
from ems.judge.endpoint import read_completion, read_usage
from ems.judge.store import Replies

ROOT = Path(__file__).parent.parent


def key(n):
    return f"{n:064x}"


def record(n, text="yes", **other):
    return Record(key(n), "match", "m", text, date="2024-11-01T00:00:00+00:00", **other)


def filled(*records, path=None):
    store = Replies(path)
    for one in records or (
        record(2, 'zwei\n"2"', prompt="secret?", label="b"),
        record(1, "eins 数", label="a"),
    ):
        store.put(one)
    return store


# --- what a chat completion says ---


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "text",
        7,
        {},
        {"choices": []},
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": None}}]},
        {"choices": [{"message": {"content": 7}}]},
        {"choices": [{"message": {"content": {"text": "x"}}}]},
        {"error": {"message": "busy"}},
    ],
)
def test_wrong_shapes_are_no_reply(body):
    assert read_completion(body)["failure"] == "wrong shape"


@pytest.mark.parametrize(
    ("choice", "text", "finish"),
    [
        ({"message": {"content": "a"}}, "a", "stop"),
        ({"message": {"content": ""}, "finish_reason": "end_turn"}, "", "stop"),
        ({"message": {"content": None}, "finish_reason": "length"}, "", "length"),
        ({"message": {"content": "a"}, "finish_reason": "model_length"}, "a", "length"),
        ({"message": {"content": None}, "finish_reason": "SAFETY"}, "", "refusal"),
        (
            {"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"},
            "I can't.",
            "refusal",
        ),
        (
            {
                "message": {
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
                }
            },
            "ab",
            "stop",
        ),
        (
            {"message": {"content": None, "tool_calls": []}, "finish_reason": "tool_calls"},
            "",
            "no text",
        ),
    ],
)
def test_what_a_completion_says(choice, text, finish):
    got = read_completion(
        {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": None}}
    )
    assert got == {
        "text": text,
        "finish_reason": finish,
        "prompt_tokens": 3,
        "completion_tokens": 0,
        "cached_tokens": 0,
    }


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (0, 0, 0)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, (3, 2, 0)),
        (
            {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135},
            (32, 103, 0),
        ),  # reasoning in the total
        ({"completion_tokens": 2, "total_tokens": 5}, (0, 2, 0)),  # the prompt is not known
        ({"prompt_tokens": None, "completion_tokens": -5}, (0, 0, 0)),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 2},
            },
            (3, 1, 2),
        ),
    ],
)
def test_token_counts(usage, counts):
    assert tuple(read_usage({"usage": usage}).values()) == counts


# --- one reply at a time ---


def test_the_first_reply_stays(tmp_path):
    path = tmp_path / "new" / "r.sqlite"
    store = Replies(path)
    assert store.put(record(1, "first")).text == "first"
    assert store.put(record(1, "second")).text == "first"
    assert Replies(path).get([key(1)])[key(1)].text == "first"
    assert store.get([key(2)]) == {}
    assert len(store.records()) == 1


def test_a_reply_without_a_date_gets_the_present_one():
    store = Replies()
    before = datetime.now(UTC).isoformat(timespec="seconds")
    saved = store.put(replace(record(1), date="")).date
    assert before <= saved <= datetime.now(UTC).isoformat(timespec="seconds")
    assert store.put(record(2)).date == "2024-11-01T00:00:00+00:00"


def test_every_field_comes_back(tmp_path):
    full = record(
        1,
        "naïve\0 \ud800 数",
        finish_reason="length",
        prompt_tokens=3,
        completion_tokens=2,
        cached_tokens=1,
        seconds=0.25,
        sent={"seed": 7},
        label="AAPL-Q1",
        prompt="say\nit",
    )
    store = filled(full, path=tmp_path / "r.sqlite")
    back = store.get([key(1)])[key(1)]
    assert back.text == "naïve\0 ? 数"  # a lone surrogate cannot be written as UTF-8
    assert [getattr(back, f) for f in Record.__slots__ if f != "text"] == [
        getattr(full, f) for f in Record.__slots__ if f != "text"
    ]


def test_a_stored_reply_takes_less_than_its_text(tmp_path):
    text = json.dumps(
        {
            "points": [
                f"Revenue of unit {i} rose by {i * 7 % 31} percent to {i * 13}." for i in range(20)
            ]
        }
    )
    store = filled(
        *(record(n, text.replace("unit", f"unit {n}"), prompt=text) for n in range(300)),
        path=tmp_path / "r.sqlite",
    )
    del store
    size = (tmp_path / "r.sqlite").stat().st_size
    assert size < 300 * 2 * len(text)
    (tmp_path / "copy.sqlite").write_bytes((tmp_path / "r.sqlite").read_bytes())  # without its log
    assert len(Replies(tmp_path / "copy.sqlite").records()) == 300


# --- full, damaged ---


def test_a_full_disk_is_one_clear_line_and_what_was_saved_stays(tmp_path):
    code = (
        "import os, resource, sys\n"
        "sys.path.append('tests')\n"
        "from test_store import *\n"
        "from ems.types import InputError\n"
        "store = Replies(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "for n in range(1000):\n"
        "    try: store.put(record(n, os.urandom(2000).hex()))\n"
        "    except InputError as error: print(n); print(error); break"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "r.sqlite")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    saved, message = done.stdout.splitlines()
    assert "cannot be written" in message, done.stderr
    store = Replies(tmp_path / "r.sqlite")  # there is room again
    assert len(store.records()) == int(saved) > 10
    store.put(record(int(saved)))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda folder: (folder / "r").mkdir(), "r"),
        (lambda folder: (folder / "r").write_text("key,text\n" * 300), "r"),
        (lambda folder: (folder / "file").write_text("x"), "file/r"),
        (
            lambda folder: sqlite3.connect(folder / "r").execute(
                "CREATE TABLE replies (key TEXT, text TEXT)"
            ),
            "r",
        ),
    ],
)
def test_not_a_store(tmp_path, make, name):
    make(tmp_path)
    with refused("cannot be opened as a reply store"):
        Replies(tmp_path / name)


def test_a_damaged_row_is_one_clear_line(tmp_path):
    store = filled(record(0), record(1), path=tmp_path / "r.sqlite")
    store._db.execute("UPDATE replies SET data = x'00ff' WHERE key = ?", [key(1)])
    assert store.get([key(0)])[key(0)].text == "yes"
    with refused(f"the reply {key(1)} is damaged", "delete this row"):
        store.get([key(1)])


# --- recordings ---


def test_export_and_import(tmp_path):
    assert filled().export(tmp_path / "r.jsonl") == 2
    other = Replies(tmp_path / "r.sqlite")
    assert other.import_file(tmp_path / "r.jsonl") == {"imported": 2, "duplicate": 0, "unused": 0}
    assert other.import_file(tmp_path / "r.jsonl") == {"imported": 0, "duplicate": 2, "unused": 0}
    assert [r.text for r in other.records()] == ["eins 数", 'zwei\n"2"']
    assert other.get([key(2)])[key(2)].prompt is None
    first = (tmp_path / "r.jsonl").read_bytes()
    other.export(tmp_path / "r.jsonl")
    assert (tmp_path / "r.jsonl").read_bytes() == first  # the order of arrival does not matter
    assert first.decode().count("\n") == 2
    assert "secret" not in first.decode()


def test_recordings_stand_behind_a_store(tmp_path):
    filled(record(1, "recorded"), record(2, "recorded")).export(tmp_path / "r.jsonl")
    store = Replies(tmp_path / "r.sqlite", recorded=[tmp_path / "r.jsonl"])
    store.put(record(2, "fresh"))
    store.put(record(3, "fresh"))
    assert [store.get([key(n)])[key(n)].text for n in (1, 2, 3)] == ["recorded", "fresh", "fresh"]
    assert [r.text for r in store.records()] == ["recorded", "fresh", "fresh"]


GOOD = json.dumps({"key": key(5), "task": "match", "model": "m", "text": "yes"})


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2: not a saved reply"),
        ("null", "line 2"),
        ('"x"', "line 2"),
        (GOOD.replace(key(5), "abc"), "64 hexadecimal"),
        (GOOD.replace('"yes"', "null"), "its text a text"),
        (GOOD.replace('"task"', '"tusk"'), "tusk"),
        (GOOD[:-1] + ', "more": 1}', "more"),
        (GOOD.replace("yes", "\udc80"), "not UTF-8"),
        (GOOD.replace(key(5), key(1)), "another reply is saved"),
        ('{"custom_id": 3}', None),
        (f'{{"custom_id": "{key(7)}", "response": "rubbish"}}', None),
    ],
)
def test_a_malformed_line_changes_nothing(tmp_path, line, says):
    file = tmp_path / "in.jsonl"
    file.write_bytes(
        f"\ufeff{GOOD.replace(key(5), key(9))}\r\n{line}\n\n".encode("utf-8", "surrogateescape")
    )
    store = filled(record(1, "no"))
    if says is None:  # a batch result that is of no use
        assert store.import_file(file) == {"imported": 1, "duplicate": 0, "unused": 1}
        return
    with refused(says):
        store.import_file(file)
    assert [r.text for r in store.records()] == ["no"]  # line 1 was good, and is not in
    store.export(tmp_path / "r.jsonl")  # "no" by key 1
    with refused("a second, different reply" if "another" in says else says):
        Replies(recorded=[tmp_path / "r.jsonl", file])


# --- requests that wait for a reply ---


def test_a_replay_through_batch_files_ends_with_every_reply(tmp_path):
    store, batch, done = (
        Replies(tmp_path / "r.sqlite"),
        tmp_path / "batch.jsonl",
        tmp_path / "done.jsonl",
    )
    judge = LLMJudge("m", store=store, mode="replay", sample=2)
    asked = [
        Request("match", f"question {i}", 16, {"properties": {}}, label=str(i)) for i in range(8)
    ]
    with pytest.raises(MissingReplies):
        judge.ask(asked)
    assert store.export_pending(batch) == 8
    line = json.loads(batch.read_text().splitlines()[0])
    assert (line["custom_id"], line["method"], line["url"]) == (
        judge.key(asked[0]),
        "POST",
        "/v1/chat/completions",
    )
    assert (line["body"]["model"], line["body"]["seed"]) == ("m", 7 + 2)
    run_batch(batch, done, echo, lost=lambda n: n % 3 == 0)
    assert store.import_file(done) == {"imported": 5, "duplicate": 0, "unused": 3}
    assert store.import_file(done) == {
        "imported": 0,
        "duplicate": 0,
        "unused": 8,
    }  # the same file does no harm
    with pytest.raises(MissingReplies, match="3 replies of m"):
        judge.ask(asked)
    assert store.export_pending(batch) == 3
    with Loopback("live") as server:  # what failed is asked live, and the replay is whole
        LLMJudge("m", store=store, sample=2, base_url=server.url).ask(asked)
        assert server.count == 3
    assert {record.text for record in judge.ask(asked)} == {
        "live",
        *(f"re: question {i}" for i in (1, 2, 4, 5, 7)),
    }
    assert store.export_pending(batch) == 0
    waiting = judge.key(asked[1])
    assert store.get([waiting])[waiting].prompt == "question 1"
