"""The one whole number that a reply states, be it a line, a labelled line or a JSON object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .json_in_text import values_in
from .reply_text import MINUS, bare_reply, lines_of

LABEL = r"[^\d\n{]{0,40}?[:：=]\s*"          # "Answer:", "Matched index:", "得分："
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
_OUT_OF = rf"(?P<label>{LABEL})?[(*_\[\s]*(?P<number>\d{{1,9}})\s*(?:/|out of|of)\s*0*%s[)*_\]]*\.?"
# Forms of a line that states a number: alone, as a menu's entry repeated with its number, on a scale.
BARE = re.compile(rf"(?P<label>{LABEL}|(?i:{_IS}))?[\[(*_`\"\s]*(?P<number>-?\d{{1,9}})[\])*_`\"]*\s*\.?")
ECHO = re.compile(r"(?P<number>\d{1,9})(?P<label>:) *\".*\"")
ANY_SCALE = re.compile(_OUT_OF % r"\d{1,3}")


def on_scale(top: int) -> re.Pattern[str]:
    """The form "7/10" or "7 out of 10" with this top."""
    return re.compile(_OUT_OF % top)


def stated(reply: str, forms: Sequence[re.Pattern[str]]) -> int | None:
    """The whole number that the last line consists of (in one of `forms`) or a closing JSON object holds.

    A label before it is passed over, and so is a plain sentence that ends in the number: "The best match is
    3." None when it is not the only statement: an earlier line states another number and either line has a
    label ("Score: 3", then "Maximum: 10"; of two bare lines the last counts), the label is that of something
    else (`_OTHER`), or the object has other numbers in it.
    """
    text = bare_reply(reply)
    *before, last = lines_of(text) or [""]
    if last.endswith("}"):
        values = list(values_in(text))
        numbers = {_field(value) for value in values if isinstance(value, dict)}
        number = numbers.pop() if values and isinstance(values[-1], dict) and len(numbers) == 1 else None
        before, label = lines_of(text[:text.find("{")]), "{"
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
    if len(fields) != 1 or any(whole(v) is not None or not isinstance(v, str | None) for v in beside):
        return None
    return whole(*fields.values())


def whole(value: Any) -> int | None:
    """A whole number in any of the forms that JSON gives it; None for every other value."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}\s*", value.translate(MINUS)):
        return int(value.translate(MINUS))
    return int(value) if type(value) is int or (type(value) is float and value.is_integer()) else None
