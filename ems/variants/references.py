"""Answers held against several references, of which the best counts. The paper has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan

from ..types import Answer, EMSResult, Triplet

BEST = "|references:best of "             # ends the signature where answers have several references
Evaluate = Callable[[Mapping[str, Triplet], Sequence[Answer]], list[EMSResult]]


def best_of(most: int, triplets: Mapping[str, Triplet], answers: Sequence[Answer],
            evaluate: Evaluate) -> list[EMSResult]:
    """Each answer's result by the reference under which its F1 is highest; of equal ones by the first.

    `evaluate` gives the results with the first reference of the triplets that it is given, by id; `most` is
    how many further ones a triplet has at most.
    """
    options = [[result] for result in evaluate(triplets, answers)]
    for k in range(most):
        further = {name: replace(t, reference=t.others[k])
                   for name, t in triplets.items() if len(t.others) > k}
        asked = [i for i, a in enumerate(answers) if a.triplet_id in further]
        for i, result in zip(asked, evaluate(further, [answers[i] for i in asked]), strict=True):
            options[i].append(result)
    best = map(_highest, options)
    return [replace(r, signature=f"{r.signature}{BEST}{most + 1}") for r in best]


def best_ending(signature: str) -> str:
    """What a signature says where the best of several references counted; empty where there was one."""
    count = signature.rpartition(BEST)[2].partition("|")[0]
    return BEST + count if BEST in signature else ""


def _highest(options: Sequence[EMSResult]) -> EMSResult:
    """An answer's result by the reference of the highest F1, of equal ones the first; each reference that a
    judge's failure left without a value counts as an unscored point.
    """
    best = max(options, key=lambda r: -1.0 if isnan(r.f1) else r.f1)
    lost = sum(r.unscored > 0 and isnan(r.f1) for r in options)
    if not lost or isnan(best.f1):
        return best
    note = f"{lost} of {len(options)} references could not be scored"
    return replace(best, unscored=best.unscored + lost, reason="; ".join(filter(None, (best.reason, note))))
