"""Sentences that are made from tables of values and tests."""

import pytest

from ems.analysis.findings import series


@pytest.mark.parametrize(
    ("names", "phrase"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")]
)
def test_names_are_joined_in_one_phrase(names, phrase):
    assert series(names) == phrase
