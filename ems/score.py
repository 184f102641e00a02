"""Stage 3: how well a matched pair agrees, from 0 to 1 (paper, section 2.3, eq. 5).

A scorer is called with (reference point, answer point) pairs and returns a float in [0, 1] for each, or None
when its reply could not be read. `GroupScorer` and `WholeScorer` are called in other ways.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, runtime_checkable

from .asking import Judge, Reply, Request, as_judge, read_reply
from .ngrams import BLEU_SIGNATURE, Rouge, bleu
from .prompting import Prompts
from .reading import read_score
from .sanitise import quoted
from .types import EMSResult, InputError

MAX_TOKENS = 32          # of a reply that is a number


class Scorer(Protocol):
    """Anything that scores pairs of points; `name` and `signature` enter every result."""

    name: str
    signature: str

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]: ...


@runtime_checkable
class WholeScorer(Protocol):
    """A scorer that holds each point against the whole other side, both ways. Not the paper's eq. 7.

    `cover` fills `score` and `ans_score` (in [0, 1] or None) of alignments whose points could be read, and
    optionally the weights (positive) and the nearest points (`match`, `ans_match`) for the reader. It needs
    no matcher.
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


class JudgedScorer:
    """What every scorer on a judge's scale 0 .. `max_score` has. `unread` counts lost scores, by reason."""

    name, template = "llm", "score"
    suffix = ""              # of the signature, for another kind of score than a whole number a pair

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *,
                 max_score: int = 10):
        if not 1 <= max_score <= 10**6:
            raise InputError(f"max_score must be 1 to a million, got {max_score}")
        self.judge, self.prompts, self.max_score = as_judge(judge), prompts or Prompts(), max_score
        self.unread: Counter[str] = Counter()
        self.signature = f"{self.name}:{self.prompts.signature(self.template)},max={max_score}{self.suffix}"


class LLMScorer(JudgedScorer):
    """A whole number 0 .. `max_score` from the judge, divided by `max_score` (10 in the paper's examples)."""

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        requests = [self.request(ref, ans) for ref, ans in pairs]
        return [self.read(reply) for reply in self.judge.ask(requests, "score pairs")]

    def request(self, ref: str, ans: str) -> Request:
        """The question about one pair."""
        prompt = self.prompts.fill("score", reference=quoted(ref), candidate=quoted(ans),
                                   **scale(self.max_score))
        return Request("score", prompt, MAX_TOKENS, choices=range(self.max_score + 1))

    def read(self, reply: Reply) -> float | None:
        """The score that a reply gives, None where it gives none."""
        return read_reply(reply, partial(read_score, max_score=self.max_score), "score", self.unread)


def scale(max_score: int) -> dict[str, str]:
    """What a scoring prompt says of its scale."""
    middle, low = round(max_score / 2), round(max_score / 10)
    return {"max_score": str(max_score), "middle": str(middle), "low": str(low)}


class RougeScorer:
    """ROUGE-F1 of two points (rouge-score, with stemming), in [0, 1]. `kind` is rouge1, rouge2 or rougeL.

    The paper names neither the kind nor stemming.
    """

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
