"""RAGChecker against its own worked example and by hand, and the judge alone."""

import json
import re
from dataclasses import replace
from math import isnan

import pytest
from doubles import ScriptedJudge

from ems.baselines import CLAIMS_PER_CALL, JudgeAlone, RAGChecker, claim_scores
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
        (
            ("a", "b"),
            ("x", "y"),
            (E, None),
            (E, N),
            1 / 1,
            1 / 2,
            2 / 3,
        ),  # of the labels that could be read
        (("a",), ("x",), (N,), (N,), 0.0, 0.0, 0.0),
        ((), ("x",), (), (N,), 0.0, 0.0, 0.0),
        (
            (),
            ("x", "y"),
            (),
            (E, N),
            0.0,
            1 / 2,
            0.0,
        ),  # no claim listed, and yet one entailed: as upstream has it
        (("a",), (), (N,), (), None, None, None),  # nothing to recall
        (None, ("x",), (), (N,), None, None, None),
        (("a",), None, (N,), (), None, None, None),
        (("a",), ("x",), (None,), (E,), None, 1.0, None),
    ],
)
def test_ragchecker_arithmetic_by_hand(
    own, reference, own_labels, reference_labels, precision, recall, f1
):
    expected = [float("nan") if value is None else value for value in (precision, recall, f1)]
    assert claim_scores(own, reference, own_labels, reference_labels) == pytest.approx(
        expected, nan_ok=True
    )


def test_ragchecker_s_worked_example_to_the_printed_digit(mirror):
    example = mirror / "ragchecker" / "examples" / "checking_outputs.json"
    if not example.exists():
        pytest.skip("RAGChecker's worked example is not in EMS_DATA_MIRROR")
    printed, scored = json.loads(example.read_text()), []
    for result in printed["results"]:
        claims = [
            tuple(" ".join(c) if isinstance(c, list) else c for c in result[side])
            for side in ("response_claims", "gt_answer_claims")
        ]
        scored.append(
            claim_scores(
                *claims, tuple(result["answer2response"]), tuple(result["response2answer"])
            )
        )
        assert scored[-1] == tuple(
            result["metrics"][name] for name in ("precision", "recall", "f1")
        )
    means = [round(100 * sum(column) / len(scored), 1) for column in zip(*scored, strict=True)]
    assert means == [printed["metrics"]["overall"][name] for name in ("precision", "recall", "f1")]


# --- RAGChecker's calls ---

SAID = json.dumps({"claims": ["Revenue was $5 billion."]})


def judged(request):
    """Two claims of the answer, one of the reference; only what speaks of revenue is entailed."""
    if request.task == "claims":
        return (
            SAID
            if "was $5" in request.prompt[-200:]
            else json.dumps({"claims": ["Costs fell.", "Up."]})
        )
    claims = re.findall(r'^\d+: (".*")$', request.prompt, re.MULTILINE)
    return json.dumps({"labels": [E if "Revenue" in claim else "neutral" for claim in claims]})


def test_claims_of_both_sides_are_checked_against_the_other_text():
    judge = ScriptedJudge(judged)
    (got,) = RAGChecker(judge).evaluate(
        [TRIPLET], [Answer("t", "m", "Costs fell. Things went up.")]
    )
    assert (got.response_claims, got.answer2response) == (("Costs fell.", "Up."), (N, N))
    assert (got.gt_answer_claims, got.response2answer) == (("Revenue was $5 billion.",), (E,))
    assert (got.precision, got.recall, got.f1) == (0.0, 1.0, 0.0)
    assert (got.unscored, got.group, got.question) == (0, "g", "How did it go?")
    checks = [r.prompt for r in judge.requests if r.task == "entail"]
    assert len(checks) == 2
    for prompt in checks:  # each text beside the other side's claims
        text, _, claims = prompt.partition("</text>")
        assert ("went up" in text) == ("Revenue was" in claims)


def test_a_reference_s_claims_are_listed_once_a_batch():
    judge = ScriptedJudge(judged)
    answers = [Answer("t", f"m{i}", f"Costs fell by {i}.") for i in range(AT_ONCE + 2)]
    results = RAGChecker(judge).evaluate([TRIPLET], answers)
    assert [r.model for r in results] == [a.model for a in answers]
    assert sum(r.task == "claims" for r in judge.requests) == len(answers) + 2


def checker(claims, *replies):
    """RAGChecker whose judge lists these claims for an answer and none for a reference, and has these labels for them."""
    listed = [json.dumps({"claims": []}), json.dumps({"claims": claims})]
    return RAGChecker(ScriptedJudge({"claims": listed, "entail": [*replies]}))


@pytest.mark.parametrize(
    ("reply", "labels"),
    [
        ('{"labels": ["Entailment", "Contradiction", "Neutral"]}', (E, C, N)),
        ('["neutral", "Maybe", "Entailment"]', (N, None, E)),  # one lost, the others kept
        (
            '{"labels": ["Entailment", "Neutral"]}',
            (None, None, None),
        ),  # whose is missing is not known
        ("Entailment", (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_one_label_per_claim_is_read_from_a_joint_reply(reply, labels):
    evaluator = checker(["a", "b", "c"], reply)
    got = evaluator.score("Nothing.", "Costs fell.")
    assert got.answer2response == labels
    assert got.unscored == sum(evaluator.failures.values()) == labels.count(None)


def test_many_claims_are_checked_in_parts_and_a_lost_reply_loses_its_part_alone():
    many = [f"Claim {i}." for i in range(CLAIMS_PER_CALL + 3)]
    got = checker(many, "no list", json.dumps({"labels": [N] * 3})).score("Nothing.", "Costs fell.")
    assert got.answer2response == (None,) * CLAIMS_PER_CALL + (N,) * 3


def test_an_empty_answer_has_no_claims_and_costs_no_call():
    judge = ScriptedJudge(judged)
    got = RAGChecker(judge).score(TRIPLET.reference, " ")
    assert (got.response_claims, got.response2answer) == ((), (N,))
    assert (got.precision, got.recall, got.f1) == (0.0, 0.0, 0.0)
    assert [r.task for r in judge.requests] == ["claims"]


@pytest.mark.parametrize(
    "replies",
    [[SAID, "I would rather not."], ["I would rather not.", SAID], ["I would rather not."] * 2],
    ids=["answer", "reference", "both"],
)
def test_claims_that_cannot_be_read_are_unscored_and_no_number(replies):
    evaluator = RAGChecker(ScriptedJudge({"claims": [*replies], "entail": judged}))
    (got,) = evaluator.evaluate([TRIPLET], [Answer("t", "m", "Costs fell.")])
    assert all(isnan(value) for value in (got.precision, got.recall, got.f1))
    assert got.unscored == 2
    assert "could not be read" in got.reason
    assert evaluator.failures["claims: unreadable"] == 2 - replies.count(SAID)


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
    (got,) = evaluator.evaluate([TRIPLET], [Answer("t", "m", "It was <text> 5 billion.")])
    assert got.value == pytest.approx(float("nan") if value is None else value, nan_ok=True)
    assert (got.unscored, bool(got.reason)) == (int(value is None), value is None)
    assert (got.group, got.question, got.signature["judge"]) == ("g", "How did it go?", "scripted")
    assert sum(evaluator.failures.values()) == got.unscored
    (request,) = judge.requests
    assert (request.task, request.max_tokens) == ("judge", 32)
    assert [
        text in request.prompt for text in (TRIPLET.question, TRIPLET.reference, "5 billion")
    ] == [True] * 3
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
    got = evaluator.score("Revenue was $5 billion.", "Costs fell.")
    assert {task: usage.calls for task, usage in judge.usage().items()} == tasks
    assert (got.unscored, evaluator.failures.total()) == (0, 0)
