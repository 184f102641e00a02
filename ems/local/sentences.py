"""Points cut out by rules, without a judge: sentences or paragraphs, after summaries are removed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..extract import blocks_of, without_summaries
from ..types import InputError, Points
from .words import Side

UNITS = ("sentence", "paragraph")
# Abbreviations whose period does not end a sentence, in lower case.
_ABBREVIATIONS = frozenset(
    """
    approx assn ave bros ca cf co col corp dept dr e.g eq est fig figs gen gov i.e inc jan feb apr jun jul aug
    sep sept oct nov dec jr lt ltd mr mrs ms nos para pp prof rep rev sen sr st u.k u.s u.s.a vol vs
    """.split()
)
_CITATION = r"\[\d+(?:[,;–-]\s*\d+)*\]"
_CITED = re.compile(_CITATION)
# A run of stops with its quotes and citations, before a space; or a stop of a script without spaces. That a
# pattern begins with a look at one letter makes the search for it several times faster.
_STOP = re.compile(
    rf"(?=[.!?。！？；])(?:(?<![.!?])[.!?]++[\"'”’)\]*_]*(?:\s*{_CITATION})*(?=\s+\S)"
    r"|[。！？；]+[”」』）]*)"
)
_BULLET = re.compile(r"^(?:[-*•–·▪>]+|\(?(?:\d{1,3}|[ivx]{1,4})[.)]|\(?[a-zA-Z]\))\s+")
_MARKS = re.compile(
    r"(?=[*_`<(#>])(?:\*\*|__|^```\w*$|`+|<\|[^|>]*\|>|(?<=\])\([^()\s]*\)|^#{1,6}\s+|^>\s+)"
)
_HEADED = (
    r"[#*\s]*(?:(?:executive|final) )?(?:summary|overview|introduction|conclusions?|in brief"
    r"|at a glance|tl;?dr|(?:final|closing) thoughts|key takeaways?)\**\s*(?:[:\n]|\*\*|$)"
)
_CONCLUDES = (
    r"(?:in (?:summary|conclusion|short|sum|essence)\b|to (?:summari[sz]e|sum up|conclude)\b"
    r"|(?:overall|ultimately|taken together|all in all),)"
)
_OPENING = re.compile(_HEADED, re.IGNORECASE)
_CLOSING = re.compile(f"{_HEADED}|{_CONCLUDES}", re.IGNORECASE)
_CLOSING_SENTENCE = re.compile(rf"[.!?]\s++(?={_CONCLUDES})", re.IGNORECASE)


class SentenceExtractor:
    """Points cut out by rules: sentences, or paragraphs. Needs no judge.

    List entries and table rows are paragraphs, headings are dropped, repetitions stay. Summaries are removed
    first (`remove_summaries`) unless `keep_summaries`. A part of citations alone is no point.
    InputError for another unit.
    """

    def __init__(self, unit: str = "sentence", keep_summaries: bool = False):
        if unit not in UNITS:
            raise InputError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}")
        self.unit, self.keep_summaries = unit, keep_summaries
        self.signature = f"rules:{unit}{',summaries kept' if keep_summaries else ''}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        """The points of each text; never None."""
        return [
            self._points(text if self.keep_summaries else remove_summaries(text)) for text in texts
        ]

    def _points(self, text: str) -> Points:
        parts = paragraphs(text)
        if self.unit == "sentence":
            parts = [sentence for paragraph in parts for sentence in sentences(paragraph)]
        parts = [part.strip() for part in parts if re.search(r"\w", _CITED.sub("", part))]
        return tuple(_BULLET.sub("", part) for part in parts)


def paragraphs(text: str) -> list[str]:
    """Running text, list entries and table rows (with their column names), one string each, without markup.

    Headings are dropped, unless there is nothing else.
    """
    found: list[list[str]] = []  # the lines of each
    headings: list[str] = []
    columns: list[str] | None = None  # of the table being read; [] while it has no header
    open_paragraph = False  # whether the next line may belong to the last paragraph
    for raw in text.splitlines():
        was_open, open_paragraph = open_paragraph, False
        line = _MARKS.sub("", raw.strip()).strip()
        if line.count("|") >= 2:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not re.fullmatch(r"[\s:|-]+", line):
                found.append([_row(columns, cells) if columns else " ; ".join(cells)])
                columns = columns or []
            elif columns == []:
                columns = found.pop()[0].split(" ; ")
            continue
        columns = None
        if _is_heading(raw.strip()):
            headings.append(line)
        elif re.search(r"\w", line):
            open_paragraph = True
            if (
                was_open
                and not _BULLET.match(line)
                and (len(found[-1][-1]) > 60 or not line[0].isupper())
            ):
                found[-1].append(line)
            else:
                found.append([_BULLET.sub("", line)])
    return [" ".join(lines) for lines in found] or headings


def _is_heading(line: str) -> bool:
    """A line marked as a heading, or a short one that ends in a colon: it states nothing itself."""
    marked = re.match(r"#{1,6}\s|(?:\*\*|__)[^*_]+(?:\*\*|__):?$", line)
    introduces = line.endswith((":", ":**")) and len(line.split()) <= 12
    return bool(marked or introduces) and not re.search(r"\d\s*%|\$", line)


def _row(columns: Sequence[str], cells: Sequence[str]) -> str:
    """A table row as text: its first cell, then each other one after the name of its column."""
    named = zip(columns[1:], cells[1:], strict=False)  # a cell without a column's name is dropped
    return ", ".join([cells[0], *(f"{name} {cell}".strip() for name, cell in named)])


def sentences(paragraph: str) -> list[str]:
    """The sentences of one paragraph.

    Abbreviations, initials, decimals and list numbers do not end one, nor does a period before a small
    letter, unless the paragraph has no capital letter at all.
    """
    parts, start, capitals = [], 0, paragraph != paragraph.lower()
    for stop in _STOP.finditer(paragraph):
        if stop[0][0] != "." or _ends_sentence(paragraph, start, stop, capitals):
            parts.append(paragraph[start : stop.end()])
            start = stop.end()
    return [*parts, paragraph[start:]]


def _ends_sentence(paragraph: str, start: int, stop: re.Match[str], capitals: bool) -> bool:
    """Whether a period ends the sentence that begins at `start`."""
    before = paragraph[max(start, stop.start() - 12) : stop.start()].rsplit(None, 1)
    word = before[-1].strip("(\"'“‘").lower() if before else ""
    following = paragraph[stop.end() : stop.end() + 4].lstrip(" \"'“‘([*_")[:1]
    is_initial = len(word) == 1 and word.isalpha()
    is_list_number = (
        stop.start() - start < 6 and paragraph[start : stop.start()].strip("( ").isdigit()
    )
    goes_on = capitals and following.islower()
    return not (word in _ABBREVIATIONS or is_initial or is_list_number or goes_on)


def remove_summaries(text: str) -> str:
    """The text less its opening and closing summary (paper, section 2.1), or `text` itself without any.

    A block at either end, or a last sentence, is one when it begins as summaries do ("Overview", "In short").
    It stays when it is over a third of the text or has a number that the rest lacks.
    """
    blocks = blocks_of(text)
    opening = _summaries(blocks, _OPENING)
    closing = _summaries(blocks[opening:][::-1], _CLOSING)
    named = [*range(opening), *range(len(blocks) - closing, len(blocks))]
    body = without_summaries(text, blocks, named)
    ends = [begins.end() for begins in _CLOSING_SENTENCE.finditer(body)]
    if ends:
        head, tail = body[: ends[-1]], body[ends[-1] :]
        if len(sentences(tail)) == 1 and _is_summary(tail, [head], _CLOSING):
            return head
    return body


def _summaries(blocks: Sequence[str], sign: re.Pattern[str]) -> int:
    """How many of the first two blocks are summaries, each of the blocks after it."""
    n = 0
    while n < min(2, len(blocks)) and _is_summary(blocks[n], blocks[n + 1 :], sign):
        n += 1
    return n


def _is_summary(block: str, rest: Sequence[str], sign: re.Pattern[str]) -> bool:
    if not sign.match(block) or len(block) > sum(map(len, rest)) / 2:
        return False
    said = Side([block])
    held = said.held_by(Side(rest))
    return all(number in held for number in said.numbers)
