"""EMS-Recall, EMS-Precision and EMS-F1 of one answer (paper, section 2.4, eq. 5-9). Arithmetic only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .types import InputError, Scores

Indices = Sequence[int | None]  # per reference point: see `ems_scores`
Values = Sequence[float | None]  # per point: in [0, 1], None = unscored
Weights = Sequence[float]  # per point: at least 0; () = every point weighs 1


@dataclass(frozen=True, slots=True)
class Metrics:
    """The three metrics of one answer, each in [0, 1]; nan where there is nothing to divide by."""

    recall: float
    precision: float
    f1: float
    unscored: int  # points left out because a reply could not be read
    reason: str = ""  # why a metric is nan or points are unscored; else empty


def ems_scores(
    match: Indices, score: Values, n_answer_points: int, ref_weights: Weights = ()
) -> Metrics:
    """EMS-Recall, EMS-Precision and EMS-F1 of one answer.

    `match[i]` is the 0-based index of the answer point chosen for reference point i, -1 for none, None when
    the reply could not be read; `score[i]` is s_i in [0, 1], None = unscored. `ref_weights` count in recall.

    An unscored point leaves both the numerator and the denominator of its side. An unreadable match may have
    named any answer point; one that no readable match names counts as not chosen, so lost matches can only
    lower precision. Without answer points all three are 0. Without reference points, or when none could be
    scored, all three are nan. InputError for an impossible alignment (`check_alignment`).
    """
    check_alignment(match, score, n_answer_points, ref_weights)
    s_ref = reference_scores(match, score)  # eq. 5
    s_ans = answer_scores(match, s_ref, n_answer_points)  # eq. 7
    return coverage_scores(s_ref, s_ans, ref_weights, counted=s_ref)


def coverage_scores(
    s_ref: Values,
    s_ans: Values,
    ref_weights: Weights = (),
    ans_weights: Weights = (),
    *,
    counted: Values | None = None,
) -> Metrics:
    """The same from a score for each point of both sides (eq. 6, 8 and 9).

    `counted` are the scores whose unscored ones are counted; by default those of both sides.
    """
    counted = (*s_ref, *s_ans) if counted is None else counted
    if not s_ref:
        return Metrics(math.nan, math.nan, math.nan, 0, "the reference has no points")
    if not s_ans:
        return Metrics(0.0, 0.0, 0.0, 0)
    sums = weighted_sum(s_ref, ref_weights), weighted_sum(s_ans, ans_weights)
    recall, precision = [total / weight if weight else math.nan for total, weight in sums]
    unscored = list(counted).count(None)
    reason = f"{unscored} of {len(counted)} points unscored" if unscored else ""
    if math.isnan(recall + precision):
        reason = "no point could be scored" if unscored else "no point weighs more than 0"
    return Metrics(recall, precision, f1(recall, precision), unscored, reason)


def reference_scores(match: Indices, score: Values) -> Scores:
    """s_i per reference point (eq. 5): its score; 0 without a match, None where match or score is lost."""
    known = [
        value if index is not None else None for index, value in zip(match, score, strict=True)
    ]
    return tuple(value if index != -1 else 0.0 for index, value in zip(match, known, strict=True))


def answer_scores(match: Indices, s_ref: Values, n_answer_points: int) -> Scores:
    """s_j per answer point (eq. 7): the best s_i of the reference points that chose it, 0 when none did.

    None when it was chosen and no such choice could be scored; None for all when no reference point could be.
    """
    if s_ref and all(value is None for value in s_ref):
        return (None,) * n_answer_points
    chosen: list[list[float | None]] = [[] for _ in range(n_answer_points)]
    for index, value in zip(match, s_ref, strict=True):
        if index is not None and index >= 0:
            chosen[index].append(value)
    return tuple(
        max((s for s in values if s is not None), default=None) if values else 0.0
        for values in chosen
    )


def weighted_sum(scores: Values, weights: Weights = ()) -> tuple[float, float]:
    """Weighted sum of the scored entries, and the weight they carry together."""
    scored = [
        (s, w) for s, w in zip(scores, weights or [1.0] * len(scores), strict=True) if s is not None
    ]
    return math.fsum(s * w for s, w in scored), math.fsum(w for _, w in scored)


def f1(recall: float, precision: float) -> float:
    """Harmonic mean in [0, 1] (eq. 9); 0 when both are 0, nan when either is nan."""
    total = recall + precision
    return 2 * recall * precision / total if total else total


def check_alignment(
    match: Indices, score: Values, n_answer_points: int, ref_weights: Weights = ()
) -> None:
    """InputError for lists of different lengths, an index off the list, a score or a weight out of range."""
    if len(match) != len(score) or len(ref_weights) not in (0, len(match)):
        raise InputError(
            "match, score and ref_weights must have one entry per reference point, "
            f"got {len(match)}, {len(score)} and {len(ref_weights)}"
        )
    if not all(0.0 <= weight < math.inf for weight in ref_weights):
        raise InputError(f"weights must be 0 or more, got {list(ref_weights)}")
    for i, (index, value) in enumerate(zip(match, score, strict=True)):
        if index is not None and not -1 <= index < n_answer_points:
            raise InputError(f"match[{i}] must be None or -1..{n_answer_points - 1}, got {index}")
        if value is not None and not 0.0 <= value <= 1.0:
            raise InputError(f"score[{i}] must be None or in [0, 1], got {value}")
