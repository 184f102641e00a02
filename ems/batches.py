"""Many answers: joined to their triplets by id, laid before a judge in batches, and what a replay lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any

from .io import duplicates, progress_bar, some
from .types import Answer, InputError, Triplet

CHUNK = 128                   # answers laid before a judge at once, unless it names a `batch` of its own


def triplets_by_id(triplets: Sequence[Triplet]) -> dict[str, Triplet]:
    """The triplets by id; InputError when an id occurs twice."""
    if twice := duplicates([t.id for t in triplets]):
        raise InputError(f"triplet ids must be unique; {twice[0]!r} occurs more than once")
    return {t.id: t for t in triplets}


def check_known(answers: Sequence[Answer], triplets: Mapping[str, Triplet]) -> None:
    """InputError for an answer to a triplet that is not among those given, which are by id."""
    if unknown := sorted({a.triplet_id for a in answers} - triplets.keys()):
        raise InputError(f"{len(unknown)} triplet ids of the answers are not among the {len(triplets)} "
                         f"triplets: {some(unknown)}; known ids look like {some(list(triplets))}")


def batch_size(*judges: Any) -> int:
    """How many answers to lay before judges at once: enough to keep workers busy, or a judge's `batch`."""
    return max((getattr(judge, "batch", CHUNK) for judge in judges), default=CHUNK)


def through(batches: Iterable[Any], work: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """The results of all batches in order. A replay notes what is missing of every batch before it stops."""
    missing: MissingReplies | None = None
    for batch in batches:
        try:
            yield from work(batch)
        except MissingReplies as error:
            missing = error if missing is None else missing | error
    if missing is not None:
        raise missing


def in_batches(answers: Iterable[Answer], size: int, progress: bool) -> Iterator[list[Answer]]:
    """The answers in batches of `size`, with a progress bar if asked for."""
    source = iter(answers)
    total = len(answers) if isinstance(answers, Sized) else None
    with progress_bar("answers" if progress else "", total) as bar:
        while batch := list(islice(source, size)):
            yield batch
            bar.update(len(batch))


class MissingReplies(InputError):
    """A replay met requests without a saved reply; `keys` has them by task.

    They are noted in the store as pending, unless it is a recording, which takes nothing. `hint` says what
    else the store has that would nearly fit.
    """

    def __init__(self, model: str, keys: Mapping[str, Sequence[str]], noted: bool = True, hint: str = ""):
        self.model, self.noted, self.hint = model, noted, hint
        self.keys = {task: list(dict.fromkeys(given)) for task, given in sorted(keys.items())}
        named = "; ".join(
            f"{len(given)} {task} ({', '.join(k[:12] for k in given[:3])}{', ...' * (len(given) > 3)})"
            for task, given in self.keys.items()
        )
        way_on = ("ask a live endpoint for them (mode 'live'), or write them to a batch file "
                  "(ems replies export --pending)" if noted else
                  "to ask for them, name a .sqlite store and give this one as recorded replies (--recorded)")
        count = sum(map(len, self.keys.values()))
        parts = [f"{count} replies of {model} are not saved: {named}", *([hint] if hint else []), way_on]
        super().__init__("; ".join(parts))

    def __or__(self, other: MissingReplies) -> MissingReplies:
        """Both together, of one model or of several."""
        models = dict.fromkeys([*self.model.split(" and "), *other.model.split(" and ")])
        tasks = self.keys.keys() | other.keys.keys()
        keys = {t: self.keys.get(t, []) + other.keys.get(t, []) for t in tasks}
        return MissingReplies(" and ".join(models), keys, self.noted and other.noted, self.hint or other.hint)
