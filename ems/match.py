"""Stage 2: the best answer point for each reference point, or none (paper, section 2.2, eq. 3-4).

A matcher is called with pairs of point lists and returns, for each pair, one entry per reference point: the
0-based index of an answer point (eq. 4 counts from 1), -1 for none, None when the reply could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from .asking import Judge, Request, as_judge, read_reply
from .io import meant
from .prompting import Prompts
from .reading import read_index
from .sanitise import quoted
from .types import InputError, Match, Points

# Ways to ask about one reference point, by name, with the template of each.
VARIANTS = {
    "faithful": "match",           # as the paper's prompt asks: the point, then its candidates, no reasoning
    "shared": "match_shared",      # candidates first: a server's prefix cache reads them once for all points
    "reasoned": "match_reasoned",  # a sentence or two of reasoning first, as the paper's text has it
}


class Matcher(Protocol):
    """Anything that pairs points; `signature` enters every result."""

    signature: str

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[Match]: ...


class LLMMatcher:
    """One question to the judge per reference point, with all answer points as candidates (eq. 4).

    Without answer points every reference point is unmatched and no call is made. `variant` names another way
    to ask (`VARIANTS`); the signature says so. `unread` counts the replies that gave no index, by reason.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *,
                 variant: str = "faithful"):
        if variant not in VARIANTS:
            raise InputError(f"variant must be one of {', '.join(VARIANTS)}, got "
                             f"{variant!r}{meant(variant, VARIANTS)}")
        self.judge, self.prompts, self.variant = as_judge(judge), prompts or Prompts(), variant
        self.unread: Counter[str] = Counter()
        named = "" if variant == "faithful" else f",variant={variant}"
        self.signature = f"llm:{self.prompts.signature(VARIANTS[variant])}{named}"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[Match]:
        menus = [self.prompts.menu(ans) for _, ans in pairs]
        template, first = VARIANTS[self.variant], self.prompts.first
        max_tokens = 256 if self.variant == "reasoned" else 32
        asked = [(p, i) for p, (ref, ans) in enumerate(pairs) for i in range(len(ref)) if ans]
        requests = [
            Request("match",
                    self.prompts.fill(template, reference=quoted(pairs[p][0][i]), candidates=menus[p]),
                    max_tokens, choices=range(first, first + len(pairs[p][1])))
            for p, i in asked
        ]
        matches: list[list[int | None]] = [[-1] * len(ref) for ref, _ in pairs]
        for (p, i), reply in zip(asked, self.judge.ask(requests, "match points"), strict=True):
            read = partial(read_index, n_points=len(pairs[p][1]), first=first)
            matches[p][i] = read_reply(reply, read, "match", self.unread)
        return [tuple(match) for match in matches]
