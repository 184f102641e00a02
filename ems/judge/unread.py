"""Which saved replies give nothing usable, for people who look into a store.

A reply is judged here without its question. Whether an index or a score is on the menu, and whether a list
has an entry for every point, only the run that asked can tell; it counts these as unscored as well.
"""

from __future__ import annotations

from ..reading import is_readable
from ..types import Record
from .store import Replies, ending


def unread_reason(record: Record) -> str:
    """Why a reply gives nothing usable ("length", "refusal", "unreadable", ...), "" when it can be read."""
    return ending(record.finish_reason) or ("" if is_readable(record.task, record.text) else "unreadable")


def unread_replies(store: Replies) -> list[tuple[str, str]]:
    """(task, model and reason; text) of every reply of a store that gives nothing usable."""
    return [(f"{record.task}, {record.model}: {reason}", record.text)
            for record in store.records() if (reason := unread_reason(record))]
