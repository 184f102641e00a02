"""ROUGE as rouge-score computes it, for long texts: each text is stemmed once, and ROUGE-L takes no table.

On two texts of 300 words rouge-score spends most of its time on stemming words that it has stemmed before and
on the table of longest common subsequences. The values are the same to the last digit (tests/test_rouge.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

Scores = tuple[float, float, float]         # precision, recall, F1, each in [0, 1]


class Rouge:
    """Scores of an answer against a reference, by kind ("rouge1", "rouge2", "rougeL"), with stemming."""

    def __init__(self, kinds: Sequence[str]):
        from nltk.stem.porter import PorterStemmer
        from rouge_score.rouge_scorer import RougeScorer

        self.kinds = tuple(kinds)
        self.stem = lru_cache(maxsize=100_000)(PorterStemmer().stem)
        self.tokenize = lru_cache(maxsize=1_000)(self._tokenize)
        self._ngrams = RougeScorer([kind for kind in kinds if kind != "rougeL"], tokenizer=self)

    def score(self, reference: str, answer: str) -> dict[str, Scores]:
        """All kinds for one pair; 0 where either text has no word."""
        ngrams = self._ngrams.score(reference, answer)
        scores = {kind: (s.precision, s.recall, s.fmeasure) for kind, s in ngrams.items()}
        if "rougeL" in self.kinds:
            scores["rougeL"] = self._longest(self.tokenize(reference), self.tokenize(answer))
        return {kind: scores[kind] for kind in self.kinds}

    def _tokenize(self, text: str) -> list[str]:
        """Words as rouge-score takes them: lower case, letters and digits, those over three letters stemmed.
        """
        from rouge_score.tokenize import tokenize

        return tokenize(text, self)

    @staticmethod
    def _longest(reference: Sequence[str], answer: Sequence[str]) -> Scores:
        if not reference or not answer:
            return 0.0, 0.0, 0.0
        common = common_subsequence(reference, answer)
        precision, recall = common / len(answer), common / len(reference)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
        return precision, recall, f1


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, 0 to min(len(a), len(b)).

    Bit-parallel (Hyyrö, 2004): bit i of `row` is 0 where the table's row for the words of `b` so far rises at
    a[i].
    """
    places: dict[str, int] = {}
    for i, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << i
    row = full = (1 << len(a)) - 1
    for word in b:
        matches = row & places.get(word, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(a) - row.bit_count()
