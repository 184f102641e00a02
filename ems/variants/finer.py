"""Scores on a finer scale than a judge's whole numbers: by probabilities, or the mean of several replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..asking import Reply, Request
from ..score import LLMScorer
from ..types import InputError

TOP_LOGPROBS = 20        # likely first tokens to ask for: as many as the official endpoint gives
HIGHEST = 9              # many tokenizers split numbers of two digits
SAMPLES = 20             # replies a pair, as in G-Eval (arXiv:2303.16634)


class ExpectedLLMScorer(LLMScorer):
    """The mean of 0 .. `max_score` by the probability of each as the reply's first token, by `max_score`.

    An endpoint that gives no probabilities leaves the pair unscored, and so does a reply that was cut or
    declined, whatever its first token. InputError for a `max_score` above `HIGHEST`.
    """

    suffix = ",expected"

    def __init__(self, judge: Any, prompts: Any = None, *, max_score: int = HIGHEST, **settings: Any):
        if max_score > HIGHEST:
            raise InputError(f"max_score must be {HIGHEST} or less for an expected score, got {max_score}")
        super().__init__(judge, prompts, max_score=max_score, **settings)

    def request(self, ref: str, ans: str) -> Request:
        """The question about one pair, with the probabilities of likely first tokens."""
        return replace(super().request(ref, ans), top_logprobs=TOP_LOGPROBS)

    def read(self, reply: Reply) -> float | None:
        """The mean over likely first tokens, None where there is none (`mean_score`)."""
        score = None if reply.text is None else mean_score(reply.probabilities, self.max_score)
        if score is None:
            self.unread[f"score: {reply.error or 'no probabilities'}"] += 1
        return score


class SampledLLMScorer(LLMScorer):
    """The mean of several replies to the same question, for a judge whose temperature is above 0.

    Of the replies to a pair at least half must be read; otherwise it is unscored.
    """

    def __init__(self, judge: Any, prompts: Any = None, *, samples: int = SAMPLES, **settings: Any):
        if samples < 1:
            raise InputError(f"samples must be 1 or more, got {samples}")
        self.samples, self.suffix = samples, f",mean of {samples} replies"
        super().__init__(judge, prompts, **settings)

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        requests = [replace(self.request(*pair), sample=k) for pair in pairs for k in range(self.samples)]
        scores = [self.read(reply) for reply in self.judge.ask(requests, "score pairs")]
        return [_mean_of_half(scores[i:i + self.samples]) for i in range(0, len(scores), self.samples)]


def _mean_of_half(scores: Sequence[float | None]) -> float | None:
    """Mean of the scores that could be read; None when they are fewer than half."""
    read = [s for s in scores if s is not None]
    return sum(read) / len(read) if 2 * len(read) >= len(scores) else None


def mean_score(probabilities: Mapping[str, float], max_score: int) -> float | None:
    """Mean in [0, 1] of the numbers 0 .. max_score among likely first tokens, by probability, by `max_score`.

    None when numbers have less than half of the probability: then the judge is about to say something else.
    """
    numbers = [(int(token), p) for token, p in probabilities.items()
               if token.strip().isascii() and token.strip().isdigit() and int(token) <= max_score]
    total = sum(p for _, p in numbers)
    # The quotient of equal sums may be rounded to a little more than 1.
    return min(1.0, sum(n * p for n, p in numbers) / total / max_score) if total >= 0.5 else None
