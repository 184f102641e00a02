"""Reading a judge's replies. An ambiguous one, cut off or out of range, gives None, never a guess.

What can be read: JSON, also in a code fence, bulleted lists, and a number or a word on the last
line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .io import encodable
from .types import Points

T = TypeVar("T")

# What a model writes while it thinks, before its reply; all of the text where it was cut off there.
_THOUGHT = re.compile(
    r"\A(?:(?:\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z))+|.*</think(?:ing)?>[ \t]*(?:\n|\Z))",
    re.S | re.I,
)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.M)
_MINUS = str.maketrans("−－﹣", "---")
_ITEM = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s+(?=\S)")
# A bracket that begins JSON rather than a remark: what follows it shows that, or the text ends, or
# its fence.
_OPENING = re.compile(r"[\[{](?=\s*(?:[\"'\[{\]}\d-]|```|~~~|\Z))")
_JSON = json.JSONDecoder(strict=False)
# A list of strings as Python writes it, which the paper's prompts ask for.
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
_PYTHON = re.compile(rf"\[\s*{_STRING}(?:\s*,\s*{_STRING})*\s*,?\s*\]")
# A number, bare or after a label such as "Answer:".
_LABEL = r"(?P<label>[^\d\n{]{0,40}?[:：=])?"
_NUMBER = rf"{_LABEL}[\[(*_`\"\s]*(?P<number>-?\d{{1,9}})(?:\.0)?[\])*_`\"]*\s*"
# With one of these words a label belongs to a number that is not the answer, such as "Maximum: 10".
_OTHER_WORDS = (
    r"no|not|none|without|error|code|confidence|probability|max\w*|min\w*|total|scale|range|"
    r"out of|count|candidates|reference|number of(?! the)"
)
_OTHER_LABEL = re.compile(rf"(?<![^\W_])(?:{_OTHER_WORDS})(?![^\W_])", re.I)
_REASON = re.compile("reason|explanation|note|comment|thought|rationale", re.I)


def read_list(text: str, key: str) -> Points | None:
    """The strings of `{key: [...]}`, of a bare list, or of bulleted or numbered lines.

    An empty list is a reply. None for no list of strings, for several different ones, and for one
    that is cut off.
    """
    text = _bare(text)
    lists = [] if _ITEM.match(text) else _lists(text, key)
    if lists is None:
        return None
    string_lists = []
    for entries in lists:
        if all(isinstance(entry, str) for entry in entries):
            string_lists.append(entries)
    if len(string_lists) > 1:
        return None
    strings = string_lists[0] if string_lists else _bulleted(text)
    if strings is None:
        return None
    return tuple(encodable(string).strip() for string in strings if string.strip())


def read_rows(
    text: str, key: str, count: int, read: Callable[[Any], T | None]
) -> list[T | None] | None:
    """What `read` makes of each entry of a joint reply, `{key: [...]}` or a bare list.

    None in place of all entries where there is no list of `count` entries, and where there are
    several different ones.
    """
    lists = _lists(_THOUGHT.sub("", text), key) or []
    if len(lists) != 1 or len(lists[0]) != count:
        return None
    return [read(entry) for entry in lists[0]]


def read_numbers(text: str, key: str, count: int) -> list[int] | None:
    """The distinct numbers 0 .. count - 1 of `{key: [...]}` or a bare list; else None."""
    lists = _lists(_THOUGHT.sub("", text), key) or []
    if len(lists) != 1:
        return None
    numbers = set()
    for entry in lists[0]:
        number = read_number(entry, 0, count - 1)
        if number is None:
            return None
        numbers.add(number)
    return sorted(numbers)


def read_number(reply: Any, least: int, most: int, scale: str = "") -> int | None:
    """The whole number `least` .. `most` of nine digits at most that the last line states.

    `reply` is a text, or an entry or a field of JSON, such as 7, 7.0 or "7". What `scale` matches
    may follow the number. A JSON object at the end of a text counts as a line. None for another
    number, for that of something else ("Maximum: 10"), and where lines state different numbers and
    one of them has a label ("Score: 3", then "4"). Of different bare numbers the last counts.
    """
    form = re.compile(rf"{_NUMBER}{scale}\.?", re.I)
    lines = [form.fullmatch(str(reply))]
    if isinstance(reply, str) and lines == [None]:
        text = _bare(reply)
        if text.endswith("}"):
            text = _with_field_as_line(text)
        lines = [form.fullmatch(line) for line in _lines(text)]
    last = lines[-1] if lines else None
    if last is None or _OTHER_LABEL.search(last["label"] or ""):
        return None
    stated = [line for line in lines if line]
    numbers = {int(line["number"]) for line in stated}
    if len(numbers) > 1 and any(line["label"] for line in stated):
        return None
    number = int(last["number"])
    return number if least <= number <= most else None


def read_score(reply: Any, max_score: int) -> float | None:
    """The number 0 .. max_score that a reply states ("7", "7/10"), over max_score; else None."""
    number = read_number(reply, 0, max_score, rf"(?:(?:/|out of|of)\s*0*{max_score}[)*_\]]*)?")
    return None if number is None else number / max_score


def read_word(reply: Any, words: tuple[str, ...]) -> str | None:
    """Which of `words` the last line consists of, in any case; None for another word or several.

    `reply` is a text, or an entry of a joint reply.
    """
    lines = _lines(_bare(str(reply))) or [""]
    last = re.sub(rf"^{_LABEL}", "", lines[-1]).strip(" .*_`\"'“”‘’").lower()
    return next((word for word in words if word.lower() == last), None)


def _bare(text: str) -> str:
    """A reply without thoughts and without the fences of code; "" where a thought was cut off."""
    return _FENCE.sub("", _THOUGHT.sub("", text).strip()).strip()


def _lines(text: str) -> list[str]:
    """The lines that are not blank, without marks of emphasis, each minus sign as a hyphen."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line.strip("*_` ").translate(_MINUS) for line in lines]


def _lists(text: str, key: str) -> list[list[Any]] | None:
    """The different lists under `key` in the JSON objects of a text.

    Where no object has the key, its bare lists. None for JSON that is broken or cut off.
    """
    keyed = []
    bare = []
    end = 0
    while opening := _OPENING.search(text, end):
        try:
            value, end = _JSON.raw_decode(text, opening.start())
        except (ValueError, RecursionError):
            python_list = _PYTHON.match(text, opening.start())
            if python_list is None:
                return None
            strings = re.findall(_STRING, python_list[0])
            value = [re.sub(r"\\([\"'\\])", r"\1", string[1:-1]) for string in strings]
            end = python_list.end()
        if isinstance(value, dict) and key in value:
            keyed.append(value[key])
        else:
            bare.append(value)
    lists: list[list[Any]] = []
    for value in keyed or bare:
        if isinstance(value, list) and value not in lists:
            lists.append(value)
    return lists


def _bulleted(text: str) -> list[str] | None:
    """A bulleted or numbered list, an entry a line.

    One line may stand before it and one after it. None where prose stands in between: it is not
    clear to which entry it belongs.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    items = [i for i, line in enumerate(lines) if _ITEM.match(line)]
    if not items:
        return None
    first, last = items[0], items[-1]
    if first > 1 or last < len(lines) - 2 or last - first >= len(items):
        return None
    return [_ITEM.sub("", line).strip().strip('"') for line in lines[first : last + 1]]


def _with_field_as_line(text: str) -> str:
    """The text with its JSON object as a labelled line: its one field, reasons left out.

    "" where it has several fields or none, where the field is a list, and where it is no JSON.
    """
    before, brace, after = text.partition("{")
    try:
        data = _JSON.decode(brace + after)
    except (ValueError, RecursionError):
        return ""
    fields = [(name, value) for name, value in data.items() if not _REASON.search(name)]
    if len(fields) != 1 or isinstance(fields[0][1], list):
        return ""
    name, value = fields[0]
    return f"{before}\n{name}: {value}"
