"""Does a judge agree with itself, and do several judges agree with one another?

A *rater* is one judge, or one repetition of the same judge. Raters are compared on the same answers and
points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from ..types import EMSResult, InputError, Judge, Reply, Request, duplicates

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
PARTS = ("recall", "precision", "f1")
# What is compared of each reference point: the level's name, the field of a result, the scale of its values.
POINT_LEVELS: tuple[tuple[str, str, Scale], ...] = (
    ("match index", "match", "nominal"), ("point score", "score", "interval"))


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
    for rater, answers in results.items():
        if twice := duplicates([f"{r.model} on {r.triplet_id}" for r in answers]):
            raise InputError(f"rater {rater} has {twice[0]} more than once; give one result an answer")
    by_rater = [{(r.triplet_id, r.model): r for r in answers} for answers in results.values()]
    keys = sorted({key for by_key in by_rater for key in by_key})
    rated = [[by_key.get(key) for by_key in by_rater] for key in keys]
    rows = []
    for part in PARTS:
        values = [[None if r is None else getattr(r, part) for r in row] for row in rated]
        rows.append(_agreement(part, _ratings(values, len(results))))
    same = [row for row in rated
            if len({None if r is None else (r.ref_points, r.ans_points) for r in row}) == 1]
    for level, field, scale in POINT_LEVELS:
        points = [point for row in same for point in zip(*(getattr(r, field) for r in row), strict=True)]
        rows.append(_agreement(level, _ratings(points, len(results)), scale))
    columns = ["level", "n", "raters", "alpha", "spread", "largest"]
    return pd.DataFrame(rows).assign(raters=len(results))[columns]


def _ratings(units: Sequence[Sequence[float | None]], raters: int) -> np.ndarray:
    """(units, raters), nan for None, of the units that two raters or more rated; (0, raters) without any."""
    return _rated_twice(np.array(units, dtype=float).reshape(-1, raters))


def _agreement(level: str, ratings: np.ndarray, scale: Scale = "interval") -> dict[str, object]:
    """One row of `reliability`."""
    row = {"level": level, "n": len(ratings), "alpha": krippendorff_alpha(ratings, scale)}
    if scale == "nominal" or not len(ratings):
        return row | {"spread": np.nan, "largest": np.nan}
    ranges = np.nanmax(ratings, axis=1) - np.nanmin(ratings, axis=1)
    return row | {"spread": float(np.nanstd(ratings, axis=1, ddof=1).mean()), "largest": float(ranges.max())}


def krippendorff_alpha(ratings: np.ndarray, scale: Scale = "interval") -> float:
    """Krippendorff's alpha of (units, raters) ratings: 1 is agreement, 0 chance, less is worse than chance.

    `scale` is that of the ratings. nan in `ratings` is a missing rating; a unit that fewer than two raters
    rated does not count. nan when all ratings that count are equal: agreement by chance is complete then, and
    alpha undefined. Computed by the krippendorff package, after K. Krippendorff, Content Analysis (chapter on
    reliability). InputError when the package is not installed.
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
