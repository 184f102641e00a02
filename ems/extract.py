"""Stage 1: from a long answer to its saliency points (paper, section 2.1, eq. 1-2).

Opening and closing summaries are removed first, by a call of their own; every repetition is kept.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from .judge import Judge, Request, as_judge, listed, reply_schema
from .prompts import Prompts, numbered, sanitized
from .reading import parsed, read_list, read_numbers
from .types import Points

BLOCKS_SCHEMA = reply_schema("blocks", {"type": "integer"})
LEAST_BLOCKS = 3  # with fewer there is no body between an opening and a closing
# What a sentence seldom exceeds. Where a server keeps to the schema, it stops a judge that repeats itself.
PER_SENTENCE = {"points": 2, "claims": 3}
_SENTENCE_END = re.compile(r"[.!?;]\s|[。！？；]|\n")
OTHER_SCRIPT = re.compile("[\u0370-\u1fff\u2c00-\U0010ffff]")  # not Latin, no punctuation


class Extractor(Protocol):
    """Anything that cuts texts into points: for each text its points, or None where the reply was no list."""

    signature: str

    def __call__(self, texts: Sequence[str]) -> list[Points | None]: ...


class LLMExtractor:
    """Points by a judge: one call to find summaries in a text of three blocks or more, one to list points."""

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None):
        self.judge, self.prompts = as_judge(judge), prompts or Prompts()
        self.failures: Counter[str] = Counter()
        self.signature = f"llm:{self.prompts.signature('summary', 'extract')}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        bodies = self._without_summaries([sanitized(text) for text in texts])
        requests = {
            body: list_request(self.prompts, "extract", "points", body, room(body))
            for body in bodies
            if body
        }
        points = ask_lists(self.judge, requests, "points", self.failures)
        return [None if body is None else points.get(body, ()) for body in bodies]

    def _without_summaries(self, texts: Sequence[str]) -> list[str | None]:
        """Each text without the blocks at its ends that the judge names; None where that is unreadable."""
        asked = {text: blocks for text in texts if len(blocks := blocks_of(text)) >= LEAST_BLOCKS}
        prompts = [
            self.prompts.fill("summary", blocks=numbered(blocks)) for blocks in asked.values()
        ]
        replies = self.judge.ask(
            [Request("summary", prompt, 256, BLOCKS_SCHEMA) for prompt in prompts],
            "remove summaries",
        )
        bodies: dict[str, str | None] = {}
        for (text, blocks), reply in zip(asked.items(), replies, strict=True):
            read = partial(read_numbers, key="blocks", count=len(blocks))
            named = parsed(reply, read, "summary", self.failures)
            bodies[text] = None if named is None else without_summaries(text, blocks, named)
        return [bodies.get(text, text) for text in texts]


def list_request(
    prompts: Prompts, task: str, key: str, text: str, tokens: int, **slots: str
) -> Request:
    """The question for a list `{key: [strings]}` of what `text` says, with as many as the text can hold."""
    most = PER_SENTENCE[key] * (len(_SENTENCE_END.findall(text)) + 1)
    share = text[: 3 * len(text) // (2 * most) + 1]  # half as long again as the text's share
    asks_for_json = "JSON" in prompts.template(task).template  # with another form goes no schema
    schema = reply_schema(key, {"type": "string"}, maxItems=most) if asks_for_json else None
    return Request(
        task,
        prompts.fill(task, answer=text, **slots),
        tokens,
        schema,
        assumed=lambda: listed(key, [f"{i} {share}" for i in range(most)]),
        read=partial(read_list, key=key),
    )


def ask_lists(
    judge: Judge, requests: Mapping[Any, Request], key: str, failures: Counter[str]
) -> dict[Any, Points | None]:
    """The strings that each `list_request` is answered with; None, counted in `failures`, if unreadable."""
    replies = judge.ask(list(requests.values()), f"list {key}")
    lists = [parsed(reply, partial(read_list, key=key), reply.task, failures) for reply in replies]
    return {
        name: None if entries is None else tuple(entries)
        for name, entries in zip(requests, lists, strict=True)
    }


def room(text: str) -> int:
    """Tokens of a reply that lists what `text` says: twice what Latin letters take, more in other scripts."""
    return 256 + len(text) // 2 + 2 * len(OTHER_SCRIPT.findall(text))


def blocks_of(text: str) -> list[str]:
    """Paragraphs of a text as they stand in it, a heading with what follows; its lines if those are few."""
    parts = re.split(r"\n\s*\n", text)
    if sum(bool(part.strip()) for part in parts) < LEAST_BLOCKS:
        parts = text.splitlines()
    blocks: list[str] = []
    start = end = 0
    for part in filter(None, map(str.strip, parts)):
        if not (blocks and _is_heading(blocks[-1])):
            start = text.index(part, end)
            blocks.append("")
        end = text.index(part, end) + len(part)
        blocks[-1] = text[start:end]
    return blocks


def without_summaries(text: str, blocks: Sequence[str], named: Collection[int]) -> str:
    """A text less those of its blocks (`blocks_of`) that are named and lie at either end.

    A named block in the middle stays. If every block is named all stay: a text cannot be only its summary.
    """
    kept = [i for i in range(len(blocks)) if i not in named]
    if not kept:
        return text
    for block in blocks[: kept[0]]:
        text = text.strip().removeprefix(block)
    for block in reversed(blocks[kept[-1] + 1 :]):
        text = text.strip().removesuffix(block)
    return text.strip()


def _is_heading(block: str) -> bool:
    """A block that only names what follows: one short line, marked or without an end of sentence."""
    marked = re.match(r"#{1,6}\s|\*\*[^*]+\*\*:?$", block)
    is_short = len(block) <= 60 and not re.search(r"[.!?;。,]$|^[-*•\d]", block)
    return "\n" not in block and bool(marked or is_short)
