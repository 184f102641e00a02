"""Stage 3: how well a matched pair agrees, from 0 to 1 (paper, section 2.3, eq. 5).

A scorer is called with (reference point, answer point) pairs and returns a float in [0, 1] for each, or None when its
reply could not be read. A scorer that judges whole sides has `sides` instead (see `Sides`), and may have `prepare`,
which is told the points of many answers before `sides` is asked for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .prompting import Prompts, as_judge
from .reading import read_score
from .sanitise import quoted
from .types import InputError, Judge, Request

CHANCES = 20             # likely first tokens to ask for: as many as the official endpoint gives


class Scorer(Protocol):
    """Anything that scores pairs of points; `name` and `signature` enter every result."""

    name: str
    signature: str

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]: ...


@dataclass(frozen=True, slots=True)
class Sides:
    """What a scorer of whole sides says of one answer; weights are positive, scores in [0, 1] or None."""

    match: tuple[int | None, ...]          # per reference point, as in eq. 4
    score: tuple[float | None, ...]        # per reference point
    ans_score: tuple[float | None, ...]    # per answer point
    ref_weights: tuple[float, ...]
    ans_weights: tuple[float, ...]


class LLMScorer:
    """A whole number 0 .. `max_score` from the judge, divided by `max_score` (10 in the paper's examples).

    `expected=True` takes the mean of these numbers by the probability that the endpoint gives each as the reply's
    first token, a finer scale; an endpoint that gives no probabilities leaves the pair unscored, and so does a reply
    that was cut or declined, whatever its first token. It needs a `max_score` of one digit, since many tokenizers split
    longer numbers. `unread` counts what could not be read.
    """

    name = "llm"

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *, max_score: int = 10,
                 max_tokens: int = 32, expected: bool = False):
        if not 1 <= max_score <= (9 if expected else 10**6):
            raise InputError(f"max_score must be 1 or more, and 9 or less for an expected score, got {max_score}")
        self.expected = expected
        self.judge, self.prompts, self.max_score, self.max_tokens = as_judge(judge), prompts or Prompts(), max_score, max_tokens
        self.unread: Counter[str] = Counter()
        self.signature = f"llm:{self.prompts.signature('score')},max={max_score}" + (",expected" if expected else "")

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        scale = {"max_score": str(self.max_score), "middle": str(round(self.max_score / 2)),
                 "low": str(round(self.max_score / 10))}
        requests = [
            Request("score", self.prompts.fill("score", reference=quoted(ref), candidate=quoted(ans), **scale),
                    self.max_tokens, chances=CHANCES if self.expected else 0, assumed="0")
            for ref, ans in pairs
        ]
        scores = []
        for reply in self.judge.ask(requests, "score pairs"):
            wrong = "no probabilities" if self.expected else "unreadable"
            if reply.text is None:
                score = None
            else:
                score = (mean_score(reply.chances, self.max_score) if self.expected
                         else read_score(reply.text, self.max_score))
            if score is None:
                self.unread[f"score: {reply.error or wrong}"] += 1
            scores.append(score)
        return scores


def mean_score(chances: Mapping[str, float], max_score: int) -> float | None:
    """Mean of the numbers 0 .. max_score among likely first tokens, by probability, divided by `max_score`: in [0, 1].

    None when numbers have less than half of the probability: then the judge is about to say something else.
    """
    numbers = [(int(token), p) for token, p in chances.items()
               if token.strip().isascii() and token.strip().isdigit() and int(token) <= max_score]
    total = sum(p for _, p in numbers)
    return sum(n * p for n, p in numbers) / total / max_score if total >= 0.5 else None


class RougeScorer:
    """ROUGE-F1 of two points (rouge-score, with stemming), in [0, 1]. `kind` is rouge1, rouge2 or rougeL."""

    name = "rouge"

    def __init__(self, kind: str = "rougeL"):
        from rouge_score.rouge_scorer import RougeScorer as Rouge

        self._kind, self._rouge = kind, Rouge([kind], use_stemmer=True)
        self.signature = f"rouge:{kind},stemmed"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [self._rouge.score(ref, ans)[self._kind].fmeasure for ref, ans in pairs]


class BERTScorer:
    """BERTScore F1 of two points, clipped to [0, 1]; see `baselines.Encoder` for the model and its 512-token cut."""

    name = "bertscore"

    def __init__(self, encoder):
        self.encoder = encoder
        self.signature = f"bertscore:{encoder.signature}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        f1 = self.encoder.bertscore([ref for ref, _ in pairs], [ans for _, ans in pairs])[2]
        return [min(1.0, max(0.0, value)) for value in f1]
