"""What judging costs: prices, a bound on the tokens of a call, what was used, both as tables."""

from __future__ import annotations

import json
import math
import string
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..types import InputError
from . import Record, Request
from .pace import JudgeUnavailable

if TYPE_CHECKING:
    import pandas as pd

Prices = Mapping[str, float]  # money for a million tokens: prompt, completion, cached
TEMPLATE_TOKENS = 64  # a chat template may put so many around a prompt, system message included
PLAN_NOTE = (
    "At most: what is not stored yet is assumed as long as it may be: new texts in sentences of 20 "
    "words, two points or three claims a sentence. Calls repeated after a fault come on top."
)
_DIGITS = string.digits.encode()
_SIGNS = string.punctuation.encode()


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
    # Requests without a usable reply, by reason.
    failures: Counter[str] = field(default_factory=Counter)
    cost: float | None = None  # of live replies, in the currency of the prices; None without prices

    def __add__(self, other: Usage) -> Usage:
        """Both together. The cost is None where calls of either have no price."""
        total = Usage()
        for name, count in vars(self).items():
            if name != "cost":
                setattr(total, name, count + getattr(other, name))
        costs = [usage.cost for usage in (self, other) if usage.calls or usage.cost is not None]
        known = [cost for cost in costs if cost is not None]
        if known and len(known) == len(costs):
            total.cost = sum(known)
        return total


class Spending:
    """What a judge has used, by task, and the money reserved for calls under way; for threads.

    `limit` is the money that may be spent, None or 0 for no limit.
    """

    def __init__(self, prices: Prices | None, limit: float | None):
        if limit and not prices:
            raise InputError("a spend limit needs prices: give them as well")
        self.prices = checked_prices(prices)
        self.limit = limit
        self.reserved: list[float] = []
        self._lock = threading.RLock()
        self._by_task: dict[str, Usage] = {}
        self._planned: set[str] = set()  # keys of requests that a dry run has counted

    def by_task(self) -> dict[str, Usage]:
        """A copy of what each task has used."""
        with self._lock:
            return deepcopy(self._by_task)

    def add(self, request: Request, reply: Record | None = None, **counts: Any) -> None:
        """Add counts to those of the request's task, and recompute its cost.

        The counts of a live reply, also of one that cannot be used, are its tokens and seconds.
        """
        if reply is not None:
            counts["prompt_tokens"] = reply.prompt_tokens
            counts["completion_tokens"] = reply.completion_tokens
            counts["cached_tokens"] = reply.cached_tokens
            counts["seconds"] = reply.seconds
            if self.prices and not reply.prompt_tokens:  # the server does not count
                counts["prompt_tokens"], counts["completion_tokens"] = tokens_at_most(request)
        with self._lock:
            usage = self._by_task.setdefault(request.task, Usage())
            for name, count in counts.items():
                setattr(usage, name, getattr(usage, name) + count)
            if self.prices:
                usage.cost = money(
                    self.prices, usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
                )

    def plan(self, key: str, request: Request) -> None:
        """Count what the call of a dry run would use at most; equal requests are one call."""
        with self._lock:
            if key not in self._planned:
                self._planned.add(key)
                prompt, completion = tokens_at_most(request)
                self.add(request, calls=1, prompt_tokens=prompt, completion_tokens=completion)

    def reserve(self, request: Request) -> float | None:
        """Reserve the most that a call can cost, and return it; 0 without a limit.

        None while the call has to wait for the end of calls under way. JudgeUnavailable when the
        limit leaves too little for it.
        """
        most = 0.0
        if self.limit and self.prices:
            most = money(self.prices, *tokens_at_most(request))
            spent = sum(usage.cost or 0.0 for usage in self.by_task().values())
            if spent + sum(self.reserved) + most > self.limit:
                if self.reserved:
                    return None  # calls under way may cost less than was reserved
                raise JudgeUnavailable(
                    f"spend limit of {self.limit:g} reached: {spent:.6g} spent, the next call may "
                    f"cost {most:.2g}"
                )
        self.reserved.append(most)
        return most


def checked_prices(prices: Prices | None) -> Prices | None:
    """Prices with all three names; without `cached`, such tokens cost as others.

    None for None or {}: the prices are not known.
    """
    if not prices:
        return None
    names = set(prices) if isinstance(prices, Mapping) else set()
    if not (
        {"prompt", "completion"} <= names <= {"prompt", "completion", "cached"}
        and all(type(price) in (int, float) and 0 <= price < 1e9 for price in prices.values())
    ):
        raise InputError(
            "prices must be numbers of money for a million tokens: prompt, completion and, if "
            f"it differs, cached; got {prices!r:.80}"
        )
    return {"cached": prices["prompt"], **prices}


def money(prices: Prices, prompt: int, completion: int, cached: int = 0) -> float:
    """What so many tokens cost, `cached` among those of the prompt."""
    total = (prompt - cached) * prices["prompt"]
    total += cached * prices["cached"]
    total += completion * prices["completion"]
    return total / 1e6


def tokens_at_most(request: Request) -> tuple[int, int]:
    """Prompt tokens and reply tokens that a call can take at most.

    Those of the prompt are a bound for no tokenizer in particular, not a count.
    """
    schema = json.dumps(request.schema) if request.schema else ""
    prompt = TEMPLATE_TOKENS + text_tokens_at_most(request.prompt + schema)
    return prompt, request.max_tokens


def text_tokens_at_most(text: str) -> int:
    """A bound on the tokens of a text in English; 0 for an empty text.

    Words of other languages in Latin letters, and English all in capitals, can take more.
    """
    ascii_text = text.encode("ascii", "ignore")
    digits = len(ascii_text) - len(ascii_text.translate(None, _DIGITS))
    signs = len(ascii_text) - len(ascii_text.translate(None, _SIGNS))
    letters = len(ascii_text) - digits - signs
    others = len(text) - len(ascii_text)
    # In twentieths of a token, which are whole numbers: a sum of fractions can be rounded upwards.
    return math.ceil((5 * letters + 20 * signs + 26 * digits + 44 * others) / 20)


def usage_table(usages: Mapping[str, Mapping[str, Usage]]) -> pd.DataFrame:
    """The fields of `Usage` as columns: a row for each model and task, then the sums.

    `usages` is {model: judge.usage()}. The sum of a model has the task "all"; with several models a
    last row "all" sums these. `failures` is the number of requests without a usable reply; `cost`
    is nan where calls were made and prices are not known.
    """
    import pandas as pd

    rows = []
    for model, tasks in usages.items():
        for task, usage in tasks.items():
            row = {"model": model, "task": task, **vars(usage)}
            row["failures"] = sum(usage.failures.values())
            if usage.cost is None:
                row["cost"] = math.nan if usage.calls else 0.0
            rows.append(row)
    table = pd.DataFrame(rows, columns=["model", "task", *Usage.__dataclass_fields__])
    parts = [*table.groupby("model", sort=False)]
    if len(parts) > 1:
        parts.append(("all", table))
    totals = []
    for model, part in parts:
        total = part.sum(skipna=False).to_frame().T
        totals.append(total.assign(model=model, task="all"))
    return pd.concat([table, *totals]).astype(table.dtypes)


def together(usages: Iterable[tuple[str, Mapping[str, Usage]]]) -> dict[str, dict[str, Usage]]:
    """{model: {task: usage}} from pairs of a model and its usages by task.

    Usages of one model and task are added.
    """
    by_model: dict[str, dict[str, Usage]] = {}
    for model, tasks in usages:
        of_model = by_model.setdefault(model, {})
        for task, usage in tasks.items():
            of_model[task] = of_model.get(task, Usage()) + usage
    return by_model


def used_text(usages: Mapping[str, Mapping[str, Usage]]) -> str:
    """The total and its largest part as a sentence, then a table with a row for each task.

    `usages` is {model: judge.usage()}, with a task at least.
    """
    table = usage_table(usages)
    tasks = table[table["task"] != "all"]
    total = tasks[["calls", "prompt_tokens", "completion_tokens", "cost"]].sum(skipna=False)
    price = "money unknown" if math.isnan(total["cost"]) else f"money: {total['cost']:,.2f}"
    first = (
        f"{total['calls']:,.0f} calls, {total['prompt_tokens']:,.0f} prompt tokens and "
        f"{total['completion_tokens']:,.0f} completion tokens; {price}."
    )
    by = "cost" if total["cost"] > 0 else "calls"
    if len(tasks) > 1 and total[by]:
        largest = tasks.loc[tasks[by].idxmax()]
        share = largest[by] / total[by]
        first += f" The largest part is {largest['task']} by {largest['model']}: {share:.0%} of "
        first += "the money." if by == "cost" else "the calls."
    columns = ["model", "task", "stored", "calls", "prompt_tokens", "completion_tokens", "cost"]
    lines = tasks[columns].to_string(index=False, na_rep="unknown", float_format="{:,.2f}".format)
    return f"{first}\n{lines}"


def plan_text(usages: Mapping[str, Mapping[str, Usage]]) -> str:
    """What a dry run counted: calls, tokens and money at most, the total first (`used_text`)."""
    if not any(usages.values()):
        return "no judge is asked: nothing to pay"
    text = f"At most {used_text(usages)}\n{PLAN_NOTE}"
    if "money unknown" in text:
        text += " Money needs prices: --prices, or a profile."
    return text
