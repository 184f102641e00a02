"""Stage 2: the best answer point for each reference point, or none (paper, section 2.2, eq. 3-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from .judge import Judge, Request, as_judge, listed, reply_schema
from .prompts import Prompts, numbered, quoted
from .reading import parsed, parsed_rows, read_index, read_rows
from .types import Match, Points

MATCHES_SCHEMA = reply_schema("matches", {"type": "integer"})
Pair = tuple[Points, Points]  # the reference's points and the answer's


class Matcher(Protocol):
    """Anything that pairs points: for each pair of point lists one `Match`, an entry per reference point."""

    signature: str

    def __call__(self, pairs: Sequence[Pair]) -> list[Match]: ...


class LLMMatcher:
    """A judge names for a reference point the answer point that says the same, or none (eq. 4).

    It is asked once per reference point, as in the paper; with `joint` once per answer, about all reference
    points together. Without answer points every reference point is unmatched and no call is made. An
    unreadable choice is None; a joint reply without exactly one entry a point leaves them all None.
    `failures` counts them.
    """

    def __init__(
        self,
        judge: Judge | Callable[[str], str],
        prompts: Prompts | None = None,
        *,
        joint: bool = False,
    ):
        self.judge, self.prompts, self.joint = as_judge(judge), prompts or Prompts(), joint
        self.failures: Counter[str] = Counter()
        template = self.prompts.signature("match_all" if joint else "match")
        self.signature = f"llm:{template}" + (",joint" if joint else "")

    def __call__(self, pairs: Sequence[Pair]) -> list[Match]:
        asked = [(ref, ans) for ref, ans in pairs if ref and ans]
        matches = iter(self._joint(asked) if self.joint else self._one_by_one(asked))
        return [next(matches) if ref and ans else (-1,) * len(ref) for ref, ans in pairs]

    def _one_by_one(self, pairs: Sequence[Pair]) -> list[Match]:
        requests = []
        for ref, ans in pairs:
            candidates = numbered(ans)
            for i, point in enumerate(ref):
                prompt = self.prompts.fill("match", reference=quoted(point), candidates=candidates)
                requests.append(
                    Request(
                        "match",
                        prompt,
                        32,
                        assumed=partial(str, i % len(ans)),
                        read=partial(read_index, n_points=len(ans)),
                    )
                )
        replies = iter(self.judge.ask(requests, "match points"))
        return [
            tuple(
                parsed(
                    next(replies), partial(read_index, n_points=len(ans)), "match", self.failures
                )
                for _ in ref
            )
            for ref, ans in pairs
        ]

    def _joint(self, pairs: Sequence[Pair]) -> list[Match]:
        requests = []
        for ref, ans in pairs:
            prompt = self.prompts.fill(
                "match_all", references=numbered(ref), candidates=numbered(ans)
            )
            spread = [i % len(ans) for i in range(len(ref))]
            requests.append(
                Request(
                    "match",
                    prompt,
                    32 + 8 * len(ref),
                    MATCHES_SCHEMA,
                    assumed=partial(listed, "matches", spread),
                    read=partial(read_rows, key="matches", count=len(ref), read=str),
                )
            )
        replies = self.judge.ask(requests, "match points")
        return [
            tuple(
                parsed_rows(
                    reply,
                    "matches",
                    len(ref),
                    partial(read_index, n_points=len(ans)),
                    "match",
                    self.failures,
                )
            )
            for reply, (ref, ans) in zip(replies, pairs, strict=True)
        ]
