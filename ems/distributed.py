"""Evaluation of large sets without a judge by the workers of a Dask scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from .evaluators import build
from .results import Result
from .terminal import notify
from .types import Answer, InputError, Triplet

CHUNK = 64  # answers of one task: the work of a worker that is lost is computed again
NOTICE_AFTER = 8.0  # seconds without a result, after which a notice says what is waited for
_cached_build = cache(build)  # on a worker: loading an encoder takes seconds


def stream(
    address: str, triplets: Sequence[Triplet], answers: Sequence[Answer], **stages: Any
) -> Iterator[Result]:
    """The results of `build(None, **stages).stream`, in the same order, from the workers.

    `address` is that of their scheduler, such as "tcp://host:8786". InputError when dask is
    missing, no scheduler answers, or the workers cannot do the work.
    """
    try:
        from distributed import Client

        client = Client(address, timeout=5, set_as_default=False)
    except (ImportError, OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler at {address} ({error}); pip install -e '.[dask]', start 'dask "
            "scheduler' and give its address, such as tcp://host:8786"
        ) from None
    by_id = {triplet.id: triplet for triplet in triplets}
    futures: deque[Any] = deque()
    with client:
        for start in range(0, len(answers), CHUNK):
            chunk = answers[start : start + CHUNK]
            needed = {answer.triplet_id: by_id[answer.triplet_id] for answer in chunk}
            task = (_evaluate, list(needed.values()), chunk, stages)
            futures.append(client.submit(*task, pure=False))
        while futures:
            yield from _result_of(futures.popleft(), client, address)


def _result_of(future: Any, client: Any, address: str) -> list[Result]:
    """The results of one task. While none come, notices say that they are waited for."""
    from distributed import CancelledError, KilledWorker

    while True:
        try:
            return future.result(NOTICE_AFTER)
        except TimeoutError:
            notify(
                f"ems: nothing came for {NOTICE_AFTER:.0f} s; {address} has "
                f"{len(client.nthreads())} workers ('dask worker {address}' starts one)"
            )
        except (ImportError, CancelledError, KilledWorker) as error:
            raise InputError(
                f"{address} could not finish ({type(error).__name__}: {error}); every "
                "worker needs this version of ems-kit, and memory for it"
            ) from None


def _evaluate(
    triplets: Sequence[Triplet], answers: Sequence[Answer], stages: dict[str, Any]
) -> list[Result]:
    """The results of one task, on a worker."""
    return _cached_build(None, **stages).evaluate(triplets, answers)
