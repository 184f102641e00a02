"""Which passages of a document speak of the same thing as a text: BM25, and how good a ranking is.

BM25 as in Robertson and Zaragoza (2009), section 3, with the idf that is never negative (Lucene's). Words
are the kit's stems, numbers one word each, so that "1,234" and "1234" are the same word.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from ..local.words import words_of
from ..types import InputError

K1, B = 1.2, 0.75          # the usual values of BM25: how soon repetition saturates, how much length counts
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def terms(text: str) -> list[str]:
    """The words of a text for retrieval: stems, and every number as one word without its commas."""
    numbers = [number.replace(",", "") for number in _NUMBER.findall(text)]
    return words_of(_NUMBER.sub(" ", text)) + numbers


class BM25:
    """An index of passages, built once and asked many times.

    InputError without a passage. A passage without words is never found.
    """

    def __init__(self, passages: Sequence[str]):
        if not passages:
            raise InputError("a document without passages cannot be searched; give one with text")
        self._holders: dict[str, list[tuple[int, int]]] = defaultdict(list)      # term -> (passage, count)
        lengths = []
        for i, passage in enumerate(passages):
            counts = Counter(terms(passage))
            lengths.append(counts.total())
            for term, n in counts.items():
                self._holders[term].append((i, n))
        mean = sum(lengths) / len(lengths) or 1.0
        self._norms = [K1 * (1 - B + B * length / mean) for length in lengths]

    def idf(self, term: str, least: int = 0) -> float:
        """How rare a term is: ln(1 + (N - n + 0.5) / (n + 0.5)) for n of N passages, of `least` if there are
        fewer. Positive.
        """
        n = len(self._holders.get(term, ()))
        return math.log(1 + (max(len(self._norms), least) - n + 0.5) / (n + 0.5))

    def scores(self, text: str) -> dict[int, float]:
        """The score of every passage that shares a word with `text`, by index; positive."""
        scores: dict[int, float] = defaultdict(float)
        for term in dict.fromkeys(terms(text)):
            weight = self.idf(term) * (K1 + 1)
            for i, n in self._holders.get(term, ()):
                scores[i] += weight * n / (n + self._norms[i])
        return dict(scores)

    def top(self, text: str, k: int) -> list[int]:
        """Indices of the `k` best passages, the best first, an earlier one before its equal. May be fewer."""
        scores = self.scores(text)
        return sorted(scores, key=lambda i: (-scores[i], i))[:k]


# --- how good a ranking is ---

def recall_at(ranked: Sequence[int], relevant: Collection[int], k: int) -> float:
    """Share in [0, 1] of the relevant passages among the first `k` of a ranking; nan if none is relevant."""
    return len(set(ranked[:k]) & set(relevant)) / len(set(relevant)) if relevant else math.nan


def average_precision(ranked: Sequence[int], relevant: Collection[int], *, over: str = "relevant") -> float:
    """Mean precision at the ranks of relevant passages, in [0, 1]; nan without relevant ones.

    `over="relevant"` divides by how many are relevant (the usual form: a missed one costs); `"found"` by how
    many were found, as OmniEval's code does. 0 when none is found. With one relevant passage the two agree
    with `reciprocal_rank`. Its mean over questions is MAP.
    """
    if over not in ("relevant", "found"):
        raise InputError(f"over must be 'relevant' or 'found', got {over!r}")
    hits = sorted(ranked.index(passage) + 1 for passage in set(relevant) if passage in ranked)
    total = sum(i / rank for i, rank in enumerate(hits, 1))
    below = len(set(relevant)) if over == "relevant" else len(hits)
    return math.nan if not relevant else total / below if below else 0.0


def reciprocal_rank(ranked: Sequence[int], relevant: Collection[int]) -> float:
    """1 / rank of the first relevant passage, in [0, 1]; 0 when none is found, nan without relevant ones."""
    if not relevant:
        return math.nan
    return next((1 / rank for rank, passage in enumerate(ranked, 1) if passage in set(relevant)), 0.0)
