"""Text from outside, made safe to put into a prompt."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_BREAK = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Invisible, or steering a terminal, the writing direction or a tokenizer; lone halves of a surrogate pair.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LIKE_OPEN = "<‹〈⟨〈«≪˂ᐸ❮❰⧼⟪《𝈶"      # what can pass for a tag's opening bracket
_MARK = "[\u0300-\u036f\u20d0-\u20ff\ufe0f]*"             # accents strewn between the letters
_TEXT_TAG = re.compile(rf"(?:[{_LIKE_OPEN}]|&(?=(?:lt|#60|#x3c);))"
                       rf"(?=(?:lt;|#60;|#x3c;)?[\s/\\]*t{_MARK}e{_MARK}x{_MARK}t{_MARK}(?!\w))")
# Markup that an answer may well contain; every other tag could be some model's special token.
_HTML = (
    "a|b|blockquote|br|center|code|dd|del|div|dl|dt|em|font|h[1-6]|hr|i|img|ins|li|mark|ol|p|pre|small|span|"
    "strong|sub|sup|table|tbody|td|tfoot|th|thead|tr|u|ul"
)
_TOKEN = re.compile(rf"<(?=[/\\]?(?!(?:{_HTML})[\s/>])(?:[^\W\d][\w:.▁-]{{0,60}}|0x[0-9a-f]{{2}})"
                    r"(?:\s[\w:-]{1,40}\s?=[^<>\n]{0,80})?\s?/?>)")
_BARS = re.compile(r"<\||\|>")
_BRACKETS = re.compile(
    r"\[(/?(?:inst|sys|system_prompt|available_tools|tool_calls|tool_results|tool_content|args|"
    r"call_id|think|gmask|bos|eos|prefix|middle|suffix|im_start|im_end))\]"
)
_LABEL = re.compile(
    r"^[^\S\n]*((?:Candidate )?Answer|JSON|Bullet Points|Matched Index|Matching Score)[^\S\n]*[:：][^\S\n]*$",
    re.MULTILINE | re.IGNORECASE,
)


class _Twins(dict):
    """Per character, the plain lower-case one that it looks like; looked up once each. Keeps positions."""

    def __missing__(self, code: int) -> int:
        plain = unicodedata.normalize("NFKD", chr(code)).casefold()
        plain = "".join(c for c in plain if not unicodedata.combining(c))
        self[code] = ord(plain) if len(plain) == 1 else code
        return self[code]


_TWINS = _Twins(
    {
        ord(c): ord(plain)
        for plain, likes in (("t", "тТτΤᴛ"), ("e", "еЕεΕᴇ"), ("x", "хХχΧ×"), ("s", "ѕЅ"), ("/", "∕⁄⧸╱"),
                             ("|", "∣ǀ│❘"))
        for c in likes
    }
)


def harmless(text: str) -> str:
    """Text from outside, made safe to put between a prompt's tags; its words and figures stay as they are.

    Control and invisible characters go, runs of blanks and of empty lines shrink. What could pass for one of
    our tags (in any case, spacing or script), for a special token of a chat template, or for a line that is
    only a prompt's label loses its brackets or gets some. Ordinary text comes out as it went in; twice is the
    same as once; the time taken grows with the length alone.
    """
    text = re.sub("\ufe0f+", "\ufe0f", _HIDDEN.sub("", _BREAK.sub("\n", text)))
    text = re.sub(r"[^\S\n]{3,}", "  ", text)
    text = re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
    # As long as `text`: positions agree.
    plain = text.lower() if text.isascii() else text.translate(_TWINS)
    edits: dict[int, str] = {}
    for match in (*_TEXT_TAG.finditer(plain), *_TOKEN.finditer(plain)):
        edits[match.start()] = "("
    for match in _BARS.finditer(plain):
        edits[match.start()], edits[match.end() - 1] = ("(", " ") if match[0] == "<|" else (" ", ")")
    for match in _BRACKETS.finditer(plain):
        edits[match.start()], edits[match.end() - 1] = "(", ")"
    if edits:
        text = "".join(edits.get(i, c) for i, c in enumerate(text))
    return _LABEL.sub(r"(\1:)", text).strip()


@lru_cache(maxsize=1 << 14)         # an answer is asked about several times
def quoted(text: str) -> str:
    """One point on one line, as a JSON string: no line break or quote in it can end it early."""
    return json.dumps(" ".join(harmless(text).split()), ensure_ascii=False)


def numbered(points: Sequence[str]) -> str:
    """Points as numbered lines, from 0."""
    return "\n".join(f"{i}: {quoted(point)}" for i, point in enumerate(points))
