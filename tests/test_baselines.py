"""RAGChecker against its own worked example and by hand, and the judge alone."""

import json
import re
from dataclasses import replace
from math import isnan

import pytest
from doubles import ScriptedJudge

from ems.baselines import CLAIMS_PER_CALL, Claims, JudgeAlone, RAGChecker, with_claim_scores
from ems.judge.client import LLMJudge
from ems.pipeline import AT_ONCE
from ems.types import Answer, Triplet

TRIPLET = Triplet("t", "g", "How did it go?", "Revenue was $5 billion.")


# --- RAGChecker's arithmetic ---

E, N, C = "Entailment", "Neutral", "Contradiction"


@pytest.mark.parametrize(
    ("own", "reference", "own_labels", "reference_labels", "precision", "recall", "f1"),
    [
        (("a", "b", "c", "d"), ("x", "y"), (E, N, C, E), (E, N), 2 / 4, 1 / 2, 0.5),
        # A label that could not be read leaves the share of the others.
        (("a", "b"), ("x", "y"), (E, None), (E, N), 1 / 1, 1 / 2, 2 / 3),
        (("a",), ("x",), (N,), (N,), 0.0, 0.0, 0.0),
        ((), ("x",), (), (N,), 0.0, 0.0, 0.0),
        # The response has no claims, and yet one is entailed: upstream counts it in recall.
        ((), ("x", "y"), (), (E, N), 0.0, 1 / 2, 0.0),
        # Without claims of the reference, or of a side that is lost, there is nothing to compute.
        (("a",), (), (N,), (), None, None, None),
        (None, ("x",), (), (N,), None, None, None),
        (("a",), None, (N,), (), None, None, None),
        (("a",), ("x",), (None,), (E,), None, 1.0, None),
    ],
)
def test_ragchecker_arithmetic_by_hand(
    own, reference, own_labels, reference_labels, precision, recall, f1
):
    expected = [float("nan") if value is None else value for value in (precision, recall, f1)]
    scores = scores_of(own, reference, own_labels, reference_labels)
    assert scores == pytest.approx(expected, nan_ok=True)


def scores_of(*claims_and_labels):
    result = with_claim_scores(Claims("t", "m", *claims_and_labels))
    return result.precision, result.recall, result.f1


def as_claims(listed):
    """Claims as texts; the example has some of them as triples."""
    return tuple(" ".join(claim) if isinstance(claim, list) else claim for claim in listed)


def test_ragchecker_s_worked_example_to_the_printed_digit(mirror):
    example = mirror / "ragchecker" / "examples" / "checking_outputs.json"
    if not example.exists():
        pytest.skip("RAGChecker's worked example is not in EMS_DATA_MIRROR")
    printed = json.loads(example.read_text())
    names = ("precision", "recall", "f1")
    scored = []
    for result in printed["results"]:
        scores = scores_of(
            as_claims(result["response_claims"]),
            as_claims(result["gt_answer_claims"]),
            tuple(result["answer2response"]),
            tuple(result["response2answer"]),
        )
        assert scores == tuple(result["metrics"][name] for name in names)
        scored.append(scores)
    means = [round(100 * sum(column) / len(scored), 1) for column in zip(*scored, strict=True)]
    assert means == [printed["metrics"]["overall"][name] for name in names]


# --- RAGChecker's calls ---

REFERENCE_CLAIMS = json.dumps({"claims": ["Revenue was $5 billion."]})


LOST = "I would rather not."  # no list of claims


def judged(request):
    """Two claims of the answer, one of the reference; only what speaks of revenue is entailed."""
    if request.task == "claims":
        is_reference = "was $5" in request.prompt[-200:]
        return REFERENCE_CLAIMS if is_reference else json.dumps({"claims": ["Costs fell.", "Up."]})
    claims = re.findall(r'^\d+: (".*")$', request.prompt, re.MULTILINE)
    return json.dumps({"labels": [E if "Revenue" in claim else "neutral" for claim in claims]})


def test_claims_of_both_sides_are_checked_against_the_other_text():
    judge = ScriptedJudge(judged)
    (result,) = RAGChecker(judge).evaluate(
        [TRIPLET], [Answer("t", "m", "Costs fell. Things went up.")]
    )
    assert (result.response_claims, result.answer2response) == (("Costs fell.", "Up."), (N, N))
    assert (result.gt_answer_claims, result.response2answer) == (("Revenue was $5 billion.",), (E,))
    assert (result.precision, result.recall, result.f1) == (0.0, 1.0, 0.0)
    assert (result.unscored, result.group, result.question) == (0, "g", "How did it go?")
    checks = [r.prompt for r in judge.requests if r.task == "entail"]
    assert len(checks) == 2
    for prompt in checks:  # each text beside the other side's claims
        text, _, claims = prompt.partition("</text>")
        assert ("went up" in text) == ("Revenue was" in claims)


def test_both_directions_are_checked_in_one_round():
    rounds = []

    class Rounds(ScriptedJudge):
        def ask(self, requests, progress=""):
            rounds.append([request.task for request in requests])
            return super().ask(requests, progress)

    RAGChecker(Rounds(judged)).score(TRIPLET.reference, "Costs fell.")
    assert rounds == [["claims", "claims"], ["entail", "entail"]]


def test_a_reference_s_claims_are_listed_once_a_batch():
    judge = ScriptedJudge(judged)
    answers = [Answer("t", f"m{i}", f"Costs fell by {i}.") for i in range(AT_ONCE + 2)]
    results = RAGChecker(judge).evaluate([TRIPLET], answers)
    assert [r.model for r in results] == [a.model for a in answers]
    assert sum(r.task == "claims" for r in judge.requests) == len(answers) + 2


def checker(claims, *replies):
    """RAGChecker whose judge lists no claims of "Nothing.", these of other texts, and labels."""

    def listed(request):
        return json.dumps({"claims": [] if "\nNothing.\n" in request.prompt else claims})

    return RAGChecker(ScriptedJudge({"claims": listed, "entail": [*replies]}))


@pytest.mark.parametrize(
    ("reply", "labels"),
    [
        ('{"labels": ["Entailment", "Contradiction", "Neutral"]}', (E, C, N)),
        ('["neutral", "Maybe", "Entailment"]', (N, None, E)),  # one lost, the others kept
        ('{"labels": ["Entailment", "Neutral"]}', (None, None, None)),  # which one is missing?
        ("Entailment", (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_one_label_per_claim_is_read_from_a_joint_reply(reply, labels):
    evaluator = checker(["a", "b", "c"], reply)
    result = evaluator.score("Nothing.", "Costs fell.")
    assert result.answer2response == labels
    assert result.unscored == sum(evaluator.failures.values()) == labels.count(None)


def test_many_claims_are_checked_in_parts_and_a_lost_reply_loses_its_part_alone():
    many = [f"Claim {i}." for i in range(CLAIMS_PER_CALL + 3)]
    result = checker(many, "no list", json.dumps({"labels": [N] * 3})).score(
        "Nothing.", "Costs fell."
    )
    assert result.answer2response == (None,) * CLAIMS_PER_CALL + (N,) * 3


def test_an_empty_answer_has_no_claims_and_costs_no_call():
    judge = ScriptedJudge(judged)
    result = RAGChecker(judge).score(TRIPLET.reference, " ")
    assert (result.response_claims, result.response2answer) == ((), (N,))
    assert (result.precision, result.recall, result.f1) == (0.0, 0.0, 0.0)
    assert [r.task for r in judge.requests] == ["claims"]


@pytest.mark.parametrize(
    "replies",
    [[REFERENCE_CLAIMS, LOST], [LOST, REFERENCE_CLAIMS], [LOST, LOST]],
    ids=["answer", "reference", "both"],
)
def test_claims_that_cannot_be_read_are_unscored_and_no_number(replies):
    evaluator = RAGChecker(ScriptedJudge({"claims": [*replies], "entail": judged}))
    (result,) = evaluator.evaluate([TRIPLET], [Answer("t", "m", "Costs fell.")])
    assert all(isnan(value) for value in (result.precision, result.recall, result.f1))
    assert result.unscored == 2
    assert "could not be read" in result.reason
    assert evaluator.failures["claims: unreadable"] == replies.count(LOST)


# --- the judge alone ---


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("73", 0.73),
        ("0", 0.0),
        ("Score: 100", 1.0),
        ("73/100", 0.73),
        ("101", None),
        ("7.5", None),
        ("good", None),
        (None, None),
    ],
)
def test_the_judge_alone_gives_one_number_a_hundredth_of_its_reply(reply, value):
    judge = ScriptedJudge(lambda request: reply)
    evaluator = JudgeAlone(judge)
    (result,) = evaluator.evaluate([TRIPLET], [Answer("t", "m", "It was <text> 5 billion.")])
    assert result.value == pytest.approx(float("nan") if value is None else value, nan_ok=True)
    assert (result.unscored, bool(result.reason)) == (int(value is None), value is None)
    assert (result.group, result.question, result.signature["judge"]) == (
        "g",
        "How did it go?",
        "scripted",
    )
    assert sum(evaluator.failures.values()) == result.unscored
    (request,) = judge.requests
    assert (request.task, request.max_tokens) == ("judge", 32)
    for text in (TRIPLET.question, TRIPLET.reference, "5 billion"):
        assert text in request.prompt
    assert "It was <text>" not in request.prompt  # an answer opens no tag of the prompt's


def test_the_judge_alone_is_not_asked_about_nothing():
    judge = ScriptedJudge()
    empty, none = JudgeAlone(judge).evaluate(
        [TRIPLET, replace(TRIPLET, id="u", reference=" ")],
        [Answer("t", "m", " "), Answer("u", "m", "Text.")],
    )
    assert (empty.value, empty.unscored) == (0.0, 0)
    assert isnan(none.value)
    assert (none.unscored, none.reason) == (0, "the reference is empty")


@pytest.mark.parametrize(
    ("make", "tasks"), [(RAGChecker, {"claims": 2, "entail": 2}), (JudgeAlone, {"judge": 1})]
)
def test_a_dry_run_counts_calls_and_can_read_what_it_assumes(make, tasks):
    judge = LLMJudge("m", mode="plan")
    evaluator = make(judge)
    result = evaluator.score("Revenue was $5 billion.", "Costs fell.")
    assert {task: usage.calls for task, usage in judge.usage().items()} == tasks
    assert (result.unscored, evaluator.failures.total()) == (0, 0)
