"""The words and numbers of a text, as the local evaluator reads them."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from time import strptime
from typing import NamedTuple

from ..extract import OTHER_SCRIPT

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
# What a number without a scale word may leave out, as in a table "in millions".
FACTORS = (1e3, 1e6, 1e9)
_MULTIPLIERS = (1.0, *FACTORS)
_DIVISORS = (1.0, *(1 / factor for factor in FACTORS))

# The patterns below are verbose: a space in them counts only within square brackets.
_LATIN = "A-Za-zÀ-ɏ"
_UNSPACED = "぀-ヿ㐀-鿿"  # scripts without spaces between words: each letter is read as a word
_WORD = rf"[^\W\d_{_UNSPACED}] [^\W_{_UNSPACED}]*+ | [{_UNSPACED}]"
_CITATION = r"\[ \d+ (?: \s* [,;–-] \s* \d+ )* \s* \]"  # "[4]", "[4, 7-9]"
_SHORT_YEAR = r"['’] \d\d (?! [.,]? \w)"  # "'25", but not "'25.5"
_DIGITS = r"""(?>
      \d{1,3} (?: ,\d{3} )++ (?!\d) (?: \.\d+ )?  # "94,930" and "1,234.5"
    | \d+ (?: \.\d+ | ,\d\d? (?![\d,]) )?         # "94", "94.9", and "94,9" with a decimal comma
)"""
_SCALE = r"""(?:
      [ -]? (?i: thousand | million | billion | trillion | [mbt]n ) s?
    | [kmbtKMBT]
)"""
_AMOUNT = rf"[$€£¥]? {_DIGITS} (?: {_SCALE} (?! [{_LATIN}\d]) )?+"
# "50bps" is the number 50 and a unit; "3M", "4Q24" and "20th" are names.
_UNIT = r"(?! (?: [A-Z] | st | nd | rd | th ) \b ) [A-Za-zµ]{1,4} \b"
_NUMBER = rf"""
      (?= [$€£¥]? \d+ [.,] \d ) {_AMOUNT}  # with a decimal or a comma, whatever follows it
    | {_AMOUNT} (?: (?! [{_LATIN}] ) | (?= {_UNIT} ) )
"""
_NAME = r"[^\W_]++"  # letters and digits that are neither a word nor a number: "4Q24"
_TOKEN = re.compile(
    f"{_WORD} | {_CITATION} | {_SHORT_YEAR} | {_NUMBER} | {_NAME}",
    re.VERBOSE,
)
# The same tokens, but words are skipped, and what begins no token. The group is any other token.
_AFTER_WORDS = re.compile(
    rf"(?: {_WORD} | [^\w$€£¥'’\[]++ )*+ ( {_CITATION} | {_SHORT_YEAR} | {_NUMBER} | {_NAME} )?",
    re.VERBOSE,
)
_AMOUNT_PARTS = re.compile(
    rf"[$€£¥]? (?P<digits> {_DIGITS} ) (?P<scale> {_SCALE}? )",
    re.VERBOSE,
)
_PLURAL = re.compile(r"(?<=...)(?<![su])s$")
_ENDING = re.compile(r"(?<=...)(?:ation|ment|ing|ied?|ed|ly|e|(?<![aeiou])y)$")
# What decides how a text is read, for signatures. The last number is raised when other code of
# this file changes a term.
READING_RULES = (
    _SCALES,
    FACTORS,
    _TOKEN.pattern,
    _PLURAL.pattern,
    _ENDING.pattern,
    1,
)


# Frequent words by language.
_FUNCTION_WORDS = {
    "English": "the of and to for with that by from are were its which as at be has",
    "German": "der die das und ist nicht mit von für auf den dem des ein eine sich im auch wurde",
    "French": "le la les des et est une dans pour avec sur qui que du au par il pas ont",
    "Spanish": "el los las y del por con una para es que se su como más en lo un fue",
    "Italian": "il gli di che è per con una del della dei nel sono non si alla da ha un",
    "Portuguese": "o os e do da dos das em não uma com ao para pela foi por um que se",
    "Dutch": "de het een en van dat voor met op te zijn niet ook aan bij door werd naar",
}
_WORDS_OF = {language: frozenset(text.split()) for language, text in _FUNCTION_WORDS.items()}
_LANGUAGE_SAMPLE = 1500  # characters of a text by which its language is told


class Number(NamedTuple):
    """A number as it is printed."""

    value: float  # not negative: a sign before it is not read
    rounding: float  # half a unit of its last digit
    scaled: bool  # whether a scale word (thousand, bn, ...) follows


Term = str | Number  # a stem or a number


# The same points are read for their words and for their figures, a reference's once an answer.
@lru_cache(maxsize=1024)
def read_terms(text: str) -> tuple[Term, ...]:
    """The stems and numbers of a text, in order. Citations such as [4] are left out."""
    return tuple(filter(None, map(_term_of, _TOKEN.findall(text))))


def numbers_in(text: str) -> list[Number]:
    """The numbers among `read_terms` of a text."""
    return [term for term in read_terms(text) if isinstance(term, Number)]


def printed_numbers(text: str) -> Iterator[tuple[int, int, Number]]:
    """The numbers of a text in order, each with the places where it begins and ends."""
    for token in _AFTER_WORDS.finditer(text):
        term = _term_of(token[1]) if token[1] else None
        if isinstance(term, Number):
            yield *token.span(1), term


@lru_cache(maxsize=50_000)
def _term_of(token: str) -> Term | None:
    """The stem or number that a token is; None for a citation."""
    if token.startswith("["):
        return None
    if token[0] in "'’":
        return Number(strptime(token[1:], "%y").tm_year, 0.5, False)
    amount = _AMOUNT_PARTS.fullmatch(token)
    # A capital letter alone makes no amount: "3M" is a name, "$3M" and "3.5M" are amounts.
    if amount is None or re.fullmatch(r"\d+[KMBT]", token):
        return word_stem(token.lower())
    return _number_of(amount["digits"], amount["scale"])


def _number_of(digits: str, scale: str) -> Number:
    # A comma before one or two last digits is a decimal comma: "94,9", not "94,900".
    plain = re.sub(r",(?=\d\d?$)", ".", digits).replace(",", "")
    decimals = min(len(plain.partition(".")[2]), 9)
    word = scale.strip(" -").lower().removesuffix("s")
    factor = _SCALES.get(word, 1.0)
    return Number(float(plain) * factor, 0.5 * 10.0**-decimals * factor, bool(word))


def word_stem(word: str) -> str:
    """A lower-case word without its plural and one common English ending.

    Three letters stay at least; of a double letter before the ending one goes ("planned", "plan").
    """
    singular = _PLURAL.sub("", word)
    stem = _ENDING.sub("", singular)
    is_doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz"
    if is_doubled and stem != singular:
        return stem[:-1]
    return stem


class NumberIndex:
    """The numbers of a text, to look up which of them are the same as a given one.

    Two numbers are the same where one lies in the other's printed rounding. Where only one of them
    has a scale word, the other may leave out a thousand, a million or a billion.
    """

    def __init__(self, numbers: Iterable[Number]):
        # The values in order, by rounding and whether they are scaled.
        self._values: dict[tuple[float, bool], list[float]] = defaultdict(list)
        self.different = set(numbers)
        for value, rounding, scaled in sorted(self.different):
            self._values[rounding, scaled].append(value)

    def has(self, number: Number) -> bool:
        """Whether the text has the same number."""
        return number in self.different or any(self.same_as(number))

    def same_as(self, number: Number) -> Iterator[Number]:
        """Those that are the same as `number`; one that fits with two factors is given twice."""
        for (rounding, scaled), values in self._values.items():
            for factor in _factors_between(number.scaled, scaled):
                value = number.value * factor
                within = max(rounding, number.rounding * factor) + 1e-9 * value
                start = bisect_left(values, value - within)
                end = bisect_right(values, value + within)
                for i in range(start, end):
                    yield Number(values[i], rounding, scaled)


def _factors_between(is_scaled: bool, other_is_scaled: bool) -> tuple[float, ...]:
    """By what a number may have to be multiplied to be compared with another one."""
    if is_scaled == other_is_scaled:
        return (1.0,)
    return _DIVISORS if is_scaled else _MULTIPLIERS


def unread_scripts(text: str) -> list[str]:
    """The scripts other than Latin that a tenth of a text is in, by their Unicode names.

    The table of weights has none of their words.
    """
    letters = filter(str.isalpha, OTHER_SCRIPT.findall(text))
    scripts = Counter(unicodedata.name(letter, "UNKNOWN").split()[0] for letter in letters)
    return [script for script, count in scripts.items() if 10 * count >= len(text)]


def foreign_language(text: str) -> str:
    """The language of a text if it is surely one of `_FUNCTION_WORDS` and not English; else "".

    A seventh of its words and five at least are that language's, twice as many as are English.
    """
    words = text[:_LANGUAGE_SAMPLE].lower().split()
    counts = {}
    for language, function_words in _WORDS_OF.items():
        counts[language] = sum(map(function_words.__contains__, words))
    best = max(counts, key=counts.__getitem__)
    least = max(5, len(words) / 7, 2 * counts["English"])
    return best if best != "English" and counts[best] >= least else ""
