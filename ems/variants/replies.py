"""Reading replies to joint questions: a list with one entry for each point that was asked about."""

from __future__ import annotations

from ..parsing.lists import read_entries, read_rows
from ..reading import read_index, read_score


def read_indices(reply: str, key: str, count: int, n_points: int, first: int = 0) -> list[int | None] | None:
    """One index for each of `count` reference points, as by `read_index`, from `{key: [...]}` or a bare list.

    None for an entry off the menu; None for all when there is no list of so many entries, or several.
    """
    entries = read_entries(reply, key, count)
    return None if entries is None else [read_index(entry, n_points, first) for entry in entries]


def read_scores(reply: str, key: str, count: int, max_score: int) -> list[float | None] | None:
    """One score in [0, 1] for each of `count` points, as by `read_score`, from `{key: [...]}` or a bare list.

    None for an entry off the scale; None for all when there is no list of so many entries, or several.
    """
    entries = read_entries(reply, key, count)
    return None if entries is None else [read_score(entry, max_score) for entry in entries]


def read_pairs(reply: str, key: str, count: int, n_points: int, max_score: int
               ) -> list[tuple[int | None, float | None]] | None:
    """For each of `count` reference points the index and the score that one entry `[index, score]` gives it.

    They are read as by `read_index` and `read_score`, from `{key: [...]}` or a bare list. None for what is
    off the menu or the scale, and for both in an entry that is no pair; None for all when there is no list of
    so many entries, or several.
    """
    rows = read_rows(reply, key)
    if rows is None or len(rows) != count:
        return None
    pairs = [row if isinstance(row, list) and len(row) == 2 else ["", ""] for row in rows]
    texts = [[str(part) if type(part) in (int, str) else "" for part in pair] for pair in pairs]
    return [(read_index(index, n_points), read_score(score, max_score)) for index, score in texts]
