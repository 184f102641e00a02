"""EMS-Recall, EMS-Precision and EMS-F1 from an alignment (paper, section 2.4, eq. 5-9). Arithmetic only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .types import Tally


@dataclass(frozen=True, slots=True)
class Scores:
    """The three metrics of one answer, each in [0, 1] or nan, with what they were summed from."""

    recall: float
    precision: float
    f1: float
    unscored: int                      # reference points left out because a reply could not be read
    ans_score: tuple[float | None, ...]    # s_j of eq. 7; None = left out
    tally: Tally
    reason: str = ""                   # why a metric is nan, else empty


def f1(recall: float, precision: float) -> float:
    """Harmonic mean in [0, 1]; 0 when both are 0; nan when either is nan (EMS-F1, eq. 9)."""
    total = recall + precision
    return 2 * recall * precision / total if total else total


def answer_scores(
    match: Sequence[int | None], score: Sequence[float | None], n_answer_points: int
) -> tuple[float | None, ...]:
    """Carry the reference side's scores over to the answer points (eq. 7).

    An answer point gets the best score of the reference points that chose it and 0 when none did. It is None
    (unscored) when it was chosen but none of those choices could be scored: a known choice is not a zero.
    """
    chosen: list[list[float | None]] = [[] for _ in range(n_answer_points)]
    for index, value in zip(match, score, strict=True):
        if index is not None and index >= 0:
            chosen[index].append(value)
    return tuple(
        max((s for s in scores if s is not None), default=None) if scores else 0.0 for scores in chosen
    )


def ems_scores(
    match: Sequence[int | None],
    score: Sequence[float | None],
    n_answer_points: int,
    *,
    ans_score: Sequence[float | None] | None = None,
    ref_weights: Sequence[float] | None = None,
    ans_weights: Sequence[float] | None = None,
) -> Scores:
    """EMS-Recall, EMS-Precision and EMS-F1 of one answer (eq. 5-9).

    `match[i]` is the 0-based answer index chosen for reference point i, -1 for none, None when the reply could not
    be read; `score[i]` is s_i in [0, 1], None when unscored. An unmatched point scores 0 whatever `score` says
    (eq. 5). A point that is unscored leaves both the numerator and the denominator of its side.

    `ans_score`, `ref_weights`, `ans_weights` serve scorers that judge the answer side on its own or weigh points;
    left out, they are eq. 7 and 1 for every point.

    A reply about a match that was lost may have named any answer point. Those that no other reference point is known to
    have chosen count as not chosen, 0: lost matches lower precision. With 9 of 10 lost and the tenth at 1, recall is 1 and
    precision 0.1; `unscored` says how many, and coverage shows it.

    Degenerate cases: no answer points give 0, 0, 0; no reference points, or none that could be scored, give nan for all
    three with a `reason` (precision keeps its value only where `ans_score` judges the answer side on its own).
    Raises ValueError for lists of different lengths, an index off the list, a score out of range.
    """
    if len(match) != len(score):
        raise ValueError(f"match and score must have one entry per reference point, got {len(match)} and {len(score)}")
    if n_answer_points < 0:
        raise ValueError(f"n_answer_points must be 0 or more, got {n_answer_points}")
    for i, (index, value) in enumerate(zip(match, score, strict=True)):
        if index is not None and not -1 <= index < n_answer_points:
            raise ValueError(f"match[{i}] must be None or -1..{n_answer_points - 1}, got {index}")
        if value is not None and not 0.0 <= value <= 1.0:
            raise ValueError(f"score[{i}] must be None or in [0, 1], got {value}")

    s_ref = [0.0 if a == -1 else None if a is None else s for a, s in zip(match, score, strict=True)]
    s_ans = answer_scores(match, s_ref, n_answer_points) if ans_score is None else tuple(ans_score)
    if len(s_ans) != n_answer_points:
        raise ValueError(f"ans_score must have one entry per answer point, got {len(s_ans)} for {n_answer_points}")
    unscored = sum(s is None for s in s_ref)

    if not s_ref:
        tally = Tally(0.0, 0.0, 0.0, 0.0)
        return Scores(math.nan, math.nan, math.nan, 0, s_ans, tally, "the reference has no points")
    if n_answer_points == 0:
        scored = len(s_ref) if ref_weights is None else math.fsum(ref_weights)
        return Scores(0.0, 0.0, 0.0, 0, (), Tally(0.0, float(scored), 0.0, 0.0), "")

    ref_sum, ref_n = _weighted(s_ref, ref_weights)
    ans_sum, ans_n = _weighted(s_ans, ans_weights)
    if ans_score is None and not ref_n:                    # nothing is known of any choice: no zeros either
        ans_sum = ans_n = 0.0
    recall = ref_sum / ref_n if ref_n else math.nan
    precision = ans_sum / ans_n if ans_n else math.nan
    reason = "" if ref_n and ans_n else "no point could be scored"
    tally = Tally(ref_sum, ref_n, ans_sum, ans_n, unscored)
    return Scores(recall, precision, f1(recall, precision), unscored, s_ans, tally, reason)


def _weighted(scores: Sequence[float | None], weights: Sequence[float] | None) -> tuple[float, float]:
    """Weighted sum of the scored entries and the weight they carry."""
    weights = [1.0] * len(scores) if weights is None else weights
    if len(weights) != len(scores):
        raise ValueError(f"weights must have one entry per point, got {len(weights)} for {len(scores)} points")
    kept = [(s, w) for s, w in zip(scores, weights, strict=True) if s is not None]
    return math.fsum(s * w for s, w in kept), math.fsum(w for _, w in kept)
