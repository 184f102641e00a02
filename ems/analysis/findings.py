"""Sentences made from tables of values and tests: right for any run, silent where nothing is clear."""

from __future__ import annotations

import math
from collections.abc import Sequence


def series(names: Sequence[str]) -> str:
    """Names in one phrase: "a", "a and b", "a, b and c"; "" for no name."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def with_interval(value: float, low: float, high: float, decimals: int = 2) -> str:
    """A value and its 95 % interval, "0.52 [0.47, 0.57]"; the value alone without an interval."""
    text = f"{value:.{decimals}f}"
    if math.isnan(low) or math.isnan(high):
        return text
    return f"{text} [{low:.{decimals}f}, {high:.{decimals}f}]"
