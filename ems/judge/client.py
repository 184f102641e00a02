"""LLMJudge asks an OpenAI-compatible endpoint, or replays saved replies.

The way of one request, from top to bottom of the class:

    ask          makes its key and looks into the store
    _ask_live    starts an event loop in a thread
    _ask_all     `workers` coroutines take one request after the other
    _reply       repeats a call until there is a reply or the request has failed
    _turn        waits until the pace and the money allow a call
    _call        sends it (endpoint.py) and reads the answer
    _save        saves the reply and reads its value, once
"""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal import notify, progress_bar
from . import MissingReplies, Record, Request, encodable, pace
from .cost import Prices, Spending, Usage, money, tokens_at_most
from .endpoint import Endpoint, ParameterRefused, read_answer
from .pace import Failed, JudgeUnavailable, Pace
from .settings import check_mode, check_number, judge_arguments
from .store import Replies, reply_key, utc

if TYPE_CHECKING:
    import openai

__all__ = ["JudgeUnavailable", "LLMJudge", "MissingReplies"]

SILENCE = 10.0  # seconds without the end of a call, after which a person is told


class Stopped(JudgeUnavailable):
    """Somebody has stopped the run."""


@dataclass(eq=False)
class Run:
    """An `ask` that waits for live replies; `error` ends it."""

    error: Exception | None = None


class LLMJudge:
    """A model behind an OpenAI-compatible endpoint, with a store of its replies.

    Several threads may ask at once; together they keep to `workers` and to `spend_limit`.

    mode       "live" asks for what the store lacks; "replay" never touches the network; "plan" is
               a dry run: it asks nothing, assumes the longest replies, and counts calls and tokens.
    base_url   and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY. A local address needs
               no key.
    workers    calls under way at most.
    timeout    seconds from a request's first call on; after them no call is repeated or waited for.
    thinking_tokens   added to the limit of each reply, for a model that thinks before it answers.
    weights    revision of the model's weights, if known; a part of a reply's key, as decoding is.
    prices     money for a million tokens: {"prompt": 2.5, "cached": 1.25, "completion": 10}.
    spend_limit   money, 0 for no limit: no call goes out that may exceed it, when all calls under
               way cost as much as they may.
    sample     is added to that of each request: a judge with sample 1 asks everything again, with
               another seed.
    """

    def __init__(
        self,
        model: str,
        *,
        store: Replies | None = None,
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
        check_mode(mode)
        check_number("workers", workers, least=1)
        check_number("timeout", timeout, least=0.001)
        check_number("sample", sample, least=0)
        check_number("thinking_tokens", thinking_tokens, least=0)
        check_number("spend_limit", spend_limit or 0, least=0)
        self.name = self.model = model
        self.store = Replies() if store is None else store
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
        self.endpoint = Endpoint(model, base_url, api_key, self.decoding)
        self.spending = Spending(prices, spend_limit)
        self._pace = Pace(workers)
        self._lock = threading.Lock()  # of the pace and of what follows
        self._saved = 0  # live replies
        self._planned: set[str] = set()  # keys that a dry run has counted
        self._runs: set[Run] = set()

    @classmethod
    def of(cls, settings: Mapping[str, Any], folder: Path, root: Path) -> LLMJudge | None:
        """The judge of a profile's JUDGE mapping; None when it names no model.

        Its store is `folder`/replies.sqlite unless named; `recorded` and `store` are relative to
        `root`. InputError for an unknown name, a value of another kind, and a key given by value.
        """
        parameters = inspect.signature(cls).parameters
        arguments = judge_arguments(settings, folder, root, parameters)
        return None if arguments is None else cls(**arguments)

    @property
    def where(self) -> str:
        """The address, to show: without what may be secret."""
        return self.endpoint.where

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
        return reply_key(
            model=self.model,
            **self.decoding,
            prompt=encodable(request.prompt),
            schema=request.schema,
            max_tokens=request.max_tokens + self.thinking_tokens,
            sample=request.sample + self.sample,
        )

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        """One reply per request, in order; each is saved as it comes. Equal ones are asked once.

        A request that fails for itself gives a record with a `failure`. JudgeUnavailable when
        asking on is pointless, MissingReplies in replay, InputError when replies cannot be saved.
        """
        keys = [self.key(request) for request in requests]
        records = self.store.get_many(keys)
        stored = set(records)
        missing = {}
        for key, request in zip(keys, requests, strict=True):
            if key not in stored:
                missing[key] = replace(
                    request,
                    max_tokens=request.max_tokens + self.thinking_tokens,
                    sample=request.sample + self.sample,
                )
        if missing and self.mode == "replay":
            self._refuse(missing)
        for key, request in missing.items():
            if self.mode == "plan":
                records[key] = self._assume(key, request)
        if missing and self.mode == "live":
            self._ask_live(missing, records, progress)
        for key, request in zip(keys, requests, strict=True):
            self.spending.add(request.task, requests=1, stored=key in stored)
            if records[key].error:
                self.spending.add_failure(request.task, records[key].error)
        return [records[key] for key in keys]

    def _refuse(self, missing: Mapping[str, Request]) -> None:
        """Note requests as waiting for a reply, and raise MissingReplies."""
        waiting = []
        names = set()
        for key, request in missing.items():
            waiting.append((key, request.task, request.label, self.endpoint.body(request)))
            names.add((self.model, request.task, key))
        self.store.add_pending(waiting)
        raise MissingReplies(names)

    def _assume(self, key: str, request: Request) -> Record:
        """The longest reply that could be read. Each question is counted once."""
        with self._lock:
            is_new = key not in self._planned
            self._planned.add(key)
        if is_new:
            prompt, completion = tokens_at_most(request)
            self.spending.add(
                request.task, calls=1, prompt_tokens=prompt, completion_tokens=completion
            )
        return Record(key, request.task, self.model, request.longest_reply())

    def stop(self) -> None:
        """End every `ask` that waits for live replies, in other threads as well.

        Each raises JudgeUnavailable. Replies that come within half a second are saved.
        """
        self._end_all(Stopped("stopped"))

    def _end_all(self, error: Exception) -> None:
        with self._lock:
            for run in self._runs:
                run.error = run.error or error

    def _ask_live(
        self, missing: Mapping[str, Request], records: dict[str, Record], progress: str
    ) -> None:
        """Add the missing replies to `records`.

        The event loop has a thread of its own, since a notebook runs another in that of its cells.
        """
        self.store.check_writable()
        run = Run()
        with self._lock:
            title = "" if self._runs else progress  # one bar at a time
            self._runs.add(run)
            self._pace.last_end = time.monotonic()
        bar = progress_bar(title, len(records) + len(missing), "reply")
        with ThreadPoolExecutor(1) as thread, bar:
            asking = thread.submit(asyncio.run, self._ask_all(missing, records, run, bar))
            try:
                asking.result()
            except JudgeUnavailable as error:
                raise JudgeUnavailable(
                    f"{self.model} at {self.where}: {error}; {self._saved_so_far()}"
                ) from None
            except KeyboardInterrupt:
                self.stop()
                wait([asking])
                raise KeyboardInterrupt(
                    f"stopped; {self._saved_so_far()}; run it again to go on"
                ) from None
            finally:
                with self._lock:
                    self._runs.remove(run)

    def _saved_so_far(self) -> str:
        return f"{self._saved} replies that came are saved in {self.store.path or 'memory'}"

    async def _ask_all(
        self,
        missing: Mapping[str, Request],
        records: dict[str, Record],
        run: Run,
        bar: Any,
    ) -> None:
        """Ask until all replies have come, or an error ends it."""
        queue = iter(missing.items())

        async def work() -> None:
            try:
                for key, request in queue:
                    records[key] = await self._reply(client, key, request, run)
            except Exception as error:
                self._end_all(error)

        async with self.endpoint.client() as client:
            workers = [asyncio.create_task(work()) for _ in range(min(self.workers, len(missing)))]
            while not run.error and not all(worker.done() for worker in workers):
                await asyncio.wait(workers, timeout=0.1)
                bar.update(len(records) - bar.n)
                self._announce_silence()
            if run.error:
                # Calls under way are paid for. They have some time to end.
                seconds = 0.5 if isinstance(run.error, Stopped) else 10.0
                await asyncio.wait(workers, timeout=seconds)
                for worker in workers:
                    worker.cancel()
                await asyncio.wait(workers)
                raise run.error

    def _announce_silence(self) -> None:
        if time.monotonic() - self._pace.last_end > SILENCE:
            notify(
                f"{self.model} at {self.where}: no answer for {SILENCE:g} s, "
                f"{self._pace.under_way} calls under way, the last error: "
                f"{self._pace.last_failure or 'none'}"
            )
            self._pace.last_end = time.monotonic()

    async def _reply(
        self, client: openai.AsyncOpenAI, key: str, request: Request, run: Run
    ) -> Record:
        """The reply to a request, or a record with a failure. InputError when the run must end."""
        record = self.store.get(key)
        if record:
            return record  # another thread or process was faster
        deadline = None
        repeats = 0
        while True:
            try:
                async with self._turn(request, run):
                    if deadline is None:
                        deadline = asyncio.get_running_loop().time() + self.timeout
                    async with asyncio.timeout_at(deadline):
                        reply = await self._call(client, key, request)
                    return self._save(reply, request)
            except Failed as error:
                failure = error
            except TimeoutError:
                failure = Failed("timeout", worth_repeating=False)
            if failure.retry_after > self.timeout:
                raise JudgeUnavailable(
                    f"{failure}; that is longer than the time limit (timeout): come back then"
                )
            with self._lock:
                again = self._pace.failed(failure, key)
            if not again or repeats == pace.ERROR_LIMIT:
                return Record(key, request.task, self.model, "", failure=failure.reason)
            # A random part, so that calls that failed together do not come back together.
            pause = random.uniform(1.0, 2.0) * pace.FIRST_WAIT * 2**repeats
            await asyncio.sleep(failure.retry_after + pause)
            if (
                not failure.retry_after
            ):  # a wait that the server asks for is not the request's fault
                repeats += 1

    @asynccontextmanager
    async def _turn(self, request: Request, run: Run) -> AsyncIterator[None]:
        """Wait until a call may go out. It is under way, and its money reserved, in the block."""
        most = money(self.spending.prices, *tokens_at_most(request)) or 0.0
        while not self._start(most, run):
            await asyncio.sleep(0.02)
        try:
            yield
        finally:
            with self._lock:
                self._pace.ended()
                self.spending.release(most)

    def _start(self, most: float, run: Run) -> bool:
        """Whether a call that costs so much at most goes out. InputError if none ever can."""
        with self._lock:
            if run.error:
                raise asyncio.CancelledError
            if not self._pace.may_start():
                return False
            self.store.check_room()
            if not self.spending.reserve(most):
                return False
            self._pace.started()
            return True

    async def _call(self, client: openai.AsyncOpenAI, key: str, request: Request) -> Record:
        """One call and its reply; Failed when it brings none."""
        body = self.endpoint.body(request)
        self.spending.add(request.task, calls=1)
        started = time.monotonic()
        try:
            answer = await self.endpoint.post(client, body)
        except ParameterRefused:
            return await self._call(client, key, request)  # at once, without that parameter
        fields = read_answer(answer)
        fields["text"] = self.endpoint.masked(fields["text"])  # where JSON had escaped the key
        reply = Record(
            key=key,
            task=request.task,
            model=self.model,
            **fields,
            seconds=round(time.monotonic() - started, 3),
            date=utc(),
            sent={name: body[name] for name in body if name not in ("model", "messages")},
            label=request.label,
            prompt=request.prompt,
        )
        self.spending.charge(request, reply)
        if reply.failure:
            raise Failed(reply.failure, answer)
        return reply

    def _save(self, reply: Record, request: Request) -> Record:
        """Save a reply and read its value. JudgeUnavailable after too many that cannot be used."""
        record = request.answered(self.store.put(reply))
        unusable = record.error
        if not unusable and record.value is None:
            unusable = "unreadable"
        with self._lock:
            self._saved += 1
            self._pace.replied(unusable)
        return record
