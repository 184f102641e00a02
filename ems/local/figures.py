"""Figures: which numbers of a text another text does not have.

A figure is a number as the local evaluator reads it (`terms`): a value, the rounding in which it is
printed, and whether a scale word follows. Units such as "$" and "%" are printed with it and not
compared. The figures of the question do not count, because an answer may repeat them without
knowing anything. A figure that the other text does not have is a fact about the numbers: it does
not say that the texts contradict each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from math import nan
from typing import NamedTuple

from .terms import Number, NumberIndex, numbers_in, printed_numbers

_PERCENT_SIGN = re.compile(r"\s?%")


class Figure(NamedTuple):
    """A number of a text, and where it stands in that text."""

    text: str  # as printed, with currency sign, scale word and percent sign: "$4.28 billion"
    start: int  # text is point[start:end]
    end: int
    number: Number


def figures_of(points: Iterable[str], question: str = "") -> list[list[Figure]]:
    """Per point its figures in order, repeated ones each time, without those of the question."""
    question_numbers = NumberIndex(numbers_in(question))
    figures = []
    for point in points:
        figures.append([f for f in _printed_figures(point) if not question_numbers.has(f.number)])
    return figures


def _printed_figures(text: str) -> Iterable[Figure]:
    for start, end, number in printed_numbers(text):
        if percent_sign := _PERCENT_SIGN.match(text, end):
            end = percent_sign.end()
        yield Figure(text[start:end], start, end, number)


def lacking_figures(
    points: Iterable[str], other: Iterable[str], question: str = ""
) -> list[list[Figure]]:
    """Per point its figures that no text of `other` has.

    `other` are the points of the other side, or the passages of a document.
    """
    other_numbers = NumberIndex(chain.from_iterable(map(numbers_in, other)))
    lacking = []
    for figures in figures_of(points, question):
        lacking.append([figure for figure in figures if not other_numbers.has(figure.number)])
    return lacking


def figure_scores(
    ref_points: Sequence[str], ans_points: Sequence[str], question: str = ""
) -> tuple[float, float]:
    """Recall and precision of the figures, each in [0, 1], or nan where a side has no figure.

    Recall is the share of the reference's different figures that the answer states, precision the
    share of the answer's different figures that the reference states.
    """
    question_numbers = NumberIndex(numbers_in(question))
    ref = _different_figures(ref_points, question_numbers)
    ans = _different_figures(ans_points, question_numbers)
    return _share_in(ref, ans), _share_in(ans, ref)


def _different_figures(points: Iterable[str], question_numbers: NumberIndex) -> list[Number]:
    numbers = dict.fromkeys(chain.from_iterable(map(numbers_in, points)))
    return [number for number in numbers if not question_numbers.has(number)]


def _share_in(numbers: Sequence[Number], other: Sequence[Number]) -> float:
    """The share of the numbers that the other side has; nan without numbers."""
    if not numbers:
        return nan
    index = NumberIndex(other)
    return sum(map(index.has, numbers)) / len(numbers)
