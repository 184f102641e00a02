"""Statistics of stored values: means with intervals, paired differences, agreement with labels.

Answers about one company or document are not independent, so every 95 % interval is over whole
clusters; with fewer than `MIN_CLUSTERS` clusters there is no interval. Means and differences have
Student's t with clusters - 1 degrees of freedom around the jackknife's standard error (Efron and
Tibshirani 1993, chapter 11; Cameron and Miller 2015, section VI). Correlations and areas have the
percentile bootstrap over clusters (chapter 13).
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ..terminal import first_few
from ..types import InputError
from .frames import basis_of, in_order, with_figures_once

MIN_SCORED = 0.95  # a number that rests on a smaller share of points or answers is flagged
MIN_CLUSTERS = 6  # fewer clusters say too little about how clusters vary
# What `paired_table` says of a difference.
DIFFERENCE_COLUMNS = [
    "difference",
    "ci_low",
    "ci_high",
    "p",
    "p_holm",
    "clear",
    "n",
    "clusters",
    "only_a",
    "only_b",
    "unscored",
    "compares",
]
_PAIR_COLUMNS = ["metric", "part", "a", "b", *DIFFERENCE_COLUMNS]
_MAX_EXACT_TERMS = 14  # the sign-flip test of more terms draws patterns
# A number with its 95 % interval, nan where undefined; how many observations and clusters it rests
# on, and how many observations have no value.
Estimate = namedtuple("Estimate", ["value", "ci_low", "ci_high", "n", "clusters", "left_out"])


# --- means ---


def summarise(values: pd.DataFrame, *, cluster: str = "group") -> pd.DataFrame:
    """Value and interval per metric, part and model of a frame of values, in the order of Table 1.

    The value is the mean over answers, as in the paper (pool: macro). `n` counts answers with a
    value, `unscored` points. `low` and `high` are the mean if all unscored points scored 0, or 1.
    `scored` is the share of points that have a score. `flagged` is true where this share, or the
    share of answers with a value, is under 95 %. Further columns are units, clusters and cluster.
    InputError for a frame that mixes signatures in a cell.
    """
    rows = []
    values = _with_bounds(_checked(values, cluster))  # the given frame may be large: it is let go
    for (metric, part, model), cell in values.groupby(["metric", "part", "model"], sort=False):
        signatures = cell["signature"].unique().tolist()
        if len(signatures) > 1:
            raise InputError(
                f"{metric} {part} of {model} mixes settings: {first_few(signatures, 2)}; summarise "
                "them apart"
            )
        mean = mean_over(cell["value"], cell["cluster"])
        units = int(cell["units"].sum())
        unscored = int(cell["unscored"].sum())
        scored = 1 - unscored / units if units else math.nan
        rows.append(
            {
                "metric": metric,
                "part": part,
                "model": model,
                **mean._asdict(),
                "unscored": unscored,
                "signature": signatures[0],
                "low": cell["low"].mean(),
                "high": cell["high"].mean(),
                "scored": scored,
                "flagged": scored < MIN_SCORED or mean.n / len(cell) < MIN_SCORED,
                "units": units,
                "cluster": cluster,
            }
        )
    return in_order(pd.DataFrame(rows)).drop(columns="left_out")


def mean_over(
    values: Iterable[float], cluster: Iterable[object], weights: np.ndarray | float = 1.0
) -> Estimate:
    """Weighted mean of the values that are not nan, with its t interval over clusters.

    Without values, or with fewer than `MIN_CLUSTERS` clusters, what is undefined is nan.
    """
    weighted = np.array(list(values), dtype=float) * weights
    by_cluster = pd.DataFrame(
        {"sum": weighted, "weight": weights}, index=list(map(str, cluster)), dtype=float
    )
    scored = by_cluster.dropna()
    sums, totals = scored.groupby(level=0).sum().to_numpy().T
    value = low = high = math.nan
    if len(sums):
        value = float(sums.sum() / totals.sum())
    n_clusters = len(sums)
    if n_clusters >= MIN_CLUSTERS:
        without_one = (sums.sum() - sums) / (totals.sum() - totals)  # the mean without each cluster
        squares = (without_one - without_one.mean()) ** 2
        jackknife_error = math.sqrt((n_clusters - 1) / n_clusters * squares.sum())
        half_width = float(stdtrit(n_clusters - 1, 0.975)) * jackknife_error
        low, high = value - half_width, value + half_width
    return Estimate(value, low, high, len(scored), n_clusters, len(by_cluster) - len(scored))


def _with_bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of values with `low` and `high`: each value if its unscored points scored 0, or 1.

    An unscored point has a weight of 1 in its answer's denominator; an answer without a value
    counts 0 or 1. In precision every unscored reference point adds 1 to the denominator, even where
    its answer point is counted already, so the bounds may be too wide and never too narrow. F1 has
    the harmonic mean of the bounds of precision and recall.
    """
    frame["low"] = frame["high"] = frame["value"]
    incomplete = frame[frame["unscored"] > 0].copy()
    unscored = incomplete["unscored"]
    is_f1 = (incomplete["part"] == "F1") & incomplete["num"].isna()
    answer = ["metric", "model", "triplet_id"]
    for name, score in (("low", 0.0), ("high", 1.0)):
        bound = (incomplete["num"] + score * unscored) / (incomplete["den"] + unscored)
        incomplete[name] = bound.clip(upper=1).fillna(score)
        parts = incomplete.pivot(index=answer, columns="part", values=name)
        sides = incomplete[answer].join(parts.reindex(columns=["Precision", "Recall"]), on=answer)
        precision, recall = sides["Precision"], sides["Recall"]
        f1 = 2 * precision * recall / (precision + recall)  # nan where both are 0, or one is absent
        incomplete[name] = incomplete[name].mask(is_f1 & f1.notna(), f1)
        frame.loc[incomplete.index, name] = incomplete[name]
    return frame


# --- paired differences ---


def paired_table(
    values: pd.DataFrame, *, models: Sequence[str] = (), cluster: str = "group", seed: int = 7
) -> pd.DataFrame:
    """Model `a` minus model `b` for every metric, part and pair of models.

    The triplets are those that both models answered. Of `models` (by default all, as they come) a
    later one is `a`, an earlier one `b`. Columns:

    difference       mean over triplets of a minus b: above 0 where `a` scores higher
    ci_low, ci_high  its t interval over clusters
    p                two-sided, of `sign_flip_test` over clusters
    p_holm           p adjusted by Holm over the pairs of a metric and part
    clear            whether the interval excludes 0 and p_holm is under 0.05
    n, clusters      number of differences, and of clusters
    only_a, only_b   number of triplets for which only that model has a row
    unscored         number of triplets without a value on a side
    compares         what the values compare: "meaning", where a judge was asked, else "words" or
                     "figures"; without a judge no difference says which model is better

    A single model gives no row.
    """
    frame = _checked(values, cluster)
    answered = frame["model"].unique()
    if unknown := sorted(set(models).difference(answered)):
        raise InputError(f"no values of {first_few(unknown)}; there are {first_few(answered, 12)}")
    pairs = list(combinations(models or answered, 2))
    rows = []
    for (metric, part), cell in frame.groupby(["metric", "part"]):
        basis = basis_of(metric, cell["signature"].unique())
        for b, a in pairs:
            names = {"metric": metric, "part": part, "a": a, "b": b, "compares": basis}
            rows.append({**names, **_difference(cell, a, b, seed)})
    if not rows:
        return pd.DataFrame(columns=_PAIR_COLUMNS).astype({"clear": bool})
    return with_verdicts(in_order(pd.DataFrame(rows)))[_PAIR_COLUMNS]


def with_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Paired differences with p_holm, adjusted over the rows of a metric and part, and clear."""
    p_holm = table.groupby(["metric", "part"])["p"].transform(holm)
    excludes_0 = (table["ci_low"] > 0) | (table["ci_high"] < 0)
    return table.assign(p_holm=p_holm, clear=excludes_0 & (p_holm < 0.05))


def _difference(cell: pd.DataFrame, a: str, b: str, seed: int) -> dict[str, Any]:
    """The numbers of one row of `paired_table`, from the values of one metric and part."""
    of_a = cell[cell["model"] == a].set_index("triplet_id")
    of_b = cell[cell["model"] == b].set_index("triplet_id")
    both = of_a.join(of_b["value"], how="inner", rsuffix="_b")
    differences = (both["value"] - both["value_b"]).dropna()
    cluster = both.loc[differences.index, "cluster"]
    mean = mean_over(differences, cluster)
    return {
        **mean._asdict(),
        "difference": mean.value,
        "p": sign_flip_test(differences.groupby(cluster).sum(), seed),
        "only_a": len(of_a) - len(both),
        "only_b": len(of_b) - len(both),
        "unscored": len(both) - mean.n,
    }


def sign_flip_test(sums: Sequence[float], seed: int = 7) -> float:
    """Two-sided p in (0, 1] of a sum of independent terms that are symmetric about 0.

    Fisher's randomisation test: the share of patterns of signs that give a sum at least as far from
    0. Up to 14 terms it counts all patterns, beyond them the observed one and 9,999 that are drawn.
    nan without terms.
    """
    terms = np.asarray(sums, dtype=float)
    if not len(terms):
        return math.nan
    rounding = 1e-13 * np.abs(terms).sum()  # the same sum in another order may differ by this
    observed = abs(terms.sum()) - rounding
    as_far = patterns = 0
    for signs in _sign_patterns(len(terms), seed):
        as_far += int(np.count_nonzero(np.abs(signs @ terms) >= observed))
        patterns += len(signs)
    return as_far / patterns


def _sign_patterns(n_terms: int, seed: int) -> Iterator[np.ndarray]:
    """Arrays whose rows are patterns of +1 and -1."""
    if n_terms <= _MAX_EXACT_TERMS:
        yield np.array(list(product((1, -1), repeat=n_terms)))
        return
    yield np.ones((1, n_terms))  # the observed pattern
    generator = np.random.default_rng(seed)
    rows = 101
    both_signs = np.tile(np.array([1, -1], dtype=np.int8), (rows, n_terms, 1))
    for _ in range(9_999 // rows):
        yield generator.permuted(both_signs, axis=-1)[..., 0]


def holm(p: Iterable[float]) -> np.ndarray:
    """Holm's step-down adjustment of p values (1979), in their own order; nan stays nan."""
    raw = pd.Series(list(p), dtype=float)
    ordered = raw.dropna().sort_values()
    hypotheses_left = range(len(ordered), 0, -1)
    adjusted = (ordered * hypotheses_left).cummax().clip(upper=1)
    return adjusted.reindex(raw.index).to_numpy()


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

    Rows with a value that is not finite are left out and counted. There is no interval with fewer
    than `MIN_CLUSTERS` clusters, nor where the statistic is nan in half of the resamples.
    """
    table = pd.DataFrame({i: np.asarray(column, dtype=float) for i, column in enumerate(columns)})
    rows = table.assign(cluster=list(map(str, cluster)))[np.isfinite(table).all(axis=1)]
    rows = rows.sort_values(["cluster", *table], ignore_index=True)
    members = list(rows.groupby("cluster").indices.values())
    data = rows[list(table)].to_numpy().T
    low = high = math.nan
    if len(members) >= MIN_CLUSTERS:
        generator = np.random.default_rng(seed)
        values = []
        for clusters in generator.integers(len(members), size=(resamples, len(members))):
            resample = np.concatenate([members[i] for i in clusters])
            values.append(statistic(*data[:, resample]))
        if np.isfinite(values).sum() > resamples / 2:
            low, high = map(float, np.nanquantile(values, [0.025, 0.975]))
    left_out = len(table) - len(rows)
    return Estimate(statistic(*data), low, high, len(rows), len(members), left_out)


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's correlation in [-1, 1]; nan for a constant column."""
    if len(set(x)) < 2 or len(set(y)) < 2:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation of ranks in [-1, 1]; nan for a constant column."""
    return pearson(pd.Series(x).rank(), pd.Series(y).rank())


def auc(score: Sequence[float], label: Sequence[float]) -> float:
    """The area under the ROC curve, in [0, 1], by the rank sum of the positives.

    That is the chance that a positive (label 1) has a higher score than a negative (label 0), where
    a tie counts half. nan without one of them.
    """
    is_positive = np.asarray(label) == 1
    positives = is_positive.sum()
    pairs = positives * (len(is_positive) - positives)
    if pairs == 0:
        return math.nan
    rank_sum = pd.Series(score).rank()[is_positive].sum()
    return float(rank_sum - positives * (positives + 1) / 2) / pairs


def _checked(values: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """The frame of values, verified and sorted, with a column `cluster`."""
    keys = ["metric", "part", "model", "triplet_id"]
    if not isinstance(values, pd.DataFrame):
        raise InputError(f"a frame of ems.to_frame is needed, got {type(values).__name__}")
    if absent := [name for name in (*keys, "value", cluster) if name not in values]:
        raise InputError(
            f"the frame has no column {first_few(absent)}; ems.to_frame makes one with all columns"
        )
    if values.empty:
        raise InputError("the frame of values has no rows: nothing was scored")
    for name in (*keys, cluster):
        if values[name].isna().any():
            raise InputError(f"column {name!r} must be filled, got empty cells")
    values = with_figures_once(values)
    repeated = values.duplicated(keys)
    if repeated.any():
        raise InputError(f"more than one row for {tuple(values.loc[repeated, keys].iloc[0])}")
    # Models stay as they first come. Rows of one mean stand together, which takes less memory.
    means = values.groupby(["metric", "part", "model"], sort=False).ngroup()
    triplets = values["triplet_id"].rank()
    values = values.take(np.lexsort((triplets, means))).reset_index(drop=True)
    return values.assign(cluster=values[cluster].astype(str))
