"""Coverage without a model: the share of a text's weight that another text holds.

A text's weight is that of its words and numbers. A word weighs more the rarer it is: minus the logarithm of
the share of texts that have its stem, from the fixed table rarity.txt. A number weighs as much as a rare
word. What the question says weighs less. Each word and each number counts once in a text; points that have
the same one share its weight equally, so that the weights of a text's points add up to the text's.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from time import strptime
from typing import NamedTuple

from ..extract import OTHER_SCRIPT
from ..types import Match, Points

NUMBER = 5.0  # weight of a number
ASKED = 0.3  # share of its weight that a word or number of the question keeps
EMPTY = 0.1  # weight of a point without words and numbers; its score is 0
THRESHOLD = 0.25  # of WordMatcher, chosen by a judge's matches: docs/local-evaluator.md
CROWD = 50  # what more points than this have in common does not tell which of them is nearest
UNKNOWN = 8.0  # weight of a stem that the table lacks: a little above its rarest
SCALES = {
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
FACTORS = (
    1e3,
    1e6,
    1e9,
)  # what a number without a scale word may lack, as in a table "in millions"
TABLE = Path(__file__).with_name("rarity.txt")
_LATIN, _UNSPACED = "A-Za-zÀ-ɏ", "぀-ヿ㐀-鿿"  # in a script without spaces each letter is a word
_DIGITS = r"(?>(?>\d{1,3}(?:,\d{3})+)(?!\d)(?:\.\d+)?|\d+(?:\.\d+|,\d\d?(?![\d,]))?)"
_SCALE = r"[ -]?(?i:thousand|million|billion|trillion|[mbt]n)s?|[kmbtKMBT]"
_AMOUNT = rf"[$€£¥]?{_DIGITS}(?>(?:(?:{_SCALE})(?![{_LATIN}\d]))?)"
_UNIT = (
    r"(?!(?:[A-Z]|st|nd|rd|th)\b)[A-Za-zµ]{1,4}\b"  # "50bps" is "50 bps"; "4Q24" and "3M" are names
)
_TOKEN = re.compile(
    rf"[^\W\d_{_UNSPACED}][^\W_{_UNSPACED}]*+|[{_UNSPACED}]"  # a word
    r"|\[\d+(?:\s*[,;–-]\s*\d+)*\s*\]"  # a citation: "[4]"
    r"|['’]\d\d(?![.,]?\w)"  # a year: "'25"
    rf"|(?=[$€£¥]?\d+[.,]\d){_AMOUNT}|{_AMOUNT}(?:(?![{_LATIN}])|(?={_UNIT}))"  # a number
    r"|[^\W_]++"
)  # a name: "4Q24"
_PARTS = re.compile(rf"[$€£¥]?(?P<digits>{_DIGITS})(?P<scale>(?:{_SCALE})?)")
_PLURAL = re.compile(r"(?<=...)(?<![su])s$")
_ENDING = re.compile(r"(?<=...)(?:ation|ment|ing|ied?|ed|ly|e|(?<![aeiou])y)$")
# The table, the constants and the patterns; the last number is raised when other code changes a value.
_RULES = (
    NUMBER,
    ASKED,
    EMPTY,
    UNKNOWN,
    CROWD,
    SCALES,
    FACTORS,
    _TOKEN.pattern,
    _PLURAL.pattern,
    _ENDING.pattern,
    1,
)
SIGNATURE = "words#" + hashlib.sha256(TABLE.read_bytes() + repr(_RULES).encode()).hexdigest()[:8]


class Number(NamedTuple):
    """A number as it is printed."""

    value: float
    rounding: float  # half a unit of its last digit
    scaled: bool  # whether a scale word (thousand, bn, ...) follows


Term = str | Number  # a stem or a number


class Cover(NamedTuple):
    """How far two texts hold each other, point by point."""

    ref_score: tuple[
        float, ...
    ]  # in [0, 1]: the share of each point's weight that the answer holds
    ans_score: tuple[float, ...]
    ref_weights: tuple[
        float, ...
    ]  # positive; the mean of the scores with them is the text's coverage
    ans_weights: tuple[float, ...]
    nearest: Match  # per reference point the answer point that holds most of it, or -1


def cover(ref_points: Points, ans_points: Points, question: str = "") -> Cover:
    """How far a reference and an answer hold each other, which depends on these three alone."""
    asked = Side((question,))
    ref, ans = Side(ref_points, asked), Side(ans_points, asked)
    same = ref.held_by(ans)
    return Cover(
        ref.scores(same),
        ans.scores(set().union(*same.values())),
        ref.weights,
        ans.weights,
        _nearest(ref, ans, same),
    )


class WordMatcher:
    """Matches each reference point with the answer point that holds most of its weight, a quarter or more."""

    signature = f"{SIGNATURE},threshold={THRESHOLD}"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[Match]:
        """The match of each pair of reference points and answer points."""
        sides = ((Side(ref), Side(ans)) for ref, ans in pairs)
        return [_nearest(ref, ans, ref.held_by(ans), THRESHOLD) for ref, ans in sides]


class Side:
    """The points of one text, and what each of their words and numbers weighs in them."""

    def __init__(self, points: Sequence[str], asked: Side | None = None):
        self.points = [
            dict.fromkeys(read(point)) for point in points
        ]  # each a set that keeps its order
        self.counts = Counter(chain.from_iterable(self.points))
        self.numbers = [term for term in self.counts if isinstance(term, Number)]
        self.groups: dict[
            tuple[float, bool], list[float]
        ] = {}  # values in order, by rounding and scaled
        for value, rounding, scaled in sorted(self.numbers):
            self.groups.setdefault((rounding, scaled), []).append(value)
        self.shares = {term: _weight(term) / count for term, count in self.counts.items()}
        for term in self.held_by(asked) if asked else ():
            self.shares[term] *= ASKED
        self.weights = tuple(
            sum(self.shares[term] for term in terms) or EMPTY for terms in self.points
        )

    def scores(self, held: Collection[Term]) -> tuple[float, ...]:
        """The share of each point's weight that is `held`, in [0, 1]."""
        return tuple(
            min(1.0, sum(self.shares[term] for term in terms if term in held) / weight)
            for terms, weight in zip(self.points, self.weights, strict=True)
        )

    def held_by(self, other: Side) -> dict[Term, set[Term]]:
        """The words and numbers that another text has as well, and for each what is the same there.

        Two numbers are the same where one lies in the other's printed rounding. Where only one of them has a
        scale word, the other may lack a thousand, a million or a billion.
        """
        same: dict[Term, set[Term]] = {
            term: {term} for term in self.counts.keys() & other.counts.keys()
        }
        for number in self.numbers:
            for (rounding, scaled), values in other.groups.items():
                for lacking in (1.0, *FACTORS) if scaled != number.scaled else (1.0,):
                    factor = lacking if scaled else 1 / lacking
                    value = number.value * factor
                    within = max(rounding, number.rounding * factor) + 1e-9 * value
                    found = values[
                        bisect_left(values, value - within) : bisect_right(values, value + within)
                    ]
                    if found:
                        same.setdefault(number, set()).update(
                            Number(v, rounding, scaled) for v in found
                        )
        return same


def _nearest(ref: Side, ans: Side, same: Mapping[Term, set[Term]], least: float = 0.0) -> Match:
    """Per reference point the answer point that holds most of its weight, and at least this share of it.

    -1 where there is none. Ties go to the earlier point.
    """
    holders = defaultdict(list)
    for i, terms in enumerate(ans.points):
        for term in terms:
            holders[term].append(i)
    places = {term: {i for other in found for i in holders[other]} for term, found in same.items()}
    nearest = []
    for terms, weight in zip(ref.points, ref.weights, strict=True):
        held = {-1: 0.0}
        for term in terms:
            found = places.get(term, set())
            for i in found if len(found) <= CROWD else ():
                held[i] = held.get(i, 0.0) + ref.shares[term]
        best = max(held, key=lambda i: (held[i], -i))
        nearest.append(best if held[best] / weight >= least else -1)
    return tuple(nearest)


# --- words and numbers of a text


def read(text: str) -> list[Term]:
    """The stems and numbers of a text, in order. Citations such as [4] are left out."""
    return [term for term in map(_term, _TOKEN.findall(text)) if term]


@lru_cache(maxsize=50_000)
def _term(token: str) -> Term:
    """The stem or number that a token is; "" for a citation."""
    if token.startswith("["):
        return ""
    if token[0] in "'’":
        return Number(strptime(token[1:], "%y").tm_year, 0.5, False)
    amount = _PARTS.fullmatch(token)
    # A capital letter alone makes no amount: "3M" is a name, "$3M" and "3.5M" are amounts.
    if not amount or re.fullmatch(r"\d+[KMBT]", token):
        return stem(token.lower())
    digits = re.sub(r",(?=\d\d?$)", ".", amount["digits"]).replace(",", "")  # "94,9"; not "94,900"
    scale = amount["scale"].strip(" -").lower().removesuffix("s")
    factor, decimals = SCALES.get(scale, 1.0), min(len(digits.partition(".")[2]), 9)
    return Number(float(digits) * factor, 0.5 * 10.0**-decimals * factor, bool(scale))


def stem(word: str) -> str:
    """A lower-case word without its plural and one common English ending; three letters stay, or more."""
    singular = _PLURAL.sub("", word)
    stemmed = _ENDING.sub("", singular)
    doubled = len(stemmed) > 3 and stemmed[-1] == stemmed[-2] and stemmed[-1] not in "lsz"
    return stemmed[:-1] if doubled and stemmed != singular else stemmed


def _weight(term: Term) -> float:
    return NUMBER if isinstance(term, Number) else _rarity().get(term, UNKNOWN)


@cache
def _rarity() -> dict[str, float]:
    """Weight by stem. A line of the table is a weight and the stems that have it."""
    rows = [
        line.split() for line in TABLE.read_text(encoding="utf-8").splitlines() if line[0] != "#"
    ]
    return {stem: float(weight) for weight, *stems in rows for stem in stems}


def unread_scripts(text: str) -> list[str]:
    """The scripts other than Latin that a tenth of a text is in; of their words the table has none."""
    letters = filter(str.isalpha, OTHER_SCRIPT.findall(text))
    scripts = Counter(unicodedata.name(letter, "UNKNOWN").split()[0] for letter in letters)
    return [script for script, n in scripts.items() if 10 * n >= len(text)]
