"""A stage beside the paper's three: what the triplet's document says of each answer point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ..types import EMSResult, InputError, Points, Support, Triplet


class Supporter(Protocol):
    """Anything that says of each point whether its document supports it: called with (document, points)."""

    signature: str

    def __call__(self, answers: Sequence[tuple[str, Points]]) -> list[tuple[Support, ...]]: ...


def with_support(results: Sequence[EMSResult], triplets: Sequence[Triplet],
                 supporter: Supporter) -> list[EMSResult]:
    """The results with every answer point checked against its triplet's context; nothing else changes.

    The signature gains the supporter's. InputError for a result of an unknown triplet, and for a triplet
    without context.
    """
    contexts = contexts_by_id([t for t in triplets if t.id in {r.triplet_id for r in results}])
    if unknown := sorted({r.triplet_id for r in results} - contexts.keys()):
        raise InputError(f"no triplet {unknown[0]!r} among those given; give those that were answered")
    judge = getattr(supporter, "judge", None)
    sign = f"|support:{supporter.signature}" + (f"|support by {judge.signature}" if judge else "")
    signed = [replace(r, signature=r.signature + sign) for r in results]
    return supported(signed, contexts, supporter)


def support_ending(signature: str) -> str:
    """What `with_support` added to a signature; empty where it was not called."""
    return "".join(signature.rpartition("|support:")[1:]) if "|support:" in signature else ""


def supported(results: Sequence[EMSResult], contexts: Mapping[str, str],
              supporter: Supporter) -> list[EMSResult]:
    """The results with what the document of each, by triplet id, says of its answer points."""
    found = supporter([(contexts[r.triplet_id], r.ans_points) for r in results])
    return [replace(r, support=tuple(support)) for r, support in zip(results, found, strict=True)]


def contexts_by_id(triplets: Sequence[Triplet]) -> dict[str, str]:
    """Context by triplet id; InputError for a triplet without one, or with an empty one."""
    if without := [t.id for t in triplets if not (t.context or "").strip()]:
        raise InputError(f"checking points against the document needs a context, and {len(without)} of "
                         f"{len(triplets)} triplets have none or an empty one, e.g. {without[0]!r}; put the "
                         "document's text into the triplet's 'context', or ask for no support")
    return {t.id: t.context or "" for t in triplets}
