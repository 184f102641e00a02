"""Statistics of stored values: means with intervals, paired differences, agreement with labels.

Answers about one company or document are not independent, so every 95 % interval is over whole clusters; with
fewer than `MIN_CLUSTERS` there is none. Means and differences: Student's t with clusters - 1 degrees of
freedom around the jackknife's standard error (Efron and Tibshirani 1993, chapter 11; Cameron and Miller 2015,
section VI). Correlations and areas: the percentile bootstrap over clusters (chapter 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
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
Sums = tuple[np.ndarray, np.ndarray]              # numerators and denominators by cluster
Statistic = Callable[..., float]                  # of one or more columns of equal length


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; nan where it is undefined."""

    value: float
    ci_low: float
    ci_high: float
    n: int                     # observations it rests on
    clusters: int
    left_out: int = 0          # observations without a value


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
    frame = bounds(_checked(values, cluster))
    if pool == "macro":
        frame = frame.assign(num=frame["value"], den=1.0)
    cells = dict(list(frame.groupby(["metric", "part", "model"])))
    rows = []
    for (metric, part, model), cell in cells.items():
        signatures = list(cell["signature"].unique())
        if len(signatures) > 1:
            raise InputError(f"{metric} {part} of {model} mixes settings: {some(signatures, 2)}; summarise "
                             "them apart")
        pooled = [cell]
        if part == "F1" and cell["num"].isna().all():
            sides = [(metric, side, model) for side in ("Precision", "Recall")]
            pooled = [cells[side] for side in sides if side in cells] or [cell]
        estimate, n = jackknife(*_by_cluster(pooled)), int(cell["value"].count())
        units, unscored = int(cell["units"].sum()), int(cell["unscored"].sum())
        coverage = 1 - unscored / units if units else math.nan
        rows.append({
            "metric": metric, "part": part, "model": model, **asdict(estimate), "n": n, "unscored": unscored,
            "signature": signatures[0], "low": cell["low"].mean(), "high": cell["high"].mean(),
            "coverage": coverage, "flagged": coverage < MIN_COVERAGE or n / len(cell) < MIN_COVERAGE,
            "units": units, "cluster": cluster, "pool": pool})
    return in_order(pd.DataFrame(rows).drop(columns="left_out"))


def _by_cluster(cells: Sequence[pd.DataFrame]) -> list[Sums]:
    """Each cell's sums by cluster, over the clusters for which any of them has a value."""
    sums = [cell.dropna(subset="num").groupby("cluster")[["num", "den"]].sum() for cell in cells]
    clusters = sorted(set().union(*(part.index for part in sums)))
    filled = [part.reindex(clusters, fill_value=0.0) for part in sums]
    return [(part["num"].to_numpy(dtype=float), part["den"].to_numpy(dtype=float)) for part in filled]


def jackknife(*sums: Sums) -> Estimate:
    """sum(num) / sum(den) over clusters with its t interval; of two such ratios the harmonic mean.

    A ratio over nothing is 0 (answers that are all refusals); nan without clusters.
    """
    clusters, low, high = len(sums[0][0]), math.nan, math.nan
    if not clusters:
        return Estimate(math.nan, low, high, 0, 0)
    value = float(_pooled([(num.sum(keepdims=True), den.sum(keepdims=True)) for num, den in sums])[0])
    if clusters >= MIN_CLUSTERS:
        without = _pooled([(num.sum() - num, den.sum() - den) for num, den in sums])     # one left out each
        error = math.sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
        reach = float(stdtrit(clusters - 1, 0.975)) * error
        low, high = value - reach, value + reach
    return Estimate(value, low, high, int(sums[0][1].sum()), clusters)


def _pooled(sums: Sequence[Sums]) -> np.ndarray:
    ratios = [_ratio(num, den) for num, den in sums]
    return ratios[0] if len(ratios) == 1 else _ratio(2 * ratios[0] * ratios[1], ratios[0] + ratios[1])


def _ratio(num: np.ndarray, den: np.ndarray) -> np.ndarray:
    return np.divide(num, den, out=np.zeros_like(num), where=den != 0)


def mean_over(values: Sequence[float], cluster: Sequence[object]) -> Estimate:
    """Mean of the values that are not nan, with its t interval over clusters."""
    table = pd.DataFrame({"num": np.asarray(values, dtype=float), "den": 1.0, "cluster": map(str, cluster)})
    return jackknife(*_by_cluster([table]))


def bounds(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame of values with `low` and `high`: each value if all its unscored points scored 0, or all 1.

    An unscored point has a weight of 1 in its answer's denominator, an answer without a value counts 0 or 1.
    In precision every unscored reference point may stand for one more answer point, so bounds may be wider
    than needed, never narrower. F1 takes those of its sides.
    """
    key, unscored = ["metric", "model", "triplet_id"], frame["unscored"]
    total = (frame["den"] + unscored).where(frame["den"] + unscored > 0, 1.0)
    of_f1 = (frame["part"] == "F1") & (unscored > 0) & frame["num"].isna()
    wanted = pd.MultiIndex.from_frame(frame.loc[of_f1, key])
    for name, score in (("low", 0.0), ("high", 1.0)):
        known = ((frame["num"] + score * unscored) / total).clip(upper=1).where(frame["num"].notna(), score)
        frame[name] = frame["value"].where(unscored == 0, known)
        sides = frame.pivot(index=key, columns="part", values=name).reindex(columns=["Precision", "Recall"])
        precision, recall = sides.loc[wanted].to_numpy(dtype=float).T
        f1 = _ratio(2 * precision * recall, precision + recall)
        frame.loc[of_f1, name] = np.where(np.isnan(f1), frame.loc[of_f1, name], f1)
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
    return with_verdicts(in_order(pd.DataFrame(rows)), ["metric", "part"])[PAIRED]


def with_verdicts(table: pd.DataFrame, family: list[str]) -> pd.DataFrame:
    """Paired differences with p_holm, adjusted over the rows that are alike in `family`, clear and family."""
    tests = table.groupby(family)["p"]
    p_holm, excludes_0 = tests.transform(holm), (table["ci_low"] > 0) | (table["ci_high"] < 0)
    named = tests.transform("size").astype(str) + " tests of " + table[family].agg(" ".join, axis=1)
    return table.assign(p_holm=p_holm, clear=excludes_0 & (p_holm < 0.05), family=named)


def _paired(cell: pd.DataFrame, a: str, b: str, seed: int) -> dict[str, Any]:
    """One row of `paired_table`, from the checked rows of a metric and part."""
    left, right = (cell[cell["model"] == model].set_index("triplet_id") for model in (a, b))
    both = left.index.intersection(right.index)
    gap = (left.loc[both, "value"] - right.loc[both, "value"]).dropna()
    of_cluster = gap.groupby(left.loc[gap.index, "cluster"])
    num, den = of_cluster.sum().to_numpy(), of_cluster.count().to_numpy(dtype=float)
    estimate, means, hedges = jackknife((num, den)), num / den, math.nan
    if len(means) >= MIN_CLUSTERS and means.std() > 0:
        hedges = (1 - 3 / (4 * len(means) - 5)) * means.mean() / means.std(ddof=1)
    return {"difference": estimate.value, "ci_low": estimate.ci_low, "ci_high": estimate.ci_high,
            "p": sign_flip_test(num, seed=seed), "g": hedges, "ordered": ((np.sign(gap) + 1) / 2).mean(),
            "n": len(gap), "clusters": len(num), "only_a": len(left) - len(both),
            "only_b": len(right) - len(both), "unscored": len(both) - len(gap)}


def sign_flip_test(sums: Sequence[float] | np.ndarray, permutations: int = 9999, seed: int = 7) -> float:
    """Two-sided p in (0, 1] of a sum of independent terms symmetric about 0 (Fisher's randomisation test).

    Counts all 2^k patterns of signs up to 2^14; beyond, `permutations` random ones. nan without terms.
    """
    from scipy.stats import permutation_test

    terms = np.asarray(sums, dtype=float)
    if len(terms) < 2:                                    # scipy refuses what is no sample
        return 1.0 if len(terms) else math.nan
    drawn = 2**14 if len(terms) <= 14 else permutations
    # scipy takes two values for equal when they differ by 2e-14 of themselves. With this constant added that
    # means 2e-14 of the terms' sizes: the same sum in another order is a tie, near 0 too.
    size = np.abs(terms).sum()
    test = permutation_test(
        (terms,), lambda signed, axis: size + np.abs(signed.sum(axis=axis)), permutation_type="samples",
        alternative="greater", n_resamples=drawn, batch=min(1000, max(1, 2**21 // len(terms))),
        vectorized=True, rng=np.random.default_rng(seed))
    return float(test.pvalue)


def holm(p: Iterable[float]) -> np.ndarray:
    """Holm's step-down adjustment of p values (1979), in their own order; nan stays nan, uncounted."""
    raw = np.asarray(list(p), dtype=float)
    adjusted = np.full(len(raw), np.nan)
    order = np.argsort(raw, kind="stable")[: int(np.isfinite(raw).sum())]
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(order), 0, -1)), 1)
    return adjusted


# --- agreement with labels ---

def correlate(x: Sequence[float], y: Sequence[float], cluster: Sequence[object] | None = None, *,
              measure: str = "spearman", **settings: int) -> Estimate:
    """How far two columns agree: "spearman" or "pearson" in [-1, 1], or "auc" in [0, 1] for a `y` of 0 and 1.

    nan for a constant column. `settings` are `bootstrap`'s resamples and seed. InputError for another `y`.
    """
    return bootstrap(MEASURES[measure], (x, y), cluster, **settings)


def correlate_difference(a: Sequence[float], b: Sequence[float], y: Sequence[float],
                         cluster: Sequence[object] | None = None, *, measure: str = "spearman",
                         **settings: int) -> Estimate:
    """How much better `a` agrees with `y` than `b` does; paired: from the same rows and resamples."""
    agree = MEASURES[measure]
    return bootstrap(lambda a, b, y: agree(a, y) - agree(b, y), (a, b, y), cluster, **settings)


auc = partial(correlate, measure="auc")           # area under the ROC curve, of values and labels of 0 and 1


def bootstrap(statistic: Statistic, columns: Sequence[Sequence[float]],
              cluster: Sequence[object] | None = None, *, resamples: int = 2000, seed: int = 7) -> Estimate:
    """`statistic(*columns)` with its interval over resampled clusters; without `cluster` rows are drawn.

    Rows with a value that is not finite are left out and counted. No interval where half the draws are nan.
    """
    table = np.asarray([np.asarray(column, dtype=float) for column in columns])
    kept = np.isfinite(table).all(axis=0)
    table, n, low, high = table[:, kept], int(kept.sum()), math.nan, math.nan
    names = pd.Series(list(range(len(kept)) if cluster is None else cluster))[kept].astype(str)
    codes = np.zeros(n, dtype=int) if cluster is None else pd.factorize(names, sort=True)[0]
    order = np.lexsort([*table[::-1], codes])
    table, codes = table[:, order], np.arange(n) if cluster is None else codes[order]
    members = np.split(np.arange(n), np.flatnonzero(np.diff(codes)) + 1) if n else []
    draws = []
    if len(members) >= MIN_CLUSTERS:
        for drawn in np.random.default_rng(seed).integers(len(members), size=(resamples, len(members))):
            draws.append(statistic(*table[:, np.concatenate([members[i] for i in drawn])]))
    defined = [draw for draw in draws if not math.isnan(draw)]
    if len(defined) > len(draws) / 2:
        low, high = map(float, np.quantile(defined, [0.025, 0.975]))
    return Estimate(statistic(*table) if n else math.nan, low, high, n, len(members), len(kept) - n)


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    return _pearson(_ranks(x), _ranks(y))


def _auc(score: np.ndarray, label: np.ndarray) -> float:
    """The chance that a positive (label 1) outscores a negative (0), ties half; nan without one of them."""
    if not np.isin(label, (0, 1)).all():
        raise InputError(f"label must be 0 or 1 (or bool), got {min(set(label) - {0, 1}):g}")
    n = int((label == 1).sum())
    pairs = n * (len(label) - n)
    return float(_ranks(score)[label == 1].sum() - n * (n + 1) / 2) / pairs if pairs else math.nan


def _ranks(x: np.ndarray) -> np.ndarray:
    return pd.Series(x).rank().to_numpy()


MEASURES: dict[str, Statistic] = {"spearman": _spearman, "pearson": _pearson, "auc": _auc}


def _checked(values: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """The frame of values, verified and sorted, with a column `cluster`."""
    keys = ["metric", "part", "model", "triplet_id"]
    if absent := [name for name in dict.fromkeys([*COLUMNS, cluster]) if name not in values]:
        raise InputError(f"the frame of values lacks {some(absent)}; it has {some(list(values.columns), 12)}")
    if values.empty:
        raise InputError("the frame of values has no rows: nothing was scored")
    for column in dict.fromkeys([*keys, cluster]):
        if holes := int(values[column].isna().sum()):
            raise InputError(f"column {column!r} must be filled, got {holes} empty cells")
    if (twice := values.duplicated(keys)).any():
        raise InputError(f"one row per metric, part, model and triplet, got {int(twice.sum())} more, "
                         f"e.g. {tuple(values.loc[twice, keys].iloc[0])}")
    spread = values.groupby("triplet_id")[cluster].nunique()
    if spread.max() > 1:
        raise InputError(f"a triplet must lie in one {cluster}, {spread.idxmax()!r} lies in {spread.max()}")
    return values.assign(cluster=values[cluster].astype(str)).sort_values(keys, ignore_index=True)
