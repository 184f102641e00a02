"""A stand-in for a judge, and what tests of judges share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ems.judge import Record, Request
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.types import InputError

ROOT = Path(__file__).parent.parent


def ask(n: int, task: str = "match", max_tokens: int = 16, **other: object) -> list[Request]:
    """Requests with the prompts "question 0", "question 1", and so on."""
    return [Request(task, f"question {i}", max_tokens, **other) for i in range(n)]


def echo(body: dict) -> str:
    """What a server that repeats the prompt replies."""
    return "re: " + body["messages"][-1]["content"]


def expected(n: int) -> list[str]:
    """What such a server replies to `ask(n)`."""
    return [f"re: question {i}" for i in range(n)]


def texts(records: Sequence[Record]) -> list[str | None]:
    return [whole_text(record) for record in records]


def whole_text(record: Record) -> str | None:
    """The text of a whole answer, else None."""
    return None if record.error else record.text


def judge_of(server, **settings: object) -> LLMJudge:
    """A judge behind a loopback server."""
    return LLMJudge("m", base_url=server.url, **settings)


class Noting(LLMJudge):
    """A judge that keeps the keys of the replies that it was asked for, each with its task."""

    def __init__(self, *args: object, **settings: object):
        self.keys: dict[str, str] = {}
        super().__init__(*args, **settings)

    def key(self, request: Request) -> str:
        key = super().key(request)
        self.keys[key] = request.task
        return key


def recorded(*files: str, sample: int = 0) -> Noting:
    """The large judge of the committed recordings, which are named below data/."""
    store = Replies(recorded=[ROOT / "data" / file for file in files])
    return Noting(
        "large-llm-2026-11", store=store, mode="replay", temperature=None, seed=None, sample=sample
    )


@contextmanager
def refused(*words: str, kind: type[Exception] = InputError) -> Iterator[None]:
    """What is done in the block must be refused in one line that has these words."""
    with pytest.raises(kind) as error:
        yield
    assert "\n" not in str(error.value)
    assert all(word in str(error.value) for word in words), str(error.value)


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Waits for what another process does."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)


def text_of(prompt: str) -> str:
    """The text between the last tags of a prompt."""
    return prompt.rpartition("<text>\n")[2].partition("\n</text>")[0]


class Tags(HTMLParser):
    """Collects the tags and attributes that a browser would see."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


Reply = str | Record | None


class ScriptedJudge:
    """Plays `replies` in order, or calls one function of the request, or takes them from a mapping.

    In a mapping {task: reply} a reply is a text, a list that is played in order, or a function of
    the request. None stands for a reply that never came ("no reply"). One call too many is a
    failure of the test. `requests` and `seen` (their prompts) keep what was asked, in order.
    """

    name = "scripted"

    def __init__(self, *replies: Reply | Callable[[Request], Reply] | Mapping[str, object]):
        self.signature = {"judge": "scripted"}
        self.script: object = list(replies)
        if len(replies) == 1 and (callable(replies[0]) or isinstance(replies[0], (Mapping, list))):
            self.script = replies[0]
        self.requests: list[Request] = []

    @property
    def seen(self) -> list[str]:
        return [request.prompt for request in self.requests]

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Record]:
        return [self._one(request) for request in requests]

    def __call__(self, prompt: str) -> str | None:
        return whole_text(self._one(Request("call", prompt, 256)))

    def _one(self, request: Request) -> Record:
        self.requests.append(request)
        reply = self.script
        place = f"call {len(self.requests)} ({request.task}): {request.prompt[:80]!r}"
        if isinstance(reply, Mapping):
            assert request.task in reply, f"no reply is scripted for the task of {place}"
            reply = reply[request.task]
        if isinstance(reply, list):
            assert reply, f"no reply is left for {place}"
            reply = reply.pop(0)
        if callable(reply):
            reply = reply(request)
        if isinstance(reply, Record):
            return reply
        record = Record("", request.task, self.name, "", failure="no reply", label=request.label)
        if isinstance(reply, str):
            record = replace(record, text=reply, failure="")
        return record
