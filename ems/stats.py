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

from .frames import COLUMNS, by_size, in_order
from .io import some
from .types import InputError

MIN_COVERAGE = 0.95            # below it a number is flagged
MIN_CLUSTERS = 6               # fewer say too little about how clusters vary
PAIRED = ["metric", "part", "a", "b", "difference", "ci_low", "ci_high", "p", "p_holm", "clear", "g",
          "ordered", "n", "clusters", "only_a", "only_b", "unscored", "family"]
# A number with its 95 % interval, nan where undefined; the observations and clusters that it rests on, and
# the observations that have no value.
Estimate = namedtuple("Estimate", ["value", "ci_low", "ci_high", "n", "clusters", "left_out"])


# --- means ---

def summarise(values: pd.DataFrame, *, cluster: str = "group", pool: str = "macro") -> pd.DataFrame:
    """Value and interval per metric, part and model of a frame of values, in the order of Table 1.

    `pool="macro"` is the mean of the answers' values, as in the paper; `"micro"` is sum(num) / sum(den), and
    for an F1 without sums the harmonic mean of pooled Precision and Recall. `n` counts answers with a value,
    `unscored` points. Columns beyond table1.csv's: `low` and `high`, the mean if all unscored points scored
    0, or 1 (`bounds`); `coverage`, the share of points that were scored; `flagged`, when that or the share of
    answers with a value is under 95 %; units, clusters, cluster, pool. InputError for a broken frame, and for
    one that mixes signatures in a cell.
    """
    if pool not in ("macro", "micro"):
        raise InputError(f"pool must be 'macro' or 'micro', got {pool!r}")
    cells = dict(list(bounds(_checked(values, cluster)).groupby(["metric", "part", "model"])))
    rows = []
    for (metric, part, model), cell in cells.items():
        if len(signatures := cell["signature"].unique().tolist()) > 1:
            raise InputError(f"{metric} {part} of {model} mixes settings: {some(signatures, 2)}; summarise "
                             "them apart")
        sides = [(metric, side, model) for side in ("Precision", "Recall")]
        if pool == "macro":
            estimate = mean_over(cell["value"], cell["cluster"])
        elif part == "F1" and cell["num"].isna().all() and cells.keys() >= set(sides):
            estimate = jackknife(*(cells[side] for side in sides))
        else:
            estimate = jackknife(cell)
        n, units, unscored = int(cell["value"].count()), int(cell["units"].sum()), int(cell["unscored"].sum())
        coverage = 1 - unscored / units if units else math.nan
        rows.append({
            "metric": metric, "part": part, "model": model, "value": estimate.value,
            "ci_low": estimate.ci_low, "ci_high": estimate.ci_high, "n": n, "clusters": estimate.clusters,
            "unscored": unscored, "signature": signatures[0], "low": cell["low"].mean(),
            "high": cell["high"].mean(), "coverage": coverage, "units": units, "cluster": cluster,
            "flagged": coverage < MIN_COVERAGE or n / len(cell) < MIN_COVERAGE, "pool": pool})
    return in_order(pd.DataFrame(rows))


def jackknife(*frames: pd.DataFrame) -> Estimate:
    """sum(num) / sum(den) of the rows that have them, with its t interval over the column `cluster`.

    Of two frames the harmonic mean of their ratios. A ratio over nothing is 0 (answers that are all
    refusals); nan without clusters.
    """
    tables = [frame.dropna(subset="num").groupby("cluster")[["num", "den"]].sum() for frame in frames]
    sums = pd.concat(tables, axis=1).sort_index().fillna(0.0).to_numpy(dtype=float).T
    n, clusters, low, high = int(sums[1].sum()), sums.shape[1], math.nan, math.nan
    if not clusters:
        return Estimate(math.nan, low, high, 0, 0, len(frames[0]))
    total = sums.sum(axis=1, keepdims=True)
    value = float(_pooled(total)[0])
    if clusters >= MIN_CLUSTERS:
        without = _pooled(total - sums)                   # one cluster left out each
        error = math.sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
        reach = float(stdtrit(clusters - 1, 0.975)) * error
        low, high = value - reach, value + reach
    return Estimate(value, low, high, n, clusters, len(frames[0]) - n)


def _pooled(sums: np.ndarray) -> np.ndarray:
    """num / den by column of the rows num and den; of two such pairs of rows the harmonic mean."""
    ratios = [_ratio(num, den) for num, den in zip(sums[::2], sums[1::2], strict=True)]
    return ratios[0] if len(ratios) == 1 else _ratio(2 * ratios[0] * ratios[1], ratios[0] + ratios[1])


def _ratio(num: np.ndarray, den: np.ndarray) -> np.ndarray:
    return np.divide(num, den, out=np.zeros_like(num), where=den != 0)


def mean_over(values: Sequence[float], cluster: Sequence[object]) -> Estimate:
    """Mean of the values that are not nan, with its t interval over clusters."""
    num = np.asarray(values, dtype=float)
    return jackknife(pd.DataFrame({"num": num, "den": 1.0, "cluster": list(map(str, cluster))}))


def bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of values with `low` and `high`: each value if all its unscored points scored 0, or all 1.

    An unscored point has a weight of 1 in its answer's denominator, an answer without a value counts 0 or 1.
    In precision every unscored reference point may stand for one more answer point, so bounds may be wider
    than needed, never narrower. F1 takes those of its sides.
    """
    key, unscored = ["metric", "model", "triplet_id"], frame["unscored"]
    total = (frame["den"] + unscored).where(frame["den"] + unscored > 0, 1.0)
    for name, score in (("low", 0.0), ("high", 1.0)):
        known = ((frame["num"] + score * unscored) / total).clip(upper=1).fillna(score)
        frame[name] = frame["value"].where(unscored == 0, known)
        sides = frame.pivot(index=key, columns="part", values=name).reindex(columns=["Precision", "Recall"])
        precision, recall = frame[key].join(sides, on=key)[["Precision", "Recall"]].to_numpy(dtype=float).T
        f1 = pd.Series(_ratio(2 * precision * recall, precision + recall), frame.index)
        of_sides = (frame["part"] == "F1") & (unscored > 0) & frame["num"].isna() & f1.notna()
        frame[name] = frame[name].mask(of_sides, f1)
    return frame


# --- paired differences ---

def paired_table(values: pd.DataFrame, *, models: Sequence[str] | None = None, baseline: str | None = None,
                 cluster: str = "group", seed: int = 7) -> pd.DataFrame:
    """Model `a` minus model `b` for every metric, part and pair, over the triplets that both answered.

    Of `models` (by default all, small to large) a later one is `a`, an earlier one `b`; with a `baseline`
    every other model is compared with that one alone. `difference` is the mean over triplets, above 0 where
    `a` scores higher, with its t interval over clusters; `p` two-sided (`sign_flip_test` over clusters);
    `p_holm` adjusted by Holm within `family`, which is all tests of a metric and part; `clear`: the interval
    excludes 0 and p_holm is under 0.05. `g` is Hedges' g of the clusters' mean differences; `ordered` the
    share of triplets on which `a` scores higher, ties half. `only_a` and `only_b` are triplets that one of
    them has no row for, `unscored` those without a value on a side. Empty with fewer than two models.
    """
    frame = _checked(values, cluster)
    known = sorted(frame["model"].unique(), key=by_size)
    models = list(models or known)
    if strange := {*models, baseline or known[0]} - set(known):
        raise InputError(f"no model {strange.pop()!r} among the values; there are {some(known, 12)}")
    pairs = [(a, b) for b, a in combinations(models, 2)]
    if baseline is not None:
        pairs = [(model, baseline) for model in models if model != baseline]
    rows = [{"metric": metric, "part": part, "a": a, "b": b, **_paired(cell, a, b, seed)}
            for (metric, part), cell in frame.groupby(["metric", "part"]) for a, b in pairs]
    if not rows:
        return pd.DataFrame(columns=PAIRED).astype({"clear": bool})
    return with_verdicts(in_order(pd.DataFrame(rows)))[PAIRED]


def with_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Paired differences with p_holm, adjusted over the rows of a metric and part, clear and family."""
    family = ["metric", "part"]
    tests = table.groupby(family)["p"]
    p_holm, excludes_0 = tests.transform(holm), (table["ci_low"] > 0) | (table["ci_high"] < 0)
    named = tests.transform("size").astype(str) + " tests of " + table[family].agg(" ".join, axis=1)
    return table.assign(p_holm=p_holm, clear=excludes_0 & (p_holm < 0.05), family=named)


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
    return {"difference": estimate.value, "ci_low": estimate.ci_low, "ci_high": estimate.ci_high,
            "p": sign_flip_test(of_cluster.sum(), seed=seed), "g": hedges, "n": len(gap),
            "clusters": len(means), "ordered": ((np.sign(gap) + 1) / 2).mean(),
            "unscored": len(both) - len(gap), "only_a": len(left) - len(both),
            "only_b": len(right) - len(both)}


def sign_flip_test(sums: Sequence[float], permutations: int = 9999, seed: int = 7) -> float:
    """Two-sided p in (0, 1] of a sum of independent terms symmetric about 0 (Fisher's randomisation test).

    Counts all 2^k patterns of signs up to 2^14; beyond, `permutations` random ones. nan without terms.
    """
    from scipy.stats import permutation_test

    terms = np.asarray(sums, dtype=float)
    if len(terms) < 2:                                    # scipy refuses what is no sample
        return 1.0 if len(terms) else math.nan
    # scipy takes two values for equal when they differ by 2e-14 of themselves. With this constant added that
    # means 2e-14 of the terms' sizes: the same sum in another order is a tie, near 0 too.
    size = np.abs(terms).sum()
    return float(permutation_test(
        (terms,), lambda signed, axis: size + np.abs(signed.sum(axis=axis)), permutation_type="samples",
        alternative="greater", n_resamples=2**14 if len(terms) <= 14 else permutations, vectorized=True,
        batch=min(1000, max(1, 2**21 // len(terms))), rng=np.random.default_rng(seed)).pvalue)


def holm(p: Iterable[float]) -> np.ndarray:
    """Holm's step-down adjustment of p values (1979), in their own order; nan stays nan, uncounted."""
    raw = pd.Series(list(p), dtype=float)
    ordered = raw.dropna().sort_values()
    return (ordered * range(len(ordered), 0, -1)).cummax().clip(upper=1).reindex(raw.index).to_numpy()


# --- agreement with labels ---

def bootstrap(statistic: Callable[..., float], columns: Sequence[Sequence[float]],
              cluster: Sequence[object] | None = None, *, resamples: int = 2000, seed: int = 7) -> Estimate:
    """`statistic(*columns)`, e.g. `spearman`, with its interval over resampled clusters, else over rows.

    Rows with a value that is not finite are left out and counted. No interval where half the draws are nan.
    """
    table = pd.DataFrame({i: np.asarray(column, dtype=float) for i, column in enumerate(columns)})
    names = map(str, range(len(table)) if cluster is None else cluster)
    rows = table.assign(cluster=list(names))[np.isfinite(table).all(axis=1)]
    rows = rows.sort_values(["cluster", *table], ignore_index=True)
    members, data = list(rows.groupby("cluster").indices.values()), rows[[*table]].to_numpy().T
    low, high, draws = math.nan, math.nan, []
    if len(members) >= MIN_CLUSTERS:
        for drawn in np.random.default_rng(seed).integers(len(members), size=(resamples, len(members))):
            draws.append(statistic(*data[:, np.concatenate([members[i] for i in drawn])]))
    defined = [draw for draw in draws if not math.isnan(draw)]
    if len(defined) > len(draws) / 2:
        low, high = map(float, np.quantile(defined, [0.025, 0.975]))
    return Estimate(statistic(*data), low, high, len(rows), len(members), len(table) - len(rows))


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    """Pearson's correlation in [-1, 1]; nan for a constant column."""
    return float(np.corrcoef(x, y)[0, 1]) if min(len(set(x)), len(set(y))) > 1 else math.nan


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's correlation of ranks in [-1, 1]; nan for a constant column."""
    return pearson(pd.Series(x).rank(), pd.Series(y).rank())


def auc(score: Sequence[float], label: Sequence[float]) -> float:
    """The chance that a positive (label 1) outscores a negative (0), ties half; nan without one of them."""
    if strange := set(label) - {0, 1}:
        raise InputError(f"label must be 0 or 1 (or bool), got {min(strange):g}")
    n, positive = int(sum(label)), np.asarray(label) == 1
    pairs = n * (len(positive) - n)
    return float(pd.Series(score).rank()[positive].sum() - n * (n + 1) / 2) / pairs if pairs else math.nan


def _checked(values: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """The frame of values, verified and sorted, with a column `cluster`."""
    keys = ["metric", "part", "model", "triplet_id"]
    if absent := [name for name in [*COLUMNS, cluster] if name not in values]:
        raise InputError(f"the frame of values lacks {some(absent)}; it has {some(list(values.columns), 12)}")
    if values.empty:
        raise InputError("the frame of values has no rows: nothing was scored")
    for column in (*keys, cluster):
        if holes := int(values[column].isna().sum()):
            raise InputError(f"column {column!r} must be filled, got {holes} empty cells")
    if (twice := values.duplicated(keys)).any():
        raise InputError(f"one row per metric, part, model and triplet, got {int(twice.sum())} more, "
                         f"e.g. {tuple(values.loc[twice, keys].iloc[0])}")
    spread = values.groupby("triplet_id")[cluster].nunique()
    if spread.max() > 1:
        raise InputError(f"a triplet must lie in one {cluster}, {spread.idxmax()!r} lies in {spread.max()}")
    return values.assign(cluster=values[cluster].astype(str)).sort_values(keys, ignore_index=True)
