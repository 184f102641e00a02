"""Judges' replies as they come: what is read, and what is left unscored rather than guessed."""

import json
import time

import pytest

from ems.reading import read_block_numbers, read_index, read_list, read_score, read_word

AB = ["a", "b"]


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        # lists in every dress
        ('{"points": ["a", "b"]}', AB),
        ('["a", "b"]', AB),
        ('```json\n{"points": ["a", "b"]}\n```', AB),
        ('```\n["a", "b"]\n```', AB),
        ('```json ["a", "b"] ```', AB),
        # The fence was not closed, the list was.
        ('```json\n["a", "b"]', AB),
        ('Here are the points:\n{"points": ["a", "b"]}\nLet me know!', AB),
        # Brackets in the prose are not the list.
        ('The points [as asked] are:\n["a", "b"]', AB),
        ("['a', 'b']", AB),  # a Python list, as the paper's prompt asks for
        ("{'points': ['a', 'b']}", AB),
        ("['it\\'s', \"b\"]", ["it's", "b"]),
        ('["a", "b",]', AB),
        ("['50\\% of a', 'b']", ["50\\% of a", "b"]),
        ('["a\nb"]', ["a\nb"]),
        # Quotes that were not escaped, an entry a line.
        ('[\n"5\'8" tall",\n"b"\n]', ["5'8\" tall", "b"]),
        ("[\n“a”,\n“b”\n]", AB),
        ("1. a\n2. b", AB),
        ("1) a\n2) b", AB),
        ("- a\n- b", AB),
        ("• a\n• b", AB),
        ("Points:\n- a\n- b", AB),
        ("Points:\n- a\n- b\nThat is all.", AB),
        ('- "a"\n- "b"', AB),
        ('- a\n- ""\n- b', AB),
        ("1. a [3]\n2. b", ["a [3]", "b"]),
        ('1. the list ["x", "y"]\n2. b', ['the list ["x", "y"]', "b"]),  # the numbered list is the list
        ('[["a"], ["b"]]', AB),  # nested: flattened in order
        ('{"points": [["a", ["b"]]]}', AB),
        ('["要点一", "要点二"]', ["要点一", "要点二"]),
        ("下面是要点：\n1. 一\n2. 二", ["一", "二"]),
        ('<think>\nMaybe ["x"]?\n</think>\n["a", "b"]', AB),
        ('Maybe ["x"]?\n</think>\n\n["a", "b"]', AB),
        ('{"points": ["a </think> b"]}', ["a </think> b"]),
        ('["a", "b"]\n["a", "b"]', AB),
        (
            '{"points": ["a", "```[\\"x\\"]```"]}',
            ["a", '```["x"]```'],
        ),  # a fence inside a point is the point's
        # Half a character cannot be written to a file.
        ('{"points": ["\\ud83d half"]}', ["\ufffd half"]),
        # an empty list is an answer
        ("[]", []),
        ('{"points": []}', []),
        ('{"points": [""]}', []),
        # no list, no guess
        ("", None),
        ("   \n", None),
        ('["a", "b', None),  # cut
        ('{"points": ["a", "b"', None),
        ('{"points": [["a", "b"], ["c"', None),  # cut, though a part of it is whole
        ('Points: [\n- "a",\n- "b"', None),
        ("I'm sorry, but I can't help with that.", None),
        ("There are no points.", None),
        ("null", None),
        ('{"points": "a"}', None),
        ('{"points": null}', None),
        ('{"claims": ["a"]}', None),  # the answer to another question
        ('["a", 3]', None),
        ('[{"point": "a"}]', None),
        ("[1, 2]", None),
        ('["a"] or rather ["b"]', None),  # two lists that differ
        ("- a\nwhich means\n- b", None),  # prose within: whose is it?
        ("One.\nTwo.\n- a", None),
        ("['it's', 'b']", None),
        ("[" * 3000 + "]" * 3000, None),
        ('["a", ' + "9" * 6000 + "]", None),
        ("{curly} [brackets]", None),
    ],
)
def test_read_list(reply, points):
    assert read_list(reply, "points") == points


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("2", 2),
        ("0", 0),
        ("-1", -1),
        ("−1", -1),
        (" 2 \n", 2),
        ("2.", 2),
        ("[2]", 2),
        ("(2)", 2),
        ("**2**", 2),
        ("`2`", 2),
        ('"2"', 2),
        ("```\n2\n```", 2),
        ("Matched Index: 2", 2),
        ("Matched Index:\n2", 2),
        ("**Answer:** 2", 2),
        ("Answer = 2", 2),
        ("索引：2", 2),
        ("Antwort: -1", -1),
        ("Индекс: 3.", 3),
        ("They share the 35% figure.\n2", 2),  # the last line counts
        ("2\n3", 3),
        ('{"index": 2}', 2),
        ('{\n  "reason": "12% in both",\n  "index": 2\n}', 2),
        ('2: "Harbor Foods opened 31 stores."', 2),  # the menu's line, repeated
        ("<think>0 or 1?</think>\n\n1", 1),
        ("5", None),
        ("7", None),
        ("-2", None),  # off a menu of five points
        ("35%", None),
        ("35% growth", None),
        ("$2", None),
        ("2.5", None),
        ("1,000", None),
        ("1e1", None),
        ("99999999999", None),
        ("1 or 2", None),
        ("1, 2", None),
        ("1-2", None),
        ("Reference 3: 2", None),
        ('{"reference": 1, "index": 2}', None),
        ("2\n(it names 31 stores)", None),
        ("Candidate 2 says the same.", None),
        ("two", None),
        ("No match.", None),
        ("", None),
        ("I cannot decide.", None),
        ("無", None),
        ("true", None),
        ('{"index": true}', None),
        ('{"index": 2', None),
        # a number is read when it is the one thing said
        ('{"index": "2"}', 2),
        ('{"index": 2.0}', 2),
        ('{"index": "−1"}', -1),
        ('{"index": 2.5}', None),
        ('{"n": 2}', 2),
        ('{"best_match": 2, "reason": "both say so"}', 2),
        ('{"index": 2, "note": null}', 2),
        ('{"match": null, "reference": 2}', None),
        ('{"index": "none", "candidates": 4}', None),
        ('{"match": "2", "closest": 3}', None),
        ('{"index": "-1", "closest": 2}', None),
        ('{"match": "none", "index": 2}', None),
        ('{"reason": "none", "n": 2}', None),
        ('{"total": 4}', None),
        ('{"index": 2}\n{"index": 3}', None),
        ('{"index": 2}\n{"index": 2}', 2),
        ('Match: 1\n{"index": 2}', None),
        ("Match: 1\nTotal candidates: 4", None),
        ("Match: 1\nCandidate: 4", None),
        ("Total candidates: 4", None),
        ("No match: 0", None),
        ("Match: 2\nAnswer: 2", 2),
        ("2\nAnswer: 2", 2),
        ("2\nAnswer: 3", None),
        ("Closest: 2\n3", None),
        ("Number of the match: 2", 2),
        ("Number of matches: 2", None),
        ('0: "a"\n1: "b"', None),
        ('1: "b"\n1', 1),
        ("Noted: 2", 2),
    ],
)
def test_read_index(reply, index):
    assert read_index(reply, n_points=5) == index


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("Both name it.\nThe number of the chosen one is 1.", 1),
        ("The best match is **3**", 3),
        ("My choice is -1.", -1),
        ("The matching candidate is number 1.", None),
        ("The chosen one is not 1.", None),
        ("The best match is 1 or 2.", None),
        ("The best match is 1, and the second is 2.", None),
        ("None of them is 1", None),
        ("Revenue is 4", None),
        ("The candidate with no match is 2", None),
        ("The best of 3 is 1.", None),
        ("The best match is 9.", None),
        ("The margin is 4%.", None),
        ("The margin is 4.", None),
        ("The best match is 1.\nIt says the same.", None),
    ],
)
def test_read_index_from_a_sentence_that_ends_in_it(reply, index):
    assert read_index(reply, n_points=5) == index


@pytest.mark.parametrize(("reply", "index"), [("1", 0), ("5", 4), ("-1", -1), ("0", None), ("6", None), ('5: "x"', 4)])
def test_read_index_of_a_menu_that_counts_from_one(reply, index):
    assert read_index(reply, n_points=5, first=1) == index


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("7", 0.7),
        ("0", 0.0),
        ("10", 1.0),
        ("Score: 7", 0.7),
        ("**7**", 0.7),
        ("7.", 0.7),
        ("7/10", 0.7),
        ("Score: 7/10", 0.7),
        ("7 / 10.", 0.7),
        ("7 out of 10", 0.7),
        ("**Score:** 7/10", 0.7),
        ("Output: 10", 1.0),
        ("得分：7", 0.7),
        ("Punktzahl: 3", 0.3),
        ("Both say 35%.\n8", 0.8),
        ('{"score": 8}', 0.8),
        ("Matching Score:\n8", 0.8),
        ("The score is 8.", 0.8),
        ("11", None),
        ("11/10", None),
        ("11 of 10", None),
        ("-3", None),
        ("−3", None),
        ("7/100", None),
        ("70%", None),
        ("0.7", None),
        ("7.5", None),
        ("7 or 8", None),
        ("7-8", None),
        ("Score: high", None),
        ("seven", None),
        ("", None),
        ("10 (exact match)", None),
        ("7/010", 0.7),
        ('{"score": 7.0}', 0.7),
        ('{"score": "7"}', 0.7),
        ('{"score": 7.5}', None),
        ('{"score": 7, "reason": "as 1"}', 0.7),
        ('{"score": 7.5, "max_score": 10}', None),
        ('{"score": null, "max_score": 10}', None),
        ('{"score": "3", "max_score": 10}', None),
        ('{"max_score": 10}', None),
        ('{"score": 1e400}', None),
        ('{"score": [7], "rating": "7"}', None),
        ("Score: 3\nMaximum: 10", None),
        ("Score: 3\nOut of: 10", None),
        ("Score: 3\nScale: 10", None),
        ("3\nConfidence: 9", None),
        ("Score: 3/10\nRating: 4/10", None),
        ("Score: 3/10\n3", 0.3),
        ("Error code: 5", None),
        ("Max score: 10/10", None),
        ("5\n6", 0.6),
        ("Points: 7", 0.7),
        ("The maximum score is 10", None),
        ("The total score is 8.", None),
        ("I'm sorry, I can't score this.", None),
        ('{"score": 7, "max": 10}', None),
        ("1" * 30, None),
        ('7: "a"', None),
    ],
)
def test_read_score(reply, score):
    assert read_score(reply, max_score=10) == score


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("Entailment", "Entailment"),
        ("entailment.", "Entailment"),
        ("Word: Neutral", "Neutral"),
        ('"Contradiction"', "Contradiction"),
        ("**Neutral**", "Neutral"),
        ("Label: **Contradiction**", "Contradiction"),
        ("The text says so.\nEntailment", "Entailment"),
        ("Not Entailment", None),
        ("Entailment or Neutral", None),
        ("entailed", None),
        ("", None),
        ("Entailment\nbecause of 35%", None),
        ("中立", None),
    ],
)
def test_read_word(reply, word):
    assert read_word(reply, ("Entailment", "Neutral", "Contradiction")) == word


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ('{"blocks": [0, 4]}', [0, 4]),
        ("[4, 0, 4]", [0, 4]),
        ('{"blocks": []}', []),
        ('{"blocks": ["0"]}', [0]),
        ('```json\n{"blocks": [0]}\n```', [0]),
        ("Blocks: [0]", [0]),
        ('{"blocks": [5]}', None),
        ('{"blocks": [-1]}', None),
        ('{"blocks": [true]}', None),
        ('{"blocks": [0.5]}', None),
        ('Block [0] opens the text, but brings a figure.\n{"blocks": []}', None),
        ('{"blocks": [0]}\nOn reflection:\n{"blocks": [4]}', None),
        ('{"blocks": [0]}\n{"blocks": [0]}', [0]),
        ('{"blocks": ["³"]}', None),
        ('{"blocks": ["' + "9" * 5000 + '"]}', None),
        ('{"blocks": 0}', None),
        ('{"points": [0]}', None),
        ("none", None),
        ("", None),
        ("[0, 1", None),
    ],
)
def test_read_numbers(reply, numbers):
    assert read_block_numbers(reply, 5) == numbers


@pytest.mark.parametrize(
    "reply",
    [
        "[" * 200_000,
        "{" * 200_000,
        '["' + "a" * 1_000_000,
        "[x] " * 5_000,
        "'" * 200_000 + "[",
        "[" + "' " * 50_000 + "]",
        "1. " * 200_000,
        "- a\n" * 100_000 + "x\ny",
        "\n" * 500_000 + "2",
        "Answer:" * 100_000,
        '{"a": ' * 40 + "1" + "}" * 40,
    ],
)
def test_a_reply_of_any_shape_is_read_in_time_that_grows_with_its_length(reply):
    began = time.process_time()
    read_list(reply, "points")
    read_index(reply, 5)
    read_score(reply, 10)
    read_block_numbers(reply, 5)
    assert time.process_time() - began < 5


def test_any_list_of_strings_survives_json():
    points = ['quo"te', "brack]et", "{curly", "line\nbreak", "tab\t", "emoji 🚀", "-1", "1. one", "```", "’”"]
    assert read_list(json.dumps({"points": points}), "points") == [p.strip() for p in points]


@pytest.mark.parametrize("reply", ['["a" "b"]', "['a' 'b', 'c']", '{"points": ["a"\n"b"]}', "['a'\n # c\n 'b']"])
def test_a_missing_comma_never_joins_two_points(reply):
    assert read_list(reply, "points") is None
