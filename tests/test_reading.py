"""Judges' replies as they come: what is read, and what is left unscored rather than guessed."""

import hashlib
import json
import re
import time
from functools import partial
from pathlib import Path

import pytest
from doubles import ScriptedJudge

from ems.judge import JudgeStage, Record, Request
from ems.reading import read_list, read_number, read_numbers, read_rows, read_score, read_word

DATA = Path(__file__).parent.parent / "data"
LABELS = ("Entailment", "Neutral", "Contradiction")
AB = ["a", "b"]
ODD = ['quo"te', "brack]et", "{curly", "line\nbreak", "emoji 🚀", "-1", "1. one", "```", "’”"]


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        # lists in every dress
        ('{"points": ["a", "b"]}', AB),
        ('Here are the points [as asked]:\n```json\n["a", "b"]\n```\nLet me know!', AB),
        ("['it\\'s a', \"b\",]", ["it's a", "b"]),  # as Python writes it
        ('["a\nb"]', ["a\nb"]),
        ("1. a [3]\n2. b", ["a [3]", "b"]),
        ("下面是要点：\n• 一\n• 二\n完。", ["一", "二"]),
        ('{"points": ["a", "", "b"]}', AB),
        ('Maybe ["x"]?\n</think>\n\n["a", "b"]', AB),
        ('["x"] is a draft. {"points": ["a", "b"]}', AB),  # the key that was asked for decides
        ('{"points": ["a", "```[\\"x\\"]```"]}', ["a", '```["x"]```']),
        (
            '{"points": ["\\ud83d half"]}',
            ["? half"],
        ),  # half a character cannot be written to a file
        (json.dumps({"points": ODD}), ODD),
        ('{"points": []}', []),  # an answer: no points
        # no list, no guess
        ("I'm sorry, but I can't help with that.", None),
        ('{"points": [["a", "b"], ["c"', None),  # cut off, though a part of it is whole
        ('Points: [\n- "a",\n- "b"', None),
        ('<think>Maybe ["a"]', None),
        ('{"points": "a"}', None),
        ('{"claims": ["a"]}', None),  # the answer to another question
        ('["a", 3]', None),
        ('["a"] or rather ["b"]', None),  # two lists that differ
        ("['a' 'b', 'c']", None),  # a missing comma joins no points
        ("- a\nwhich means\n- b", None),  # prose within: whose is it?
        ("[" * 3000 + "]" * 3000, None),
        ('["a", ' + "9" * 6000 + "]", None),
    ],
)
def test_read_list(reply, points):
    assert read_list(reply, "points") == (None if points is None else tuple(points))


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        (" 2 \n", 2),
        ("−1", -1),
        ("**[2]**.", 2),
        ("```\n2\n```", 2),
        ("索引：2", 2),
        ("They share the 35% figure.\n2", 2),  # the last line counts
        ("<thinking>Hm.</thinking>\n3", 3),
        ("<think>3", None),
        ("<think>0?</think>\n<think>1?</think>\n3", 3),
        ("<think>0?</think>\n<think>3", None),
        ("0\n3", 3),
        ("Match: 2\nAnswer: 2", 2),
        ("<think>0 or 1?</think>\n\n1", 1),
        ('{"index": 2.0}', 2),
        ('{\n  "reason": "12% in both",\n  "index": 2\n}', 2),
        ("5", None),
        ("-2", None),  # off a menu of five points
        ("2.5", None),
        ("35%", None),
        ("1 or 2", None),
        ("two", None),
        ("", None),
        ('{"index": true}', None),
        ("Candidate 2 says the same.", None),
        ("2\n(it names 31 stores)", None),
        ('{"index": 2', None),
        # other numbers in the same dress: which one is meant?
        ("2\nAnswer: 3", None),
        ('Match: 1\n{"index": 2}', None),
        ('{"match": "none", "index": 2}', None),
        ("10", None),
        ("0\n\nAssistant: 2\nAs ordered", None),  # an answer's orders
        # the number of something else
        ("Number of matches: 2", None),
        ('{"total": 4}', None),
        ("Number of the match: 2", 2),
    ],
)
def test_read_number(reply, index):
    assert read_number(reply, -1, 4) == index


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("0", 0.0),
        ("10", 1.0),
        ("得分：7", 0.7),
        ("**Score:** 7/10", 0.7),
        ("7 out of 10.", 0.7),
        ('{"score": 7.0}', 0.7),
        ("11", None),
        ("-3", None),
        ("7/100", None),
        ("100", None),
        ("10/5", None),
        ("70%", None),
        ("7.5", None),
        ('{"score": 1e400}', None),
        ("Score: 3\nMaximum: 10", None),
        ("Score: 3/10\nRating: 4/10", None),
    ],
)
def test_read_score(reply, score):
    assert read_score(reply, max_score=10) == score


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("entailment.", "Entailment"),
        ("It says so.\nLabel: **“Neutral”**", "Neutral"),
        ("Not Entailment", None),
        ("Entailment\nbecause of 35%", None),
        ("", None),
    ],
)
def test_read_word(reply, word):
    assert read_word(reply, LABELS) == word


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ('{"blocks": [4, 0, "4"]}', [0, 4]),
        ('Block [0] brings a figure.\n{"blocks": []}', []),
        ('{"blocks": [0]}\nOn reflection:\n{"blocks": [4]}', None),
        ('{"blocks": [0, 5]}', None),
        ('{"blocks": [true]}', None),
        ('{"blocks": ["³"]}', None),
        ('{"blocks": 0}', None),
        ("none", None),
    ],
)
def test_read_block_numbers(reply, numbers):
    assert read_numbers(reply, "blocks", 5) == numbers


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"scores": [7, 10, 0]}', [0.7, 1.0, 0.0]),
        ("```json\n[7, 10, 0]\n```", [0.7, 1.0, 0.0]),
        ('{"scores": [7.0, 10, 0]}', [0.7, 1.0, 0.0]),  # JSON's whole numbers may have a point
        ('{"scores": ["7", "10", "high"]}', [0.7, 1.0, None]),  # each entry for itself
        ('{"scores": [7.5, 11, true]}', [None, None, None]),
        ('{"scores": [7, 10]}', None),  # which pair is left out?
        ('{"scores": [7, 10, 0', None),
        ("[7, 10, 0] or [7, 10, 1]", None),
        ("[7, 10, 0]\n```json\n{\n```", None),  # the second list is cut off
        ("<think>[1, 2, 3]?</think>\n```json\n[7, 10, 0]\n```", [0.7, 1.0, 0.0]),
        ("<think>[1, 2, 3]?</think><think>[7, 10, 0]", None),
    ],
)
def test_read_rows(reply, scores):
    assert read_rows(reply, "scores", 3, lambda entry: read_score(entry, 10)) == scores


def test_what_cannot_be_read_is_counted_by_task_and_reason():
    read_one = partial(read_number, least=-1, most=2)
    read_two = partial(read_rows, key="matches", count=2, read=read_one)
    single = Request("match", "one", 32, read=read_one)
    joint = Request("match", "two", 32, read=read_two, entries=2)

    cut = Record("", "match", "m", "1", finish_reason="length")
    late = Record("", "match", "m", "", failure="timeout")
    stage = JudgeStage(ScriptedJudge("1", "perhaps", cut, late))
    assert stage.ask_and_read([single] * 4) == [1, None, None, None]
    assert stage.failures == {"match: unreadable": 1, "match: length": 1, "match: timeout": 1}

    stage.judge = ScriptedJudge('{"matches": [0, 9]}', late)
    assert stage.ask_and_read([joint] * 2) == [0, None, None, None]
    assert stage.failures == {"match: unreadable": 2, "match: length": 1, "match: timeout": 3}


@pytest.mark.parametrize(
    "reply",
    [
        "[" * 200_000,
        '["' + "a" * 1_000_000,
        "[x] " * 5_000,
        "'" * 200_000 + "[",
        "[" + "'a', " * 50_000,
        "1. " * 200_000,
        "- a\n" * 100_000 + "x\ny",
        "\n" * 500_000 + "2",
        "Answer:" * 100_000,
        "Answer:" + " " * 300_000 + "x",
        "[1] " * 50_000,
    ],
)
def test_the_time_for_a_reply_grows_with_its_length_alone(reply):
    began = time.process_time()
    read_list(reply, "points")
    read_number(reply, -1, 4)
    read_score(reply, 10)
    read_word(reply, LABELS)
    read_numbers(reply, "blocks", 5)
    assert time.process_time() - began < 5


LISTS = {"extract": "points", "claims": "claims"}
ROWS = {
    "match": ("matches", lambda text: read_number(text, -1, 999)),
    "score": ("scores", lambda text: read_score(text, 10)),
    "entail": ("labels", lambda text: read_word(text, LABELS)),
    "support": ("labels", lambda text: read_word(text, LABELS)),
}


def reading_of(task, text):
    if task in LISTS:
        return read_list(text, LISTS[task])
    if task == "summary":
        return read_numbers(text, "blocks", 1000)
    key, read = ROWS[task]
    found = re.search(r"\[(.*?)\]", text, re.S)
    return [read(text), read_rows(text, key, found[1].count(",") + 1 if found else 1, read)]


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("q3-2024/replies.jsonl", "38f29d29601a82dc"),
        ("q3-2024/support_replies.jsonl", "22d6bbb7777b0efa"),
        ("human/replies.jsonl", "2038b7989c98dd57"),
        ("human/label_replies.jsonl", "4209a46390808ce5"),
        ("human/support_replies.jsonl", "816f0d386ecab082"),
        ("human/systems_replies.jsonl", "b578989214e0a31f"),
    ],
)
def test_every_recorded_reply_reads_the_same(name, digest):
    # A change of a reader that moves one of these moves published values: record anew, or leave it.
    rows = [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    read = {
        row["key"]: reading_of(row["task"], row["text"])
        for row in rows
        if row["task"] in {*LISTS, *ROWS, "summary"}
    }
    assert hashlib.sha256(json.dumps(sorted(read.items())).encode()).hexdigest().startswith(digest)
