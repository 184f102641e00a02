"""Equations 5 to 9 against values worked out by hand, and against a second reading of them."""

from math import isclose, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ems.metrics import coverage_scores, ems_scores, weighted_sum


@pytest.mark.parametrize(
    ("match", "score", "n", "expected", "reason"),
    [
        # The paper's figure 2: reference points choose answer points 3, 1, 2 (from 0) and none.
        ([3, 1, 2, -1], [1.0, 0.5, 0.5, 0.0], 4, (2 / 4, (0 + 0.5 + 0.5 + 1.0) / 4, 0.5, 0), ""),
        # Two reference points share an answer point, which keeps the better score.
        (
            [0, 0, 1],
            [0.25, 0.75, 0.5],
            2,
            (1.5 / 3, (0.75 + 0.5) / 2, 2 * 0.5 * 0.625 / (0.5 + 0.625), 0),
            "",
        ),
        # An unmatched point has 0, whatever stands as its score.
        ([-1, 0], [0.9, 0.5], 1, (0.5 / 2, 0.5, 1 / 3, 0), ""),
        ([0], [1.0], 4, (1.0, 1 / 4, 0.4, 0), ""),  # answer points that nobody chose
        ([-1, -1], [0.0, 0.0], 3, (0.0, 0.0, 0.0, 0), ""),  # nothing matched
        ([-1, -1], [0.0, 0.0], 0, (0.0, 0.0, 0.0, 0), ""),  # a refusal
        ([], [], 3, (nan, nan, nan, 0), "the reference has no points"),
        # It is not known whether any answer point was chosen; or all that were could not be scored.
        ([None, None], [None, None], 2, (nan, nan, nan, 2), "no point could be scored"),
        ([0, 1], [None, None], 3, (nan, nan, nan, 2), "no point could be scored"),
        # The second point's match is lost: the point leaves recall, and precision is not affected.
        ([0, None, -1], [1.0, None, 0.0], 2, (1 / 2, 1 / 2, 1 / 2, 1), "1 of 3 points unscored"),
        # The second point's score is lost: it and its answer point leave.
        ([0, 1], [0.5, None], 2, (0.5, 0.5, 0.5, 1), "1 of 2 points unscored"),
        # Nine of ten matches lost: nine answer points count as not chosen.
        (
            [0] + [None] * 9,
            [1.0] + [None] * 9,
            10,
            (1.0, 1 / 10, 2 / 11, 9),
            "9 of 10 points unscored",
        ),
    ],
)
def test_cases_by_hand(match, score, n, expected, reason):
    got = ems_scores(match, score, n)
    values = (got.recall, got.precision, got.f1, got.unscored)
    assert values == pytest.approx(expected, nan_ok=True)
    assert got.reason == reason


def test_weights_count_in_recall_and_only_there():
    got = ems_scores([0, -1], [0.5, 0.0], 1, ref_weights=[3, 1])
    assert got.recall == (3 * 0.5 + 1 * 0.0) / 4
    assert got.precision == 0.5
    weightless = ems_scores([0], [1.0], 1, ref_weights=[0])
    assert isnan(weightless.recall)
    assert weightless.reason == "no point weighs more than 0"
    assert weighted_sum([0.5, None, 1.0], [2.0, 5.0, 1.0]) == (2.0, 3.0)


def test_coverage_by_hand_with_weights_and_lost_points_of_both_sides():
    got = coverage_scores([1.0, 0.0, None], [0.5, None, 1.0], [3.0, 1.0, 9.0], [1.0, 9.0, 3.0])
    assert got.recall == (3 * 1.0 + 1 * 0.0) / 4
    assert got.precision == (1 * 0.5 + 3 * 1.0) / 4
    assert (got.unscored, got.reason) == (2, "2 of 6 points unscored")
    one_side = coverage_scores([None], [0.5, 1.0])
    assert isnan(one_side.recall)
    assert isnan(one_side.f1)
    assert (one_side.precision, one_side.unscored) == (0.75, 1)
    assert isnan(coverage_scores([], [1.0]).precision)
    assert coverage_scores([1.0], []).f1 == 0.0


@pytest.mark.parametrize(
    ("match", "score", "n", "weights", "words"),
    [
        ([0, 1], [1.0], 2, (), "one entry per reference point"),
        ([0, 1], [1.0, 1.0], 2, (1.0,), "one entry per reference point"),
        ([2], [1.0], 2, (), "match[0] must be None or -1..1, got 2"),
        ([-2], [1.0], 2, (), "match[0] must be None or -1..1, got -2"),
        ([0], [1.01], 1, (), "score[0] must be None or in [0, 1]"),
        ([0], [nan], 1, (), "score[0] must be None or in [0, 1]"),
        ([0], [1.0], 1, (-1.0,), "0 or more"),
    ],
)
def test_impossible_alignments_are_refused(match, score, n, weights, words):
    with pytest.raises(ValueError, match="got") as error:
        ems_scores(match, score, n, weights)
    assert words in str(error.value)


@st.composite
def alignments(draw):
    n = draw(st.integers(1, 6))
    indices = st.one_of(st.none(), st.integers(-1, n - 1))
    values = st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]))
    match = draw(st.lists(indices, min_size=1, max_size=8))
    score = [draw(values) for _ in match]
    return match, score, n


def assert_is_mean(value, scores):
    if scores:
        assert isclose(value, sum(scores) / len(scores), abs_tol=1e-12)
    else:
        assert isnan(value)


@given(alignments())
def test_against_a_plain_reading_of_the_equations(alignment):
    match, score, n = alignment
    got = ems_scores(match, score, n)
    ref = []  # equations 5 and 6
    for a, s in zip(match, score, strict=True):
        if a == -1:
            ref.append(0.0)
        elif a is not None and s is not None:
            ref.append(s)
    ans = []  # equations 7 and 8
    for j in range(n):
        chosen = [s for a, s in zip(match, score, strict=True) if a == j]
        scored = [s for s in chosen if s is not None]
        if not chosen:
            ans.append(0.0)
        elif scored:
            ans.append(max(scored))
    assert_is_mean(got.recall, ref)
    assert_is_mean(got.precision, ans if ref else [])
    assert got.unscored == len(match) - len(ref)
    for value in (got.recall, got.precision, got.f1):
        assert isnan(value) or 0.0 <= value <= 1.0
    if got.recall + got.precision > 0:  # equation 9
        assert isclose(got.f1, 2 * got.recall * got.precision / (got.recall + got.precision))
