"""Two judgements of the same points, by hand."""

import math
from dataclasses import replace

import pytest
from scipy.stats import spearmanr
from study.reliability import agreement_of_results, judge_variance

from ems.results import EMSResult
from ems.types import InputError

FIRST = [
    EMSResult(
        "t1", "m", ("a", "b", "c", "d"), ("x", "y"), (0, 1, -1, 0), (0.5, 1.0, 0.0, 0.2), f1=0.5
    ),
    EMSResult("t2", "m", ("a", "b"), ("x",), (0, -1), (0.9, 0.0), f1=0.6),
    EMSResult("t3", "m", ("a",), (), (-1,), (0.0,), f1=0.0),
    EMSResult("t4", "m", ("a",), ("x",), (0,), (1.0,), f1=1.0),
]
OTHER = [
    EMSResult("t2", "m", ("a", "b"), ("x",), (0, None), (0.7, None), f1=0.4),
    replace(FIRST[2]),
    EMSResult(
        "t1", "m", ("a", "b", "c", "d"), ("x", "y"), (0, 0, -1, 0), (0.6, 0.8, 0.0, 0.4), f1=0.3
    ),
]


def test_two_judgements_by_hand():
    found = agreement_of_results(FIRST, OTHER)
    # Without the answer that has no points and the one that only the first judged: t1 and t2.
    assert (found["answers"], found["points"], found["scored"]) == (2, 5, 5 / 6)
    assert (found["same choice"], found["same partner"]) == (
        4 / 5,
        3 / 4,
    )  # of t1, the third point has none
    # By chance in t1: index 0 twice of four by three of four, 1 by none, -1 once by once; in t2 one of one by one of one.
    chance = (4 * (2 / 4 * 3 / 4 + 1 / 4 * 0 + 1 / 4 * 1 / 4) + 1 * 1) / 5
    assert found["kappa"] == pytest.approx((4 / 5 - chance) / (1 - chance))
    assert found["score difference"] == pytest.approx(
        (0.1 + 0.2 - 0.2) / 3
    )  # three points with the same partner
    assert found["score correlation"] == pytest.approx(
        spearmanr([0.5, 0.2, 0.9], [0.6, 0.4, 0.7]).statistic
    )


def test_a_judge_agrees_with_itself_and_with_nobody():
    same = agreement_of_results(FIRST, FIRST)
    assert (same["same choice"], same["kappa"], same["score difference"]) == pytest.approx(
        (1, 1, 0)
    )
    nothing = agreement_of_results(FIRST, [])
    assert nothing["answers"] == nothing["points"] == 0
    assert all(
        math.isnan(value) for name, value in nothing.items() if name not in ("answers", "points")
    )


def test_other_points_are_refused():
    with pytest.raises(InputError, match="the points of m on t4 differ: both must judge the same"):
        agreement_of_results(FIRST, [replace(FIRST[3], ref_points=("other",))])


def test_the_judges_share_of_the_spread_by_hand():
    first = [
        replace(FIRST[0], triplet_id=f"t{i}", f1=value) for i, value in enumerate((0.2, 0.4, 0.6))
    ]
    again = [
        replace(one, f1=one.f1 + shift) for one, shift in zip(first, (0.1, -0.1, 0.0), strict=True)
    ]
    row = judge_variance(first, again).loc["m"]
    assert (row["n"], row["first"], row["again"]) == (3, pytest.approx(0.4), pytest.approx(0.4))
    assert row["sd"] == pytest.approx(0.1 / 2**0.5)  # differences 0.1, -0.1 and 0
    assert row["share"] == pytest.approx(0.005 / 0.04)
