"""Sentences that are made from tables of values and tests."""

import math

import pytest

from ems.analysis.findings import series, with_interval


@pytest.mark.parametrize(
    ("names", "phrase"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")]
)
def test_names_are_joined_in_one_phrase(names, phrase):
    assert series(names) == phrase


def test_a_value_has_its_interval_where_there_is_one():
    assert with_interval(0.5249, 0.4651, 0.5744) == "0.52 [0.47, 0.57]"
    assert with_interval(0.5249, math.nan, math.nan, decimals=3) == "0.525"
