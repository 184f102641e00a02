"""The questions and prompts of the paper (arXiv:2503.16575, appendix A) in a reader's copy of it.

A copy is a PDF, an HTML page or a text. The parts are found by their titles and captions, and come out word
for word: only line breaks, typographic quotes and what typesetting leaves behind are made plain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

from ...types import InputError
from ..dataset.documents import letters, read_pages, without_running_heads

Span = tuple[int, int]        # start and end in a text
TOLD = 3                      # missing parts of which an error says what was sought
SHOWN = 80                    # characters of a line in an error
CAPTION = r"figure\d{1,2}theprompt"     # letters of the captions of the figures that show a prompt


@dataclass(frozen=True, slots=True)
class PaperPrompt:
    """How one prompt of the appendix is found, and which of its places become which slots."""

    name: str                     # for messages
    title: str                    # heads its box; a figure's caption ends it
    slots: Mapping[str, str]      # pattern in the paper -> slot
    letters_hash: str             # beginning of the SHA-256 of its letters and digits, as printed

    @property
    def caption(self) -> str:
        """How the caption begins that ends it."""
        return "Figure " + re.findall(r"figure (\d)", self.name)[0]


PROMPTS = {
    "answer": PaperPrompt(
        "answer prompt (A.2, figure 3)", "Individual LLM Answer Generation Prompt",
        {r"<\s*Question\s*>": "$question"}, "c632f85060dba104"),
    "consolidate": PaperPrompt(
        "consolidation prompt (A.2, figure 4)", "Consolidated Answer Generation Prompt",
        {r"<\s*Question\s*>": "$question", r"<\s*Attached\s+pdf\s+file\s*>": "$document",
         r"(?:Answer Version \d+:\s*<\s*Answer[_ ]Version[_ ]\d+\s*>\s*)+": "$versions"}, "35da86a76e0d58f6"),
    "extract": PaperPrompt(
        "extraction prompt (A.3, figure 5)", "Saliency Points Extraction Prompt",
        {r"<\s*ans\s*>": "$answer"}, "eb05a3000a9967de"),
    "match": PaperPrompt(
        "matching prompt (A.4, figure 6)", "Saliency Points Matching Prompt",
        {r"<\s*ref\s*>": "$reference", r"<\s*candid\s*>": "[\n$candidates\n]"}, "427905df1ede1085"),
    "score": PaperPrompt(
        "scoring prompt (A.5, figure 7)", "Alignment Scoring Prompt",
        {r"<\s*kp1\s*>": "$reference", r"<\s*kp2\s*>": "$candidate",
         r"\{\s*max[_ ]score\s*\}": "$max_score"}, "7286f40c4797ae50"),
}
# The five questions, known likewise.
QUESTIONS = ("abf8b499323c0426", "f6127ea01325a4f2", "e21564347afc5714", "4e3b416e49e7a71f",
             "6324facf36816893")
# What heads the parts.
MARKS = (*(f"QUESTION {i}" for i in range(1, 6)), *(prompt.title for prompt in PROMPTS.values()))


def paper_text(source: str | Path) -> str:
    """The text of a copy of the paper in any form, without running heads and marks of typesetting."""
    return _plain(without_running_heads(read_pages(Path(source))))


def _plain(text: str) -> str:
    """Without what typesetting, LaTeX and Markdown leave behind in a text."""
    for ligature, spelled in (("ﬀ", "ff"), ("ﬁ", "fi"), ("ﬂ", "fl"), ("ﬃ", "ffi"), ("ﬄ", "ffl")):
        text = text.replace(ligature, spelled)
    text = re.sub("[\u00ad\u200b\ufeff]", "", text.replace("\r\n", "\n"))
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub("[“”„‟″]|''|``", '"', text)
    text = re.sub("[‘’‚‛′`]", "'", text)
    text = re.sub(r"\\(?:text|mathrm|texttt)\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\$\s*(\\\{[^$\n]{1,40}\\\}|[<>]|\\lang\w*|\\rang\w*)\s*\$", r"\1", text)
    text = re.sub(r"\\langle|⟨", "<", re.sub(r"\\rangle|⟩", ">", text))
    text = re.sub(r"¡([\w ]{1,30})¿", r"<\1>", text)      # what < and > become in TeX's oldest font encoding
    text = re.sub(r"\\([$%&#_{}])", r"\1", text).replace("**", "")
    text = re.sub(r"(?m)^ *(?:#{1,6}|>) +", "", text)
    text = re.sub(r"(?m)^ *[•◦▪∗·–*] *", "- ", text)
    return re.sub(r"(?m)^ *(\d{1,2}\.|-) *\n\s*(?=\S)", r"\1 ", text)     # a list's mark on its own line


def find_parts(text: str) -> tuple[list[str], dict[str, str]]:
    """The five questions, and the prompts by task, their lines joined. InputError names what is missing."""
    copy = _Copy(text)
    appendix = copy.first("Questions designed for") or (0, 0)
    questions = _find_questions(copy, appendix)
    titles = [(span, task) for task, prompt in PROMPTS.items()
              for span in copy.spans(letters(prompt.title)) if span > appendix]
    prompts = _find_prompts(copy, titles)
    missing = {f"question {i} (A.1)": copy.nearest(f"QUESTION {i}")
               for i, question in enumerate(questions, 1) if question is None}
    for task, prompt in PROMPTS.items():
        if task in prompts:
            missing |= {f"{prompt.name}: the place for {re.findall('[a-z_]+', slot)[0]}":
                        copy.nearest(_printed(pattern), prompts[task])
                        for pattern, slot in prompt.slots.items()
                        if not re.search(pattern, prompts[task], re.I)}
        elif task in {title[1] for title in titles}:
            missing[f"{prompt.name}: it breaks off"] = copy.nearest(f"{prompt.caption}: The prompt")
        else:
            missing[prompt.name] = copy.nearest(prompt.title)
    if missing:
        sought = "; ".join(list(missing.values())[:TOLD])
        raise InputError(f"this copy of the paper lacks {'; '.join(missing)}. Nothing was imported; give the "
                         f"whole paper as PDF, HTML or text. Sought: {sought}")
    return [question or "" for question in questions], {task: prompts[task] for task in PROMPTS}


def _printed(pattern: str) -> str:
    """About what a slot's pattern finds, as the paper has it: for people."""
    for mark, shown in (("(?:", ""), (")+", ""), (r"\s*", ""), (r"\s+", " "), (r"\d+", "1"), ("[_ ]", "_"),
                        ("\\", "")):
        pattern = pattern.replace(mark, shown)
    return pattern


def _find_questions(copy: _Copy, appendix: Span) -> list[str | None]:
    """The five questions; None for one that is missing or breaks off, "" where only the next heading is."""
    headings = [copy.first(f"QUESTION {i}", appendix) for i in range(1, 6)]
    after = copy.first("Answer Generation Prompts", headings[4]) if headings[4] else None
    ends = [*(span and span[0] for span in headings[1:]),
            after and copy.text.rfind("\n", 0, after[0]) + 1]         # where its line begins
    questions: list[str | None] = []
    for i, (heading, end) in enumerate(zip(headings, ends, strict=True), 1):
        question = copy.reflowed(heading[1], end) if heading and end else ""
        broken = (end or i == 5) and not re.search(r"\w{3}.*[.?]$", question)
        questions.append(None if heading is None or broken else question)
    return questions


def _find_prompts(copy: _Copy, titles: Sequence[tuple[Span, str]]) -> dict[str, str]:
    """By task, what stands between a figure's caption and the last title before it."""
    prompts: dict[str, str] = {}
    previous = 0
    for caption, _ in copy.spans(CAPTION):
        between = [title for title in titles if previous <= title[0][0] < caption]
        if between and max(between)[1] not in prompts:
            span, task = max(between)
            prompts[task] = copy.reflowed(span[1], caption)
        previous = caption
    return prompts


class _Copy:
    """A copy's text, in which words are found whatever spaces, line breaks and capitals they have in it."""

    def __init__(self, text: str):
        self.text = text
        self.places = [i for i, c in enumerate(text) if c.isalnum()]      # of the letters in the text
        self.letters = letters(text)
        lengths = sorted(len(line) for line in text.split("\n") if line.strip()) or [0]
        self.width = lengths[len(lengths) * 9 // 10]                     # characters of a full line
        unbroken = re.sub(r"[a-z-]+-\n\s*[a-z]+", " ", text.lower())     # halves of broken words are no words
        self.words = frozenset(re.findall(r"[a-z]+(?:-[a-z]+)*", unbroken))

    def spans(self, pattern: str) -> list[Span]:
        """Everywhere that a pattern of letters matches."""
        return [(self.places[match.start()], self.places[match.end() - 1] + 1)
                for match in re.finditer(pattern, self.letters)]

    def first(self, words: str, after: Span = (0, 0)) -> Span | None:
        """Where the words stand first after a place, None when they do not."""
        return next((span for span in self.spans(letters(words)) if span[0] >= after[1]), None)

    def reflowed(self, start: int, end: int) -> str:
        """A part of the text, its lines joined to paragraphs, list entries and labels."""
        blocks: list[str] = []
        after_short = True                         # whether a paragraph may have ended before this line
        for line in map(str.strip, self.text[start:end].strip().split("\n")):
            if not line:
                after_short = True
                continue
            if not blocks or _begins_block(line, blocks[-1], after_short):
                blocks.append(line)
            elif re.search(r"[a-z]-$", blocks[-1]) and re.match("[a-z]", line):
                blocks[-1] = blocks[-1][:-1] + "-" * self._is_compound(blocks[-1], line) + line
            else:
                blocks[-1] += " " + line
            after_short = len(line) < 0.8 * self.width
        return "".join(block + _gap(block, after) for block, after in pairwise([*blocks, ""]))

    def _is_compound(self, before: str, after: str) -> bool:
        """Whether a hyphen at a line's end belongs to the word: seen elsewhere, or both halves are words."""
        first, second = re.findall("[a-z-]+", before.lower()[:-1])[-1], re.findall("[a-z]+", after)[0]
        return f"{first}-{second}" in self.words or (
            first + second not in self.words and {first, second} <= self.words)

    def nearest(self, words: str, within: str = "") -> str:
        """What was sought, and the line most like it, in the copy or a part of it: for people.

        The words themselves may stand there, where what belongs to them does not. Lines that are the mark of
        another part are passed over.
        """
        marks = {letters(mark) for mark in MARKS} - {letters(words)} | {""}
        lines = {line.strip().casefold(): line.strip() for line in (within or self.text).split("\n")
                 if letters(line) not in marks and not re.match(CAPTION, letters(line))}
        near = get_close_matches(words.casefold(), lines, n=1, cutoff=0.5)
        shown = f"nearest line {lines[near[0]][:SHOWN]!r}" if near else "no line is like it"
        return f"{words!r} ({shown})"


_MARKED = re.compile(r'\d{1,2}\. |- |["\[\]]|<[^<>]{1,30}>$|-?\d{1,2}$')
# A line that only names what follows, and one that begins with such a name.
_HEAD = re.compile(r"(?:\d{1,2}\. )?(?:[A-Z{][^.!?\":]{0,60}:|Example \d+:?)$")
_LABELLED = re.compile(r"[A-Z{][^.!?\":]{0,60}:(?: |$)|Example \d+:?$")


def _begins_block(line: str, last: str, after_short: bool) -> bool:
    """Whether a line begins a block of its own after the block `last`, or goes on with it."""
    if (_HEAD.match(last) or last in ("[", "]") or _LABELLED.match(line)
            or (line[0] == '"' and last[-1] == ",")):
        return True
    ended = last[-1] in '.:?!"]>'
    list_goes_on = ended or last[-1] == "," or re.fullmatch(r"-?\d{1,2}", last)
    return bool(_MARKED.match(line) and line[0] != '"' and list_goes_on) or (after_short and ended)


def _gap(block: str, after: str) -> str:
    """What stands between two blocks: a line break in lists and after labels, else an empty line."""
    if not after:
        return ""
    close = _HEAD.match(block) or re.match(r'\d{1,2}\. |- |["\[\]]', after)
    return "\n" if close and not re.match(r"Example \d", after) else "\n\n"
