"""Asking a model: what a question and a reply are, and what a judge is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from ..types import InputError

# How servers say that a reply ended otherwise than by itself (OpenAI, Mistral, Gemini, vLLM, DeepSeek).
ENDINGS = {
    **dict.fromkeys(("length", "model_length", "max_tokens"), "length"),
    **dict.fromkeys(
        ("refusal", "content_filter", "safety", "prohibited_content", "blocklist"), "refusal"
    ),
    **dict.fromkeys(("error", "abort", "insufficient_system_resource"), "broken off"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the judge."""

    task: str  # what it is for: extract, match, score, ... (usage is counted by it)
    prompt: str
    max_tokens: int  # limit of the reply's length
    schema: dict[str, Any] | None = (
        None  # JSON schema the reply should follow; the prompt says so as well
    )
    sample: int = 0  # number of the repetition, when the same question is asked several times
    label: str = field(default="", compare=False)  # a name for people
    # The longest reply that could be read, for a dry run to go on with; None = an empty list by the schema.
    assumed: Callable[[], str] | None = field(default=None, compare=False)
    # How the reply's text is read; None for a text that cannot be. Many of these in a row end a live run.
    read: Callable[[str], Any] = field(default=str, compare=False)
    # Set where one reply speaks of several points: its value is a list with an entry for each of them.
    entries: int | None = field(default=None, compare=False)

    def answered(self, record: Record) -> Record:
        """The record with its value, read once: a record that has been read comes back as it is."""
        if record.is_read:
            return record
        value = None if record.error else self.read(record.text)
        return replace(record, value=value, is_read=True)


@dataclass(frozen=True, slots=True)
class Record:
    """One reply, with all that is needed to use it again and to know where it came from."""

    key: str  # hash of the request: all that can change the reply
    task: str  # what was asked: extract, match, ...
    model: str
    text: str  # what the model wrote, cut off or refusing as it may be
    # How it ended: "length" = cut, "refusal" = declined, "no text" = none came; all else is a whole reply.
    finish_reason: str = "stop"
    prompt_tokens: int = 0  # as the server counts; 0 when it does not say
    completion_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens the server did not have to read again
    seconds: float = 0.0  # from sending to the last byte, without retries
    date: str = ""  # UTC, ISO 8601
    sent: dict[str, Any] = field(default_factory=dict)  # settings it was made with
    label: str = ""  # what the caller calls this request
    prompt: str | None = None  # absent in committed data
    # Why no reply came ("timeout", "http 500", "too long for the judge", ...); such a record is never stored.
    failure: str = field(default="", compare=False)
    # What the request's reader made of the text (`Request.answered`), None for nothing; never stored.
    value: Any = field(default=None, compare=False)
    is_read: bool = field(default=False, compare=False)

    @property
    def error(self) -> str:
        """Why the text is no answer: "length", "refusal", "timeout", "http 500", ...; "" for a whole one."""
        no_answer = ("length", "refusal", "no text")
        return self.failure or (self.finish_reason if self.finish_reason in no_answer else "")

    @property
    def usable(self) -> str | None:
        """The text, if it is a whole answer; else None."""
        return None if self.error else self.text


@runtime_checkable
class Judge(Protocol):
    """Anything with a name (for people), a signature (what can change its replies, by name) and `ask`."""

    name: str

    @property
    def signature(self) -> Mapping[str, str]: ...

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        """One reply per request, in the same order; a progress bar if `progress` has words for it."""


class MissingReplies(InputError):
    """A replay met requests without a saved reply. `missing` has them as (model, task, key)."""

    def __init__(self, missing: set[tuple[str, str, str]]):
        self.missing = missing
        models = " and ".join(sorted({model for model, *_ in missing}))
        counts = sorted(Counter(task for _, task, _ in missing).items())
        tasks = ", ".join(f"{times} {task}" for task, times in counts)
        super().__init__(
            f"{len(missing)} replies of {models} are not saved ({tasks}); ask for them in mode "
            "'live', or in a batch (ems replies export --pending)"
        )


class FunctionJudge:
    """A plain function from prompt to reply, as a judge. What it returns that is not text is no reply."""

    def __init__(self, function: Callable[[str], str]):
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.signature = {"judge": self.name}

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        texts = [(request.task, self.function(request.prompt)) for request in requests]
        return [
            Record("", task, self.name, text, failure="" if isinstance(text, str) else "not text")
            for task, text in texts
        ]


def as_judge(judge: Judge | Callable[[str], str]) -> Judge:
    """The judge itself, or a plain function from prompt to reply made into one."""
    if isinstance(judge, Judge):
        return judge
    if callable(judge):
        return FunctionJudge(judge)
    raise InputError(
        f"a judge is an LLMJudge or a function from prompt to reply, got {judge!r:.60}; for a "
        "model behind an endpoint pass LLMJudge(name)"
    )


def ask_values(
    judge: Judge, requests: Sequence[Request], failures: Counter[str], progress: str = ""
) -> list[Any]:
    """The value of each reply, as its request reads it, in order.

    None for a reply that never came, was cut off or cannot be read; where a request has `entries`,
    a list in which each lost entry is None. `failures` counts what was lost, as "task: reason".
    """
    values = []
    for request, reply in zip(requests, judge.ask(requests, progress), strict=True):
        record = request.answered(reply)
        value = record.value
        lost = 1 if value is None else 0
        if request.entries is not None:
            value = [None] * request.entries if value is None else value
            lost = value.count(None)
        if lost:
            failures[f"{request.task}: {record.error or 'unreadable'}"] += lost
        values.append(value)
    return values


def reply_schema(key: str, entry: Mapping[str, Any], **limits: int) -> dict[str, Any]:
    """The JSON schema of a reply `{key: [...]}`, a list of such entries."""
    entries = {"type": "array", "items": entry, **limits}
    return {
        "type": "object",
        "properties": {key: entries},
        "required": [key],
        "additionalProperties": False,
    }


def listed(key: str, entries: Sequence[Any]) -> str:
    """A reply `{key: [...]}`, as a dry run assumes it."""
    return json.dumps({key: list(entries)})


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_choice(body: Any) -> dict[str, Any]:
    """Text, ending and token counts of a chat completion, as `Record` names them.

    ValueError: "wrong shape" (no text, and no reason why it ended), "broken off" (an error within the reply).
    """
    try:
        choice = body["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason") or ""
        text, refusal, broken = message.get("content"), message.get("refusal"), choice.get("error")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ValueError("wrong shape") from None
    if isinstance(text, list):  # some servers send a list of parts
        text = "".join(str(part.get("text") or "") for part in text if isinstance(part, dict))
    ending = ENDINGS.get(str(finish).lower(), "stop")
    if broken or ending == "broken off":
        raise ValueError("broken off")
    if refusal and not text:
        text, ending = str(refusal), "refusal"
    elif text is None and finish:
        text, ending = "", "no text" if ending == "stop" else ending
    if not isinstance(text, str):
        raise ValueError("wrong shape")
    return {"text": encodable(text), "finish_reason": ending, **read_usage(body)}


def read_usage(body: Any) -> dict[str, int]:
    """Token counts of a chat completion, each 0 when the server does not say, or says what is no count."""
    usage = body.get("usage") if isinstance(body, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    given = {**usage, **(details if isinstance(details, dict) else {})}
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "total_tokens")
    counts = {name: max(0, n) if isinstance(n := given.get(name), int) else 0 for name in names}
    total = counts.pop("total_tokens")
    if prompt := counts["prompt_tokens"]:  # reasoning may stand in the total alone: it is paid for
        counts["completion_tokens"] = max(counts["completion_tokens"], total - prompt)
    return counts
