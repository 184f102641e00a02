"""Sentences made from tables of values and tests: right for any run, else silent."""

from __future__ import annotations

from collections.abc import Sequence


def series(names: Sequence[str]) -> str:
    """Names in one phrase: "a", "a and b", "a, b and c"; "" for no name."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
