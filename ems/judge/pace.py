"""When a call may go out, and when a run has to end."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass

from ..terminal import visible
from ..types import InputError

FIRST_WINDOW = 32  # calls that may be under way before the endpoint has replied
FIRST_WAIT = 0.5  # seconds before a failed call is repeated; each later wait is twice as long
ERROR_LIMIT = 6  # errors in a row that end a run; also how often a request is repeated
UNREACHABLE_LIMIT = 3  # the same, for an address that nobody has answered at
UNUSABLE_LIMIT = 32  # unusable replies in a row that end a run
SHRINK_EVERY = 15.0  # seconds in which the window becomes smaller once at most
SILENCE = 10.0  # seconds without the end of a call, after which a person is told
TOO_LONG = "too long for the judge"


class JudgeUnavailable(InputError):
    """A run has to end: the endpoint cannot be used, or the spend limit is reached.

    Replies that were saved before stay saved.
    """


@dataclass(eq=False)
class Failed(Exception):
    """A call that brought no reply."""

    reason: str  # becomes Record.failure
    message: str = ""  # the server's words, or the cause
    worth_repeating: bool = True
    retry_after: float = 0.0  # seconds that the server asks to wait

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.reason!r}: {' '.join(self.message.split())[:200]}".removesuffix(": ")


class Pace:
    """When a call may go out, and when a run has to end; one pace for all threads of a judge.

    A judge calls it while it holds its lock. The states:

                      error                    ERROR_LIMIT errors in a row
        REPLIES COME ------> ERRORS IN A ROW ------------------------------> JudgeUnavailable
         `window`    <------ one call at a time,                                    ^
         calls        reply  waits that double                                      |
             |                                                                      |
             +----------- UNUSABLE_LIMIT unusable replies in a row -----------------+

    The window begins at 32 calls. Until the server complains for the first time (429 or 5xx), each
    reply adds one call, so the window doubles with each window of replies ("slow start"). At a
    complaint the window loses a fifth, and from then on each window of replies adds a twentieth.
    `workers` is its upper limit.
    """

    def __init__(self, workers: int, timeout: float = math.inf):
        self.workers = workers
        self.timeout = timeout  # of a request, in seconds
        self.window = float(min(FIRST_WINDOW, workers))
        self.under_way = 0
        self.has_replied = False
        self.complained = False
        self.shrunk_at = -math.inf
        self.errors_in_a_row = 0  # calls that were sent together count as one error
        self.failing_keys: set[str] = set()  # keys of requests that failed since the last reply
        self.last_failure: Failed | None = None
        self.next_call_at = 0.0
        self.unusable_in_a_row: Counter[str] = Counter()  # by reason
        self.last_end = time.monotonic()  # when a call ended, with a reply or without

    def may_start(self) -> bool:
        """Whether one more call may go out now."""
        room = self.window
        if self.errors_in_a_row:
            room = 1
        elif self.unusable_in_a_row:
            # The calls under way may bring unusable replies as well.
            room = min(room, max(1, UNUSABLE_LIMIT - self.unusable_in_a_row.total()))
        return time.monotonic() >= self.next_call_at and self.under_way < room

    def replied(self, unusable: str, text: str = "") -> None:
        """Note a reply. `unusable` says why its text cannot be used, "" for a good one.

        JudgeUnavailable when it is the last of too many.
        """
        self.has_replied = True
        self.errors_in_a_row = 0
        self.next_call_at = 0.0
        self.failing_keys.clear()
        growth = 0.05 if self.complained else 1.0
        self.window = min(self.workers, self.window + growth)
        if unusable:
            self._count_unusable(unusable, text)
        else:
            self.unusable_in_a_row.clear()

    def failed(self, failure: Failed, key: str) -> bool:
        """Note a failed call; returns whether its request is worth another one.

        JudgeUnavailable when the run has to end.
        """
        if failure.retry_after > self.timeout:
            raise JudgeUnavailable(
                f"{failure}; that is longer than the time limit (timeout): come back then"
            )
        if not failure.worth_repeating:
            if failure.reason != TOO_LONG:  # which says nothing about the next request
                self._count_unusable(str(failure))
            return False
        now = time.monotonic()
        self.last_failure = failure
        self.failing_keys.add(key)
        if failure.reason.startswith(("http 429", "http 5")):  # the server has too much to do
            self.complained = True
            if now - self.shrunk_at > SHRINK_EVERY:
                self.shrunk_at = now
                self.window = max(1.0, self.window * 0.8)
        if now < self.next_call_at:
            return True  # it was sent before an error that is counted already
        wait = FIRST_WAIT * 2 ** min(self.errors_in_a_row, ERROR_LIMIT)
        self.next_call_at = now + max(failure.retry_after, wait)
        self.errors_in_a_row += 1
        nobody_answers = failure.reason == "unreachable" and not self.has_replied
        limit = UNREACHABLE_LIMIT if nobody_answers else ERROR_LIMIT
        if self.under_way or self.errors_in_a_row < limit:
            return True
        self.next_call_at = 0.0
        if not self.has_replied or len(self.failing_keys) >= ERROR_LIMIT:
            raise JudgeUnavailable(f"nothing but errors, the last {failure}")
        return False  # few requests fail, and each of them may be at fault itself

    def _count_unusable(self, reason: str, text: str = "") -> None:
        counts = self.unusable_in_a_row
        counts[reason] += 1
        total = counts.total()
        if total < UNUSABLE_LIMIT and counts["'timeout'"] < 2 * self.workers:
            return
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.most_common(3))
        hint = "; a model that thinks first needs thinking_tokens" if counts["length"] else ""
        if text:
            hint += f"; the last one begins {visible(text, 80)!r}"
        raise JudgeUnavailable(f"{total} replies in a row cannot be used ({reasons}){hint}")
