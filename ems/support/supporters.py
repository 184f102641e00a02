"""Is an answer point in the document? With numbers and words alone, or with a judge.

A supporter is called with (document, points) of each answer and returns a `types.Support` for each point.
Numbers come with the sentence or row that holds them, so that one found by chance elsewhere in the document
does not count. What a supporter cannot check is said, and never counted as support.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import fsum

from ..asking import Judge, Request, as_judge, read_listed
from ..baselines import LABELS, LABELS_SCHEMA
from ..local.quantities import LARGEST_DIFFERENCE, Quantity, outside, same
from ..local.words import rules_hash, word_weight
from ..prompting import Prompts
from ..reading import read_word
from ..sanitise import harmless, numbered
from ..types import InputError, Points, Support
from .document import NUMBERS, SIGNS, Document, Line, content_stems, point_signs, read_numbers, undirected

# The rule of the local supporter: chosen on one half of FinDVer's filings (study.checks.findver_support),
# with a look at how often numbers of answers about the ten calls are found in another company's call.
TIED = 0.15            # share of a point's (idf-weighted) words that a line and its neighbours must hold
PRECISE = 0.03         # rounding, as a share, above which a number follows from some pair by chance
DERIVED_FROM = 10      # lines that share most words, whose numbers are tried for derivations
RIVAL = 0.5            # share of words from which another number of the same unit contradicts a missing one
OPPOSED = 0.7          # share of words in the line itself from which a negation or direction contradicts
# A few passages do not say which words are rare: in a document of one, a word that it has would count for
# little beside one that it lacks. FinDVer's filings and the calls are longer: this changes nothing there.
LEAST_PASSAGES = 25
RULE = (f"tied={TIED},precise={PRECISE},from={DERIVED_FROM},rival={RIVAL},opposed={OPPOSED},"
        f"least={LEAST_PASSAGES},signs={SIGNS}")
QUOTE = 300            # characters of a quoted line
POINTS_PER_CALL = 10   # of an answer, laid before a judge at once
_FROM_LABEL = dict(zip(LABELS, ("supported", "silent", "contradicted"), strict=True))
NO_NUMBER = "no number to check"
NO_WORDS = "nothing but numbers: no words say what they are of"


class LocalSupporter:
    """Support by numbers: every number of a point must stand in a line that shares its words, or follow from
    numbers of such lines by a difference, a sum, a ratio or a percentage change.

    supported      every number is found or follows, and neither direction nor negation is the opposite
    contradicted   a close line has another number of the unit in its place, or says the opposite
    silent         a number is not found, and no close line has another one in its place

    A point without an amount (dates alone do not count), or without words, is silent and not checked:
    words alone never support. `k` is how many passages are looked at. InputError for an empty document.
    """

    name = "local"

    def __init__(self, k: int = 10):
        if k < 1:
            raise InputError(f"k must be 1 or more, got {k}")
        self.k, self.signature = k, f"local:{rules_hash()},k={k},{RULE}"

    def __call__(self, answers: Sequence[tuple[str, Points]]) -> list[tuple[Support, ...]]:
        return [self.check(Document.of(text), points) for text, points in answers]

    def check(self, document: Document, points: Sequence[str]) -> tuple[Support, ...]:
        """The support of each point in a document that is already cut into passages."""
        return tuple(self._check(document, point) for point in points)

    def _check(self, document: Document, point: str) -> Support:
        quantities = read_numbers(point)
        nearest = document.index.top(point, self.k)
        closest = nearest[0] if nearest else None
        if all(q.unit == "date" for q in quantities):
            return Support("silent", closest, reason=NO_NUMBER)
        lines = _closest_lines(document, point, nearest)
        if lines is None:
            return Support("silent", closest, reason=NO_WORDS)
        found: list[Held] = []
        derived: list[str] = []
        missing: list[Quantity] = []
        for q in quantities:
            if hit := _holder(q, lines, document.scale):
                found.append(hit)
            elif formula := _derivation(q, lines[:DERIVED_FROM], document.scale):
                derived.append(f"{_printed(q, point)} = {formula}")
            else:
                missing.append(q)
        if missing:
            units = {q.unit for q in missing}
            rival = next((near for near in lines if near.overlap >= RIVAL
                          and any(q.unit in units for q in near.line.quantities)), None)
            label, decided = ("contradicted", rival) if rival else ("silent", lines[0] if lines else None)
        elif opposed := next((hit for hit in found if _opposes(*hit, point)), None):
            label, decided = "contradicted", opposed[0]
        else:
            label, decided = "supported", found[0][0] if found else lines[0]
        return Support(label, decided.line.passage if decided else closest,
                       decided.line.text[:QUOTE] if decided else "",
                       tuple(_printed(q, point) for q in missing), tuple(derived))


@dataclass(frozen=True, slots=True)
class _Near:
    """A line of a document, as near to a point as the words that it shares; shares in [0, 1]."""

    line: Line
    overlap: float               # with its neighbours
    own: float                   # by itself


Held = tuple[_Near, Quantity, Quantity]        # a line, the point's quantity, and the line's


def _closest_lines(document: Document, point: str, passages: Sequence[int]) -> list[_Near] | None:
    """The lines of the passages, those that share most words first; None for a point without words."""
    words = content_stems(outside(point, read_numbers(point)))
    # "billion" belongs to a number and is in many lines: it weighs what the passages say, however few
    weights = {stem: document.index.idf(stem, LEAST_PASSAGES if stem in words else 0)
               for stem in content_stems(point) if word_weight(stem) >= 1}
    total = fsum(weights.values())             # the same in any order: a set has none
    if not words or not total:
        return None
    near = [_Near(line, *(fsum(w for stem, w in weights.items() if stem in held) / total
                          for held in (line.around, line.stems)))
            for passage in passages for line in document.lines(passage)]
    return sorted(near, key=lambda one: (-one.overlap, -one.own))


def _holder(q: Quantity, lines: Sequence[_Near], scale: float) -> Held | None:
    """The closest line with an equal quantity (a date: any line), of the opposite direction only at need."""
    least, plain, opposite = 0.0 if q.unit == "date" else TIED, undirected(q), None
    for near in lines:
        if near.overlap < least:
            break
        for other, bare in zip(near.line.quantities, near.line.undirected, strict=True):
            if _equal(plain, bare, scale):
                if q.direction * other.direction >= 0:
                    return near, q, other
                opposite = opposite or (near, q, other)
    return opposite


def _equal(q: Quantity, other: Quantity, scale: float) -> bool:
    """Whether two undirected quantities are the same; a bare number may be one in `scale`."""
    if same(q, other):
        return True
    bare = other.scale == 1 and {q.unit, other.unit} <= {"", "USD"} and other.value >= 10
    return scale > 1 and bare and same(
        q, replace(other, value=other.value * scale, tolerance=other.tolerance * scale))


def _opposes(near: _Near, q: Quantity, other: Quantity, point: str) -> bool:
    """Whether the line that holds the number says "down" for "up", or denies what the point says."""
    if q.direction * other.direction < 0:
        return True
    negated, trend = point_signs(point)
    return near.own >= OPPOSED and (negated != near.line.negated or trend * near.line.trend < 0)


def _printed(q: Quantity, text: str) -> str:
    return text[q.start : q.end].strip()


# --- numbers that follow from others ---

def _derivation(q: Quantity, lines: Sequence[_Near], scale: float) -> str | None:
    """How a number follows from two of the lines, as a formula; None when it does not.

    Two numbers of a line, or those at the same place of two lines, as in a table's column.
    """
    if q.unit == "date" or q.tolerance > PRECISE * abs(q.value):
        return None
    amounts = [[n for n in near.line.quantities if n.unit != "date"][:NUMBERS] for near in lines]
    numbers = [(row, place, number, lines[row].line.text) for row, of_row in enumerate(amounts)
               if lines[row].overlap for place, number in enumerate(of_row)]
    for (row, place, a, of_a), (row_b, place_b, b, of_b) in combinations(numbers, 2):
        if row != row_b and place != place_b:
            continue
        first, second = ((a, of_a), (b, of_b)) if abs(a.value) >= abs(b.value) else ((b, of_b), (a, of_a))
        for value, unit, form in _results(first[0], second[0]):
            if _is_result(q, value, unit, scale if first[0].scale == 1 else 1.0):
                return form.format(_printed(*first), _printed(*second))
    return None


def _results(a: Quantity, b: Quantity) -> Iterator[tuple[float, str, str]]:
    """Value, unit and formula of what the larger number `a` and the smaller `b` give together."""
    x, y = abs(a.value), abs(b.value)
    if not y or x == y:
        return
    if a.unit and b.unit and a.unit != b.unit:                     # dollars a share, customers a store
        yield x / y, a.unit, "{} / {}"
        yield y / x, b.unit, "{1} / {0}"
        return
    unit = a.unit or b.unit
    yield x - y, unit, "{} - {}"
    if unit == "%":
        return                          # shares of different wholes are not added, nor compared
    yield x + y, unit, "{} + {}"
    yield 100 * (x - y) / y, "%", "({0} - {1}) / {1}"
    yield 100 * (x - y) / x, "%", "({0} - {1}) / {0}"
    yield 100 * y / x, "%", "{1} / {0}"
    yield 100 * x / y, "%", "{0} / {1}"
    yield x / y, "x", "{} / {}"


def _is_result(q: Quantity, value: float, unit: str, scale: float) -> bool:
    """Whether a derived value is the quantity, as far as that is printed, by 5 % at most."""
    money = {q.unit, unit} <= {"", "USD"}
    if not (q.unit == unit or money or (not q.unit and unit == "x")):
        return False
    wanted = abs(q.value)
    reach = min(q.tolerance, LARGEST_DIFFERENCE * wanted) + 1e-9 * wanted
    return abs(value - wanted) <= reach or (money and scale > 1 and abs(value * scale - wanted) <= reach)


# --- with a judge ---

class LLMSupporter:
    """Support by a judge: up to ten points of an answer at once, against the passages nearest to them.

    Each point brings its `k` best passages; one that an answer repeats is asked once. Entailment is
    supported, Contradiction contradicted, Neutral silent. A point whose label could not be read is unscored;
    `unread` counts them by reason. A point that shares no word with the document is silent without a call.
    InputError for an empty document.
    """

    name = "llm"

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *, k: int = 3):
        if k < 1:
            raise InputError(f"k must be 1 or more, got {k}")
        self.judge, self.prompts, self.k = as_judge(judge), prompts or Prompts(), k
        self.unread: Counter[str] = Counter()
        self.signature = f"llm:{self.prompts.signature('support')},k={k},points={POINTS_PER_CALL}"

    def __call__(self, answers: Sequence[tuple[str, Points]]) -> list[tuple[Support, ...]]:
        return self.check_all([(Document.of(text), points) for text, points in answers])

    def check_all(self, answers: Sequence[tuple[Document, Points]]) -> list[tuple[Support, ...]]:
        """The support of each answer's points in a document that is already cut into passages."""
        nearest = [{point: document.index.top(point, self.k) for point in points}
                   for document, points in answers]
        asked = [[point for point, top in tops.items() if top] for tops in nearest]     # a repeated one once
        parts = [(a, points[i:i + POINTS_PER_CALL]) for a, points in enumerate(asked)
                 for i in range(0, len(points), POINTS_PER_CALL)]
        requests = [self._request(answers[a][0], part, [nearest[a][point] for point in part])
                    for a, part in parts]
        supports = [dict.fromkeys(tops, Support("silent")) for tops in nearest]
        for (a, part), reply in zip(parts, self.judge.ask(requests, "check points"), strict=True):
            labels = read_listed(reply, "labels", len(part), partial(read_word, words=LABELS), "support",
                                 self.unread)
            for point, label in zip(part, labels, strict=True):
                passage = nearest[a][point][0]
                why = "" if label else reply.error or "unreadable"
                supports[a][point] = Support(_FROM_LABEL[label] if label else None, passage,
                                             answers[a][0].passages[passage][:QUOTE], reason=why)
        return [tuple(of_point[point] for point in points)
                for of_point, (_, points) in zip(supports, answers, strict=True)]

    def _request(self, document: Document, points: Sequence[str], tops: Sequence[Sequence[int]]) -> Request:
        passages = sorted({passage for top in tops for passage in top})
        text = "\n\n".join(harmless(document.passages[i]) for i in passages)
        prompt = self.prompts.fill("support", passages=text, points=numbered(points))
        return Request("support", prompt, 32 + 8 * len(points), LABELS_SCHEMA, choices=LABELS,
                       entries=len(points))


def point_id(point: str) -> str:
    """Twelve hex digits that name a point by its text: joins stored labels to points without their text."""
    return hashlib.sha256(point.encode(errors="surrogatepass")).hexdigest()[:12]
