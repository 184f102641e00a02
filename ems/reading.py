"""Reading a judge's replies. Off the menu, ambiguous or cut means None (unscored), never a guess and never a
number.
"""

from __future__ import annotations

import re
from typing import Any

from .parsing.json_in_text import QUOTES, values_in
from .parsing.reply_text import bare_reply, last_line
from .parsing.stated_number import BARE, ECHO, LABEL, on_scale, stated, whole

_ITEM = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s+(?=\S)")


def read_list(reply: str, key: str) -> list[str] | None:
    """The strings of a list: `{key: [...]}`, a bare JSON or Python list, or a bulleted or numbered list.

    A nested list is flattened in order. None when there is no list, when it does not end, when an entry is
    neither text nor list, or when there are several different ones. An empty list is an answer: no points.
    """
    text = bare_reply(reply)
    if _ITEM.match(text):
        return _items(text)
    lists = []
    for data in _held(text, key):
        if isinstance(data, list) and (points := _flat(data)) is not None and points not in lists:
            lists.append(points)
    if lists or text[:1] in ("[", "{") or '{"' in text or re.search(r"[\[{]\s*$", text, re.M):
        return lists[0] if len(lists) == 1 else None
    return _items(text)


def read_index(reply: str, n_points: int, first: int = 0) -> int | None:
    """The 0-based index that the reply's last line names, or -1 for none; None when absent or off the menu.

    The menu counts its `n_points` entries from `first`. An entry repeated with its number, `2: "..."`, names
    it too. None as well when the reply names other numbers in the same way (`stated`).
    """
    number = stated(reply, [BARE, ECHO])
    if number is None or number == -1:
        return number
    return number - first if 0 <= number - first < n_points else None


def read_score(reply: str, max_score: int) -> float | None:
    """The whole number 0 .. max_score on the reply's last line, divided by max_score; None for anything else.

    "7/10" and "7 out of 10" are read when their second number is max_score. The judge is asked for a whole
    number: 7.5 is none, 7.0 in JSON is. None as well when the reply states other numbers in the same way
    (`stated`).
    """
    number = stated(reply, [BARE, on_scale(max_score)])
    return number / max_score if number is not None and 0 <= number <= max_score else None


def read_word(reply: str, words: tuple[str, ...]) -> str | None:
    """Which of `words` the last line consists of, case aside; None when it is another word or several."""
    last = re.sub(rf"^{LABEL}", "", last_line(reply)).strip(" .*_`" + QUOTES).lower()
    return next((word for word in words if word.lower() == last), None)


def read_numbers(reply: str, key: str, n: int) -> list[int] | None:
    """Distinct numbers 0 .. n - 1 from `{key: [...]}` or a bare list; None without one, or with others.

    None as well when there are several different lists: one may belong to the prose around the other.
    """
    lists: list[list[int]] = []
    for data in _held(bare_reply(reply), key):
        if not isinstance(data, list):
            return None
        numbers: list[Any] = [whole(x) if isinstance(x, str) else x for x in data]
        if any(not isinstance(x, int) or isinstance(x, bool) or not 0 <= x < n for x in numbers):
            return None
        if (distinct := sorted(set(numbers))) not in lists:
            lists.append(distinct)
    return lists[0] if len(lists) == 1 else None


def read_words(reply: str, key: str, count: int, words: tuple[str, ...]) -> list[str | None] | None:
    """One of `words` for each of `count` questions, as by `read_word`, from `{key: [...]}` or a bare list.

    None for an entry that is none of them; None for all when there is no list of so many entries, or several.
    """
    entries = read_entries(reply, key, count)
    return None if entries is None else [read_word(entry, words) for entry in entries]


def read_entries(reply: str, key: str, count: int) -> list[str] | None:
    """The `count` entries of the one list in a joint reply; "" where one is no number or text."""
    rows = read_rows(reply, key)
    if rows is None or len(rows) != count:
        return None
    return [str(row) if type(row) in (int, str) else "" for row in rows]


def read_rows(reply: str, key: str) -> list[Any] | None:
    """The one list in a joint reply, `{key: [...]}` or bare, with entries of whatever kind."""
    lists = _held(bare_reply(reply), key)
    return lists[0] if len(lists) == 1 and isinstance(lists[0], list) else None


def _held(text: str, key: str) -> list[Any]:
    """What each JSON object in a text holds under `key`, and each bare list."""
    return [data.get(key) if isinstance(data, dict) else data for data in values_in(text)]


def _items(text: str) -> list[str] | None:
    """A bulleted or numbered list, a line an entry; one line may introduce it and one may follow it."""
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [bool(_ITEM.match(line)) for line in lines]
    if not any(marked):
        return None
    first, last = marked.index(True), len(marked) - marked[::-1].index(True)
    if not all(marked[first:last]) or first > 1 or len(lines) - last > 1:
        return None                # prose in between belongs to nobody knows which entry
    points = [_clean(_ITEM.sub("", line).strip().strip('"')) for line in lines[first:last]]
    return [p for p in points if p]


def _flat(data: list[Any]) -> list[str] | None:
    points: list[str] = []
    for item in data:
        if isinstance(item, str):
            points.append(_clean(item))
        elif isinstance(item, list) and (inner := _flat(item)) is not None:
            points.extend(inner)
        else:
            return None
    return [p for p in points if p]


def _clean(point: str) -> str:
    """Without the halves of surrogate pairs, which no file can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", point).strip()
