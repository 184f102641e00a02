"""One model at one address, in the HTTP dialect of OpenAI-compatible servers, as sent and as read."""

from __future__ import annotations

import email.utils
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from weakref import finalize

from ..types import InputError
from .store import BrokenOff, encodable, read_chances, read_choice, read_usage

FORMATS = ("json_schema", "json_object", "text")      # what to ask for, the strictest first
# What a server may refuse.
OPTIONAL = ("seed", "top_p", "temperature", "max_completion_tokens", "max_tokens", "logprobs", "top_logprobs")
ABOUT_FORMAT = re.compile(r"response.?format|json.?(mode|object)|schema|grammar|guided|structured",
                          re.IGNORECASE)
# A complaint about the value of a parameter, or about a prompt's length: the parameter itself is known.
ABOUT_VALUE = re.compile(
    r"\b(context (length|window|size)|too (large|long|many)|exceed(s|ed|ing)?|maximum|at (most|least)|"
    r"between|(greater|less) than)\b", re.IGNORECASE)
CONNECTIONS = 8          # of one client at most: it looks through all of them at the start and end of a call
CONNECT = 5.0            # seconds to make a connection
SHOWN = 200              # characters of a server's message in an error


class JudgeUnavailable(InputError):
    """The endpoint cannot be used: unreachable, wrong key, no such model, no credit. What is saved stays."""


class SpendLimit(JudgeUnavailable):
    """Another call could cost more than the spend limit leaves. All that was paid for is saved."""


@dataclass(eq=False)
class Failed(Exception):
    """A call that brought no reply."""

    reason: str                   # becomes Reply.error
    again: bool = True            # worth another try
    after: float | None = None    # seconds the server asks to wait before that
    fatal: str = ""               # why no other call can succeed either
    complaint: str = ""           # what the server says is wrong with the request, to learn from
    message: str = ""             # the server's message or the cause, shortened, for people
    tokens: dict[str, int] = field(default_factory=dict)     # what the server counted all the same


@dataclass
class Learned:
    """What is known of one model at one address: shared by every endpoint object of this process."""

    format: int = 0                                    # index into FORMATS of the strictest one that works
    dropped: set[str] = field(default_factory=set)     # parameters the server refused
    alive: bool = False                                # a reply has come from here
    offered: bool = False                              # nothing speaks against the model (offered.py)


LEARNED: dict[tuple[str, str], Learned] = {}


class Endpoint:
    """A model at an address: `base_url` and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY."""

    def __init__(self, model: str, base_url: str | None = None, api_key: str | None = None):
        self.model = model
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        try:
            address = urlsplit(self.base_url)
            usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
        except ValueError:                          # brackets or a port that make no sense
            usable = False
        if not usable:
            raise InputError("base_url must be an address such as http://localhost:8000/v1, got "
                             f"{self.base_url!r}")
        # A function, so that printing this object or its attributes does not show the key.
        self._secret = lambda: (api_key or os.environ.get("OPENAI_API_KEY") or "").strip()
        self.learned = LEARNED.setdefault((self.base_url, model), Learned())
        self._new_client: Callable[[], Any] | None = None
        self._places: list[Any] = []                # clients, once for each call they have room for

    @property
    def where(self) -> str:
        """The address for people, without what may be a secret in it."""
        return re.sub(r"//[^/@]*@", "//", self.base_url).partition("?")[0]

    def connect(self) -> None:
        """Get ready to call. JudgeUnavailable without a key, InputError without the openai package."""
        try:
            import openai
        except ImportError:
            raise InputError("asking a model needs the openai package: pip install openai") from None
        key = self._secret()
        if not key and "api.openai.com" in self.base_url:
            raise JudgeUnavailable("no key: set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server")
        if not (key.isascii() and key.isprintable()):
            raise JudgeUnavailable("OPENAI_API_KEY has characters that no key has; set it again")
        # No limit on single reads: it would not bound a reply that trickles in; callers limit the whole.
        timeout = openai.Timeout(None, connect=CONNECT)
        if self._new_client is None:
            # One TLS context for all clients: one that makes its own keeps every call waiting for 20 ms. The
            # client's HTTP library is httpx, and httpx2 from openai 3 on.
            http = import_module(openai.DefaultAsyncHttpxClient.__base__.__module__.partition(".")[0])
            context = http.create_ssl_context()
            self._new_client = lambda: openai.AsyncOpenAI(
                api_key=self._secret() or "none", base_url=self.base_url, max_retries=0, timeout=timeout,
                http_client=openai.DefaultAsyncHttpxClient(verify=context))

    @contextmanager
    def _place(self) -> Iterator[Any]:
        """A client with less than CONNECTIONS calls under way; a new one when all are busy."""
        if not self._places:
            import asyncio

            assert self._new_client is not None            # `connect` has been called
            client = self._new_client()
            # Left to the garbage collector, the client would close its connections on whatever event loop
            # runs in the collecting thread (a notebook's, say), and so stop calls of others on this one.
            loop = asyncio.get_running_loop()
            finalize(self, lambda: asyncio.run_coroutine_threadsafe(client.close(), loop)).atexit = False
            self._places = [client] * CONNECTIONS
        client = self._places.pop()
        try:
            yield client
        finally:
            self._places.append(client)

    def body(self, prompt: str, *, max_tokens: int, schema: dict | None = None, chances: int = 0,
             **decoding: float | None) -> dict[str, Any]:
        """The chat completion to send, without what the endpoint is known to refuse."""
        learned = self.learned
        limit = "max_completion_tokens" if "max_tokens" in learned.dropped else "max_tokens"
        body: dict[str, Any] = {**decoding, limit: max_tokens}
        if chances:
            body |= {"logprobs": True, "top_logprobs": chances}
        body = {k: v for k, v in body.items() if v is not None and k not in learned.dropped}
        body |= {"model": self.model, "messages": [{"role": "user", "content": encodable(prompt)}]}
        form = FORMATS[learned.format] if schema else "text"
        if form != "text":
            body["response_format"] = {"type": form}
        if form == "json_schema":
            body["response_format"][form] = {"name": "reply", "schema": schema, "strict": True}
        return body

    async def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Send one chat completion, return its content or raise Failed. Every live call passes here."""
        import openai

        try:
            # As `extra_body`, parameters go out as they stand: the client need not go through a schema.
            extra = {name: value for name, value in body.items() if name not in ("model", "messages")}
            with self._place() as client:
                raw = await client.chat.completions.with_raw_response.create(
                    model=body["model"], messages=body["messages"], extra_body=extra)
        except openai.APIStatusError as error:
            raise self._refused(error.status_code, error.response.headers, error.body) from None
        except openai.APIConnectionError as error:
            if type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout"):
                raise Failed("unreachable", message=self._shown(str(error.__cause__))) from None
            raise Failed("connection", message=self._shown(str(error.__cause__ or error))) from None
        try:
            data = json.loads(raw.content)
        except (ValueError, RecursionError):
            shown = self._shown(raw.content[: 4 * SHOWN].decode(errors="replace"))
            raise Failed("not JSON", message=shown) from None
        try:
            choice = read_choice(data)
        except ValueError as error:
            reason = "broken off" if isinstance(error, BrokenOff) else "wrong shape"
            raise Failed(reason, tokens=read_usage(data), message=self._shown(_message(data))) from None
        choice["text"] = self._masked(choice["text"])       # a server may repeat the key it was sent
        return {**choice, "chances": read_chances(data) if "logprobs" in body else {}}

    async def listed_models(self, seconds: float) -> list[dict[str, Any]]:
        """The endpoint's list of models (GET /models): entries with an id; [] when none comes in time."""
        import asyncio

        import openai

        try:
            async with asyncio.timeout(seconds):
                with self._place() as client:
                    raw = await client.models.with_raw_response.list()
            data = json.loads(raw.content)
        except (openai.OpenAIError, TimeoutError, ValueError, RecursionError):
            return []
        entries = data.get("data") if isinstance(data, dict) else data       # some services send a bare list
        entries = entries if isinstance(entries, list) else []
        return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]

    def learn(self, complaint: str, body: dict[str, Any]) -> bool:
        """Note what a refused body must do without. False when the complaint is about something else."""
        learned, sent = self.learned, body.get("response_format", {}).get("type")
        if sent and ABOUT_FORMAT.search(complaint):
            learned.format = max(learned.format, FORMATS.index(sent) + 1)
            return True
        if ABOUT_VALUE.search(complaint):          # the parameter is known, its value is wrong
            return False
        for name in OPTIONAL:
            if name in body and re.search(rf"\b{name}\b", complaint):
                learned.dropped.add(name)
                return True
        return False

    def _refused(self, status: int, headers: Any, body: Any) -> Failed:
        """What an HTTP error status means: give up on all, on this request, learn from it, or try again."""
        error = body if isinstance(body, dict) else {}
        complaint, reason, code = self._masked(_message(body)), f"http {status}", error.get("code")
        message = complaint[:SHOWN]
        forbidden = status == 403 and not self.learned.alive
        if status in (401, 402, 404) or forbidden or code == "insufficient_quota":
            todo = {401: "the key in OPENAI_API_KEY", 403: "the key in OPENAI_API_KEY",
                    404: "the model's name and the address"}.get(status, "the account")
            return Failed(reason, fatal=f"{reason}: {message or 'no message'}; check {todo}", message=message)
        if code == "content_filter":
            return Failed("refusal", again=False)
        if status in (408, 409, 429) or status >= 500:
            return Failed(reason, after=_retry_after(headers), message=message,
                          complaint=complaint if status in (500, 501) else "")
        return Failed(reason, again=False, complaint=complaint if status in (400, 415, 422) else "",
                      message=message)

    def _masked(self, text: str) -> str:
        secret = self._secret()
        return text.replace(secret, "***") if secret else text

    def _shown(self, text: str) -> str:
        return self._masked(" ".join(text.split()))[:SHOWN]


def _message(body: Any) -> str:
    """What a body that brings no reply says is wrong, on one line: with or without an `error` around it."""
    error = body if isinstance(body, dict) else {}
    if isinstance(error.get("error"), dict):
        error = body = error["error"]
    message = (error.get("message") or error.get("detail") or error.get("error")
               or ("" if "choices" in error else body) or "")
    if isinstance(message, list):              # one entry per field that the server calls wrong
        message = "; ".join(f"{e.get('loc', '')} {e.get('msg', '')}" for e in message if isinstance(e, dict))
    return " ".join(f"{error.get('param') or ''} {message}".split())


def _retry_after(headers: Any) -> float | None:
    """Seconds the server asks to wait, by Retry-After as a number or a date; None when it does not say."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
