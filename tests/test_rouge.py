"""ROUGE for long texts: the same numbers as rouge-score's, and the longest common subsequence by hand."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from ems.rouge import Rouge, common_subsequence

KINDS = ("rouge1", "rouge2", "rougeL")
OURS, THEIRS = Rouge(KINDS), RougeScorer(list(KINDS), use_stemmer=True)
WORDS = st.sampled_from(["revenue", "revenues", "rose", "5%", "the", "The", "a", "-", "$10bn", "naïve",
                         "rising", "\n"])
TEXTS = st.lists(WORDS, max_size=40).map(" ".join)


@pytest.mark.parametrize(("a", "b", "length"), [
    ("", "", 0), ("a", "", 0), ("", "a", 0), ("a", "a", 1), ("ab", "ba", 1),
    ("abcbdab", "bdcaba", 4),                           # bcba
    ("aaa", "aa", 2), ("abc", "xyz", 0), ("xaxbxcx", "abc", 3),
])
def test_longest_common_subsequence_by_hand(a, b, length):
    assert common_subsequence(a, b) == length


@settings(deadline=None)
@given(reference=TEXTS, answer=TEXTS)
def test_the_values_are_those_of_rouge_score(reference, answer):
    theirs = THEIRS.score(reference, answer)
    assert OURS.score(reference, answer) == {
        kind: (theirs[kind].precision, theirs[kind].recall, theirs[kind].fmeasure) for kind in KINDS}


def test_kinds_come_in_the_order_asked_for():
    assert list(Rouge(["rougeL", "rouge1"]).score("a b", "a")) == ["rougeL", "rouge1"]
    assert list(Rouge(["rougeL"]).score("a b", "a")) == ["rougeL"]


def test_long_texts_take_milliseconds():
    text = "Revenue rose 5% to $10 billion while costs fell. " * 400
    began = time.process_time()
    OURS.score(text, text[::-1])
    assert time.process_time() - began < 2                # rouge-score's table takes about ten times as long
