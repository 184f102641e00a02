"""Live calls: many questions under way together on one event loop, repeated where that helps, saved at once.

The loop runs in a thread of its own, so that callers from scripts, threads and notebooks simply wait for it.
All that `Calls` does happens in that thread and needs no lock.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from ..asking import Record, Reply, Request
from .budget import at_most
from .offered import check_offered
from .store import FINAL, StoreError
from .wire import ABOUT_VALUE, Failed, JudgeUnavailable, SpendLimit

if TYPE_CHECKING:
    from .client import LLMJudge

STRIKES = 32             # requests failing one after the other after which an address counts as down
OWN_STRIKES = 96         # the same for requests that are refused for their size, where nothing has ever come
FIRST_CALLS = 32         # calls under way at most until a first reply has come
FIRST_TRIES = 4  # repeated calls, of all requests together, to an address from which nothing has ever come
FIRST_WAITS = 8          # the same, with those for which the server named a time to come back
# Seconds between the starts of two calls, about the processor time that one takes here. Calls that start
# together have replies that come together, and these would wait for one another.
APART = 0.002
GRACE = 10.0             # seconds that replies on their way are waited for when asking has to stop
INTERRUPTED = Reply(None, "interrupted")

_loop: tuple[int, asyncio.AbstractEventLoop] | None = None
_starting = threading.Lock()


def background() -> asyncio.AbstractEventLoop:
    """The event loop of this process, in a daemon thread: a call that hangs does not keep a program alive."""
    global _loop
    with _starting:
        if _loop is None or _loop[0] != os.getpid():       # a forked process has no threads of its parent
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="ems-judge", daemon=True).start()
            _loop = os.getpid(), loop
        return _loop[1]


class Calls:
    """The live calls of one judge, for all asks that are under way."""

    def __init__(self, judge: LLMJudge):
        self.judge = judge
        self.unsaved: dict[str, Record] = {}        # replies that a full disk refused, to be saved later
        self.held: list[float] = []                 # money that each call under way may cost at most
        self._slots: dict[int, asyncio.Semaphore] = {}      # by their number, which may change between asks
        self._settled = asyncio.Condition()
        self._inflight: dict[str, asyncio.Task[Reply]] = {}
        self._strikes = 0
        self._first, self._repeating = asyncio.Semaphore(FIRST_CALLS), asyncio.Lock()
        self._checking = asyncio.Lock()
        self._next_start = 0.0                      # by the loop's clock
        self._tries = self._waits = 0       # repeated calls: without those of a named wait, and all

    async def check_offered(self) -> None:
        """JudgeUnavailable when the endpoint does not offer the model; asked before the first call only."""
        learned = self.judge.endpoint.learned
        async with self._checking:
            if not (learned.alive or learned.offered):
                await check_offered(self)
                learned.offered = True

    # --- one ask ---

    async def ask(self, missing: Mapping[str, Request], replies: dict[str, Reply],
                  stop: asyncio.Event) -> None:
        """Fill `replies`, by key. Questions that another ask has under way are shared with it.

        The first error that is not one request's own ends the asking; replies on their way still count.
        """
        await self.check_offered()
        mine, tasks = [], []
        # The longest replies first: a long one that starts last would keep everybody waiting.
        for key, request in sorted(missing.items(), key=lambda item: -item[1].max_tokens):
            if (task := self._inflight.get(key)) is None:
                task = self._inflight[key] = asyncio.create_task(self._reply(key, request, stop))
                mine.append(task)
            task.add_done_callback(partial(_collect, key=key, replies=replies))
            tasks.append(task)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if error := next((e for task in done if not task.cancelled() and (e := task.exception())), None):
                stop.set()
                if waiting := [task for task in mine if not task.done()]:
                    await asyncio.wait(waiting, timeout=GRACE)
                raise error
        finally:
            for task in mine:
                task.cancel()

    async def _reply(self, key: str, request: Request, stop: asyncio.Event) -> Reply:
        try:
            workers = self.judge.workers
            async with self._slots.setdefault(workers, asyncio.Semaphore(workers)):
                try:
                    # However slowly a reply trickles in.
                    async with asyncio.timeout(self.judge.timeout):
                        reply = await self._live(key, request, stop)
                except TimeoutError:
                    reply = Reply(None, "timeout")
                self._count_strike(reply)
                return reply
        except Exception:
            stop.set()                  # before the next question takes this one's place
            raise
        finally:
            self._inflight.pop(key, None)

    def _count_strike(self, reply: Reply) -> None:
        """Replies that fail one after the other, for a reason that is not their own, end the asking."""
        if reply.stored or reply.error == "interrupted":
            return
        if reply.message:
            self.judge.complaints[reply.error] = reply.message
        of_its_own = reply.error == "http 413" or (
            reply.error in ("http 400", "http 422") and ABOUT_VALUE.search(reply.message))
        if not reply.error or reply.error in FINAL or (of_its_own and self.judge.endpoint.learned.alive):
            self._strikes = 0
            return
        self._strikes += 1
        if self._strikes >= (OWN_STRIKES if of_its_own else STRIKES):
            count, self._strikes = self._strikes, 0
            raise self._unavailable(f"{count} calls in a row failed, the last with "
                                    f"{_told(reply.error, reply.message)}")

    # --- one question ---

    async def _live(self, key: str, request: Request, stop: asyncio.Event) -> Reply:
        """Ask until there is a reply, the retries or the time run out, or the endpoint proves unusable.

        While nothing has ever come from the address, one question at a time repeats its call, and the tries
        of all count together.
        """
        judge, learned, own_tries = self.judge, self.judge.endpoint.learned, 0
        deadline = time.monotonic() + judge.timeout
        async with self._passing(self._first):
            if stop.is_set():
                return INTERRUPTED
            if reply := judge.stored([key]).get(key):
                return reply                        # another process was faster
            outcome = await self._call(key, request, stop)
            while isinstance(outcome, Failed):
                async with self._passing(self._repeating):
                    if stop.is_set():
                        return INTERRUPTED
                    tries = own_tries if learned.alive else self._tries
                    wait, named = _wait(outcome, tries), bool(outcome.after)
                    used_up = tries >= judge.retries and not named
                    over = used_up or not outcome.again or time.monotonic() + wait >= deadline
                    self._check_contact(outcome, over)
                    if over:
                        return Reply(None, outcome.reason, message=outcome.message)
                    own_tries += not named
                    self._tries += not named
                    self._waits += 1
                    with suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), wait)
                    outcome = await self._call(key, request, stop)
            return outcome

    @asynccontextmanager
    async def _passing(self, gate: asyncio.Semaphore | asyncio.Lock) -> AsyncIterator[None]:
        """Pass through a gate, which is open to all once a first reply has come from the address."""
        learned = self.judge.endpoint.learned
        if not learned.alive:
            async with gate:
                if not learned.alive:
                    yield
                    return
        yield

    def _check_contact(self, failed: Failed, over: bool) -> None:
        """JudgeUnavailable when an address cannot be reached, or answers no call, however often repeated."""
        unreachable, alive = failed.reason == "unreachable", self.judge.endpoint.learned.alive
        limit = 2 if unreachable else FIRST_TRIES
        enough = self._waits >= FIRST_WAITS or (self._tries >= limit and not failed.after)
        if (over and unreachable) or (enough and failed.again and not alive):
            self._tries = self._waits = 0
            if not unreachable:
                raise self._unavailable("no reply has ever come from this address; the last call failed with "
                                        f"{_told(failed.reason, failed.message)}")
            cause = f" ({failed.message})" if failed.message else ""
            raise self._unavailable(f"cannot be reached; check the address and that the server runs{cause}")

    async def _call(self, key: str, request: Request, stop: asyncio.Event) -> Reply | Failed:
        """One call, and another at once where the server's complaint says what to leave out."""
        judge = self.judge
        while True:
            await self._turn()
            async with self.within_limit(request, stop):
                body = judge.body(request)
                judge.account.call(request.task)
                started = time.monotonic()
                try:
                    choice = await judge.endpoint.post(body)
                except Failed as failed:
                    if any(failed.tokens.values()):        # paid for, of no use as it is
                        judge.count_call(request, failed.tokens)
                    if failed.fatal:
                        raise self._unavailable(failed.fatal) from None
                    if failed.complaint and judge.endpoint.learn(failed.complaint, body):
                        continue
                    return failed
                judge.endpoint.learned.alive = True
                seconds = round(time.monotonic() - started, 3)
                judge.count_call(request, choice, seconds)
                return judge.reply(self._saved(judge.record(key, request, body, choice, seconds)))

    async def _turn(self) -> None:
        """Wait until a call may start, `APART` after the one before."""
        now = asyncio.get_running_loop().time()
        start = max(now, self._next_start)
        self._next_start = start + APART
        if start > now:
            await asyncio.sleep(start - now)

    @asynccontextmanager
    async def within_limit(self, request: Request, stop: asyncio.Event) -> AsyncIterator[None]:
        """Let a call pass that stays within the spend limit at its largest, waiting for others if need be."""
        judge = self.judge
        if judge.spend_limit is None:
            yield
            return
        if {"max_tokens", "max_completion_tokens"} <= judge.endpoint.learned.dropped:
            raise SpendLimit(f"{judge.model} at {judge.endpoint.where} takes no limit on a reply's length, "
                             "so that no spend limit can be kept; ask without one (spend_limit 0), or "
                             "another endpoint")
        assert judge.prices is not None                # a spend limit needs them
        most = judge.prices.cost(*at_most(request))
        async with self._settled:
            while (spent := judge.account.spent) + sum(self.held) + most > judge.spend_limit:
                if not self.held or stop.is_set():
                    raise SpendLimit(
                        f"spend limit of {judge.spend_limit:g} reached: {spent:.6g} spent in "
                        f"{judge.account.calls} calls of {judge.model}, the next may cost {most:.2g}; what "
                        f"came is saved in {judge.kept}: raise the limit and run the same command again "
                        "to go on")
                await self._settled.wait()
            self.held.append(most)
        try:
            yield
        finally:
            async with self._settled:
                self.held.remove(most)
                self._settled.notify_all()

    # --- saving ---

    def _saved(self, record: Record) -> Record:
        """The record that stays in the store. StoreError when it finds no room there: it is kept here."""
        if self.judge.store is None:
            return record
        try:
            return self.judge.store.put(record, replace=self.judge.mode == "refresh")
        except StoreError:
            self.unsaved[record.key] = record
            raise

    def save_unsaved(self) -> None:
        """Write what a full disk has refused. StoreError while there is no room."""
        for key, record in self.unsaved.copy().items():
            self._saved(record)
            self.unsaved.pop(key, None)

    # --- errors ---

    def _unavailable(self, why: str) -> JudgeUnavailable:
        name = f"{self.judge.model} at {self.judge.endpoint.where}"
        return JudgeUnavailable(f"{name}: {why}. Replies received so far are kept")


def _collect(task: asyncio.Task[Reply], key: str, replies: dict[str, Reply]) -> None:
    """Note how a question ended; an error is for the ask to raise."""
    if task.cancelled():
        replies[key] = INTERRUPTED
    elif task.exception() is None:
        replies[key] = task.result()


def _wait(failed: Failed, tries: int) -> float:
    """Seconds before the next call. Not all workers are to come back at once, hence the chance in it."""
    if failed.after:
        return failed.after + random.uniform(0.0, max(1.0, failed.after / 2))
    return random.uniform(0.5, 1.0) * min(2.0**tries, 30.0)


def _told(reason: str, message: str) -> str:
    return f"{reason!r}{f': {message}' if message else ''}"
