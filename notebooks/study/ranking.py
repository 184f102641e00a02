"""Which metric orders systems as people do? Pairs of systems, by their shares of right answers.

Scores are wide: a row per answer (triplet_id, model, group), a column per metric and part. Labels
are triplet_id, model, group, correct (bool); they may be of more triplets than the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from ems.analysis.findings import series
from ems.analysis.stats import holm, mean_over
from ems.types import InputError

ALPHA = 0.05
TOLERANCE = 1e-9  # two sums or shares that differ by less are equal
PERMUTATIONS = 10_000  # of the test between two metrics, whose p is corrected for many tests


def populations(labels: pd.DataFrame, scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The claims over which a system's share of right answers may be counted, by name.

    A claim's kind is the first part of its id: "ie-testmini-0" is of the kind "ie". The claims with
    scores were drawn from some of the kinds.

    drawn from   all claims of these kinds
    all          all claims
    unread       the claims of these kinds whose answers have no scores
    """
    has_scores = labels["triplet_id"].isin(scores["triplet_id"])
    kind = labels["triplet_id"].str.partition("-")[0]
    is_of_kind = kind.isin(kind[has_scores])
    return {
        "drawn from": labels[is_of_kind],
        "all": labels,
        "unread": labels[is_of_kind & ~has_scores],
    }


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

    pairs                      share of pairs of systems that the means put in the right order (a
                               tie counts half)
    ci_low, ci_high            its 95 % interval when whole groups are resampled
    systems_low, systems_high  its 95 % interval when systems are resampled
    distinct                   the same share of the distinct pairs: those whose shares of right
                               answers differ by more than the t interval over groups
    of, of_distinct            pairs of systems, and distinct ones
    """
    pairs = _SystemPairs(labels, resamples, seed)
    is_distinct = pairs.distinct(labels)
    rows = {}
    for name, column in metrics.items():
        rows[name] = _ranking_row(pairs, scores, column, is_distinct)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("metric")


def _ranking_row(
    pairs: _SystemPairs, scores: pd.DataFrame, column: str, is_distinct: np.ndarray
) -> dict[str, Any]:
    """The numbers of one row of `ranking`: those of a column of the scores."""
    means, draws = pairs.means(scores, column)
    low, high = np.nanpercentile(pairs.in_order(draws), [2.5, 97.5])
    systems_low, systems_high = np.nanpercentile(pairs.in_drawn_order(means), [2.5, 97.5])
    return {
        "pairs": pairs.in_order(means),
        "ci_low": low,
        "ci_high": high,
        "systems_low": systems_low,
        "systems_high": systems_high,
        "distinct": pd.Series(pairs.ordered(means)[is_distinct]).mean(),
        "of": len(pairs.worse),
        "of_distinct": int(is_distinct.sum()),
    }


def pairs_in_order(
    scores: pd.DataFrame, labels: pd.DataFrame, metrics: Mapping[str, str]
) -> pd.Series:
    """The column `pairs` of `ranking`, without intervals."""
    pairs = _SystemPairs(labels, resamples=0, seed=0)
    shares = {}
    for name, column in metrics.items():
        means, _ = pairs.means(scores, column)
        shares[name] = pairs.in_order(means)
    return pd.Series(shares, dtype=float)


def random_labels(
    labels: pd.DataFrame, claims: int, resamples: int = 1000, seed: int = 7
) -> dict[str, float]:
    """How well the labels of so many claims order systems by their shares over all claims.

    The claims are drawn at random, without repetition: the mean over the draws, `pairs`, and the
    range of 95 % of them, `ci_low` to `ci_high`. It shows how far a sample of this size leads.
    """
    pairs = _SystemPairs(labels, resamples, seed)
    table = labels.pivot(index="triplet_id", columns="model", values="correct")
    is_right = table[pairs.share.index].to_numpy(dtype=float)
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(resamples):
        drawn = rng.choice(len(is_right), claims, replace=False)
        shares.append(pairs.in_order(is_right[drawn].mean(axis=0)))
    low, high = np.quantile(shares, [0.025, 0.975])
    return {"pairs": float(np.mean(shares)), "ci_low": low, "ci_high": high}


def differences(
    scores: pd.DataFrame,
    labels: pd.DataFrame,
    metrics: Mapping[str, str],
    against: Sequence[str],
    resamples: int = 1000,
    seed: int = 7,
) -> pd.DataFrame:
    """By how much metrics put more pairs of systems in the right order than those of `against` do.

    A row per pair of metrics, once: of two metrics in `against` the earlier one is subtracted. Each
    row has a generator of its own, so that only p_holm depends on which other metrics there are.

    difference       the metric's share of pairs minus that of `against`; answers without a value of
                     either metric are left out
    ci_low, ci_high  its 95 % interval when whole groups are resampled, for both metrics alike
    p                two-sided, of permuting which of the two metrics a cell (a system's answer to
                     one question) takes its standardised value from (PERM-BOTH: Deutsch et al.,
                     2021)
    p_holm           p after Holm's correction over the metrics that are compared with one
    clear            whether the interval excludes 0 and p_holm is below 0.05
    """
    pairs = _SystemPairs(labels, resamples, seed)
    tables = []
    rest = dict(metrics)
    for base in against:
        column = rest.pop(base)
        rows = [_difference_row(pairs, scores, rest[name], column) for name in rest]
        table = pd.DataFrame(rows, index=pd.Index(rest, name="metric"))
        table.insert(0, "against", base)
        table["p_holm"] = holm(table["p"])
        tables.append(table)
    table = pd.concat(tables)
    excludes_0 = (table["ci_low"] > 0) | (table["ci_high"] < 0)
    return table.assign(clear=excludes_0 & (table["p_holm"] < ALPHA))


def findings(ranked: pd.DataFrame, compared: pd.DataFrame) -> list[str]:
    """Sentences about tables of `ranking` and `differences`.

    They give the shares of the metrics in the column `against`, and name the metrics whose
    difference from one of these is clear.
    """
    shares = [
        f"{name} {ranked['pairs'][name]:.2f} [{ranked['ci_low'][name]:.2f}, "
        f"{ranked['ci_high'][name]:.2f}]"
        for name in compared["against"].drop_duplicates()
    ]
    sentences = [
        f"Of {ranked['of'].max():.0f} pairs of systems a metric's means put this share in the "
        "right order, which is that of accuracy, the share of right verdicts: "
        f"{series(shares)}. Guessing gives 0.50."
    ]
    clear = compared[compared["clear"]]
    for base, rows in clear.groupby("against", sort=False):
        for word, is_above in (("more", rows["difference"] < 0), ("fewer", rows["difference"] > 0)):
            names = series(list(rows.index[is_above]))
            if names:
                sentences.append(
                    f"{base} puts clearly {word} pairs in the right order than {names}."
                )
    if clear.empty:
        sentences.append("No difference between two metrics is clear.")
    return sentences


def _difference_row(
    pairs: _SystemPairs, scores: pd.DataFrame, one: str, other: str
) -> dict[str, float]:
    """The numbers of one row of `differences`: the column `one` of the scores minus `other`."""
    cells = scores.dropna(subset=[one, other])
    cells = cells.assign(one=stats.zscore(cells[one]), other=stats.zscore(cells[other]))
    means, draws = pairs.means(cells, "one")
    other_means, other_draws = pairs.means(cells, "other")
    difference = pairs.in_order(means) - pairs.in_order(other_means)
    spread = pairs.in_order(draws) - pairs.in_order(other_draws)
    low, high = np.nanpercentile(spread, [2.5, 97.5])
    extreme = np.abs(pairs.permuted_differences(cells)) >= abs(difference) - TOLERANCE
    p = (extreme.sum() + 1) / (PERMUTATIONS + 1)
    return {"difference": difference, "ci_low": low, "ci_high": high, "p": p}


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

    def ordered(self, means: np.ndarray) -> np.ndarray:
        """For each pair, along the last axis: 1 if the better system has the higher mean, else 0.

        Equal means give 0.5.
        """
        signs = np.sign(means[..., self.better] - means[..., self.worse])
        return (signs + 1) / 2

    def in_order(self, means: np.ndarray) -> Any:
        """The share of pairs whose better system has the higher mean; a tie counts half."""
        return self.ordered(means).mean(axis=-1)

    def in_drawn_order(self, means: np.ndarray) -> np.ndarray:
        """`in_order` for each resample of the systems; a system is in no pair with itself."""
        rng = np.random.default_rng(self.seed)
        n_systems = len(self.share)
        times = rng.multinomial(n_systems, np.full(n_systems, 1 / n_systems), self.resamples)
        weights = times[:, self.better] * times[:, self.worse]
        with np.errstate(invalid="ignore"):  # nan: a resample without such a pair
            return (weights @ self.ordered(means)) / weights.sum(axis=1)

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

    def distinct(self, labels: pd.DataFrame) -> np.ndarray:
        """For each pair, whether the t interval of its difference in shares is above 0."""
        table = labels.pivot(index=["group", "triplet_id"], columns="model", values="correct")
        is_right = table[self.share.index].to_numpy(dtype=float)
        groups = table.index.get_level_values("group")
        differences = is_right[:, self.better] - is_right[:, self.worse]
        return np.array([mean_over(column, groups).ci_low > 0 for column in differences.T])

    def permuted_differences(self, cells: pd.DataFrame) -> np.ndarray:
        """The share of pairs that `one` puts in order, minus that of `other`, when they are mixed.

        In each permutation every cell exchanges its two values with a chance of one half.
        """
        rng = np.random.default_rng(self.seed)
        exchanged = rng.random((PERMUTATIONS, len(cells))) < 0.5
        one = np.where(exchanged, cells["other"], cells["one"])
        other = np.where(exchanged, cells["one"], cells["other"])
        system = pd.Categorical(cells["model"], categories=self.share.index).codes
        sums_by_system = np.eye(len(self.share))[system]
        counts = np.bincount(system)
        in_order = self.in_order(one @ sums_by_system / counts)
        return in_order - self.in_order(other @ sums_by_system / counts)
