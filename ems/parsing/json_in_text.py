"""JSON objects and lists, or Python's, in a text that a model wrote around them."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

QUOTES = "\"'“”‘’"
_LINES = re.compile(r"(?:\{\s*\"\w+\"\s*:\s*)?\[[ \t]*\n(.*?)\n\s*\](?:\s*\})?", re.S)
_ENTRY = re.compile(rf"[{QUOTES}].*[{QUOTES}]")
_SEVERAL = re.compile(rf"[{QUOTES}]\s*,\s*[{QUOTES}]")       # more than one entry on a line
DEPTH = 50                                   # brackets within brackets; no honest reply comes near


def values_in(text: str) -> Iterator[Any]:
    """The JSON (or Python) objects and lists in a text, in order; nothing after one that does not end."""
    at = 0
    while start := re.compile(r"[\[{]").search(text, at):
        at = start.start()
        end = _end(text, at)
        value = None if end is None else _literal(text[at:end])
        if value is None and (lines := _quoted_lines(text, at)):
            value, end = lines
        if end is None:
            return
        if isinstance(value, (dict, list)):
            yield value
        at = end


def _literal(piece: str) -> Any:
    """A piece of JSON, or of Python with its quotes; None when it is neither."""
    try:
        return json.loads(piece, strict=False)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings(action="ignore"):           # '50\\%' is odd Python, and readable
            return None if _lacks_a_comma(piece) else ast.literal_eval(piece)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return None


def _lacks_a_comma(piece: str) -> bool:
    """Whether two strings stand side by side, which Python would join to one; or there is no string at all,
    so that the piece is no list of points or labels.
    """
    ignored = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
    kinds = [token.type for token in tokenize.generate_tokens(io.StringIO(piece).readline)
             if token.type not in ignored]
    return any(a == b == tokenize.STRING for a, b in pairwise(kinds)) or tokenize.STRING not in kinds


def _end(text: str, start: int) -> int | None:
    """Where the bracket at `start` closes, brackets in quotes aside; None for nowhere, or nested too deep."""
    open_, quote, opening = [], "", ("[", "{", ",", ":")
    for mark in re.compile(r"\\.|[\"'\[\]{}]", re.S).finditer(text, start):
        sign = mark[0]
        if quote:
            quote = "" if sign == quote else quote
        elif sign == '"' or (sign == "'" and _before(text, mark.start()) in opening):
            quote = sign           # an apostrophe within a word opens nothing
        elif sign in "[{":
            open_.append("]" if sign == "[" else "}")
            if len(open_) > DEPTH:
                return None
        elif sign in "]}":
            if sign != open_.pop():
                return None
            if not open_:
                return mark.end()
    return None


def _before(text: str, at: int) -> str:
    """The last character before a place that is no white space; "" where there is none nearby."""
    return text[max(0, at - 9) : at].rstrip()[-1:]


def _quoted_lines(text: str, start: int) -> tuple[list[str], int] | None:
    """A list of one quoted entry a line, inner quotes not escaped, and its end; None for another text."""
    listing = _LINES.match(text, start)
    if listing is None:
        return None
    lines = [line.strip().rstrip(",") for line in listing[1].splitlines() if line.strip()]
    if not lines or not all(_ENTRY.fullmatch(line) and not _SEVERAL.search(line) for line in lines):
        return None
    return [line[1:-1] for line in lines], listing.end()
