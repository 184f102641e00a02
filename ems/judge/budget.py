"""What judging costs: bounds before (a dry run), a limit while it runs, and a table of what was used.

A dry run is the ordinary run with a `Planner` in the place of a judge: what the store lacks is assumed, once
at its costliest, so that every later stage is counted at its largest, and once at its likely length.
"""

from __future__ import annotations

import json
import math
import string
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..asking import Judge, Reply, Request, list_schema
from ..types import InputError

if TYPE_CHECKING:
    import pandas as pd

    from .client import LLMJudge

Usage = Mapping[str, Mapping[str, Mapping[str, Any]]]      # by model and task: the fields of TaskUsage
DIGITS, SIGNS = string.digits.encode(), string.punctuation.encode()
PER_CALL = 64            # tokens a chat template may put around a prompt, a default system message included
LIKELY = 0.5             # share of the longest lists and answers that a likely run has: a point a sentence
LIKELY_TOKENS = 0.8      # share of the bound below that texts in English take
ASSUMED = (
    "Likely (<= at most), or one number where they agree: where a stage before has no reply yet, assumed are "
    "lists half as long (as long) as its schema allows, which is two points or three claims a sentence, and "
    "that each point finds a match. Calls repeated after a fault come on top."
)


def tokens_at_most(text: str) -> int:
    """A bound on the tokens of a text in English, for no tokenizer in particular; 0 for an empty text.

    SmolLM2 and Qwen2.5 took 0.6 to 0.9 of it on the kit's texts, 0.2 to 0.95 on Chinese. Words of other
    languages in Latin letters, and English all in capitals, can take more than this bound.
    """
    ascii_ = text.encode("ascii", "ignore")
    digits = len(ascii_) - len(ascii_.translate(None, DIGITS))
    signs = len(ascii_) - len(ascii_.translate(None, SIGNS))
    foreign = len(text) - len(ascii_)
    return math.ceil((len(text) - digits - signs - foreign) / 4 + signs + 1.3 * digits + 2.2 * foreign)


def assumed(request: Request, share: float) -> str:
    """The longest reply that could be read (`share` 1), or a `share` in (0, 1] of its entries or length."""
    if request.about:
        key = "claims" if request.task == "claims" else "points"
        return longest_list(request.about, list_schema(key, request.about), share)
    if request.choices:
        # Not always the first: two answers that begin alike would then bring the same pair, asked about once.
        start, n = zlib.crc32(request.prompt.encode()), len(request.choices)
        chosen = [request.choices[(start + i) % n] for i in range(request.entries or 1)]
        key = next(iter(request.schema["properties"])) if request.entries and request.schema else ""
        return json.dumps({key: chosen}) if request.entries else str(chosen[0])
    if request.schema:
        return json.dumps({key: [] for key in request.schema["properties"]})
    paragraph = "A statement of figures and reasons is taken to be as long as this sentence about one. " * 4
    characters = 5 * request.max_tokens
    paragraphs = [paragraph] * math.ceil(share * characters / len(paragraph))
    return "\n\n".join([f"By {request.label}.", *paragraphs])


def longest_list(text: str, schema: Mapping[str, Any], share: float = 1.0) -> str:
    """A reply that breaks a text into as many points as `schema` allows, half as long again, or a share."""
    (key, entries), = schema["properties"].items()
    n = math.ceil(share * entries["maxItems"])
    step = len(text) / n
    starts = (int(i * step) for i in range(n))
    return json.dumps(
        {key: [f"{i} {text[at : int(at + (0.5 + share) * step) + 1]}" for i, at in enumerate(starts)]}
    )


def at_most(request: Request) -> tuple[int, int]:
    """Prompt tokens and reply tokens that a call can take at most; the prompt's are bounded, not counted."""
    schema = json.dumps(request.schema) if request.schema else ""
    return PER_CALL + tokens_at_most(request.prompt + schema), request.max_tokens


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens, in a currency of the user's choice."""

    prompt: float
    completion: float
    cached: float                 # prompt tokens the server had seen before

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> Prices | None:
        """From {prompt, completion, cached}; without cached, it costs as prompt. None or {} = not known."""
        if not given:
            return None
        allowed = ("prompt", "completion", "cached")
        numbers = all(type(v) in (int, float) and 0 <= v < 1e9 for v in given.values())
        if not ({"prompt", "completion"} <= given.keys() <= set(allowed) and numbers):
            raise InputError("prices must be numbers of money for a million tokens: prompt, completion and, "
                             f"if it differs, cached; got {dict(given)!r:.80}")
        return cls(**{"cached": given["prompt"], **given})

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float:
        """Money for so many tokens; `cached` are a part of `prompt`."""
        return ((prompt - cached) * self.prompt + cached * self.cached + completion * self.completion) / 1e6


@dataclass
class TaskUsage:
    """What one task has cost a judge so far."""

    requests: int = 0             # asked for by the stages
    stored: int = 0               # of these: answered from the store
    shared: int = 0               # of these: identical to another request, asked once
    calls: int = 0                # HTTP requests sent, retries included; in a dry run those to be sent
    prompt_tokens: int = 0        # of live replies
    completion_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0          # sum over live replies
    failures: Counter = field(default_factory=Counter)       # requests without a usable reply, by reason
    dropped: Counter = field(default_factory=Counter)        # replies made without a setting, by the setting
    cost: float | None = None     # of live replies, in the prices' currency; None without prices


class Account:
    """What one judge has been asked and has cost, by task. Safe to share between threads."""

    def __init__(self, prices: Prices | None = None):
        self.prices, self.lock = prices, threading.RLock()
        self._tasks: dict[str, TaskUsage] = {}

    def task(self, name: str) -> TaskUsage:
        """The usage of one task, to read or to change under `lock`."""
        return self._tasks.setdefault(name, TaskUsage())

    @property
    def spent(self) -> float:
        """Money for all tasks."""
        return sum(used.cost or 0.0 for used in self._tasks.values())

    @property
    def calls(self) -> int:
        """Calls of all tasks."""
        return sum(used.calls for used in self._tasks.values())

    def reply(self, task: str, prompt: int, completion: int, cached: int = 0, seconds: float = 0.0) -> None:
        """Add the tokens and the money of one reply."""
        with self.lock:
            used = self.task(task)
            used.prompt_tokens += prompt
            used.completion_tokens += completion
            used.cached_tokens += cached
            used.seconds += seconds
            if self.prices:
                used.cost = (used.cost or 0.0) + self.prices.cost(prompt, completion, cached)

    def call(self, task: str) -> None:
        """Add one call."""
        with self.lock:
            self.task(task).calls += 1

    def asked(self, requests: Sequence[Request], keys: Sequence[str], replies: Mapping[str, Reply],
              dropped: Callable[[Reply], Iterable[str]] = lambda reply: ()) -> None:
        """Add what an ask was about: the requests, their keys, and the replies by key."""
        seen: set[str] = set()
        with self.lock:
            for key, request in zip(keys, requests, strict=True):
                used, reply = self.task(request.task), replies[key]
                used.requests += 1
                used.stored += reply.stored
                used.shared += key in seen and not reply.stored
                used.failures.update([reply.error] if reply.error else [])
                used.dropped.update(dropped(reply))
                seen.add(key)

    def usage(self) -> dict[str, TaskUsage]:
        """A copy by task, as it stands."""
        with self.lock:
            return deepcopy(self._tasks)


class Planner:
    """A judge that asks nothing: it takes what a judge would from its store, assumes the rest, counts calls.

    `share` 1 assumes the costliest reply that can be read, and tokens at most; a share in (0, 1) assumes
    lists and answers that much shorter, and tokens as texts in English take. Planners of one run share
    `saved`, the keys of replies that the run would have in its store by then.
    """

    batch = 8                     # answers to lay before it at once: the lists that it assumes are long

    def __init__(self, judge: LLMJudge, share: float = 1.0, saved: set[str] | None = None):
        if not 0 < share <= 1:
            raise InputError(f"share must be above 0 and at most 1, got {share!r}")
        self.judge, self.share, self.name = judge, share, judge.name
        self._account = Account(judge.prices)
        self._saved = set() if saved is None else saved

    @property
    def signature(self) -> str:
        """The judge's own."""
        return self.judge.signature

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """One reply per request, in order: stored or assumed."""
        requests = self.judge.granted(requests)
        keys = [self.judge.key(request) for request in requests]
        replies = self.judge.stored(keys)
        for key, request in zip(keys, requests, strict=True):
            if key not in replies:
                replies[key] = self._assumed(key, request)
        self._account.asked(requests, keys, replies)
        return [replies[key] for key in keys]

    def usage(self) -> dict[str, TaskUsage]:
        """What each task would be asked and cost."""
        return self._account.usage()

    def _assumed(self, key: str, request: Request) -> Reply:
        text = assumed(request, self.share)
        prompt, completion = at_most(request)
        if self.share < 1:
            prompt, completion = round(prompt * LIKELY_TOKENS), round(tokens_at_most(text) * LIKELY_TOKENS)
        if self.judge.store is None or key not in self._saved:
            self._account.call(request.task)
            self._account.reply(request.task, prompt, completion)
        self._saved.add(key)
        return Reply(text)


def plan(work: Callable[[Judge], object], judge: LLMJudge) -> str:
    """What work that asks through the judge it is given (twice: a planner) would cost, for people."""
    counted = []
    for share in (1.0, LIKELY):
        planner = Planner(judge, share)
        work(planner)
        counted.append({planner.name: {task: vars(used) for task, used in planner.usage().items()}})
    return plan_text(*counted)


def table(usage: Usage) -> pd.DataFrame:
    """What was used (see `TaskUsage`), a row for each model and task, for each model and for all.

    `unread` counts requests without a usable reply; `cost` is nan without prices.
    """
    import pandas as pd

    sums = ["requests", "stored", "shared", "calls",
            "prompt_tokens", "cached_tokens", "completion_tokens", "seconds"]
    numbers, rows = [*sums, "unread", "cost"], []

    def total(model: str, of: list[dict[str, Any]]) -> dict[str, Any]:
        return {"model": model, "task": "all", **{name: sum(row[name] for row in of) for name in numbers}}

    for model, tasks in usage.items():
        by_task = [{"model": model, "task": task, **{name: used[name] for name in sums},
                    "unread": sum(used["failures"].values()),
                    "cost": math.nan if used["cost"] is None else used["cost"]}
                   for task, used in tasks.items()]
        rows += [*by_task, total(model, by_task)]
    if len(usage) > 1:
        rows.append(total("all", [row for row in rows if row["task"] == "all"]))
    return pd.DataFrame(rows, columns=["model", "task", *numbers])


def merged(parts: Iterable[Usage]) -> Usage:
    """Several usages as one; a task that occurs in several is summed."""
    whole: dict[str, dict[str, dict[str, Any]]] = {}
    for part in parts:
        for model, tasks in part.items():
            for task, used in tasks.items():
                total = whole.setdefault(model, {}).setdefault(task, {})
                for name, value in used.items():
                    if isinstance(value, Mapping):
                        total[name] = dict(Counter(total.get(name, {})) + Counter(value))
                    else:
                        total[name] = value if total.get(name) is None else total[name] + (value or 0)
    return whole


def plan_text(most: Usage, likely: Usage) -> str:
    """What two dry runs counted, for people: one number where they agree, else likely and at most."""
    likely_rows = table(likely).set_index(["model", "task"])
    lines = [("model", "stage", "stored", "calls", "prompt tokens", "reply tokens", "cost")]
    for row in table(most).to_dict("records"):
        guess = likely_rows.loc[(row["model"], row["task"])]
        cells = [_cell(guess[name], row[name], ",.0f")
                 for name in ("calls", "prompt_tokens", "completion_tokens")]
        cost = _cell(guess.cost, row["cost"], ",.2f")
        if not row["calls"] or math.isnan(row["cost"]):
            cost = "unknown" if row["calls"] else "0.00"
        lines.append((row["model"], row["task"], f"{row['stored']:,}", *cells, cost))
    if len(lines) == 1:
        return "no judge is asked: nothing to pay"
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    aligned = [[*map(str.ljust, line[:2], widths), *map(str.rjust, line[2:], widths[2:])] for line in lines]
    shown = ["  ".join(cells).rstrip() for cells in aligned]
    return "\n".join([*shown, ASSUMED] if "<=" in "".join(shown) else shown)


def _cell(likely: float, most: float, form: str) -> str:
    return f"{most:{form}}" if likely == most else f"{likely:{form}} (<= {most:{form}})"
