"""What speaks to a person at a terminal: one safe line, lists in messages, progress bars."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

# Control characters, marks of text direction, invisible characters, half surrogate pairs.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def visible(text: str, limit: int = 10_000) -> str:
    """One line that is safe to show, cut to `limit` characters.

    A run of white space becomes one space, and a control character becomes U+FFFD.
    """
    line = UNSAFE.sub("\ufffd", " ".join(text.split()))
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def notify(message: object) -> None:
    """Print one line on stderr, in which nothing from outside can move the cursor or set a colour."""
    line = UNSAFE.sub("\ufffd", " ".join(str(message).split()))
    print(f"{line}\n", end="", file=sys.stderr, flush=True)  # one write: threads may print together


def first_few(items: Sequence[Any], n: int = 3) -> str:
    """The first `n` items, for a message."""
    shown = ", ".join(repr(item) for item in items[:n])
    return f"{shown}, ..." if len(items) > n else shown


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message that names the known name nearest to a wrong one; "" when none is near."""
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def progress_bar(text: str, total: int | None, unit: str = "answer") -> Any:
    """A progress bar on stderr; invisible without a text, and where stderr is a file or a pipe."""
    from tqdm import tqdm

    watched = "ipykernel" in sys.modules or sys.stderr.isatty()
    return tqdm(desc=text, total=total, unit=unit, disable=not (text and watched))
