"""Text for a person at a terminal: safe lines, parts of messages, progress bars."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

# Control characters, marks of text direction, invisible characters, half surrogate pairs.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str, limit: int = 10_000) -> str:
    """One line that is safe to show, cut to `limit` characters.

    A run of white space becomes one space, and a control character becomes U+FFFD.
    """
    line = _UNSAFE.sub("\ufffd", " ".join(text.split()))
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def notify(message: object) -> None:
    """Print one line on stderr, in which no character can move the cursor or set a colour."""
    # The end of the line is part of the text, so that lines of several threads do not mix.
    print(f"{visible(str(message))}\n", end="", file=sys.stderr, flush=True)


def first_few(items: Sequence[Any], n: int = 3) -> str:
    """The first `n` items as they are written in Python, each cut to 60 characters.

    With "..." where there are more.
    """
    shown = ", ".join(visible(repr(item), 60) for item in items[:n])
    return f"{shown}, ..." if len(items) > n else shown


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """The end of a message about a wrong name: the choice most like it, or "" when none is near."""
    nearest = get_close_matches(name, choices, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def progress_bar(text: str, total: int | None) -> Any:
    """A progress bar on stderr, for what takes longer than five seconds.

    There is none without a text, none where stderr is a file or a pipe, and none in a notebook
    where TQDM_DISABLE is set.
    """
    from tqdm import tqdm

    if text and ("ipykernel" in sys.modules or sys.stderr.isatty()):
        return tqdm(desc=text, total=total, delay=5)
    return tqdm(disable=True)
