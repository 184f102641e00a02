"""Stage 3: how well a matched pair agrees, from 0 to 1 (paper, section 2.3, eq. 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any

from .judge import NUMBER_TOKENS, AnyJudge, JudgeStage, Request, reply_schema, rows_request
from .metrics import f1
from .prompts import Prompts, quoted
from .reading import read_score
from .types import InputError, Signed

SCORES_SCHEMA = reply_schema("scores", {"type": "integer"})
BLEU_SIGNATURE = "bleu:nltk sentence,4-gram,smoothing=method1,words=lower"
# Kinds of ROUGE, with the signatures of their scorers; tables name a metric by the first word.
ROUGE_KINDS = {
    "rougeL": "rouge:rougeL,stemmed",
    "rouge1": "rouge1:stemmed",
    "rouge2": "rouge2:stemmed",
}
PointPair = tuple[str, str]  # a reference point and the answer point that it is matched with


class LLMScorer(JudgeStage):
    """A whole number 0 .. `max_score` from the judge, divided by `max_score`.

    The paper's examples go up to 10. The judge is asked once per pair, as in the paper; with
    `joint` once per answer. A value that cannot be read is None, and `failures` counts it.
    """

    def __init__(
        self,
        judge: AnyJudge,
        prompts: Prompts | None = None,
        *,
        max_score: int = 10,
        joint: bool = False,
    ):
        super().__init__(judge, prompts)
        self.joint = joint
        self.max_score = max_score
        self.scale = scale(max_score)
        template = self.prompts.signature("score_all" if joint else "score")
        self.signature = f"llm:{template},max={max_score}" + (",joint" if joint else "")

    def __call__(self, groups: Sequence[Sequence[PointPair]]) -> list[list[float | None]]:
        requests = []
        for pairs in groups:
            if pairs:
                requests += self._requests(pairs)
        scores = iter(self.ask_and_read(requests, "score pairs"))
        return [list(islice(scores, len(pairs))) for pairs in groups]

    def _requests(self, pairs: Sequence[PointPair]) -> list[Request]:
        """One question for each pair; with `joint` one about all pairs of an answer."""
        read = partial(read_score, max_score=self.max_score)
        sides = [(quoted(ref), quoted(ans)) for ref, ans in pairs]
        if self.joint:
            lines = [f"{i}: {ref}\n   {ans}" for i, (ref, ans) in enumerate(sides)]
            prompt = self.prompts.fill("score_all", pairs="\n".join(lines), **self.scale)
            longest = [self.max_score] * len(pairs)
            return [rows_request("score", prompt, SCORES_SCHEMA, longest, read)]
        requests = []
        assumed = partial(str, self.max_score)
        for ref, ans in sides:
            prompt = self.prompts.fill("score", reference=ref, candidate=ans, **self.scale)
            requests.append(Request("score", prompt, NUMBER_TOKENS, assumed=assumed, read=read))
        return requests


def scale(max_score: int) -> dict[str, str]:
    """How a scoring prompt describes its scale.

    InputError unless the best score is 1 to a million.
    """
    if not isinstance(max_score, int) or not 1 <= max_score <= 10**6:
        raise InputError(f"max_score must be 1 to a million, a whole number, got {max_score!r}")
    values = {"max_score": max_score, "middle": round(max_score / 2), "low": round(max_score / 10)}
    return {name: str(value) for name, value in values.items()}


class PairScorer(Signed):
    """A scorer without a judge, from a function of all reference points and all answer points."""

    def __init__(
        self, signature: str, score: Callable[[list[str], list[str]], Sequence[float | None]]
    ):
        self.signature = signature
        self._score = score

    def __call__(self, groups: Sequence[Sequence[PointPair]]) -> list[list[float | None]]:
        pairs = list(chain.from_iterable(groups))
        values = iter(self._score([ref for ref, _ in pairs], [ans for _, ans in pairs]))
        return [list(islice(values, len(pairs))) for pairs in groups]


def rouge_scorer(kind: str = "rougeL") -> PairScorer:
    """ROUGE F1 of two points, in [0, 1]; the paper does not name the kind of ROUGE.

    `kind` is one of `ROUGE_KINDS`. Tables name the metric EMS(ROUGE) for ROUGE-L, and EMS(rouge1)
    or EMS(rouge2) for the others. InputError for another kind.
    """
    if kind not in ROUGE_KINDS:
        raise InputError(f"the kind of ROUGE is one of {list(ROUGE_KINDS)}, got {kind!r}")

    def score(refs: list[str], answers: list[str]) -> list[float]:
        return [value for _, _, value in rouge(refs, answers, kind)]

    return PairScorer(ROUGE_KINDS[kind], score)


def bleu_scorer() -> PairScorer:
    """Sentence BLEU of two points, in [0, 1]; see `bleu`."""
    return PairScorer(BLEU_SIGNATURE, bleu)


def bert_scorer(encoder: Any) -> PairScorer:
    """BERTScore F1 of two points, clipped to [0, 1]; the encoder cuts texts at 512 tokens."""

    def score(refs: list[str], answers: list[str]) -> list[float]:
        return [min(1.0, max(0.0, value)) for value in encoder.bertscore(refs, answers)]

    return PairScorer(f"bertscore:{encoder.signature}", score)


def bleu(references: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Sentence BLEU of each answer against its reference, in [0, 1]; 0 when either is empty.

    NLTK's, up to 4-grams, with smoothing method 1, on lower-cased words and signs. The paper names
    no settings.
    """
    from nltk.tokenize import wordpunct_tokenize
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    values = []
    for reference, answer in zip(references, answers, strict=True):
        ref = wordpunct_tokenize(reference.lower())
        ans = wordpunct_tokenize(answer.lower())
        value = 0.0
        if ref and ans:
            value = float(sentence_bleu([ref], ans, smoothing_function=smoothing))
        values.append(value)
    return values


def rouge(
    references: Sequence[str], answers: Sequence[str], kind: str
) -> list[tuple[float, float, float]]:
    """ROUGE (precision, recall, F1) of each answer, in [0, 1], stemmed; 0 without words.

    `kind` is one of `ROUGE_KINDS`: longest common subsequence, common words, common pairs of words.
    """
    if kind == "rougeL":
        return rouge_l(references, answers)
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([kind], tokenizer=SimpleNamespace(tokenize=stemmed_words))
    pairs = zip(references, answers, strict=True)
    return [scorer.score(*pair)[kind] for pair in pairs]


def rouge_l(references: Sequence[str], answers: Sequence[str]) -> list[tuple[float, float, float]]:
    """ROUGE-L (precision, recall, F1) of each answer, in [0, 1], stemmed; 0 without words.

    The definition and the values are those of rouge-score. Its longest common subsequence is a
    loop in Python; rapidfuzz computes it here.
    """
    from rapidfuzz.distance import LCSseq

    values = []
    for reference, answer in zip(references, answers, strict=True):
        ref = stemmed_words(reference)
        ans = stemmed_words(answer)
        length = LCSseq.similarity(ref, ans)
        precision = length / max(1, len(ans))
        recall = length / max(1, len(ref))
        values.append((precision, recall, f1(recall, precision)))
    return values


def stemmed_words(text: str) -> list[str]:
    """The words of a text as rouge-score compares them."""
    from rouge_score.tokenize import tokenize

    return tokenize(text, _stemmer())


@cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return SimpleNamespace(stem=lru_cache(1 << 16)(PorterStemmer().stem))  # each word once
