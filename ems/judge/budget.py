"""What judging costs: bounds before (a dry run), a limit while it runs, and a table of what was used.

A dry run is the ordinary run with a judge in mode "dry": it takes what the store has and, for the rest, assumes the
costliest reply that could be read, so that every later stage is counted at its largest. In mode "likely" it assumes
lists half as long, which is what judges tend to write; where both agree on the calls, their number is exact.
"""

from __future__ import annotations

import json
import math
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..extract import list_schema
from ..types import InputError, Request

if TYPE_CHECKING:
    import pandas as pd




Usage = Mapping[str, Mapping[str, Mapping[str, Any]]]      # by model and task, as `data.judge_usage` gives it
DIGITS, SIGNS = string.digits.encode(), string.punctuation.encode()
PER_CALL = 64            # tokens a chat template may put around a prompt, a default system message included
LIKELY = 0.5             # share of the longest lists and answers that a likely run has: a point a sentence
LIKELY_TOKENS = 0.8      # share of the bound below that texts in English take
ASSUMED = ("One number is exact; else likely (<= at most): a stage before has no reply yet, and assumed are lists half as "
           "long (as long) as its schema allows, which is two points or three claims a sentence, and that each point "
           "finds a match. Calls repeated after a fault come on top.")


def tokens_at_most(text: str) -> int:
    """A bound on the tokens of a text in English, for no tokenizer in particular; 0 for an empty text.

    A token for every four letters or blanks and for every sign, 1.3 for a digit (some tokenizers take digits one by
    one, with the blank before them), 2.2 for a character beyond ASCII. Measured with the vocabularies of SmolLM2 and
    Qwen2.5 on the kit's prompts, references, transcripts, model answers and company reports: they took 0.6 to 0.9 of
    it, the prompts 0.7 to 0.9; Chinese took 0.2 to 0.95. Words of other languages in Latin letters, and English all in
    capitals, can take more than this bound.
    """
    ascii_ = text.encode("ascii", "ignore")
    digits = len(ascii_) - len(ascii_.translate(None, DIGITS))
    signs = len(ascii_) - len(ascii_.translate(None, SIGNS))
    foreign = len(text) - len(ascii_)
    return math.ceil((len(text) - digits - signs - foreign) / 4 + signs + 1.3 * digits + 2.2 * foreign)


def assumed(request: Request, share: float) -> str:
    """The longest reply that could be read (`share` 1), or one with a `share` in (0, 1] of its entries or length."""
    if request.about:
        return longest_list(request.about, list_schema("claims" if request.task == "claims" else "points", request.about), share)
    if request.choices:
        choice = request.choices[0]
        key = next(iter(request.schema["properties"])) if request.entries and request.schema else ""
        return json.dumps({key: [choice] * request.entries}) if request.entries else str(choice)
    if request.schema:
        return json.dumps({key: [] for key in request.schema["properties"]})
    paragraph = "A statement of figures and reasons is taken to be as long as this sentence about one. " * 4
    paragraphs = [paragraph] * math.ceil(share * 5 * request.max_tokens / len(paragraph))     # five characters a token
    return "\n\n".join([f"By {request.label}.", *paragraphs])


def longest_list(text: str, schema: Mapping[str, Any], share: float = 1.0) -> str:
    """A reply that breaks a text into as many points as `schema` allows, or a share of them.

    Its longest form is together half as long again as the text, others in proportion down to the text itself.
    """
    (key, entries), = schema["properties"].items()
    n = math.ceil(share * entries["maxItems"])
    step = len(text) / n
    starts = (int(i * step) for i in range(n))
    return json.dumps({key: [f"{i} {text[at:int(at + (0.5 + share) * step) + 1]}" for i, at in enumerate(starts)]})


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
    """What was used (`data.judge_usage`), a row for each model and task, for each model and for all.

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


def plan_text(most: Usage, likely: Usage) -> str:
    """What two dry runs counted, for people: one number where they agree, else the likely one and the bound."""
    likely_rows = table(likely).set_index(["model", "task"])
    lines = [("model", "stage", "stored", "calls", "prompt tokens", "reply tokens", "cost")]
    for row in table(most).to_dict("records"):
        guess = likely_rows.loc[(row["model"], row["task"])]
        cells = [_cell(guess[name], row[name], ",.0f") for name in ("calls", "prompt_tokens", "completion_tokens")]
        cost = "0.00" if not row["calls"] else "unknown" if math.isnan(row["cost"]) else _cell(guess.cost, row["cost"], ",.2f")
        lines.append((row["model"], row["task"], f"{row['stored']:,}", *cells, cost))
    if len(lines) == 1:
        return "no judge is asked: nothing to pay"
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = ["  ".join(cell.ljust(w) if i < 2 else cell.rjust(w)
                       for i, (cell, w) in enumerate(zip(line, widths, strict=True))).rstrip() for line in lines]
    return "\n".join([*shown, ASSUMED] if "<=" in "".join(shown) else shown)


def _cell(likely: float, most: float, form: str) -> str:
    return f"{most:{form}}" if likely == most else f"{likely:{form}} (<= {most:{form}})"
