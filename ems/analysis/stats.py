"""Statistics of stored values: means with intervals, paired differences, agreement with labels.

Answers about one company or document are not independent, so every 95 % interval is over whole clusters; with
fewer than `MIN_CLUSTERS` there is none. Means and differences: Student's t with clusters - 1 degrees of
freedom around the jackknife's standard error (Efron and Tibshirani 1993, chapter 11; Cameron and Miller 2015,
section VI). Correlations and areas: the percentile bootstrap over clusters (chapter 13).
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ..terminal import first_few
from ..types import InputError
from .frames import COLUMNS, by_size, in_order

MIN_SCORED = 0.95  # below it a number is flagged
MIN_CLUSTERS = 6  # fewer say too little about how clusters vary
PAIRED = [
    "metric",
    "part",
    "a",
    "b",
    "difference",
    "ci_low",
    "ci_high",
    "p",
    "p_holm",
    "clear",
    "g",
    "ordered",
    "n",
    "clusters",
    "only_a",
    "only_b",
    "unscored",
]
# A number with its 95 % interval, nan where undefined; the observations and clusters that it rests on, and
# the observations that have no value.
Estimate = namedtuple("Estimate", ["value", "ci_low", "ci_high", "n", "clusters", "left_out"])


# --- means ---


def summarise(values: pd.DataFrame, *, cluster: str = "group") -> pd.DataFrame:
    """Value and interval per metric, part and model of a frame of values, in the order of Table 1.

    The value is the mean over answers, as in the paper (pool: macro). `n` counts answers with a value,
    `unscored` points; `low` and `high` are the mean if all unscored points scored 0, or 1 (`bounds`);
    `scored` is the share of points that were scored; `flagged`: that or the share of answers with a value
    is under 95 %. Also units, clusters, cluster. InputError for a frame that mixes signatures in a cell.
    """
    rows = []
    for (metric, part, model), cell in bounds(_checked(values, cluster)).groupby(
        ["metric", "part", "model"]
    ):
        if len(signatures := cell["signature"].unique().tolist()) > 1:
            raise InputError(
                f"{metric} {part} of {model} mixes settings: {first_few(signatures, 2)}; summarise "
                "them apart"
            )
        mean = mean_over(cell["value"], cell["cluster"])
        n, units, unscored = (
            int(cell["value"].count()),
            int(cell["units"].sum()),
            int(cell["unscored"].sum()),
        )
        scored = 1 - unscored / units if units else math.nan
        rows.append(
            {
                "metric": metric,
                "part": part,
                "model": model,
                "value": mean.value,
                "ci_low": mean.ci_low,
                "ci_high": mean.ci_high,
                "n": n,
                "clusters": mean.clusters,
                "unscored": unscored,
                "signature": signatures[0],
                "low": cell["low"].mean(),
                "high": cell["high"].mean(),
                "scored": scored,
                "flagged": scored < MIN_SCORED or n / len(cell) < MIN_SCORED,
                "units": units,
                "cluster": cluster,
            }
        )
    return in_order(pd.DataFrame(rows))


def mean_over(values: Iterable[float], cluster: Iterable[object]) -> Estimate:
    """Mean of the values that are not nan, with its t interval over clusters; nan without values."""
    table = pd.DataFrame({"value": list(values), "cluster": list(map(str, cluster))})
    scored = table.astype({"value": float}).dropna(subset="value")
    sums, counts = scored.groupby("cluster")["value"].agg(["sum", "count"]).to_numpy().T
    clusters, low, high = len(sums), math.nan, math.nan
    value = float(sums.sum() / counts.sum()) if clusters else math.nan
    if clusters >= MIN_CLUSTERS:
        without = (sums.sum() - sums) / (counts.sum() - counts)  # one cluster left out each
        error = math.sqrt((clusters - 1) / clusters * ((without - without.mean()) ** 2).sum())
        reach = float(stdtrit(clusters - 1, 0.975)) * error
        low, high = value - reach, value + reach
    return Estimate(value, low, high, len(scored), clusters, len(table) - len(scored))


def bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of values with `low` and `high`: each value if all its unscored points scored 0, or all 1.

    An unscored point has a weight of 1 in its answer's denominator, an answer without a value counts 0 or 1.
    In precision every unscored reference point may stand for one more answer point, so bounds may be wider
    than needed, never narrower. F1 takes those of its sides.
    """
    unscored = frame["unscored"]
    for name, score in (("low", 0.0), ("high", 1.0)):
        known = (frame["num"] + score * unscored) / (frame["den"] + unscored)
        frame[name] = frame["value"].where(unscored == 0, known.clip(upper=1).fillna(score))
        of_sides = _f1_of_sides(frame, name)
        takes = (frame["part"] == "F1") & (unscored > 0) & frame["num"].isna() & of_sides.notna()
        frame[name] = frame[name].mask(takes, of_sides)
    return frame


def _f1_of_sides(frame: pd.DataFrame, column: str) -> pd.Series:
    """For every row the harmonic mean of what its answer's Precision and Recall have in this column."""
    key = ["metric", "model", "triplet_id"]
    sides = frame.pivot(index=key, columns="part", values=column).reindex(
        columns=["Precision", "Recall"]
    )
    precision, recall = (
        frame[key].join(sides, on=key)[["Precision", "Recall"]].to_numpy(dtype=float).T
    )
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0)
    return pd.Series(f1, frame.index)


# --- paired differences ---


def paired_table(
    values: pd.DataFrame, *, models: Sequence[str] = (), cluster: str = "group", seed: int = 7
) -> pd.DataFrame:
    """Model `a` minus model `b` for every metric, part and pair, over the triplets that both answered.

    Of `models` (by default all, small to large) a later one is `a`, an earlier one `b`. `difference` is the
    mean over triplets, above 0 where `a` scores higher, with its t interval over clusters; `p` two-sided
    (`sign_flip_test` over clusters); `p_holm` adjusted by Holm over the tests of a metric and part; `clear`:
    the interval excludes 0 and p_holm is under 0.05. `g` is Hedges' g of the clusters' mean differences;
    `ordered` the share of triplets on which `a` scores higher, ties half. `only_a` and `only_b` are triplets
    that one of them has no row for, `unscored` those without a value on a side. No row for a single model.
    """
    frame = _checked(values, cluster)
    pairs = list(combinations(models or sorted(frame["model"].unique(), key=by_size), 2))
    rows = [
        {"metric": metric, "part": part, "a": a, "b": b, **_paired(cell, a, b, seed)}
        for (metric, part), cell in frame.groupby(["metric", "part"])
        for b, a in pairs
    ]
    if not rows:
        return pd.DataFrame(columns=PAIRED).astype({"clear": bool})
    return with_verdicts(in_order(pd.DataFrame(rows)))[PAIRED]


def with_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Paired differences with p_holm, adjusted over the rows of a metric and part, and clear."""
    p_holm = table.groupby(["metric", "part"])["p"].transform(holm)
    excludes_0 = (table["ci_low"] > 0) | (table["ci_high"] < 0)
    return table.assign(p_holm=p_holm, clear=excludes_0 & (p_holm < 0.05))


def _paired(cell: pd.DataFrame, a: str, b: str, seed: int) -> dict[str, Any]:
    """One row of `paired_table`, from the checked rows of a metric and part."""
    left, right = (cell[cell["model"] == model].set_index("triplet_id") for model in (a, b))
    both = left.join(right["value"], how="inner", rsuffix="_b")
    gap = (both["value"] - both["value_b"]).dropna()
    cluster = both.loc[gap.index, "cluster"]
    estimate, of_cluster, hedges = mean_over(gap, cluster), gap.groupby(cluster), math.nan
    means = of_cluster.mean()
    if len(means) >= MIN_CLUSTERS and means.std() > 0:
        hedges = (1 - 3 / (4 * len(means) - 5)) * means.mean() / means.std()
    return {
        "difference": estimate.value,
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
        "g": hedges,
        "p": sign_flip_test(of_cluster.sum(), seed),
        "ordered": ((np.sign(gap) + 1) / 2).mean(),
        "n": len(gap),
        "clusters": len(means),
        "unscored": len(both) - len(gap),
        "only_a": len(left) - len(both),
        "only_b": len(right) - len(both),
    }


def sign_flip_test(sums: Sequence[float], seed: int = 7) -> float:
    """Two-sided p in (0, 1] of a sum of independent terms symmetric about 0 (Fisher's randomisation test).

    Counts all 2^k patterns of signs up to 2^14; beyond, 9,999 random ones. nan without terms.
    """
    from scipy.stats import permutation_test

    terms = np.asarray(sums, dtype=float)
    if len(terms) < 2:  # scipy refuses what is no sample
        return 1.0 if len(terms) else math.nan
    # scipy takes two values for equal when they differ by 2e-14 of themselves. With this constant added that
    # means 2e-14 of the terms' sizes: the same sum in another order is a tie, near 0 too.
    size = np.abs(terms).sum()
    return float(
        permutation_test(
            (terms,),
            lambda signed, axis: size + np.abs(signed.sum(axis=axis)),
            permutation_type="samples",
            alternative="greater",
            n_resamples=2**14 if len(terms) <= 14 else 9999,
            vectorized=True,
            batch=1000,
            rng=np.random.default_rng(seed),
        ).pvalue
    )


def holm(p: Iterable[float]) -> np.ndarray:
    """Holm's step-down adjustment of p values (1979), in their own order; nan stays nan, uncounted."""
    raw = pd.Series(list(p), dtype=float)
    ordered = raw.dropna().sort_values()
    return (
        (ordered * range(len(ordered), 0, -1)).cummax().clip(upper=1).reindex(raw.index).to_numpy()
    )


# --- agreement with labels ---


def bootstrap(
    statistic: Callable[..., float],
    columns: Sequence[Sequence[float]],
    cluster: Sequence[object],
    *,
    resamples: int = 2000,
    seed: int = 7,
) -> Estimate:
    """`statistic(*columns)`, e.g. `spearman`, with its interval over resampled clusters.

    Rows with a value that is not finite are left out and counted. No interval where half the draws are nan.
    """
    table = pd.DataFrame({i: np.asarray(column, dtype=float) for i, column in enumerate(columns)})
    rows = table.assign(cluster=list(map(str, cluster)))[np.isfinite(table).all(axis=1)]
    rows = rows.sort_values(["cluster", *table], ignore_index=True)
    members, data = list(rows.groupby("cluster").indices.values()), rows[[*table]].to_numpy().T
    low, high, draws = math.nan, math.nan, []
    if len(members) >= MIN_CLUSTERS:
        for drawn in np.random.default_rng(seed).integers(
            len(members), size=(resamples, len(members))
        ):
            draws.append(statistic(*data[:, np.concatenate([members[i] for i in drawn])]))
    if np.isfinite(draws).sum() > len(draws) / 2:
        low, high = map(float, np.nanquantile(draws, [0.025, 0.975]))
    return Estimate(statistic(*data), low, high, len(rows), len(members), len(table) - len(rows))


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's correlation in [-1, 1]; nan for a constant column."""
    return float(np.corrcoef(x, y)[0, 1]) if min(len(set(x)), len(set(y))) > 1 else math.nan


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation of ranks in [-1, 1]; nan for a constant column."""
    return pearson(pd.Series(x).rank(), pd.Series(y).rank())


def auc(score: Sequence[float], label: Sequence[float]) -> float:
    """The chance that a positive (label 1) outscores a negative (0), ties half; nan without one of them."""
    positive = np.asarray(label) == 1
    n = positive.sum()
    pairs = n * (len(positive) - n)
    return (
        float(pd.Series(score).rank()[positive].sum() - n * (n + 1) / 2) / pairs
        if pairs
        else math.nan
    )


def _checked(values: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """The frame of values, verified and sorted, with a column `cluster`."""
    keys = ["metric", "part", "model", "triplet_id"]
    if absent := [name for name in [*COLUMNS, cluster] if name not in values]:
        raise InputError(f"the frame of values lacks {first_few(absent)}")
    if values.empty:
        raise InputError("the frame of values has no rows: nothing was scored")
    if holes := [name for name in (*keys, cluster) if values[name].isna().any()]:
        raise InputError(f"column {holes[0]!r} must be filled, got empty cells")
    if (twice := values.duplicated(keys)).any():
        raise InputError(f"more than one row for {tuple(values.loc[twice, keys].iloc[0])}")
    return values.assign(cluster=values[cluster].astype(str)).sort_values(keys, ignore_index=True)
