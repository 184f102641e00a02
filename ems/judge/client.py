"""A judge for real: LLMJudge asks an OpenAI-compatible endpoint, or replays saved replies.

`openai`, `asyncio` and calls.py are imported for the first live call, never for a replay.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..asking import Reply, Request
from ..batches import MissingReplies
from ..io import progress_bar
from ..types import InputError
from .budget import Account, Prices, TaskUsage, at_most
from .store import Record, Replies, StoreError, encodable, ending, reply_key, utc
from .wire import Endpoint, JudgeUnavailable, SpendLimit

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["JudgeUnavailable", "LLMJudge", "SpendLimit", "TaskUsage"]
DEFAULTS = {"temperature": 0.0, "top_p": None, "seed": 7, "weights": None}       # of an LLMJudge's decoding
MODES = ("live", "replay", "refresh")
INTERRUPT_GRACE = 0.5         # seconds that replies on their way are waited for after Ctrl-C


class LLMJudge:
    """A model behind an OpenAI-compatible endpoint, with a store of its replies.

    mode      "live" asks for what the store lacks, "replay" never touches the network, "refresh" asks for
              everything once and replaces what is saved. What a run would ask is counted by `budget.Planner`.
    base_url  and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY. With an address but no key a dummy
              key is sent: local servers want none.
    workers   calls in flight at once, over all threads that use this judge; 32 until a first reply has come.
              May be set between two asks.
    timeout   seconds for one reply, its retries and waits included; past it that reply alone has failed.
    retries   how often a call is repeated after a dropped connection, 408, 409, 429, 5xx, or an unreadable
              body. The wait doubles from half a second, with jitter. A server that names a time to come back
              (Retry-After) is heeded, however often, until `timeout`. An address from which nothing has ever
              come is given up after a few tries of all requests together, within 20 seconds and 40 calls if
              its server names no waits.
    thinking_tokens   tokens that a reply may take beyond what its task needs, for a model that thinks before
              it answers: without them its replies are cut before the answer. They enter the reply's key.
    weights   revision of the model's weights, if declared: it enters every reply's key, like the decoding.
    prices    money for a million tokens: {"prompt": 2.5, "cached": 1.25, "completion": 10}; None or {} = not
              known.
    spend_limit   money that this judge may spend, in the currency of the prices; 0 or None = no limit. A call
              is sent only if all calls under way and this one stay within it at their largest; otherwise
              SpendLimit.
    """

    def __init__(self, model: str, *, store: Replies | None = None, mode: str = "live",
                 base_url: str | None = None, api_key: str | None = None, workers: int = 32,
                 timeout: float = 600.0, retries: int = 6, temperature: float | None = 0.0,
                 top_p: float | None = None, seed: int | None = 7, thinking_tokens: int = 0,
                 weights: str | None = None,
                 prices: Mapping[str, float] | None = None, spend_limit: float | None = None):
        if mode not in MODES:
            raise InputError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        if mode == "replay" and store is None:
            raise InputError("mode 'replay' needs a store of saved replies; pass store=Replies(path)")
        if mode in ("live", "refresh") and store is not None and store.read_only:
            raise InputError(f"{store.path} is read-only and cannot take new replies; use mode 'replay', or "
                             "Replies('new.sqlite', recorded=[...])")
        limits = (("workers", workers, 1), ("timeout", timeout, 0.001), ("retries", retries, 0),
                  ("thinking_tokens", thinking_tokens, 0))
        for name, value, least in limits:
            if not value >= least:
                raise InputError(f"{name} must be at least {least}, got {value!r}")
        self.prices, self.spend_limit = Prices.of(prices), spend_limit or None
        if self.spend_limit is not None and not (self.prices and self.spend_limit > 0):
            raise InputError("a spend limit is an amount of money above 0 and needs prices, got "
                             f"{spend_limit!r} with prices {prices!r}")
        self.name = self.model = model
        self.store, self.mode = store, mode
        self.workers, self.timeout, self.retries = workers, timeout, retries
        self.thinking_tokens = thinking_tokens
        self.decoding: dict[str, Any] = {
            "temperature": None if temperature is None else float(temperature),
            "top_p": None if top_p is None else float(top_p), "seed": seed, "weights": weights}
        self._refreshed: set[str] = set()           # keys of the replies that mode "refresh" has asked for
        self._searched: set[str] = set()            # tasks for which `_differing` has looked
        self.endpoint = Endpoint(model, base_url, api_key)
        self.account = Account(self.prices)
        self._calls: Calls | None = None
        self._first_ask = threading.Lock()          # two threads may make it at the same instant
        self.complaints: dict[str, str] = {}        # a server's last message about each kind of failure

    def __repr__(self) -> str:
        return f"LLMJudge({self.model!r}, mode={self.mode!r}, store={self.store!r}, workers={self.workers})"

    @property
    def signature(self) -> str:
        """The model and the decoding asked for; what of it a server did not take is in the usage."""
        settings = {"judge": self.model, **self.decoding, "thinking_tokens": self.thinking_tokens or None}
        return "|".join(f"{name}:{value}" for name, value in settings.items() if value is not None)

    # --- asking ---

    def granted(self, requests: Sequence[Request]) -> list[Request]:
        """Requests as they are sent: with the tokens that this judge may think in."""
        return [replace(r, max_tokens=r.max_tokens + self.thinking_tokens) for r in requests]

    def key(self, request: Request, **other: Any) -> str:
        """The store's key of a request: a hash of all that can change the reply, and of nothing else.

        `other` settings (the model, its decoding) give the key under which another judge's reply is saved.
        """
        settings = {"model": self.model, **self.decoding, **other}
        return reply_key(**settings, prompt=encodable(request.prompt), schema=request.schema,
                         max_tokens=request.max_tokens, sample=request.sample,
                         **({"chances": request.top_logprobs} if request.top_logprobs else {}))

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """One reply per request, in order. Identical requests are asked once; replies are saved as they come.

        A request that fails for itself gives Reply(None, reason). Raises JudgeUnavailable when asking on is
        pointless, MissingReplies in replay, StoreError when a reply cannot be saved; what is saved by then
        stays saved.
        """
        requests = self.granted(requests)
        keys = [self.key(r) for r in requests]
        wanted: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            wanted.setdefault(key, request)
        if self._calls:
            self._calls.save_unsaved()
        replies = self.stored(wanted)
        missing = {key: r for key, r in wanted.items() if key not in replies}
        if missing and self.mode == "replay":
            raise self._missing(missing, "" if replies else self._differing(next(iter(missing.values()))))
        if missing:
            replies.update(self._ask_live(missing, progress, len(replies)))
            self._refreshed.update(key for key in missing if replies[key].record)
        self.account.asked(requests, keys, replies, self._dropped)
        return [replies[key] for key in keys]

    def usage(self) -> dict[str, TaskUsage]:
        """What each task has asked for and cost so far."""
        return self.account.usage()

    @property
    def batch(self) -> int:
        """Answers to lay before it at once: so many that every worker is busy nearly to a stage's end."""
        return max(128, 4 * self.workers)

    def stored(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The replies to these keys that an ask would take from the store, by key.

        In mode "refresh" only those that this judge has asked for itself: a question that comes up again has
        the same reply. What a server broke off is one in a replay only: elsewhere it is asked for again.
        """
        if self.store is None:
            return {}
        if self.mode == "refresh":
            keys = [key for key in keys if key in self._refreshed]
        replies = {key: self.reply(record, stored=True) for key, record in self.store.get_many(keys).items()}
        return {k: r for k, r in replies.items() if self.mode == "replay" or r.error != "broken off"}

    @property
    def kept(self) -> str:
        """Where replies are saved, for people."""
        return str(self.store.path) if self.store is not None and self.store.path else "memory only"

    def _missing(self, missing: Mapping[str, Request], hint: str) -> MissingReplies:
        assert self.store is not None                  # a replay has one
        if not self.store.read_only:
            self.store.add_pending((key, r.task, r.label, self.body(r)) for key, r in missing.items())
        by_task: dict[str, list[str]] = {}
        for key, request in missing.items():
            by_task.setdefault(request.task, []).append(key)
        return MissingReplies(self.model, by_task, noted=not self.store.read_only, hint=hint)

    def _differing(self, request: Request) -> str:
        """Which single setting keeps a replay from the store's reply to a request; "" when none alone does.

        Looked for once for each task, with the values that the store's records name, and the default.
        """
        if request.task in self._searched:
            return ""
        self._searched.add(request.task)
        assert self.store is not None                  # a replay has one
        mine = {"model": self.model, **self.decoding}
        named = {(name, value) for r in self.store.records() if r.task == request.task
                 for name, value in {"model": r.model, **r.sent}.items() if name in mine}
        for name, value in sorted(named | DEFAULTS.items(), key=str):
            if value != mine[name] and self.store.get(self.key(request, **{name: value})):
                return f"the store has them with {name} {value!r}, and this judge has {name} {mine[name]!r}"
        return ""

    # --- live ---

    def check_offered(self) -> None:
        """Ask the endpoint whether it offers this model; the first ask does so by itself.

        JudgeUnavailable when it does not, with the names nearest to it, and when there is no key to send. An
        endpoint that cannot be reached, or has no list of models, is left to the first ask.
        """
        import asyncio

        from .calls import background

        asyncio.run_coroutine_threadsafe(self._connected().check_offered(), background()).result()

    def _connected(self) -> Calls:
        """The calls of this judge, which is ready to make them. JudgeUnavailable without a key."""
        from .calls import Calls

        self.endpoint.connect()
        with self._first_ask:
            self._calls = self._calls or Calls(self)
        return self._calls

    def _ask_live(self, missing: Mapping[str, Request], progress: str, stored: int) -> dict[str, Reply]:
        import asyncio

        from .calls import background

        calls, loop, stop = self._connected(), background(), asyncio.Event()
        replies: dict[str, Reply] = {}
        asking = asyncio.run_coroutine_threadsafe(calls.ask(missing, replies, stop), loop)
        try:
            with progress_bar(progress, stored + len(missing), stored) as bar:
                while wait([asking], 0.1).not_done:
                    bar.update(stored + len(replies) - bar.n)
                asking.result()
                bar.update(stored + len(replies) - bar.n)
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(stop.set)
            wait([asking], INTERRUPT_GRACE)         # replies on their way are paid for: let them be saved
            asking.cancel()
            received = sum(reply.error != "interrupted" for reply in replies.values())
            raise KeyboardInterrupt(f"stopped with {received} of {len(missing)} replies of {self.model} "
                                    f"received, saved in {self.kept}; run the same command again to go on"
                                    ) from None
        except StoreError as error:
            with suppress(StoreError):
                calls.save_unsaved()
            raise StoreError(f"{error}. {len(calls.unsaved)} replies were received but not saved: the "
                             "next ask of this judge saves them first; when the program ends they are lost",
                             error.record) from None
        return replies

    def body(self, request: Request) -> dict[str, Any]:
        """The chat completion to send."""
        sent = {**self.decoding, "weights": None}           # which are no parameter of a call
        if sent["seed"] is not None:
            sent["seed"] += request.sample
        return self.endpoint.body(request.prompt, max_tokens=request.max_tokens, schema=request.schema,
                                  chances=request.top_logprobs, **sent)

    def record(self, key: str, request: Request, body: dict, choice: dict, seconds: float) -> Record:
        """What is stored of a reply."""
        sent = {"format": body.get("response_format", {}).get("type", "text"), **self.decoding,
                "thinking_tokens": self.thinking_tokens or None,
                "dropped": sorted(self.endpoint.learned.dropped - body.keys()),
                "chances": choice.pop("chances")}
        return Record(key=key, task=request.task, model=self.model, label=request.label, seconds=seconds,
                      prompt=request.prompt, date=utc(),
                      sent={k: v for k, v in sent.items() if v not in (None, [], {})}, **choice)

    def reply(self, record: Record, *, stored: bool = False) -> Reply:
        """A saved record as a reply: a cut-off or declining text is kept in the store but is no answer."""
        error = ending(record.finish_reason)
        return Reply(None if error else record.text, error, record, stored)

    def count_call(self, request: Request, tokens: Mapping[str, Any], seconds: float = 0.0) -> None:
        """Add a live call as its server counted it; one that did not count is charged at the most."""
        counts = tokens["prompt_tokens"], tokens["completion_tokens"], tokens["cached_tokens"]
        if self.prices and not counts[0]:
            counts = *at_most(request), 0
        self.account.reply(request.task, *counts, seconds)

    def _dropped(self, reply: Reply) -> list[str]:
        """Settings of this judge that the server of a reply did not take."""
        refused = reply.record.sent.get("dropped", ()) if reply.record else ()
        return [name for name, value in self.decoding.items() if name in refused and value is not None]
