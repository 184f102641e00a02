"""Stage 3: how well a matched pair agrees, from 0 to 1 (paper, section 2.3, eq. 5).

A scorer is called with (reference point, answer point) pairs and returns a float in [0, 1] for each, or None
when its reply could not be read. `GroupScorer` and `WholeScorer` are called in other ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from .asking import as_judge
from .local.overlap import BLEU_SIGNATURE, Rouge, bleu
from .prompting import Prompts
from .reading import read_score
from .sanitise import quoted
from .types import EMSResult, InputError, Judge, Reply, Request

MAX_TOKENS = 32          # of a reply that is a number
TOP_LOGPROBS = 20        # likely first tokens to ask for: as many as the official endpoint gives


class Scorer(Protocol):
    """Anything that scores pairs of points; `name` and `signature` enter every result."""

    name: str
    signature: str

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]: ...


@runtime_checkable
class WholeScorer(Protocol):
    """A scorer that holds each point against the whole other side, both ways. Not the paper's eq. 7.

    `cover` fills `score` and `ans_score` (in [0, 1] or None) of alignments whose points could be read, and if
    it likes the weights (positive) and the nearest points (`match`, `ans_match`) for the reader. It needs no
    matcher.
    """

    name: str
    signature: str

    def cover(self, alignments: Sequence[EMSResult]) -> list[EMSResult]: ...


@runtime_checkable
class GroupScorer(Protocol):
    """A scorer that is given the pairs of each answer together."""

    name: str
    signature: str

    def by_answer(self, groups: Sequence[Sequence[tuple[str, str]]]) -> list[list[float | None]]: ...


class LLMScorer:
    """A whole number 0 .. `max_score` from the judge, divided by `max_score` (10 in the paper's examples).

    `expected=True` takes the mean of these numbers by the probability that the endpoint gives each as the
    reply's first token, a finer scale; an endpoint that gives no probabilities leaves the pair unscored, and
    so does a reply that was cut or declined, whatever its first token. It needs a `max_score` of one digit,
    since many tokenizers split longer numbers. Where an endpoint gives none, `samples` asks for so many
    replies a pair and takes the mean of those that can be read, at least half of them: the same finer scale,
    at a judge's temperature above 0. `unread` counts what could not be read.
    """

    name = "llm"

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *,
                 max_score: int = 10, max_tokens: int = MAX_TOKENS, expected: bool = False, samples: int = 1):
        if samples < 1 or (expected and samples > 1):
            raise InputError(f"samples must be 1 or more, and 1 for an expected score, got {samples}")
        if not 1 <= max_score <= (9 if expected else 10**6):
            raise InputError(
                f"max_score must be 1 or more, and 9 or less for an expected score, got {max_score}"
            )
        self.judge, self.prompts = as_judge(judge), prompts or Prompts()
        self.max_score, self.max_tokens, self.expected = max_score, max_tokens, expected
        self.samples = samples
        self.unread: Counter[str] = Counter()
        suffix = ",expected" if expected else f",mean of {samples} replies" if samples > 1 else ""
        limit = "" if max_tokens == MAX_TOKENS else f",max_tokens={max_tokens}"
        self.signature = f"llm:{self.prompts.signature('score')},max={max_score}{suffix}{limit}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        requests = [
            Request("score", self.prompts.fill("score", reference=quoted(ref), candidate=quoted(ans),
                                               **scale(self.max_score)),
                    self.max_tokens, sample=k, top_logprobs=TOP_LOGPROBS if self.expected else 0,
                    choices=range(self.max_score + 1))
            for ref, ans in pairs for k in range(self.samples)
        ]
        scores = [self._read(reply) for reply in self.judge.ask(requests, "score pairs")]
        return [_mean_of_half(scores[i:i + self.samples]) for i in range(0, len(scores), self.samples)]

    def _read(self, reply: Reply) -> float | None:
        if reply.text is None:
            score = None
        elif self.expected:
            score = mean_score(reply.probabilities, self.max_score)
        else:
            score = read_score(reply.text, self.max_score)
        if score is None:
            wrong = "no probabilities" if self.expected else "unreadable"
            self.unread[f"score: {reply.error or wrong}"] += 1
        return score


def _mean_of_half(scores: Sequence[float | None]) -> float | None:
    """Mean of the scores that could be read; None when they are fewer than half."""
    read = [s for s in scores if s is not None]
    return sum(read) / len(read) if 2 * len(read) >= len(scores) else None


def scale(max_score: int) -> dict[str, str]:
    """What a scoring prompt says of its scale."""
    middle, low = round(max_score / 2), round(max_score / 10)
    return {"max_score": str(max_score), "middle": str(middle), "low": str(low)}


def mean_score(probabilities: Mapping[str, float], max_score: int) -> float | None:
    """Mean of the numbers 0 .. max_score among likely first tokens, by probability, divided by `max_score`:
    in [0, 1].

    None when numbers have less than half of the probability: then the judge is about to say something else.
    """
    numbers = [(int(token), p) for token, p in probabilities.items()
               if token.strip().isascii() and token.strip().isdigit() and int(token) <= max_score]
    total = sum(p for _, p in numbers)
    # The quotient of equal sums may be rounded to a little more than 1.
    return min(1.0, sum(n * p for n, p in numbers) / total / max_score) if total >= 0.5 else None


class RougeScorer:
    """ROUGE-F1 of two points (rouge-score, with stemming), in [0, 1]. `kind` is rouge1, rouge2 or rougeL."""

    name = "rouge"

    def __init__(self, kind: str = "rougeL"):
        self._kind, self._rouge = kind, Rouge([kind])
        self.signature = f"rouge:{kind},stemmed"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [self._rouge(ref, ans)[self._kind][2] for ref, ans in pairs]


class BLEUScorer:
    """NLTK's sentence BLEU of two points, up to 4-grams and smoothed, in [0, 1]; see `bleu`."""

    name = "bleu"

    def __init__(self) -> None:
        self.signature = BLEU_SIGNATURE

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [*bleu([ref for ref, _ in pairs], [ans for _, ans in pairs])]


class BERTScorer:
    """BERTScore F1 of two points, clipped to [0, 1]; see `local.encoder.Encoder` for the model and its
    512-token cut.
    """

    name = "bertscore"

    def __init__(self, encoder: Any):
        self.encoder = encoder
        self.signature = f"bertscore:{encoder.signature}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        f1 = self.encoder.bertscore([ref for ref, _ in pairs], [ans for _, ans in pairs])[2]
        return [min(1.0, max(0.0, value)) for value in f1]
