"""Stage 3: how well a matched pair agrees, from 0 to 1 (paper, section 2.3, eq. 5).

A scorer is called with (reference point, answer point) pairs and returns a float in [0, 1] for each, or None
when its reply could not be read. A scorer that judges whole sides has `cover` instead, see `WholeScorer`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from .local.overlap import Rouge
from .prompting import Prompts, as_judge
from .reading import read_score, read_scores
from .sanitise import numbered, quoted
from .types import EMSResult, InputError, Judge, Request

SCORES_SCHEMA: dict[str, Any] = {"type": "object",
                                 "properties": {"scores": {"type": "array", "items": {"type": "integer"}}},
                                 "required": ["scores"], "additionalProperties": False}
MAX_TOKENS = 32          # of a reply that is a number
SAMPLES = 20             # replies a pair whose mean is its score, as in G-Eval (arXiv:2303.16634)
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

    def _read(self, reply: Any) -> float | None:
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


class _ListScorer:
    """Asks a judge for lists of whole numbers 0 .. `max_score`, with one template for all."""

    name = template = suffix = ""

    def __init__(
        self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *, max_score: int = 10
    ):
        if max_score < 1:
            raise InputError(f"max_score must be 1 or more, got {max_score}")
        self.judge, self.prompts, self.max_score = as_judge(judge), prompts or Prompts(), max_score
        self.unread: Counter[str] = Counter()
        prompt = self.prompts.signature(self.template)
        self.signature = f"{self.name}:{prompt},max={max_score}{self.suffix}"

    def _ask(
        self, slots: Sequence[Mapping[str, str]], counts: Sequence[int], progress: str
    ) -> Iterator[list[float | None]]:
        """For each prompt as many scores as it asks for, each None where it could not be read."""
        requests = [
            Request("score", self.prompts.fill(self.template, **values, **scale(self.max_score)),
                    32 + 8 * count, SCORES_SCHEMA, choices=range(self.max_score + 1), entries=count)
            for values, count in zip(slots, counts, strict=True)
        ]
        for count, reply in zip(counts, self.judge.ask(requests, progress), strict=True):
            read = None
            if reply.text is not None:
                read = read_scores(reply.text, "scores", count, self.max_score)
            scores: list[float | None] = [None] * count if read is None else read
            if lost := scores.count(None):
                self.unread[f"score: {reply.error or 'unreadable'}"] += lost
            yield scores


class JointLLMScorer(_ListScorer):
    """All matched pairs of an answer scored in one call; else as `LLMScorer`. The signature says so.

    A reply without exactly one number a pair leaves all pairs of its answer unscored; a number off the scale,
    its own.
    """

    name, template, suffix = "llm", "score_all", ",variant=all"

    def by_answer(self, groups: Sequence[Sequence[tuple[str, str]]]) -> list[list[float | None]]:
        """The scores of each answer's pairs, in their order."""
        asked = [pairs for pairs in groups if pairs]
        slots = [{"pairs": _listed(pairs)} for pairs in asked]
        scores = self._ask(slots, [len(pairs) for pairs in asked], "score pairs")
        return [next(scores) if pairs else [] for pairs in groups]


class SidesLLMScorer(_ListScorer):
    """Each point held by a judge against the whole other side, both ways: two calls an answer. Not eq. 7.

    Scores are whole numbers 0 .. `max_score`, divided by `max_score`. An answer without points costs no call.
    A reply without exactly one number a point leaves its side unscored.
    """

    name, template = "llm-sides", "sides"

    def cover(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """The alignments with the scores of both sides; no nearest points are named."""
        sides = [side for a in alignments if a.ref_points and a.ans_points
                 for side in ((a.ref_points, a.ans_points), (a.ans_points, a.supporting))]
        slots = [{"points": numbered(points), "others": _bare(others)} for points, others in sides]
        scores = self._ask(slots, [len(points) for points, _ in sides], "score sides")
        covered = []
        for a in alignments:
            ref: list[float | None] = [0.0] * len(a.ref_points)
            ans: list[float | None] = [0.0] * len(a.ans_points)
            if a.ref_points and a.ans_points:
                ref, ans = next(scores), next(scores)
            covered.append(replace(a, match=(None,) * len(ref), score=tuple(ref), ans_score=tuple(ans)))
        return covered


def scale(max_score: int) -> dict[str, str]:
    """What a scoring prompt says of its scale."""
    middle, low = round(max_score / 2), round(max_score / 10)
    return {"max_score": str(max_score), "middle": str(middle), "low": str(low)}


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{i}: {quoted(ref)}\n   {quoted(ans)}" for i, (ref, ans) in enumerate(pairs))


def _bare(points: Sequence[str]) -> str:
    """Points as lines without numbers, which are left to the points that are scored."""
    return "\n".join(f"- {quoted(point)}" for point in points if point)


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
