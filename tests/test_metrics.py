"""The arithmetic of eq. 5-9 against values worked out by hand and against a second, plain reading of the
equations.
"""

from math import isclose, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ems
from ems.metrics import answer_scores, ems_scores, f1, side_scores
from ems.pipeline import with_metrics
from ems.results.pooling import Tally, tally
from ems.types import EMSResult


def test_the_paper_s_figure_2_shape():
    # Four reference points choose answer points 3, 1, 2 and none (0-based); 4 answer points.
    got = ems_scores([3, 1, 2, -1], [1.0, 0.5, 0.5, 0.0], 4)
    assert got.recall == (1.0 + 0.5 + 0.5 + 0.0) / 4 == 0.5
    assert got.precision == (0 + 0.5 + 0.5 + 1.0) / 4 == 0.5
    assert got.f1 == 0.5


def test_several_reference_points_share_one_answer_point():
    got = ems_scores([0, 0, 1], [0.25, 0.75, 0.5], 2)
    assert got.recall == (0.25 + 0.75 + 0.5) / 3 == 0.5
    assert got.precision == (max(0.25, 0.75) + 0.5) / 2 == 0.625
    assert got.f1 == 2 * 0.5 * 0.625 / (0.5 + 0.625)


def test_an_answer_point_nobody_chose_costs_precision_only():
    assert ems_scores([0], [1.0], 1).precision == 1.0
    assert ems_scores([0], [1.0], 4).precision == 1 / 4
    assert ems_scores([0], [1.0], 4).recall == 1.0


def test_nothing_matched_is_zero():
    got = ems_scores([-1, -1], [0.0, 0.0], 3)
    assert (got.recall, got.precision, got.f1, got.unscored) == (0.0, 0.0, 0.0, 0)


def test_an_unmatched_point_scores_zero_whatever_its_score_says():
    assert ems_scores([-1, 0], [0.9, 0.5], 1).recall == (0 + 0.5) / 2


def test_empty_answer_is_zero_and_says_so_with_numbers():
    got = ems_scores([-1, -1], [0.0, 0.0], 0)
    assert (got.recall, got.precision, got.f1) == (0.0, 0.0, 0.0)
    result = with_metrics(EMSResult("t", "m", ("a", "b"), (), (-1, -1), (0.0, 0.0)))
    assert (tally(result).ref_sum, tally(result).ref_n) == (0.0, 2.0)


def test_empty_reference_is_nan_with_a_reason():
    got = ems_scores([], [], 3)
    assert isnan(got.recall)
    assert isnan(got.precision)
    assert isnan(got.f1)
    assert got.reason == "the reference has no points"


def test_one_point():
    got = ems_scores([0], [0.3], 1)
    assert (got.recall, got.precision) == (0.3, 0.3)
    assert isclose(got.f1, 0.3)


def test_an_unscored_point_leaves_numerator_and_denominator():
    # Point 1's match was unreadable: recall is over the two others; no answer point is blamed for it.
    got = ems_scores([0, None, -1], [1.0, None, 0.0], 2)
    assert got.recall == (1.0 + 0.0) / 2
    assert got.precision == (1.0 + 0.0) / 2
    assert got.unscored == 1
    # Point 1 is matched to answer point 1 but its score is unreadable: both leave.
    got = ems_scores([0, 1], [0.5, None], 2)
    assert got.recall == 0.5 / 1
    assert got.precision == 0.5 / 1
    assert got.unscored == 1


def test_an_answer_point_with_one_scored_choice_keeps_that_score():
    assert answer_scores([0, 0], [0.5, None], 1) == (0.5,)
    assert answer_scores([0, 0], [None, None], 1) == (None,)


def test_all_unscored_is_nan_not_zero():
    got = ems_scores([None, None], [None, None], 2)
    assert isnan(got.recall)
    assert isnan(got.precision)            # whether anybody chose either answer point is not known
    assert isnan(got.f1)
    assert got.unscored == 2
    result = with_metrics(EMSResult("t", "m", ("a", "b"), ("x", "y"), (None, None), (None, None)))
    assert tally(result) == Tally(0.0, 0.0, 0.0, 0.0, 2)
    assert got.reason == "no point could be scored"
    # Matched, but no score could be read: point 2 of the answer is known to be nobody's, and still there is
    # no number.
    assert isnan(ems_scores([0, 1], [None, None], 3).precision)
    # A scorer that judges the answer side on its own keeps it.
    assert side_scores([None], [0.5, 1.0]).precision == (0.5 + 1.0) / 2


def test_lost_matches_lower_precision_as_the_docstring_says():
    got = ems_scores([0] + [None] * 9, [1.0] + [None] * 9, 10)
    assert (got.recall, got.precision, got.unscored) == (1.0, 1 / 10, 9)


def test_f1_by_hand():
    assert f1(3 / 4, 1 / 4) == 2 * (3 / 4) * (1 / 4) / (3 / 4 + 1 / 4) == 0.375
    assert f1(0.0, 0.0) == 0.0
    assert isnan(f1(nan, 0.5))


def test_weights_and_own_answer_scores():
    got = side_scores([1.0, 0.0], [0.5, 1.0], [3.0, 1.0], [1.0, 3.0])
    assert got.recall == (3 * 1.0 + 1 * 0.0) / 4
    assert got.precision == (1 * 0.5 + 3 * 1.0) / 4


@pytest.mark.parametrize(("match", "score", "n", "words"), [
    ([0, 1], [1.0], 2, "one entry per reference point"),
    ([2], [1.0], 2, "-1..1"),
    ([-2], [1.0], 2, "-1..1"),
    ([0], [1.01], 1, "[0, 1]"),
    ([0], [-0.1], 1, "[0, 1]"),
    ([], [], -1, "0 or more"),
])
def test_impossible_input_is_refused(match, score, n, words):
    with pytest.raises(ValueError, match="got") as error:
        ems_scores(match, score, n)
    assert words in str(error.value)


@st.composite
def alignments(draw):
    n = draw(st.integers(1, 6))
    match = draw(st.lists(st.one_of(st.none(), st.integers(-1, n - 1)), min_size=1, max_size=8))
    score = [draw(st.one_of(st.none(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]))) for _ in match]
    return match, score, n


@given(alignments())
def test_against_a_plain_reading_of_the_equations(alignment):
    match, score, n = alignment
    got = ems_scores(match, score, n)
    ref = []                                            # eq. 5 and 6
    for a, s in zip(match, score, strict=True):
        if a == -1:
            ref.append(0.0)
        elif a is not None and s is not None:
            ref.append(s)
    ans = []                                            # eq. 7 and 8
    for j in range(n):
        chosen = [s for a, s in zip(match, score, strict=True) if a == j]
        known = [s for s in chosen if s is not None]
        if not chosen:
            ans.append(0.0)
        elif known:
            ans.append(max(known))
    for mine, theirs in ((got.recall, ref), (got.precision, ans if ref else [])):
        assert isnan(mine) if not theirs else isclose(mine, sum(theirs) / len(theirs), abs_tol=1e-12)
    assert got.unscored == len(match) - len(ref)
    if got.recall == got.recall and got.precision == got.precision and got.recall + got.precision:
        assert isclose(got.f1, 2 * got.recall * got.precision / (got.recall + got.precision))


@given(alignments())
def test_values_stay_in_range(alignment):
    got = ems_scores(*alignment)
    assert all(isnan(v) or 0.0 <= v <= 1.0 for v in (got.recall, got.precision, got.f1))


def test_the_package_offers_it():
    assert ems.ems_scores is ems_scores
