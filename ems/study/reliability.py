"""Does a judge agree with itself, and do several judges agree with one another?

A *rater* is one judge, or one repetition of the same judge. Raters are compared on the same answers and
points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..types import EMSResult, InputError, Judge, Reply, Request, duplicates

PARTS = ("recall", "precision", "f1")


class RepeatedJudge:
    """The same judge asked once more: its requests carry the number of the repetition, so replies stay apart.

    At temperature 0 repetitions show what the server leaves to chance; above, how far one reply can be
    trusted.
    """

    def __init__(self, judge: Judge, repetition: int):
        self.judge, self.repetition, self.name = judge, repetition, judge.name

    @property
    def signature(self) -> str:
        """The judge's signature, and the number of the repetition."""
        return f"{self.judge.signature},sample={self.repetition}"

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """As the judge's own `ask`."""
        return self.judge.ask([replace(request, sample=self.repetition) for request in requests], progress)


def reliability(results: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """How far raters agree on the same answers: `results` holds, by rater, one result an answer.

    A row each for the answers' recall, precision and f1, and for the match index and the score of each
    reference point, over answers for which all raters were given the same points. Answers are joined by
    triplet and model. Columns: level; n, the units (answers or points) that two raters or more rated; raters;
    alpha (`krippendorff_alpha`, nominal for the index, interval for the rest); spread, the mean over units of
    the standard deviation between raters; largest, the largest range within a unit. The last two are nan for
    the index. InputError for fewer than two raters, and for a rater that has an answer twice.
    """
    if len(results) < 2:
        raise InputError(f"agreement needs the results of two raters or more, got {len(results)}")
    by_answer = {rater: {(r.triplet_id, r.model): r for r in rows} for rater, rows in results.items()}
    for rater, rows in results.items():
        if len(by_answer[rater]) < len(rows):
            twice = duplicates([f"{r.model} on {r.triplet_id}" for r in rows])
            raise InputError(f"rater {rater} has {twice[0]} more than once; give one result an answer")
    answers = sorted(set().union(*by_answer.values()))
    rated = [[by_answer[rater].get(answer) for rater in results] for answer in answers]
    rows = [_agreement(part, _ratings([[r and getattr(r, part) for r in row] for row in rated], len(results)))
            for part in PARTS]
    same = [row for row in rated if None not in row and len({(r.ref_points, r.ans_points) for r in row}) == 1]
    for level, field, scale in (("match index", "match", "nominal"), ("point score", "score", "interval")):
        points = [point for row in same for point in zip(*(getattr(r, field) for r in row), strict=True)]
        rows.append(_agreement(level, _ratings(points, len(results)), scale))
    columns = ["level", "n", "raters", "alpha", "spread", "largest"]
    return pd.DataFrame(rows).assign(raters=len(results))[columns]


def _ratings(units: Sequence[Sequence[float | None]], raters: int) -> np.ndarray:
    """(units, raters), nan for None, of the units that two raters or more rated; (0, raters) without any."""
    return _rated_twice(np.array(units, dtype=float).reshape(-1, raters))


def _agreement(level: str, ratings: np.ndarray, scale: str = "interval") -> dict[str, object]:
    """One row of `reliability`."""
    row = {"level": level, "n": len(ratings), "alpha": krippendorff_alpha(ratings, scale)}
    if scale == "nominal" or not len(ratings):
        return row | {"spread": np.nan, "largest": np.nan}
    ranges = np.nanmax(ratings, axis=1) - np.nanmin(ratings, axis=1)
    return row | {"spread": float(np.nanstd(ratings, axis=1, ddof=1).mean()), "largest": float(ranges.max())}


def krippendorff_alpha(ratings: np.ndarray, scale: str = "interval") -> float:
    """Krippendorff's alpha of (units, raters) ratings: 1 = agreement, 0 = chance, below 0 = worse than
    chance.

    `scale` is "nominal", "ordinal", "interval" or "ratio"; nan in `ratings` is a missing rating, and a unit
    that fewer than two raters rated does not count. nan when all ratings that count are equal: chance
    agreement is complete then, and alpha undefined. Computed by the krippendorff package (K. Krippendorff,
    Content Analysis, chapter on reliability); InputError when it is not installed.
    """
    try:
        import krippendorff
    except ImportError:
        raise InputError("Krippendorff's alpha needs its package: pip install 'ems-kit[agreement]'") from None
    counted = _rated_twice(np.asarray(ratings, dtype=float))
    if len(np.unique(counted[np.isfinite(counted)])) < 2:
        return np.nan
    return float(krippendorff.alpha(reliability_data=counted.T, level_of_measurement=scale))


def _rated_twice(ratings: np.ndarray) -> np.ndarray:
    """The units that two raters or more rated."""
    return ratings[np.isfinite(ratings).sum(axis=1) >= 2]
