"""How alike two points are without a judge: words, numbers in their context, direction and negation.

Function words weigh little, long (rarer) words more, numbers most. Everything here is deterministic and reads nothing
but the texts at hand; sentence embeddings come in where a scorer or matcher is given an encoder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from .quantities import Quantity, find_quantities, same

# The declared constants of the local evaluator: round values, the same for every data set.
FUNCTION_WORD = 0.1    # weight of a word from _FUNCTION, and the least weight of a point
LONG_WORD = 1.5        # weight of a word of 8 letters or more; 1 at 4 letters, linear between
NAME = 1.5             # times this for a capitalised word inside a sentence
WORD_PAIR = 0.5        # weight of two neighbouring words, times the weights of both
NUMBER = 3.0           # weight of a quantity
CONTEXT = 0.5          # word overlap from which on a number shared by two points is trusted in full
CONTRADICTED = 0.3     # what stays of a point when one just like it says the opposite, or other numbers
PARTIAL = 0.8          # power of a point's covered share: below 1, its first half counts more than the rest
MEANING = 0.75         # with embeddings: how much that power changes between a cosine of 0 and one of 1
_FUNCTION = frozenset("""a about above after again all also although am among an and another any are as at be because
been before being below between both but by can could did do does doing during each either else ever every for from
further had has have having he her here hers him his how however i if in including into is it its itself just many may
me might more most much must my of off often on once one only or other our out over own per rather s said same she
should since so some such t than that the their them then there therefore these they this those though through thus to
too toward under until upon us used very via was we well were what when where whether which while who whom whose why
will with within would yet you your""".split())  # noqa: SIM905
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|without|cannot|lack(?:s|ed|ing)?|fail(?:s|ed|ure)?|unable|\w+n['’]t|refut\w+"
    r"|incorrect\w*|inaccurate|untrue|false)\b", re.IGNORECASE)
_FALL = re.compile(
    r"\b(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower\w*|reduc\w+|weak\w*|shr[aiu]nk\w*|slow(?:ed|ing"
    r"|er|s)?|worse\w*|deteriorat\w+|contract(?:ed|ing|ion)|headwinds?|less|fewer|below)\b", re.IGNORECASE)
_RISE = re.compile(
    r"\b(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain\w*|higher|rais\w+|climb\w*|improv\w+"
    r"|expand\w*|expansion|strong\w*|strength\w*|accelerat\w+|jump\w*|surg\w+|tailwinds?|above)\b", re.IGNORECASE)
_TELL = r"(?:mention|provid|specif|state|contain|includ|indicat|discuss|address|disclos|detail|offer|giv)"
# A sentence that only says that something is not said, or cannot be.
_DISCLAIMER = re.compile(
    rf"\b(?:not|never|without|\w+n['’]t)\s+(?:\w+\s+){{0,2}}?{_TELL}\w*"
    r"|\bno\s+(?:\w+\s+){0,2}?(?:mention|information|details?|evidence|indication|reference|data|answer)\b"
    r"|\b(?:unable|impossible|not possible|difficult|insufficient\s+\w+|cannot|can['’]t)\s+(?:be\s+)?(?:to\s+)?"
    r"(?:determin|answer|verif|confirm|say|find|conclude|assess)\w*"
    r"|\bnot (?:clear|available|enough)\b|\bunclear\b|\bI(?:['’]m| am) sorry|\bI (?:do not|don['’]t) know\b",
    re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NAME = re.compile(r"(?<=[a-z,;:] )[A-Z][\w&]+(?: [A-Z][\w&]+)*")       # inside a sentence, not at its beginning
_FOOTNOTE = re.compile(r"\[\d+(?:\s*[,;–-]\s*\d+)*\]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")      # scripts written without spaces: each character is a word


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

    The words of a quantity ("billion", "percent") are not counted twice. A point that only says that something is not
    said ("the text does not mention ...") shares its items with points of its kind alone.
    """
    quantities = tuple(find_quantities(text))
    silent = all(q.unit == "date" for q in quantities) and _DISCLAIMER.search(text)
    kind = "not said: " if silent else ""
    names = {word for match in _NAME.finditer(text) for word in words_of(match[0])}
    items: Counter[str] = Counter()
    worth: dict[str, float] = {}
    weights: dict[str, float] = {}
    ends = [(q.start, q.end) for q in quantities]
    for start, end in zip([0, *(e for _, e in ends)], [*(s for s, _ in ends), len(text)], strict=True):
        words = words_of(_FOOTNOTE.sub(" ", text[start:end]))
        for word in words:
            if word not in weights:
                weights[word] = word_weight(word) * (NAME if word in names else 1)
                worth[kind + word] = weights[word]
            items[kind + word] += 1
        for a, b in pairwise(words):
            pair = f"{kind}{a} {b}"
            worth[pair] = WORD_PAIR * weights[a] * weights[b]
            items[pair] += 1
    context = sum(worth[item] * n for item, n in items.items())
    return Point(dict(items), worth, frozenset(names), quantities, len(_NEGATION.findall(text)) % 2 == 1,
                 bool(_RISE.search(text)) - bool(_FALL.search(text)), context,
                 max(context + NUMBER * len(quantities), FUNCTION_WORD))


def similarity(a: Point, b: Point, context: float | None = None) -> float:
    """Weighted overlap of two points in [0, 1]: 1 for the same content, 0 for none.

    A number counts only as far as the words around it agree: "35% growth" is not "35 people". The more alike two points
    are in words, the more a contradiction takes away. `context` is their `overlap`, where it is known already.
    """
    context = overlap(a, b) if context is None else context
    # Points of nothing but numbers have no context that could disagree.
    trust = min(1.0, context / CONTEXT) if a.context_weight and b.context_weight else 1.0
    left, shared = list(b.quantities), 0.0
    for q in a.quantities:
        hit = next((i for i, other in enumerate(left) if same(q, other)), None)
        if hit is not None:
            del left[hit]
            shared += 2 * NUMBER
    value = (context * (a.context_weight + b.context_weight) + shared * trust) / (a.weight + b.weight)
    missing = len(a.quantities) - len(b.quantities) + len(left)
    return min(1.0, value) * (1 - (1 - CONTRADICTED) * context * contradiction(a, b, missing))


def overlap(a: Point, b: Point) -> float:
    """Weighted Dice coefficient of the words and word pairs of two points, numbers left out; in [0, 1]."""
    if len(b.items) < len(a.items):
        a, b = b, a
    shared = sum(a.worth[item] * min(n, b.items[item]) for item, n in a.items.items() if item in b.items)
    return min(1.0, 2 * shared / (a.context_weight + b.context_weight)) if shared else 0.0


def contradiction(a: Point, b: Point, missing: int) -> float:
    """How far `b` says otherwise than `a`, in [0, 1]: 1 for a negation or an opposite direction on one side only, else
    the share of the quantities of `a` that `b` has others in place of; `missing` of them were not found."""
    if a.negated != b.negated or a.trend * b.trend < 0:
        return 1.0
    spare = sum(not any(same(q, other) for q in a.quantities) for other in b.quantities) if missing else 0
    return min(missing, spare) / len(a.quantities) if spare else 0.0


def coverage(points: Sequence[Point], others: Sequence[Point], near: Sequence[Sequence[float]],
             meaning: Sequence[Sequence[float]] | None = None) -> list[float]:
    """Share in [0, 1] of each point's weight that the other side as a whole holds.

    `near[i][j]` is the `overlap` of point i and other j. A name or a quantity counts as far as the points that hold it
    on the other side resemble this one. A point that its nearest neighbour contradicts loses the more, the nearer that
    one is. What a side says more often than the other is covered in proportion, whatever the order: two mentions
    against one are half covered each. `meaning[i][j]` is a cosine similarity of embeddings, if there are any (`bent`).
    """
    total, stock = Counter(), Counter()
    for side, counts in ((points, total), (others, stock)):
        for point in side:
            for item, n in point.items.items():
                counts[item] += n
    numbers = Counter((q.value, q.unit, q.tolerance, q.direction) for p in points for q in p.quantities)
    holders = {name: [j for j, other in enumerate(others) if name in other.items] for p in points for name in p.names}
    held_by = [(q, j) for j, other in enumerate(others) for q in other.quantities]
    covered = []
    for i, (point, row) in enumerate(zip(points, near, strict=True)):
        full = held = 0.0              # what the other side holds, and what is left when mentions are shared out
        for item, n in point.items.items():
            if item in stock:
                worth = point.worth[item] * n
                if item in point.names:
                    worth *= min(1.0, max(row[j] for j in holders[item]) / CONTEXT)
                full += worth
                held += worth * min(1.0, stock[item] / total[item])
        missing = 0
        for q in point.quantities:
            found = [j for other, j in held_by if same(q, other)]
            missing += not found
            if found:
                trust = min(1.0, max(row[j] for j in found) / CONTEXT) if point.context_weight else 1.0
                worth = NUMBER * trust
                full += worth
                held += worth * min(1.0, len(found) / numbers[q.value, q.unit, q.tolerance, q.direction])
        unrepeated = held / full if full else 0.0
        if others:
            nearest = max(range(len(others)), key=row.__getitem__)
            full *= 1 - (1 - CONTRADICTED) * row[nearest] * contradiction(point, others[nearest], missing)
        share = min(1.0, full / point.weight)
        cosine = None if meaning is None or not others else max(meaning[i])
        covered.append(bent(share ** PARTIAL, cosine) * unrepeated)
    return covered


def bent(value: float, cosine: float | None) -> float:
    """A value in [0, 1] lifted by a close meaning and lowered by a distant one; 0, 1 and a cosine of 0.5 leave it."""
    return value if cosine is None else value ** (1 + MEANING * (0.5 - float(cosine)))


def words_of(text: str) -> list[str]:
    """Lower-case stems in order."""
    found: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word.isascii() or not _UNSPACED.search(word):
            found.append(stem(re.sub("['’]s?$|['’]", "", word)))
        else:
            found.extend(word)
    return found


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A light English stemmer: plurals, -ing, -ed, -ly and a final e go; short words stay whole."""
    for ending, rest in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[:len(word) - len(ending)] + rest
            break
    for ending in ("ingly", "edly", "ing", "ed", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and re.search("[aeiouy]", word[:-len(ending)]):
            word = word[:-len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


_FUNCTION_STEMS = frozenset(stem(w) for w in _FUNCTION) | _FUNCTION


@lru_cache(maxsize=50_000)
def word_weight(word: str) -> float:
    """Weight of a stem: little for function words, up to LONG_WORD for long ones."""
    return FUNCTION_WORD if word in _FUNCTION_STEMS else 1 + (LONG_WORD - 1) * min(1.0, max(0, len(word) - 4) / 4)
