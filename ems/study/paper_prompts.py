"""The paper's own questions and prompts, taken from the reader's copy of it (arXiv:2503.16575, appendix A).

The paper's sentences are no part of this project: `ems prompts import` finds them in a PDF, an HTML page or a text and
writes them word for word as the prompt set `paper` into the user's data folder. Line breaks and typographic quotes are
made plain, and the places for answers and points become our slots.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..io import home, read_text, write_file
from ..prompting import ABOUT, Prompts
from ..types import InputError

NAME = "paper"
LEFT_TO_KIT = ("summary", "claims", "entail")       # tasks that the paper has no prompt for
TOPICS = ("themes and guidance", "risks and uncertainties", "strategy and priorities", "industry and economy",
          "cash flow and capital allocation")


@dataclass(frozen=True, slots=True)
class Reading:
    """One place where the paper says two things, or leaves a thing open, and what can be made of it."""

    places: str                   # what it says, and where
    choices: Mapping[str, str]    # name -> meaning; the first is the default


READINGS = {
    "index": Reading("equation 3 and figure 2 count candidate points from 1, the prompt of A.4 from 0", {
        "0": "from 0, as the prompt says", "1": "from 1; the prompt's examples and input format are renumbered"}),
    "list": Reading("A.4 says that each candidate point has its number; the lists in its examples have none", {
        "numbered": "numbers on the points to be matched, the examples as printed",
        "everywhere": "numbers in the examples as well", "plain": "no numbers anywhere"}),
    "versions": Reading("A.2 speaks of three answers to consolidate and lists two; section 3.1 names two models", {
        "printed": "the words as printed, over as many answers as there are",
        "counted": "the number of answers there are, in place of three"}),
    "answer": Reading("A.3 puts the answer bare under a label; an answer may hold such labels itself", {
        "tagged": "between <text> tags, so that it cannot pass for the prompt", "bare": "as printed"}),
}
# Likewise, but chosen where the prompts are used: what it says, what is done, what to set for something else.
ELSEWHERE = (
    ("section 2.2 has the matcher reason step by step, the prompt of A.4 forbids reasoning", "no reasoning",
     "`--variant reasoned`: the set has that prompt too, with a request to reason first in place of the prohibition"),
    ("section 2.1 removes summaries by a model, A.3 has no prompt for that", "the kit's own prompt, signed as such",
     "`LLMExtractor(judge, prompts, keep_summaries=True)`"),
    ("A.3 asks for a list of strings", "no JSON schema is sent with it; a list in any usual form is read", ""),
    ("the prompt of A.2 has no place for the transcript that the models are to answer from", "it comes first",
     "`context_chars: 0` of a writer: closed book"),
    ("A.5 leaves the highest score open; its examples go up to 10", "10", "`MAX_SCORE`; the examples stay as printed"),
)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """How one prompt of the appendix is found, and which of its places become which slots."""

    name: str                     # for messages
    title: str                    # heads its box; a figure's caption ends it
    slots: Mapping[str, str]      # pattern in the paper -> slot
    letters: str                  # SHA-256 (its beginning) of the letters and digits in the copy known to this kit


PROMPTS = {
    "answer": _Prompt("answer prompt (A.2, figure 3)", "Individual LLM Answer Generation Prompt",
                      {r"<\s*Question\s*>": "$question"}, "c632f85060dba104"),
    "consolidate": _Prompt("consolidation prompt (A.2, figure 4)", "Consolidated Answer Generation Prompt", {
        r"<\s*Question\s*>": "$question", r"<\s*Attached\s+pdf\s+file\s*>": "$document",
        r"(?:Answer Version \d+:\s*<\s*Answer[_ ]Version[_ ]\d+\s*>\s*)+": "$versions"}, "35da86a76e0d58f6"),
    "extract": _Prompt("extraction prompt (A.3, figure 5)", "Saliency Points Extraction Prompt",
                       {r"<\s*ans\s*>": "$answer"}, "eb05a3000a9967de"),
    "match": _Prompt("matching prompt (A.4, figure 6)", "Saliency Points Matching Prompt",
                     {r"<\s*ref\s*>": "$reference", r"<\s*candid\s*>": "[\n$candidates\n]"}, "427905df1ede1085"),
    "score": _Prompt("scoring prompt (A.5, figure 7)", "Alignment Scoring Prompt", {
        r"<\s*kp1\s*>": "$reference", r"<\s*kp2\s*>": "$candidate", r"\{\s*max[_ ]score\s*\}": "$max_score"},
        "7286f40c4797ae50"),
}
# The five questions, known likewise.
QUESTIONS = ("abf8b499323c0426", "f6127ea01325a4f2", "e21564347afc5714", "4e3b416e49e7a71f", "6324facf36816893")


def import_prompts(source: str | Path, readings: Mapping[str, str] | None = None) -> tuple[Path, list[str]]:
    """Make the prompt set `paper` from a copy of the paper; returns its folder and the parts that differ from ours.

    `readings` chooses among `READINGS`. A set that is there already is replaced as a whole. InputError, and nothing
    written, when a part of the appendix is missing or breaks off, or a reading is not known.
    """
    chosen = {name: next(iter(reading.choices)) for name, reading in READINGS.items()}
    for name, choice in (readings or {}).items():
        if name not in READINGS:
            raise InputError(f"no reading {name!r}; there are {', '.join(READINGS)}")
        if choice not in READINGS[name].choices:
            raise InputError(f"reading {name} must be one of {', '.join(READINGS[name].choices)}, got {choice!r}")
        chosen[name] = choice
    questions, prompts = find_parts(paper_text(source))
    expected = [*(f"question {i}" for i in range(1, 6)), *(p.name for p in PROMPTS.values())]
    letters = [*QUESTIONS, *(p.letters for p in PROMPTS.values())]
    differing = [name for name, known, part in zip(expected, letters, [*questions, *prompts.values()], strict=True)
                 if not _letters_hash(part).startswith(known)]
    files = {f"{task}.txt": text for task, text in templates(prompts, chosen).items()}
    files["questions.yaml"] = _questions_yaml(questions)
    files[ABOUT] = json.dumps({
        "kit": LEFT_TO_KIT, "readings": chosen, "differs": differing,
        "menu": {"first": int(chosen["index"]), "numbered": chosen["list"] != "plain", "between": ",\n"},
        "source_sha256": hashlib.sha256(Path(source).read_bytes()).hexdigest()}, indent=1) + "\n"
    files["README.md"] = _readme(chosen, differing)
    return _write(home() / "prompts" / NAME, files), differing


def paper_text(source: str | Path) -> str:
    """The text of a copy, pages set apart by form feeds; what a file holds counts, not its name."""
    path = Path(source)
    try:
        with path.open("rb") as file:
            head = file.read(2048)
    except OSError:
        head = b""                # read_text says what is wrong
    if b"%PDF-" in head:
        text = _pdf(path)
    else:
        text = read_text(path)
        text = _html(text) if re.search(r"<(?:!doctype html|html|body|article)\b", text[:5000], re.I) else text
    return _plain(_without_furniture(text))


def _pdf(path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise InputError(f"{path}: reading PDF needs pypdf; pip install 'ems-kit[transcripts]'") from None
    try:
        return "\f".join(page.extract_text() for page in PdfReader(path).pages)
    except (PyPdfError, ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{path} is no readable PDF ({error}); save it again, or give the HTML page") from None


def _html(text: str) -> str:
    try:
        from bs4 import BeautifulSoup
    except ImportError:
        raise InputError("reading HTML needs beautifulsoup4; pip install 'ems-kit[transcripts]'") from None
    soup = BeautifulSoup(text, "html.parser")
    for spare in soup(["script", "style", "nav", "head", "annotation"]):
        spare.decompose()
    for formula in soup("math"):
        formula.replace_with(formula.get("alttext") or formula.get_text())
    for piece in soup.find_all(string=re.compile(r"\s")):
        if not piece.find_parent("pre"):
            piece.replace_with(re.sub(r"\s+", " ", piece))
    blocks = re.compile(r"ltx_(?:p|para|item|title|caption|listingline|itemize|enumerate)\b")
    for block in soup.find_all(lambda tag: tag.name in ("p", "div", "li", "br", "tr", "pre", "section", "figcaption")
                               or re.fullmatch("h[1-6]", tag.name) or any(map(blocks.match, tag.get("class", ())))):
        block.insert_before("\n\n")
        block.insert_after("\n\n")
    return soup.get_text()


def _without_furniture(text: str) -> str:
    """Without page numbers and running heads, which would end up within a prompt that goes over a page."""
    pages = [page.strip("\n").split("\n") for page in text.split("\f")]
    for edge in (0, -1):
        numbers = Counter(int(page[edge]) - n for n, page in enumerate(pages) if page[edge].strip().isdecimal())
        offset, times = max(numbers.items(), key=lambda item: item[1], default=(0, 0))
        heads = Counter(_letters(page[edge]) for page in pages if not page[edge].strip().isdecimal())
        repeated = {head for head, n in heads.items() if head and n > max(1, len(pages) // 2)}
        for n, page in enumerate(pages):
            number = page[edge].strip()
            if (times > 1 and number.isdecimal() and int(number) - n == offset) or _letters(number) in repeated:
                page[edge] = ""
    return "\n".join("\n".join(page) for page in pages)


def _plain(text: str) -> str:
    """Without what typesetting, LaTeX and Markdown leave behind in a text."""
    for ligature, letters in (("ﬀ", "ff"), ("ﬁ", "fi"), ("ﬂ", "fl"), ("ﬃ", "ffi"), ("ﬄ", "ffl")):
        text = text.replace(ligature, letters)
    text = re.sub("[\u00ad\u200b\ufeff]", "", text.replace("\r\n", "\n"))
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub("[“”„‟″]|''|``", '"', text)
    text = re.sub("[‘’‚‛′`]", "'", text)
    text = re.sub(r"\\(?:text|mathrm|texttt)\s*\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\$\s*(\\\{[^$\n]{1,40}\\\}|[<>]|\\lang\w*|\\rang\w*)\s*\$", r"\1", text)
    text = text.replace("\\langle", "<").replace("\\rangle", ">").replace("⟨", "<").replace("⟩", ">")
    text = re.sub(r"¡([\w ]{1,30})¿", r"<\1>", text)          # what < and > become in TeX's oldest font encoding
    text = re.sub(r"\\([$%&#_{}])", r"\1", text).replace("**", "")
    text = re.sub(r"(?m)^ *(?:#{1,6}|>) +", "", text)
    text = re.sub(r"(?m)^ *[•◦▪∗·–*] *", "- ", text)
    return re.sub(r"(?m)^ *(\d{1,2}\.|-) *\n\s*(?=\S)", r"\1 ", text)      # a list's mark on a line of its own


def find_parts(text: str) -> tuple[list[str], dict[str, str]]:
    """The five questions, and by task the prompts, their lines put together again. InputError names what is missing."""
    found = _Search(text)
    absent: list[str] = []
    begins = [found.first(f"QUESTION {i}", found.first("Questions designed for")) for i in range(1, 6)]
    ends = [*(span and span[0] for span in begins[1:]), found.before("Answer Generation Prompts", begins[4])]
    questions = []
    for i, (span, end) in enumerate(zip(begins, ends, strict=True), 1):
        questions.append(found.reflowed(span[1], end) if span and end else "")
        if span is None or ((end or i == 5) and not re.search(r"\w{3}.*[.?]$", questions[-1])):
            absent.append(f"question {i} (A.1)")

    appendix = found.first("Questions designed for") or (0, 0)
    titles = [(span, task) for task, prompt in PROMPTS.items() for span in found.all(prompt.title) if span > appendix]
    parts: dict[str, str] = {}
    last = 0
    for caption in found.captions():
        span, task = max((entry for entry in titles if last <= entry[0][0] < caption), default=((0, 0), ""))
        if task and task not in parts:
            parts[task] = found.reflowed(span[1], caption)
        last = caption
    for task, prompt in PROMPTS.items():
        if task in parts:
            absent += [f"{prompt.name}: the place for {re.search('[a-z_]+', slot)[0]}"
                       for pattern, slot in prompt.slots.items() if not re.search(pattern, parts[task], re.I)]
        else:
            there = any(task == entry[1] for entry in titles)
            absent.append(f"{prompt.name}" + (": it breaks off" if there else ""))
    if absent:
        raise InputError(f"this copy of the paper lacks {'; '.join(absent)}. Nothing was imported; give the whole "
                         "paper as PDF, HTML or text")
    return questions, {task: parts[task] for task in PROMPTS}


class _Search:
    """Finds words whatever spaces, line breaks and capitals a copy has put into them."""

    def __init__(self, text: str):
        self.text = text
        self.places = [i for i, c in enumerate(text) if c.isalnum()]
        self.letters = "".join(text[i] for i in self.places).lower()
        unbroken = re.sub(r"[a-z-]+-\n\s*[a-z]+", " ", text.lower())       # halves of broken words are no words
        lengths = sorted(len(line) for line in text.split("\n") if line.strip()) or [0]
        self.width = lengths[len(lengths) * 9 // 10]                     # characters of a full line
        self.words = frozenset(re.findall(r"[a-z]+(?:-[a-z]+)*", unbroken))

    def all(self, words: str) -> list[tuple[int, int]]:
        return [self._span(found) for found in re.finditer(_letters(words), self.letters)]

    def first(self, words: str, after: tuple[int, int] | None = None) -> tuple[int, int] | None:
        """Where the words stand first, after a place if one is given; None when they do not."""
        return next((span for span in self.all(words) if after is None or span[0] >= after[1]), None)

    def before(self, words: str, after: tuple[int, int] | None) -> int | None:
        """Where the line begins that holds the words next, after a place."""
        span = self.first(words, after) if after else None
        return self.text.rfind("\n", 0, span[0]) + 1 if span else None

    def reflowed(self, start: int, end: int) -> str:
        """A part of the text, its lines put together."""
        return _reflow(self.text[start:end], self.words, self.width)

    def captions(self) -> list[int]:
        return [self._span(found)[0] for found in re.finditer(r"figure\d{1,2}theprompt", self.letters)]

    def _span(self, found: re.Match[str]) -> tuple[int, int]:
        return self.places[found.start()], self.places[found.end() - 1] + 1


_MARKED = re.compile(r'\d{1,2}\. |- |["\[\]]|<[^<>]{1,30}>$|-?\d{1,2}$')
# A line that only names what follows, and one that begins with such a name.
_HEAD = re.compile(r"(?:\d{1,2}\. )?(?:[A-Z{][^.!?\":]{0,60}:|Example \d+:?)$")
_LABELLED = re.compile(r"[A-Z{][^.!?\":]{0,60}:(?: |$)|Example \d+:?$")


def _reflow(text: str, words: frozenset[str], width: int) -> str:
    """The lines of a part put together to paragraphs, list entries and labels, one a line, however they were broken."""
    blocks: list[str] = []
    short = True                               # whether a paragraph may have ended before this line
    for line in map(str.strip, text.strip().split("\n")):
        if not line:
            short = True
            continue
        last = blocks[-1] if blocks else ":"
        ended = last[-1] in '.:?!"]>,' or re.fullmatch(r"-?\d{1,2}", last)
        entry = line[0] == '"' and (last == "[" or last[-1] == "," or bool(_HEAD.match(last)))
        fresh = (not blocks or _HEAD.match(last) or last in ("[", "]") or _LABELLED.match(line)
                 or (_MARKED.match(line) and line[0] != '"' and ended) or entry or (short and last[-1] in '.:?!"]>'))
        if fresh:
            blocks.append(line)
        elif re.search(r"[a-z]-$", last) and re.match("[a-z]", line):
            blocks[-1] = last[:-1] + ("-" if _compound(last, line, words) else "") + line
        else:
            blocks[-1] += " " + line
        short = len(line) < 0.8 * width
    return "".join(block + _between(block, after) for block, after in zip(blocks, [*blocks[1:], ""], strict=False))


def _compound(before: str, after: str, words: frozenset[str]) -> bool:
    """Whether a hyphen at a line's end is the word's own: it has it elsewhere too, or both halves are words."""
    first, second = re.search(r"[a-z-]+(?=-$)", before.lower())[0], re.match(r"[a-z]+", after)[0]
    return f"{first}-{second}" in words or (first + second not in words and {first, second} <= words)


def _between(block: str, after: str) -> str:
    if not after:
        return ""
    close = _HEAD.match(block) or re.match(r'\d{1,2}\. |- |["\[\]]', after)
    return "\n" if close and not re.match(r"Example \d", after) else "\n\n"


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum()).lower()


def _letters_hash(text: str) -> str:
    return hashlib.sha256(_letters(text).encode()).hexdigest()


def templates(prompts: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """By task, the templates: dollar signs doubled, places made slots, readings applied."""
    made = {}
    for task, text in prompts.items():
        if task == "match":
            text = _matching(text, chosen)
        if task == "consolidate" and chosen["versions"] == "counted":
            text = re.sub(r"\bthree\b", "<count>", text, flags=re.I)
        text = text.replace("$", "$$")
        for pattern, slot in {**PROMPTS[task].slots, "<count>": "$versions_count"}.items():
            text = re.sub(pattern, lambda _, slot=slot: slot + "\n" * (slot == "$versions"), text, flags=re.I)
        made[task] = text.strip() + "\n"
    reasoned, done = re.subn(
        r"Do not include any explanations[^.]*\.", "First compare, in one or two sentences, the candidate keypoints "
        "that come closest. Then write the index alone on the last line.", made["match"])
    if done:
        made["match_reasoned"] = reasoned
    made["answer"] = "$context\n" + made["answer"]      # the paper attaches the transcript without saying where
    if chosen["answer"] == "tagged":
        made["extract"] = made["extract"].replace("$answer", "<text>\n$answer\n</text>")
    return made


def _matching(text: str, chosen: Mapping[str, str]) -> str:
    first = int(chosen["index"])
    if first:
        text = re.sub(r'(?<=[\[ ])(\d+)(?=: "\.\.\.")', lambda m: str(int(m[1]) + first), text)
        text = re.sub(r"(Matched Index:\s+)(\d+)$", lambda m: m[1] + str(int(m[2]) + first), text, flags=re.M)
    if chosen["list"] == "everywhere":
        text = re.sub(r'(?<=\[\n)".*?(?=\n\])', lambda listed: "\n".join(
            f"{i}: {line}" for i, line in enumerate(listed[0].split("\n"), first)), text, flags=re.S)
    return text


def _questions_yaml(questions: Sequence[str]) -> str:
    import yaml

    listed = [{"id": f"Q{i}", "topic": topic, "question": question}
              for i, (topic, question) in enumerate(zip(TOPICS, questions, strict=True), 1)]
    return yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=120)


def readings_table(chosen: Mapping[str, str] | None = None) -> str:
    """The readings as a Markdown table, with the chosen ones, or the defaults."""
    rows = ["| what the paper says | what is done | instead |", "| --- | --- | --- |"]
    for name, reading in READINGS.items():
        mine = (chosen or {}).get(name, next(iter(reading.choices)))
        others = "; ".join(f"`--reading {name}={c}`: {what}" for c, what in reading.choices.items() if c != mine)
        rows.append(f"| {reading.places} | `{name}={mine}`: {reading.choices[mine]} | {others} |")
    return "\n".join([*rows, *(f"| {says} | {done} | {instead} |" for says, done, instead in ELSEWHERE)])


def _readme(chosen: Mapping[str, str], differing: Sequence[str]) -> str:
    told = "Every part has the words that are expected." if not differing else (
        f"These parts have other words than expected, look them over: {', '.join(differing)}.")
    return ("# Prompts and questions of arXiv:2503.16575\n\n"
            "Taken from your copy by `ems prompts import`. They are the words of the paper's authors: for your own "
            f"runs, not to be passed on with this project. {told}\n\n"
            f"The paper has no prompt for {', '.join(LEFT_TO_KIT)}: the kit's own are used, and signed as such.\n\n"
            f"{readings_table(chosen)}\n")


def _write(folder: Path, files: Mapping[str, str]) -> Path:
    """Put a set in place as a whole, once all its templates are found good."""
    part, old = (folder.with_name(f".{folder.name}.{os.getpid()}.{what}") for what in ("part", "old"))
    try:
        for name, text in files.items():
            write_file(part / name, text.encode())
        for task in PROMPTS:
            Prompts(part).template(task)
        if folder.exists():
            folder.rename(old)
        try:
            part.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
    except OSError as error:
        raise InputError(f"cannot write the prompt set to {folder}: {error.strerror}; "
                         "EMS_HOME names another place") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return folder
