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
_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot|lack(?:s|ed|ing)?|fail(?:s|ed"
                       r"|ure)?|unable|\w+n['’]t|refut\w+|incorrect\w*|inaccurate|untrue|false)\b",
                       re.IGNORECASE)
_FALL = re.compile(r"\b(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower\w*|reduc\w+|weak\w*"
                   r"|shr[aiu]nk\w*|slow(?:ed|ing|er|s)?|worse\w*|deteriorat\w+|contract(?:ed|ing|ion)"
                   r"|headwinds?|less|fewer|below)\b", re.IGNORECASE)
_RISE = re.compile(r"\b(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain\w*|higher"
                   r"|rais\w+|climb\w*|improv\w+|expand\w*|expansion|strong\w*|strength\w*|accelerat\w+"
                   r"|jump\w*|surg\w+|tailwinds?|above)\b", re.IGNORECASE)
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
    """Split a point into words, word pairs and quantities, whose own words ("billion") are not counted twice.

    A point that only says that something is not mentioned shares its items with points of its kind alone.
    """
    quantities = tuple(find_quantities(text))
    disclaims = all(q.unit == "date" for q in quantities) and _DISCLAIMER.search(text)
    kind = "not said: " if disclaims else ""
    names = {word for match in _NAME.finditer(text) for word in words_of(match[0])}
    items: Counter[str] = Counter()
    worth: dict[str, float] = {}
    starts, ends = [0, *(q.end for q in quantities)], [*(q.start for q in quantities), len(text)]
    for start, end in zip(starts, ends, strict=True):          # before, between and after the quantities
        words = words_of(_FOOTNOTE.sub(" ", text[start:end]))
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
                 *point_signs(text), context_weight=context_weight,
                 weight=max(context_weight + NUMBER * len(quantities), FUNCTION_WORD))


def point_signs(text: str) -> tuple[bool, int]:
    """Whether a text has an odd number of negations, and its trend: -1 falling, +1 rising, 0 none or both."""
    return len(_NEGATION.findall(text)) % 2 == 1, bool(_RISE.search(text)) - bool(_FALL.search(text))


# --- one point against another

def overlap_matrix(points: Sequence[Point], others: Sequence[Point]) -> list[list[float]]:
    """Weighted Dice coefficient in [0, 1] of the words and word pairs of each point (row) and each other one.

    Of two points, the one with fewer items lends its weights; with as many, the first. Rows of one and the
    same point are one list: not to be changed.
    """
    with_larger = _shared_weights(points, others, more=0)
    columns = _shared_weights(others, points, more=1)
    with_smaller = list(zip(*columns, strict=True)) if others else [()] * len(points)
    rows: dict[int, list[float]] = {}
    for point, larger, smaller in zip(points, with_larger, with_smaller, strict=True):
        if id(point) not in rows:
            dice = [2 * (x or y) / (point.context_weight + other.context_weight) if x or y else 0.0
                    for x, y, other in zip(larger, smaller, others, strict=True)]
            rows[id(point)] = [1.0 if value > 1 else value for value in dice]
    return [rows[id(point)] for point in points]


def _shared_weights(points: Sequence[Point], others: Sequence[Point], more: int) -> list[list[float]]:
    """Weight of the items that each point (row) shares with each other one of at least `more` more items."""
    sizes = [len(other.items) for other in others]
    # By item and its count, the others that hold it, smallest first: only sharing points are gone through.
    holders: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for j in sorted(range(len(others)), key=sizes.__getitem__):
        for item, n in others[j].items.items():
            holders[item][n].append(j)
    rows: dict[int, list[float]] = {}
    for point in {id(point): point for point in points}.values():
        row = rows[id(point)] = [0.0] * len(others)
        for item, n in point.items.items():
            for count, indices in holders.get(item, {}).items():
                weight = point.worth[item] * min(n, count)
                for j in indices[bisect_left(indices, len(point.items) + more, key=sizes.__getitem__):]:
                    row[j] += weight
    return [rows[id(point)] for point in points]


def similarity(a: Point, b: Point, overlap: float | None = None) -> float:
    """Weighted overlap of two points in [0, 1]: 1 for the same content, 0 for none.

    A number counts only as far as the words around it agree; the more alike two points are in words, the more
    a contradiction takes away. `overlap` is that of `overlap_matrix`, if known.
    """
    context = overlap_matrix([a], [b])[0][0] if overlap is None else overlap
    free = list(b.quantities)
    for q in a.quantities:
        if equal := next((other for other in free if same(q, other)), None):
            free.remove(equal)
    shared = len(b.quantities) - len(free)
    # Points of nothing but numbers have no context that could disagree.
    trust = min(1.0, context / CONTEXT) if a.context_weight and b.context_weight else 1.0
    agreed = context * (a.context_weight + b.context_weight) + 2 * NUMBER * shared * trust
    against = contradiction(a, b, len(a.quantities) - shared)
    return min(1.0, agreed / (a.weight + b.weight)) * (1 - (1 - CONTRADICTED) * context * against)


def contradiction(a: Point, b: Point, missing: int) -> float:
    """How far b contradicts a, in [0, 1]: 1 for a negation or an opposite direction on one side only, else
    the share of the quantities of `a` in whose place `b` has others; `missing` of them are not in `b`."""
    if a.negated != b.negated or a.trend * b.trend < 0:
        return 1.0
    if not missing:
        return 0.0
    spare = sum(not any(same(q, other) for q in a.quantities) for other in b.quantities)
    return min(missing, spare) / len(a.quantities)


def most_similar(points: Sequence[Point], others: Sequence[Point], overlaps: Sequence[Sequence[float]],
                 cosines: Sequence[Sequence[float]] | None = None) -> list[tuple[int, float]]:
    """Index and value of the highest `similarity` of each point, the earliest of equals; else (0, 0.0).

    `overlaps` is their `overlap_matrix`; `cosines` bends the value (`bent`), where there are embeddings.
    """
    index = QuantityIndex([other.quantities for other in others])
    first = sorted({id(other): j for j, other in reversed(list(enumerate(others)))}.values())
    found = []
    for i, (point, near) in enumerate(zip(points, overlaps, strict=True)):
        bounds = _bounds(point, others, near, {j for q in point.quantities for j in index.equals(q)})
        if cosines is not None:
            bounds = [bent(bound, cosine) for bound, cosine in zip(bounds, cosines[i], strict=True)]
        best = (0.0, 0)                # value, and minus the index
        for j in sorted(first, key=bounds.__getitem__, reverse=True):
            if (bounds[j], -j) < best:
                break
            value = similarity(point, others[j], near[j])
            best = max(best, (value if cosines is None else bent(value, cosines[i][j]), -j))
        found.append((-best[1], best[0]))
    return found


def _bounds(point: Point, others: Sequence[Point], near: Sequence[float], agreeing: set[int]) -> list[float]:
    """The most that `similarity` can be with each other point; those of `agreeing` share a quantity."""
    bounds = [overlap * (1 + 1e-9) for overlap in near]          # for rounding
    # Shared numbers add at most 2 * NUMBER each, as the context agrees, over at least the point's weight.
    reach = 1 + 2 * NUMBER * len(point.quantities) / (CONTEXT * point.weight) + 1e-9
    for j in agreeing:
        bounds[j] = near[j] * reach if point.context_weight and others[j].context_weight else 1.0
    return bounds


# --- one side against the other

def coverage(points: Sequence[Point], others: Sequence[Point], overlaps: Sequence[Sequence[float]],
             cosines: Sequence[Sequence[float]] | None = None) -> list[float]:
    """Share in [0, 1] of each point's weight that the other side as a whole holds; 0 without others.

    A name or a quantity counts as far as the points that hold it on the other side resemble this one
    (`overlap_matrix`). The nearer a contradicting neighbour, the more is lost. Two mentions against one are
    half covered each. `cosines` bends the value (`bent`), where there are embeddings.
    """
    if not others:
        return [0.0] * len(points)
    sides = _Sides(points, others)
    covered = []
    for i, (point, near) in enumerate(zip(points, overlaps, strict=True)):
        held = repeated = 0.0          # weight that the other side holds; what of it is left for each mention
        for weight, share in sides.held(point, near):
            held += weight
            repeated += weight * share
        closest = max(near)
        missing = sum(not sides.quantities.equals(q) for q in point.quantities)
        against = contradiction(point, others[near.index(closest)], missing)
        agreed = held * (1 - (1 - CONTRADICTED) * closest * against)
        value = bent(min(1.0, agreed / point.weight) ** PARTIAL, None if cosines is None else max(cosines[i]))
        covered.append(value * (repeated / held) if held else 0.0)
    return covered


class _Sides:
    """How often either side mentions what, and which points of the other side hold it."""

    def __init__(self, points: Sequence[Point], others: Sequence[Point]):
        self.here, self.there = Counter[str](), Counter[str]()
        for side, mentions in ((points, self.here), (others, self.there)):
            for point in side:
                mentions.update(point.items)
        self.printed = Counter(_printed(q) for point in points for q in point.quantities)
        self.quantities = QuantityIndex([other.quantities for other in others])
        self.holders = {name: [j for j, other in enumerate(others) if name in other.items]
                        for name in {name for point in points for name in point.names}}

    def held(self, point: Point, near: Sequence[float]) -> Iterator[tuple[float, float]]:
        """What the other side holds of a point: weight, as far as its context agrees, and the share in (0, 1]
        of the mentions on this side that the other side has mentions for."""
        for item, n in point.items.items():
            if item in self.there:
                trust = _trust(near, self.holders[item]) if item in point.names else 1.0
                yield point.worth[item] * n * trust, min(1.0, self.there[item] / self.here[item])
        for q in point.quantities:
            if holders := self.quantities.equals(q):
                trust = _trust(near, holders) if point.context_weight else 1.0
                yield NUMBER * trust, min(1.0, len(holders) / self.printed[_printed(q)])


def _printed(q: Quantity) -> tuple[float, str, float, int]:
    """What makes two quantities of one side mentions of the same number."""
    return q.value, q.unit, q.tolerance, q.direction


def _trust(near: Sequence[float], holders: Sequence[int]) -> float:
    """How far the context agrees, in [0, 1]: that of the nearest point that holds a name or a number."""
    return min(1.0, max(near[j] for j in holders) / CONTEXT)


def bent(value: float, cosine: float | None) -> float:
    """A value in [0, 1] raised by a close meaning, lowered by a distant one; a cosine of 0.5 leaves it."""
    return value if cosine is None else value ** (1 + MEANING * (0.5 - float(cosine)))


# --- words

def words_of(text: str) -> list[str]:
    """Lower-case stems in order; of unspaced scripts, each character."""
    stems: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word.isascii() or not _UNSPACED.search(word):
            stems.append(stem(re.sub("['’]s?$|['’]", "", word)))
        else:
            stems.extend(word)
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
    """Eight hex digits that change with every constant, word list and pattern here and in `quantities`."""
    rules = []
    for module in (_quantities, sys.modules[__name__]):
        for name, value in sorted(vars(module).items()):
            if isinstance(value, re.Pattern):          # whose repr cuts long ones
                rules.append(f"{name}={value.pattern!r},{value.flags}")
            elif name.isupper():
                # Sets come in another order in each process.
                rules.append(f"{name}={sorted(value) if isinstance(value, frozenset) else value!r}")
    return hashlib.sha256("\n".join(rules).encode()).hexdigest()[:8]
