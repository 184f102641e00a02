"""A judge for real: LLMJudge asks an OpenAI-compatible endpoint, or replays saved replies.

`ask` looks into the store. What is missing goes to `_ask_live`, where at most `workers` coroutines take one
request after the other: `_reply` waits for its turn, `_call` sends it, `_received` saves the reply.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal import did_you_mean, notify, progress_bar
from ..types import InputError
from . import MissingReplies, Record, Request, encodable, read_choice, read_usage
from .cost import Prices, Usage, at_most, checked_prices, money
from .store import Replies, reply_key, utc

if TYPE_CHECKING:
    import openai

MODES = ("replay", "live", "plan")
SETTINGS = (
    "model",
    "mode",
    "recorded",
    "store",
    "base_url",
    "key_env",
    "weights",
    "temperature",
    "top_p",
    "seed",
    "workers",
    "timeout",
    "thinking_tokens",
    "sample",
    "prices",
    "spend_limit",
)
# Parameters that not all servers take, and how a server's complaint names them.
OPTIONAL = {
    "response_format": r"(?i)response.?format|json.?(mode|object)|schema|grammar|guided|structured",
    "seed": r"\bseed\b",
    "top_p": r"\btop_p\b",
    "temperature": r"\btemperature\b",
    "max_tokens": r"\bmax_tokens\b",
}
ABOUT_VALUE = re.compile(
    r"too (large|long|many)|exceed|maximum|at (most|least)|between|(greater|less) than"
)
ABOUT_LENGTH = re.compile(
    r"context.?(length|window|size)|(prompt|input).{0,60}(too l|exceed)", re.I
)
TOO_LONG = "too long for the judge"
WAIT = 0.5  # seconds before a call is repeated; the second time twice as long, and so on
ERRORS = 6  # in a row, of as many requests, end a run; and repeated calls for one request
USELESS = 32  # replies in a row that cannot be used, which end a run
QUIET = 10.0  # seconds without any answer, after which a person is told
LEAST_KEY = 16  # a shorter key is no secret but a word such as "none", which replies may hold


class JudgeUnavailable(InputError):
    """A run has to end: the endpoint cannot be used, or the spend limit is reached. What is saved stays."""


@dataclass(eq=False)
class Failed(Exception):
    """A call that brought no reply."""

    reason: str  # becomes Record.failure
    message: str = ""  # the server's words, or the cause
    again: bool = True  # worth another try
    after: float = 0.0  # seconds that the server asks to wait before that

    def __str__(self) -> str:
        return f"{self.reason!r}: {' '.join(self.message.split())[:200]}".removesuffix(": ")


class Pace:
    """When a call may go out, and when a run has to end (JudgeUnavailable); for all threads of a judge.

    While replies come, at most `window` calls are under way: 32 at first, one more for twenty replies, up to
    `workers`; a fifth fewer when the server is busy. From an error on until a reply comes, one call goes out
    at a time, after waits that double.
    """

    def __init__(self, workers: int):
        self.workers, self.window = workers, float(min(32, workers))
        self.under_way = 0
        self.ever = False  # a reply has come from this endpoint
        self.failing: set[str] = set()  # keys of requests that failed since the last reply
        self.useless: Counter[str] = Counter()  # replies in a row that cannot be used, by reason
        self.shrunk = -math.inf  # when the window was made smaller
        self.last: Failed | None = None
        self.errors = 0  # since the last reply; of calls sent together one
        self.not_before = 0.0  # no call goes out before this time
        self.moved = time.monotonic()  # when a call ended, whichever way

    def may_start(self) -> bool:
        room = 1 if self.errors else self.window
        if self.useless:
            room = min(
                room, max(1, USELESS - self.useless.total())
            )  # those under way may be useless, too
        return time.monotonic() >= self.not_before and self.under_way < room

    def reply(self, unusable: str) -> None:
        """A reply has come; `unusable` says why it cannot be used."""
        self.ever, self.errors, self.not_before = True, 0, 0.0
        self.failing.clear()
        self.window = min(self.workers, self.window + 0.05)
        if unusable:
            self._useless(unusable)
        else:
            self.useless.clear()

    def failed(self, failed: Failed, key: str) -> bool:
        """A call has failed; whether its request is worth another."""
        if not failed.again:
            if failed.reason != TOO_LONG:
                self._useless(str(failed))
            return False
        now = time.monotonic()
        self.last = failed
        self.failing.add(key)
        if re.match("http (429|5)", failed.reason) and now - self.shrunk > 15:
            self.shrunk, self.window = now, max(1.0, self.window * 0.8)
        if now < self.not_before:
            return True  # of a call sent before
        self.not_before = now + max(failed.after, WAIT * 2 ** min(self.errors, ERRORS))
        self.errors += 1
        if self.under_way or self.errors < (
            ERRORS if self.ever or failed.reason != "unreachable" else 3
        ):
            return True
        self.not_before = 0.0
        if not self.ever or len(self.failing) >= ERRORS:
            raise JudgeUnavailable(f"nothing but errors, the last {failed}")
        return False

    def _useless(self, reason: str) -> None:
        self.useless[reason] += 1
        total = self.useless.total()
        if total < USELESS and self.useless["'timeout'"] < 2 * self.workers:
            return
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.useless.most_common(3))
        hint = "; a model that thinks first needs thinking_tokens" if self.useless["length"] else ""
        raise JudgeUnavailable(f"{total} replies in a row cannot be used ({reasons}){hint}")


class LLMJudge:
    """A model behind an OpenAI-compatible endpoint, with a store of its replies.

    mode       "live" asks for what the store lacks; "replay" never touches the network; "plan" asks nothing:
               a dry run, which assumes the longest replies and counts calls and tokens at most.
    base_url   and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY. An address needs no key.
    workers    calls under way at most, over all threads that use this judge.
    timeout    seconds from a request's first call on; past it no call is repeated and none waited for.
    thinking_tokens   added to the limit of each reply, for a model that thinks before it answers.
    weights    revision of the model's weights, if declared; a part of a reply's key, like the decoding.
    prices     money for a million tokens: {"prompt": 2.5, "cached": 1.25, "completion": 10}.
    spend_limit   money, 0 = no limit: no call is sent that may exceed it, with all calls under way.
    sample     is added to that of each request: a judge with sample 1 asks all again, with another seed.
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
        if mode not in MODES:
            raise InputError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
        numbers = (
            ("workers", workers, 1),
            ("timeout", timeout, 0.001),
            ("sample", sample, 0),
            ("thinking_tokens", thinking_tokens, 0),
            ("spend_limit", spend_limit or 0, 0),
        )
        for name, value, least in numbers:
            if not (isinstance(value, (int, float)) and value >= least):
                raise InputError(f"{name} must be a number, at least {least}, got {value!r}")
        if spend_limit and not prices:
            raise InputError("a spend limit needs prices: give them as well")
        self.name = self.model = model
        self.store, self.mode = Replies() if store is None else store, mode
        self.workers, self.timeout = workers, timeout
        self.thinking_tokens, self.sample = thinking_tokens, sample
        self.prices, self.spend_limit = checked_prices(prices), spend_limit
        self.decoding: dict[str, Any] = {
            "temperature": None if temperature is None else float(temperature),
            "top_p": None if top_p is None else float(top_p),
            "seed": seed,
            "weights": weights,
        }
        self._base_url = (
            base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        )
        self.where = re.sub(r"//[^/@]*@", "//", self._base_url).partition("?")[
            0
        ]  # to show: no secrets
        if not re.fullmatch(r"https?://([^/@]*@)?[\w.:\[\]-]+(/\S*)?", self._base_url):
            raise InputError(
                f"base_url is an address such as http://localhost:8000/v1, got {self.where!r}"
            )
        # A function, so that printing this object's attributes does not show the key.
        self._secret = lambda: (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        self._lock = threading.RLock()  # of all that follows
        self._usage: dict[str, Usage] = {}
        self._pace = Pace(workers)
        self._held: list[float] = []  # money that each call under way may cost at most
        self._counted: set[str] = set()  # keys that a dry run has met
        self._saved = 0  # live replies
        self._refused: set[str] = set()  # parameters, by the server
        self._asking = 0  # how often `asking` is entered now
        self._stop = threading.Event()  # set: all asking ends, in every thread
        self._errors: list[Exception] = []  # why

    @classmethod
    def of(cls, settings: Mapping[str, Any], folder: Path, root: Path) -> LLMJudge | None:
        """The judge of a profile's JUDGE mapping; None when it names no model.

        Its store is `folder`/replies.sqlite unless named; `recorded` and `store` are relative to `root`.
        InputError for an unknown name, a value of another kind, and a key given by value.
        """
        if unknown := [name for name in settings if name not in SETTINGS]:
            raise InputError(
                f"JUDGE has no {unknown[0]!r}{did_you_mean(unknown[0], SETTINGS)}. A key is never "
                "given: key_env names its variable"
            )
        given = {
            "mode": "replay",
            **{name: v for name, v in settings.items() if v not in ("", [], {})},
        }
        if "model" not in given:
            return None
        key_env = str(given.pop("key_env", ""))
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|none|", key_env):
            raise InputError(
                "JUDGE.key_env must name an environment variable, such as MISTRAL_API_KEY"
            )
        key = key_env if key_env == "none" else os.environ.get(key_env, "").strip()
        if key_env and not key and given["mode"] == "live":
            # Another service's key must not be sent to this address instead.
            raise InputError(
                f"no key in {key_env} for {given['model']}; set that environment variable"
            )
        path = root / given.pop("store") if "store" in given else folder / "replies.sqlite"
        store = Replies(
            None if given["mode"] == "plan" and not path.exists() else path,
            recorded=[root / file for file in given.pop("recorded", ())],
        )
        return cls(**given, store=store, api_key=key)

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
        with self._lock:
            return deepcopy(self._usage)

    def key(self, request: Request) -> str:
        """The store's key of a request: a hash of all that can change the reply, and of nothing else."""
        request = self._granted(request)
        return reply_key(
            model=self.model,
            **self.decoding,
            prompt=encodable(request.prompt),
            schema=request.schema,
            max_tokens=request.max_tokens,
            sample=request.sample,
        )

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        """One reply per request, in order. Equal ones are asked once, and each reply is saved as it comes.

        A request that fails for itself gives a record with a `failure`. JudgeUnavailable when asking on is
        pointless, MissingReplies in replay, InputError when replies cannot be saved.
        """
        keys = [self.key(request) for request in requests]
        wanted = dict(zip(keys, map(self._granted, requests), strict=True))
        records = self.store.get_many(wanted)
        stored = set(records)
        missing = {key: request for key, request in wanted.items() if key not in records}
        if self.mode == "plan":
            records.update({key: self._assumed(key, request) for key, request in missing.items()})
        elif missing and self.mode == "live":
            self._ask_live(missing, records, progress)
        elif missing:
            self.store.add_pending(
                (key, r.task, r.label, self._body(r)) for key, r in missing.items()
            )
            raise MissingReplies(
                {(self.model, request.task, key) for key, request in missing.items()}
            )
        with self._lock:
            for key, request in zip(keys, requests, strict=True):
                used = self._count(request.task, requests=1, stored=key in stored)
                if records[key].error:
                    used.failures[records[key].error] += 1
        return [records[key] for key in keys]

    def _granted(self, request: Request) -> Request:
        """A request as it is sent: with the tokens to think in, and the number of this judge's repetition."""
        return replace(
            request,
            max_tokens=request.max_tokens + self.thinking_tokens,
            sample=request.sample + self.sample,
        )

    def _assumed(self, key: str, request: Request) -> Record:
        """The longest reply that could be read. Each question is counted once: it would be stored then."""
        text = (
            json.dumps({name: [] for name in request.schema["properties"]})
            if request.schema
            else "0"
        )
        with self._lock:
            if key not in self._counted:
                self._counted.add(key)
                prompt, completion = at_most(request)
                self._count(
                    request.task, calls=1, prompt_tokens=prompt, completion_tokens=completion
                )
        return Record(key, request.task, self.model, request.assumed() if request.assumed else text)

    def _count(self, task: str, **counts: float) -> Usage:
        """Add to the usage of a task."""
        with self._lock:
            used = self._usage.setdefault(task, Usage())
            for name, count in counts.items():
                setattr(used, name, getattr(used, name) + count)
            used.cost = money(
                self.prices, used.prompt_tokens, used.completion_tokens, used.cached_tokens
            )
            return used

    # --- live: an event loop in a thread of its own, so that callers, in notebooks too, simply wait ---

    def _ask_live(
        self, missing: Mapping[str, Request], records: dict[str, Record], progress: str
    ) -> None:
        """Add the missing replies to `records`."""
        self.store.add_pending([])  # InputError for a store that takes no write
        self._pace.moved = time.monotonic()
        bar = progress_bar(progress, len(records) + len(missing), "reply")
        with self.asking() as stop, ThreadPoolExecutor(1) as thread, bar:
            asking = thread.submit(asyncio.run, self._ask_all(missing, records, stop, bar))
            try:
                asking.result()
            except JudgeUnavailable as error:
                raise JudgeUnavailable(
                    f"{self.model} at {self.where}: {error}; {self._kept()}"
                ) from None
            except KeyboardInterrupt:
                stop.set()
                wait([asking])  # replies on their way are paid for: let them be saved
                raise

    @contextmanager
    def asking(self) -> Iterator[threading.Event]:
        """While several threads are in here, what ends the asking of one ends that of all.

        Whoever sets the event ends it, too: `ask` then raises JudgeUnavailable. The event holds
        until the last thread has left. An interrupt says what is saved, and how to go on.
        """
        with self._lock:
            if not self._asking:
                self._stop.clear()
                self._errors = []
            self._asking += 1
        try:
            yield self._stop
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped; {self._kept()}; run it again to go on") from None
        finally:
            with self._lock:
                self._asking -= 1

    async def _ask_all(
        self,
        missing: Mapping[str, Request],
        records: dict[str, Record],
        stop: threading.Event,
        bar: Any,
    ) -> None:
        """Ask until all have come, or `stop` is set. An error sets it; calls under way still count."""
        queue, errors, pace = iter(missing.items()), self._errors, self._pace

        async def work() -> None:
            try:
                for key, request in queue:
                    records[key] = await self._reply(client, key, request, stop)
            except Exception as error:
                errors.append(error)
                stop.set()

        async with self._client() as client:
            tasks = [asyncio.create_task(work()) for _ in range(min(self.workers, len(missing)))]
            while not (stop.is_set() or all(task.done() for task in tasks)):
                await asyncio.wait(tasks, timeout=0.1)
                bar.update(len(records) - bar.n)
                if time.monotonic() - pace.moved > QUIET:
                    notify(
                        f"{self.model} at {self.where}: no answer for {QUIET:g} s, {pace.under_way} calls "
                        f"under way, the last error: {pace.last or 'none'}"
                    )
                    pace.moved = time.monotonic()
            await asyncio.wait(tasks, timeout=10.0 if errors else 0.5)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if errors:
            raise errors[0]
        if stop.is_set():
            raise JudgeUnavailable("stopped")

    async def _reply(
        self, client: openai.AsyncOpenAI, key: str, request: Request, stop: threading.Event
    ) -> Record:
        """Ask until there is a reply, or this request has failed. InputError when the run has to end."""
        if saved := self.store.get(key):
            return saved  # another thread or process was faster
        tries, end = 0, math.inf
        while True:
            try:
                async with self._turn(request, stop):
                    end = min(
                        end, asyncio.get_running_loop().time() + self.timeout
                    )  # from the first call
                    async with asyncio.timeout_at(end):
                        return self._received(await self._call(client, key, request), request)
            except Failed as error:
                failed = error
            except TimeoutError:
                failed = Failed("timeout", again=False)
            with self._lock:
                again = self._pace.failed(failed, key)
            if not again or tries == ERRORS:
                return Record(key, request.task, self.model, "", failure=failed.reason)
            # Not all that failed together are to come back together.
            await asyncio.sleep(failed.after + random.uniform(1.0, 2.0) * WAIT * 2**tries)
            tries += not failed.after

    @asynccontextmanager
    async def _turn(self, request: Request, stop: threading.Event) -> AsyncIterator[None]:
        """Wait until a call may go out, and note that it does."""
        most = money(self.prices, *at_most(request)) or 0.0
        while not self._start(most, stop):
            await asyncio.sleep(0.02)
        try:
            yield
        finally:
            with self._lock:
                self._pace.under_way -= 1
                self._pace.moved = time.monotonic()
                self._held.remove(most)

    def _start(self, most: float, stop: threading.Event) -> bool:
        """Whether a call goes out that costs so much at most. InputError if none ever can."""
        with self._lock:
            if stop.is_set():
                raise asyncio.CancelledError
            if not self._pace.may_start():
                return False
            self.store.check_room()
            spent = sum(used.cost or 0.0 for used in self._usage.values())
            if self.spend_limit and spent + sum(self._held) + most > self.spend_limit:
                if self._held:
                    return False  # calls under way may cost less than they might
                raise JudgeUnavailable(
                    f"spend limit of {self.spend_limit:g} reached: {spent:.6g} spent, the "
                    f"next call may cost {most:.2g}"
                )
            self._pace.under_way += 1
            self._held.append(most)
            return True

    async def _call(self, client: openai.AsyncOpenAI, key: str, request: Request) -> Record:
        """One call; another at once where the server's complaint says what to leave out."""
        import openai

        body, started, text = self._body(request), time.monotonic(), ""
        self._count(request.task, calls=1)
        try:
            # A server may repeat the key that it was sent.
            text = self._masked(await client.post("/chat/completions", body=body, cast_to=str))
            answer = json.loads(text)
        except openai.APIStatusError as error:
            failed = self._meaning(error)
            if self._learn(failed, body):
                return await self._call(client, key, request)
            raise failed from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            unreachable = type(cause).__name__ in ("ConnectError", "ConnectTimeout")
            raise Failed("unreachable" if unreachable else "connection", str(cause)) from None
        except (ValueError, RecursionError):
            raise Failed("not JSON" if text.strip() else "empty body", text) from None
        seconds, counts = round(time.monotonic() - started, 3), read_usage(answer)
        if self.prices and not counts["prompt_tokens"]:  # it does not count: charged at the most
            counts["prompt_tokens"], counts["completion_tokens"] = at_most(request)
        self._count(request.task, **counts, seconds=seconds)  # useless answers cost as well
        try:
            choice = read_choice(answer)
        except ValueError as error:
            raise Failed(str(error), text) from None
        choice["text"] = self._masked(choice["text"])  # where JSON had escaped the key
        sent = {name: value for name, value in body.items() if name not in ("model", "messages")}
        return Record(
            key,
            request.task,
            self.model,
            **choice,
            seconds=seconds,
            date=utc(),
            sent=sent,
            label=request.label,
            prompt=request.prompt,
        )

    def _meaning(self, error: openai.APIStatusError) -> Failed:
        """What an HTTP error status means for its request; JudgeUnavailable where it ends the run."""
        status, named = error.status_code, error.response.headers.get("retry-after", "")
        said: Mapping[str, Any] = error.body if isinstance(error.body, dict) else {}
        words = said.get("message") or said.get("detail") or error.body or error.message
        wait_named = f"(Retry-After: {named}) " if named else ""
        words = self._masked(f"{wait_named}{said.get('param') or ''} {words}")
        failed = Failed(f"http {status}", words, again=False)
        if status < 400 or status in (401, 402, 404) or said.get("code") == "insufficient_quota":
            raise JudgeUnavailable(
                f"{failed}; check the address, the key, the account and the model's name"
            )
        if said.get("code") == "content_filter":
            failed.reason = "refusal"
        elif ABOUT_LENGTH.search(failed.message):
            failed.reason = TOO_LONG
        elif status in (408, 409, 429) or status >= 500:
            failed.again, failed.after = (
                True,
                float(named) if re.fullmatch(r"\d+(\.\d+)?", named) else 0.0,
            )
        if failed.after > self.timeout:
            raise JudgeUnavailable(
                f"{failed}; that is longer than the time limit (timeout): come back then"
            )
        return failed

    def _learn(self, failed: Failed, body: Mapping[str, Any]) -> bool:
        """Note what a refused body must do without. False when the complaint is about something else."""
        named = [
            name for name in OPTIONAL if name in body and re.search(OPTIONAL[name], failed.message)
        ]
        if not named or not re.match("http (400|415|422|50[01])", failed.reason):
            return False
        if named[0] != "response_format" and ABOUT_VALUE.search(failed.message):
            return False  # the parameter itself is known
        if named[0] not in self._refused:
            notify(f"{self.model} at {self.where} does not take {named[0]}: asked without it")
        self._refused.add(named[0])
        return True

    def _body(self, request: Request) -> dict[str, Any]:
        """The chat completion to send, without what the endpoint is known to refuse."""
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        body: dict[str, Any] = {**self.decoding, limit: request.max_tokens, "weights": None}
        if self.decoding["seed"] is not None:
            body["seed"] += request.sample
        if request.schema:
            form = {"name": "reply", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        kept = {name: v for name, v in body.items() if v is not None and name not in self._refused}
        messages = [{"role": "user", "content": encodable(request.prompt)}]
        return {"model": self.model, "messages": messages, **kept}

    def _received(self, record: Record, request: Request) -> Record:
        """Save a reply; JudgeUnavailable when it is the last of too many that cannot be used."""
        with self._lock:
            saved = request.answered(self.store.put(record))
            self._saved += 1
            self._pace.reply(saved.error or ("unreadable" if saved.value is None else ""))
        return saved

    def _kept(self) -> str:
        return f"{self._saved} replies that came are saved in {self.store.path or 'memory'}"

    def _masked(self, text: str) -> str:
        secret = self._secret()
        return text.replace(secret, "***") if len(secret) >= LEAST_KEY else text

    def _client(self) -> openai.AsyncOpenAI:
        """The official client. JudgeUnavailable without a key that can be sent."""
        import openai

        key = self._secret()
        needed = "api.openai.com" in self._base_url
        if (needed and not key) or not (key.isascii() and key.isprintable()):
            raise JudgeUnavailable(
                "no key that can be sent: set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server"
            )
        # `_reply` limits the time of the whole. A redirect would take the prompts to another address.
        return openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=openai.Timeout(None, connect=5.0),
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )
