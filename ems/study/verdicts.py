"""Findings in words: what a reader is told follows from the numbers and their intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..report import visible

MARKUP = re.compile(r"([\\`*_\[\]<>|&$~])")


def as_markdown(name: str) -> str:
    """A name from outside, such as a model's, for use in Markdown: one line, shown as it is written.

    Nothing in it becomes markup, a link or HTML; control characters become U+FFFD.
    """
    return MARKUP.sub(r"\\\1", visible(name))


def with_interval(row: Mapping[str, Any]) -> str:
    """A value with its interval: "0.62 [0.55, 0.69]". Needs `value`, `ci_low` and `ci_high`."""
    return f"{row['value']:.2f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}]"


def comparison(row: Mapping[str, Any], other: str) -> str:
    """A row's paired difference to another metric, in words that its interval allows; Markdown.

    "above" or "below" only when the whole interval lies on that side of 0, else "not distinguishable from".
    `row` is one of `agreement.human_agreement` or `label_agreement`, compared against `other`.
    """
    gap, low, high = (row[f"vs {other}{end}"] for end in ("", " low", " high"))
    word = "above" if low > 0 else "below" if high < 0 else "not distinguishable from"
    return f"{word} {as_markdown(other)} ({gap:+.2f} [{low:+.2f}, {high:+.2f}])"
