"""Stage 3: how well a matched pair agrees, from 0 to 1 (paper, section 2.3, eq. 5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Protocol

from .judge import Judge, Request, as_judge, listed, reply_schema
from .prompts import Prompts, quoted
from .reading import parsed, parsed_rows, read_rows, read_score
from .types import InputError

SCORES_SCHEMA = reply_schema("scores", {"type": "integer"})
MAX_TOKENS = 32  # of a reply that is one number
BLEU_SIGNATURE = "bleu:nltk sentence,4-gram,smoothing=method1,words=lower"
KINDS = ("rouge1", "rouge2", "rougeL")
Pair = tuple[str, str]  # a reference point and the answer point that it is matched with


class Scorer(Protocol):
    """Anything that scores pairs: for each answer's pairs as many values in [0, 1], None = unscored."""

    signature: str

    def __call__(self, groups: Sequence[Sequence[Pair]]) -> list[list[float | None]]: ...


class LLMScorer:
    """A whole number 0 .. `max_score` from the judge, divided by `max_score` (10 in the paper's examples).

    It is asked once per pair, as in the paper; with `joint` once per answer. `failures` counts what is None.
    """

    def __init__(
        self,
        judge: Judge | Callable[[str], str],
        prompts: Prompts | None = None,
        *,
        max_score: int = 10,
        joint: bool = False,
    ):
        self.judge, self.prompts, self.joint = as_judge(judge), prompts or Prompts(), joint
        self.max_score, self.scale = max_score, scale(max_score)
        self.failures: Counter[str] = Counter()
        template = self.prompts.signature("score_all" if joint else "score")
        self.signature = f"llm:{template},max={max_score}" + (",joint" if joint else "")

    def __call__(self, groups: Sequence[Sequence[Pair]]) -> list[list[float | None]]:
        read = partial(read_score, max_score=self.max_score)
        if self.joint:
            requests = [self._joint_request(pairs) for pairs in groups if pairs]
            replies = iter(self.judge.ask(requests, "score pairs"))
            return [
                parsed_rows(next(replies), "scores", len(pairs), read, "score", self.failures)
                if pairs
                else []
                for pairs in groups
            ]
        prompts = [
            self.prompts.fill("score", reference=quoted(ref), candidate=quoted(ans), **self.scale)
            for pairs in groups
            for ref, ans in pairs
        ]
        requests = [
            Request("score", prompt, MAX_TOKENS, assumed=partial(str, self.max_score), read=read)
            for prompt in prompts
        ]
        replies = iter(self.judge.ask(requests, "score pairs"))
        return [
            [parsed(next(replies), read, "score", self.failures) for _ in pairs] for pairs in groups
        ]

    def _joint_request(self, pairs: Sequence[Pair]) -> Request:
        lines = [f"{i}: {quoted(ref)}\n   {quoted(ans)}" for i, (ref, ans) in enumerate(pairs)]
        prompt = self.prompts.fill("score_all", pairs="\n".join(lines), **self.scale)
        return rows_request("score", prompt, SCORES_SCHEMA, [self.max_score] * len(pairs))


def scale(max_score: int) -> dict[str, str]:
    """What a scoring prompt says of its scale. InputError for a top that is not 1 to a million."""
    if not 1 <= max_score <= 10**6:
        raise InputError(f"max_score must be 1 to a million, got {max_score}")
    values = {"max_score": max_score, "middle": round(max_score / 2), "low": round(max_score / 10)}
    return {name: str(value) for name, value in values.items()}


def rows_request(task: str, prompt: str, schema: dict[str, Any], longest: Sequence[Any]) -> Request:
    """A question to which the judge replies with a list; `longest` is the longest one that could be read."""
    key, count = schema["required"][0], len(longest)
    return Request(
        task,
        prompt,
        MAX_TOKENS + 8 * count,
        schema,
        assumed=partial(listed, key, longest),
        read=partial(read_rows, key=key, count=count, read=str),
    )


class PairScorer:
    """A scorer without a judge: `score` takes reference points and answer points, and gives their values."""

    def __init__(
        self, signature: str, score: Callable[[list[str], list[str]], Sequence[float | None]]
    ):
        self.signature, self._score = signature, score

    def __call__(self, groups: Sequence[Sequence[Pair]]) -> list[list[float | None]]:
        pairs = [pair for group in groups for pair in group]
        values = iter(self._score([ref for ref, _ in pairs], [ans for _, ans in pairs]))
        return [[next(values) for _ in group] for group in groups]


def rouge_scorer() -> PairScorer:
    """ROUGE-L F1 of two points, in [0, 1]; the paper does not say which ROUGE it takes."""
    return PairScorer(
        "rouge:rougeL,stemmed",
        lambda refs, answers: [f1 for _, _, f1 in rouge(refs, answers, ["rougeL"])["rougeL"]],
    )


def bleu_scorer() -> PairScorer:
    """Sentence BLEU of two points, in [0, 1]; see `bleu`."""
    return PairScorer(BLEU_SIGNATURE, bleu)


def bert_scorer(encoder: Any) -> PairScorer:
    """BERTScore F1 of two points, clipped to [0, 1]; the encoder cuts texts at 512 tokens."""
    return PairScorer(
        f"bertscore:{encoder.signature}",
        lambda *texts: [min(1.0, max(0.0, f1)) for f1 in encoder.bertscore(*texts)[2]],
    )


def bleu(references: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Sentence BLEU of each answer against its reference, in [0, 1]; 0 when either is empty.

    NLTK's, up to 4-grams, smoothing method 1, on lower-cased words and signs; the paper names no settings.
    """
    from nltk.tokenize import wordpunct_tokenize
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    values = []
    for reference, answer in zip(references, answers, strict=True):
        ref, ans = wordpunct_tokenize(reference.lower()), wordpunct_tokenize(answer.lower())
        values.append(
            float(sentence_bleu([ref], ans, smoothing_function=smoothing)) if ref and ans else 0.0
        )
    return values


def rouge(
    references: Sequence[str], answers: Sequence[str], kinds: Sequence[str] = KINDS
) -> dict[str, list[tuple[float, float, float]]]:
    """ROUGE (precision, recall, F1) of each answer, by kind, in [0, 1], with stemming; 0 without words.

    rouge-score's definition and values; its longest common subsequence, a loop in Python, is rapidfuzz's.
    """
    from nltk.stem.porter import PorterStemmer
    from rapidfuzz.distance import LCSseq
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.scoring import fmeasure
    from rouge_score.tokenize import tokenize

    stemmer = SimpleNamespace(stem=lru_cache(1 << 16)(PorterStemmer().stem))  # stem a word once
    words = partial(tokenize, stemmer=stemmer)
    ngrams = RougeScorer(sorted({*kinds} - {"rougeL"}), tokenizer=SimpleNamespace(tokenize=words))
    scored: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in kinds}
    for reference, answer in zip(references, answers, strict=True):
        ref, ans = words(reference), words(answer)
        length = LCSseq.similarity(ref, ans)
        precision, recall = length / max(1, len(ans)), length / max(1, len(ref))
        scores = ngrams.score(reference, answer)
        scores["rougeL"] = precision, recall, fmeasure(precision, recall)
        for kind in kinds:
            scored[kind].append(scores[kind])
    return scored
