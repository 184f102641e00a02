"""EMS-Recall, EMS-Precision and EMS-F1 of one answer (paper, section 2.4, equations 5 to 9).

Arithmetic only. `coverage_scores`, at the end, is not the paper's; it shares equations 6, 8 and 9.
"""

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
    """The three metrics of one answer, each in [0, 1]; nan where the divisor is 0."""

    recall: float
    precision: float
    f1: float
    unscored: int  # points left out because a reply could not be read
    reason: str = ""  # why a metric is nan or points are unscored; else empty


def ems_scores(
    match: Indices, score: Values, n_answer_points: int, ref_weights: Weights = ()
) -> Metrics:
    """EMS-Recall, EMS-Precision and EMS-F1 of one answer.

    `match[i]` is the 0-based index of the answer point chosen for reference point i, -1 for none,
    None when the reply could not be read. `score[i]` is s_i in [0, 1], None = unscored.
    `ref_weights` count in recall only.

    An unscored point leaves both the numerator and the denominator of its side. Where a match
    could not be read, nobody knows which answer point it named. An answer point that no readable
    match names scores 0, so a lost match can lower precision and never raise it. Without answer
    points all three metrics are 0. Without reference points, or when none could be scored, all
    three are nan.
    InputError for an impossible alignment (`check_alignment`).
    """
    check_alignment(match, score, n_answer_points, ref_weights)
    s_ref = reference_scores(match, score)  # equation 5
    recall = mean_score(s_ref, ref_weights)  # equation 6
    s_ans = answer_scores(match, s_ref, n_answer_points)  # equation 7
    precision = mean_score(s_ans)  # equation 8
    return _metrics(recall, precision, s_ref, s_ans, counted=s_ref)  # F1: equation 9


def reference_scores(match: Indices, score: Values) -> Scores:
    """Equation 5, s_i: the score of each reference point with its match, 0 without a match.

    None where the match or the score is lost.
    """
    scores: list[float | None] = []
    for index, value in zip(match, score, strict=True):
        if index is None:
            value = None
        elif index == -1:
            value = 0.0
        scores.append(value)
    return tuple(scores)


def mean_score(scores: Values, weights: Weights = ()) -> float:
    """Equation 6 over the reference points, equation 8 over the answer points: the mean score.

    Of the scored points, weighted; nan where these weigh nothing together.
    """
    total, weight = weighted_sum(scores, weights)
    return total / weight if weight else math.nan


def answer_scores(match: Indices, s_ref: Values, n_answer_points: int) -> Scores:
    """Equation 7, s_j: the best s_i of the reference points that chose answer point j, else 0.

    None when it was chosen and no such choice could be scored; None for all answer points when no
    reference point could be scored.
    """
    if s_ref and all(value is None for value in s_ref):
        return (None,) * n_answer_points
    best: list[float | None] = [0.0] * n_answer_points
    choices = [(j, s_i) for j, s_i in zip(match, s_ref, strict=True) if j not in (None, -1)]
    for j, _ in choices:
        best[j] = None  # chosen, and not scored so far
    for j, s_i in choices:
        if s_i is not None:
            best[j] = max(s_i, best[j] or 0.0)
    return tuple(best)


def f1(recall: float, precision: float) -> float:
    """Equation 9: the harmonic mean, in [0, 1]; 0 when both are 0, nan when either is nan."""
    total = recall + precision
    return 2 * recall * precision / total if total else total


def weighted_sum(scores: Values, weights: Weights = ()) -> tuple[float, float]:
    """The weighted sum of the scores that are not None, and the sum of their weights."""
    products, counted = [], []
    for value, weight in zip(scores, weights or [1.0] * len(scores), strict=True):
        if value is not None:
            products.append(value * weight)
            counted.append(weight)
    return math.fsum(products), math.fsum(counted)


def check_alignment(
    match: Indices, score: Values, n_answer_points: int, ref_weights: Weights = ()
) -> None:
    """InputError for lists of different lengths, and for an index, score or weight out of range."""
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


def _metrics(
    recall: float, precision: float, s_ref: Values, s_ans: Values, counted: Values
) -> Metrics:
    """The metrics of an answer, with F1 and the number of `counted` points that are unscored."""
    if not s_ref:
        return Metrics(math.nan, math.nan, math.nan, 0, "the reference has no points")
    if not s_ans:
        return Metrics(0.0, 0.0, 0.0, 0)
    unscored = counted.count(None)
    reason = f"{unscored} of {len(counted)} points unscored" if unscored else ""
    if math.isnan(recall + precision):
        reason = "no point could be scored" if unscored else "no point weighs more than 0"
    # Equation 9 is in `f1`.
    return Metrics(recall, precision, f1(recall, precision), unscored, reason)


def coverage_scores(
    s_ref: Values, s_ans: Values, ref_weights: Weights = (), ans_weights: Weights = ()
) -> Metrics:
    """Recall, precision and F1 of Coverage, where every point of both sides has a score of its own.

    Nothing is matched: equation 7 has no part in it. Degenerate cases are those of `ems_scores`.
    """
    recall = mean_score(s_ref, ref_weights)
    precision = mean_score(s_ans, ans_weights)
    return _metrics(recall, precision, s_ref, s_ans, counted=(*s_ref, *s_ans))
