"""The paper's questions and prompts (arXiv:2503.16575, appendix A) as the prompt set `paper`.

Their sentences are not part of this project. `python notebooks/study/paper_prompts.py FILE.txt`
takes them from the text of the reader's own copy (such as `pdftotext paper.pdf`) into the folder of
prompt sets, where `--prompts paper` and PROMPTS = "paper" find them. Parts are found by their
titles and captions; only line breaks and typographic signs change. A hash of the letters of each
part says whether it is whole.
"""

from __future__ import annotations

import hashlib
import re
import sys
from itertools import pairwise
from pathlib import Path

import yaml

from ems.io import read_text, write_file
from ems.prompts import home
from ems.types import InputError

# By task: the title of its box, and which of its places become which slots. A caption ends a box.
BOXES = {
    "answer": ("Individual LLM Answer Generation Prompt", {r"<\s*Question\s*>": "$question"}),
    "consolidate": (
        "Consolidated Answer Generation Prompt",
        {
            r"<\s*Question\s*>": "$question",
            r"<\s*Attached\s+pdf\s+file\s*>": "$document",
            r"(?:Answer Version \d+:\s*<\s*Answer[_ ]Version[_ ]\d+\s*>\s*)+": "$versions\n",
        },
    ),
    "extract": ("Saliency Points Extraction Prompt", {r"<\s*ans\s*>": "<text>\n$answer\n</text>"}),
    "match": (
        "Saliency Points Matching Prompt",
        {r"<\s*ref\s*>": "$reference", r"<\s*candid\s*>": "[\n$candidates\n]"},
    ),
    "score": (
        "Alignment Scoring Prompt",
        {
            r"<\s*kp1\s*>": "$reference",
            r"<\s*kp2\s*>": "$candidate",
            r"\{\s*max[_ ]score\s*\}": "$max_score",
        },
    ),
}
TOPICS = (
    "themes and guidance",
    "risks and uncertainties",
    "strategy and priorities",
    "industry and economy",
    "cash flow and capital allocation",
)
# The beginning of the SHA-256 of the letters and digits of each part, as printed.
HASHES = {
    "Q1": "abf8b499323c0426",
    "Q2": "f6127ea01325a4f2",
    "Q3": "e21564347afc5714",
    "Q4": "4e3b416e49e7a71f",
    "Q5": "6324facf36816893",
    "answer": "c632f85060dba104",
    "consolidate": "35da86a76e0d58f6",
    "extract": "eb05a3000a9967de",
    "match": "427905df1ede1085",
    "score": "7286f40c4797ae50",
}
_CAPTION = r"figure\d{1,2}theprompt"
# What is replaced in the text, in this order.
_TYPOGRAPHY = (
    ("ﬀ", "ff"),
    ("ﬁ", "fi"),
    ("ﬂ", "fl"),
    ("ﬃ", "ffi"),
    ("ﬄ", "ffl"),
    ("\r\n|\f", "\n"),
    ("[\u00ad\u200b\ufeff]", ""),  # soft hyphens and signs without a width
    (r"[^\S\n]+", " "),
    ("[“”„‟″]|''|``", '"'),
    ("[‘’‚‛′`]", "'"),
    (r"\\(?:text|mathrm|texttt)\s*\{([^{}]*)\}", r"\1"),
    (r"\$\s*(\\\{[^$\n]{1,40}\\\})\s*\$", r"\1"),
    (r"\\langle|⟨|¡(?=[\w ]{1,30}¿)", "<"),
    (r"\\rangle|⟩|¿", ">"),
    (r"\\([$%&#_{}])", r"\1"),
    (r"(?m)^ *[•◦▪∗·–*] *", "- "),
    (r"(?m)^ *(\d{1,2}\.|-) *\n\s*(?=\S)", r"\1 "),  # a list entry goes on in the next line
)
_LIST_ENTRY = re.compile(r'\d{1,2}\. |- |["\[\]]|<[^<>]{1,30}>$|-?\d{1,2}$')
_LABEL = re.compile(r"[A-Z{][^.!?\":]{0,60}:(?: |$)|Example \d+:?$")
_ONLY_LABEL = re.compile(r"(?:\d{1,2}\. )?(?:[A-Z{][^.!?\":]{0,60}:|Example \d+:?)$")


def letters(text: str) -> str:
    """The letters and digits of a text in lower case, which do not depend on how it was typeset."""
    return "".join(c for c in text if c.isalnum()).lower()


def without_typography(text: str) -> str:
    """A text without ligatures, typographic quotes, form feeds and what LaTeX leaves behind."""
    for pattern, replacement in _TYPOGRAPHY:
        text = re.sub(pattern, replacement, text)
    return text


def parts_of(text: str) -> dict[str, str]:
    """The questions (Q1 to Q5) and prompts (by task) in the text of the paper.

    A part that is missing is "".
    """
    compact = letters(text)
    places = [i for i, c in enumerate(text) if c.isalnum()]  # of these letters in the text
    parts = dict.fromkeys(HASHES, "")
    start = compact.find(letters("Questions designed for"))
    headings = [compact.find(letters(f"QUESTION {i}"), start) for i in range(1, 6)]
    headings.append(compact.find(letters("Answer Generation Prompts"), headings[-1]))
    for number, (heading, end) in enumerate(pairwise(headings), 1):
        if 0 <= heading < end:
            first = places[heading + len(f"question{number}") - 1] + 1
            last = places[end]
            if number == 5:  # the heading that follows has a number before its first letter
                last = text.rfind("\n", 0, last)
            parts[f"Q{number}"] = reflow(text[first:last])
    for task, (title, _) in BOXES.items():
        box = _shortest_box(compact, letters(title), start + 1)
        if box is not None:
            parts[task] = reflow(text[places[box.start(1) - 1] + 1 : places[box.end(1)]])
    return parts


def _shortest_box(compact: str, title: str, start: int) -> re.Match[str] | None:
    """The shortest text from this title to a caption, as group 1; other places name the title."""
    pattern = re.compile(f"{title}((?:(?!{title}).)+?){_CAPTION}")
    return min(pattern.finditer(compact, start), key=lambda box: len(box[1]), default=None)


def reflow(text: str) -> str:
    """Lines joined to paragraphs, list entries and labels; words broken at line ends are joined."""
    blocks: list[str] = []
    after_gap = False
    for line in map(str.strip, text.strip().split("\n")):
        if not line:
            after_gap = True
            continue
        if not blocks or _begins_block(line, blocks[-1], after_gap):
            blocks.append(line)
        elif re.search(r"[a-z]-$", blocks[-1]) and line[0].islower():
            blocks[-1] = blocks[-1][:-1] + line
        else:
            blocks[-1] += " " + line
        after_gap = False
    return "\n".join(blocks)


def _begins_block(line: str, last: str, after_gap: bool) -> bool:
    """Whether a line begins a block after the block `last`; if not, it goes on with that block."""
    if after_gap and last[-1] in '.:?!"]>':
        return True
    if _ONLY_LABEL.match(last) or last in ("[", "]") or _LABEL.match(line):
        return True
    if line[0] == '"':
        return last[-1] == ","
    ended = last[-1] in '.:?!,"]>' or re.fullmatch(r"-?\d{1,2}", last)
    return bool(ended and _LIST_ENTRY.match(line))


def template(task: str, text: str) -> str:
    """A prompt with slots in its places; InputError for a place that is not there."""
    text = text.replace("$", "$$")
    for pattern, slot in BOXES[task][1].items():
        text, places = re.subn(pattern, slot, text, flags=re.IGNORECASE)
        if not places:
            raise InputError(
                f"the {task} prompt has no place for {slot.strip()!r}; give the whole paper"
            )
    if task == "answer":
        text = "$context\n" + text.strip()
    return text.strip() + "\n"


def import_prompts(source: Path) -> tuple[Path, list[str]]:
    """Write the prompt set `paper` from the text of the paper.

    Gives its folder, and the parts with other words than expected. InputError, and nothing written,
    when a part is missing.
    """
    parts = parts_of(without_typography(read_text(source)))
    if missing := [name for name, text in parts.items() if not text]:
        raise InputError(
            f"{source} lacks {', '.join(missing)} of the appendix; give the whole paper as text"
        )
    templates = {task: template(task, parts[task]) for task in BOXES}
    questions = [
        {"id": f"Q{i}", "topic": topic, "question": parts[f"Q{i}"].replace("\n", " ")}
        for i, topic in enumerate(TOPICS, 1)
    ]
    folder = home() / "prompts" / "paper"
    for task, text in templates.items():
        write_file(folder / f"{task}.txt", [text])
    text = yaml.safe_dump(questions, sort_keys=False, allow_unicode=True, width=120)
    write_file(folder / "questions.yaml", [text])
    differing = [
        name
        for name, text in parts.items()
        if not hashlib.sha256(letters(text).encode()).hexdigest().startswith(HASHES[name])
    ]
    return folder, differing


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(
            "usage: python notebooks/study/paper_prompts.py FILE.txt (the text of arXiv:2503.16575)"
        )
    try:
        place, others = import_prompts(Path(sys.argv[1]))
    except InputError as error:
        sys.exit(str(error))
    print(
        f"written to {place}; parts with other words than expected: {', '.join(others) or 'none'}"
    )
