"""Stand-ins for a judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ems.asking import Reply, Request
from ems.score import WholeScorer
from ems.types import EMSResult


class ScriptedJudge:
    """Plays `replies` in order, or asks one function of the request; keeps prompts in `seen`.

    A reply that is None stands for one that never came. One call too many is a failure of the test.
    """

    name, signature = "scripted", "judge:scripted"

    def __init__(self, *replies: str | Reply | Callable[[Request], str | Reply | None] | None):
        self.by_function = replies[0] if len(replies) == 1 and callable(replies[0]) else None
        self.replies, self.seen, self.requests = list(replies), [], []

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        return [self._one(request) for request in requests]

    def __call__(self, prompt: str) -> str | None:
        return self._one(Request("call", prompt, 256)).text

    def _one(self, request: Request) -> Reply:
        self.seen.append(request.prompt)
        self.requests.append(request)
        if self.by_function:
            said = self.by_function(request)
        elif not self.replies:
            which = f"call {len(self.seen)} ({request.task}): {request.prompt[:60]!r}"
            raise AssertionError(f"no reply scripted for {which}")
        else:
            said = self.replies.pop(0)
        return said if isinstance(said, Reply) else Reply(said, "" if isinstance(said, str) else "no reply")


def covered(scorer: WholeScorer, ref: Sequence[str], ans: Sequence[str]) -> EMSResult:
    """What a scorer of whole sides makes of two lists of points."""
    return scorer.cover([EMSResult("t", "m", tuple(ref), tuple(ans), (None,) * len(ref))])[0]
