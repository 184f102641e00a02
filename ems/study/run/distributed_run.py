"""Local and BERTScore evaluation of large sets on the worker processes of a Dask scheduler, chunk by chunk.

A judge scales by its endpoint instead: one address in front of many servers, or batch files. What a lost
worker was computing is computed again by another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...batches import CHUNK, triplets_by_id
from ...presets import build
from ...types import Answer, EMSResult, InputError, Triplet

if TYPE_CHECKING:
    from distributed import Client

CHUNKS_PER_THREAD = 4    # submitted at once: enough to keep each worker thread busy, with flat memory


def stream(address: str, triplets: Sequence[Triplet], answers: Sequence[Answer], scorer: str = "local", *,
           encoder: str | None = None) -> Iterator[EMSResult]:
    """As `build(None, scorer).stream`, in the same order, by the workers of the scheduler at `address`.

    The workers need this package in this version. InputError when dask is missing, nothing answers at the
    address or it is lost, or the workers cannot import the package.
    """
    choice: dict[str, Any] = {"scorer": scorer, "encoder": encoder}
    build(None, **choice)                     # says now, and not on a worker, what is wrong with the choice
    by_id, rest = triplets_by_id(triplets), iter(answers)
    if several := next((t.id for t in triplets if t.others), None):
        raise InputError(f"triplet {several!r} has several references, which --scheduler does not compare; "
                         "leave the option out")
    submitted: deque = deque()
    with _connect(address) as client, _explained(address):
        most = CHUNKS_PER_THREAD * max(1, sum(client.nthreads().values()))
        while True:
            while len(submitted) < most and (chunk := list(islice(rest, CHUNK))):
                needed = [by_id[i] for i in dict.fromkeys(a.triplet_id for a in chunk) if i in by_id]
                submitted.append(client.submit(_evaluate_chunk, needed, chunk, pure=False, **choice))
            if not submitted:
                return
            yield from submitted.popleft().result()


def _connect(address: str) -> Client:
    """A client of the scheduler; InputError when dask is missing or nothing answers."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError("evaluation with --scheduler needs dask: pip install 'ems-kit[dask]'") from None
    try:
        return Client(address, timeout=5, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"no Dask scheduler at {address}: {str(error) or type(error).__name__}; start one "
                         "with 'dask scheduler' and give its address, such as tcp://host:8786") from None


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """What can go wrong with workers, each in one line that says what to do."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        yield
    except ImportError as error:
        raise InputError(f"a worker of {address} cannot import what it needs ({error}); install this "
                         "version of ems-kit on every worker") from None
    except CancelledError:
        raise InputError(f"the Dask scheduler at {address} was lost halfway; start it again, and run the "
                         "same command again") from None
    except KilledWorker as error:
        raise InputError(f"a chunk took several workers of {address} down with it ({error}); give them more "
                         "memory") from None


_build_once = cache(build)     # on a worker, since an encoder takes seconds to load


def _evaluate_chunk(triplets: Sequence[Triplet], answers: Sequence[Answer], **choice: Any) -> list[EMSResult]:
    """One chunk, on a worker."""
    return _build_once(None, **choice).evaluate(triplets, answers)
