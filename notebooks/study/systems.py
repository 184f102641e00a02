"""Which metric ranks systems as people do? Means of a metric by system beside the share of right answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ems.frames import by_size
from ems.types import InputError

LEAST = 0.05              # of p, below which two systems are told apart


def labelled(sizes: Mapping[str, Any], models: Iterable[str]) -> dict[str, Any]:
    """The models of a run in the order of `sizes`, with its labels; all by size where it has none of them."""
    present = set(models)
    known = {model: size for model, size in sizes.items() if model in present}
    return known or {model: model for model in sorted(present, key=by_size)}


def ranking(scores: pd.DataFrame, labels: pd.DataFrame, metrics: Mapping[str, str], resamples: int = 1000,
            seed: int = 7) -> pd.DataFrame:
    """How well each metric orders systems by their share of right answers; a row per metric.

    `scores`: triplet_id, model, group and a column per metric. `labels`: triplet_id, model, correct (bool).
    `metrics` maps names for people to columns. Pairs of systems with equal shares are left out. InputError
    where no pair is left.

    kendall            tau-b of the systems' means with their shares of right answers
    pairs              share of pairs of systems that the means put in the right order (ties half), and its
                       95 % interval when whole groups are resampled
    apart_right        pairs told apart (paired t test over groups, p < 0.05, uncorrected) in the right order
    apart_wrong        pairs told apart in the wrong order
    of                 pairs of systems
    """
    share = labels.groupby("model")["correct"].mean().sort_values()
    pairs = [(i, j) for i, j in combinations(range(len(share)), 2) if share.iloc[i] < share.iloc[j]]
    if not pairs:
        raise InputError(f"nothing to rank: {len(share)} systems, all with the same share of right answers")
    worse, better = np.array(pairs).T
    groups = scores["group"].nunique()
    times_drawn = np.random.default_rng(seed).multinomial(groups, np.full(groups, 1 / groups), resamples)
    rows = []
    for name, column in metrics.items():
        cells = scores.pivot_table(index="group", columns="model", values=column, aggfunc=["sum", "count"])
        sums, counts = (cells[kind][share.index].fillna(0).to_numpy() for kind in ("sum", "count"))
        overall = sums.sum(axis=0) / counts.sum(axis=0)
        with np.errstate(invalid="ignore"):      # nan: a system without a value in a group, or in a draw
            by_group, drawn = sums / counts, (times_drawn @ sums) / (times_drawn @ counts)
        low, high = np.nanpercentile(_in_order(drawn[:, better] - drawn[:, worse]), [2.5, 97.5])
        right, wrong = _told_apart(by_group[:, better] - by_group[:, worse])
        rows.append({"metric": name, "kendall": stats.kendalltau(overall, share).statistic,
                     "pairs": _in_order(overall[better] - overall[worse]), "ci_low": low, "ci_high": high,
                     "apart_right": right, "apart_wrong": wrong, "of": len(pairs)})
    return pd.DataFrame(rows).set_index("metric")


def _in_order(differences: np.ndarray) -> np.ndarray:
    """Share of differences (better system less worse one) above 0 along the last axis; 0 counts half."""
    return ((np.sign(differences) + 1) / 2).mean(axis=-1)


def _told_apart(differences: np.ndarray) -> tuple[int, int]:
    """How many columns have a mean that a t test tells from 0: above it, below it. nan are left out."""
    varied = np.nanstd(differences, axis=0) > 0
    test = stats.ttest_1samp(differences[:, varied], 0, nan_policy="omit")
    apart = test.pvalue < LEAST
    return int((apart & (test.statistic > 0)).sum()), int((apart & (test.statistic < 0)).sum())
