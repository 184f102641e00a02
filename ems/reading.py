"""Reading a judge's replies. One that is ambiguous, cut off or off the menu gives None, never a guess.

Read are JSON (also in a code fence), bulleted lists, and a number or a word on the last line.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from typing import Any, TypeVar

from .judge import Record, encodable

T = TypeVar("T")

_THOUGHT = re.compile(
    r"\A(?:\s*<think(?:ing)?>.*?</think(?:ing)?>|.*</think(?:ing)?>[ \t]*(?:\n|\Z))", re.S | re.I
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.M)
_MINUS = str.maketrans("−－﹣", "---")
_ITEM = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s+(?=\S)")
# A bracket that begins JSON, and no remark: known by what follows it, or because the text ends there.
_OPENING = re.compile(r"[\[{](?=\s*(?:[\"'\[{\]}\d-]|\Z))")
_JSON = json.JSONDecoder(strict=False)
# A list of strings as Python writes it, which the paper's prompts ask for.
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_PYTHON = re.compile(rf"\[\s*{_STRING}(?:\s*,\s*{_STRING})*\s*,?\s*\]")
# A number, bare or after a label such as "Answer:", and labels of numbers that are not the answer.
_LABEL = r"(?P<label>[^\d\n{]{0,40}?[:：=])?"
_NUMBER = rf"{_LABEL}[\[(*_`\"\s]*(?P<number>-?\d{{1,9}})[\])*_`\"]*\s*"
_OTHER = re.compile(
    r"(?<![^\W_])(?:no|not|none|without|error|code|confidence|probability|max\w*|min\w*|"
    r"total|scale|range|out of|count|candidates|reference|number of(?! the))(?![^\W_])",
    re.I,
)
_REASON = re.compile("reason|explanation|note|comment|thought|rationale", re.I)


def parsed(
    record: Record, read: Callable[[str], T | None], task: str, failures: Counter[str]
) -> T | None:
    """What `read` makes of a reply; None, counted in `failures` as "task: reason", where that is nothing."""
    value = None if record.usable is None else read(record.usable)
    if value is None:
        failures[f"{task}: {record.error or 'unreadable'}"] += 1
    return value


def parsed_rows(
    record: Record,
    key: str,
    count: int,
    read: Callable[[str], T | None],
    task: str,
    failures: Counter[str],
) -> list[T | None]:
    """The `count` entries of a joint reply (`read_rows`), None for each that is lost; these are counted."""
    entries: list[T | None] = read_rows(record.usable or "", key, count, read) or [None] * count
    if lost := entries.count(None):
        failures[f"{task}: {record.error or 'unreadable'}"] += lost
    return entries


def read_list(text: str, key: str) -> list[str] | None:
    """The strings of a list: `{key: [...]}`, a bare list, or bulleted or numbered lines; [] is an answer.

    None for no list of strings, for several different ones, and for one that is cut off.
    """
    text = _bare(text)
    lists = [] if _ITEM.match(text) else _lists(text, key)
    if lists is None:
        return None
    texts = [entries for entries in lists if all(isinstance(entry, str) for entry in entries)]
    strings = _only(texts) if texts else _bulleted(text)
    return (
        None
        if strings is None
        else [encodable(string).strip() for string in strings if string.strip()]
    )


def read_rows(
    text: str, key: str, count: int, read: Callable[[str], T | None]
) -> list[T | None] | None:
    """What `read` makes of each entry of a joint reply, `{key: [...]}` or bare; an entry 7.0 is 7.

    None for all where there is no list of `count` entries, or where there are several different ones.
    """
    rows = _only(_lists(_bare(text), key))
    if rows is None or len(rows) != count:
        return None
    entries = [row if isinstance(row, str) else _whole(row) for row in rows]
    return [None if entry is None else read(str(entry)) for entry in entries]


def read_numbers(text: str, key: str, count: int) -> list[int] | None:
    """The distinct numbers 0 .. count - 1 of `{key: [...]}` or a bare list; else None."""
    rows = _only(_lists(_bare(text), key))
    numbers = {None} if rows is None else {_whole(entry) for entry in rows}
    distinct = sorted(number for number in numbers if number is not None and 0 <= number < count)
    return distinct if len(distinct) == len(numbers) else None


def read_index(text: str, n_points: int) -> int | None:
    """The index 0 .. n_points - 1 that the last line states, or -1 for none; None for anything else."""
    number = _stated(text, _NUMBER)
    return number if number is not None and -1 <= number < n_points else None


def read_score(text: str, max_score: int) -> float | None:
    """The whole number 0 .. max_score that the last line states ("7", "7/10"), over max_score; or None."""
    number = _stated(text, rf"{_NUMBER}(?:(?:/|out of|of)\s*0*{max_score}[)*_\]]*)?")
    return number / max_score if number is not None and 0 <= number <= max_score else None


def read_word(text: str, words: tuple[str, ...]) -> str | None:
    """Which of `words` the last line consists of, in any case; None for another word or several."""
    last = (_lines(_bare(text)) or [""])[-1]
    said = re.sub(rf"^{_LABEL}", "", last).strip(" .*_`\"'“”‘’").lower()
    return next((word for word in words if word.lower() == said), None)


def _bare(text: str) -> str:
    """Without thinking aloud, and the fences around code; "" when a thought was cut before it ended."""
    text = _THOUGHT.sub("", text).strip()
    return "" if re.match("<think(?:ing)?>", text, re.I) else _FENCE.sub("", text).strip()


def _lines(text: str) -> list[str]:
    """The lines that are not blank, without marks of emphasis around them, each minus sign as a hyphen."""
    return [
        line.strip().strip("*_` ").translate(_MINUS) for line in text.splitlines() if line.strip()
    ]


def _values(text: str) -> list[Any] | None:
    """The JSON objects and lists in a text; None where one is broken or cut off."""
    values, at = [], 0
    while opening := _OPENING.search(text, at):
        try:
            value, at = _JSON.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            python = _PYTHON.match(text, opening.start())
            if python is None:
                return None
            strings = re.findall(_STRING, python[0])
            value, at = (
                [re.sub(r"\\([\"'\\])", r"\1", string[1:-1]) for string in strings],
                python.end(),
            )
        values.append(value)
    return values


def _lists(text: str, key: str) -> list[list[Any]] | None:
    """The lists under `key` in the objects of a text, or the bare ones where none has it; None = broken."""
    values = _values(text)
    if values is None:
        return None
    keyed = [value[key] for value in values if isinstance(value, dict) and key in value]
    return [value for value in keyed or values if isinstance(value, list)]


def _only(values: list[T] | None) -> T | None:
    """The value that all are; None where they differ, or there is none."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _bulleted(text: str) -> list[str] | None:
    """A bulleted or numbered list, an entry a line; one line may stand before it and one after it."""
    lines = [line for line in text.splitlines() if line.strip()]
    runs = [
        (is_item, list(run))
        for is_item, run in groupby(lines, lambda line: bool(_ITEM.match(line)))
    ]
    items = [run for is_item, run in runs if is_item]
    if len(items) != 1 or any(len(run) > 1 for is_item, run in runs if not is_item):
        return None  # prose in between: it is not clear to which entry it belongs
    return [_ITEM.sub("", item).strip().strip('"') for item in items[0]]


def _whole(value: Any) -> int | None:
    """A whole number of up to nine digits, also as text or as 7.0; None for every other value."""
    number = re.fullmatch(r"(-?[0-9]{1,9})(?:\.0)?", str(value))
    return int(number[1]) if number else None


def _stated(text: str, form: str) -> int | None:
    """The whole number that the last line has in this form, or the JSON object at the end of a reply holds.

    None for the number of something else ("Maximum: 10"), and where lines state different numbers and one of
    them has a label ("Score: 3", then "4"); of different bare numbers the last counts.
    """
    text = _bare(text)
    if text.endswith("}"):
        text = f"{text.partition('{')[0]}\n{_as_line(_only(_values(text)))}"
    lines = [re.fullmatch(rf"{form}\.?", line, re.I) for line in _lines(text)]
    if not lines or lines[-1] is None or _OTHER.search(lines[-1]["label"] or ""):
        return None
    numbers = [int(line["number"]) for line in lines if line]
    labelled = any(line["label"] for line in lines if line)
    return _only(numbers) if labelled else numbers[-1]


def _as_line(data: Any) -> str:
    """A JSON object's one field, or its one field beside a reason, as a labelled line; else "unclear"."""
    fields = [key for key in data if not _REASON.search(key)] if isinstance(data, dict) else []
    return f"{fields[0]}: {_whole(data[fields[0]])}" if len(fields) == 1 else "unclear"
