"""A model's reply as text: without thinking aloud and code fences, in lines."""

from __future__ import annotations

import re

# Thinking aloud before the reply proper, with or without its opening tag.
_THOUGHT = re.compile(
    r"\A(?:\s*<think(?:ing)?>.*?</think(?:ing)?>|.*</think(?:ing)?>[ \t]*(?:\n|\Z))", re.S | re.I
)
_THINKING = re.compile(r"<think(?:ing)?>", re.I)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.M)
MINUS = str.maketrans("−－﹣", "---")


def without_thought(text: str) -> str:
    """The text without thinking aloud before it; "" when the thought was cut before it ended."""
    text = _THOUGHT.sub("", text).strip()
    return "" if _THINKING.match(text) else text


def bare_reply(reply: str) -> str:
    """The reply without thinking aloud and without the fences around code."""
    return _FENCE.sub("", _THOUGHT.sub("", reply)).strip()


def lines_of(text: str) -> list[str]:
    """The lines that are not blank, without marks of emphasis around them, each minus sign as a hyphen."""
    return [line.strip().strip("*_` ").translate(MINUS) for line in text.splitlines() if line.strip()]


def last_line(reply: str) -> str:
    """The last of a reply's lines (`lines_of`); "" where there is none."""
    return (lines_of(bare_reply(reply)) or [""])[-1]
