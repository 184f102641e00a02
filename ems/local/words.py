"""How far one text covers another without a judge: words by weight, and numbers in their context.

A point's words and numbers each have a weight, and its score is the share of that weight which the other
side holds; points of one text that mention the same thing share the other side's mentions of it. Function
words weigh little, numbers most, words of the question less than elsewhere. Each rule stands against a plain
bag of words in docs/local.md. Everything here is deterministic and reads only the
points that it compares; sentence embeddings come in where a scorer or matcher is given an encoder.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from . import quantities as _quantities
from .quantities import Quantity, QuantityIndex, find_quantities, outside

# The declared constants of the local evaluator: round values, the same for every data set. All of them enter
# `rules_hash`, and so the signature of every local score.
ARITHMETIC = 3         # to be raised when a value changes while no constant, word list or pattern does
FUNCTION_WORD = 0.1    # weight of a word from _FUNCTION, and the least weight of a point; any other word: 1
NUMBER = 3.0           # weight of a quantity
CONTEXT = 0.25         # share of a point's words beside a number from which on the number counts in full
NEGATION = 1.5         # weight of a denial (not, false), and again of it together with the next word
MEANING = 0.75         # with embeddings: how much a score's power changes between a cosine of 0 and one of 1
QUESTION_WORD = 0.3    # words of the question weigh this much of what they weigh elsewhere
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
_NEGATIONS = frozenset(
    """
    not no never none neither nor without cannot cant dont doesnt didnt isnt arent wasnt werent wont wouldnt
    couldnt shouldnt hasnt havent hadnt
    """.split()
)
# Words of a verdict that denies a claim: they count as negations.
_DENIALS = frozenset(("refuted", "incorrect", "inaccurate", "untrue", "false", "inconsistent", "wrong"))
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
_FOOTNOTE = re.compile(r"\[\d+(?:\s*[,;–-]\s*\d+)*\]")
# Scripts written without spaces: each character is a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NOT_SAID = "not said: "


@dataclass(frozen=True, slots=True)
class Point:
    """What is compared of one point."""

    words: dict[str, float]            # stems and their weights
    quantities: tuple[Quantity, ...]


@lru_cache(maxsize=8192)
def read_point(text: str) -> Point:
    """Split a point into words and quantities, whose own words ("billion") are not counted twice.

    A point that only says that something is not mentioned shares its words with points of its kind alone.
    """
    quantities = tuple(find_quantities(text))
    disclaims = all(q.unit == "date" for q in quantities) and _DISCLAIMER.search(text)
    kind = _NOT_SAID if disclaims else ""
    words = words_of(_FOOTNOTE.sub(" ", outside(text, quantities)))
    return Point({kind + word: weight for word, weight in _weighed(words)}, quantities)


def _weighed(words: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The words with their weights; a negation alone, and with the next word that is no function word."""
    following = ""
    for word in reversed(words):
        if word in _NEGATION_STEMS:
            yield from (("not", NEGATION), (f"not {following}", NEGATION))
        else:
            yield word, word_weight(word)
            following = following if word in _FUNCTION_STEMS else word


class Side:
    """The points of one side, their weights, and which of them hold what.

    Points of one text share what the other side mentions; points that were `given`, each for itself, do not.
    """

    def __init__(self, texts: Sequence[str], question: str = "", question_word: float = QUESTION_WORD,
                 given: bool = False):
        self.given, self.points = given, [read_point(text) for text in texts]
        asked = {kind + word for word in words_of(question) for kind in ("", _NOT_SAID)}
        self.words = [{word: weight * (question_word if word in asked else 1)
                       for word, weight in point.words.items()} for point in self.points]
        self.word_weights = [math.fsum(words.values()) for words in self.words]
        # What a point weighs; positive.
        self.weights = [max(weight + NUMBER * len(point.quantities), FUNCTION_WORD)
                        for weight, point in zip(self.word_weights, self.points, strict=True)]
        self.holders: dict[str, list[int]] = defaultdict(list)
        for j, words in enumerate(self.words):
            for word in words:
                self.holders[word].append(j)
        self._places: dict[str, Any] = {}                # the same as arrays, where points are many
        if len(self.points) >= 300:
            import numpy as np

            self._places = {word: np.array(holders) for word, holders in self.holders.items()}
        self.quantities = QuantityIndex([point.quantities for point in self.points])

    def shares_of(self, words: Mapping[str, float]) -> defaultdict[int, float]:
        """The weight of the words that each point holds, by index; of those that hold some of them."""
        shares: defaultdict[int, float] = defaultdict(float)
        if not self._places:
            for word, weight in words.items():
                for j in self.holders.get(word, ()):
                    shares[j] += weight
            return shares
        import numpy as np

        # The same sums in the same order, for all points at once: thousands of them may hold every word.
        sums, some = np.zeros(len(self.points)), np.zeros(len(self.points), dtype=bool)
        for word, weight in words.items():
            if (places := self._places.get(word)) is not None:
                sums[places] += weight
                some[places] = True
        shares.update(zip(np.flatnonzero(some).tolist(), sums[some].tolist(), strict=True))
        return shares


@dataclass(frozen=True, slots=True)
class Held:
    """What the other side holds of one point, in the point's own weight."""

    whole: float                       # by all its points together, shared with the other points of the side
    by_point: dict[int, float]         # by each of its points that holds something, by index


def held_by(side: Side, other: Side) -> Iterator[Held]:
    """What `other` holds of each point of `side`: words, and numbers as far as their words agree.

    Where fewer points of `other` mention a thing than of `side`, each of these holds a part of it, as in the
    clipped counts of BLEU: a text that says it once does not cover one that comes back to it in every point.
    """
    for i, words in enumerate(side.words):
        by_point = other.shares_of(words)
        whole = 0.0
        for word, weight in words.items():
            if word in other.holders:
                whole += weight * _portion(side, len(side.holders[word]), len(other.holders[word]))
        # The points of `other` with the same quantity, for each of this point, and its trust in [0, 1] there.
        equals = [other.quantities.equals(quantity) for quantity in side.points[i].quantities]
        numbers = [_trusts(side, i, other, by_point, places) for places in equals]
        for quantity, places, trusts in zip(side.points[i].quantities, equals, numbers, strict=True):
            if places:
                portion = _portion(side, len(side.quantities.equals(quantity)), len(places))
                whole += NUMBER * max(trusts.values()) * portion
        for trusts in numbers:
            for j, trust in trusts.items():
                by_point[j] += NUMBER * trust
        yield Held(whole, by_point)


def _portion(side: Side, mentions: int, others: int) -> float:
    """The share in [0, 1] of a thing that is left for each of its mentions on this side."""
    return float(others > 0) if side.given else min(1.0, others / mentions)


def _trusts(side: Side, i: int, other: Side, shared: Mapping[int, float], places: Sequence[int]
            ) -> dict[int, float]:
    """How far a quantity of point `i` counts in the points of `other` that have the same, in [0, 1].

    Where one of the two points is nothing but numbers, nothing could disagree. `shared` is the weight of the
    words that each point of `other` shares with point `i`.
    """
    enough = CONTEXT * side.word_weights[i]
    return {j: min(1.0, shared.get(j, 0.0) / enough) if enough and other.word_weights[j] else 1.0
            for j in places}


def coverage(side: Side, found: Iterable[Held], cosines: Sequence[Sequence[float]] | None = None
             ) -> Iterator[float]:
    """Share in [0, 1] of each point's weight that the other side as a whole holds; 0 without other points.

    `found` is of `held_by`; `cosines` bends the values (`bent`), where there are embeddings.
    """
    for i, (held, weight) in enumerate(zip(found, side.weights, strict=True)):
        share = min(1.0, held.whole / weight)
        yield share if cosines is None else bent(share, max(cosines[i]))


def likeness(side: Side, other: Side, found: Iterable[Held]) -> Iterator[dict[int, float]]:
    """By point of `side`: the points of `other` that share something, and how alike the two are, in [0, 1].

    The weight that both hold over what both weigh (Dice). `found` is of `held_by`.
    """
    for weighed, of_point in zip(side.weights, found, strict=True):
        yield {j: min(1.0, 2 * weight / (weighed + other.weights[j]))
               for j, weight in of_point.by_point.items()}


@lru_cache(maxsize=16384)
def similarity(a: str, b: str) -> float:
    """How alike two points are, in [0, 1]: 1 for the same content, 0 for none."""
    side, other = Side([a]), Side([b])
    return next(likeness(side, other, held_by(side, other))).get(0, 0.0)


def bent(value: float, cosine: float) -> float:
    """A value in [0, 1] raised by a close meaning, lowered by a distant one; a cosine of 0.5 leaves it."""
    return value ** (1 + MEANING * (0.5 - float(cosine)))


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
_NEGATION_STEMS = _NEGATIONS | {stem(word) for word in _DENIALS}


def word_weight(word: str) -> float:
    """Weight of a stem: 1, and little for function words."""
    return FUNCTION_WORD if word in _FUNCTION_STEMS else 1.0


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
