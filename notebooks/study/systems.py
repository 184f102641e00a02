"""Which metric ranks systems as people do? Means by system beside the share of right answers.

Scores are wide: a row per answer (triplet_id, model, group), a column per metric and part. Labels
are triplet_id, model, group, correct (bool); they may be of more triplets than the scores.
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

ALPHA = 0.05  # two systems are told apart where p is below it
TOLERANCE = 1e-9  # two sums or shares that differ by less are equal


def labelled(sizes: Mapping[str, Any], models: Iterable[str]) -> dict[str, Any]:
    """The models of a run that `sizes` names, with its labels; if it names none, all, by size."""
    present = sorted(set(models), key=by_size)
    absent = [model for model in sizes if model not in present]
    if len(absent) == len(sizes):
        return {model: model for model in present}
    if absent:
        notify(f"no answers of {first_few(absent)} in this run; there are {first_few(present, 9)}")
    return {model: size for model, size in sizes.items() if model in present}


# --- families of systems ---


def families(
    scores: pd.DataFrame,
    metrics: Mapping[str, str],
    systems: Mapping[str, tuple[str, str, float]],
    cluster: str = "group",
    seed: int = 7,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means by system, and steps: each system minus the next smaller one of its family.

    The tables are those of `ems.summarise` and `ems.paired_table`, with the columns family and size
    (billions of parameters). `systems` maps a name to (file, family, size); systems without a
    family are left out. Holm's correction is over all steps of a metric.
    """
    family_of = {name: family for name, (_, family, _) in systems.items() if family}
    values = as_values(scores[scores["model"].isin(list(family_of))], metrics)
    values = values.dropna(subset="value")
    steps = []
    for family in dict.fromkeys(family_of.values()):
        names = [name for name in family_of if family_of[name] == family]
        of_family = values[values["model"].isin(names)]
        pairs = paired_table(of_family, models=names, cluster=cluster, seed=seed)
        is_step = pairs["a"].map(names.index) - pairs["b"].map(names.index) == 1
        steps.append(pairs[is_step])
    means = summarise(values, cluster=cluster)
    tables = means, with_verdicts(pd.concat(steps, ignore_index=True))
    for table, column in zip(tables, ("model", "a"), strict=True):
        table["family"] = table[column].map(family_of)
        table["size"] = [systems[name][2] for name in table[column]]
    return tables


def as_values(scores: pd.DataFrame, metrics: Mapping[str, str]) -> pd.DataFrame:
    """Columns of `scores` as a frame of values (`ems.analysis.frames.COLUMNS`).

    `metrics` maps each metric's name to its column; the part is Score.
    """
    answers = scores[["model", "triplet_id", "group"]]
    frames = []
    for name, column in metrics.items():
        frames.append(answers.assign(metric=name, value=scores[column].astype(float)))
    table = pd.concat(frames, ignore_index=True)
    return table.assign(part="Score", num=nan, den=nan, units=1, unscored=0, signature="")


def areas(values: pd.DataFrame, pairs: pd.DataFrame) -> list[float]:
    """The chance that an answer of `a` has a higher value than one of `b`; a tie counts half.

    `pairs` is a table of `ems.paired_table`; the list has a number in [0, 1] for each of its rows.
    """
    scored = values.dropna(subset="value")
    values_of = dict(list(scored.groupby(["metric", "part", "model"])["value"]))
    chances = []
    for row in pairs.itertuples():
        a = values_of[row.metric, row.part, row.a]
        b = values_of[row.metric, row.part, row.b]
        chances.append(auc([*a, *b], [1] * len(a) + [0] * len(b)))
    return chances


# --- the order of systems ---


def ranking(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    metrics: Mapping[str, str],
    resamples: int = 1000,
    seed: int = 7,
) -> pd.DataFrame:
    """How well each metric orders systems by their share of right answers; a row per metric.

    `metrics` maps names for people to columns of `scores`. Pairs of systems with equal shares are
    left out. InputError where no pair is left.

    kendall            tau-b of the systems' means with their shares of right answers
    pairs              share of pairs of systems that the means put in the right order (a tie counts
                       half), and its 95 % interval when whole groups are resampled
    soft               soft pairwise accuracy (Thompson et al., 2024): 1 minus the mean distance,
                       over the pairs, of the metric's one-sided permutation p from that of the
                       labels; 0 to 1
    apart_right        pairs told apart (paired t test over groups, p < 0.05, uncorrected) in the
                       right order
    apart_wrong        pairs told apart in the wrong order
    of                 pairs of systems
    """
    pairs = _SystemPairs(labels, resamples, seed)
    p_of_labels = pairs.one_sided_p(pairs.differences(labels, "correct"))
    rows = []
    for name, column in metrics.items():
        means, draws = pairs.means(scores, column)
        low, high = np.nanpercentile(pairs.in_order(draws), [2.5, 97.5])
        differences = pairs.differences(scores, column)
        right, wrong = _told_apart(differences.groupby("group").mean().to_numpy())
        distance = np.abs(pairs.one_sided_p(differences) - p_of_labels)
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
    """By how much each metric puts more pairs of systems in the right order than `against` does.

    A row per metric, in the order of `metrics`: difference (the metric minus `against`), its 95 %
    interval when whole groups are resampled, for both metrics alike, and p, two-sided, of permuting
    which of the two metrics a cell (a system's answer to one question) takes its standardised value
    from (PERM-BOTH: Deutsch et al., 2021). Answers without a value of either metric are left out.
    Each row has a generator of its own: it does not depend on which other metrics there are.
    """
    pairs = _SystemPairs(labels, resamples, seed)
    other = metrics[against]
    rows = []
    for name, one in metrics.items():
        if name == against:
            continue
        cells = scores.dropna(subset=[one, other])
        cells = cells.assign(one=stats.zscore(cells[one]), other=stats.zscore(cells[other]))
        means, draws = pairs.means(cells, "one")
        other_means, other_draws = pairs.means(cells, "other")
        difference = pairs.in_order(means) - pairs.in_order(other_means)
        spread = pairs.in_order(draws) - pairs.in_order(other_draws)
        low, high = np.nanpercentile(spread, [2.5, 97.5])
        extreme = np.abs(pairs.permuted_differences(cells)) >= abs(difference) - TOLERANCE
        rows.append(
            {
                "metric": name,
                "against": against,
                "difference": difference,
                "ci_low": low,
                "ci_high": high,
                "p": (extreme.sum() + 1) / (resamples + 1),
            }
        )
    return pd.DataFrame(rows).set_index("metric")


class _SystemPairs:
    """The pairs of systems with different shares of right answers; which one of each is better.

    Every method that draws at random makes `resamples` draws with a new generator from `seed`.
    """

    def __init__(self, labels: pd.DataFrame, resamples: int, seed: int):
        self.resamples, self.seed = resamples, seed
        self.share = labels.groupby("model")["correct"].mean().sort_values()
        pairs = combinations(range(len(self.share)), 2)
        shares = self.share.to_numpy()
        different = [(i, j) for i, j in pairs if shares[i] < shares[j]]
        if not different:
            raise InputError(
                f"nothing to rank: {len(self.share)} systems with one share of right answers"
            )
        self.worse, self.better = np.array(different).T  # places in `share`

    def in_order(self, means: np.ndarray) -> Any:
        """The share of pairs whose better system has the higher mean, along the last axis.

        A tie counts half.
        """
        signs = np.sign(means[..., self.better] - means[..., self.worse])
        return ((signs + 1) / 2).mean(axis=-1)

    def means(self, scores: pd.DataFrame, column: str) -> tuple[np.ndarray, np.ndarray]:
        """The systems' means, and a row of them for each resample of the groups."""
        cells = scores.pivot_table(
            index="group", columns="model", values=column, aggfunc=["sum", "count"]
        )
        sums = cells["sum"][self.share.index].fillna(0).to_numpy()
        counts = cells["count"][self.share.index].fillna(0).to_numpy()
        groups = len(sums)
        rng = np.random.default_rng(self.seed)
        times = rng.multinomial(groups, np.full(groups, 1 / groups), self.resamples)
        with np.errstate(invalid="ignore"):  # nan: a system without a value in a resample
            return sums.sum(axis=0) / counts.sum(axis=0), (times @ sums) / (times @ counts)

    def differences(self, scores: pd.DataFrame, column: str) -> pd.DataFrame:
        """The better system's value minus the worse one's: a row per triplet, a column per pair."""
        table = scores.pivot(index=["group", "triplet_id"], columns="model", values=column)
        values = table[self.share.index].to_numpy(dtype=float)
        return pd.DataFrame(values[:, self.better] - values[:, self.worse], index=table.index)

    def one_sided_p(self, differences: pd.DataFrame) -> np.ndarray:
        """For each column, p of a sum as high as this when the signs of whole groups are random."""
        sums = differences.fillna(0.0).groupby("group").sum().to_numpy()
        rng = np.random.default_rng(self.seed)
        signs = rng.choice([-1.0, 1.0], size=(self.resamples, len(sums)))
        above = signs @ sums >= sums.sum(axis=0) - TOLERANCE
        return (above.sum(axis=0) + 1) / (self.resamples + 1)

    def permuted_differences(self, cells: pd.DataFrame) -> np.ndarray:
        """The share of pairs that `one` puts in order, minus that of `other`, when they are mixed.

        In each resample every cell exchanges its two values with a chance of one half.
        """
        rng = np.random.default_rng(self.seed)
        exchanged = rng.random((self.resamples, len(cells))) < 0.5
        one = np.where(exchanged, cells["other"], cells["one"])
        other = np.where(exchanged, cells["one"], cells["other"])
        system = pd.Categorical(cells["model"], categories=self.share.index).codes
        sums_by_system = np.eye(len(self.share))[system]
        counts = np.bincount(system)
        in_order = self.in_order(one @ sums_by_system / counts)
        return in_order - self.in_order(other @ sums_by_system / counts)


def _told_apart(means: np.ndarray) -> tuple[int, int]:
    """How many columns have a mean that a t test tells from 0: above it, and below it.

    nan are left out, and columns without spread.
    """
    varied = np.nanstd(means, axis=0) > 0
    test = stats.ttest_1samp(means[:, varied], 0, nan_policy="omit")
    apart = test.pvalue < ALPHA
    above = apart & (test.statistic > 0)
    below = apart & (test.statistic < 0)
    return int(above.sum()), int(below.sum())
