"""Prompt templates, filled strictly."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from .io import home
from .prompt_set import ABOUT, SetFile, read_set_file
from .types import InputError

# What each task's template is filled with: the slots it must have, and those it may leave out.
SLOTS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    task: (frozenset(needed.split()), frozenset(optional.split())) for task, needed, optional in (
        ("summary", "blocks", ""),
        ("extract", "answer", ""),
        ("match", "reference candidates", ""),
        ("score", "reference candidate", "max_score middle low"),
        ("claims", "answer", "question"),
        ("entail", "text claim", ""),
        ("answer", "question", "context document"),
        ("consolidate", "question versions", "context document versions_count"),
    )}
TASKS = tuple(SLOTS)


class Prompts:
    """A named set of templates, one text file a task; the kit's own unless a folder is given.

    A folder may leave tasks to the kit, and list candidate points in a way of its own (`SetFile`).
    """

    def __init__(self, folder: str | Path | None = None):
        self.folder = None if folder is None else Path(folder)
        self.name = "kit" if self.folder is None else self.folder.name
        self._set = SetFile() if self.folder is None else read_set_file(self.folder)
        self.first = self._set.first            # number of the first candidate point
        self.menu = self._set.listed            # candidate points, as a matching prompt has them
        self._read: dict[str, tuple[Template, frozenset[str]]] = {}

    @classmethod
    def named(cls, name: str) -> Prompts:
        """`kit`; a set in the user's data folder, such as an imported `paper`; or a folder of templates."""
        if name == "kit":
            return cls()
        places = [place for place in (home() / "prompts" / name, Path(name)) if name and place.is_dir()]
        if not places:
            hint = "; ems prompts import FILE makes it from your copy of the paper" if name == "paper" else ""
            folder = home() / "prompts"
            raise InputError(f"no prompt set {name!r} in {folder}, and no folder of that name{hint}")
        return cls(places[0])

    def template(self, task: str) -> Template:
        """The template of one task. InputError when the set has none, or one without its slots."""
        return self._parsed(task)[0]

    def fill(self, task: str, **values: str) -> str:
        """Render a template. KeyError for a missing value, ValueError for one that no set could use."""
        template, slots = self._parsed(task)
        if spare := values.keys() - slots - SLOTS.get(task, ((), frozenset()))[1]:
            raise ValueError(f"{task}: no slot for {sorted(spare)}")
        return template.substitute(values).strip("\n")

    def schema(self, task: str, schema: dict) -> dict | None:
        """The schema to send with a task: none when its prompt asks for another form than JSON."""
        return schema if "JSON" in self.template(task).template else None

    def signature(self, *tasks: str) -> str:
        """`kit#1a2b3c4d`: the set's name and a hash over its templates of these tasks (and its menu).

        What a set leaves to the kit is signed as the kit's: `paper#1a2b3c4d+kit#5e6f7a8b(summary)`.
        """
        given = [t for t in tasks if t not in self._set.from_kit]
        parts = [f"{self.name}#{self._hash(given)}"] if given else []
        if left := [t for t in tasks if t in self._set.from_kit]:
            parts.append(f"kit#{self._hash(left)}({','.join(left)})")
        return "+".join(parts)

    def _hash(self, tasks: Sequence[str]) -> str:
        parts = [self.template(task).template for task in tasks]
        if self._set.menu and any(task.startswith("match") for task in tasks):
            parts.append(json.dumps(self._set.menu, sort_keys=True))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]

    def _parsed(self, task: str) -> tuple[Template, frozenset[str]]:
        if task not in self._read:
            kit = self.folder is None or task in self._set.from_kit
            folder = files("ems") / "prompts" if kit else self.folder or Path()
            path = folder / f"{task}.txt"
            try:
                template = Template(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                every = f"one file for each of {', '.join(TASKS)}" if task in SLOTS else "it for this variant"
                raise InputError(
                    f"prompt set {self.folder or 'kit'} has no {task}.txt; a set needs {every}, or names "
                    f"what it leaves to the kit in {ABOUT}") from None
            except UnicodeDecodeError as error:
                raise InputError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
            if not template.is_valid():
                raise InputError(f"{path}: a dollar sign that begins no slot is written $$")
            slots = frozenset(template.get_identifiers())
            needed, optional = SLOTS.get(task, (slots, frozenset()))
            if wrong := (needed - slots) or (slots - needed - optional):
                what = "lacks" if wrong <= needed else "has unknown"
                allowed = ", ".join(f"${slot}" for slot in sorted(needed | optional))
                raise InputError(f"{path} {what} slots {sorted(wrong)}; {task} is filled with {allowed}")
            self._read[task] = template, slots
        return self._read[task]
