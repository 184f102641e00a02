"""Grains of points, choices changed one at a time, and matching and scoring in one call."""

import pytest
from doubles import ScriptedJudge, recorded
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
def test_coverage_does_not_depend_on_how_a_text_is_cut(choice, parts):
    one, other = (
        ems.Coverage(granularity.CHOICES[name]()).score(TEXT, ". ".join(parts))
        for name in (granularity.BASE, choice)
    )
    assert (one.recall, one.precision) == pytest.approx((other.recall, other.precision))


@pytest.mark.filterwarnings("ignore:.*whole file")  # the mirror may hold a part of the pairs
def test_the_committed_scores_of_the_choices_come_out_of_the_texts(mirror):
    triplets, answers, _ = datasets.ragchecker()
    made = granularity.wide(granularity.values(triplets[:10], answers[:20]))
    both = read_frames(ROOT / "data" / "human" / "granularity_scores.csv").merge(
        made, on=["triplet_id", "model"], suffixes=("", " made")
    )
    assert len(both) == 20
    for name in made.columns[2:]:
        assert both[name].to_list() == pytest.approx(both[f"{name} made"].to_list(), abs=6e-6), name


def test_one_call_by_hand():
    judge = ScriptedJudge({"match and score": ['{"pairs": [[1, 8], [-1, 0], [0, 5]]}', None]})
    evaluator = OneCall(Sentences(), judge)
    result, empty = evaluator.evaluate(
        [TRIPLET], [Answer("t1", "m", "Debt is lower. Sales rose."), Answer("t1", "n", "")]
    )
    assert (result.match, result.score) == ((1, -1, 0), (0.8, 0.0, 0.5))
    assert (result.recall, result.precision) == pytest.approx((1.3 / 3, 1.3 / 2))
    assert (empty.match, empty.f1, len(judge.requests)) == ((-1, -1, -1), 0.0, 1)  # costs no call
    (lost,) = evaluator.evaluate([TRIPLET], [Answer("t1", "m", "Sales rose.")])
    assert (lost.unscored, lost.score, dict(evaluator.failures)) == (
        3,
        (None,) * 3,
        {"match and score: no reply": 1},
    )


@pytest.mark.parametrize(
    ("reply", "pairs"),
    [
        ('{"pairs": [[0, 10], [-1, 0]]}', [(0, 1.0), (-1, 0.0)]),
        (
            '{"pairs": [[2, 10], [0, 11]]}',
            [(None, 1.0), (0, None)],
        ),  # neither point 2 nor 11 of 10 is on offer
        ('{"pairs": [[0, 10]]}', None),
        ('{"pairs": [[0], [1]]}', None),
        ('{"pairs": 3}', None),
        ("[1, 2]", None),
        ("no", None),
    ],
)
def test_pairs_are_read_or_none(reply, pairs):
    assert granularity.read_pairs(reply, 2, 2) == pairs


def test_all_recorded_replies_in_one_call_are_read(tmp_path):
    """The 80 replies, and how far they agree with the two calls of the default run."""
    files = ("q3-2024/replies.jsonl", "q3-2024/joint_replies.jsonl")
    two, both = recorded(*files[:1]), recorded(*files)
    grains = granularity.by_grain(both, read_triplets(tmp_path), read_answers(tmp_path))
    assert {name: len(rows) for name, rows in grains.items()} == {
        granularity.JUDGED: 24,
        "1 sentence": 19,
        "2 sentences": 19,
        "3 sentences": 19,
    }
    assert both.usage()["match and score"].stored == 80
    assert sum(r.unscored for rows in grains.values() for r in rows) == 0
    assert granularity.shared(grains).groupby("metric").size().to_dict() == dict.fromkeys(
        grains, 19
    )
    found = agreement_of_results(alignments_of(tmp_path, two), grains[granularity.JUDGED])
    assert [round(found[name], 6) for name in ("answers", "points", "same choice", "kappa")] == [
        23,
        651,
        0.933948,
        0.794642,
    ]
    assert granularity.by_grain(two, read_triplets(tmp_path), read_answers(tmp_path)) == {}
