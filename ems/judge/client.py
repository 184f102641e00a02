"""LLMJudge asks an OpenAI-compatible endpoint, or replays saved replies.

The way of one request, from top to bottom of the class:

    ask          makes its key, looks into the store, and starts an event loop in a thread
    _replies     `workers` coroutines take one request after the other
    _reply       repeats a call until there is a reply or the request has failed
    _turn        waits until pace, store and spend limit allow a call
    _call        sends it (endpoint.py), saves the reply, and tells the pace whether it can be used
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io import FilePath
from ..terminal import did_you_mean, notify, progress_bar
from ..types import InputError, Signed
from . import MissingReplies, Record, Request, pace
from .cost import Prices, Spending, Usage
from .endpoint import Endpoint, ParameterRefused
from .pace import Failed, JudgeUnavailable, Pace
from .store import Replies

if TYPE_CHECKING:
    import openai

MODES = ("replay", "live", "plan")
LOWER_LIMITS = {"workers": 1, "timeout": 0.001}  # other numbers are 0 or more


class LLMJudge(Signed):
    """A model behind an OpenAI-compatible endpoint, with a store of its replies.

    Several threads may ask at once; together they keep to `workers` and to `spend_limit`.

    mode       "live" asks for what the store lacks; "replay" never touches the network; "plan" is
               a dry run: it asks nothing, assumes the longest replies, and counts calls and tokens.
    base_url   and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY.
    workers    calls under way at most.
    timeout    seconds from a request's first call on; after them no call is repeated or waited for.
    thinking_tokens   added to the limit of each reply, for a model that thinks before it answers.
    weights    revision of the model's weights, if known; a part of a reply's key, as decoding is.
    prices     money for a million tokens: {"prompt": 2.5, "cached": 1.25, "completion": 10}.
    spend_limit   money, 0 for no limit: no call goes out that may exceed it, with those under way.
    sample     number of the repetition: sample 1 asks all again, with a seed that is 1 higher.
    """

    def __init__(
        self,
        model: str,
        *,
        store: Replies | FilePath | None = None,
        mode: str = "live",
        base_url: str | None = None,
        api_key: str | None = None,
        workers: int = 32,
        timeout: float = 600.0,
        temperature: float | None = 0.0,
        top_p: float | None = None,
        seed: int | None = 7,
        thinking_tokens: int = 0,
        weights: str | None = None,
        prices: Prices | None = None,
        spend_limit: float | None = None,
        sample: int = 0,
    ):
        check_settings(
            mode,
            workers=workers,
            timeout=timeout,
            sample=sample,
            thinking_tokens=thinking_tokens,
            spend_limit=spend_limit or 0,
        )
        self.name = self.model = model
        self.store = store if isinstance(store, Replies) else Replies(store)
        self.mode = mode
        self.workers = workers
        self.timeout = timeout
        self.thinking_tokens = thinking_tokens
        self.sample = sample
        self.decoding: dict[str, Any] = {
            "temperature": None if temperature is None else float(temperature),
            "top_p": None if top_p is None else float(top_p),
            "seed": seed,
            "weights": weights,
        }
        self.endpoint = Endpoint(model, base_url, api_key, self.decoding, sample)
        self.spending = Spending(prices, spend_limit)
        self._pace = Pace(workers, timeout)
        self._lock = threading.Lock()  # of the pace and of what follows
        self._saved = 0  # live replies
        self._keys: set[str] = set()  # of the calls under way
        self._asking = 0  # how many `asking` blocks are open
        self._stop = threading.Event()  # set while all of them have to end
        self._errors: list[Exception] = []  # why

    @classmethod
    def of(cls, settings: Mapping[str, Any], folder: Path, root: Path) -> LLMJudge | None:
        """The judge of a profile's JUDGE mapping; None when it names no model.

        Its store is `folder`/replies.sqlite unless named; `recorded` and `store` are relative to
        `root`. InputError for an unknown name, a value of another kind, and a key given by value.
        """
        names = {*inspect.signature(cls).parameters, "recorded", "key_env"} - {"api_key"}
        for name in settings:
            if name not in names:
                raise InputError(
                    f"JUDGE has no {name!r}{did_you_mean(name, names)}. A key is never given: "
                    "key_env names its variable"
                )
        arguments: dict[str, Any] = {"mode": "replay"}
        for name, value in settings.items():
            if value not in ("", [], {}):
                arguments[name] = value
        if "model" not in arguments:
            return None
        variable = str(arguments.pop("key_env", ""))
        key = key_in(variable, arguments["model"], arguments["mode"])
        path = folder / "replies.sqlite"
        if "store" in arguments:
            path = root / arguments.pop("store")
        leaves_no_file = arguments["mode"] == "plan" and not path.exists()
        recorded = [root / file for file in arguments.pop("recorded", ())]
        store = Replies(None if leaves_no_file else path, recorded)
        return cls(**arguments, store=store, api_key=key)

    @property
    def signature(self) -> dict[str, str]:
        """The model and all settings that can change its replies, as asked for."""
        settings = {
            "judge": self.model,
            **self.decoding,
            "thinking_tokens": self.thinking_tokens or None,
            "sample": self.sample or None,
        }
        return {name: str(value) for name, value in settings.items() if value is not None}

    def usage(self) -> dict[str, Usage]:
        """What each task has asked for and cost so far."""
        return self.spending.by_task()

    def key(self, request: Request) -> str:
        """The store's key of a request: a hash of what can change the reply, and nothing else."""
        settings = {
            "model": self.model,
            **self.decoding,
            "prompt": request.prompt,
            "schema": request.schema,  # its fields stay as they are: their order can change a reply
            "max_tokens": request.max_tokens + self.thinking_tokens,
            "sample": self.sample,
        }
        text = json.dumps(dict(sorted(settings.items())), allow_nan=False)
        return sha256(text.encode()).hexdigest()

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        """One reply per request, in order; each is saved as it comes. Equal ones are asked once.

        A request that fails for itself gives a record with a `failure`. JudgeUnavailable when
        asking on is pointless, MissingReplies in replay, InputError when replies cannot be saved.
        """
        keys = [self.key(request) for request in requests]
        records = self.store.get(keys)
        stored = set(records)
        if self.mode == "live":
            hosts = {record.sent.get("host") for record in records.values()}
            for host in hosts - self.endpoint.known_hosts:
                self.endpoint.known_hosts.add(host)
                notify(
                    f"ems: replies in {self.store.path or 'memory'} came from {host}, not from "
                    f"{self.endpoint.host}, and are used; --store FILE keeps them apart"
                )
        missing = {}
        for key, request in zip(keys, requests, strict=True):
            if key not in stored:
                max_tokens = request.max_tokens + self.thinking_tokens
                missing[key] = replace(request, max_tokens=max_tokens)
        if self.mode == "plan":
            records |= self._planned(missing)
        elif missing and self.mode == "replay":
            self._refuse(missing)
        elif missing:
            self._pace.last_end = time.monotonic()
            bar = progress_bar(progress, len(records) + len(missing))
            # The loop has a thread, since notebooks run one.
            with self.asking() as stop, ThreadPoolExecutor(1) as thread, bar:
                loop = thread.submit(asyncio.run, self._replies(missing, records, bar))
                try:
                    loop.result()
                except KeyboardInterrupt:
                    stop.set()
                    raise
        for key, request in zip(keys, requests, strict=True):
            error = records[key].error
            failures = Counter([error] if error else [])
            self.spending.add(request, requests=1, stored=key in stored, failures=failures)
        return [records[key] for key in keys]

    def _planned(self, missing: Mapping[str, Request]) -> dict[str, Record]:
        """Count what requests would use at most; returns the longest reply to each."""
        records = {}
        for key, request in missing.items():
            self.spending.plan(key, request)
            records[key] = Record(key, request.task, self.model, request.assumed())
        return records

    def _refuse(self, missing: Mapping[str, Request]) -> None:
        """Note requests as waiting for a reply, and raise MissingReplies."""
        self.store.add_pending(
            (key, request.task, request.label, self.endpoint.body(request))
            for key, request in missing.items()
        )
        raise MissingReplies({(self.model, request.task, key) for key, request in missing.items()})

    @contextmanager
    def asking(self) -> Iterator[threading.Event]:
        """A block in which threads ask together: an error or Ctrl-C in one of them stops all.

        To end it from outside, set the event that it gives: each `ask` then raises
        JudgeUnavailable, until the last thread has left. After Ctrl-C, KeyboardInterrupt says what
        is saved.
        """
        with self._lock:
            if not self._asking:
                self._stop.clear()
                self._errors = []
            self._asking += 1
        try:
            yield self._stop
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"stopped; {self._saved_so_far()}; run it again to go on"
            ) from None
        finally:
            with self._lock:
                self._asking -= 1

    def _saved_so_far(self) -> str:
        return f"{self._saved} replies that came are saved in {self.store.path or 'memory'}"

    async def _replies(
        self, missing: Mapping[str, Request], records: dict[str, Record], bar: Any
    ) -> None:
        """Ask until all replies have come, or an error or somebody ends it."""
        where = f"{self.model} at {self.endpoint.where}"
        queue = iter(missing.items())

        async def work() -> None:
            try:
                for key, request in queue:
                    records[key] = await self._reply(client, key, request)
            except Exception as error:
                self._errors.append(error)
                self._stop.set()

        async with self.endpoint.client() as client:
            workers = [asyncio.create_task(work()) for _ in range(min(self.workers, len(missing)))]
            while not self._stop.is_set() and not all(worker.done() for worker in workers):
                await asyncio.wait(workers, timeout=0.1)
                bar.update(len(records) - bar.n)
                if time.monotonic() - self._pace.last_end > pace.SILENCE:
                    self._pace.last_end = time.monotonic()
                    notify(
                        f"{where}: no answer for {pace.SILENCE:g} s, {self._pace.under_way} calls "
                        f"under way, the last error: {self._pace.last_failure or 'none'}"
                    )
            # The calls under way are paid for: they have some time to end.
            await asyncio.wait(workers, timeout=10.0 if self._errors else 0.5)
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)
        if self._stop.is_set():
            error = self._errors[0] if self._errors else JudgeUnavailable("stopped")
            if isinstance(error, JudgeUnavailable):
                error = JudgeUnavailable(f"{where}: {error}; {self._saved_so_far()}")
            raise error

    async def _reply(self, client: openai.AsyncOpenAI, key: str, request: Request) -> Record:
        """The reply to a request, or a record with a failure. InputError when the run must end."""
        deadline = math.inf
        repeats = 0
        while True:
            try:
                async with self._turn(key, request):
                    if saved := self.store.get([key]):
                        return saved[key]  # another thread or process was faster
                    now = asyncio.get_running_loop().time()
                    deadline = min(deadline, now + self.timeout)
                    async with asyncio.timeout_at(deadline):
                        return await self._call(client, key, request)
            except Failed as error:
                failure = error
            except TimeoutError:
                failure = Failed("timeout", worth_repeating=False)
            with self._lock:
                again = self._pace.failed(failure, key)
            if not again or repeats == pace.ERROR_LIMIT:
                return Record(key, request.task, self.model, "", failure=failure.reason)
            # A random part, so that calls that failed together do not come back together.
            pause = random.uniform(1.0, 2.0) * pace.FIRST_WAIT * 2**repeats
            await asyncio.sleep(failure.retry_after + pause)
            # A wait that the server asks for does not count.
            if not failure.retry_after:
                repeats += 1

    @asynccontextmanager
    async def _turn(self, key: str, request: Request) -> AsyncIterator[None]:
        """Wait until a call may go out. It is under way, and its money reserved, in the block.

        A request that another thread has under way is waited for. InputError ends the run.
        """
        while True:
            with self._lock:
                if self._stop.is_set():
                    raise asyncio.CancelledError
                if key not in self._keys and self._pace.may_start():
                    self.store.check_writable()
                    most = self.spending.reserve(request)
                    if most is not None:
                        self._pace.under_way += 1
                        self._keys.add(key)
                        break
            await asyncio.sleep(0.02)
        try:
            yield
        finally:
            with self._lock:
                self._pace.under_way -= 1
                self._pace.last_end = time.monotonic()
                self._keys.remove(key)
                self.spending.reserved.remove(most)

    async def _call(self, client: openai.AsyncOpenAI, key: str, request: Request) -> Record:
        """One call and its reply, which is saved.

        Failed when it brings none; JudgeUnavailable after too many that cannot be used.
        """
        body = self.endpoint.body(request)
        self.spending.add(request, calls=1)
        started = time.monotonic()
        try:
            fields = await self.endpoint.post(client, body)
        except ParameterRefused:
            return await self._call(client, key, request)  # at once, without that parameter
        reply = Record(
            key,
            request.task,
            self.model,
            **fields,
            seconds=round(time.monotonic() - started, 3),
            sent={name: body[name] for name in body if name not in ("model", "messages")}
            | {"host": self.endpoint.host},
            label=request.label,
            prompt=request.prompt,
        )
        self.spending.add(request, reply)
        if reply.failure:
            raise Failed(reply.failure, reply.text)
        record = self.store.put(reply)
        unusable = record.error
        if not unusable and request.read(record.text) is None:
            unusable = "unreadable"
        with self._lock:
            self._saved += 1
            self._pace.replied(unusable, record.text)
        return record


# --- settings, and how a profile names them ---


def check_settings(mode: str, **numbers: float) -> None:
    """InputError for a mode that is none of MODES, or a number that is none or too small."""
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    for name, value in numbers.items():
        least = LOWER_LIMITS.get(name, 0)
        if not (isinstance(value, (int, float)) and value >= least):
            raise InputError(f"{name} must be a number, at least {least}, got {value!r}")


def key_in(variable: str, model: str, mode: str) -> str:
    """The key in an environment variable: "none" is itself a key, and "" names no variable.

    InputError for another name, and for a live judge whose variable is empty: the key of another
    service must not be sent to its address instead.
    """
    if variable == "none":
        return variable
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|", variable):
        raise InputError("JUDGE.key_env must name an environment variable, such as MISTRAL_API_KEY")
    key = os.environ.get(variable, "").strip()
    if variable and not key and mode == "live":
        raise InputError(f"no key in {variable} for {model}; set that environment variable")
    return key
