"""Stage 1: from a long answer to its saliency points (paper, section 2.1, eq. 1-2).

Opening and closing summaries are removed first, by a call of their own; every repetition is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import partial
from typing import Protocol

from .judge import AnyJudge, JudgeStage, Request, listed, reply_schema
from .prompts import Prompts, numbered, sanitized
from .reading import read_list, read_numbers
from .types import Points

BLOCKS_SCHEMA = reply_schema("blocks", {"type": "integer"})
LEAST_BLOCKS = 3  # with fewer there is no body between an opening and a closing
# Few sentences make more entries than this. Where a server keeps to the schema, the limit stops a
# judge that repeats itself.
MOST_PER_SENTENCE = {"points": 2, "claims": 3}
_SENTENCE_END = re.compile(r"[.!?;]\s|[。！？；]|\n")
OTHER_SCRIPT = re.compile("[\u0370-\u1fff\u2c00-\U0010ffff]")  # not Latin, no punctuation


class Extractor(Protocol):
    """Anything that cuts texts into points: for each text its points, or None for a lost reply."""

    signature: str

    def __call__(self, texts: Sequence[str]) -> list[Points | None]: ...


class LLMExtractor(JudgeStage):
    """Points by a judge: one call finds the summaries in a text of three blocks or more, one lists.

    A text for which either reply cannot be read has no points: None. `failures` counts these.
    """

    def __init__(self, judge: AnyJudge, prompts: Prompts | None = None):
        super().__init__(judge, prompts)
        self.signature = f"llm:{self.prompts.signature('summary', 'extract')}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        bodies = self._without_summaries([sanitized(text) for text in texts])
        requests = {}
        # The longest go first: their replies take most time, and a stage waits for its last one.
        for body in sorted(filter(None, bodies), key=len, reverse=True):
            requests[body] = list_request(self.prompts, "extract", "points", body)
        lists = self.ask_and_read([*requests.values()], "list points")
        points = dict(zip(requests, lists, strict=True))
        return [None if body is None else points.get(body, ()) for body in bodies]

    def _without_summaries(self, texts: Sequence[str]) -> list[str | None]:
        """Each text without the summaries at its ends; None where the reply is lost."""
        requests = {}
        for text in texts:
            blocks = blocks_of(text)
            if len(blocks) >= LEAST_BLOCKS:
                requests[text] = Request(
                    "summary",
                    self.prompts.fill("summary", blocks=numbered(blocks)),
                    256,
                    BLOCKS_SCHEMA,
                    assumed=partial(listed, "blocks", []),
                    read=partial(_read_body, text=text, blocks=blocks),
                )
        values = self.ask_and_read([*requests.values()], "remove summaries")
        bodies = dict(zip(requests, values, strict=True))
        return [bodies.get(text, text) for text in texts]


def _read_body(reply: str, text: str, blocks: Sequence[str]) -> str | None:
    """A text without the blocks that a reply names as its summaries; None for a lost reply."""
    summaries = read_numbers(reply, "blocks", len(blocks))
    return None if summaries is None else without_summaries(text, blocks, summaries)


def list_request(prompts: Prompts, task: str, key: str, text: str, **slots: str) -> Request:
    """The question for a list `{key: [strings]}` of what `text` states.

    The reply's limit is twice the tokens that the text in Latin letters takes; a character of
    another script takes two tokens more. Claims repeat their subjects: they take twice as many.
    """
    tokens = 256 + len(text) // 2 + 2 * len(OTHER_SCRIPT.findall(text))
    if key == "claims":
        tokens *= 2
    sentences = len(_SENTENCE_END.findall(text)) + 1
    most = MOST_PER_SENTENCE[key] * sentences
    entry = text[: 3 * len(text) // (2 * most) + 1]  # 1.5 times an entry's share of the text
    schema = None
    if "JSON" in prompts.template(task).template:  # a prompt that asks for another form has none
        schema = reply_schema(key, {"type": "string"}, maxItems=most)
    return Request(
        task,
        prompts.fill(task, answer=text, **slots),
        tokens,
        schema,
        assumed=lambda: listed(key, [f"{i} {entry}" for i in range(most)]),
        read=partial(read_list, key=key),
    )


def blocks_of(text: str) -> list[str]:
    """The paragraphs of a text as they stand in it, each heading with what follows it.

    Where there are fewer than three paragraphs, its lines.
    """
    parts: list[str] = []
    for separator in (r"\n\s*\n", r"\n"):
        if len(parts) < LEAST_BLOCKS:
            parts = [part.strip() for part in re.split(separator, text) if part.strip()]
    blocks: list[str] = []
    start = end = 0
    for part in parts:
        if not (blocks and _is_heading(blocks[-1])):
            start = text.index(part, end)
            blocks.append("")
        end = text.index(part, end) + len(part)
        blocks[-1] = text[start:end]
    return blocks


def without_summaries(text: str, blocks: Sequence[str], summaries: Collection[int]) -> str:
    """A text without its opening and closing summaries.

    `summaries` are indices of its `blocks` (`blocks_of`). One in the middle stays. If all blocks
    are named, all stay: a text cannot be only its summary.
    """
    body = [i for i in range(len(blocks)) if i not in summaries]
    if not body:
        return text
    for block in blocks[: body[0]]:
        text = text.strip().removeprefix(block)
    for block in reversed(blocks[body[-1] + 1 :]):
        text = text.strip().removesuffix(block)
    return text.strip()


def _is_heading(block: str) -> bool:
    """Whether a block only names what follows: one line, marked, or short without an end."""
    if "\n" in block:
        return False
    if re.match(r"#{1,6}\s|\*\*[^*]+\*\*:?$", block):
        return True
    return len(block) <= 60 and not re.search(r"[.!?;。,]$|^[-*•\d]", block)
