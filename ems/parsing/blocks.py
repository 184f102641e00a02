"""The blocks of a text, and what stays of it without those at its ends that are summaries."""

from __future__ import annotations

import re
from collections.abc import Sequence

LEAST_BLOCKS = 3      # with fewer there is no body between an opening and a closing


def blocks_of(text: str) -> list[str]:
    """Paragraphs of a text, a heading together with what follows it; its lines when it has no empty line."""
    parts = [p.strip() for p in re.split(r"\n\s*\n", text) if p.strip()]
    if len(parts) < LEAST_BLOCKS:
        parts = [line.strip() for line in text.splitlines() if line.strip()]
    blocks: list[str] = []
    for part in parts:
        if blocks and _is_heading(blocks[-1]):
            blocks[-1] += "\n" + part
        else:
            blocks.append(part)
    return blocks


def block_spans(text: str, blocks: Sequence[str]) -> list[tuple[int, int]]:
    """Where each of a text's blocks (`blocks_of`) begins and ends in it, in characters."""
    spans, end = [], 0
    for block in blocks:
        first, *others = block.splitlines()
        start = text.index(first, end)
        end = start + len(first)
        for line in others:
            end = text.index(line, end) + len(line)
        spans.append((start, end))
    return spans


def without_summaries(text: str, blocks: Sequence[str], named: Sequence[int]) -> str:
    """A text as it stands, less those of its blocks (`blocks_of`) that are named and lie at either end.

    A named block in the middle stays: only openings and closings are summaries. If every block is named, all
    stay: a text cannot be only a summary of itself.
    """
    summaries = set(named)
    if len(summaries) >= len(blocks):
        return text
    first, last = 0, len(blocks)
    while first in summaries:
        first += 1
    while last - 1 in summaries:
        last -= 1
    if last - first == len(blocks):
        return text
    spans = block_spans(text, blocks)
    return text[spans[first][0] : spans[last - 1][1]]


def _is_heading(block: str) -> bool:
    """A block that only names what follows: one short line, marked or without an end of sentence."""
    line = block.strip()
    marked = re.match(r"#{1,6}\s|\*\*[^*]+\*\*:?$", line)
    short = len(line) <= 60 and not re.search(r"[.!?;。,]$|^[-*•\d]", line)
    return "\n" not in line and bool(marked or short)
