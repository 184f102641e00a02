"""The reply store: nothing lost, nothing mixed, whatever happens to the process, the disk or the file."""

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ems.asking import Record
from ems.judge.store import BrokenOff, Replies, StoreError, ending, read_choice, read_usage, reply_key, utc
from ems.types import InputError

ROOT = Path(__file__).parent.parent


def key(n: int) -> str:
    return f"{n:064x}"


def record(n: int, text: str = "yes", **other) -> Record:
    return Record(key(n), "match", "m", text, date="2024-11-01T00:00:00+00:00", **other)


def start(code: str, *arguments) -> subprocess.Popen:
    """The code in a process of its own, with `Replies`, `Record`, `key` and `record` defined."""
    prelude = "import sys; sys.path[:0] = ['.', 'tests']\nfrom test_replies import *\n"
    return subprocess.Popen([sys.executable, "-c", prelude + code, *map(str, arguments)], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# --- keys and shapes ---

def test_key_holds_every_setting_and_the_order_of_a_schema():
    base = {"model": "m", "prompt": "p", "schema": {"a": 1, "b": 2}, "seed": 7}
    changed = [{**base, "model": "n"}, {**base, "prompt": "p "}, {**base, "seed": None},
               {**base, "schema": {"b": 2, "a": 1}}, {**base, "schema": None}]
    assert len({reply_key(**settings) for settings in [base, *changed]}) == 6
    assert reply_key(**base) == reply_key(**dict(reversed(base.items())))


@pytest.mark.parametrize("body", [
    None, [], "text", 7, {}, {"choices": []}, {"choices": {}}, {"choices": [None]}, {"choices": [{}]},
    {"choices": [{"message": None}]}, {"choices": [{"message": {"content": None}}]},
    {"choices": [{"message": {"content": 7}}]}, {"choices": [{"message": {"content": {"text": "x"}}}]},
    {"choices": [{"message": {"content": "x"}, "finish_reason": 3}]}, {"error": {"message": "busy"}},
])
def test_wrong_shapes_are_no_reply(body):
    with pytest.raises(ValueError, match="choices"):
        read_choice(body)


@pytest.mark.parametrize(("choice", "text", "finish"), [
    ({"message": {"content": "a"}}, "a", "stop"),
    ({"message": {"content": ""}, "finish_reason": "stop"}, "", "stop"),
    ({"message": {"content": None}, "finish_reason": "length"}, "", "length"),
    ({"message": {"content": None}, "finish_reason": "content_filter"}, "", "content_filter"),
    ({"message": {"content": None, "refusal": "I can't."}, "finish_reason": "stop"}, "I can't.", "refusal"),
    ({"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}, "ab", "stop"),
    ({"message": {"content": "\ud800"}}, "?", "stop"),
    ({"message": {"content": None}, "finish_reason": "MAX_TOKENS"}, "", "MAX_TOKENS"),
    ({"message": {"content": None, "reasoning_content": "hm"}, "finish_reason": "stop"}, "", "no text"),
    ({"message": {"content": None, "tool_calls": []}, "finish_reason": "tool_calls"}, "", "no text"),
    ({"message": {"content": "a"}, "finish_reason": "some other"}, "a", "some other"),
])
def test_read_choice(choice, text, finish):
    got = read_choice({"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": None}})
    assert (got["text"], got["finish_reason"]) == (text, finish)
    assert (got["prompt_tokens"], got["completion_tokens"], got["cached_tokens"]) == (3, 0, 0)


@pytest.mark.parametrize("choice",
                         [{"message": {"content": "1"}, "finish_reason": "error"},
                          {"message": {"content": None}, "finish_reason": "abort"},
                          {"message": {"content": "1"}, "finish_reason": "stop",
                           "error": {"code": 502, "message": "upstream died"}},
                          {"message": {"content": "1"}, "finish_reason": "insufficient_system_resource"}])
def test_what_the_server_broke_off_is_no_reply(choice):
    with pytest.raises(BrokenOff):
        read_choice({"choices": [choice]})


@pytest.mark.parametrize(
    ("reason", "means"),
    [("stop", ""), ("end_turn", ""), ("length", "length"), ("model_length", "length"), ("MAX_TOKENS", "length"),
     ("content_filter", "refusal"), ("SAFETY", "refusal"), ("abort", "broken off"), ("no text", "no text")],
)
def test_what_finish_reasons_mean(reason, means):
    assert ending(reason) == means


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (0, 0, 0)),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, (3, 2, 0)),
        # Reasoning in the total alone.
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135}, (32, 103, 0)),
        # The prompt is not known.
        ({"completion_tokens": 2, "total_tokens": 5}, (0, 2, 0)),
        ({"prompt_tokens": 2**70, "completion_tokens": -5}, (0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens": "9"}, (0, 0, 0)),
        ({"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2**70}},
         (3, 1, 0)),
        ({"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}},
         (3, 1, 3)),
    ],
)
def test_token_counts(usage, counts):
    assert tuple(read_usage({"usage": usage}).values()) == counts


# --- one reply at a time ---

def test_a_reply_that_was_broken_off_makes_room_for_a_whole_one():
    store = Replies()
    store.put(Record(key=key(0), task="t", model="m", text="1", finish_reason="ERROR"))
    assert store.put(Record(key=key(0), task="t", model="m", text="10")).text == store.get(key(0)).text == "10"


def test_first_reply_stays_unless_replaced(tmp_path):
    store = Replies(tmp_path / "new" / "r.sqlite")
    assert store.put(record(1, "first")).text == "first"
    assert store.put(record(1, "second")).text == "first"
    assert store.put(record(1, "third"), replace=True).text == "third"
    assert Replies(tmp_path / "new" / "r.sqlite").get(key(1)).text == "third"
    assert store.get(key(2)) is None
    assert len(store) == 1


def test_every_field_comes_back(tmp_path):
    full = record(1, "naïve\0 \ud800 数", finish_reason="length", prompt_tokens=3, completion_tokens=2,
                  cached_tokens=1, seconds=0.25, sent={"format": "text", "dropped": ["seed"]},
                  label="AAPL-Q1", prompt="say\nit")
    store = Replies(tmp_path / "r.sqlite")
    store.put(full)
    back = store.get(key(1))
    assert back.text == "naïve\0 ? 数"           # a lone surrogate cannot be written as UTF-8
    assert [getattr(back, f) for f in Record.__slots__ if f != "text"] == [
        getattr(full, f) for f in Record.__slots__ if f != "text"]


def test_many_keys_at_once():
    store = Replies()
    for n in range(1200):
        store.put(record(n, str(n)))
    got = store.get_many([key(n) for n in range(0, 2400, 2)])
    assert len(got) == 600
    assert got[key(1198)].text == "1198"


# --- killed, crowded, full ---

@pytest.mark.slow
def test_killed_process_loses_no_committed_reply(tmp_path):
    path = tmp_path / "r.sqlite"
    for attempt in range(3):
        code = ("store, n = Replies(sys.argv[1]), int(sys.argv[2])\n"
                "while True: store.put(record(n, 'x' * 3000)); print(n, flush=True); n += 1")
        process = start(code, path, attempt * 10**6)
        done = [process.stdout.readline() for _ in range(150)]
        process.send_signal(signal.SIGKILL)
        done += process.communicate()[0].splitlines()
        done = [int(line) for line in done if line.strip()]
        found = Replies(path).get_many(map(key, done))
        assert len(done) >= 150
        assert len(found) == len(done)
        assert all(r.text == "x" * 3000 for r in found.values())
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.slow
def test_several_processes_write_at_once(tmp_path):
    code = ("store, me = Replies(sys.argv[1]), sys.argv[2]\n"
            "for n in range(150): store.put(record(n, me)); store.put(record(10**6 * int(me) + n, me))\n"
            "print(json.dumps([store.get(key(n)).text for n in range(150)]))")
    workers = [start(code, tmp_path / "r.sqlite", i) for i in (1, 2, 3)]
    seen = [json.loads(out) for out, _ in (w.communicate() for w in workers)]
    assert [w.returncode for w in workers] == [0, 0, 0]
    # Everyone sees the same one reply to a shared key.
    assert seen[0] == seen[1] == seen[2]
    store = Replies(tmp_path / "r.sqlite")
    assert len(store) == 150 + 3 * 150
    assert all(store.get(key(10**6 * i + n)).text == str(i) for i in (1, 2, 3) for n in range(150))


def test_full_disk(tmp_path):
    code = ("import resource; store = Replies(sys.argv[1])\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
            "n = 0\n"
            "try:\n"
            "    while True: store.put(record(n, str(n) * 2000)); n += 1\n"
            "except StoreError as error: print(n); print(error); print(error.record.text == str(n) * 2000)")
    out, err = start(code, tmp_path / "r.sqlite").communicate()
    saved, message, carried = out.splitlines()
    assert "cannot be written" in message, err
    assert "saved before are intact" in message
    assert carried == "True"
    store = Replies(tmp_path / "r.sqlite")                      # there is room again
    assert int(saved) > 10
    assert len(store) == int(saved)
    assert all(store.get(key(n)).text == str(n) * 2000 for n in range(int(saved)))
    store.put(record(int(saved)))


def test_a_damaged_row_is_one_clear_line(tmp_path):
    store = Replies(tmp_path / "r.sqlite")
    for n in range(2):
        store.put(record(n))
    sqlite3.connect(tmp_path / "r.sqlite").executescript(f"UPDATE replies SET sent = '{{' WHERE key = '{key(1)}'")
    assert store.get(key(0)).text == "yes"
    with pytest.raises(StoreError, match=f"the reply {key(1)} is damaged.*delete this row") as error:
        store.get(key(1))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("left_open", [False, True], ids=["closed", "with a write-ahead log"])
def test_a_store_in_a_read_only_folder_is_replayed(tmp_path, left_open):
    folder = tmp_path / "shared"
    store = Replies(folder / "r.sqlite")
    store.put(record(1))
    if not left_open:
        store._db.close()
    code = ("import urllib.parse         # Python 3.13 loads it late, and another user may not read where it is\n"
            "if os.geteuid() == 0: os.setuid(65534)          # root may write everywhere\n"
            "store = Replies(sys.argv[1])\n"
            "print(store.read_only, store.get(key(1)).text, len(store), store.pending())\n"
            "try: store.put(record(2))\n"
            "except StoreError as error: print(error)")
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if "pytest" in str(parent):                 # pytest's own folders are its user's alone
            parent.chmod(0o755)
    out, err = start(code, folder / "r.sqlite").communicate()
    folder.chmod(0o755)
    first, second = out.splitlines() or [err, ""]
    assert first == "True yes 1 {}"
    assert "read-only" in second


@pytest.mark.parametrize(("make", "name"), [
    (lambda folder: (folder / "r").mkdir(), "r"),
    (lambda folder: (folder / "r").write_text("key,text\n" * 300), "r"),
    (lambda folder: (folder / "file").write_text("x"), "file/r"),
])
def test_not_a_store(tmp_path, make, name):
    make(tmp_path)
    with pytest.raises(StoreError, match="cannot be opened as a reply store"):
        Replies(tmp_path / name)


# --- JSON lines ---

def filled(*records: Record) -> Replies:
    store = Replies()
    for r in records or (record(2, "zwei\n\"2\"", prompt="secret?", label="b"), record(1, "eins 数", label="a")):
        store.put(r)
    return store


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
@pytest.mark.parametrize("prompts", [True, False])
def test_export_and_import(tmp_path, name, prompts):
    assert filled().export(tmp_path / name, prompts=prompts) == 2
    other = Replies(tmp_path / "r.sqlite")
    assert (other.import_(tmp_path / name), other.import_(tmp_path / name)) == (2, 0)
    assert [r.text for r in other.records()] == ["eins 数", "zwei\n\"2\""]
    assert other.get(key(2)).prompt == ("secret?" if prompts else None)
    first = (tmp_path / name).read_bytes()
    other.export(tmp_path / name, prompts=prompts)
    assert (tmp_path / name).read_bytes() == first              # the order of arrival does not matter
    text = (gzip.decompress(first) if name.endswith("gz") else first).decode()
    assert text.count("\n") == 2
    assert "数" in text
    assert ("secret" in text) == prompts
    assert os.listdir(tmp_path).count(name) == 1
    assert not [f for f in os.listdir(tmp_path) if f.endswith(".part")]


def test_broken_export_leaves_the_old_file(tmp_path, monkeypatch):
    store = filled()
    store.export(tmp_path / "r.jsonl")
    before = (tmp_path / "r.jsonl").read_bytes()
    calls = iter([store.get(key(1))])
    monkeypatch.setattr(Replies, "get", lambda self, k: next(calls))      # the second record fails
    with pytest.raises(RuntimeError):
        store.export(tmp_path / "r.jsonl")
    assert (tmp_path / "r.jsonl").read_bytes() == before
    assert os.listdir(tmp_path) == ["r.jsonl"]


GOOD = json.dumps({"key": key(5), "task": "match", "model": "m", "text": "yes"})


@pytest.mark.parametrize(
    ("line", "says"),
    [("{", "line 2: not JSON"), ("[1]", "line 2: not a saved reply"), ("null", "line 2"), ('"x"', "line 2"),
     (GOOD.replace(key(5), "abc"), "64 hexadecimal"), (GOOD.replace('"yes"', "null"), "text cannot be None"),
     (GOOD.replace('"yes"', "7"), "text cannot be 7"), (GOOD.replace('"task"', '"tusk"'), "object with key"),
     (GOOD[:-1] + ', "sent": []}', "sent cannot be"),
     (GOOD[:-1] + ', "prompt_tokens": "3"}', "prompt_tokens cannot be"),
     (GOOD[:-1] + ', "prompt_tokens": 1' + 30 * "0" + "}", "prompt_tokens cannot be"),
     (GOOD[:-1] + ', "seconds": NaN}', "seconds cannot be"), (GOOD[:-1] + ', "seconds": -1}', "seconds cannot be"),
     (GOOD[:-1] + ', "more": 1}', "nothing but"), (GOOD.replace("yes", "\udc80"), "line 2: not JSON"),
     (GOOD.replace(key(5), key(1)), "another reply is saved")],
)
def test_malformed_import_changes_nothing(tmp_path, line, says):
    file = tmp_path / "in.jsonl"
    file.write_bytes(f"{GOOD.replace(key(5), key(9))}\n{line}\n".encode("utf-8", "surrogateescape"))
    store = filled(record(1, "no"))
    with pytest.raises(InputError, match=says) as error:
        store.import_(file)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert [r.text for r in store.records()] == ["no"]          # line 1 was good, and is not in


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_bytes(b"\x1f\x8b broken")])
def test_unreadable_file(tmp_path, make):
    make(tmp_path / "in.jsonl.gz")
    with pytest.raises(InputError, match="cannot be read as JSON lines"):
        Replies().import_(tmp_path / "in.jsonl.gz")


def test_blank_lines_and_byte_order_mark_are_tolerated(tmp_path):
    (tmp_path / "in.jsonl").write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\r\n\n")
    assert Replies().import_(tmp_path / "in.jsonl") == 1


# --- recordings ---

def test_recording_behind_a_store(tmp_path):
    filled(record(1, "recorded"), record(2, "recorded")).export(tmp_path / "r.jsonl.gz")
    store = Replies(tmp_path / "r.sqlite", recorded=[tmp_path / "r.jsonl.gz"])
    store.put(record(2, "fresh"))
    store.put(record(3, "fresh"))
    assert [store.get(key(n)).text for n in (1, 2, 3)] == ["recorded", "fresh", "fresh"]
    assert len(store) == 3
    assert [r.text for r in store.records()] == ["recorded", "fresh", "fresh"]


def test_recording_alone_is_read_only(tmp_path):
    filled().export(tmp_path / "r.jsonl")
    store = Replies(tmp_path / "r.jsonl")
    with pytest.raises(StoreError, match="read-only") as error:
        store.put(record(3))
    assert error.value.record == record(3)
    assert len(store) == 2
    assert os.listdir(tmp_path) == ["r.jsonl"]


def test_recording_written_by_hand_and_a_contradiction(tmp_path):
    turned = json.dumps(dict(reversed(json.loads(GOOD).items())))
    (tmp_path / "r.jsonl").write_text(f"{turned}\n{GOOD}\n")
    assert Replies(tmp_path / "r.jsonl").get(key(5)).text == "yes"
    (tmp_path / "r.jsonl").write_text(f"{GOOD}\n{GOOD.replace('yes', 'no')}\n")
    with pytest.raises(InputError, match="line 2: a second, different reply"):
        Replies(tmp_path / "r.jsonl")
    (tmp_path / "r.jsonl").write_text(GOOD[:-1] + ' "broken}\n')
    with pytest.raises(StoreError, match="damaged"):
        Replies(tmp_path / "r.jsonl").get(key(5))


def test_stats():
    store = filled(record(1, prompt_tokens=3, seconds=0.5), record(2, prompt_tokens=4, seconds=0.25),
                   Record(key(3), "score", "m", "7", date="2024-12-01"))
    match, score = store.stats()
    assert (match["model"], match["task"], match["replies"], match["prompt_tokens"]) == ("m", "match", 2, 3 + 4)
    assert match["seconds"] == 0.5 + 0.25
    assert score["first"] == score["last"] == "2024-12-01"


# --- batches ---

def body(n: int) -> dict:
    return {"model": "m", "messages": [{"role": "user", "content": f"question {n}"}], "max_tokens": 5}


def chat(text: str | None, finish: str = "stop") -> dict:
    return {"created": 1_700_000_000, "choices": [{"message": {"content": text}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 1}}


def waiting(n: int) -> Replies:
    store = Replies()
    store.add_pending((key(i), "match", "", body(i)) for i in range(n))
    return store


def test_batch_file_is_what_the_batch_endpoint_takes(tmp_path):
    assert waiting(2).export_pending(tmp_path / "b.jsonl") == 2
    assert json.loads((tmp_path / "b.jsonl").read_text().splitlines()[1]) == {
        "custom_id": key(1), "method": "POST", "url": "/v1/chat/completions", "body": body(1)}


def test_batch_results(tmp_path):
    good = {"status_code": 200, "request_id": "r", "body": chat("one")}
    lines = [
        {"id": "batch_req_1", "custom_id": key(0), "response": good, "error": None},
        {"id": "batch_req_2", "custom_id": key(0), "response": {**good, "body": chat("another")}, "error": None},
        {"custom_id": key(1), "response": {"status_code": 500, "body": {"error": {"message": "busy"}}}, "error": None},
        {"custom_id": key(2), "response": None, "error": {"code": "batch_expired", "message": "not in time"}},
        {"custom_id": key(3), "response": {"status_code": 200, "body": {"choices": []}}, "error": None},
        {"custom_id": key(4), "response": {**good, "body": chat("cut", "length")}, "error": None},
        # No status code.
        {"id": "vllm-1", "custom_id": key(5), "response": {"body": chat("five")}, "error": None},
        {"custom_id": "somebody else's", "response": good, "error": None},
        {"custom_id": key(6), "response": "rubbish", "error": None},
        {"custom_id": key(7), "response": good, "error": {"code": "cancelled"}},
    ]
    (tmp_path / "out.jsonl").write_text("\n".join(map(json.dumps, lines)))
    store = waiting(9)
    assert store.import_batch(tmp_path / "out.jsonl") == {
        "imported": 3, "duplicate": 1, "failed": 5, "unknown": 1, "pending": 6}
    assert store.pending() == {"match": 6}                   # 1, 2, 3, 6, 7 failed; 8 never came back
    assert store.get(key(0)).text == "one"
    assert store.get(key(0)).prompt == "question 0"
    assert store.get(key(0)).date == "2023-11-14T22:13:20+00:00"
    assert store.get(key(4)).finish_reason == "length"
    assert store.import_batch(tmp_path / "out.jsonl")["duplicate"] == 4     # the same file again adds nothing
    assert store.export_pending(tmp_path / "again.jsonl") == 6


@pytest.mark.parametrize(
    ("created", "year"),
    [(1_700_000_000, "2023"), (1_700_000_000_000, "2023"), (1_700_000_000.5, "2023"), (1e300, "20"),
     (-1e300, "20"), ("soon", "20"), (float("nan"), "20"), (True, "20")],
)
def test_a_date_of_any_kind(created, year):
    assert utc(created).startswith(year)


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        Replies().export(tmp_path / "file" / "r.jsonl")


@pytest.mark.parametrize("line", ["{", "[]", "7", '{"id": 3}', '"x"', "null"])
def test_malformed_batch_changes_nothing(tmp_path, line):
    good = json.dumps({"custom_id": key(0), "response": {"status_code": 200, "body": chat("one")}})
    (tmp_path / "out.jsonl").write_text(f"{good}\n{line}\n")
    store = waiting(1)
    with pytest.raises(InputError, match="line 2: not a batch result"):
        store.import_batch(tmp_path / "out.jsonl")
    assert len(store) == 0
    assert store.pending() == {"match": 1}
