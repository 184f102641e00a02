"""Sums behind EMS-Recall and EMS-Precision, from which any pooled score can be made."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..metrics import scores_of, weighted_sum
from ..types import EMSResult


@dataclass(frozen=True, slots=True)
class Tally:
    """What one answer adds to a pooled score: any pooling or resampling can be redone without a judge.

    `ref_sum / ref_n` is EMS-Recall (eq. 6), or below 0 where recall is 0; `ans_sum / ans_n` is EMS-Precision
    (eq. 8). Addition is element-wise.
    """

    ref_sum: float                # sum of (weighted) s_i over scored reference points
    ref_n: float                  # how many of them there are (their weight, for a weighted scorer)
    ans_sum: float                # sum of (weighted) s_j over scored answer points
    ans_n: float
    unscored: int = 0             # points without a readable match or score, as `EMSResult.unscored`

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def tally(result: EMSResult) -> Tally:
    """The sums behind a result's recall and precision; all 0 for an answer without metrics."""
    if result.lost or not result.ref_points:
        return Tally(0.0, 0.0, 0.0, 0.0, result.unscored)
    if not result.ans_points:                  # a refusal: recall 0 over all points, no precision to pool
        return Tally(0.0, weighted_sum([0.0] * len(result.ref_points), result.ref_weights)[1], 0.0, 0.0)
    ref_sum, ref_n = weighted_sum(scores_of(result), result.ref_weights)
    ans_sum, ans_n = weighted_sum(result.ans_score, result.ans_weights)
    return Tally(ref_sum, ref_n, ans_sum, ans_n, result.unscored)
