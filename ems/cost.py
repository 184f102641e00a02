"""What judging costs: bounds before (a dry run), a limit while it runs, and a table of what was used.

A dry run is the ordinary run with a judge in mode "dry": it takes what the store has and, for the rest, assumes the
costliest reply that could be read, so that every later stage is counted at its largest.
"""

from __future__ import annotations

import json
import math
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .types import InputError

if TYPE_CHECKING:
    import pandas as pd

Usage = Mapping[str, Mapping[str, Mapping[str, Any]]]      # by model and task, as `frames.usage` gives it

PER_CALL = 64            # tokens a chat template may put around a prompt, a default system message included
# Stages whose replies a stage's prompts are made of: if one of them is only assumed, so is what follows.
RESTS_ON = {"consolidate": ("answer",), "summary": ("answer", "consolidate"), "claims": ("answer", "consolidate"),
            "extract": ("summary",), "match": ("extract",), "score": ("match",), "entail": ("claims",)}
ASSUMED = ("At most (<=): a stage before has no reply yet; assumed are the longest lists that its schema allows, two "
           "points or three claims a sentence, and that every point finds a match. Tokens are always at most: prompts "
           "by a bound on characters, replies by their length limit. Calls repeated after a fault come on top.")


def tokens_at_most(text: str) -> int:
    """A bound on the tokens of a text, for no tokenizer in particular; 0 for an empty text.

    A token for every four letters or blanks and for every sign, 1.3 for a digit (some tokenizers take digits one by
    one, with the blank before them), 2.2 for a character beyond ASCII. Measured with the vocabularies of SmolLM2 and
    Qwen2.5 on the kit's prompts, references, transcripts, model answers and company reports: they took 0.6 to 0.9 of
    it, the prompts 0.7 to 0.9; Chinese took 0.2 to 0.95.
    """
    digits = sum(map(text.count, string.digits))
    signs = sum(map(text.count, string.punctuation))
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    return math.ceil((len(text) - digits - signs - foreign) / 4 + signs + 1.3 * digits + 2.2 * foreign)


def longest_list(text: str, schema: Mapping[str, Any]) -> str:
    """A reply that breaks a text into as many points as `schema` allows, together half as long again as the text."""
    (key, entries), = schema["properties"].items()
    step = len(text) / entries["maxItems"]
    starts = (int(i * step) for i in range(entries["maxItems"]))
    return json.dumps({key: [f"{i} {text[at:int(at + 1.5 * step)]}" for i, at in enumerate(starts)]})


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens, in a currency of the user's choice."""

    prompt: float
    completion: float
    cached: float                 # prompt tokens the server had seen before

    @classmethod
    def of(cls, given: Mapping[str, float] | Prices | None) -> Prices | None:
        """From {prompt, completion, cached}; cached costs as much as prompt unless said. None or {} = not known."""
        if not given or isinstance(given, cls):
            return given or None
        allowed = ("prompt", "completion", "cached")
        numbers = all(type(v) in (int, float) and 0 <= v < 1e9 for v in given.values())
        if not ({"prompt", "completion"} <= given.keys() <= set(allowed) and numbers):
            raise InputError(f"prices must be numbers of money for a million tokens: prompt, completion and, if it "
                             f"differs, cached; got {dict(given)!r:.80}")
        return cls(**{"cached": given["prompt"], **given})

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        """Money for so many tokens; `cached` are a part of `prompt`."""
        return ((prompt - cached) * self.prompt + cached * self.cached + completion * self.completion) / 1e6


def table(usage: Usage) -> pd.DataFrame:
    """What was used (`frames.usage`), a row for each model and task, for each model and for all.

    Columns: model, task, requests (what the stages asked for), stored and shared (of these: from the store, and equal
    to another one), calls, prompt_tokens, cached_tokens, completion_tokens, seconds (of all calls together), unread
    (requests without a usable reply), cost (nan without prices).
    """
    import pandas as pd

    sums = ["requests", "stored", "shared", "calls", "prompt_tokens", "cached_tokens", "completion_tokens", "seconds"]
    rows = []
    for model, tasks in usage.items():
        own = [{"model": model, "task": task, **{name: u[name] for name in sums}, "unread": sum(u["failures"].values()),
                "cost": math.nan if u["cost"] is None else u["cost"]} for task, u in tasks.items()]
        rows += own
        rows.append({"model": model, "task": "all", **{name: sum(row[name] for row in own)
                                                       for name in [*sums, "unread", "cost"]}})
    if len(usage) > 1:
        each = [row for row in rows if row["task"] == "all"]
        rows.append({"model": "all", "task": "all", **{name: sum(row[name] for row in each)
                                                       for name in [*sums, "unread", "cost"]}})
    return pd.DataFrame(rows, columns=["model", "task", *sums, "unread", "cost"])


def merged(parts: Iterable[Usage]) -> Usage:
    """Several usages as one; a task that occurs in several is summed."""
    whole: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        for model, tasks in part.items():
            for task, u in tasks.items():
                old = whole.setdefault(model, {}).setdefault(task, {})
                for name, value in u.items():
                    if name == "failures":
                        old[name] = dict(Counter(old.get(name, {})) + Counter(value))
                    else:
                        old[name] = value if old.get(name) is None else old[name] + (value or 0)
    return whole


def plan_text(usage: Usage) -> str:
    """What a dry run counted, for people: exact numbers with =, bounds with <=."""
    every = {task for tasks in usage.values() for task in tasks}
    planned = {task for tasks in usage.values() for task, u in tasks.items() if u["calls"]}
    lines = [("model", "stage", "wanted", "stored", "calls", "prompt tokens", "reply tokens", "cost")]
    for row in table(usage).to_dict("records"):
        tasks = usage.get(row["model"], every) if row["task"] == "all" else [row["task"]]
        sign = "<=" if any(_assumed(task, planned) for task in tasks) else "="
        bound = "<=" if row["calls"] else "="
        cost = "= 0.00" if not row["calls"] else "unknown" if math.isnan(row["cost"]) else f"<= {row['cost']:,.2f}"
        lines.append((row["model"], row["task"], f"{sign} {row['requests']:,}", f"{row['stored']:,}",
                      f"{sign} {row['calls']:,}", f"{bound} {row['prompt_tokens']:,}",
                      f"{bound} {row['completion_tokens']:,}", cost))
    if len(lines) == 1:
        return "no judge is asked: nothing to pay"
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(cell.ljust(w) if i < 2 else cell.rjust(w)
                       for i, (cell, w) in enumerate(zip(line, widths, strict=True))).rstrip() for line in lines]
    return "\n".join([*shown, ASSUMED] if planned else shown)


def _assumed(task: str, planned: set[str]) -> bool:
    """Whether a stage's prompts rest on replies that are not there yet."""
    return any(before in planned or _assumed(before, planned) for before in RESTS_ON.get(task, ()))
