"""The paper's questions and prompts as a prompt set, made from the reader's copy of it (arXiv:2503.16575).

The paper's sentences are no part of this project: `ems prompts import` writes them word for word, with slots,
as the prompt set `paper` into the user's data folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from ...io import home, write_file
from ...prompt_set import ABOUT
from ...prompting import Prompts
from ...types import InputError
from ..dataset.documents import letters
from .paper_parts import PROMPTS, QUESTIONS, find_parts, paper_text

NAME = "paper"
LEFT_TO_KIT = ("summary", "claims", "entail")       # tasks that the paper has no prompt for
TOPICS = ("themes and guidance", "risks and uncertainties", "strategy and priorities", "industry and economy",
          "cash flow and capital allocation")


@dataclass(frozen=True, slots=True)
class Reading:
    """One place where the paper says two things, or leaves a thing open, and what can be made of it."""

    says: str                     # what the paper says, and where
    choices: Mapping[str, str]    # name -> meaning; the first is the default


READINGS = {
    "index": Reading("equation 3 and figure 2 count candidate points from 1, the prompt of A.4 from 0", {
        "0": "from 0, as the prompt says",
        "1": "from 1; the prompt's examples and input format are renumbered"}),
    "list": Reading("A.4 says that each candidate point has its number; the lists in its examples have "
                    "none", {
        "numbered": "numbers on the points to be matched, the examples as printed",
        "everywhere": "numbers in the examples as well",
        "plain": "no numbers anywhere"}),
    "versions": Reading("A.2 speaks of three answers to consolidate and lists two; section 3.1 names two "
                        "models", {
        "printed": "the words as printed, over as many answers as there are",
        "counted": "the number of answers there are, in place of three"}),
    "answer": Reading("A.3 puts the answer bare under a label; an answer may hold such labels itself", {
        "tagged": "between `<text>` tags, so that it cannot be taken for a part of the prompt",
        "bare": "as printed"}),
}
# Likewise, but chosen where the prompts are used: what the paper says, what is done, what to set instead.
ELSEWHERE = (
    ("section 2.2 has the matcher reason step by step, the prompt of A.4 forbids reasoning", "no reasoning",
     "`--variant reasoned`: the set has that prompt too, with a request to reason first in place of the "
     "prohibition"),
    ("section 2.1 removes summaries by a model, A.3 has no prompt for that",
     "the kit's own prompt, signed as such", "`LLMExtractor(judge, prompts, keep_summaries=True)`"),
    ("A.3 asks for a list of strings",
     "no JSON schema is sent with it; a list in any usual form is read", ""),
    ("the prompt of A.2 has no place for the transcript that the models are to answer from", "it comes first",
     "`context_chars: 0` of a writer: closed book"),
    ("A.5 leaves the highest score open; its examples go up to 10", "10",
     "`MAX_SCORE`; the examples stay as printed"),
)


def import_prompts(source: str | Path, readings: Mapping[str, str] | None = None) -> tuple[Path, list[str]]:
    """Make, or replace, the prompt set `paper` from a copy of the paper; `readings` chooses among `READINGS`.

    Returns its folder, and the names of the parts whose words are not the expected ones. InputError, and
    nothing written, when a part of the appendix is missing or breaks off, or a reading is not known.
    """
    chosen = _chosen(readings or {})
    questions, prompts = find_parts(paper_text(source))
    known = {**{f"question {i}": letters_hash for i, letters_hash in enumerate(QUESTIONS, 1)},
             **{prompt.name: prompt.letters_hash for prompt in PROMPTS.values()}}
    parts = [*questions, *prompts.values()]
    differing = [name for (name, letters_hash), part in zip(known.items(), parts, strict=True)
                 if not hashlib.sha256(letters(part).encode()).hexdigest().startswith(letters_hash)]
    files = {f"{task}.txt": text for task, text in templates(prompts, chosen).items()}
    listed = [{"id": f"Q{i}", "topic": topic, "question": question}
              for i, (topic, question) in enumerate(zip(TOPICS, questions, strict=True), 1)]
    files["questions.yaml"] = yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=120)
    files[ABOUT] = json.dumps({
        "kit": LEFT_TO_KIT, "readings": chosen, "differs": differing,
        "menu": {"first": int(chosen["index"]), "numbered": chosen["list"] != "plain", "between": ",\n"},
        "source_sha256": hashlib.sha256(Path(source).read_bytes()).hexdigest()}, indent=1) + "\n"
    files["README.md"] = _readme(chosen, differing)
    return _write(home() / "prompts" / NAME, files), differing


def _chosen(readings: Mapping[str, str]) -> dict[str, str]:
    """Every reading's choice: the given one, or the default."""
    for name, choice in readings.items():
        if name not in READINGS:
            raise InputError(f"no reading {name!r}; there are {', '.join(READINGS)}")
        if choice not in READINGS[name].choices:
            allowed = ", ".join(READINGS[name].choices)
            raise InputError(f"reading {name} must be one of {allowed}, got {choice!r}")
    return {name: readings.get(name, next(iter(reading.choices))) for name, reading in READINGS.items()}


def templates(prompts: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """By task, the templates: dollar signs doubled, places made slots, readings applied."""
    made = {}
    for task, text in prompts.items():
        if task == "match":
            text = _matching(text, int(chosen["index"]), chosen["list"] == "everywhere")
        if task == "consolidate" and chosen["versions"] == "counted":
            text = re.sub(r"\bthree\b", "<count>", text, flags=re.I)
        text = text.replace("$", "$$")
        for pattern, slot in {**PROMPTS[task].slots, "<count>": "$versions_count"}.items():
            after = "\n" if slot == "$versions" else ""      # the pattern takes the line's end with it
            text = re.sub(pattern, slot + after, text, flags=re.I)
        made[task] = text.strip() + "\n"
    reasoned, prohibitions = re.subn(
        r"Do not include any explanations[^.]*\.",
        "First compare, in one or two sentences, the candidate keypoints that come closest. "
        "Then write the index alone on the last line.", made["match"])
    if prohibitions:
        made["match_reasoned"] = reasoned
    made["answer"] = "$context\n" + made["answer"]      # the paper does not say where the transcript stands
    if chosen["answer"] == "tagged":
        made["extract"] = made["extract"].replace("$answer", "<text>\n$answer\n</text>")
    return made


def _matching(text: str, first: int, number_examples: bool) -> str:
    """The matching prompt with indices that count from `first`, and numbers in the lists of its examples."""
    text = re.sub(r'(?<=[\[ ])(\d+)(?=: "\.\.\.")', lambda m: str(int(m[1]) + first), text)
    text = re.sub(r"(Matched Index:\s+)(\d+)$", lambda m: m[1] + str(int(m[2]) + first), text, flags=re.M)
    if number_examples:
        text = re.sub(r'(?<=\[\n)".*?(?=\n\])', lambda listed: "\n".join(
            f"{i}: {line}" for i, line in enumerate(listed[0].split("\n"), first)), text, flags=re.S)
    return text


def readings_table(chosen: Mapping[str, str] | None = None) -> str:
    """The readings as a Markdown table, with the chosen ones, or the defaults."""
    choices = _chosen(chosen or {})
    rows = ["| what the paper says | what is done | instead |", "| --- | --- | --- |"]
    for name, reading in READINGS.items():
        choice = choices[name]
        others = "; ".join(f"`--reading {name}={other}`: {meaning}"
                           for other, meaning in reading.choices.items() if other != choice)
        rows.append(f"| {reading.says} | `{name}={choice}`: {reading.choices[choice]} | {others} |")
    return "\n".join([*rows, *(f"| {says} | {done} | {instead} |" for says, done, instead in ELSEWHERE)])


def _readme(chosen: Mapping[str, str], differing: Sequence[str]) -> str:
    words = "Every part has the words that are expected." if not differing else (
        f"These parts have other words than expected, look them over: {', '.join(differing)}.")
    return ("# Prompts and questions of arXiv:2503.16575\n\n"
            "Taken from your copy by `ems prompts import`. They are the words of the paper's authors: for "
            f"your own runs, not to be passed on with this project. {words}\n\n"
            f"The paper has no prompt for {', '.join(LEFT_TO_KIT)}: the kit's own are used, and signed as "
            f"such.\n\n{readings_table(chosen)}\n")


def _write(folder: Path, files: Mapping[str, str]) -> Path:
    """Put a set in place as a whole, once all its templates are found good."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
            new, old = Path(temporary, "new.part"), Path(temporary, "old")
            new.mkdir()
            for name, text in files.items():
                write_file(new / name, text.encode())
            for task in PROMPTS:
                Prompts(new).template(task)
            if folder.exists():
                folder.rename(old)
            try:
                new.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise
    except OSError as error:
        raise InputError(f"cannot write the prompt set to {folder}: {error.strerror}; "
                         "EMS_HOME names another place") from None
    return folder
