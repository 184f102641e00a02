"""Coverage: every point of either side held against the whole other side, by words or by a judge."""

import json
from dataclasses import replace
from math import isnan

import pytest
from doubles import ScriptedJudge

from ems.coverage import Coverage
from ems.match import LLMMatcher
from ems.pipeline import EMS, is_lost
from ems.score import LLMScorer
from ems.types import Answer, GivenPoint, InputError, Triplet


class Lines:
    """Each line a point; a text that says so cannot be read."""

    signature = "lines"

    def __call__(self, texts):
        return [None if text == "unreadable" else tuple(text.splitlines()) for text in texts]


REFERENCE, ANSWER = "Revenue rose 6%.\nMargin fell.", "Revenue rose 6%.\nIt rained."
GIVEN = (GivenPoint("Revenue rose 6%.", 3.0), GivenPoint("Margin fell.", 1.0))


def scores(*values):
    return json.dumps({"scores": list(values)})


def named(*values, contradicted=()):
    return json.dumps({"scores": list(values), "contradicted": list(contradicted)})


# --- by a judge ---


def test_a_judge_holds_points_against_the_other_text_by_hand():
    judge = ScriptedJudge(named(10, 4, contradicted=[1]), named(9, 0))
    result = Coverage(Lines(), judge).score(REFERENCE, ANSWER, "How did it go?")
    assert (result.ref_score, result.ans_score) == (
        (1.0, 0.4),
        (0.9, 0.0),
    )  # a contradicted point keeps its score
    assert (result.contradicted, result.ans_contradicted) == ((1,), ())
    assert (result.recall, result.precision) == ((1.0 + 0.4) / 2, (0.9 + 0.0) / 2)
    assert (result.unscored, result.reason, result.question) == (0, "", "How did it go?")
    assert result.signature["judge"] == "scripted"
    first, second = judge.seen
    assert first.index(ANSWER) < first.index('0: "Revenue rose 6%."\n1: "Margin fell."')
    assert second.index(REFERENCE) < second.index('0: "Revenue rose 6%."\n1: "It rained."')


@pytest.mark.parametrize(
    ("reply", "read", "unscored", "precision", "reason"),
    [
        (named(10, 5), (1.0, 0.5), 0, 0.75, ""),
        ('{"scores": [7.0, "3"], "contradicted": [1.0]}', (0.7, 0.3), 0, 0.5, ""),
        (named(11, 5), (None, 0.5), 1, 0.5, "1 of 4 points unscored"),
        (
            named(5),
            (None, None),
            2,
            None,
            "no point could be scored",
        ),  # whose score is missing is not known
        (
            named(5, 5, contradicted=[2]),
            (None, None),
            2,
            None,
            "no point could be scored",
        ),  # there is no point 2
        (scores(5, 5), (None, None), 2, None, "no point could be scored"),
        ("[1, 0]", (None, None), 2, None, "no point could be scored"),  # which of the lists is it?
        (None, (None, None), 2, None, "no point could be scored"),
    ],
)
def test_a_reply_that_cannot_be_read_is_unscored_and_leaves_the_other_side(
    reply, read, unscored, precision, reason
):
    coverage = Coverage(Lines(), ScriptedJudge(named(10, 4), reply))
    result = coverage.score(REFERENCE, ANSWER)
    assert (result.ans_score, result.recall) == (read, 0.7)
    assert (result.unscored, result.reason) == (unscored, reason)
    assert result.precision == pytest.approx(
        float("nan") if precision is None else precision, nan_ok=True
    )
    assert bool(coverage.failures) == (precision is None)  # replies that gave nothing are counted


def test_another_scale_and_given_weights():
    triplet = Triplet("t", "g", "q", "", points=GIVEN)
    judge = ScriptedJudge(named(3, 1), named(2, 0))
    (result,) = Coverage(Lines(), judge, max_score=4).evaluate(
        [triplet], [Answer("t", "m", ANSWER)]
    )
    assert result.recall == (3 * 0.75 + 1 * 0.25) / 4
    assert "number from 0 to 4" in judge.seen[0]
    assert (
        "Revenue rose 6%.\nMargin fell." in judge.seen[1]
    )  # given points are the reference's text
    with pytest.raises(InputError, match="max_score"):
        Coverage(Lines(), judge, max_score=0)


# --- by words ---


def test_words_and_numbers_decide_without_a_judge():
    result = Coverage(Lines()).score(REFERENCE, ANSWER)
    assert result.ref_score == (1.0, 0.0)
    assert result.ans_score == (1.0, 0.0)
    assert result.nearest == (0, -1)
    weight, other = result.ref_weights
    assert result.recall == pytest.approx(weight / (weight + other))
    assert weight > other  # it has a number
    assert (result.unscored, result.reason) == (0, "")
    assert "judge" not in result.signature


def test_given_points_keep_their_weights_and_the_question_weighs_less():
    triplet = Triplet("t", "g", "", "", points=GIVEN)
    (result,) = Coverage(Lines()).evaluate([triplet], [Answer("t", "m", ANSWER)])
    assert result.ref_weights == (3.0, 1.0)
    assert result.recall == 3 / 4
    plain, asked = (
        Coverage(Lines()).score(REFERENCE, ANSWER, q) for q in ("", "By how much did revenue rise?")
    )
    assert asked.ref_weights[0] < plain.ref_weights[0]


def test_a_script_that_is_not_read_as_words_is_named():
    result = Coverage(Lines()).score("Выручка выросла на 6%.", "Revenue rose 6%.")
    assert "CYRILLIC" in result.reason.upper()
    assert result.unscored == 0
    assert Coverage(Lines()).score(REFERENCE, ANSWER).reason == ""


# --- either way ---


@pytest.fixture(params=["words", "judge"])
def make(request):
    return lambda: Coverage(Lines(), None if request.param == "words" else ScriptedJudge())


def test_an_empty_side_costs_no_call(make):
    empty, none = make().score(REFERENCE, ""), make().score("", ANSWER)
    assert (empty.recall, empty.precision, empty.f1, empty.unscored) == (0.0, 0.0, 0.0, 0)
    assert isnan(none.f1)
    assert (none.unscored, none.reason) == (0, "the reference has no points")


def test_a_side_that_could_not_be_read_is_unscored_and_said(make):
    answer, reference = make().score(REFERENCE, "unreadable"), make().score("unreadable", ANSWER)
    assert (answer.ref_points, answer.ref_score, answer.unscored) == (
        ("Revenue rose 6%.", "Margin fell."),
        (None, None),
        2,
    )
    assert "could not be read" in answer.reason
    assert (reference.ans_score, reference.unscored) == ((None, None), 1)
    assert all(isnan(value) for r in (answer, reference) for value in (r.recall, r.precision, r.f1))
    assert is_lost(answer)


def test_coverage_of_results_is_that_of_their_points():
    judge = ScriptedJudge({"match": "0", "score": "x", "coverage": named(8, 2)})
    evaluator = EMS(Lines(), LLMMatcher(judge), LLMScorer(judge))
    triplets = [
        Triplet("t", "g", "q", REFERENCE),
        Triplet("u", "h", "q", "unreadable"),
        replace(Triplet("v", "g", "q", ""), points=GIVEN),
    ]
    answers = [Answer(i, "m", ANSWER) for i in ("u", "v", "t")]
    results = evaluator.evaluate(triplets, answers)
    assert [r.unscored for r in results] == [1, 2, 2]  # the matched pairs have no scores
    coverage = Coverage(Lines(), judge)
    again = coverage.of_results(results, triplets, answers)
    assert str(again) == str(coverage.evaluate(triplets, answers))  # nan is not equal to itself
    assert [(r.unscored, r.group) for r in again] == [(1, "h"), (0, "g"), (0, "g")]
