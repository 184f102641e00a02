"""Points cut out by rules, without a judge: sentences, clauses or paragraphs; summaries removed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..extract import blocks_of
from .quantities import find_quantities, same
from .words import word_weight, words_of

UNITS = ("sentence", "clause", "paragraph")
# Abbreviations whose period does not end a sentence, lower case.
_ABBREVIATIONS = frozenset([
    "approx", "assn", "ave", "avg", "bros", "ca", "cf", "co", "col", "corp", "dept", "dr", "e.g", "eq", "est", "excl",
    "fig", "figs", "gen", "gov", "i.e", "inc", "incl", "jan", "feb", "apr", "jun", "jul", "aug", "sep", "sept", "oct",
    "nov", "dec", "jr", "lt", "ltd", "mr", "mrs", "ms", "nos", "para", "pp", "prof", "rep", "rev", "sen", "sr", "st",
    "u.k", "u.s", "u.s.a", "vol", "vs",
])
# The patterns below give back nothing that they have matched (`++`, `*+`) and begin no match inside a run of the same
# character: a long run of dots or spaces is read once, not once from each of its characters.
# A run of stops with its quotes and footnote marks, before a space; or a stop of an unspaced script.
_STOP = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]*_]*+(?:\s*\[\d+(?:[,;–-]\s*\d+)*\])*(?=\s+\S)"
                   r"|(?<![。！？；])[。！？；]++[”」』）]*+")
_LETTER = re.compile(r"[^\W\d_]")
_CLAUSE = re.compile(r";\s+|(?<!\s)\s++[–—]\s+|:\s+(?=\w)"
                     r"|,\s+(?=(?:and|but|while|whereas|which|although|though|because|so|with)\s)")
_BULLET = re.compile(r"^(?:[-*•–·▪>]+|\(?(?:\d{1,3}|[ivx]{1,4})[.)]|\(?[a-zA-Z]\))\s+")
_TABLE_RULE = re.compile(r"[\s:|-]+")
# A link's address ends before another "](", so that repeated ones are read once.
_MARKUP = re.compile(r"\*\*|__|`+|<\|[^|>]*\|>|(?<=\])\((?:[^)\s\]]|\](?!\())*+\)|^#{1,6}\s+|^>\s+", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HEADED = (r"[#*\s]*(?:(?:executive|final) )?(?:summary|overview|introduction|conclusions?|in brief|at a glance"
           r"|tl;?dr|(?:final|closing) thoughts|key takeaways?)\**\s*(?:[:\n]|\*\*|$)")
_CONCLUDES = (r"(?:in (?:summary|conclusion|short|sum|essence)\b|to (?:summari[sz]e|sum up|conclude)\b"
              r"|(?:overall|ultimately|taken together|all in all),)")
_OPENING = re.compile(_HEADED, re.IGNORECASE)
_CLOSING = re.compile(f"{_HEADED}|{_CONCLUDES}", re.IGNORECASE)
_CLOSING_SENTENCE = re.compile(rf"(?<=[.!?])\s+(?={_CONCLUDES})", re.IGNORECASE)
REPEATED = 0.9         # a paragraph not marked as a summary is one when the rest holds this share of its words
SUMMARY_LIMIT = 4000   # characters; a longer block is no summary, whatever it is called


class SentenceExtractor:
    """Points cut out by rules: sentences, or clauses or paragraphs. Needs no judge and no download.

    Each sentence is a point (`max_sentences` of one paragraph together when more than 1); list entries and table rows
    end a point, headings are dropped. Repetitions are kept unless `dedupe` (an ablation). Opening and closing
    summaries are removed by `remove_summaries` first unless `remove_summary=False`. An empty text has no points.
    """

    def __init__(self, *, unit: str = "sentence", max_sentences: int = 1, remove_summary: bool = True,
                 dedupe: bool = False):
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}")
        if max_sentences < 1:
            raise ValueError(f"max_sentences must be 1 or more, got {max_sentences}")
        self.unit, self.max_sentences, self.remove_summary, self.dedupe = unit, max_sentences, remove_summary, dedupe
        self.signature = f"rules:{unit}" + (f"x{max_sentences}" if max_sentences > 1 else "") + (
            "" if remove_summary else ",summaries kept") + (",deduplicated" if dedupe else "")

    def __call__(self, texts: Sequence[str]) -> list[tuple[str, ...] | None]:
        return [self._points(text) for text in texts]

    def _points(self, text: str) -> tuple[str, ...]:
        points: list[str] = []
        for paragraph in paragraphs(remove_summaries(text) if self.remove_summary else text):
            parts = [paragraph] if self.unit == "paragraph" else sentences(paragraph)
            if self.unit == "clause":
                parts = [clause for part in parts for clause in _CLAUSE.split(part)]
            parts = [_BULLET.sub("", part.strip()) for part in parts if re.search(r"\w", part)]
            step = self.max_sentences
            points.extend(" ".join(parts[i:i + step]) for i in range(0, len(parts), step))
        return tuple(dict.fromkeys(points)) if self.dedupe else tuple(points)


def paragraphs(text: str) -> list[str]:
    """Running text, list entries and table rows, one string each, in order, without markup.

    Headings are dropped, unless there is nothing else. A table row is written out with its column names.
    """
    blocks: list[list[str]] = []          # lines of each
    headings: list[str] = []
    columns: list[str] | None = None      # of the table being read; [] while it has no header
    open_paragraph = False                # whether a further line may belong to the last paragraph
    for raw in _CONTROL.sub(" ", text).splitlines():
        line = _MARKUP.sub("", raw.strip()).strip()
        if line.count("|") >= 2:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not _TABLE_RULE.fullmatch(line):
                blocks.append([_row(columns, cells) if columns else " ; ".join(cells)])
                columns = columns or []
            elif columns == []:
                columns = blocks.pop()[0].split(" ; ")
            open_paragraph = False
            continue
        columns = None
        if not re.search(r"\w", line):
            open_paragraph = False
        elif _marked_heading(raw.strip()):
            headings.append(line)
            open_paragraph = False
        elif _BULLET.match(line):
            blocks.append([_BULLET.sub("", line)])
            open_paragraph = True
        elif open_paragraph and (len(blocks[-1][-1]) > 60 or not line[0].isupper()):
            blocks[-1].append(line)
        else:
            blocks.append([line])
            open_paragraph = True
    return [" ".join(lines) for lines in blocks] or headings


def sentences(paragraph: str) -> list[str]:
    """Sentences of one paragraph; joined together they are the paragraph.

    Abbreviations, initials, decimals and list numbers do not end one. A stop before a small letter does not either,
    unless the paragraph is written without capitals: neither it nor any of its sentences begins with one.
    """
    stops = list(_STOP.finditer(paragraph))
    beginnings = [_LETTER.search(paragraph), *(_LETTER.search(paragraph, m.end(), m.end() + 6) for m in stops)]
    capitals = any(letter and letter[0].isupper() for letter in beginnings)
    parts, start = [], 0
    for stop in stops:
        if stop[0][0] != "." or _ends_sentence(paragraph, start, stop, capitals):
            parts.append(paragraph[start:stop.end()])
            start = stop.end()
    return [*parts, paragraph[start:]]


def _ends_sentence(paragraph: str, start: int, stop: re.Match[str], capitals: bool) -> bool:
    """Whether a period ends the sentence that begins at `start`; `capitals`: sentences of this text have them."""
    before = paragraph[max(start, stop.start() - 12):stop.start()].rsplit(None, 1)
    word = before[-1].strip("(\"'“‘").lower() if before else ""
    if word in _ABBREVIATIONS or re.fullmatch("[a-z]", word):
        return False
    if stop.start() - start < 6 and paragraph[start:stop.start()].strip("( ").isdigit():
        return False                     # a list number
    following = paragraph[stop.end():stop.end() + 4].lstrip(" \"'“‘([*_")[:1]
    ellipsis = stop[0].startswith("..")
    return not following.islower() or not (capitals or ellipsis)


def remove_summaries(text: str) -> str:
    """The text less an opening and a closing summary (paper, section 2.1): the body holds their content already.

    A paragraph at either end is a summary when it is headed as one ("Overview", "In conclusion, ...") or when nearly
    all its words recur in the rest; never when it brings a number that the rest lacks, when it is over a third of the
    text, or when it only copies sentences: that is a repetition, and stays. A closing sentence within the last
    paragraph ("In summary, ...") goes the same way. Returns `text` itself when there is none.
    """
    blocks = blocks_of(text)
    if len(re.findall(r"\n\s*\n", text)) < 2 and not all(map(_ends_with_stop, blocks)):
        blocks = [text]              # lines broken anywhere are not paragraphs
    first, last = 0, len(blocks)
    # Two at each end at most, so that the work grows with the text alone.
    while first < 2 and last - first >= 3 and _is_summary(blocks[first], blocks[first + 1:last], _OPENING):
        first += 1
    while last > max(first + 1, len(blocks) - 2) and _is_summary(blocks[last - 1], blocks[first:last - 1], _CLOSING):
        last -= 1
    body = _between(text, blocks, first, last)
    if closings := [m.end() for m in _CLOSING_SENTENCE.finditer(body)]:
        head, tail = body[:closings[-1]], body[closings[-1]:]
        if len(tail) <= SUMMARY_LIMIT and len(sentences(tail)) == 1 and _is_summary(tail, [head], _CLOSING):
            return head
    return body


def _ends_with_stop(block: str) -> bool:
    """Whether nothing but marks and spaces follows the last stop of a block."""
    return bool(re.match(r"\W*?[.!?:。]", block[::-1]))


def _between(text: str, blocks: Sequence[str], first: int, last: int) -> str:
    """The part of `text` less the blocks before `first` and from `last` on.

    The blocks hold all words of the text in order, so words are counted: a line may occur more than once.
    """
    words = [match.span() for match in re.finditer(r"\S+", text)]
    counts = [len(block.split()) for block in blocks]
    start = words[sum(counts[:first]) - 1][1] if first else 0
    end = words[sum(counts[:last])][0] if last < len(blocks) else len(text)
    return text[start:end]


def _is_summary(block: str, rest: Sequence[str], sign: re.Pattern[str]) -> bool:
    """Whether `block` is marked by `sign`, or repeats `rest` in other sentences, and has no number of its own."""
    if len(block) > min(SUMMARY_LIMIT, sum(map(len, rest)) / 2):
        return False
    if not sign.match(block):
        words = [word for word in words_of(block) if word_weight(word) >= 1]
        if _BULLET.match(block) or len(words) < 8 or any(s.strip() in r for s in sentences(block) for r in rest):
            return False
        held = {word for text in rest for word in words_of(text)}
        if sum(word in held for word in words) < REPEATED * len(words):
            return False
    numbers = [q for q in find_quantities(block) if re.search(r"\d", block[q.start:q.end])]     # not "three themes"
    others = [q for text in rest for q in find_quantities(text)] if numbers else []
    return all(any(same(q, other) for other in others) for q in numbers)


def _marked_heading(line: str) -> bool:
    """A line marked as a heading, or a short one that ends in a colon; it says nothing of its own."""
    marked = re.match(r"#{1,6}\s|(?:\*\*|__)[^*_]+(?:\*\*|__):?$", line)
    introduces = line.endswith((":", ":**")) and len(line.split()) <= 12
    return bool(marked or introduces) and not re.search(r"\d\s*%|\$", line)


def _row(columns: Sequence[str], cells: Sequence[str]) -> str:
    """A table row as text: its first cell, then each further one after the name of its column."""
    named = zip(columns[1:], cells[1:], strict=False)      # a ragged row keeps what has a name
    return ", ".join([cells[0], *(f"{name} {cell}".strip() for name, cell in named)])
