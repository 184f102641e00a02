"""The judge: anything that answers prompts. LLMJudge asks an OpenAI-compatible endpoint, or replays saved replies.

Synchronous, with threads of its own, so that it works the same in a script and in a notebook's running event loop.
The `openai` package is imported when the first live call is made, never for a replay.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from ..io import progress_bar
from ..types import InputError, MissingReplies, Reply, Request
from .budget import Account, Prices, TaskUsage, at_most
from .store import DECODING, FINAL, Record, Replies, StoreError, encodable, ending, reply_key, utc
from .wire import ABOUT_VALUE, Endpoint, Failed

DEFAULTS = {"temperature": 0.0, "top_p": None, "seed": 7, "weights": None}       # of an LLMJudge's decoding
MODES = ("live", "replay", "refresh")
STRIKES = 32                                          # requests failing in a row after which the endpoint counts as down


class JudgeUnavailable(InputError):
    """The endpoint cannot be used at all: unreachable, wrong key, no such model, no credit. Nothing saved is lost."""


class SpendLimit(JudgeUnavailable):
    """Another call could cost more than the spend limit leaves. All that was paid for is received and saved."""


class LLMJudge:
    """A model behind an OpenAI-compatible endpoint, with a store of its replies.

    mode      "live" asks for what the store lacks, "replay" never touches the network, "refresh" asks for everything
              and replaces what is saved. What a run would ask and cost is counted by `budget.Planner`.
    base_url  and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY. With an address but no key a dummy key is
              sent: local servers want none.
    workers   calls in flight at once, over all threads that use this judge.
    timeout   seconds for one reply, its retries and their waits included; past it that reply alone has failed.
    retries   how often a call is repeated after a dropped connection, 408, 409, 429, 5xx, or an unreadable body. The
              wait doubles from half a second, with jitter. A server that names a time to come back (Retry-After) is
              heeded, however often, until `timeout`.
    weights   revision of the model's weights, if declared: it enters every reply's key, like the decoding settings.
    prices    money for a million tokens: {"prompt": 2.5, "cached": 1.25, "completion": 10}; None or {} = not known.
    spend_limit   money that this judge may spend, in the currency of the prices; 0 or None = no limit. A call is sent
              only if all calls under way and this one stay within it at their largest; otherwise SpendLimit.
    """

    def __init__(self, model: str, *, store: Replies | None = None, mode: str = "live", base_url: str | None = None,
                 api_key: str | None = None, workers: int = 32, timeout: float = 600.0, retries: int = 6,
                 temperature: float | None = 0.0, top_p: float | None = None, seed: int | None = 7,
                 weights: str | None = None, prices: Mapping[str, float] | None = None,
                 spend_limit: float | None = None):
        if mode not in MODES:
            raise InputError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        if mode == "replay" and store is None:
            raise InputError("mode 'replay' needs a store of saved replies; pass store=Replies(path)")
        if mode in ("live", "refresh") and store is not None and store.read_only:
            raise InputError(f"{store.path} is read-only and cannot take new replies; use mode 'replay', or "
                             "Replies('new.sqlite', recorded=[...])")
        for name, value, least in (("workers", workers, 1), ("timeout", timeout, 0.001), ("retries", retries, 0)):
            if not value >= least:
                raise InputError(f"{name} must be at least {least}, got {value!r}")
        self.prices, self.spend_limit = Prices.of(prices), spend_limit or None
        if self.spend_limit is not None and not (self.prices and self.spend_limit > 0):
            raise InputError(f"a spend limit is an amount of money above 0 and needs prices, got {spend_limit!r} "
                             f"with prices {prices!r}")
        self.name = self.model = model
        self.store, self.mode = store, mode
        self.timeout, self.retries = timeout, retries
        self.temperature = None if temperature is None else float(temperature)
        self.top_p = None if top_p is None else float(top_p)
        self.seed, self.weights = seed, weights
        self._searched: set[str] = set()            # tasks for which a replay has looked for the setting that differs
        self.endpoint = Endpoint(model, base_url, api_key)
        self._account = Account(self.prices)
        self._inflight: dict[str, Future] = {}
        self._unsaved: dict[str, Record] = {}       # replies that a full disk refused: kept, and saved with the next
        self.complaints: dict[str, str] = {}        # a server's last words about each kind of failure
        self._lock = threading.Lock()
        self.workers = workers
        self._strikes = 0
        self._held: dict[object, float] = {}          # money that each call under way may cost at most
        self._settled = threading.Condition(self._lock)

    def __repr__(self) -> str:
        return f"LLMJudge({self.model!r}, mode={self.mode!r}, store={self.store!r}, workers={self.workers})"

    @property
    def signature(self) -> str:
        """The model and the decoding asked for, the same for all of a run.

        What a server made the judge drop of it is in the usage (`TaskUsage.dropped`): replies from the store and new
        ones may differ in it, and are replies of one judge all the same.
        """
        settings = {"judge": self.model, **self._decoding()}
        return "|".join(f"{name}:{value}" for name, value in settings.items() if value is not None)

    @property
    def workers(self) -> int:
        """Calls in flight at once; may be set between two asks."""
        return self._workers

    @workers.setter
    def workers(self, n: int) -> None:
        self._workers, self._slots = n, threading.BoundedSemaphore(n)

    # --- asking ---

    def key(self, request: Request) -> str:
        """The store's key of a request: a hash of everything that can change the reply, and of nothing else."""
        return self._key(request, {"model": self.model, **self._decoding()})

    @staticmethod
    def _key(request: Request, settings: Mapping[str, Any]) -> str:
        """The key under a judge's settings: the model and `DECODING`."""
        return reply_key(**settings, prompt=encodable(request.prompt), schema=request.schema,
                         max_tokens=request.max_tokens, sample=request.sample,
                         **({"chances": request.top_logprobs} if request.top_logprobs else {}))

    def _decoding(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in DECODING}

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """One reply per request, in order. Identical requests are asked once; each reply is saved as it arrives.

        A request that fails for itself gives Reply(None, reason). Raises JudgeUnavailable when asking on is pointless,
        MissingReplies in replay, StoreError when a reply cannot be saved; what is saved by then stays saved.
        """
        keys = [self.key(r) for r in requests]
        wanted: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            wanted.setdefault(key, request)
        replies = {key: self._reply(record, stored=True) for key, record in self._saved(wanted).items()}
        missing = {key: r for key, r in wanted.items() if key not in replies}
        if missing and self.mode == "replay":
            raise self._missing(missing, hint="" if replies else self._differing(next(iter(missing.values()))))
        if missing:
            try:
                self.endpoint.connect()
            except Failed as error:
                raise JudgeUnavailable(error.fatal) from None
            replies.update(self._ask_all(missing, progress, len(replies)))
        self._account.asked(requests, keys, replies, self._dropped)
        return [replies[key] for key in keys]

    def usage(self) -> dict[str, TaskUsage]:
        """What each task has asked for and cost so far."""
        return self._account.usage()

    @property
    def batch(self) -> int:
        """Answers to lay before it at once: so many that every worker is busy nearly to a stage's end."""
        return max(128, 4 * self.workers)

    def stored(self, keys: Iterable[str]) -> dict[str, Reply]:
        """The replies to these keys that an ask would take from the store, by key; none in mode "refresh"."""
        return {key: self._reply(record, stored=True) for key, record in self._stored(keys).items()}

    def _count_call(self, request: Request, tokens: Mapping[str, Any], seconds: float = 0.0) -> None:
        """Add a live call as its server counted it; one that did not count is charged at the most."""
        counts = tokens["prompt_tokens"], tokens["completion_tokens"], tokens["cached_tokens"]
        if self.prices and not counts[0]:
            counts = *at_most(request), 0
        self._account.reply(request.task, *counts, seconds)

    def _saved(self, wanted: dict[str, Request]) -> dict[str, Record]:
        for key, record in self._unsaved.copy().items():
            self.store.put(record, replace=self.mode == "refresh")
            self._unsaved.pop(key, None)
        return self._stored(wanted)

    def _stored(self, keys: Iterable[str]) -> dict[str, Record]:
        """Saved replies, without those that their server broke off where they can be asked for again."""
        found = {} if self.store is None or self.mode == "refresh" else self.store.get_many(keys)
        return {k: r for k, r in found.items() if self.mode == "replay" or ending(r.finish_reason) != "broken off"}

    def _missing(self, missing: Mapping[str, Request], hint: str) -> MissingReplies:
        if not self.store.read_only:
            self.store.add_pending((key, r.task, r.label, self._body(r)) for key, r in missing.items())
        by_task: dict[str, list[str]] = {}
        for key, request in missing.items():
            by_task.setdefault(request.task, []).append(key)
        return MissingReplies(self.model, by_task, noted=not self.store.read_only, hint=hint)

    def _differing(self, request: Request) -> str:
        """Which single setting keeps a replay from the store's reply to a request; "" when no single one does.

        Keys are hashes, so they are computed again with each value of a setting that the store's records name. Records
        that name none are taken to have the default. The store is searched once for each task.
        """
        if request.task in self._searched:
            return ""
        self._searched.add(request.task)
        mine = {"model": self.model, **self._decoding()}
        values = {(name, value) for settings in self.store.settings(request.task)
                  for name, value in {**DEFAULTS, **settings}.items() if value != mine[name]}
        for name, value in sorted(values, key=str):
            if self.store.get(self._key(request, {**mine, name: value})):
                return f"the store has them with {name} {value!r}, and this judge has {name} {mine[name]!r}"
        return ""

    # --- live ---

    def _ask_all(self, missing: dict[str, Request], progress: str, stored: int) -> dict[str, Reply]:
        """Live replies to distinct requests, brought by worker threads that this thread watches over."""
        todo: queue.SimpleQueue = queue.SimpleQueue()      # (key, request, future) for the workers
        done: queue.SimpleQueue = queue.SimpleQueue()      # (key, future) for this thread
        running: dict[str, float] = {}                     # deadline of each call under way
        mine: dict[str, Future] = {}                       # the others are already being asked by another thread
        replies: dict[str, Reply] = {}
        stop, slots = threading.Event(), self._slots

        def work() -> None:
            while not stop.is_set():
                try:
                    key, request, future = todo.get_nowait()
                except queue.Empty:
                    return
                slots.acquire()
                running[key] = deadline = time.monotonic() + self.timeout
                try:
                    self._finish(key, future, self._live(key, request, deadline, stop), stop)
                except BaseException as error:    # it belongs to the thread that asked, and ends the asking
                    stop.set()
                    self._finish(key, future, error)
                if running.pop(key, None) is None:
                    return                        # given up on: another thread has taken this one's place
                slots.release()

        def hire(n: int) -> None:
            for _ in range(n):                    # daemons: a call that hangs must not keep a program from ending
                threading.Thread(target=work, name="ems-judge", daemon=True).start()

        bar = progress_bar(progress, stored + len(missing), stored)
        try:
            # The longest replies first: a long one that starts last would keep everybody waiting.
            for key, request in sorted(missing.items(), key=lambda item: -item[1].max_tokens):
                with self._lock:
                    if (future := self._inflight.get(key)) is None:
                        future = self._inflight[key] = mine[key] = Future()
                        todo.put((key, request, future))
                future.add_done_callback(lambda f, key=key: done.put((key, f)))
            hire(min(self.workers, len(mine)))
            while len(replies) < len(missing):
                with suppress(queue.Empty):
                    key, future = done.get(timeout=0.5)
                    replies[key] = future.result()
                    bar.update()
                now = time.monotonic()
                for key, deadline in running.copy().items():
                    if now > deadline + 1 and running.pop(key, None):   # it had its time, however slowly it trickles in
                        slots.release()
                        self._finish(key, mine[key], Reply(None, "timeout"), stop)
                        hire(1)
        except BaseException as error:
            stop.set()
            interrupted = isinstance(error, KeyboardInterrupt)
            patience = time.monotonic() + (0.5 if interrupted else 10.0)
            while running and time.monotonic() < patience:     # replies on their way are paid for: let them be saved
                time.sleep(0.02)
            if interrupted:
                raise KeyboardInterrupt(
                    f"stopped with {len(replies)} of {len(missing)} replies of {self.model} received, saved in "
                    f"{self._kept()}; run the same command again to go on") from None
            if isinstance(error, StoreError) and self._unsaved:
                lost = (f"{error}. {len(self._unsaved)} replies were received but not saved: the next ask of this "
                        "judge saves them first; when the program ends they are lost")
                raise StoreError(lost, error.record) from None
            raise
        finally:
            bar.close()
            for key, future in mine.items():
                self._finish(key, future, Reply(None, "interrupted"))
        return replies

    def _finish(self, key: str, future: Future, outcome: Reply | BaseException, stop: threading.Event | None = None) -> None:
        """Hand an outcome to everyone who waits for it; the first one counts.

        Replies that fail one after the other, for whatever reason that is not their own, end the asking: `stop`.
        """
        with self._lock:
            if future.done():
                return
            self._inflight.pop(key, None)
            if stop is not None and isinstance(outcome, Reply) and not outcome.stored and outcome.error != "interrupted":
                self._strikes = self._strikes + 1 if _strike(outcome) else 0
                if outcome.message:
                    self.complaints[outcome.error] = outcome.message
                if self._strikes >= STRIKES:
                    stop.set()
                    words = f": {outcome.message}" if outcome.message else ""
                    outcome = self._unavailable(f"{STRIKES} calls in a row failed, the last with {outcome.error!r}{words}")
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _live(self, key: str, request: Request, deadline: float, stop: threading.Event) -> Reply:
        """Ask until there is a reply, the retries or the time run out, or the endpoint proves unusable."""
        if record := self._stored([key]).get(key):
            return self._reply(record, stored=True)        # another process was faster
        endpoint, tries = self.endpoint, 0
        while not stop.is_set():
            with self._within_limit(request, stop):
                body = self._body(request)
                self._account.call(request.task)
                started = time.monotonic()
                try:
                    choice = endpoint.post(body, deadline - started)
                except Failed as error:
                    failed = error
                    if any(failed.tokens.values()):        # paid for, of no use as it is
                        self._count_call(request, failed.tokens)
                    if failed.complaint and endpoint.learn(failed.complaint, body):
                        continue
                else:
                    endpoint.learned.alive = True
                    return self._save(key, request, body, choice, time.monotonic() - started)
            patience = self.retries if endpoint.learned.alive else min(self.retries, 2)
            if failed.fatal or (failed.reason == "unreachable" and tries >= patience):
                raise self._unavailable(failed.fatal or "cannot be reached; check the address and that the server runs"
                                        + (f" ({failed.message})" if failed.message else ""))
            if failed.after:       # a wait that the server names is no failure; not all workers are to return at once
                wait = failed.after + random.uniform(0.0, max(1.0, failed.after / 2))
            else:
                wait = random.uniform(0.5, 1.0) * min(2.0**tries, 30.0)
            used_up = tries == self.retries and not failed.after
            if not failed.again or used_up or time.monotonic() + wait >= deadline:
                return Reply(None, failed.reason, message=failed.message)
            stop.wait(wait)
            tries += not failed.after
        return Reply(None, "interrupted")

    @contextmanager
    def _within_limit(self, request: Request, stop: threading.Event) -> Iterator[None]:
        """Let a call pass that stays within the spend limit at its largest, once others have settled if need be."""
        if self.spend_limit is None:
            yield
            return
        if {"max_tokens", "max_completion_tokens"} <= self.endpoint.learned.dropped:
            raise SpendLimit(f"{self.model} at {self.endpoint.where} takes no limit on a reply's length, so that no spend "
                             "limit can be kept; ask without one (spend_limit 0), or another endpoint")
        most = self.prices.cost(*at_most(request))
        with self._settled:
            while (spent := self._account.spent) + sum(self._held.values()) + most > self.spend_limit:
                if not self._held or stop.is_set():
                    calls = self._account.calls
                    raise SpendLimit(f"spend limit of {self.spend_limit:g} reached: {spent:.6g} spent in {calls} calls "
                                     f"of {self.model}, the next may cost {most:.2g}; what came is saved in "
                                     f"{self._kept()}: raise the limit and run the same command again to go on")
                self._settled.wait(0.5)
            self._held[call := object()] = most        # not by key: one given up on may be asked again meanwhile
        try:
            yield
        finally:
            with self._settled:
                del self._held[call]
                self._settled.notify_all()

    def _kept(self) -> str:
        return str(self.store.path) if self.store is not None and self.store.path else "memory only"

    def _body(self, request: Request) -> dict[str, Any]:
        """The chat completion to send."""
        return self.endpoint.body(request.prompt, max_tokens=request.max_tokens, schema=request.schema,
                                  chances=request.top_logprobs, temperature=self.temperature, top_p=self.top_p,
                                  seed=None if self.seed is None else self.seed + request.sample)

    def _save(self, key: str, request: Request, body: dict, choice: dict, seconds: float) -> Reply:
        sent = {"format": body.get("response_format", {}).get("type", "text"), **self._decoding(),
                "dropped": sorted(self.endpoint.learned.dropped - body.keys()), "chances": choice.pop("chances", None)}
        record = Record(key=key, task=request.task, model=self.model, label=request.label, seconds=round(seconds, 3),
                        prompt=request.prompt, date=utc(), sent={k: v for k, v in sent.items() if v not in (None, [], {})}, **choice)
        self._count_call(request, choice, record.seconds)
        if self.store is not None:
            try:
                record = self.store.put(record, replace=self.mode == "refresh")
            except StoreError:
                self._unsaved[key] = record
                raise
        return self._reply(record)

    def _reply(self, record: Record, *, stored: bool = False) -> Reply:
        """A saved record as a reply: a cut-off or declining text is kept in the store but is no answer."""
        error = ending(record.finish_reason)
        return Reply(None if error else record.text, error, record, stored)

    def _dropped(self, reply: Reply) -> list[str]:
        """Settings of this judge that the server of a reply did not take."""
        refused = reply.record.sent.get("dropped", ()) if reply.record else ()
        return [name for name in DECODING if name in refused and getattr(self, name) is not None]

    def _unavailable(self, why: str) -> JudgeUnavailable:
        return JudgeUnavailable(f"{self.model} at {self.endpoint.where}: {why}. Replies received so far are kept")


def _strike(reply: Reply) -> bool:
    """Whether a failure speaks against the endpoint; one that is about the request's own size does not."""
    own = reply.error == "http 413" or (reply.error in ("http 400", "http 422") and ABOUT_VALUE.search(reply.message))
    return reply.error not in ("", *FINAL) and not own
