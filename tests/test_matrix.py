"""Two columns of labels crossed: counts, shares, agreement and kappa by hand."""

import math

import pandas as pd
import pytest

import ems
from ems.types import InputError

# Two raters on ten answers: both yes 4, both no 3, yes/no 2, no/yes 1; one answer has a single rating.
RATED = pd.DataFrame([("yes", "yes")] * 4 + [("no", "no")] * 3 + [("yes", "no")] * 2 + [("no", "yes")] + [("no", None)],
                     columns=["a", "b"])


def test_counts_and_shares_by_hand():
    crossed = ems.label_matrix(RATED, "a", "b")
    assert crossed.counts.loc["yes"].to_dict() == {"yes": 4, "no": 2}
    assert crossed.counts.loc["no"].to_dict() == {"yes": 1, "no": 3}
    assert (crossed.n, crossed.left_out) == (10, 1)
    assert crossed.shares.loc["yes", "yes"] == 4 / 6
    assert crossed.shares.sum(axis=1).tolist() == [1, 1]


def test_kappa_by_hand():
    crossed = ems.label_matrix(RATED, "a", "b")
    agreement, chance = (4 + 3) / 10, 6 / 10 * 5 / 10 + 4 / 10 * 5 / 10
    assert crossed.agreement == agreement
    assert crossed.kappa == pytest.approx((agreement - chance) / (1 - chance))
    assert ems.label_matrix(RATED.dropna(), "b", "a").kappa == pytest.approx(crossed.kappa)


def test_columns_of_other_labels_have_counts_and_no_agreement():
    crossed = ems.label_matrix(pd.DataFrame({"type": ["x", "y", "y"], "label": ["right", "wrong", "wrong"]}), "type", "label")
    assert crossed.counts.to_numpy().tolist() == [[1, 0], [0, 2]]
    assert math.isnan(crossed.agreement)
    assert math.isnan(crossed.kappa)


def test_raters_that_always_say_the_same_have_no_kappa():
    crossed = ems.label_matrix(pd.DataFrame({"a": ["yes"] * 3, "b": ["yes"] * 3}), "a", "b")
    assert crossed.agreement == 1
    assert math.isnan(crossed.kappa)


def test_one_rater_who_never_uses_a_label():
    crossed = ems.label_matrix(pd.DataFrame({"a": ["yes", "yes", "no"], "b": ["yes", "yes", "yes"]}), "a", "b")
    assert crossed.agreement == 2 / 3
    assert crossed.kappa == 0                                     # chance: 2/3 of yes times 1


@pytest.mark.parametrize(("rows", "columns", "says"), [
    ("a", "c", "no column 'c' among the labels; there are a, b"), ("a", "a", "two different columns are crossed")])
def test_wrong_columns_are_one_clear_line(rows, columns, says):
    with pytest.raises(InputError, match=says):
        ems.label_matrix(RATED, rows, columns)
