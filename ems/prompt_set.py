"""What a folder of templates says of itself in its `set.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .sanitise import quoted
from .types import InputError

ABOUT = "set.json"
# Questions of other papers than the one that a set is from: the kit's own where the set has none.
RUBRIC_TASKS = tuple(f"rubric_{name}" for name in (
    "accuracy", "completeness", "hallucination", "utilization", "numeric"))


@dataclass(frozen=True)
class SetFile:
    """`{"kit": ["claims"]}` names the tasks that a set leaves to the kit; `{"menu": {"first": 1, "numbered":
    true, "between": ",\\n"}}` says how it lists candidate points (the kit: from 0, a line each).
    """

    from_kit: frozenset[str] = frozenset()  # tasks whose templates are the kit's
    menu: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """Number of the first candidate point."""
        return self.menu.get("first", 0)

    def listed(self, points: Sequence[str]) -> str:
        """Candidate points as a matching prompt has them."""
        lines = [quoted(p) for p in points]
        if self.menu.get("numbered", True):
            lines = [f"{i}: {line}" for i, line in enumerate(lines, self.first)]
        return self.menu.get("between", "\n").join(lines)


def read_set_file(folder: Path) -> SetFile:
    """What a folder's `set.json` says; without one, the set has all templates. InputError for another shape.

    With a task go its joint form, and with entailment the check of points against a document. Rubrics that a
    set does not have are the kit's.
    """
    path = folder / ABOUT
    try:
        about = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); import the set again, or mend it") from None
    if not isinstance(about, dict):
        raise InputError(f"{path} must hold an object, got {about!r:.60}")
    left, menu = about.get("kit", []), about.get("menu", {})
    if not isinstance(left, list) or not all(isinstance(task, str) for task in left):
        raise InputError(f"{path}: kit must be a list of tasks, such as summary, claims, got {left!r:.80}")
    kinds = {"first": int, "numbered": bool, "between": str}
    if (not isinstance(menu, dict) or any(type(value) is not kinds.get(name) for name, value in menu.items())
            or menu.get("first", 0) < 0):
        raise InputError(
            f"{path}: menu may have first (a whole number from 0), numbered (true or false) and between "
            f"(text), got {menu!r:.80}"
        )
    rubrics = [task for task in RUBRIC_TASKS if not (folder / f"{task}.txt").is_file()]
    joint = [f"{task}_all" for task in left] + ["support"] * ("entail" in left)
    return SetFile(frozenset([*left, *joint, *rubrics]), menu)
