"""Stage 1: from a long answer to its saliency points (paper, section 2.1, eq. 1-2).

An extractor is called with texts and returns, for each, a tuple of points, or None when its reply could not
be read. Summaries at the beginning and the end are removed by a step of their own; every repetition is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from .asking import Judge, Request, as_judge, list_schema, read_reply, reply_schema, room
from .parsing.blocks import LEAST_BLOCKS, blocks_of, without_summaries
from .prompting import Prompts
from .reading import read_block_numbers, read_list
from .sanitise import harmless, numbered
from .types import Points

BLOCKS_SCHEMA = reply_schema("blocks", {"type": "integer"})


class Extractor(Protocol):
    """Anything that cuts texts into points; `signature` enters every result."""

    signature: str

    def __call__(self, texts: Sequence[str]) -> list[Points | None]: ...


class LLMExtractor:
    """Points written by a judge: one call to find opening and closing summaries, one to list the points.

    Only blocks at the two ends are removed, and a text of fewer than three blocks has no summary. An empty
    text has no points and costs no call. `keep_summaries=True` leaves the first call out (an ablation; the
    paper removes them). `unread` counts, by task and reason, the replies that gave no points.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *,
                 keep_summaries: bool = False):
        self.judge, self.prompts, self.keep_summaries = as_judge(judge), prompts or Prompts(), keep_summaries
        self.unread: Counter[str] = Counter()
        tasks = ("extract",) if keep_summaries else ("summary", "extract")
        kept = ",summaries kept" if keep_summaries else ""
        self.signature = f"llm:{self.prompts.signature(*tasks)}{kept}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        bodies: list[str | None] = [harmless(text) for text in texts]
        if not self.keep_summaries:
            bodies = self._without_summaries([body or "" for body in bodies])
        asked = [(i, body) for i, body in enumerate(bodies) if body]
        requests = [self._request(body) for _, body in asked]
        points: list[Points | None] = [None if body is None else () for body in bodies]
        for (i, _), reply in zip(asked, self.judge.ask(requests, "extract points"), strict=True):
            listed = read_reply(reply, lambda text: read_list(text, "points"), "extract", self.unread)
            points[i] = None if listed is None else tuple(listed)
        return points

    def _request(self, body: str) -> Request:
        schema = self.prompts.schema("extract", list_schema("points", body))
        return Request("extract", self.prompts.fill("extract", answer=body), room(body), schema, about=body)

    def _without_summaries(self, bodies: Sequence[str]) -> list[str | None]:
        """Each text without the blocks at its ends that the judge names; None where its reply gives none."""
        blocks = [blocks_of(body) for body in bodies]
        asked = [i for i, parts in enumerate(blocks) if len(parts) >= LEAST_BLOCKS]
        requests = [
            Request("summary", self.prompts.fill("summary", blocks=numbered(blocks[i])), 256, BLOCKS_SCHEMA)
            for i in asked
        ]
        kept: list[str | None] = list(bodies)
        for i, reply in zip(asked, self.judge.ask(requests, "remove summaries"), strict=True):
            read = partial(read_block_numbers, n_blocks=len(blocks[i]))
            named = read_reply(reply, read, "summary", self.unread)
            kept[i] = None if named is None else without_summaries(bodies[i], blocks[i], named)
        return kept
