"""Asking a model: what a question and a reply are, what a judge is, and a stage that asks one."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

from ..prompts import Prompts
from ..reading import read_rows, read_word
from ..types import InputError, Signed

NUMBER_TOKENS = 32  # limit of a reply that is one number
_counting = threading.Lock()  # of what several threads count and compare together


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the judge."""

    task: str  # what it is for: extract, match, score, ... (usage is counted by it)
    prompt: str
    max_tokens: int  # limit of the reply's length
    # The JSON schema that the reply should follow. The prompt describes it as well.
    schema: dict[str, Any] | None = None
    label: str = field(default="", compare=False)  # a name for people
    # The longest reply that could be read, for a dry run.
    assumed: Callable[[], str] = field(default=lambda: "0", compare=False)
    # How the reply's text is read; it returns None for a text that cannot be read.
    read: Callable[[str], Any] = field(default=str, compare=False)
    # Set where one reply speaks of several points: it is read as a list with so many entries.
    entries: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One reply, with all that is needed to use it again and to know where it came from."""

    key: str  # hash of the request: all that can change the reply
    task: str  # what was asked: extract, match, ...
    model: str
    text: str  # what the model wrote; it may be cut off, or a refusal
    # "length" for a reply that was cut off, "refusal" for one that declines, "no text" where none
    # came; everything else is a whole reply.
    finish_reason: str = "stop"
    prompt_tokens: int = 0  # as the server counts; 0 when it does not say
    completion_tokens: int = 0
    cached_tokens: int = 0  # prompt tokens that the server did not have to read again
    seconds: float = 0.0  # from sending to the last byte, without repeated calls
    date: str = ""  # UTC, ISO 8601
    sent: dict[str, Any] = field(default_factory=dict)  # settings it was made with
    label: str = ""  # what the caller calls this request
    prompt: str | None = None  # absent in committed data
    # Why no reply came ("timeout", "http 500", ...). Such a record is never stored.
    failure: str = field(default="", compare=False)

    @property
    def error(self) -> str:
        """Why the text is no answer ("length", "refusal", "timeout", ...); "" for a whole one."""
        if self.failure:
            return self.failure
        if self.finish_reason in ("length", "refusal", "no text"):
            return self.finish_reason
        return ""


@runtime_checkable
class Judge(Protocol):
    """Whatever has a name (for people), a signature (what can change its replies) and `ask`."""

    name: str

    @property
    def signature(self) -> Mapping[str, str]: ...

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        """One reply per request, in the same order; with a progress bar if it is given a title."""


class MissingReplies(InputError):
    """A replay met requests without a saved reply. `missing` has them as (model, task, key)."""

    def __init__(self, missing: set[tuple[str, str, str]]):
        self.missing = missing
        models = " and ".join(sorted({model for model, *_ in missing}))
        counts = sorted(Counter(task for _, task, _ in missing).items())
        tasks = ", ".join(f"{times} {task}" for task, times in counts)
        super().__init__(
            f"{len(missing)} replies of {models} are not saved ({tasks}); ask for them in mode "
            "'live', or in a batch (ems replies export --pending); without a reply only scorers "
            "that ask no judge can change, such as rouge, and no text, extractor or matcher"
        )


class FunctionJudge(Signed):
    """A plain function from prompt to reply, as a judge. What it returns must be a text."""

    def __init__(self, function: Callable[[str], str]):
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.signature = {"judge": self.name}

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        records = []
        for request in requests:
            text = self.function(request.prompt)
            failure = "" if isinstance(text, str) else "not text"
            records.append(Record("", request.task, self.name, text, failure=failure))
        return records


# A judge, or a plain function from prompt to reply, which `as_judge` makes into one.
AnyJudge = Judge | Callable[[str], str]


def as_judge(judge: AnyJudge) -> Judge:
    """The judge itself, or a plain function from prompt to reply made into one."""
    if isinstance(judge, Judge):
        return judge
    if callable(judge) and not isinstance(judge, type):
        return FunctionJudge(judge)
    raise InputError(
        f"a judge is an LLMJudge or a function from prompt to reply, got {judge!r:.60}; for a "
        "model behind an endpoint pass LLMJudge(name)"
    )


class JudgeStage(Signed):
    """A stage that asks a judge.

    `failures` counts the replies, and the entries of joint replies, that gave no value, as "task:
    reason". `newest` is the day of the newest reply so far, "" before one that has a date. Several
    threads may ask.
    """

    signature = ""  # set by each stage

    def __init__(self, judge: AnyJudge, prompts: Prompts | None = None):
        self.judge = as_judge(judge)
        self.prompts = prompts or Prompts()
        self.failures: Counter[str] = Counter()
        self.newest = ""

    def ask_and_read(self, requests: Sequence[Request], progress: str = "") -> list[Any]:
        """The values of the replies, as their requests read them, in order.

        A reply has one value, or as many as its request has `entries`. None stands for a value that
        is lost: its reply never came, was cut off, or cannot be read.
        """
        values = []
        for request, reply in zip(requests, self.judge.ask(requests, progress), strict=True):
            value = None if reply.error else request.read(reply.text)
            entries = [value]
            if request.entries is not None:
                entries = [None] * request.entries if value is None else value
            with _counting:
                self.newest = max(self.newest, reply.date[:10])
                if lost := entries.count(None):
                    self.failures[f"{request.task}: {reply.error or 'unreadable'}"] += lost
            values += entries
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
    """A reply `{key: [...]}`, for `Request.assumed`."""
    return json.dumps({key: list(entries)})


def rows_request(
    task: str,
    prompt: str,
    schema: dict[str, Any],
    longest: Sequence[Any],
    read: Callable[[Any], Any],
) -> Request:
    """A question to which the judge replies with a list, each of whose entries `read` reads.

    `longest` is the longest list that could be read; the reply must have as many entries.
    """
    key = schema["required"][0]
    count = len(longest)
    return Request(
        task,
        prompt,
        NUMBER_TOKENS + 8 * count,
        schema,
        assumed=partial(listed, key, longest),
        read=partial(read_rows, key=key, count=count, read=read),
        entries=count,
    )


# What one text says of a point of another one.
LABELS = ("Entailment", "Neutral", "Contradiction")
LABELS_SCHEMA = reply_schema("labels", {"type": "string", "enum": list(LABELS)})


def labels_request(task: str, prompt: str, count: int) -> Request:
    """A question to which the judge replies with a list of `count` labels, each one of `LABELS`."""
    longest = ["Contradiction"] * count
    return rows_request(task, prompt, LABELS_SCHEMA, longest, partial(read_word, words=LABELS))
