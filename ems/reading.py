"""Reading a judge's replies. Off the menu, ambiguous or cut means None (unscored), never a guess and never a
number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .json_in_text import QUOTES, values_in

# Thinking aloud before the reply proper, with or without its opening tag.
_THOUGHT = re.compile(
    r"\A(?:\s*<think(?:ing)?>.*?</think(?:ing)?>|.*</think(?:ing)?>[ \t]*(?:\n|\Z))", re.S | re.I
)
_THINKING = re.compile(r"<think(?:ing)?>", re.I)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.M)
_ITEM = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,3}[.):])\s+(?=\S)")
_LABEL = r"[^\d\n{]{0,40}?[:：=]\s*"          # "Answer:", "Matched index:", "得分："
# Labels and fields of numbers that are something else than the answer: "Maximum", "Error code", "No match".
_OTHER = re.compile(
    r"(?<![^\W_])(?:no|not|none|never|neither|nor|without|error|code|status|confidence|certainty|probability|"
    r"max\w*|min\w*|total|scale|range|out of|count|candidates|reference|number of(?! the))(?![^\W_])",
    re.I,
)
_ANSWER = re.compile(r"(?<![^\W_])(?:number|index|match|matching|choice|answer|score)(?![^\W_])", re.I)
# "The number of the chosen one is", but not "The margin is", nor anything with a negation.
_IS = (r"(?!.*\b(?:not|no|none|never|neither|nor)\b)(?=[^\d]*\b(?:number|index|match|choice|answer|score)\b)"
       r"(?:the|my) [^\d\n{,;:]{1,60}? is ")
_MINUS = str.maketrans("−－﹣", "---")


def read_list(reply: str, key: str) -> list[str] | None:
    """The strings of a list: `{key: [...]}`, a bare JSON or Python list, or a bulleted or numbered list.

    A nested list is flattened in order. None when there is no list, when it does not end, when an entry is
    neither text nor list, or when there are several different ones. An empty list is an answer: no points.
    """
    text = _bare_reply(reply)
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
    it too. None as well when the reply names other numbers in the same way (`_stated`).
    """
    number = _stated(reply, [_BARE, _ECHO])
    if number is None or number == -1:
        return number
    return number - first if 0 <= number - first < n_points else None


def read_score(reply: str, max_score: int) -> float | None:
    """The whole number 0 .. max_score on the reply's last line, divided by max_score; None for anything else.

    "7/10" and "7 out of 10" are read when their second number is max_score. The judge is asked for a whole
    number: 7.5 is none, 7.0 in JSON is. None as well when the reply states other numbers in the same way
    (`_stated`).
    """
    number = _stated(reply, [_BARE, re.compile(_OUT_OF % max_score)])
    return number / max_score if number is not None and 0 <= number <= max_score else None


def read_word(reply: str, words: tuple[str, ...]) -> str | None:
    """Which of `words` the last line consists of, case aside; None when it is another word or several."""
    last = re.sub(rf"^{_LABEL}", "", _last_line(reply)).strip(" .*_`" + QUOTES).lower()
    return next((word for word in words if word.lower() == last), None)


def read_numbers(reply: str, key: str, n: int) -> list[int] | None:
    """Distinct numbers 0 .. n - 1 from `{key: [...]}` or a bare list; None without one, or with others.

    None as well when there are several different lists: one may belong to the prose around the other.
    """
    lists: list[list[int]] = []
    for data in _held(_bare_reply(reply), key):
        if not isinstance(data, list):
            return None
        numbers: list[Any] = [_whole(x) if isinstance(x, str) else x for x in data]
        if any(not isinstance(x, int) or isinstance(x, bool) or not 0 <= x < n for x in numbers):
            return None
        if (whole := sorted(set(numbers))) not in lists:
            lists.append(whole)
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
    lists = _held(_bare_reply(reply), key)
    return lists[0] if len(lists) == 1 and isinstance(lists[0], list) else None


def _held(text: str, key: str) -> list[Any]:
    """What each JSON object in a text holds under `key`, and each bare list."""
    return [data.get(key) if isinstance(data, dict) else data for data in values_in(text)]


def without_thought(text: str) -> str:
    """The text without thinking aloud before it; "" when the thought was cut before it ended."""
    text = _THOUGHT.sub("", text).strip()
    return "" if _THINKING.match(text) else text


def _bare_reply(reply: str) -> str:
    """The reply without thinking aloud and without the fences around code."""
    return _FENCE.sub("", _THOUGHT.sub("", reply)).strip()


def _lines_of(text: str) -> list[str]:
    return [line.strip().strip("*_` ").translate(_MINUS) for line in text.splitlines() if line.strip()]


def _last_line(reply: str) -> str:
    return (_lines_of(_bare_reply(reply)) or [""])[-1]


_BARE = re.compile(rf"(?P<label>{_LABEL}|(?i:{_IS}))?[\[(*_`\"\s]*(?P<number>-?\d{{1,9}})[\])*_`\"]*\s*\.?")
_ECHO = re.compile(r"(?P<number>\d{1,9})(?P<label>:) *\".*\"")
_OUT_OF = rf"(?P<label>{_LABEL})?[(*_\[\s]*(?P<number>\d{{1,9}})\s*(?:/|out of|of)\s*0*%d[)*_\]]*\.?"
_ANY_SCALE = re.compile(_OUT_OF.replace("%d", r"\d{1,3}"))


def states_number(reply: str) -> bool:
    """Whether the reply states one whole number, on whatever menu or scale."""
    return _stated(reply, [_BARE, _ECHO, _ANY_SCALE]) is not None


def _stated(reply: str, forms: Sequence[re.Pattern[str]]) -> int | None:
    """The whole number that the last line consists of (in one of `forms`) or a closing JSON object holds.

    A label before it is passed over, and so is a plain sentence that ends in the number: "The best match is
    3." None when it is not the only statement: an earlier line states another number and either line has a
    label ("Score: 3", then "Maximum: 10"; of two bare lines the last counts), the label is that of something
    else (`_OTHER`), or the object has other numbers in it.
    """
    text = _bare_reply(reply)
    *before, last = _lines_of(text) or [""]
    if last.endswith("}"):
        values = list(values_in(text))
        numbers = {_field(value) for value in values if isinstance(value, dict)}
        number = numbers.pop() if values and isinstance(values[-1], dict) and len(numbers) == 1 else None
        before, label = _lines_of(text[:text.find("{")]), "{"
    else:
        number, label = _line(last, forms)
    if number is None or _OTHER.search(label):
        return None
    for line in before:
        earlier, name = _line(line, forms)
        if earlier not in (None, number) and (label or name):
            return None
    return number


def _line(line: str, forms: Sequence[re.Pattern[str]]) -> tuple[int | None, str]:
    """The whole number that a line states, and its label; None and "" for another line."""
    match = next((m for form in forms if (m := form.fullmatch(line))), None)
    return (int(match["number"]), match["label"] or "") if match else (None, "")


def _field(data: dict[Any, Any]) -> int | None:
    """The whole number in a JSON object of one field, or in the one of several that is named as the answer.

    Beside it there may be text, such as a reason, but no other number. A number in quotes is a number.
    """
    fields = {key: value for key, value in data.items() if not _OTHER.search(str(key))}
    if len(data) > 1:
        fields = {key: value for key, value in fields.items() if _ANSWER.search(str(key))}
    beside = [value for key, value in data.items() if key not in fields]
    if len(fields) != 1 or any(_whole(v) is not None or not isinstance(v, str | None) for v in beside):
        return None
    return _whole(*fields.values())


def _whole(value: Any) -> int | None:
    """A whole number in any of the forms that JSON gives it; None for every other value."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}\s*", value.translate(_MINUS)):
        return int(value.translate(_MINUS))
    return int(value) if type(value) is int or (type(value) is float and value.is_integer()) else None


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
