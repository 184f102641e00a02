"""A document cut into passages and lines, indexed once and used for every answer about it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from string import ascii_letters, digits

from ..local.quantities import Quantity, find_quantities
from ..local.sentences import sentences
from ..local.words import words_of
from ..types import InputError
from .retrieve import BM25

PASSAGE = 1000             # characters of a passage, about; a longer paragraph is cut at a sentence's end
NUMBERS = 30               # of a line, at most, that derivations look at: longer lines are lists
_SCALE = re.compile(r"\bin (?:US ?\$ |U\.S\. dollars |dollars )?(thousand|million|billion)s\b", re.I)
_FACTOR = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_WORD = f"{ascii_letters}{digits}.,"       # what a word or a number is written in
HEADING_LINES = 4          # first lines of a passage with a table that say what its rows are about


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence or a row of a table."""

    passage: int                       # index of its passage
    text: str
    stems: frozenset[str]              # its words
    around: frozenset[str]             # and those of its neighbours; of a row, of the table's heading
    quantities: tuple[Quantity, ...]
    undirected: tuple[Quantity, ...]   # the same, without sign and direction
    negated: bool                      # an odd number of negations
    trend: int                         # -1 only falling words, +1 only rising ones, 0 none or both


class Document:
    """Passages with a BM25 index; their lines and numbers are read when a passage is first looked at.

    InputError when no passage has a word or a number.
    """

    def __init__(self, passages: Sequence[str]):
        if not any(re.search(r"\w", passage) for passage in passages):
            raise InputError("the document is empty; give the text that answers are to be checked against")
        self.passages = tuple(passages)
        self.index = BM25(self.passages)
        named = {match[1].lower() for passage in self.passages for match in _SCALE.finditer(passage)}
        # What a bare number of its tables may stand for: 1e3 where the document says "in thousands", else 1.
        self.scale = max((_FACTOR[name] for name in named), default=1.0)
        self._lines: dict[int, list[Line]] = {}

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, text: str) -> Document:
        """A text cut at empty lines, short paragraphs together, long ones apart (`PASSAGE`)."""
        return cls(cut(text))

    def lines(self, passage: int) -> list[Line]:
        """The lines of one passage, in order."""
        if passage not in self._lines:
            self._lines[passage] = _lines(self.passages[passage], passage)
        return self._lines[passage]


def cut(text: str, size: int = PASSAGE) -> list[str]:
    """The passages of a text, each of about `size` characters; no shorter word or number is cut in two."""
    passages: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        for piece in _pieces(block.strip(), size):
            if passages and len(passages[-1]) + len(piece) < size:
                passages[-1] += "\n" + piece
            else:
                passages.append(piece)
    return passages


def _pieces(block: str, size: int) -> list[str]:
    pieces, start = [], 0
    while len(block) - start > size:
        window = block[start : start + size]
        ends = (window.rfind("\n"), window.rfind(". ") + 1, window.rfind(" "))
        end = start + (next((end for end in ends if end > size // 2), 0) or len(window.rstrip(_WORD)) or size)
        pieces.append(block[start:end].strip())
        start = end
    return [*pieces, block[start:].strip()] if block[start:].strip() else pieces


def _lines(passage: str, number: int) -> list[Line]:
    texts: list[tuple[str, bool]] = []           # with whether it is a row of a table
    for raw in passage.split("\n"):
        if raw.count("|") >= 2:
            texts.append((re.sub(r"([$€£¥(])\s+", r"\1", re.sub(r"[\s|]+", " ", raw)).strip(), True))
        else:
            texts += [(sentence.strip(), False) for sentence in sentences(raw)]
    texts = [(text, row) for text, row in texts if re.search(r"\w", text)]
    stems = [content_stems(text) for text, _ in texts]
    heading = frozenset().union(*stems[:HEADING_LINES])
    lines = []
    for i, (text, row) in enumerate(texts):
        around = heading | stems[i] if row else frozenset().union(*stems[max(0, i - 1) : i + 2])
        numbers = read_numbers(text)
        lines.append(Line(number, text, stems[i], around, numbers, tuple(map(undirected, numbers)),
                          *point_signs(text)))
    return lines


def undirected(q: Quantity) -> Quantity:
    """The quantity without sign and direction: "down 5%" and "grew 5%" are the same number."""
    return replace(q, value=abs(q.value), direction=0)


def content_stems(text: str) -> frozenset[str]:
    """The stems of a text's words, without its numbers."""
    return frozenset(word for word in words_of(text) if not word[0].isdigit())


def read_numbers(text: str) -> tuple[Quantity, ...]:
    """The quantities of a text, dates among them, without comparison spans ("year over year")."""
    return tuple(q for q in find_quantities(text) if q.unit != "versus")


# --- which way a sentence points, read from word lists alone ---

_NEGATION = re.compile(r"\b(?:not|no|never|none|neither|nor|without|cannot|lack(?:s|ed|ing)?|fail(?:s|ed"
                       r"|ure)?|unable|\w+n['’]t|refut\w+|incorrect\w*|inaccurate|untrue|false)\b",
                       re.IGNORECASE)
_FALL = re.compile(r"\b(?:down|fell|fall(?:s|ing|en)?|decreas\w+|declin\w+|drop\w*|lower\w*|reduc\w+|weak\w*"
                   r"|shr[aiu]nk\w*|slow(?:ed|ing|er|s)?|worse\w*|deteriorat\w+|contract(?:ed|ing|ion)"
                   r"|headwinds?|less|fewer|below)\b", re.IGNORECASE)
_RISE = re.compile(r"\b(?:up|rose|ris(?:e|es|en|ing)|increas\w+|grew|grow(?:s|n|th|ing)?|gain\w*|higher"
                   r"|rais\w+|climb\w*|improv\w+|expand\w*|expansion|strong\w*|strength\w*|accelerat\w+"
                   r"|jump\w*|surg\w+|tailwinds?|above)\b", re.IGNORECASE)
# Changes with every word list above.
SIGNS = hashlib.sha256("\n".join(p.pattern for p in (_NEGATION, _FALL, _RISE)).encode()).hexdigest()[:8]


def point_signs(text: str) -> tuple[bool, int]:
    """Whether a text has an odd number of negations, and its trend: -1 falling, +1 rising, 0 none or both."""
    return len(_NEGATION.findall(text)) % 2 == 1, bool(_RISE.search(text)) - bool(_FALL.search(text))
