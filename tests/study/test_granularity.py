"""Grains of points, choices changed one at a time, and matching and scoring in one call."""

import pandas as pd
import pytest
from doubles import ScriptedJudge, recorded, refused
from hypothesis import given
from hypothesis import strategies as st
from study import (
    ROOT,
    alignments_of,
    datasets,
    granularity,
    read_answers,
    read_frames,
    read_triplets,
)
from study.granularity import OneCall, Sentences
from study.reliability import agreement_of_results

import ems
from ems.types import Answer, Triplet

TEXT = "Sales rose 6%.\n\n- Costs fell by 2 million.\n- Debt is flat.\n\nSales rose 6%. Cash grew."
TRIPLET = Triplet("t1", "g", "q", "Sales rose 6%. Costs fell. Debt is flat.")


@given(st.sampled_from(list(granularity.CHOICES)[:4]), st.permutations(TEXT.split(". ")))
def test_coverage_of_words_does_not_depend_on_how_a_text_is_cut(choice, parts):
    answer = ". ".join(parts)
    base = ems.Coverage(granularity.CHOICES[granularity.BASE]).score(TEXT, answer)
    other = ems.Coverage(granularity.CHOICES[choice]).score(TEXT, answer)
    assert (base.recall, base.precision) == pytest.approx((other.recall, other.precision))


def test_a_figure_that_the_other_text_lacks_costs_its_whole_point():
    """As a point of its own the other sentence keeps its value; in one point with it, half of it."""
    reference, answer = "Costs fell by 2 million. Debt is flat.", "Costs fell. Debt is flat."
    one, two = (ems.Coverage(Sentences(size)).score(reference, answer) for size in (1, 2))
    assert one.ref_score[1] == 1
    assert two.recall < one.recall
    assert two.ref_score[0] <= 0.5


@pytest.mark.filterwarnings("ignore:.*whole file")  # the mirror may hold a part of the pairs
def test_the_committed_scores_of_the_choices_come_out_of_the_texts(mirror):
    triplets, answers, _ = datasets.ragchecker()
    made = granularity.wide(granularity.values_by_choice(triplets[:10], answers[:20]))
    stored = read_frames(ROOT / "data" / "human" / "granularity_scores.csv")
    both = stored.merge(made, on=["triplet_id", "model"], suffixes=("", " made"))
    assert len(both) == 20
    for name in made.columns[2:]:
        assert both[name].to_list() == pytest.approx(both[f"{name} made"].to_list(), abs=6e-6), name


def halves(texts):
    return [(text[: len(text) // 2], text[len(text) // 2 :]) for text in texts]


def test_a_choice_of_ones_own_has_values_beside_the_others():
    answers = [Answer("t1", "m", "Debt is flat. Sales rose.")]
    values = granularity.values_by_choice([TRIPLET], answers, {"halves": halves})
    metrics = set(values["metric"])
    names = [*granularity.CHOICES, "halves"]
    assert metrics >= {f"EMS(ROUGE): {name}" for name in names}
    assert metrics >= {f"Coverage(local): {name}" for name in names}
    with refused("'no.such:path' leads nowhere"):
        granularity.values_by_choice([TRIPLET], answers, {"mine": "no.such:path"})


def test_findings_say_which_choice_people_agree_with_better_and_that_none_is():
    rows = [("", 0.0), ("no", 0.01), ("below", -0.2), ("no", 0.0)]
    choices = pd.DataFrame(rows, columns=["clear", "change"], index=list("abcd"))
    choices = choices.assign(change_low=choices["change"] - 0.1, change_high=0.0)
    assert granularity.choice_findings(choices) == [
        "1 of 3 changed choices agree with people clearly worse than points of 1 sentence: c -0.200 "
        "[-0.300, +0.000].",
    ]
    (better,) = granularity.choice_findings(choices.replace({"clear": {"below": "above"}}))
    assert "clearly better than points of 1 sentence: c -0.200" in better
    assert granularity.choice_findings(choices.replace({"clear": {"below": "no"}})) == [
        "None of 3 changed choices agrees with people clearly better or worse than points of 1 "
        "sentence."
    ]


def test_one_call_by_hand():
    judge = ScriptedJudge({"match and score": ['{"pairs": [[1, 8], [-1, 0], [0, 5]]}', None]})
    evaluator = OneCall(Sentences(), judge)
    answers = [Answer("t1", "m", "Debt is lower. Sales rose."), Answer("t1", "n", "")]
    result, empty = evaluator.evaluate([TRIPLET], answers)
    assert (result.match, result.score) == ((1, -1, 0), (0.8, 0.0, 0.5))
    assert (result.recall, result.precision) == pytest.approx((1.3 / 3, 1.3 / 2))
    assert (empty.match, empty.f1) == ((-1, -1, -1), 0.0)
    assert len(judge.requests) == 1  # an answer without points costs no call
    (lost,) = evaluator.evaluate([TRIPLET], [Answer("t1", "m", "Sales rose.")])
    assert (lost.unscored, lost.score) == (3, (None,) * 3)
    assert dict(evaluator.failures) == {"match and score: no reply": 1}


@pytest.mark.parametrize(
    ("reply", "pairs"),
    [
        ('{"pairs": [[0, 10], [-1, 0]]}', [(0, 1.0), (-1, 0.0)]),
        # There is no point 2, and 11 is over the highest score of 10.
        ('{"pairs": [[2, 10], [0, 11]]}', [(None, 1.0), (0, None)]),
        ('{"pairs": [[0, 10]]}', None),
        ('{"pairs": [[0], [1]]}', None),
        ('{"pairs": 3}', None),
        ("[1, 2]", None),
        ("no", None),
    ],
)
def test_pairs_are_read_or_none(reply, pairs):
    assert granularity.read_pairs(reply, 2, 2) == pairs


def test_recorded_replies_in_one_call_are_read(tmp_path):
    """How far they agree with the two calls of the default run."""
    files = ("q3-2024/replies.jsonl", "q3-2024/joint_replies.jsonl")
    two, both = recorded(*files[:1]), recorded(*files)
    results = granularity.in_one_call(both, read_triplets(tmp_path), read_answers(tmp_path))
    assert len(results) == 24
    assert both.usage()["match and score"].stored == 23
    assert sum(result.unscored for result in results) == 0
    table = agreement_of_results(alignments_of(tmp_path, two), results)
    assert (table["answers"], table["points"]) == (23, 651)
    assert round(table["same choice"], 6) == 0.933948
    assert round(table["kappa"], 6) == 0.794642
    few = granularity.in_one_call(two, read_triplets(tmp_path), read_answers(tmp_path))
    assert [result.ans_points for result in few] == [()]  # the only answer without a call
