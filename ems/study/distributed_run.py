"""Local and BERTScore evaluation of large sets on a Dask cluster, partition by partition.

A judge scales by its endpoint instead: one address in front of many servers, or batch files. What a lost worker had
under way is computed again by another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from functools import cache
from itertools import islice

from ..pipeline import CHUNK, EMS, build, references_by_id
from ..types import Answer, EMSResult, InputError, Triplet

AHEAD = 4                # partitions under way for each thread of the cluster, so that memory stays flat


def stream(address: str, triplets: Sequence[Triplet], answers: Sequence[Answer], scorer: str = "local", *,
           encoder: str | None = None) -> Iterator[EMSResult]:
    """As `build(None, scorer).stream`, with the work done by the cluster whose scheduler is at `address`.

    Results come in the order of the answers and are the same as on one machine: the partitions are its chunks. The
    workers need this package in this version. InputError when dask is missing, nobody answers at the address or it is
    lost, or the workers cannot import the package.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise InputError("evaluating on a cluster needs dask: pip install 'ems-kit[dask]'") from None
    build(None, scorer, encoder=encoder)      # says now, and not on a worker, what is wrong with the choice
    references_by_id(triplets)
    by_id, rest, under_way = {t.id: t for t in triplets}, iter(answers), deque()
    try:
        client = Client(address, timeout=5, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"no Dask scheduler at {address}: {str(error) or type(error).__name__}; start one with "
                         "'dask scheduler' and give its address, such as tcp://host:8786") from None
    with client:
        room = AHEAD * max(1, sum(client.nthreads().values()))
        while True:
            for part in iter(lambda: list(islice(rest, CHUNK)), []):
                needed = [by_id[i] for i in dict.fromkeys(a.triplet_id for a in part) if i in by_id]
                under_way.append(client.submit(_evaluated, needed, part, scorer, encoder, pure=False))
                if len(under_way) >= room:
                    break
            if not under_way:
                return
            try:
                yield from under_way.popleft().result()
            except ImportError as error:
                raise InputError(f"a worker of {address} cannot import what it needs ({error}); install this version "
                                 "of ems-kit on every worker") from None
            except CancelledError:
                raise InputError(f"the Dask scheduler at {address} was lost halfway; start it again, and run the same "
                                 "command anew") from None
            except KilledWorker as error:
                raise InputError(f"a partition took several workers of {address} down with it ({error}); give them "
                                 "more memory") from None


def _evaluated(triplets: Sequence[Triplet], answers: Sequence[Answer], scorer: str,
               encoder: str | None) -> list[EMSResult]:
    """One partition, on a worker."""
    return _pipeline(scorer, encoder).evaluate(triplets, answers)


@cache
def _pipeline(scorer: str, encoder: str | None) -> EMS:
    """A worker's pipeline, made once: an encoder takes seconds to load."""
    return build(None, scorer, encoder=encoder)
