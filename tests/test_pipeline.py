"""The pipeline: answers are joined by id, unscored never becomes a number, any stages combine."""

import json
from dataclasses import replace
from math import isnan

import pytest
from doubles import ScriptedJudge, text_of
from study import rescored

from ems.custom import as_stage
from ems.extract import LLMExtractor
from ems.judge import MissingReplies
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.match import LLMMatcher
from ems.metrics import ems_scores
from ems.pipeline import AT_ONCE, EMS, is_lost
from ems.results import Support
from ems.score import LLMScorer, rouge_scorer
from ems.types import Answer, GivenPoint, InputError, Triplet

REFERENCE = "Revenue was $5 billion. Margin was 20%."
ANSWER = "Sales came to 5 billion dollars. Costs fell. Margin was 20%."
TRIPLET = Triplet("t", "g", "How did it go?", REFERENCE)
POINTS = {REFERENCE: ["Revenue was $5 billion.", "Margin was 20%."],
          ANSWER: ["Sales came to 5 billion dollars.", "Costs fell.", "Margin was 20%."]}
MATCHES = {"Revenue was $5 billion.": "0", "Margin was 20%.": "2"}
SCORES = {"Revenue was $5 billion.": "8", "Margin was 20%.": "10"}


def extracted(request):
    """The points of the text at the end of the prompt."""
    return json.dumps({"points": POINTS[text_of(request.prompt)]})


def by_point(label, replies):
    """The reply to the point that follows a label in the prompt."""
    return lambda request: replies[json.loads(request.prompt.partition(f"{label}: ")[2].partition("\n")[0])]


def scripted(**tasks):
    """A judge that does well, but for the tasks that are given."""
    return ScriptedJudge({"extract": extracted, "match": by_point("Reference point", MATCHES),
                          "score": by_point("Point 1", SCORES), **tasks})


def pipeline(judge):
    return EMS(LLMExtractor(judge), LLMMatcher(judge), LLMScorer(judge))


def test_three_stages_by_hand():
    judge = scripted()
    result = pipeline(judge).evaluate([TRIPLET], [Answer("t", "m", ANSWER)])[0]
    assert (result.triplet_id, result.model, result.group, result.question) == ("t", "m", "g", "How did it go?")
    assert result.match == (0, 2)
    assert result.score == (0.8, 1.0)
    assert result.recall == (0.8 + 1.0) / 2
    assert result.precision == (0.8 + 0.0 + 1.0) / 3
    assert (result.unscored, result.reason) == (0, "")
    assert [r.task for r in judge.requests] == ["extract"] * 2 + ["match"] * 2 + ["score"] * 2


@pytest.mark.parametrize(("task", "replies", "match"), [
    ("match", {**MATCHES, "Margin was 20%.": "maybe 2 or 1"}, (0, None)),
    ("match", {**MATCHES, "Margin was 20%.": "7"}, (0, None)),             # there are three candidates
    ("match", {**MATCHES, "Margin was 20%.": None}, (0, None)),            # no reply came
    ("score", {**SCORES, "Margin was 20%.": "excellent"}, (0, 2)),
    ("score", {**SCORES, "Margin was 20%.": "11"}, (0, 2)),
])
def test_a_reply_that_cannot_be_read_leaves_its_point_unscored(task, replies, match):
    label = {"match": "Reference point", "score": "Point 1"}[task]
    evaluator = pipeline(scripted(**{task: by_point(label, replies)}))
    result = evaluator.score(REFERENCE, ANSWER)
    assert (result.match, result.score) == (match, (0.8, None))
    assert (result.unscored, result.reason) == (1, "1 of 2 points unscored")
    assert result.recall == 0.8 / 1                                        # of the other point alone
    assert sum(evaluator.failures.values()) == 1


@pytest.mark.parametrize(("lost", "unscored"), [([ANSWER], 2), ([REFERENCE], 1), ([REFERENCE, ANSWER], 1)])
def test_points_that_cannot_be_read_give_nan(lost, unscored):
    def reply(request):
        return "I would rather not." if text_of(request.prompt) in lost else extracted(request)
    evaluator = pipeline(scripted(extract=reply))
    result = evaluator.score(REFERENCE, ANSWER)
    assert is_lost(result)
    for one in (result, *rescored([result], rouge_scorer(), evaluator)):
        assert isnan(one.recall)
        assert isnan(one.f1)
        assert (one.unscored, one.score) == (unscored, (None,) * len(result.ref_points))
        assert "could not be read" in one.reason


def test_an_empty_answer_scores_zero_and_an_empty_reference_is_nan():
    judge = scripted()
    empty = pipeline(judge).score(REFERENCE, "  \n ")
    assert (empty.recall, empty.precision, empty.f1, empty.unscored) == (0.0, 0.0, 0.0, 0)
    assert [r.task for r in judge.requests] == ["extract"]                 # the reference's points only
    none = pipeline(scripted()).score("", ANSWER)
    assert isnan(none.f1)
    assert (none.unscored, none.reason) == (0, "the reference has no points")
    assert not is_lost(empty)
    assert not is_lost(none)


def test_given_points_replace_the_reference_and_weigh_in_recall():
    asked = replace(TRIPLET, reference="", points=(GivenPoint("Revenue was $5 billion.", 3.0),
                                                   GivenPoint("Margin was 20%.", 1.0)))
    judge = scripted()
    result, = pipeline(judge).evaluate([asked], [Answer("t", "m", ANSWER)])
    assert [r.task for r in judge.requests].count("extract") == 1
    assert result.ref_weights == (3.0, 1.0)
    assert result.recall == pytest.approx((3 * 0.8 + 1 * 1.0) / 4)
    assert result.precision == pytest.approx((0.8 + 0.0 + 1.0) / 3)


# --- another scorer on the same points and matches ---

def test_another_scorer_asks_nobody_and_keeps_points_and_matches():
    judge = scripted()
    evaluator = pipeline(judge)
    result = evaluator.score(REFERENCE, ANSWER)
    checked = replace(result, support=(Support("supported"),) * 3, signature={**result.signature, "support": "llm:kit"})
    asked = len(judge.requests)
    again, = rescored([checked], rouge_scorer(), evaluator)
    assert len(judge.requests) == asked
    assert (again.match, again.support) == (checked.match, ())
    assert again.score[1] == 1.0                                           # the same sentence
    assert again.signature["score"].startswith("rouge:")
    assert {**again.signature, "score": ""} == {**result.signature, "score": ""}


# --- many answers ---

class Words:
    """Each word a point; counts the texts that it is given."""

    signature = "words"

    def __init__(self):
        self.seen = []

    def __call__(self, texts):
        self.seen += texts
        return [tuple(text.split()) for text in texts]


SAME = as_stage(lambda pairs: [[ans.index(point) if point in ans else -1 for point in ref] for ref, ans in pairs], "matcher")
ONE = as_stage(lambda pairs: [1.0 for _ in pairs], "scorer")


@pytest.mark.parametrize("match", [(0, 3), (0, -2), (0,)])
def test_a_matcher_that_names_what_is_not_there_is_refused(match):
    matcher = as_stage(lambda pairs: [match for _ in pairs], "matcher")
    with pytest.raises(ValueError, match="match"):
        EMS(Words(), matcher, ONE).score("a b", "c d e")


def test_scores_go_to_the_points_that_are_matched_and_to_no_other():
    match = (-1, 2, None, 0, 2)
    matcher = as_stage(lambda pairs: [match for _ in pairs], "matcher")
    scorer = as_stage(lambda pairs: [0.5, None, 0.25], "scorer")
    result = EMS(Words(), matcher, scorer).score("a b c d e", "x y z")
    assert result.score == (0.0, 0.5, None, None, 0.25)
    expected = ems_scores(match, result.score, 3)
    assert (result.recall, result.precision, result.f1, result.unscored) == (
        expected.recall, expected.precision, expected.f1, expected.unscored)


def test_results_keep_the_order_of_the_answers_and_join_by_id():
    triplets = [Triplet("a", "g", "q", "one two"), Triplet("b", "h", "q", "three")]
    answers = [Answer("b", "m", "three"), Answer("a", "m", "one"), Answer("b", "n", "")]
    results = EMS(Words(), SAME, ONE).evaluate(triplets, answers)
    assert [(r.triplet_id, r.model, r.group, r.recall) for r in results] == [
        ("b", "m", "h", 1.0), ("a", "m", "g", 0.5), ("b", "n", "h", 0.0)]


def test_answers_stream_in_batches_and_a_reference_is_extracted_once_in_each():
    triplets = [Triplet(f"t{i}", "g", "q", f"word{i} and more") for i in range(3)]
    answers = [Answer(f"t{i % 3}", f"m{i}", f"answer number{i // 2} word0") for i in range(2 * AT_ONCE + 44)]
    taken = []

    def source():
        for answer in answers:
            taken.append(answer)
            yield answer
    words = Words()
    stream = EMS(words, SAME, ONE).stream(triplets, source())
    results = [next(stream)]
    assert len(taken) == AT_ONCE
    results += stream
    assert [r.model for r in results] == [a.model for a in answers]
    assert [words.seen.count(t.reference) for t in triplets] == [3, 3, 3]
    assert len(words.seen) == 3 * 3 + len({a.answer for a in answers})     # the same text once
    assert results == EMS(Words(), SAME, ONE).evaluate(triplets, answers)


def test_unknown_and_repeated_ids_are_refused():
    evaluator = EMS(Words(), SAME, ONE)
    with pytest.raises(InputError, match="'z'"):
        evaluator.evaluate([TRIPLET], [Answer("t", "m", "x"), Answer("z", "m", "y")])
    with pytest.raises(InputError, match="must be unique"):
        evaluator.evaluate([TRIPLET, TRIPLET], [])


def test_a_replay_names_what_is_missing_of_every_batch(tmp_path):
    store = Replies(tmp_path / "replies.sqlite")
    judge = LLMJudge("m", store=store, mode="replay", workers=1)
    answers = [Answer("t", f"m{i}", f"Answer number {i}.") for i in range(2 * AT_ONCE + 3)]
    with pytest.raises(MissingReplies) as error:
        pipeline(judge).evaluate([TRIPLET], answers)
    assert {task for _, task, _ in error.value.missing} == {"extract"}
    assert len(error.value.missing) == len(answers) + 1


def test_the_signature_says_which_of_several_judges_does_what():
    def one(prompt): ...
    def two(prompt): ...
    def signature(extract, match, score):
        return EMS(LLMExtractor(extract), LLMMatcher(match), LLMScorer(score)).signature
    assert signature(one, one, one)["judge"] == "one"
    assert len({signature(*judges)["judge"] for judges in ((one, two, two), (one, one, two), (one, two, one))}) == 3
    cold = [LLMJudge("m", store=Replies(), temperature=t) for t in (0.0, 0.0, 1.0)]
    assert signature(*cold[:2], cold[1])["temperature"] == "0.0"           # two judges alike are one
    assert "temperature:1.0" in signature(*cold)["judge"]
