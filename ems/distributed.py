"""Local and BERTScore evaluation of large sets by the workers of a Dask scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from .evaluators import build
from .results import Result
from .terminal import notify
from .types import Answer, InputError, Triplet

CHUNK = 64  # answers of one piece of work: what a lost worker was computing is computed again
QUIET = 8.0  # seconds without a result, after which a person is told what is waited for
_built = cache(build)  # on a worker, since an encoder takes seconds to load


def stream(
    address: str, triplets: Sequence[Triplet], answers: Sequence[Answer], **stages: Any
) -> Iterator[Result]:
    """As `build(None, **stages).stream`, in the same order, by the workers of the scheduler at `address`.

    InputError when dask is missing, nothing answers there, or the workers cannot do the work.
    """
    try:
        from distributed import CancelledError, Client, KilledWorker

        client = Client(address, timeout=5, set_as_default=False)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler at {address} ({error}); pip install -e '.[dask]', start 'dask "
            "scheduler' and give its address, such as tcp://host:8786"
        ) from None
    by_id = {triplet.id: triplet for triplet in triplets}
    futures: deque[Any] = deque()
    with client:
        if not client.nthreads():
            notify(f"ems: {address} has no workers yet; 'dask worker {address}' starts one")
        for start in range(0, len(answers), CHUNK):
            chunk = answers[start : start + CHUNK]
            needed = {answer.triplet_id: by_id[answer.triplet_id] for answer in chunk}
            futures.append(
                client.submit(_evaluate, list(needed.values()), chunk, stages, pure=False)
            )
        while futures:
            try:
                results = futures[0].result(QUIET)
            except TimeoutError:
                notify(
                    f"ems: nothing came for {QUIET:.0f} s; {address} has {len(client.nthreads())} workers"
                )
            except (ImportError, CancelledError, KilledWorker) as error:
                raise InputError(
                    f"{address} could not finish ({type(error).__name__}: {error}); every "
                    "worker needs this version of ems-kit, and memory for it"
                ) from None
            else:
                futures.popleft()
                yield from results


def _evaluate(
    triplets: Sequence[Triplet], answers: Sequence[Answer], stages: dict[str, Any]
) -> list[Result]:
    """One chunk, on a worker."""
    return _built(None, **stages).evaluate(triplets, answers)
