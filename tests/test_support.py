"""Points checked against a document: passages and ranking, a judge's labels, the table.

study/test_document.py makes the recorded labels again.
"""

import json
from dataclasses import replace

import pytest
from doubles import ScriptedJudge, refused

from ems.results import CoverageResult, EMSResult, Support
from ems.support.passages import Passages, _stem, cut, terms
from ems.support.supporter import check_by_judge, support_table

CALL = """Jane Roe -- Chief Financial Officer

Total revenue was $94.9 billion, up 6% from a year ago. iPhone revenue grew to $46.2 billion.
Services revenue reached an all-time record of $25.0 billion, against $22.3 billion in the prior year.

Operating expenses declined 3% to $14.3 billion. We did not raise the dividend in the quarter.

| Segment (in millions) | 2024 | 2023 |
| Americas revenue | 41,664 | 40,115 |"""


def result(*points: str, id_: str = "t", model: str = "m") -> EMSResult:
    """An answer of these points, none of which is in the reference."""
    return EMSResult(
        id_,
        model,
        ("r",),
        points,
        (-1,),
        (0.0,),
        recall=0.0,
        precision=0.0,
        f1=0.0,
        signature={"judge": "j"},
    )


def by_judge(judge: ScriptedJudge, *points: str) -> list[Support]:
    (checked,) = check_by_judge([result(*points)], {"t": CALL}, judge, k=1)
    return list(checked.support)


# --- passages ---


def test_what_decides_the_order_of_passages():
    index = Passages(["cash cash", "cash flow", "debt"])
    assert index.top("cash flow", 5) == [1, 0]  # the rarer word weighs more
    assert Passages(["cash debt", "cash cash"]).top("cash", 2) == [1, 0]  # repetition
    assert Passages(["cash and debt", "cash"]).top("cash", 2) == [1, 0]  # the shorter passage
    # Repetition saturates: of passages of equal length, one with two words of the text is better
    # than one with a single word of it four times.
    saturated = Passages(["cash cash cash cash", "cash flow and debt", "flow"])
    assert saturated.top("cash flow", 1) == [1]
    assert index.top("nothing shared", 3) == []
    assert Passages(["b a", "a b"]).top("a", 2) == [0, 1]  # of two equal ones the earlier


def test_words_of_retrieval_are_stems_and_a_number_is_one_word_whatever_its_commas():
    stems = terms("The company's revenues were growing rapidly")
    assert stems == ["the", "company", "revenu", "were", "grow", "rapid"]
    assert terms("Cash was 1,234.5") == ["cash", "was", "1234.5"]
    assert terms("売上は3億") == ["売", "上", "は", "億", "3"]
    assert Passages(["cost 1,234", "cost 234"]).top("1234", 2) == [0]


@pytest.mark.parametrize(
    ("word", "stemmed"),
    [
        ("companies", "company"),
        ("classes", "class"),
        ("status", "status"),
        ("planned", "plan"),
        ("falling", "fall"),
        ("allegedly", "alleg"),
        ("red", "red"),
        ("increase", "increas"),
        ("use", "use"),
    ],
)
def test_a_stem_is_what_recorded_rankings_were_made_with(word, stemmed):
    assert _stem(word) == stemmed


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("字" * 996 + "1,234,567.5" + "字" * 900, "1,234,567.5"),
        ("x" * 300 + " " + "9" * 900 + "字" * 900, "9" * 900),
        ("\n\n".join([CALL, "word 1,234.5 " * 400, "x" * 2500]), "1,234.5"),
    ],
)
def test_passages_hold_the_whole_text_and_a_number_is_not_cut_where_there_is_no_space_near_it(
    text, number
):
    passages = cut(text)
    assert max(map(len, passages)) <= 1000
    assert "".join(text.split()) == "".join("".join(passages).split())
    assert sum(passage.count(number) for passage in passages) == text.count(number)


# --- with a judge ---


def test_the_judge_sees_the_best_passages_once_and_its_words_become_labels():
    judge = ScriptedJudge('{"labels": ["Entailment", "Contradiction", "Neutral"]}')
    points = (
        "Total revenue was $94.9 billion.",
        "The dividend was raised.",
        "Services are in 40 countries.",
    )
    supports = by_judge(judge, *points)
    assert [s.label for s in supports] == ["supported", "contradicted", "silent"]
    assert [s.passage for s in supports] == [0, 0, 0]
    assert supports[0].quote.startswith("Jane Roe")
    (prompt,) = judge.seen
    assert prompt.count("Total revenue was $94.9 billion, up 6%") == 1
    assert '2: "Services are in 40 countries."' in prompt


def test_a_lost_reply_has_no_label_and_a_bad_word_costs_its_point_alone():
    judge = ScriptedJudge(None, '{"labels": ["Entailment", "maybe"]}', '{"labels": ["Entailment"]}')
    lost, read, short = check_by_judge(
        [result("Total revenue rose.", "iPhone revenue grew.")] * 3, {"t": CALL}, judge
    )
    assert [(s.label, s.reason) for s in lost.support] == [(None, "no label could be read")] * 2
    assert [(s.label, s.reason) for s in read.support] == [
        ("supported", ""),
        (None, "no label could be read"),
    ]
    assert [s.label for s in short.support] == [None, None]  # one label for two points says nothing


def test_ten_points_a_call_a_repeated_one_once_and_a_foreign_one_not_at_all():
    judge = ScriptedJudge(
        lambda request: json.dumps({"labels": ["Entailment"] * (request.max_tokens // 8 - 4)})
    )
    points = [f"Revenue of part {i} was $94.9 billion." for i in range(11)]
    supports = by_judge(judge, *points, points[0], "Xyzzy plugh!")
    assert [request.max_tokens for request in judge.requests] == [32 + 80, 32 + 8]
    assert [s.label for s in supports] == ["supported"] * 12 + ["silent"]
    # What a dry run assumes as the reply.
    assert json.loads(judge.requests[1].assumed()) == {"labels": ["Contradiction"]}


def test_the_signature_says_how_points_were_checked_and_nothing_else_changes():
    given = [
        result("Total revenue rose."),
        CoverageResult("t", "m", ("r",), ("Total revenue rose.",), (1.0,), (1.0,)),
    ]
    checked = check_by_judge(given, {"t": CALL}, lambda prompt: '{"labels": ["Neutral"]}')
    for before, after in zip(given, checked, strict=True):
        assert after.signature["support"].startswith("kit#")
        assert after.signature["support"].endswith(",k=3,points=10,judge=<lambda>")
        assert replace(after, support=(), signature=before.signature) == before


@pytest.mark.parametrize(
    ("contexts", "says"),
    [
        ({}, "'t' has no context"),
        ({"t": " \n "}, "'t' has no context"),
        ({"t": ["", " "]}, "'t' has no context"),
        ({"t": "--- \n\n ***"}, "the document is empty"),
    ],
)
def test_a_triplet_without_a_document_is_refused(contexts, says):
    with refused(says):
        check_by_judge([result("Revenue rose.")], contexts, ScriptedJudge())


# --- the table ---


def test_shares_by_hand():
    judge = ScriptedJudge(
        '{"labels": ["Entailment", "Entailment", "Contradiction", "Neutral", "what"]}'
    )
    points = [f"Revenue {i}" for i in range(5)]
    checked = check_by_judge(
        [replace(result(*points), match=(0,), score=(0.7,))], {"t": CALL}, judge
    )
    (row,) = support_table(checked).to_dict("records")
    # "Revenue 0" is matched; of the four with a label, one is supported and not in the reference
    assert row == {
        "model": "m",
        "points": 5,
        "unscored": 1,
        "supported": 2 / 4,
        "contradicted": 1 / 4,
        "silent": 1 / 4,
        "supported but unmatched": 1 / 4,
    }


def test_each_model_has_a_row():
    checked = check_by_judge(
        [result("Revenue rose."), result(model="empty"), result("Revenue fell.", model="n")],
        {"t": CALL},
        lambda prompt: '{"labels": ["Neutral"]}',
    )
    table = support_table(checked)
    assert table[["model", "points", "silent"]].to_numpy().tolist() == [["m", 1, 1], ["n", 1, 1]]
