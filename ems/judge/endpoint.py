"""What an OpenAI-compatible endpoint takes, and what its answers mean."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..terminal import notify
from ..types import InputError
from . import Request
from .pace import TOO_LONG, Failed, JudgeUnavailable

if TYPE_CHECKING:
    import openai

DEFAULT_ADDRESS = "https://api.openai.com/v1"
# How servers say that a reply did not end by itself (OpenAI, Mistral, Gemini, vLLM, DeepSeek).
ENDINGS = {
    "length": "length",
    "model_length": "length",
    "max_tokens": "length",
    "refusal": "refusal",
    "content_filter": "refusal",
    "safety": "refusal",
    "prohibited_content": "refusal",
    "blocklist": "refusal",
    "error": "broken off",
    "abort": "broken off",
    "insufficient_system_resource": "broken off",
}
# Parameters that some servers refuse, and how a server's complaint names them.
REFUSABLE = {
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
SHORTEST_KEY = 16  # a shorter key is a word such as "none", which replies may hold


class ParameterRefused(Exception):
    """The endpoint does not take a parameter; from now on bodies are made without it."""


class Endpoint:
    """One model at one address.

    `base_url` and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY. `where` is the address
    without what may be secret, `host` a part of it. InputError for an address that is none.
    """

    # The key that is given has a slot, so that `vars`, which gives all other attributes, hides it.
    __slots__ = ("__dict__", "_key")

    def __init__(
        self,
        model: str,
        base_url: str | None,
        api_key: str | None,
        decoding: Mapping[str, Any],
        sample: int,
    ):
        address = base_url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_ADDRESS
        self.where = re.sub(r"//[^/@]*@", "//", address).partition("?")[0]
        if not re.fullmatch(r"https?://([^/@]*@)?[\w.:\[\]-]+(/[^\s?#]*)?", address):
            raise InputError(
                "base_url is an address such as http://localhost:8000/v1, without '?' and '#'; "
                f"got {self.where!r}"
            )
        self.host = urlsplit(self.where).netloc
        self.known_hosts = {self.host, None}  # of saved replies, of which no notice is due
        self.model = model
        self.decoding = decoding
        self.sample = sample
        self._address = address
        self._key = api_key
        self._refused: set[str] = set()  # parameters that the server does not take

    def client(self) -> openai.AsyncOpenAI:
        """The official client. JudgeUnavailable without a key that can be sent."""
        import openai

        key = (self._key or os.environ.get("OPENAI_API_KEY") or "").strip()
        is_missing = not key and "api.openai.com" in self._address
        if is_missing or not (key.isascii() and key.isprintable()):
            raise JudgeUnavailable(
                "no key that can be sent: set OPENAI_API_KEY, or OPENAI_BASE_URL for a local server"
            )
        # The judge repeats calls and limits their time: each is counted and paid for, and all of
        # them together have to end a run. A redirect would take the prompts to another address.
        return openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=self._address,
            max_retries=0,
            timeout=openai.Timeout(None, connect=5.0),
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False),
        )

    def body(self, request: Request) -> dict[str, Any]:
        """The chat completion to send, without the parameters that the endpoint has refused."""
        parameters = {name: self.decoding[name] for name in ("temperature", "top_p", "seed")}
        if parameters["seed"] is not None:
            parameters["seed"] += self.sample
        limit = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
        parameters[limit] = request.max_tokens
        if request.schema:
            form = {"name": "reply", "schema": request.schema, "strict": True}
            parameters["response_format"] = {"type": "json_schema", "json_schema": form}
        prompt = request.prompt.encode("utf-8", "replace").decode()  # no half surrogate pairs
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}]}
        for name, value in parameters.items():
            if value is not None and name not in self._refused:
                body[name] = value
        return body

    async def post(self, client: openai.AsyncOpenAI, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the answer to one call says, as `read_completion` returns it, without the key.

        Where the answer has a failure, its text is the whole answer. Failed for a call that brought
        no JSON; ParameterRefused when the same call without a parameter may succeed;
        JudgeUnavailable when no call can.
        """
        import openai

        try:
            text = await client.post("/chat/completions", body=body, cast_to=str)
        except openai.APIStatusError as error:
            failure = self._failure(error, client.api_key)
            self._note_refused(failure, body)
            raise failure from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            unreachable = type(cause).__name__ in ("ConnectError", "ConnectTimeout")
            raise Failed("unreachable" if unreachable else "connection", str(cause)) from None
        try:
            fields = read_completion(json.loads(text))
        except (ValueError, RecursionError):
            reason = "not JSON" if text.strip() else "empty body"
            raise Failed(reason, _masked(text, client.api_key)) from None
        fields["text"] = _masked(text if "failure" in fields else fields["text"], client.api_key)
        return fields

    def _failure(self, error: openai.APIStatusError, key: str) -> Failed:
        """What an HTTP error means for its request; JudgeUnavailable if it ends the run."""
        status = error.status_code
        retry_after = error.response.headers.get("retry-after", "")
        details: Mapping[str, Any] = error.body if isinstance(error.body, dict) else {}
        message = str(
            details.get("message") or details.get("detail") or error.body or error.message
        )
        message = f"{details.get('param') or ''} {message}"
        if retry_after:
            message = f"(Retry-After: {retry_after}) {message}"
        code = details.get("code")
        failure = Failed(f"http {status}", _masked(message, key), worth_repeating=False)
        if status < 400 or status in (401, 402, 404) or code == "insufficient_quota":
            raise JudgeUnavailable(
                f"{failure}; check the address, the key, the account and the model's name"
            )
        if code == "content_filter":
            failure.reason = "refusal"
        elif ABOUT_LENGTH.search(failure.message):
            failure.reason = TOO_LONG
        elif status in (408, 409, 429) or status >= 500:
            failure.worth_repeating = True
            if re.fullmatch(r"\d+(\.\d+)?", retry_after):
                failure.retry_after = float(retry_after)
        return failure

    def _note_refused(self, failure: Failed, body: Mapping[str, Any]) -> None:
        """ParameterRefused when the failure is a complaint about a parameter of the body."""
        if not re.match("http (400|415|422|50[01])", failure.reason):
            return
        for name, pattern in REFUSABLE.items():
            if name in body and re.search(pattern, failure.message):
                break
        else:
            return
        if name != "response_format" and ABOUT_VALUE.search(failure.message):
            return  # the server knows the parameter and refuses its value
        if name not in self._refused:
            notify(f"{self.model} at {self.where} does not take {name}: asked without it")
        self._refused.add(name)
        raise ParameterRefused(name)


def _masked(text: str, key: str) -> str:
    """The text without the key, which a server may repeat."""
    return text.replace(key, "***") if len(key) >= SHORTEST_KEY else text


def read_completion(answer: Any) -> dict[str, Any]:
    """Text, ending, failure and token counts of a chat completion: fields of `Record`.

    The failure is "wrong shape" where there is neither a text nor a reason why the reply ended,
    "broken off" for an error within the reply, else "". A refusal is a text.
    """
    counts = read_usage(answer)
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        finish_reason = choice.get("finish_reason") or ""
        text = message.get("content")
        refusal = message.get("refusal")
        error = choice.get("error")
    except (TypeError, KeyError, IndexError, AttributeError):
        return {"text": "", "failure": "wrong shape", **counts}
    if isinstance(text, list):  # some servers send a list of parts
        text = "".join(str(part.get("text") or "") for part in text if isinstance(part, dict))
    ending = ENDINGS.get(str(finish_reason).lower(), "stop")
    if error or ending == "broken off":
        return {"text": "", "failure": "broken off", **counts}
    if refusal and not text:
        text = str(refusal)
        ending = "refusal"
    elif text is None and finish_reason:
        text = ""
        ending = "no text" if ending == "stop" else ending
    if not isinstance(text, str):
        return {"text": "", "failure": "wrong shape", **counts}
    return {"text": text, "finish_reason": ending, **counts}


def read_usage(answer: Any) -> dict[str, int]:
    """Token counts of a chat completion, as `Record` names them.

    A count is 0 when the server does not say it, or says what is no count.
    """
    usage = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(usage, dict):
        usage = {}
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        usage = {**usage, **details}
    counts = {}
    for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "total_tokens"):
        number = usage.get(name)
        counts[name] = max(0, number) if isinstance(number, int) else 0
    total = counts.pop("total_tokens")
    prompt = counts["prompt_tokens"]
    if prompt:
        # Tokens of reasoning may stand in the total alone. They are paid for.
        counts["completion_tokens"] = max(counts["completion_tokens"], total - prompt)
    return counts
