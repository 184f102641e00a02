"""Figures: which numbers of a text another text does not have.

A figure is a number as the local evaluator reads it (`terms`): a value, the rounding in which it is
printed, and whether a scale word follows. Units such as "$" and "%" are printed with it and not
compared. The figures of the question do not count, because an answer may repeat them without
knowing anything. A figure that the other text does not have is a fact about the numbers: it does
not say that the texts contradict each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

from ..results import Figures, Place, SideFigures
from ..types import Points, Triplet
from .terms import READING_RULES, Number, NumberIndex, printed_numbers

# The signature of values of figures.
FIGURES_RULE = f"figures#{hashlib.sha256(repr(READING_RULES).encode()).hexdigest()[:8]}"
_PERCENT_SIGN = re.compile(r"\s?%")
_Test = Callable[[Number], bool]


def compare_figures(
    triplet: Triplet, answer: str, ref_points: Points = (), ans_points: Points = ()
) -> Figures:
    """The figures of a triplet's reference and of an answer, and which of them the other lacks.

    They are counted in the whole texts, and marked where points print them. What the answer has in
    common with the document is looked up if the triplet has a context.
    """
    in_question = cache(_index_of_text(triplet.question).has)
    ref = _index_of_text(triplet.reference_text)
    ans = _index_of(answer)
    in_ref, in_ans = cache(ref.has), cache(ans.has)
    ref_places = _figure_places(ref_points, in_question)
    ans_places = _figure_places(ans_points, in_question)
    not_in_document = None
    if triplet.context:
        not_in_document = _lacking(ans_places, cache(_index_of_document(triplet.context).has))
    return Figures(
        SideFigures(*_counts(ref, in_question, in_ans), _lacking(ref_places, in_ans)),
        SideFigures(*_counts(ans, in_question, in_ref), _lacking(ans_places, in_ref)),
        not_in_document,
    )


def numbers_alone(document: str) -> str:
    """A short text with the different numbers of a document, which stands in place of it here."""
    printed = {number: document[start:end] for start, end, number in printed_numbers(document)}
    return "\n".join(["Numbers:", *printed.values()])


def _index_of(text: str) -> NumberIndex:
    return NumberIndex(number for *_, number in printed_numbers(text))


# A reference is read for each of its answers, and a document for each answer about it.
_index_of_text = lru_cache(maxsize=512)(_index_of)
_index_of_document = lru_cache(maxsize=32)(_index_of)


def _figure_places(points: Points, in_question: _Test) -> list[tuple[Place, Number]]:
    """The places of all figures of the points, in order."""
    places = []
    for i, point in enumerate(points):
        for start, end, number in printed_numbers(point):
            if in_question(number):
                continue
            if percent_sign := _PERCENT_SIGN.match(point, end):
                end = percent_sign.end()
            places.append(((i, start, end), number))
    return places


def _lacking(places: Iterable[tuple[Place, Number]], in_other: _Test) -> tuple[Place, ...]:
    return tuple(place for place, number in places if not in_other(number))


def _counts(text: NumberIndex, in_question: _Test, in_other: _Test) -> tuple[int, int]:
    """How many different figures a text has, and how many of them the other text has."""
    figures = [number for number in text.numbers if not in_question(number)]
    return len(figures), sum(map(in_other, figures))
