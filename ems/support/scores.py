"""EMS-Support and what goes with it, from a result whose answer points were checked. Arithmetic only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..types import EMSResult


@dataclass(frozen=True, slots=True)
class SupportScores:
    """What the document says of an answer's points, beside eq. 8; each in [0, 1] or nan.

    Points without a label, and those that the supporter could not check (`Support.checked`), leave numerator
    and denominator of `support`; `unchecked` counts them. The other three are shares of all answer points
    that have a score and a label.
    """

    support: float                # EMS-Support: supported points / checked points
    blind_spot: float             # points that earn nothing in eq. 8 (s_j = 0) and are supported / points
    unsupported: float            # points that earn nothing, were checked, and are not supported / points
    open_precision: float         # EMS-open: mean of max(s_j, 1 if supported else 0)
    points: int                   # answer points that a supporter was asked about
    unchecked: int                # of these, left out of `support`
    unscored: int                 # of these, left out of the other three


def support_scores(result: EMSResult) -> SupportScores:
    """EMS-Support, blind spot, unsupported and open precision of one answer whose points were checked.

    All nan for an answer without points, or whose points were never checked or could not be read: what was
    not said cannot be wrong. A point that could not be checked counts in open precision as what it earns in
    eq. 8, so that open precision is never below eq. 8 over the same points.
    """
    entries = result.support
    checked = [s for s in entries if s.checked]
    supported = sum(s.label == "supported" for s in checked)
    both = zip(result.ans_score, entries, strict=True) if result.ans_score and entries else ()
    scored = [(s_j, s) for s_j, s in both if s_j is not None and s.label is not None]
    nothing = [s for s_j, s in scored if s_j == 0 and s.checked]

    def share(count: float) -> float:
        return count / len(scored) if scored else math.nan

    return SupportScores(
        support=supported / len(checked) if checked else math.nan,
        blind_spot=share(sum(s.label == "supported" for s in nothing)),
        unsupported=share(sum(s.label != "supported" for s in nothing)),
        open_precision=share(math.fsum(1.0 if s.label == "supported" else s_j for s_j, s in scored)),
        points=len(entries), unchecked=len(entries) - len(checked), unscored=len(entries) - len(scored))
