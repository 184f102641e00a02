"""Coverage without a model: the share of a text's weight that another text has as well.

A text's weight is that of its words and numbers. A word weighs more the rarer it is: minus the
logarithm of the share of texts that have its stem, from the fixed table rarity.txt. A number weighs
as much as a word that the table lacks. What the question says weighs less. Each word and each
number counts once in a text; points that have the same one share its weight equally, so that the
weights of a text's points add up to the text's.

A point's score is the share of its weight that the other text has. A point with figures loses up to
half of it: half of the share of its figures that the other text lacks.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..extract import OTHER_SCRIPT
from ..types import Match, Points, Scores, Signed
from .figures import READING_RULES, Number, NumberIndex, Term, read_terms

RARITY_TABLE = Path(__file__).with_name("rarity.txt")
UNKNOWN_WEIGHT = 8.0  # of a number, and of a stem that the table lacks: a little above its rarest
# The share of its score that a point loses if the other text has none of its figures.
FIGURE_LOSS = 0.5
EMPTY_WEIGHT = 0.1  # of a point without words and numbers; its score is 0
QUESTION_SHARE = 0.3  # the share of its weight that a word or number of the question keeps
THRESHOLD = 0.25  # of WordMatcher, chosen by a judge's matches: docs/local-evaluator.md
# A term that more answer points than this have does not help to choose the nearest of them.
MAX_HOLDERS = 50
# The last number is raised when other code of this file changes a value.
_RULES = (
    UNKNOWN_WEIGHT,  # of a stem
    UNKNOWN_WEIGHT,  # of a number
    FIGURE_LOSS,
    EMPTY_WEIGHT,
    QUESTION_SHARE,
    MAX_HOLDERS,
    READING_RULES,
    2,
)
_RULES_HASH = hashlib.sha256(RARITY_TABLE.read_bytes() + repr(_RULES).encode()).hexdigest()
SIGNATURE = f"words#{_RULES_HASH[:8]}"


class Overlap(NamedTuple):
    """How much two texts have in common, point by point.

    The mean of a side's scores with its weights is the coverage of that text by the other one.
    """

    ref_score: Scores  # in [0, 1]: how much of a point the answer has
    ans_score: Scores
    ref_weights: tuple[float, ...]  # positive
    ans_weights: tuple[float, ...]
    nearest: Match  # per reference point the answer point that has most of it, or -1


def word_overlap(ref_points: Points, ans_points: Points, question: str = "") -> Overlap:
    """How much a reference and an answer have in common; it depends on these three alone."""
    ref = _WeightedPoints(ref_points, question)
    ans = _WeightedPoints(ans_points, question)
    common = ref.terms_in(ans)
    return Overlap(
        ref.scores(common),
        ans.scores(set().union(*common.values())),
        ref.weights,
        ans.weights,
        _nearest(ref, ans, common),
    )


class WordMatcher(Signed):
    """Matches each reference point with the answer point that has most of its weight.

    A reference point of which no answer point has a quarter is unmatched.
    """

    signature = f"{SIGNATURE},threshold={THRESHOLD}"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[Match]:
        """The match of each pair of reference points and answer points."""
        matches = []
        for ref_points, ans_points in pairs:
            ref, ans = _WeightedPoints(ref_points), _WeightedPoints(ans_points)
            matches.append(_nearest(ref, ans, ref.terms_in(ans), THRESHOLD))
        return matches


class _WeightedPoints:
    """The points of one text, and what each of their words and numbers weighs in them."""

    def __init__(self, points: Sequence[str], question: str = ""):
        # Each point's terms: a set that keeps the order of the text.
        self.points = [dict.fromkeys(read_terms(point)) for point in points]
        self.holders: dict[Term, list[int]] = defaultdict(list)  # the points that have a term
        for i, terms in enumerate(self.points):
            for term in terms:
                self.holders[term].append(i)
        self.numbers = [term for term in self.holders if isinstance(term, Number)]
        self.index = NumberIndex(self.numbers)
        # What a term weighs in each point that has it.
        rarity = _rarity()
        self.term_weights = {
            term: rarity.get(term, UNKNOWN_WEIGHT) / len(holders)
            for term, holders in self.holders.items()
        }
        self.question_terms = self.terms_in(_WeightedPoints([question])) if question else {}
        for term in self.question_terms:
            self.term_weights[term] *= QUESTION_SHARE
        self.weights = tuple(self._weight_of(terms) or EMPTY_WEIGHT for terms in self.points)

    def _weight_of(self, terms: Iterable[Term]) -> float:
        return sum(self.term_weights[term] for term in terms)

    def terms_in(self, other: _WeightedPoints) -> dict[Term, set[Term]]:
        """The terms that another text has as well, and for each what is the same there."""
        common: dict[Term, set[Term]] = {}
        for term in self.holders.keys() & other.holders.keys():
            common[term] = {term}
        for number in self.numbers:
            same: set[Term] = set(other.index.same_as(number))
            if same:
                common[number] = same
        return common

    def scores(self, common: Collection[Term]) -> Scores:
        """The share of each point's weight that is `common`, in [0, 1], lowered for its figures."""
        scores = []
        for terms, weight in zip(self.points, self.weights, strict=True):
            weight_in_common = self._weight_of(term for term in terms if term in common)
            share = min(1.0, weight_in_common / weight)
            scores.append(share * self._figure_factor(terms, common))
        return tuple(scores)

    def _figure_factor(self, terms: Iterable[Term], common: Collection[Term]) -> float:
        """From 1 - FIGURE_LOSS, when none of a point's figures is `common`, to 1, when all are.

        Figures are the numbers of the point that the question does not have. 1 without figures.
        """
        numbers = [term for term in terms if isinstance(term, Number)]
        figures = [number for number in numbers if number not in self.question_terms]
        if not figures:
            return 1.0
        share = sum(figure in common for figure in figures) / len(figures)
        return 1 - FIGURE_LOSS + FIGURE_LOSS * share


def _nearest(
    ref: _WeightedPoints,
    ans: _WeightedPoints,
    common: Mapping[Term, set[Term]],
    threshold: float = 0.0,
) -> Match:
    """Per reference point the answer point that has most of its weight, `threshold` of it at least.

    -1 where there is none. Ties go to the earlier point.
    """
    holders = {}  # by term of the reference the answer points that have it
    for term, same in common.items():
        holders[term] = set(chain.from_iterable(ans.holders[other] for other in same))
    nearest = []
    for terms, weight in zip(ref.points, ref.weights, strict=True):
        weights = {-1: 0.0}  # in common with this reference point, by answer point
        for term in terms:
            points = holders.get(term, ())
            if len(points) <= MAX_HOLDERS:
                for i in points:
                    weights[i] = weights.get(i, 0.0) + ref.term_weights[term]
        best = max(weights, key=lambda i: (weights[i], -i))
        nearest.append(best if weights[best] / weight >= threshold else -1)
    return tuple(nearest)


@cache
def _rarity() -> dict[Term, float]:
    """Weight by stem. A line of the table is a weight and the stems that have it."""
    weights: dict[Term, float] = {}
    for line in RARITY_TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            weight, *stems = line.split()
            weights |= dict.fromkeys(stems, float(weight))
    return weights


# --- what these tables of words do not cover ---

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


def foreign_language(text: str) -> str:
    """Which language a text is in if it is surely not English; "" for any other text.

    That is the name of a script, such as "CYRILLIC", where a tenth of the text is in letters that
    are not Latin. Else it is one of `_FUNCTION_WORDS`: a seventh of the words and five at least are
    that language's, twice as many as are English.
    """
    letters = "".join(filter(str.isalpha, OTHER_SCRIPT.findall(text)))
    if letters and 10 * len(letters) >= len(text):
        return unicodedata.name(letters[0], "another script").split(" ")[0]
    words = text[:_LANGUAGE_SAMPLE].lower().split()
    counts = {}
    for language, function_words in _WORDS_OF.items():
        counts[language] = sum(map(function_words.__contains__, words))
    best = max(counts, key=counts.__getitem__)
    least = max(5, len(words) / 7, 2 * counts["English"])
    return best if best != "English" and counts[best] >= least else ""
