"""Points cut out by rules, without a judge: sentences or paragraphs, without summaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain, groupby

from ..extract import blocks_of, without_summaries
from ..types import InputError, Points, Signed
from .figures import numbers_of

UNITS = ("sentence", "paragraph")
# Abbreviations whose period does not end a sentence, in lower case.
_ABBREVIATIONS = frozenset(
    """
    approx assn ave bros ca cf co col corp dept dr e.g eq est fig figs gen gov i.e inc
    jan feb apr jun jul aug sep sept oct nov dec
    jr lt ltd mr mrs ms nos para pp prof rep rev sen sr st u.k u.s u.s.a vol vs
    """.split()
)
_CITATION = r"\[\d+(?:[,;–-]\s*\d+)*\]"
_CITED = re.compile(_CITATION)
# Where a sentence may end. The look at the first character makes the search several times faster.
_STOP = re.compile(
    rf"""(?= [.!?。！？；] )
    (?:
        # stops, with the quotes and citations that follow them, before a space
        (?<! [.!?] ) [.!?]++ [\"'”’)\]*_]* (?: \s* {_CITATION} )* (?= \s+ \S )
        # stops of a script without spaces, with the brackets that follow them
      | [。！？；]+ [”」』）]*
    )""",
    re.VERBOSE,
)
_BULLET = re.compile(
    r"""^
    (?:
        [-*•–·▪>]+
      | \(? (?: \d{1,3} | [ivx]{1,4} ) [.)]
      | \(? [a-zA-Z] \)
    ) \s+""",
    re.VERBOSE,
)
# Markup, and the tokens of chat formats. The look at the first character is for speed here too.
_MARKS = re.compile(
    r"""(?= [*_`<(\#>] )
    (?:
        \*\* | __
      | ^```\w*$
      | `+
      | <\| [^|>]* \|>
      | (?<= \] ) \( [^()\s]* \)  # the address of a link
      | ^\#{1,6}\s+
      | ^>\s+
    )""",
    re.VERBOSE,
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


class SentenceExtractor(Signed):
    """Points cut out by rules: sentences, or paragraphs. Needs no judge.

    List entries and table rows are paragraphs, headings are dropped, repetitions stay. Summaries
    are removed first (`remove_summaries`) unless `keep_summaries`. A part that is only citations is
    no point. InputError for another unit.
    """

    def __init__(self, unit: str = "sentence", keep_summaries: bool = False):
        if unit not in UNITS:
            raise InputError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}")
        self.unit, self.keep_summaries = unit, keep_summaries
        self.signature = f"rules:{unit}{',summaries kept' if keep_summaries else ''}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        """The points of each text; never None."""
        return [self._points(text) for text in texts]

    def _points(self, text: str) -> Points:
        body = text if self.keep_summaries else remove_summaries(text)
        parts = paragraphs(body)
        if self.unit == "sentence":
            parts = list(chain.from_iterable(map(sentences, parts)))
        parts = [part.strip() for part in parts if re.search(r"\w", _CITED.sub("", part))]
        return tuple(_BULLET.sub("", part) for part in parts)


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text without markup: running text, list entries, rows of tables.

    A row of a table has the names of its columns. Headings are dropped, unless there is nothing
    else.
    """
    lines = [line.strip() for line in text.splitlines()]
    parts: list[str] = []
    for is_table, group in groupby(lines, key=_is_table_row):
        parts_of = _table_rows if is_table else _running_text
        parts += parts_of(group)
    return parts or [_unmarked(line) for line in lines if _is_heading(line)]


def _unmarked(line: str) -> str:
    return _MARKS.sub("", line).strip()


def _is_table_row(line: str) -> bool:
    return _unmarked(line).count("|") >= 2


def _table_rows(lines: Iterable[str]) -> list[str]:
    """The rows of a table as text; the row above its ruler ("|---|---|") names the columns."""
    rows: list[str] = []
    columns: list[str] = []
    for line in map(_unmarked, lines):
        if not re.fullmatch(r"[\s:|-]+", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows.append(_row(columns, cells))
        elif rows and not columns:
            columns = rows.pop().split(" ; ")
    return rows


def _row(columns: Sequence[str], cells: Sequence[str]) -> str:
    """A row as text: its first cell, then each other one after the name of its column.

    Cells beyond the last column are dropped. Without columns all cells are listed.
    """
    if not columns:
        return " ; ".join(cells)
    named = zip(columns[1:], cells[1:], strict=False)
    return ", ".join([cells[0], *(f"{name} {cell}".strip() for name, cell in named)])


def _running_text(lines: Iterable[str]) -> list[str]:
    """The paragraphs and list entries among lines that are no table."""
    parts: list[list[str]] = []  # the lines of each
    was_text = False  # whether the line before states something
    for marked in lines:
        line = _unmarked(marked)
        is_text = bool(re.search(r"\w", line)) and not _is_heading(marked)
        if is_text and was_text and _continues(line, parts[-1][-1]):
            parts[-1].append(line)
        elif is_text:
            parts.append([_BULLET.sub("", line)])
        was_text = is_text
    return [" ".join(part) for part in parts]


def _is_heading(line: str) -> bool:
    """A line marked as a heading, or a short one that ends in a colon: it states nothing itself."""
    is_marked = re.match(r"#{1,6}\s|(?:\*\*|__)[^*_]+(?:\*\*|__):?$", line)
    is_introduction = line.endswith((":", ":**")) and len(line.split()) <= 12
    return bool(is_marked or is_introduction) and not re.search(r"\d\s*%|\$", line)


def _continues(line: str, previous: str) -> bool:
    """Whether a line goes on with the sentence or paragraph of the line before it."""
    return not _BULLET.match(line) and (len(previous) > 60 or not line[0].isupper())


def sentences(paragraph: str) -> list[str]:
    """The sentences of one paragraph.

    Abbreviations, initials, decimals and list numbers do not end one, nor does a period before a
    small letter, unless the paragraph has no capital letter at all.
    """
    parts, start = [], 0
    has_capitals = paragraph != paragraph.lower()
    for stop in _STOP.finditer(paragraph):
        if stop[0][0] != "." or _ends_sentence(paragraph, start, stop, has_capitals):
            parts.append(paragraph[start : stop.end()])
            start = stop.end()
    parts.append(paragraph[start:])
    return parts


def _ends_sentence(paragraph: str, start: int, stop: re.Match[str], has_capitals: bool) -> bool:
    """Whether a period ends the sentence that begins at `start`."""
    before = paragraph[max(start, stop.start() - 12) : stop.start()].split()
    word = before[-1].strip("(\"'“‘").lower() if before else ""
    next_letter = paragraph[stop.end() : stop.end() + 4].lstrip(" \"'“‘([*_")[:1]
    is_initial = len(word) == 1 and word.isalpha()
    is_list_number = (
        stop.start() - start < 6 and paragraph[start : stop.start()].strip("( ").isdigit()
    )
    goes_on = has_capitals and next_letter.islower()
    return not (word in _ABBREVIATIONS or is_initial or is_list_number or goes_on)


def remove_summaries(text: str) -> str:
    """The text without its opening and its closing summary (paper, section 2.1).

    A block at either end, or a last sentence, is a summary when it begins as summaries do
    ("Overview", "In short"). It stays when it is over a third of the text, or has a number that the
    rest does not have. A text without summaries is returned as it is.
    """
    blocks = blocks_of(text)
    opening = _count_summaries(blocks, _OPENING)
    closing = _count_summaries(blocks[opening:][::-1], _CLOSING)
    summaries = [*range(opening), *range(len(blocks) - closing, len(blocks))]
    body = without_summaries(text, blocks, summaries)
    ends = [match.end() for match in _CLOSING_SENTENCE.finditer(body)]
    if ends:
        head, tail = body[: ends[-1]], body[ends[-1] :]
        if len(sentences(tail)) == 1 and _is_summary(tail, [head], _CLOSING):
            return head
    return body


def _count_summaries(blocks: Sequence[str], beginning: re.Pattern[str]) -> int:
    """How many of the first two blocks are summaries, each of the blocks after it."""
    count = 0
    while count < min(2, len(blocks)):
        if not _is_summary(blocks[count], blocks[count + 1 :], beginning):
            break
        count += 1
    return count


def _is_summary(block: str, rest: Sequence[str], beginning: re.Pattern[str]) -> bool:
    if not beginning.match(block) or len(block) > sum(map(len, rest)) / 2:
        return False
    others = numbers_of("\n\n".join(rest))
    return all(map(others.has, numbers_of(block).different))
