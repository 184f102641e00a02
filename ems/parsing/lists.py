"""Lists in a reply: JSON lists, whole or under a key, and bulleted or numbered lines."""

from __future__ import annotations

import re
from typing import Any

from .json_in_text import values_in
from .reply_text import bare_reply

ITEM = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s+(?=\S)")


def held(text: str, key: str) -> list[Any]:
    """What each JSON object in a text holds under `key`, and each bare list."""
    return [data.get(key) if isinstance(data, dict) else data for data in values_in(text)]


def read_rows(reply: str, key: str) -> list[Any] | None:
    """The one list in a joint reply, `{key: [...]}` or bare, with entries of whatever kind."""
    lists = held(bare_reply(reply), key)
    return lists[0] if len(lists) == 1 and isinstance(lists[0], list) else None


def listed_lines(text: str) -> list[str] | None:
    """A bulleted or numbered list, a line an entry; one line may introduce it and one may follow it."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [bool(ITEM.match(line)) for line in lines]
    if not any(marked):
        return None
    first, last = marked.index(True), len(marked) - marked[::-1].index(True)
    if not all(marked[first:last]) or first > 1 or len(lines) - last > 1:
        return None                # prose in between: it is not clear to which entry it belongs
    points = [_clean(ITEM.sub("", line).strip().strip('"')) for line in lines[first:last]]
    return [p for p in points if p]


def flat_texts(data: list[Any]) -> list[str] | None:
    """The strings of a list, nested lists flattened in order; None when an entry is neither."""
    points: list[str] = []
    for item in data:
        if isinstance(item, str):
            points.append(_clean(item))
        elif isinstance(item, list) and (inner := flat_texts(item)) is not None:
            points.extend(inner)
        else:
            return None
    return [p for p in points if p]


def _clean(point: str) -> str:
    """Without the halves of surrogate pairs, which no file can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", point).strip()
