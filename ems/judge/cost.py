"""What judging costs: a bound on the tokens of a call, prices, what was used, and both as tables."""

from __future__ import annotations

import json
import math
import string
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..types import InputError
from . import Request

if TYPE_CHECKING:
    import pandas as pd

Prices = Mapping[str, float]  # money for a million tokens: prompt, completion, cached
DIGITS, SIGNS = string.digits.encode(), string.punctuation.encode()
PER_CALL = 64  # tokens a chat template may put around a prompt, a default system message included
AT_MOST = (
    "At most: what is not stored yet is assumed as long as it may be: new texts in sentences of 20 "
    "words, two points or three claims a sentence. Calls repeated after a fault come on top."
)


@dataclass
class Usage:
    """What one task has asked of a judge and cost so far. In a dry run: what it would."""

    requests: int = 0  # asked for by the stages
    stored: int = 0  # of these: answered from the store
    calls: int = 0  # HTTP requests sent, repeated ones included
    prompt_tokens: int = 0  # of live replies, as the server counts them
    completion_tokens: int = 0
    cached_tokens: int = 0  # of the prompt tokens: those the server had seen before
    seconds: float = 0.0  # sum over live replies
    failures: Counter[str] = field(
        default_factory=Counter
    )  # requests without a usable reply, by reason
    cost: float | None = None  # of live replies, in the currency of the prices; None without prices


def tokens_at_most(text: str) -> int:
    """A bound on the tokens of a text in English, for no tokenizer in particular; 0 for an empty text.

    Words of other languages in Latin letters, and English all in capitals, can take more than this bound.
    """
    ascii_ = text.encode("ascii", "ignore")
    digits = len(ascii_) - len(ascii_.translate(None, DIGITS))
    signs = len(ascii_) - len(ascii_.translate(None, SIGNS))
    letters = len(ascii_) - digits - signs
    return math.ceil(letters / 4 + signs + 1.3 * digits + 2.2 * (len(text) - len(ascii_)))


def at_most(request: Request) -> tuple[int, int]:
    """Prompt tokens and reply tokens that a call can take at most; the prompt's are bounded, not counted."""
    schema = json.dumps(request.schema) if request.schema else ""
    return PER_CALL + tokens_at_most(request.prompt + schema), request.max_tokens


def checked_prices(given: Prices | None) -> Prices | None:
    """Prices with all three names; without `cached`, such tokens cost as others. None or {} = not known."""
    if not given:
        return None
    names = set(given) if isinstance(given, Mapping) else set()
    if not (
        {"prompt", "completion"} <= names <= {"prompt", "completion", "cached"}
        and all(type(price) in (int, float) and 0 <= price < 1e9 for price in given.values())
    ):
        raise InputError(
            "prices must be numbers of money for a million tokens: prompt, completion and, if "
            f"it differs, cached; got {given!r:.80}"
        )
    return {"cached": given["prompt"], **given}


def money(prices: Prices | None, prompt: int, completion: int, cached: int = 0) -> float | None:
    """What so many tokens cost, `cached` among those of the prompt; None without prices."""
    if prices is None:
        return None
    full = prompt - cached
    return (
        full * prices["prompt"] + cached * prices["cached"] + completion * prices["completion"]
    ) / 1e6


def usage_table(usages: Mapping[str, Mapping[str, Usage]]) -> pd.DataFrame:
    """A row for each model and task, one for each model ("all"), one for all of several: what `Usage` has.

    `usages` is {model: judge.usage()}. `failures` counts requests without a usable reply; `cost` is nan where
    calls were made and prices are not known.
    """
    import pandas as pd

    rows = [
        {
            "model": model,
            "task": task,
            **vars(used),
            "failures": sum(used.failures.values()),
            "cost": math.nan if used.cost is None and used.calls else used.cost or 0.0,
        }
        for model, tasks in usages.items()
        for task, used in tasks.items()
    ]
    table = pd.DataFrame(rows, columns=["model", "task", *Usage.__dataclass_fields__])
    groups = [*table.groupby("model", sort=False)]
    groups += [("all", table)] if len(groups) > 1 else []
    totals = [
        of.sum(skipna=False).to_frame().T.assign(model=model, task="all") for model, of in groups
    ]
    return pd.concat([table, *totals]).astype(table.dtypes)


def plan_text(usages: Mapping[str, Mapping[str, Usage]]) -> str:
    """What a dry run counted, as aligned lines: calls, tokens and money at most; `usages` as above."""
    if not any(usages.values()):
        return "no judge is asked: nothing to pay"
    table = usage_table(usages)
    costs = ["unknown" if math.isnan(one) else f"{one:,.2f}" for one in table["cost"]]
    counts = ["stored", "calls", "prompt_tokens", "completion_tokens"]
    shown = table[["model", "task", *counts]].assign(cost=costs).to_string(index=False)
    return (
        f"{shown}\n{AT_MOST}{' Money needs prices: --prices, or a profile.' * ('unknown' in costs)}"
    )
