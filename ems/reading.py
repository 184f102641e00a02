"""Reading a judge's replies. Off the menu, ambiguous or cut means None (unscored), never a guess and never a number."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

_FENCE = re.compile(r"```[\w-]*\n?(.*?)```", re.S)
_ITEM = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s+(?=\S)")
_LABEL = r"[^\d\n]{0,40}?[:：=]\s*"          # "Answer:", "Matched index:", "得分："


def read_list(reply: str, key: str) -> list[str] | None:
    """The strings of a list: `{key: [...]}`, a bare JSON or Python list, or a bulleted or numbered list.

    A nested list is flattened in order. None when there is no list, when it does not end, or when an entry is
    neither text nor list. An empty list is an answer: no points.
    """
    text = _unfenced(reply)
    data = _json_in(text)
    if isinstance(data, dict):
        data = data.get(key)
    if isinstance(data, list):
        return _flat(data)
    if data is None and not re.match(r"\s*[\[{]", text) and '{"' not in text:
        lines = [line for line in text.splitlines() if line.strip()]
        items = [_ITEM.sub("", line).strip().strip('"') for line in lines if _ITEM.match(line)]
        # One introducing line above the list is usual; more prose than list is not a list.
        if items and len(lines) - len(items) <= 1:
            return items
    return None


def read_index(reply: str, n_points: int) -> int | None:
    """The index on the reply's last line, one of -1 .. n_points - 1; None when absent or off the menu."""
    number = _last_number(reply)
    return number if number is not None and -1 <= number < n_points else None


def read_score(reply: str, max_score: int) -> float | None:
    """The whole number 0 .. max_score on the reply's last line, divided by max_score; None when it is not one.

    "7/10" is read when its second number is max_score.
    """
    line = _last_line(reply)
    if out_of := re.fullmatch(rf"(?:{_LABEL})?(\d+)\s*/\s*(\d+)", line):
        number = int(out_of[1]) if int(out_of[2]) == max_score else None
    else:
        number = _last_number(reply)
    return number / max_score if number is not None and 0 <= number <= max_score else None


def read_word(reply: str, words: tuple[str, ...]) -> str | None:
    """Which of `words` the last line consists of, case aside; None when it is another word or several."""
    said = re.sub(rf"^{_LABEL}", "", _last_line(reply)).strip(" .\"'").lower()
    return next((word for word in words if word.lower() == said), None)


def read_numbers(reply: str, key: str, n: int) -> list[int] | None:
    """Distinct numbers 0 .. n - 1 from `{key: [...]}` or a bare list; None when unreadable or any is off the menu."""
    data = _json_in(_unfenced(reply))
    if isinstance(data, dict):
        data = data.get(key)
    if not isinstance(data, list):
        return None
    numbers = [int(x) if isinstance(x, str) and x.strip().isdigit() else x for x in data]
    if any(not isinstance(x, int) or isinstance(x, bool) or not 0 <= x < n for x in numbers):
        return None
    return sorted(set(numbers))


def _unfenced(reply: str) -> str:
    fenced = _FENCE.findall(reply)
    return (fenced[-1] if fenced else reply).strip()


def _last_line(reply: str) -> str:
    lines = [line.strip() for line in _unfenced(reply).splitlines() if line.strip()]
    return lines[-1].strip("*_` ") if lines else ""


def _last_number(reply: str) -> int | None:
    line = _last_line(reply)
    if named := re.fullmatch(r'\{\s*"?[\w ]+"?\s*:\s*(-?\d+)\s*\}', line):
        return int(named[1])
    said = re.fullmatch(rf"(?:{_LABEL})?[\[(*_]*(-?\d{{1,9}})[\])*_]*\s*\.?", line)
    return int(said[1]) if said else None


def _json_in(text: str) -> Any:
    """The first complete JSON object or list in the text, Python literals allowed; None when there is none."""
    starts = [i for i in (text.find("{"), text.find("[")) if i >= 0]
    if not starts:
        return None
    body = text[min(starts):]
    try:
        return json.JSONDecoder().raw_decode(body)[0]
    except json.JSONDecodeError:
        pass
    end = max(body.rfind("}"), body.rfind("]")) + 1
    try:
        return ast.literal_eval(body[:end])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _quoted_lines(body[:end])


def _quoted_lines(body: str) -> list[str] | None:
    """A list with one quoted entry a line whose inner quotes were not escaped: take what is between the outer ones."""
    inside = re.fullmatch(r"(?:\{\s*\"\w+\"\s*:\s*)?\[\s*\n(.*?)\n\s*\]\s*\}?", body, re.S)
    lines = [line.strip() for line in inside[1].splitlines() if line.strip()] if inside else []
    if not lines or not all(re.fullmatch(r'".*",?', line) for line in lines):
        return None
    return [line.rstrip(",")[1:-1] for line in lines]


def _flat(data: list[Any]) -> list[str] | None:
    points: list[str] = []
    for item in data:
        if isinstance(item, str):
            points.append(item.strip())
        elif isinstance(item, list) and (inner := _flat(item)) is not None:
            points.extend(inner)
        else:
            return None
    return [p for p in points if p]
