"""Stage 2: the best answer point for each reference point, or none (paper, section 2.2, eq. 3-4).

A matcher is called with pairs of point lists and returns, for each pair, one entry per reference point: the 0-based
index of an answer point, -1 for none, None when the reply could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from .judge import Judge, Request, as_judge
from .prompting import Prompts, numbered, quoted
from .reading import read_index
from .similarity import read_point, similarity

Points = tuple[str, ...]


class Matcher(Protocol):
    """Anything that pairs points; `signature` enters every result."""

    signature: str

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[tuple[int | None, ...]]: ...


class LLMMatcher:
    """One question to the judge per reference point, with all answer points as the menu (eq. 4).

    Without answer points every reference point is unmatched and no call is made. `unread` counts the replies that
    gave no index, by reason.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *, max_tokens: int = 32):
        self.judge, self.prompts, self.max_tokens = as_judge(judge), prompts or Prompts(), max_tokens
        self.unread: Counter[str] = Counter()
        self.signature = f"llm:{self.prompts.signature('match')}"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[tuple[int | None, ...]]:
        menus = [numbered(ans) for _, ans in pairs]
        asked = [(p, i) for p, (ref, ans) in enumerate(pairs) for i in range(len(ref)) if ans]
        requests = [
            Request("match", self.prompts.fill("match", reference=quoted(pairs[p][0][i]), candidates=menus[p]),
                    self.max_tokens)
            for p, i in asked
        ]
        matches: list[list[int | None]] = [[-1] * len(ref) for ref, _ in pairs]
        for (p, i), reply in zip(asked, self.judge.ask(requests, "match points"), strict=True):
            index = None if reply.text is None else read_index(reply.text, len(pairs[p][1]))
            if index is None:
                self.unread[f"match: {reply.error or 'unreadable'}"] += 1
            matches[p][i] = index
        return [tuple(match) for match in matches]


# --- without a judge ---


class SimilarityMatcher:
    """The most similar answer point of each reference point, or -1 when none reaches `threshold` in (0, 1].

    Ties go to the earlier point. Deterministic; needs no judge.
    """

    def __init__(self, *, threshold: float = 0.25):
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold must be in (0, 1], got {threshold}")
        self.threshold = threshold
        self.signature = f"similarity:v1,threshold={threshold}"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[tuple[int | None, ...]]:
        return [self._match(ref, ans) for ref, ans in pairs]

    def _match(self, ref: Points, ans: Points) -> tuple[int, ...]:
        if not ans:
            return (-1,) * len(ref)
        answers = [read_point(p) for p in ans]
        rows = [[similarity(point, answer) for answer in answers] for point in map(read_point, ref)]
        best = [max(range(len(ans)), key=row.__getitem__) for row in rows]
        return tuple(j if row[j] >= self.threshold else -1 for j, row in zip(best, rows, strict=True))
