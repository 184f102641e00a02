"""EMS-Recall, EMS-Precision and EMS-F1 from an alignment (paper, section 2.4, eq. 5-9). Arithmetic only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .types import EMSResult


def reference_scores(match: Sequence[int | None], score: Sequence[float | None]) -> tuple[float | None, ...]:
    """s_i per reference point (eq. 5): 0 without a match, None where either is lost, else its score."""
    return tuple(0.0 if a == -1 else None if a is None else s for a, s in zip(match, score, strict=True))


def mean(scores: Sequence[float | None], weights: Sequence[float] = ()) -> float:
    """Mean of the scored entries (eq. 6, 8), by weight if points have one; nan when none counts towards it.

    Weights are not the paper's. A negative one takes off what the others give and is no part of the divisor:
    the mean may be below 0.
    """
    total, weight = weighted_sum(scores, weights)
    return total / weight if weight else math.nan


def weighted_sum(scores: Sequence[float | None], weights: Sequence[float] = ()) -> tuple[float, float]:
    """Weighted sum of the scored entries, and the positive weight they carry; () weighs every entry 1."""
    pairs = zip(scores, weights or [1.0] * len(scores), strict=True)
    scored = [(s, w) for s, w in pairs if s is not None]
    return math.fsum(s * w for s, w in scored), math.fsum(max(w, 0.0) for _, w in scored)


def answer_scores(
    match: Sequence[int | None], score: Sequence[float | None], n_answer_points: int
) -> tuple[float | None, ...]:
    """s_j per answer point (eq. 7): the best score of the reference points that chose it, 0 when none did.

    None (unscored) when it was chosen but none of those choices could be scored: a known choice is not a
    zero.
    """
    chosen: list[list[float | None]] = [[] for _ in range(n_answer_points)]
    for index, value in zip(match, score, strict=True):
        if index is not None and index >= 0:
            chosen[index].append(value)
    return tuple(
        max((s for s in scores if s is not None), default=None) if scores else 0.0 for scores in chosen
    )


def f1(recall: float, precision: float) -> float:
    """Harmonic mean in [0, 1] (eq. 9); 0 when both are 0; nan when either is nan."""
    total = recall + precision
    return 2 * recall * precision / total if total else total


@dataclass(frozen=True, slots=True)
class Metrics:
    """The three metrics of one answer, each in [0, 1] or nan."""

    recall: float
    precision: float
    f1: float
    unscored: int                              # reference points left out because a reply could not be read
    ans_score: tuple[float | None, ...]        # s_j of eq. 7; None = left out
    reason: str = ""                           # why a metric is nan, else empty


def ems_scores(match: Sequence[int | None], score: Sequence[float | None], n_answer_points: int, *,
               ref_weights: Sequence[float] = ()) -> Metrics:
    """EMS-Recall, EMS-Precision and EMS-F1 of one answer (eq. 5-9).

    `match[i]` is the 0-based answer index chosen for reference point i, -1 for none, None when the reply
    could not be read; `score[i]` is s_i in [0, 1], None when unscored. A point that is unscored leaves both
    the numerator and the denominator of its side. `ref_weights` are 1 for every point if left out.

    The paper is silent about what follows. A lost reply about a match may have named any answer point; those
    that no other reference point is known to have chosen count as not chosen, so that lost matches can only
    lower precision: with 9 of 10 lost and the tenth at 1, recall is 1 and precision 0.1. `unscored` says how
    many. No answer points give 0, 0, 0; no reference points, or none that could be scored, give nan for all
    three with a `reason`. A point of negative weight (given with the triplet) should not be said: its score
    is taken off recall, which is 0 at least, and it supports no answer point.

    Raises ValueError for lists of different lengths, an index off the list, a score out of range.
    """
    _check(match, score, n_answer_points, ref_weights)
    s_ref = reference_scores(match, score)
    weights = ref_weights or [1.0] * len(match)
    chosen = [index if w >= 0 else -1 for index, w in zip(match, weights, strict=True)]
    s_ans = answer_scores(chosen, s_ref, n_answer_points)
    if s_ref and s_ref.count(None) == len(s_ref):
        s_ans = (None,) * n_answer_points              # no choice is known: no zeros either
    return side_scores(s_ref, s_ans, ref_weights)


def side_scores(
    s_ref: Sequence[float | None], s_ans: Sequence[float | None],
    ref_weights: Sequence[float] = (), ans_weights: Sequence[float] = (),
) -> Metrics:
    """The three metrics from both sides' scores (eq. 6, 8 and 9); degenerate cases as in `ems_scores`."""
    if not s_ref:
        return Metrics(math.nan, math.nan, math.nan, 0, tuple(s_ans), "the reference has no points")
    if not s_ans:
        return Metrics(0.0, 0.0, 0.0, 0, ())
    recall = max(mean(s_ref, ref_weights), 0.0)                           # eq. 6; nan stays nan
    precision = mean(s_ans, ans_weights)                                  # eq. 8
    unscored = s_ref.count(None)
    reason = "" if not math.isnan(recall + precision) else (
        "no point could be scored" if None in (*s_ref, *s_ans) else "no point weighs more than 0")
    return Metrics(recall, precision, f1(recall, precision), unscored, tuple(s_ans), reason)


def scores_of(result: EMSResult) -> tuple[float | None, ...]:
    """Per reference point what enters recall: s_i of eq. 5, or what a scorer of whole sides says of it."""
    return result.score if result.whole_sides else reference_scores(result.match, result.score)


def _check(match: Sequence[int | None], score: Sequence[float | None], n_answer_points: int,
           ref_weights: Sequence[float]) -> None:
    """ValueError for what is no alignment."""
    if len(match) != len(score):
        raise ValueError(
            f"match and score must have one entry per reference point, got {len(match)} and {len(score)}"
        )
    if ref_weights and len(ref_weights) != len(match):
        raise ValueError(f"ref_weights must have {len(match)} entries, one a point, got {len(ref_weights)}")
    if n_answer_points < 0:
        raise ValueError(f"n_answer_points must be 0 or more, got {n_answer_points}")
    for i, (index, value) in enumerate(zip(match, score, strict=True)):
        if index is not None and not -1 <= index < n_answer_points:
            raise ValueError(f"match[{i}] must be None or -1..{n_answer_points - 1}, got {index}")
        if value is not None and not 0.0 <= value <= 1.0:
            raise ValueError(f"score[{i}] must be None or in [0, 1], got {value}")
