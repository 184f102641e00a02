"""Which metric ranks systems as people do? Means of a metric by system beside the share of right answers.

Scores are wide: a row per answer (triplet_id, model, group), a column per metric and part. Labels are
triplet_id, model, group, correct (bool); they may be of more triplets than the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ems.analysis.frames import by_size
from ems.analysis.stats import auc, paired_table, summarise, with_verdicts
from ems.terminal import first_few, notify
from ems.types import InputError

LEAST = 0.05  # of p, below which two systems are told apart
KEYS = ["group", "triplet_id"]


def labelled(sizes: Mapping[str, Any], models: Iterable[str]) -> dict[str, Any]:
    """The models of a run that `sizes` names, with its labels; all by size where it names none of them."""
    present = sorted(set(models), key=by_size)
    absent = [model for model in sizes if model not in present]
    if 0 < len(absent) < len(sizes):
        notify(f"no answers of {first_few(absent)} in this run; there are {first_few(present, 9)}")
    return {model: size for model, size in sizes.items() if model in present} or {
        m: m for m in present
    }


def as_values(scores: pd.DataFrame, metrics: Mapping[str, str]) -> pd.DataFrame:
    """Columns of `scores` as a frame of values (`ems.analysis.frames.COLUMNS`), each a metric with the part Score."""
    whose = scores[["model", "triplet_id", "group"]]
    frames = [
        whose.assign(metric=name, part="Score", value=scores[column].astype(float))
        for name, column in metrics.items()
    ]
    return pd.concat(frames, ignore_index=True).assign(
        num=nan, den=nan, units=1, unscored=0, signature=""
    )


def families(
    scores: pd.DataFrame,
    metrics: Mapping[str, str],
    systems: Mapping[str, tuple[str, str, float]],
    cluster: str = "group",
    seed: int = 7,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means by system (`ems.summarise`), and each system against the next smaller one of its family
    (`ems.paired_table`), both with columns family and size in billions of parameters.

    `systems` maps a name to (file, family, size); systems without a family are left out. Holm's correction is
    over all steps of a metric.
    """
    known = {name: (family, size) for name, (_, family, size) in systems.items() if family}
    values = as_values(scores[scores["model"].isin(list(known))], metrics).dropna(subset="value")
    steps = []
    for family in dict.fromkeys(family for family, _ in known.values()):
        names = [name for name in known if known[name][0] == family]
        pairs = paired_table(
            values[values["model"].isin(names)], models=names, cluster=cluster, seed=seed
        )
        nearest = pairs["a"].map(names.index) - pairs["b"].map(names.index) == 1
        steps.append(pairs[nearest])
    tables = summarise(values, cluster=cluster), with_verdicts(pd.concat(steps, ignore_index=True))
    for table, column in zip(tables, ("model", "a"), strict=True):
        table["family"], table["size"] = zip(*table[column].map(known), strict=True)
    return tables


def areas(values: pd.DataFrame, pairs: pd.DataFrame) -> list[float]:
    """For each row of `ems.paired_table` the chance that an answer of `a` outscores one of `b`; ties half."""
    of = dict(list(values.dropna(subset="value").groupby(["metric", "part", "model"])["value"]))
    found = []
    for row in pairs.itertuples():
        high, low = (of[row.metric, row.part, model] for model in (row.a, row.b))
        found.append(auc([*high, *low], [1] * len(high) + [0] * len(low)))
    return found


def ranking(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    metrics: Mapping[str, str],
    resamples: int = 1000,
    seed: int = 7,
) -> pd.DataFrame:
    """How well each metric orders systems by their share of right answers; a row per metric.

    `metrics` maps names for people to columns of `scores`. Pairs of systems with equal shares are left out.
    InputError where no pair is left.

    kendall            tau-b of the systems' means with their shares of right answers
    pairs              share of pairs of systems that the means put in the right order (ties half), and its
                       95 % interval when whole groups are resampled
    soft               soft pairwise accuracy (Thompson et al., 2024): 1 less the mean distance, over the
                       pairs, of the metric's one-sided permutation p from that of the labels; 0 to 1
    apart_right        pairs told apart (paired t test over groups, p < 0.05, uncorrected) in the right order
    apart_wrong        pairs told apart in the wrong order
    of                 pairs of systems
    """
    pairs = _Pairs(labels)
    expected = _one_sided(pairs.differences(labels, "correct"), resamples, seed)
    rows = []
    for name, column in metrics.items():
        means, drawn = pairs.means(scores, column, resamples, seed)
        low, high = np.nanpercentile(pairs.in_order(drawn), [2.5, 97.5])
        differences = pairs.differences(scores, column)
        right, wrong = _told_apart(differences.groupby("group").mean().to_numpy())
        distance = np.abs(_one_sided(differences, resamples, seed) - expected)
        rows.append(
            {
                "metric": name,
                "kendall": stats.kendalltau(means, pairs.share).statistic,
                "pairs": pairs.in_order(means),
                "ci_low": low,
                "ci_high": high,
                "soft": 1 - distance.mean(),
                "apart_right": right,
                "apart_wrong": wrong,
                "of": len(pairs.worse),
            }
        )
    return pd.DataFrame(rows).set_index("metric")


def differences(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    metrics: Mapping[str, str],
    against: str,
    resamples: int = 1000,
    seed: int = 7,
) -> pd.DataFrame:
    """By how much each metric puts more pairs of systems in the right order than the metric `against` does.

    difference, and its 95 % interval when whole groups are resampled, for both metrics alike; p, two-sided,
    of permuting which of the two metrics a cell (a system's answer to one question) takes its standardised
    value from (PERM-BOTH: Deutsch et al., 2021). Answers without a value of either metric are left out.
    """
    pairs, rng = _Pairs(labels), np.random.default_rng(seed)
    rows = []
    for name in metrics.keys() - {against}:
        two = [metrics[name], metrics[against]]
        known = scores.dropna(subset=two)
        known = known.assign(**{column: stats.zscore(known[column]) for column in two})
        (one, drawn), (other, drawn_other) = (
            pairs.means(known, column, resamples, seed) for column in two
        )
        observed = pairs.in_order(one) - pairs.in_order(other)
        low, high = np.nanpercentile(
            pairs.in_order(drawn) - pairs.in_order(drawn_other), [2.5, 97.5]
        )
        codes = pd.Categorical(known["model"], categories=pairs.share.index).codes
        swap = rng.random((resamples, len(known))) < 0.5
        mixed = [np.where(swap, known[a], known[b]) for a, b in (two, two[::-1])]
        permuted = [
            pairs.in_order(values @ np.eye(len(pairs.share))[codes] / np.bincount(codes))
            for values in mixed
        ]
        extreme = np.abs(permuted[0] - permuted[1]) >= abs(observed) - 1e-9
        rows.append(
            {
                "metric": name,
                "against": against,
                "difference": observed,
                "ci_low": low,
                "ci_high": high,
                "p": (extreme.sum() + 1) / (resamples + 1),
            }
        )
    return pd.DataFrame(rows).set_index("metric").loc[[name for name in metrics if name != against]]


class _Pairs:
    """The pairs of systems with different shares of right answers, and which system is the better one."""

    def __init__(self, labels: pd.DataFrame):
        self.share = labels.groupby("model")["correct"].mean().sort_values()
        pairs = [
            (i, j)
            for i, j in combinations(range(len(self.share)), 2)
            if self.share.iloc[i] < self.share.iloc[j]
        ]
        if not pairs:
            raise InputError(
                f"nothing to rank: {len(self.share)} systems with one share of right answers"
            )
        self.worse, self.better = np.array(pairs).T

    def in_order(self, means: np.ndarray) -> Any:
        """The share of pairs whose better system has the higher mean, along the last axis; ties half."""
        return ((np.sign(means[..., self.better] - means[..., self.worse]) + 1) / 2).mean(axis=-1)

    def means(
        self, scores: pd.DataFrame, column: str, resamples: int, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The systems' means, and a row of them for each time that groups are drawn with replacement."""
        cells = scores.pivot_table(
            index="group", columns="model", values=column, aggfunc=["sum", "count"]
        )
        sums, counts = (
            cells[kind][self.share.index].fillna(0).to_numpy() for kind in ("sum", "count")
        )
        chances = np.full(len(sums), 1 / len(sums))
        times = np.random.default_rng(seed).multinomial(len(sums), chances, resamples)
        with np.errstate(invalid="ignore"):  # nan: a system without a value in a draw
            return sums.sum(axis=0) / counts.sum(axis=0), (times @ sums) / (times @ counts)

    def differences(self, scores: pd.DataFrame, column: str) -> pd.DataFrame:
        """The better system's value less the worse one's: a row per triplet, a column per pair."""
        table = scores.pivot(index=KEYS, columns="model", values=column)[self.share.index].astype(
            float
        )
        values = table.to_numpy()
        return pd.DataFrame(values[:, self.better] - values[:, self.worse], index=table.index)


def _one_sided(differences: pd.DataFrame, resamples: int, seed: int) -> np.ndarray:
    """For each column, p of a sum as high as this when the signs of whole groups are drawn by chance."""
    sums = differences.fillna(0.0).groupby("group").sum().to_numpy()
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(resamples, len(sums)))
    above = signs @ sums >= sums.sum(axis=0) - 1e-9
    return np.asarray((above.sum(axis=0) + 1) / (resamples + 1))


def _told_apart(means: np.ndarray) -> tuple[int, int]:
    """How many columns have a mean that a t test tells from 0: above it, below it. nan are left out."""
    varied = np.nanstd(means, axis=0) > 0
    test = stats.ttest_1samp(means[:, varied], 0, nan_policy="omit")
    apart = test.pvalue < LEAST
    return int((apart & (test.statistic > 0)).sum()), int((apart & (test.statistic < 0)).sum())
