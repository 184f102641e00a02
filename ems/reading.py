"""Reading a judge's replies. One that is ambiguous, cut off, or names what was not offered gives None: it is
unscored, never guessed, never a number.
"""

from __future__ import annotations

import re
from typing import Any

from .parsing.json_in_text import QUOTES
from .parsing.lists import ITEM, flat_texts, held, listed_lines
from .parsing.reply_text import bare_reply, last_line
from .parsing.stated_number import BARE, ECHO, LABEL, on_scale, stated, whole


def read_list(reply: str, key: str) -> list[str] | None:
    """The strings of a list: `{key: [...]}`, a bare JSON or Python list, or a bulleted or numbered list.

    A nested list is flattened in order. None when there is no list, when it does not end, when an entry is
    neither text nor list, or when there are several different ones. An empty list is an answer: no points.
    """
    text = bare_reply(reply)
    if ITEM.match(text):
        return listed_lines(text)
    lists = []
    for data in held(text, key):
        if isinstance(data, list) and (points := flat_texts(data)) is not None and points not in lists:
            lists.append(points)
    if lists or text[:1] in ("[", "{") or '{"' in text or re.search(r"[\[{]\s*$", text, re.M):
        return lists[0] if len(lists) == 1 else None
    return listed_lines(text)


def read_index(reply: str, n_points: int, first: int = 0) -> int | None:
    """The 0-based index that the reply's last line names, or -1 for none; None for any other reply.

    The candidates are `n_points`, counted from `first`. One repeated with its number, `2: "..."`, is named,
    too. None as well when the reply names other numbers in the same way (`stated`).
    """
    number = stated(reply, [BARE, ECHO])
    if number is None or number == -1:
        return number
    return number - first if 0 <= number - first < n_points else None


def read_score(reply: str, max_score: int) -> float | None:
    """The whole number 0 .. max_score on the reply's last line, divided by max_score; None for anything else.

    "7/10" and "7 out of 10" are read when their second number is max_score. The judge is asked for a whole
    number: 7.5 gives None, 7.0 within JSON gives 7. None as well when the reply states other numbers in the
    same way (`stated`).
    """
    number = stated(reply, [BARE, on_scale(max_score)])
    return number / max_score if number is not None and 0 <= number <= max_score else None


def read_word(reply: str, words: tuple[str, ...]) -> str | None:
    """Which of `words` the last line consists of, case aside; None when it is another word or several."""
    last = re.sub(rf"^{LABEL}", "", last_line(reply)).strip(" .*_`" + QUOTES).lower()
    return next((word for word in words if word.lower() == last), None)


def read_block_numbers(reply: str, n_blocks: int) -> list[int] | None:
    """Distinct numbers 0 .. n_blocks - 1 from `{"blocks": [...]}` or a bare list; None without one, or with
    others. None as well when there are several different lists: one may belong to the prose around the other.
    """
    lists: list[list[int]] = []
    for data in held(bare_reply(reply), "blocks"):
        if not isinstance(data, list):
            return None
        numbers: list[Any] = [whole(x) if isinstance(x, str) else x for x in data]
        if any(not isinstance(x, int) or isinstance(x, bool) or not 0 <= x < n_blocks for x in numbers):
            return None
        if (distinct := sorted(set(numbers))) not in lists:
            lists.append(distinct)
    return lists[0] if len(lists) == 1 else None
