"""Points cut out by rules, without a judge: sentences, clauses or paragraphs; summaries removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from ..parsing.blocks import blocks_of, without_summaries
from .quantities import find_quantities, same
from .words import word_weight, words_of

UNITS = ("sentence", "clause", "paragraph")
# Abbreviations whose period does not end a sentence, lower case.
_ABBREVIATIONS = frozenset(
    """
    approx assn ave bros ca cf co col corp dept dr e.g eq est fig figs gen gov i.e inc jan feb apr jun jul aug
    sep sept oct nov dec jr lt ltd mr mrs ms nos para pp prof rep rev sen sr st u.k u.s u.s.a vol vs
    """.split()
)
# A run of stops with its quotes and footnote marks, before a space; or a stop of an unspaced script.
_STOP = re.compile(r"(?<![.!?])[.!?]++[\"'”’)\]*_]*(?:\s*\[\d+(?:[,;–-]\s*\d+)*\])*(?=\s+\S)"
                   r"|[。！？；]+[”」』）]*")
_CLAUSE = re.compile(r";\s+|(?<!\s)\s++[–—]\s+|:\s+(?=\w)"
                     r"|,\s+(?=(?:and|but|while|whereas|which|although|though|because|so|with)\s)")
_BULLET = re.compile(r"^(?:[-*•–·▪>]+|\(?(?:\d{1,3}|[ivx]{1,4})[.)]|\(?[a-zA-Z]\))\s+")
_AFTER_LAST_WORD = re.compile(r"(?:\w|\A)(\W*)\Z")
_TABLE_RULE = re.compile(r"[\s:|-]+")
_MARKUP = re.compile(r"\*\*|__|`+|<\|[^|>]*\|>|(?<=\])\([^()\s]*\)|^#{1,6}\s+|^>\s+", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HEADED = (r"[#*\s]*(?:(?:executive|final) )?(?:summary|overview|introduction|conclusions?|in brief"
           r"|at a glance|tl;?dr|(?:final|closing) thoughts|key takeaways?)\**\s*(?:[:\n]|\*\*|$)")
_CONCLUDES = (r"(?:in (?:summary|conclusion|short|sum|essence)\b|to (?:summari[sz]e|sum up|conclude)\b"
              r"|(?:overall|ultimately|taken together|all in all),)")
_OPENING = re.compile(_HEADED, re.IGNORECASE)
_CLOSING = re.compile(f"{_HEADED}|{_CONCLUDES}", re.IGNORECASE)
_CLOSING_SENTENCE = re.compile(rf"(?<=[.!?])\s+(?={_CONCLUDES})", re.IGNORECASE)
# A paragraph not marked as a summary is one when the rest holds this share of its words.
REPEATED = 0.9
SUMMARY_LIMIT = 4000   # characters; a longer block is no summary, whatever it is called


class SentenceExtractor:
    """Points cut out by rules: sentences, or clauses or paragraphs. Needs no judge and no download.

    `max_sentences` of one paragraph make a point; list entries and table rows end one, headings are dropped.
    Summaries go first (`remove_summaries`) unless `remove_summary=False`; repetitions stay unless `dedupe`.
    An empty text has no points.
    """

    def __init__(self, *, unit: str = "sentence", max_sentences: int = 1, remove_summary: bool = True,
                 dedupe: bool = False):
        if unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {unit!r}")
        if max_sentences < 1:
            raise ValueError(f"max_sentences must be 1 or more, got {max_sentences}")
        self.unit, self.max_sentences = unit, max_sentences
        self.remove_summary, self.dedupe = remove_summary, dedupe
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
    """Running text, list entries and table rows (with their column names), one string each, without markup.

    Headings are dropped, unless there is nothing else.
    """
    found: list[list[str]] = []           # lines of each
    headings: list[str] = []
    columns: list[str] | None = None      # of the table being read; [] while it has no header
    open_paragraph = False                # whether a further line may belong to the last paragraph
    for raw in _CONTROL.sub(" ", text).splitlines():
        was_open, open_paragraph = open_paragraph, False
        line = _MARKUP.sub("", raw.strip()).strip()
        if line.count("|") >= 2:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not _TABLE_RULE.fullmatch(line):
                found.append([_row(columns, cells) if columns else " ; ".join(cells)])
                columns = columns or []
            elif columns == []:
                columns = found.pop()[0].split(" ; ")
            continue
        columns = None
        if not re.search(r"\w", line):
            continue
        if _marked_heading(raw.strip()):
            headings.append(line)
            continue
        open_paragraph = True
        if was_open and not _BULLET.match(line) and (len(found[-1][-1]) > 60 or not line[0].isupper()):
            found[-1].append(line)
        else:
            found.append([_BULLET.sub("", line)])
    return [" ".join(lines) for lines in found] or headings


def sentences(paragraph: str) -> list[str]:
    """Sentences of one paragraph. Abbreviations, initials, decimals and list numbers do not end one, nor does
    a stop before a small letter, unless the paragraph has no capital letter at all."""
    parts, start, capitals = [], 0, any(c.isupper() for c in paragraph)
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
    list_number = stop.start() - start < 6 and paragraph[start : stop.start()].strip("( ").isdigit()
    # Without capitals nothing tells "at 5 p.m." at the end of a sentence from one in its middle.
    initials = re.fullmatch("[a-z]" if capitals else r"(?:[a-z]\.)*[a-z]", word)
    return not (word in _ABBREVIATIONS or initials or list_number or (capitals and following.islower()))


@lru_cache(maxsize=512)
def remove_summaries(text: str) -> str:
    """The text less an opening and a closing summary (paper, section 2.1), or `text` itself without any.

    A paragraph at either end, or a last sentence, is one when it is headed so ("Overview", "In short") or
    nearly all its words recur in the rest; never when it brings a number that the rest lacks, is over a third
    of the text, or only copies sentences: a repetition stays.
    """
    blocks = blocks_of(text)
    finished = all(set(".!?:。").intersection(*_AFTER_LAST_WORD.findall(block)) for block in blocks)
    if len(re.findall(r"\n\s*\n", text)) < 2 and not finished:
        blocks = [text]              # lines broken anywhere are not paragraphs
    first, last = 0, len(blocks)
    # Two at each end at most, so that the work grows with the text alone.
    while first < 2 and last - first >= 3 and _is_summary(blocks[first], blocks[first + 1:last], _OPENING):
        first += 1
    least = max(first + 1, len(blocks) - 2)
    while last > least and _is_summary(blocks[last - 1], blocks[first : last - 1], _CLOSING):
        last -= 1
    body = without_summaries(text, blocks, [*range(first), *range(last, len(blocks))])
    if closings := [m.end() for m in _CLOSING_SENTENCE.finditer(body)]:
        head, tail = body[:closings[-1]], body[closings[-1]:]
        if len(tail) <= SUMMARY_LIMIT and len(sentences(tail)) == 1 and _is_summary(tail, [head], _CLOSING):
            return head
    return body


def _is_summary(block: str, rest: Sequence[str], sign: re.Pattern[str]) -> bool:
    """Whether `block` is marked by `sign` or repeats `rest` in new sentences, without a number of its own."""
    if len(block) > min(SUMMARY_LIMIT, sum(map(len, rest)) / 2):
        return False
    if not sign.match(block):
        words = [word for word in words_of(block) if word_weight(word) >= 1]
        copied = any(s.strip() in r for s in sentences(block) for r in rest)
        if _BULLET.match(block) or len(words) < 8 or copied:
            return False
        held = {word for text in rest for word in words_of(text)}
        if sum(word in held for word in words) < REPEATED * len(words):
            return False
    # Numbers in figures: "three themes" is none.
    numbers = [q for q in find_quantities(block) if re.search(r"\d", block[q.start : q.end])]
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
