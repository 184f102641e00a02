"""Coverage: how far each point is stated by the whole other text, by words or by a judge."""

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


def reply_of(*scores, contradicted=()):
    return json.dumps({"scores": list(scores), "contradicted": list(contradicted)})


# --- by a judge ---


def test_a_judge_compares_points_with_the_other_text_by_hand():
    judge = ScriptedJudge(reply_of(10, 4, contradicted=[1]), reply_of(9, 0))
    result = Coverage(Lines(), judge).score(REFERENCE, ANSWER, "How did it go?")
    assert result.ref_score == (1.0, 0.4)  # a contradicted point keeps its score
    assert result.ans_score == (0.9, 0.0)
    assert (result.contradicted, result.ans_contradicted) == ((1,), ())
    assert (result.recall, result.precision) == ((1.0 + 0.4) / 2, (0.9 + 0.0) / 2)
    assert (result.unscored, result.reason, result.question) == (0, "", "How did it go?")
    assert result.signature["judge"] == "scripted"
    first, second = judge.seen
    assert first.index(ANSWER) < first.index('0: "Revenue rose 6%."\n1: "Margin fell."')
    assert second.index(REFERENCE) < second.index('0: "Revenue rose 6%."\n1: "It rained."')


@pytest.mark.parametrize(
    ("reply", "ans_score", "precision", "reason"),
    [
        (reply_of(10, 5), (1.0, 0.5), 0.75, ""),
        ('{"scores": [7.0, "3"], "contradicted": [1.0]}', (0.7, 0.3), 0.5, ""),
        (reply_of(11, 5), (None, 0.5), 0.5, "1 of 4 points unscored"),
    ],
)
def test_a_reply_that_is_read(reply, ans_score, precision, reason):
    coverage = Coverage(Lines(), ScriptedJudge(reply_of(10, 4), reply))
    result = coverage.score(REFERENCE, ANSWER)
    assert result.ans_score == ans_score
    assert result.recall == 0.7
    assert result.precision == pytest.approx(precision)
    assert result.unscored == ans_score.count(None)
    assert result.reason == reason
    assert not coverage.failures


@pytest.mark.parametrize(
    "reply",
    [
        reply_of(5),  # it is not known which score is missing
        reply_of(5, 5, contradicted=[2]),  # there is no point 2
        '{"scores": [5, 5]}',
        "[1, 0]",  # it could be either list
        None,
    ],
)
def test_a_reply_that_cannot_be_read_is_unscored_and_leaves_the_other_side(reply):
    coverage = Coverage(Lines(), ScriptedJudge(reply_of(10, 4), reply))
    result = coverage.score(REFERENCE, ANSWER)
    assert result.ans_score == (None, None)
    assert result.recall == 0.7
    assert isnan(result.precision)
    assert result.unscored == 2
    assert result.reason == "no point could be scored"
    why = "no reply" if reply is None else "unreadable"
    assert coverage.failures == {f"coverage: {why}": 1}


def test_another_scale_and_given_weights():
    triplet = Triplet("t", "g", "q", "", points=GIVEN)
    judge = ScriptedJudge(reply_of(3, 1), reply_of(2, 0))
    (result,) = Coverage(Lines(), judge, max_score=4).evaluate(
        [triplet], [Answer("t", "m", ANSWER)]
    )
    assert result.recall == (3 * 0.75 + 1 * 0.25) / 4
    assert "number from 0 to 4" in judge.seen[0]
    # Given points are the reference's text.
    assert "Revenue rose 6%.\nMargin fell." in judge.seen[1]
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
    plain = Coverage(Lines()).score(REFERENCE, ANSWER)
    with_question = Coverage(Lines()).score(REFERENCE, ANSWER, "By how much did revenue rise?")
    assert with_question.ref_weights[0] < plain.ref_weights[0]


def test_a_script_that_is_not_read_as_words_is_named():
    result = Coverage(Lines()).score("Выручка выросла на 6%.", "Revenue rose 6%.")
    assert result.reason.endswith("a text is in CYRILLIC")
    assert result.unscored == 0
    assert Coverage(Lines()).score(REFERENCE, ANSWER).reason == ""


def test_an_answer_in_another_language_is_scored_and_named():
    answer = (
        "Der Umsatz stieg um 6 %.\nDie Kosten sind mit 3 Milliarden nicht gestiegen, und das "
        "Ergebnis lag über dem des Vorjahres."
    )
    result = Coverage(Lines()).score(REFERENCE, answer)
    assert result.reason == "the local evaluator reads English, and a text is in German"
    assert result.unscored == 0


# --- either way ---


@pytest.fixture(params=["words", "judge"])
def make(request):
    return lambda: Coverage(Lines(), None if request.param == "words" else ScriptedJudge())


def test_an_empty_side_costs_no_call(make):
    no_answer = make().score(REFERENCE, "")
    assert (no_answer.recall, no_answer.precision, no_answer.f1) == (0.0, 0.0, 0.0)
    assert no_answer.unscored == 0
    no_reference = make().score("", ANSWER)
    assert isnan(no_reference.f1)
    assert no_reference.unscored == 0
    assert no_reference.reason == "the reference has no points"


def test_a_side_that_could_not_be_read_is_unscored_with_the_reason(make):
    lost_answer = make().score(REFERENCE, "unreadable")
    assert lost_answer.ref_points == ("Revenue rose 6%.", "Margin fell.")
    assert lost_answer.ref_score == (None, None)
    assert lost_answer.unscored == 2
    assert "could not be read" in lost_answer.reason
    assert is_lost(lost_answer)
    lost_reference = make().score("unreadable", ANSWER)
    assert lost_reference.ans_score == (None, None)
    assert lost_reference.unscored == 1
    for result in (lost_answer, lost_reference):
        assert isnan(result.recall)
        assert isnan(result.precision)
        assert isnan(result.f1)


def test_coverage_of_results_is_that_of_their_points():
    judge = ScriptedJudge({"match": "0", "score": "x", "coverage": reply_of(8, 2)})
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
