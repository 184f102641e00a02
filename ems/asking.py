"""What a judge is asked and replies: records, the protocol, and the shape and length of a reply."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

from .io import progress_bar
from .parsing.lists import read_rows
from .types import InputError

T = TypeVar("T")
# A sentence seldom holds more than two points, or three claims. A small judge that starts to repeat itself
# would otherwise write until its limit, and the whole reply would be lost; where servers constrain replies,
# the list ends.
PER_SENTENCE = {"points": 2, "claims": 3}
_OTHER_SCRIPT = re.compile("[\u0370-\u1fff\u2c00-\U0010ffff]")        # not Latin, no punctuation
_SENTENCE_END = re.compile(r"[.!?;]\s|[。！？；]|\n")


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the judge."""

    task: str                     # what it is for: extract, match, score, ... (usage is counted by it)
    prompt: str
    max_tokens: int               # limit of the reply's length
    # JSON schema the reply should follow; the prompt says so in words as well.
    schema: dict[str, Any] | None = None
    sample: int = 0               # number of the repetition, when the same question is asked several times
    top_logprobs: int = 0         # how many likely first tokens of the reply to ask the probabilities of
    label: str = field(default="", compare=False)   # a name for people; changes nothing
    # For counting without asking: the text that the reply restates, or the few values that it chooses from.
    about: str = field(default="", compare=False)
    choices: Sequence[int | str] = field(default=(), compare=False)
    # How many of them a reply to a joint question lists; 0 = one.
    entries: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """One stored reply, with all that is needed to use it again and to know where it came from."""

    key: str                      # hash of the request: all that can change the reply
    task: str                     # what was asked: extract, match, ...
    model: str
    text: str                     # what the model wrote, cut off or refusing as it may be
    finish_reason: str = "stop"   # as the server gives it; "refusal" = declined, "no text" = none was sent
    prompt_tokens: int = 0        # as the server counts; 0 when it does not say
    completion_tokens: int = 0
    cached_tokens: int = 0        # prompt tokens the server did not have to read again
    seconds: float = 0.0          # from sending to the last byte, without retries
    date: str = ""                # UTC, ISO 8601
    # Reply format used, parameters the server made us drop.
    sent: dict[str, Any] = field(default_factory=dict)
    label: str = ""               # what the caller calls this request
    prompt: str | None = None     # absent in committed data


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's reply as the stages read it: a usable text, or None and the reason; and its record."""

    text: str | None
    error: str = ""               # "length", "refusal", "timeout", "connection", "http 500", "not JSON", ...
    record: Record | None = field(default=None, compare=False)   # None where nothing came, or nothing is kept
    stored: bool = field(default=False, compare=False)           # came from the store: nothing was asked
    message: str = field(default="", compare=False)              # the server's message about a failure

    @property
    def probabilities(self) -> Mapping[str, float]:
        """Probability in [0, 1] of each likely first token, where these were asked for and given."""
        return self.record.sent.get("chances", {}) if self.record else {}


@runtime_checkable
class Judge(Protocol):
    """Anything with a name, a signature and `ask`."""

    name: str                     # the model, for people

    @property
    def signature(self) -> str:
        """Everything that can change its replies."""
        ...

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """One reply per request, in the same order; a progress bar if `progress` has words for it."""
        ...


class CallableJudge:
    """A plain function from prompt to reply, as a judge. Its exceptions pass through."""

    def __init__(self, function: Callable[[str], str]):
        self.function = function
        named = getattr(function, "name", None) or getattr(function, "__name__", None)
        self.name: str = named or type(function).__name__
        self.signature = f"judge:{self.name}"

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """Ask one after the other."""
        replies = []
        with progress_bar(progress, len(requests)) as bar:
            for request in requests:
                text = self.function(request.prompt)
                replies.append(Reply(text) if isinstance(text, str) else Reply(None, "not text"))
                bar.update()
        return replies


def as_judge(judge: Judge | Callable[[str], str]) -> Judge:
    """The judge itself, or a plain function from prompt to reply made into one."""
    if isinstance(judge, Judge):
        return judge
    if callable(judge):
        return CallableJudge(judge)
    raise InputError(f"a judge is an LLMJudge or a function from prompt to reply, got {judge!r:.60}; "
                     "for a model behind an endpoint pass LLMJudge(name)")


def read_reply(reply: Reply, read: Callable[[str], T | None], task: str, unread: Counter[str]) -> T | None:
    """What `read` makes of a reply's text; None, and counted by reason in `unread`, where that is nothing."""
    value = None if reply.text is None else read(reply.text)
    if value is None:
        unread[f"{task}: {reply.error or 'unreadable'}"] += 1
    return value


def read_listed(reply: Reply, key: str, count: int, read: Callable[[str], T | None], task: str,
                unread: Counter[str]) -> list[T | None]:
    """What `read` makes of each of the `count` entries that a reply lists, as `{key: [...]}` or bare.

    None, and counted by reason in `unread`, where that is nothing; for all where there is no list of so many
    entries, or several.
    """
    rows = read_rows(reply.text or "", key) or []
    entries = [str(row) if type(row) in (int, str) else "" for row in rows]
    values = [read(entry) for entry in (entries if len(entries) == count else [""] * count)]
    if lost := values.count(None):
        unread[f"{task}: {reply.error or 'unreadable'}"] += lost
    return values


def reply_schema(key: str, entry: Mapping[str, Any], **limits: int) -> dict[str, Any]:
    """The JSON schema of a reply `{key: [...]}`, a list of such entries."""
    entries = {"type": "array", "items": entry, **limits}
    return {"type": "object", "properties": {key: entries}, "required": [key], "additionalProperties": False}


def list_schema(key: str, text: str) -> dict[str, Any]:
    """The shape `{key: [strings]}` of a reply about `text`, with as many entries as the text can hold."""
    sentences = len(_SENTENCE_END.findall(text)) + 1
    return reply_schema(key, {"type": "string"}, maxItems=PER_SENTENCE[key] * sentences)


def room(text: str) -> int:
    """Tokens granted to a reply that repeats `text` in another shape: about twice what a text in Latin
    letters takes, and two more for each letter of other scripts, of which some tokenizers make that many.
    """
    return 256 + len(text) // 2 + 2 * len(_OTHER_SCRIPT.findall(text))
