"""Which saved replies give nothing usable, for people who look into a store.

A reply is judged here without its question. Whether an index or a score is on the menu, and whether a list
has an entry for every point, only the run that asked can tell; it counts these as unscored as well.
"""

from __future__ import annotations

from ..asking import Record
from ..baselines import LABELS
from ..parsing.lists import read_rows
from ..parsing.reply_text import without_thought
from ..parsing.stated_number import ANY_SCALE, BARE, ECHO, stated
from ..reading import read_block_numbers, read_list, read_word
from .store import Replies, ending


def unread_reason(record: Record) -> str:
    """Why a reply gives nothing usable ("length", "refusal", "unreadable", ...), "" when it can be read."""
    return ending(record.finish_reason) or ("" if is_readable(record.task, record.text) else "unreadable")


def unread_replies(store: Replies) -> list[tuple[str, str]]:
    """(task, model and reason; text) of every reply of a store that gives nothing usable."""
    return [(f"{record.task}, {record.model}: {reason}", record.text)
            for record in store.records() if (reason := unread_reason(record))]


def is_readable(task: str, reply: str) -> bool:
    """Whether a reply has the shape of an answer to its task; for a task not named here, any text has."""
    if task in ("extract", "claims"):
        return read_list(reply, "points" if task == "extract" else "claims") is not None
    if task == "summary":
        return read_block_numbers(reply, 10**6) is not None
    keys = {"match": "matches", "score": "scores", "match and score": "pairs", "entail": "labels",
            "support": "labels"}
    if task not in keys:
        return bool(without_thought(reply))
    if read_rows(reply, keys[task]) is not None:
        return True
    if keys[task] == "labels":
        return read_word(reply, LABELS) is not None
    return stated(reply, [BARE, ECHO, ANY_SCALE]) is not None
