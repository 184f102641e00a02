"""Figures: the numbers of a text as printed, and which of them another text does not have.

The first part reads a text as the local evaluator does, as numbers and stems of words. A number has
a value, the rounding in which it is printed, and a kind: a percentage is never the same as an
amount with a scale word or a currency sign. Other units are not compared. The figures of the
question do not count, because an answer may repeat them without knowing anything. A figure that the
other text does not have is a fact about the numbers: it does not say that the texts contradict each
other.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import starmap
from time import strptime
from typing import NamedTuple

from ..results import Figures, Place, SideFigures
from ..types import Points, Triplet

# --- the words and numbers of a text ---

_SCALES = {
    "thousand": 1e3,
    "k": 1e3,
    "million": 1e6,
    "mn": 1e6,
    "m": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "b": 1e9,
    "trillion": 1e12,
    "tn": 1e12,
    "t": 1e12,
}
# By what a number may have to be multiplied to be compared with another one, where only one of them
# has a scale word, as in a table "in millions": by whether the number and the other have one.
_FACTORS_BETWEEN = {
    (False, True): (1.0, 1e3, 1e6, 1e9),
    (True, False): (1.0, 1e-3, 1e-6, 1e-9),
}

# The patterns below are verbose: a space in them counts only within square brackets. A group that
# must not be given back is atomic, (?>...): Python 3.11.0 to 3.11.4 repeat a group wrongly with ++.
_LATIN = "A-Za-zÀ-ɏ"
_UNSPACED = "぀-ヿ㐀-鿿"  # scripts without spaces between words: each letter is read as a word
_WORD = rf"[^\W\d_{_UNSPACED}] [^\W_{_UNSPACED}]*+ | [{_UNSPACED}]"
_CITATION = r"\[ \d+ (?: \s* [,;–-] \s* \d+ )* \s* \]"  # "[4]", "[4, 7-9]"
_SHORT_YEAR = r"['’] \d\d (?! [.,]? \w)"  # "'25", but not "'25.5"
_DIGITS = r"""(?>
      (?> \d{1,3} (?: ,\d{3} )+ ) (?!\d) (?: \.\d+ )?  # "94,930" and "1,234.5"
    | \d+ (?: \.\d+ | ,\d\d? (?![\d,]) )?  # "94", "94.9", and "94,9" with a decimal comma
)"""
_SCALE = r"""(?:
      [ -]? (?i: thousand | million | billion | trillion | [mbt]n ) s?
    | [kmbtKMBT]
)"""
_AMOUNT = rf"[$€£¥]? {_DIGITS} (?> (?: {_SCALE} (?! [{_LATIN}\d]) )? )"
# "50bps" is the number 50 and a unit; "3M", "4Q24" and "20th" are names.
_UNIT = r"(?! (?: [A-Z] | st | nd | rd | th ) \b ) [A-Za-zµ]{1,4} \b"
_NUMBER = rf"""
      (?= [$€£¥]? \d+ [.,] \d ) {_AMOUNT}  # with a decimal or a comma, whatever follows it
    | {_AMOUNT} (?: (?! [{_LATIN}] ) | (?= {_UNIT} ) )
"""
_PERCENT = r"""[^\S\n]? (?:
      \\? [%％]  # "4 %", and "4\%" in formulas
    | -? (?i: percent | per [ ] cent | (?: percentage | basis ) [ -] points? | bps ) \b
)"""
_NAME = r"[^\W_]++"  # letters and digits that are neither a word nor a number: "4Q24"
# The groups are the token and, if it is a number, what makes it a percentage.
_TOKEN = re.compile(
    rf"""
      ( {_WORD} | {_CITATION} | {_SHORT_YEAR} | (?: {_NUMBER} ) (?= ( {_PERCENT} )? ) | {_NAME} )
    """,
    re.VERBOSE,
)
# The same tokens, but words are skipped, and what begins no token.
_AFTER_WORDS = re.compile(
    rf"(?> (?: {_WORD} | [^\w$€£¥'’\[]++ )* )"
    rf"(?: ( {_CITATION} | {_SHORT_YEAR} | {_NUMBER} | {_NAME} ) ( {_PERCENT} )? )?",
    re.VERBOSE,
)
# A capital letter alone makes no amount: "3M" is a name, "$3M" and "3.5M" are amounts.
_AMOUNT_PARTS = re.compile(
    rf"(?! \d+ [KMBT] \Z ) ( [$€£¥]? ) ( {_DIGITS} ) ( {_SCALE}? )",
    re.VERBOSE,
)
_DECIMAL_COMMA = re.compile(r",(?=\d\d?$)")
_PLURAL = re.compile(r"(?<=...)(?<![su])s$")
_ENDING = re.compile(r"(?<=...)(?:ation|ment|ing|ied?|ed|ly|e|(?<![aeiou])y)$")
_DOUBLED = re.compile(r"(?<=..)([^lsz])\1$")
# What decides how a text is read, for signatures. The last number is raised when other code of
# this file changes a term.
READING_RULES = (
    _SCALES,
    _FACTORS_BETWEEN,
    _TOKEN.pattern,
    _PLURAL.pattern,
    _ENDING.pattern,
    2,
)


class Number(NamedTuple):
    """A number as it is printed."""

    value: float  # not negative: a sign before it is not read
    rounding: float  # half a unit of its last digit
    scaled: bool  # whether a scale word (thousand, bn, ...) follows
    kind: str  # "percentage"; "amount", with a scale word or a currency sign; or "bare"


Term = str | Number  # a stem or a number


# The same points are read for their words and for their figures, a reference's once an answer.
@lru_cache(maxsize=1024)
def read_terms(text: str) -> tuple[Term, ...]:
    """The stems and numbers of a text, in order. Citations such as [4] are left out."""
    return tuple(filter(None, starmap(_term_of, _TOKEN.findall(text))))


def printed_numbers(text: str) -> Iterator[tuple[int, int, Number]]:
    """The numbers of a text in order, each with the places where it begins and ends.

    What makes it a percentage belongs to it.
    """
    for token in _AFTER_WORDS.finditer(text):
        term = _term_of(token[1], token[2]) if token[1] else None
        if isinstance(term, Number):
            yield token.start(1), token.end(), term


@lru_cache(maxsize=50_000)
def _term_of(token: str, percent: str | None) -> Term | None:
    """The stem or number that a token is; None for a citation."""
    if token.startswith("["):
        return None
    if token[0] in "'’":
        return Number(strptime(token[1:], "%y").tm_year, 0.5, False, "bare")
    amount = _AMOUNT_PARTS.fullmatch(token)
    if amount is None:
        return word_stem(token.lower())
    sign, digits, scale = amount.groups()
    # A comma before one or two last digits is a decimal comma: "94,9", not "94,900".
    plain = _DECIMAL_COMMA.sub(".", digits).replace(",", "")
    decimals = min(len(plain.partition(".")[2]), 9)
    word = scale.strip(" -").lower().removesuffix("s")
    factor = _SCALES.get(word, 1.0)
    kind = "amount" if word or sign else "bare"
    if percent:
        kind = "percentage"
    scaled = bool(word) and not percent
    return Number(float(plain) * factor, 0.5 * 10.0**-decimals * factor, scaled, kind)


def word_stem(word: str) -> str:
    """A lower-case word without its plural and one common English ending.

    Three letters stay at least; of a double letter before the ending one goes ("planned", "plan").
    """
    singular = _PLURAL.sub("", word)
    stem = _ENDING.sub("", singular)
    return stem if stem == singular else _DOUBLED.sub(r"\1", stem)


class NumberIndex:
    """The numbers of a text, to look up which of them are the same as a given one.

    Two numbers are the same where one lies in the other's printed rounding. Where only one of them
    has a scale word, the other may leave out a thousand, a million or a billion. A percentage is
    the same only as another one or a bare number.
    """

    def __init__(self, numbers: Iterable[Number]):
        # The values in order, by the other fields.
        self._values: dict[tuple[float, bool, str], list[float]] = defaultdict(list)
        self.different = set(numbers)
        for number in sorted(self.different):
            self._values[number[1:]].append(number.value)

    def has(self, number: Number) -> bool:
        """Whether the text has the same number."""
        return number in self.different or any(self.same_as(number))

    def same_as(self, number: Number) -> Iterator[Number]:
        """Those that are the same as `number`; one that fits with two factors is given twice."""
        for (rounding, scaled, kind), values in self._values.items():
            if {number.kind, kind} == {"percentage", "amount"}:
                continue
            for factor in _FACTORS_BETWEEN.get((number.scaled, scaled), (1.0,)):
                value = number.value * factor
                within = max(rounding, number.rounding * factor) + 1e-9 * value
                start = bisect_left(values, value - within)
                end = bisect_right(values, value + within)
                for i in range(start, end):
                    yield Number(values[i], rounding, scaled, kind)


# --- the figures of two texts ---

# The signature of values of figures.
FIGURES_RULE = f"figures#{hashlib.sha256(repr(READING_RULES).encode()).hexdigest()[:8]}"


def compare_figures(
    triplet: Triplet, answer: str, ref_points: Points, ans_points: Points
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
        in_question = cache(numbers_of(question).has)
        self.numbers = numbers_of(text)
        self.figures = [number for number in self.numbers.different if not in_question(number)]
        self.places: list[tuple[Place, Number]] = []
        for i, point in enumerate(points):
            for start, end, number in printed_numbers(point):
                if not in_question(number):
                    self.places.append(((i, start, end), number))

    def beside(self, other: _TextFigures) -> SideFigures:
        """How many of the figures the other text has, and where those are that it lacks."""
        in_other = cache(other.numbers.has)
        shared = sum(map(in_other, self.figures))
        return SideFigures(len(self.figures), shared, self.lacking(in_other))

    def lacking(self, in_other: Callable[[Number], bool]) -> tuple[Place, ...]:
        """The places of the figures for which `in_other` is false."""
        return tuple(place for place, number in self.places if not in_other(number))


def numbers_of(text: str) -> NumberIndex:
    """The numbers of a text, to look others up in."""
    return NumberIndex(number for *_, number in printed_numbers(text))


# A reference is read once for all its answers, and a document once for all answers about it.
_text_figures = lru_cache(maxsize=512)(_TextFigures)
_document_numbers = lru_cache(maxsize=32)(numbers_of)
