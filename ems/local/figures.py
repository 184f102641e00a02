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
from collections.abc import Callable
from functools import cache, lru_cache

from ..results import Figures, Place, SideFigures
from ..types import Points, Triplet
from .terms import READING_RULES, Number, NumberIndex, printed_numbers

# The signature of values of figures.
FIGURES_RULE = f"figures#{hashlib.sha256(repr(READING_RULES).encode()).hexdigest()[:8]}"
_PERCENT_SIGN = re.compile(r"\s?%")


def compare_figures(
    triplet: Triplet, answer: str, ref_points: Points = (), ans_points: Points = ()
) -> Figures:
    """The figures of a triplet's reference and of an answer, and which of them the other lacks.

    They are counted in the whole texts, and marked where points print them. What the answer has in
    common with the document is looked up if the triplet has a context.
    """
    ref = _text_figures(triplet.reference_text, ref_points, triplet.question)
    ans = _TextFigures(answer, ans_points, triplet.question)
    not_in_document = None
    if triplet.context:
        not_in_document = ans.lacking(cache(_document_numbers(triplet.context).has))
    return Figures(ref.beside(ans), ans.beside(ref), not_in_document)


def numbers_alone(document: str) -> str:
    """A short text with the different numbers of a document, which stands in place of it here."""
    printed = {number: document[start:end] for start, end, number in printed_numbers(document)}
    return "\n".join(["Numbers:", *printed.values()])


class _TextFigures:
    """The figures of a text, and where points print them."""

    def __init__(self, text: str, points: Points, question: str):
        in_question = cache(_numbers_of(question).has)
        self.numbers = _numbers_of(text)
        self.figures = [number for number in self.numbers.different if not in_question(number)]
        self.places: list[tuple[Place, Number]] = []
        for i, point in enumerate(points):
            for start, end, number in printed_numbers(point):
                if in_question(number):
                    continue
                if percent_sign := _PERCENT_SIGN.match(point, end):
                    end = percent_sign.end()
                self.places.append(((i, start, end), number))

    def beside(self, other: _TextFigures) -> SideFigures:
        """How many of the figures the other text has, and where those are that it lacks."""
        in_other = cache(other.numbers.has)
        shared = sum(map(in_other, self.figures))
        return SideFigures(len(self.figures), shared, self.lacking(in_other))

    def lacking(self, in_other: Callable[[Number], bool]) -> tuple[Place, ...]:
        """The places of the figures for which `in_other` is false."""
        return tuple(place for place, number in self.places if not in_other(number))


def _numbers_of(text: str) -> NumberIndex:
    return NumberIndex(number for *_, number in printed_numbers(text))


# A reference is read once for all its answers, and a document once for all answers about it.
_text_figures = lru_cache(maxsize=512)(_TextFigures)
_document_numbers = lru_cache(maxsize=32)(_numbers_of)
