"""How alike two points are without a judge: words, numbers in their context, direction and negation.

Function words weigh little, long (rarer) words more, numbers most. Everything here is deterministic and reads
only the points that it compares; sentence embeddings come in where a scorer or matcher is given an encoder.
"""

from __future__ import annotations

import hashlib
import re
import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

from . import quantities as _quantities
from .quantities import Quantity, QuantityIndex, find_quantities, same

# The declared constants of the local evaluator: round values, the same for every data set. All of them enter
# `rules_hash`, and so the signature of every local score.
ARITHMETIC = 1         # to be raised when a value changes while no constant, word list or pattern does
FUNCTION_WORD = 0.1    # weight of a word from _FUNCTION, and the least weight of a point
LONG_WORD = 1.5        # weight of a word of 8 letters or more; 1 at 4 letters, linear between
NAME = 1.5             # times this for a capitalised word inside a sentence
WORD_PAIR = 0.5        # weight of two neighbouring words, times the weights of both
NUMBER = 3.0           # weight of a quantity
CONTEXT = 0.5          # word overlap from which on a number shared by two points is trusted in full
CONTRADICTED = 0.3     # what stays of a point when one just like it says the opposite, or other numbers
PARTIAL = 0.8          # power of a point's covered share: below 1, its first half counts more than the rest
MEANING = 0.75         # with embeddings: how much that power changes between a cosine of 0 and one of 1
_FUNCTION = frozenset(
    """
    a about above after again all also although am among an and another any are as at be because been before
    being below between both but by can could did do does doing during each either else ever every for from
    further had has have having he her here hers him his how however i if in including into is it its itself
    just many may me might more most much must my of off often on once one only or other our out over own
    per rather s said same she should since so some such t than that the their them then there therefore
    these they this those though through thus to too toward under until upon us used very via was we well
    were what when where whether which while who whom whose why will with within would yet you your
    """.split()
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|lack(?:s|ed|ing)?|fail(?:s|ed|ure)?|unable|\w+n['’]t|refut\w+"
    r"|incorrect\w*|inaccurate|untrue|false)\b",
    re.IGNORECASE,
)
_FALL = re.compile(
    r"\b(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower\w*|reduc\w+|weak\w*|shr[aiu]nk\w*|slow(?:ed|ing"
    r"|er|s)?|worse\w*|deteriorat\w+|contract(?:ed|ing|ion)|headwinds?|less|fewer|below)\b",
    re.IGNORECASE,
)
_RISE = re.compile(
    r"\b(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain\w*|higher|rais\w+|climb\w*|improv\w+"
    r"|expand\w*|expansion|strong\w*|strength\w*|accelerat\w+|jump\w*|surg\w+|tailwinds?|above)\b",
    re.IGNORECASE,
)
_TELL = r"(?:mention|provid|specif|state|contain|includ|indicat|discuss|address|disclos|detail|offer|giv)"
# A sentence that only says that something is not mentioned, or cannot be known.
_DISCLAIMER = re.compile(
    rf"\b(?:not|never|without|\w+n['’]t)\s+(?:\w+\s+){{0,2}}?{_TELL}\w*"
    r"|\bno\s+(?:\w+\s+){0,2}?(?:mention|information|details?|evidence|indication|reference|data|answer)\b"
    r"|\b(?:unable|impossible|not possible|difficult|insufficient\s+\w+|cannot|can['’]t)\s+"
    r"(?:be\s+)?(?:to\s+)?"
    r"(?:determin|answer|verif|confirm|say|find|conclude|assess)\w*"
    r"|\bnot (?:clear|available|enough)\b|\bunclear\b|\bI(?:['’]m| am) sorry|\bI (?:do not|don['’]t) know\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
# Inside a sentence, not at its beginning.
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][\w&]+(?: [A-Z][\w&]+)*")
_FOOTNOTE = re.compile(r"\[\d+(?:\s*[,;–-]\s*\d+)*\]")
# Scripts written without spaces: each character is a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Point:
    """What is compared of one point."""

    items: dict[str, int]              # stems and pairs of neighbouring stems, with their counts
    worth: dict[str, float]            # weight of one mention of each item
    names: frozenset[str]              # the stems among them that are capitalised inside a sentence
    quantities: tuple[Quantity, ...]
    negated: bool                      # an odd number of negations
    trend: int                         # -1 only falling words, +1 only rising ones, 0 none or both
    context_weight: float              # of all items
    weight: float                      # of items and quantities; positive


@lru_cache(maxsize=8192)
def read_point(text: str) -> Point:
    """Split a point into words, word pairs and quantities.

    The words of a quantity ("billion", "percent") are not counted twice. A point that only says that
    something is not mentioned ("the text does not mention ...") shares its items with points of its kind
    alone.
    """
    quantities = tuple(find_quantities(text))
    disclaims = all(q.unit == "date" for q in quantities) and _DISCLAIMER.search(text)
    kind = "not said: " if disclaims else ""
    names = {word for match in _NAME.finditer(text) for word in words_of(match[0])}
    items: Counter[str] = Counter()
    worth: dict[str, float] = {}
    for words in _words_between(text, quantities):
        weights = [word_weight(word) * (NAME if word in names else 1) for word in words]
        for word, weight in zip(words, weights, strict=True):
            items[kind + word] += 1
            worth[kind + word] = weight
        for (first, second), (v, w) in zip(pairwise(words), pairwise(weights), strict=True):
            pair = f"{kind}{first} {second}"
            items[pair] += 1
            worth[pair] = WORD_PAIR * v * w
    context_weight = sum(worth[item] * n for item, n in items.items())
    return Point(dict(items), worth, frozenset(names), quantities,
                 negated=len(_NEGATION.findall(text)) % 2 == 1,
                 trend=bool(_RISE.search(text)) - bool(_FALL.search(text)),
                 context_weight=context_weight,
                 weight=max(context_weight + NUMBER * len(quantities), FUNCTION_WORD))


def _words_between(text: str, quantities: Sequence[Quantity]) -> Iterator[list[str]]:
    """The stems of each stretch of text before, between and after the quantities."""
    starts, ends = [0, *(q.end for q in quantities)], [*(q.start for q in quantities), len(text)]
    for start, end in zip(starts, ends, strict=True):
        yield words_of(_FOOTNOTE.sub(" ", text[start:end]))


# --- one point against another

def overlap(a: Point, b: Point) -> float:
    """Weighted Dice coefficient of the words and word pairs of two points, numbers left out; in [0, 1]."""
    if len(b.items) < len(a.items):
        a, b = b, a
    shared = 0.0                       # added up as `overlap_matrix` does, so that both give the same digits
    for item, n in a.items.items():
        if item in b.items:
            shared += a.worth[item] * min(n, b.items[item])
    return min(1.0, 2 * shared / (a.context_weight + b.context_weight)) if shared else 0.0


def overlap_matrix(points: Sequence[Point], others: Sequence[Point]) -> list[list[float]]:
    """`overlap` of each point (row) with each of the others (column), digit by digit the same.

    It goes through the items that points share instead of comparing every two points, which is many times
    faster on long sides. Rows of one and the same point are one list: not to be changed.
    """
    # As in `overlap`, the point with fewer items lends its weights; with as many, it is the first.
    with_larger = _shared_weights(points, others, more=0)
    columns = _shared_weights(others, points, more=1)
    with_smaller = list(zip(*columns, strict=True)) if others else [()] * len(points)
    weights = [other.context_weight for other in others]
    matrix: dict[int, list[float]] = {}
    for point, larger, smaller in zip(points, with_larger, with_smaller, strict=True):
        if id(point) not in matrix:
            dice = [2 * (one or two) / (point.context_weight + weight) if one or two else 0.0
                    for one, two, weight in zip(larger, smaller, weights, strict=True)]
            matrix[id(point)] = [1.0 if value > 1 else value for value in dice]
    return [matrix[id(point)] for point in points]


def _shared_weights(points: Sequence[Point], others: Sequence[Point], more: int) -> list[list[float]]:
    """Weight of the items that each point (row) shares with each other one that has at least `more` more
    items.
    """
    sizes, holders = _holders(others)
    rows: dict[int, list[float]] = {}
    for point in points:
        if id(point) in rows:
            continue
        row = rows[id(point)] = [0.0] * len(others)
        smallest = len(point.items) + more
        for item, n in point.items.items():
            for count, indices in holders.get(item, {}).items():
                weight = point.worth[item] * min(n, count)
                for j in indices[bisect_left(indices, smallest, key=sizes.__getitem__):]:
                    row[j] += weight
    return [rows[id(point)] for point in points]


def _holders(points: Sequence[Point]) -> tuple[list[int], dict[str, dict[int, list[int]]]]:
    """The number of items of each point; and by item and by its count the points that hold it, smallest
    first.
    """
    sizes = [len(point.items) for point in points]
    holders: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for j in sorted(range(len(points)), key=sizes.__getitem__):
        for item, n in points[j].items.items():
            holders[item][n].append(j)
    return sizes, holders


def similarity(a: Point, b: Point) -> float:
    """Weighted overlap of two points in [0, 1]: 1 for the same content, 0 for none.

    A number counts only as far as the words around it agree: "35% growth" is not "35 people". The more alike
    two points are in words, the more a contradiction takes away.
    """
    equal = [
        (i, j) for i, q in enumerate(a.quantities) for j, other in enumerate(b.quantities) if same(q, other)
    ]
    return _similarity(a, b, overlap(a, b), equal)


def _similarity(a: Point, b: Point, context: float, equal: Sequence[tuple[int, int]]) -> float:
    """`similarity` from what two points share: their `overlap`, and which quantity of a equals which of b."""
    shared = _paired(equal)
    spare = len(b.quantities) - len({j for _, j in equal})
    # Points of nothing but numbers have no context that could disagree.
    trust = min(1.0, context / CONTEXT) if a.context_weight and b.context_weight else 1.0
    agreed = context * (a.context_weight + b.context_weight) + 2 * NUMBER * shared * trust
    against = _contradiction(a, b, len(a.quantities) - shared, spare)
    return min(1.0, agreed / (a.weight + b.weight)) * (1 - (1 - CONTRADICTED) * context * against)


def _paired(equal: Sequence[tuple[int, int]]) -> int:
    """How many quantities of one point find an equal in the other, each taken once, the first free one."""
    if len(equal) < 2:
        return len(equal)
    first: set[int] = set()
    second: set[int] = set()
    for i, j in equal:
        if i not in first and j not in second:
            first.add(i)
            second.add(j)
    return len(first)


def contradiction(a: Point, b: Point, missing: int) -> float:
    """How far `b` contradicts `a`, in [0, 1]: 1 for a negation or an opposite direction on one side only,
    else the share of the quantities of `a` in whose place `b` has others; `missing` of them are not in
    `b`."""
    spare = sum(not any(same(q, other) for q in a.quantities) for other in b.quantities) if missing else 0
    return _contradiction(a, b, missing, spare)


def _contradiction(a: Point, b: Point, missing: int, spare: int) -> float:
    if a.negated != b.negated or a.trend * b.trend < 0:
        return 1.0
    return min(missing, spare) / len(a.quantities) if missing and spare else 0.0


class Neighbours:
    """The points of one side, prepared for the question which of them is most similar to a point."""

    def __init__(self, others: Sequence[Point]):
        self.others = others
        self.quantities = QuantityIndex([other.quantities for other in others])

    def most_similar(self, point: Point, overlaps: Sequence[float],
                     cosines: Sequence[float] | None = None) -> tuple[int, float]:
        """Index of the other point with the highest `similarity` to `point` and its value; the earliest of
        equals.

        `overlaps[j]` is the `overlap` with other j, `cosines[j]` the cosine of the embeddings, if there are
        any (`bent`). (0, 0.0) when nothing is similar, also without any others.
        """
        if not self.others:
            return 0, 0.0
        equal, bounds = self._equal_quantities(point), self._bounds(point, overlaps, cosines)
        best, highest, compared = 0, 0.0, set()
        # The nearest in words and in numbers come first: most others cannot reach their value, and are not
        # compared.
        nearest = overlaps.index(max(overlaps))
        most_numbers = max(equal, key=lambda j: len(equal[j]), default=0)
        for j in (nearest, most_numbers, *range(len(self.others))):
            may_win = bounds[j] > highest or (bounds[j] == highest and j < best)
            if may_win and id(self.others[j]) not in compared:
                compared.add(id(self.others[j]))
                value = _similarity(point, self.others[j], overlaps[j], equal.get(j, ()))
                if cosines is not None:
                    value = bent(value, cosines[j])
                if value > highest or (value == highest and j < best):
                    best, highest = j, value
        return best, highest

    def _equal_quantities(self, point: Point) -> dict[int, list[tuple[int, int]]]:
        """By other point: which quantity of `point` equals which of its own."""
        equal: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for i, q in enumerate(point.quantities):
            for j, place in self.quantities.equals(q):
                equal[j].append((i, place))
        return equal

    def _bounds(
        self, point: Point, overlaps: Sequence[float], cosines: Sequence[float] | None
    ) -> list[float]:
        """What the value would be at most: if all numbers agreed and nothing contradicted."""
        # Numbers add at most 2 * NUMBER each, over a weight of at least the point's, trusted as the context
        # agrees.
        reach = 1 + 2 * NUMBER * len(point.quantities) / (CONTEXT * point.weight) + 1e-9       # and rounding
        bounds = [min(1.0, context * reach) if point.context_weight and other.context_weight else 1.0
                  for context, other in zip(overlaps, self.others, strict=True)]
        if cosines is None:
            return bounds
        return [bent(bound, cosine) for bound, cosine in zip(bounds, cosines, strict=True)]


# --- one side against the other

def coverage(points: Sequence[Point], others: Sequence[Point], near: Sequence[Sequence[float]],
             meaning: Sequence[Sequence[float]] | None = None) -> list[float]:
    """Share in [0, 1] of each point's weight that the other side as a whole holds.

    `near[i][j]` is the `overlap` of point i and other j. A name or a quantity counts as far as the points
    that hold it on the other side resemble this one. A point that its nearest neighbour contradicts loses the
    more, the nearer that one is. What a side mentions more often than the other is covered in proportion,
    whatever the order: two mentions against one are half covered each. `meaning[i][j]` is a cosine similarity
    of embeddings, if there are any (`bent`). Without others every point has 0.
    """
    if not others:
        return [0.0] * len(points)
    sides = _Sides(points, others)
    covered = []
    for i, (point, overlaps) in enumerate(zip(points, near, strict=True)):
        in_quantities, missing = sides.quantities_held(point, overlaps)
        # Weight that the other side holds, and what of it is left for each mention.
        held = repeated = 0.0
        for weight, share in (*sides.words_held(point, overlaps), *in_quantities):
            held += weight
            repeated += weight * share
        agreed = held * _agreement(point, others, overlaps, missing)
        value = bent(min(1.0, agreed / point.weight) ** PARTIAL, None if meaning is None else max(meaning[i]))
        covered.append(value * (repeated / held) if held else 0.0)
    return covered


class _Sides:
    """How often either side mentions what, and which points of the other side hold it.

    What is held comes as pairs: its weight, as far as its context agrees, and the share of the mentions on
    this side that the other side has mentions for, in (0, 1].
    """

    def __init__(self, points: Sequence[Point], others: Sequence[Point]):
        self.here, self.there = _mentions(points), _mentions(others)
        self.quantities_here = Counter(_printed(q) for p in points for q in p.quantities)
        self.quantities_there = QuantityIndex([other.quantities for other in others])
        self.holders = {name: [j for j, other in enumerate(others) if name in other.items]
                        for name in {name for point in points for name in point.names}}

    def words_held(self, point: Point, overlaps: Sequence[float]) -> Iterator[tuple[float, float]]:
        """The words and word pairs of a point that the other side has."""
        for item, n in point.items.items():
            if item in self.there:
                trust = _trust(overlaps, self.holders[item]) if item in point.names else 1.0
                yield point.worth[item] * n * trust, min(1.0, self.there[item] / self.here[item])

    def quantities_held(
        self, point: Point, overlaps: Sequence[float]
    ) -> tuple[list[tuple[float, float]], int]:
        """The quantities of a point that the other side has, and the number of those that it has not."""
        held = []
        for q in point.quantities:
            if holders := [j for j, _ in self.quantities_there.equals(q)]:
                trust = _trust(overlaps, holders) if point.context_weight else 1.0
                held.append((NUMBER * trust, min(1.0, len(holders) / self.quantities_here[_printed(q)])))
        return held, len(point.quantities) - len(held)


def _mentions(points: Sequence[Point]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for point in points:
        counts.update(point.items)
    return counts


def _printed(q: Quantity) -> tuple[float, str, float, int]:
    """What makes two quantities of one side mentions of the same number."""
    return q.value, q.unit, q.tolerance, q.direction


def _trust(overlaps: Sequence[float], holders: Sequence[int]) -> float:
    """How far the context agrees, in [0, 1]: that of the nearest point that holds a name or a number."""
    return min(1.0, max(overlaps[j] for j in holders) / CONTEXT)


def _agreement(point: Point, others: Sequence[Point], overlaps: Sequence[float], missing: int) -> float:
    """What stays of a point's coverage, in [CONTRADICTED, 1], after its nearest neighbour's contradiction."""
    closest = max(overlaps)
    nearest = others[overlaps.index(closest)]
    return 1 - (1 - CONTRADICTED) * closest * contradiction(point, nearest, missing)


def bent(value: float, cosine: float | None) -> float:
    """A value in [0, 1] raised by a close meaning, lowered by a distant one; 0, 1 and a cosine of 0.5 leave
    it.
    """
    return value if cosine is None else value ** (1 + MEANING * (0.5 - float(cosine)))


# --- words

def words_of(text: str) -> list[str]:
    """Lower-case stems in order."""
    stems: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word.isascii() or not _UNSPACED.search(word):
            stems.append(stem(re.sub("['’]s?$|['’]", "", word)))
        else:
            stems.extend(word)           # each character is a word
    return stems


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light English stemmer: plurals, -ing, -ed, -ly and a final e go; short words stay whole."""
    for ending, rest in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[:len(word) - len(ending)] + rest
            break
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        shorter = word[: -len(ending)]
        if word.endswith(ending) and len(shorter) >= 3 and re.search("[aeiouy]", shorter):
            word = shorter
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


_FUNCTION_STEMS = _FUNCTION | {stem(word) for word in _FUNCTION}


@lru_cache(maxsize=50_000)
def word_weight(word: str) -> float:
    """Weight of a stem: little for function words, up to LONG_WORD for long ones."""
    if word in _FUNCTION_STEMS:
        return FUNCTION_WORD
    return 1 + (LONG_WORD - 1) * min(1.0, max(0, len(word) - 4) / 4)


# --- signature

@cache
def rules_hash() -> str:
    """Eight hex digits that change with every constant, word list and pattern of this module and of
    `quantities`.
    """
    rules = [f"{name}={_canonical(value)}" for module in (_quantities, sys.modules[__name__])
             for name, value in sorted(vars(module).items()) if name.isupper()]
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()[:8]


def _canonical(value: Any) -> str:
    """The same text for the same value in every process: sets are sorted, patterns written out with their
    flags.
    """
    if isinstance(value, re.Pattern):
        return f"{value.pattern!r},{value.flags}"
    return repr(sorted(value) if isinstance(value, frozenset) else value)
