"""ROUGE and BLEU: how many words two texts share, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from types import SimpleNamespace

BLEU_SIGNATURE = "bleu:nltk sentence,4-gram,smoothing=method1,words=lower"


class Rouge:
    """ROUGE of texts by kind (rouge1, rouge2, rougeL), with stemming: (precision, recall, F1), in [0, 1].

    rouge-score's definition and values (a test compares them), faster: each text is cut into words and each
    word stemmed once, and ROUGE-L's longest common subsequence is rapidfuzz's. A text without words gives 0.
    """

    def __init__(self, kinds: Sequence[str] = ("rouge1", "rouge2", "rougeL")):
        from rouge_score.rouge_scorer import RougeScorer as Official
        from rouge_score.tokenize import tokenize

        self.kinds, self.tokenize = tuple(kinds), lru_cache(4096)(partial(tokenize, stemmer=_stemmer()))
        self._ngrams = Official([kind for kind in kinds if kind != "rougeL"], tokenizer=self)

    def __call__(self, reference: str, answer: str) -> dict[str, tuple[float, float, float]]:
        scores = {kind: (s.precision, s.recall, s.fmeasure)
                  for kind, s in self._ngrams.score(reference, answer).items()}
        if "rougeL" in self.kinds:
            scores["rougeL"] = self._longest_subsequence(self.tokenize(reference), self.tokenize(answer))
        return scores

    @staticmethod
    def _longest_subsequence(reference: Sequence[str], answer: Sequence[str]) -> tuple[float, float, float]:
        from rapidfuzz.distance import LCSseq
        from rouge_score.scoring import fmeasure

        if not reference or not answer:
            return 0.0, 0.0, 0.0
        length = LCSseq.similarity(reference, answer)
        precision, recall = length / len(answer), length / len(reference)
        return precision, recall, fmeasure(precision, recall)


@cache
def _stemmer() -> SimpleNamespace:
    """rouge-score's stemmer, which otherwise stems a word anew each time that it occurs."""
    from nltk.stem.porter import PorterStemmer

    return SimpleNamespace(stem=lru_cache(1 << 16)(PorterStemmer().stem))


def rouge(
    references: Sequence[str], answers: Sequence[str], kinds: Sequence[str] = ("rouge1", "rouge2", "rougeL")
) -> dict[str, list[tuple[float, float, float]]]:
    """ROUGE (precision, recall, F1) of each answer, by kind, in [0, 1], with stemming."""
    rouge_of = Rouge(kinds)
    scored = [rouge_of(r, a) for r, a in zip(references, answers, strict=True)]
    return {kind: [scores[kind] for scores in scored] for kind in kinds}


def bleu(references: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Sentence BLEU of each answer against its reference, in [0, 1]; 0 when either is empty.

    NLTK's, up to 4-grams, uniform weights, smoothing method 1, on lower-cased words, numbers and signs. The
    paper names no settings.
    """
    from nltk.tokenize import wordpunct_tokenize
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    words = [(wordpunct_tokenize(r.lower()), wordpunct_tokenize(a.lower()))
             for r, a in zip(references, answers, strict=True)]
    return [float(sentence_bleu([ref], ans, smoothing_function=smoothing)) if ref and ans else 0.0
            for ref, ans in words]
