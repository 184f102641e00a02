"""Prompt templates: text files filled strictly, with everything that comes from outside made harmless first."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

from .types import InputError

TASKS = ("summary", "extract", "match", "score", "claims", "entail", "answer", "consolidate")
# Characters that are invisible or steer a terminal or tokenizer; newline and tab stay.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


class Prompts:
    """A named set of templates, one text file a task; the kit's own unless a folder is given."""

    def __init__(self, folder: str | Path | None = None):
        self.folder = None if folder is None else Path(folder)
        self.name = "kit" if self.folder is None else self.folder.name

    def template(self, task: str) -> Template:
        """The template of one task. InputError when the set has none."""
        return Template(_read(self.folder, task))

    def fill(self, task: str, **values: str) -> str:
        """Render a template; KeyError on a missing value, ValueError on a spare one."""
        template = self.template(task)
        if spare := values.keys() - set(template.get_identifiers()):
            raise ValueError(f"{task}: no slot for {sorted(spare)}")
        return template.substitute(values).strip("\n")

    def signature(self, *tasks: str) -> str:
        """`kit#1a2b3c4d`: the set's name and a hash over the templates of these tasks."""
        digest = hashlib.sha256("\0".join(_read(self.folder, t) for t in tasks).encode()).hexdigest()
        return f"{self.name}#{digest[:8]}"


@cache
def _read(folder: Path | None, task: str) -> str:
    path = files("ems") / "prompts" / f"{task}.txt" if folder is None else folder / f"{task}.txt"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"prompt set {folder or 'kit'} has no {task}.txt; a set needs one file for each of {', '.join(TASKS)}"
        ) from None


def harmless(text: str) -> str:
    """Text from outside, made safe to put between a prompt's tags; its words and figures stay as they are.

    Control and invisible characters go, runs of blanks and of empty lines shrink, and whatever could pass for one of
    our closing tags or for a chat template's special token loses its bracket.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = re.sub(r"[^\S\n]{3,}", "  ", text)
    text = re.sub(r"\n\s*\n\s*\n+", "\n\n", text)
    text = re.sub(r"<(?=\s*/?\s*text\b)", "(", text, flags=re.I)
    return text.replace("<|", "( ").replace("|>", " )").replace("[INST]", "(INST)").replace("[/INST]", "(/INST)").strip()


def quoted(text: str) -> str:
    """One point on one line, as a JSON string: no line break or quote in it can end it early."""
    return json.dumps(" ".join(harmless(text).split()), ensure_ascii=False)


def numbered(points: tuple[str, ...] | list[str]) -> str:
    """Points as numbered lines, from 0."""
    return "\n".join(f"{i}: {quoted(point)}" for i, point in enumerate(points))
