"""Statistics from stored per-answer values: intervals over clusters, paired and trend tests, correlations.

Everything reads the *values frame* (`data.to_frame`), one row per metric, part and answer. Answers about one
company or document are not independent, so every 95 % interval is over whole clusters. Means and paired
differences: Student's t with clusters - 1 degrees of freedom around the jackknife's standard error (Efron and
Tibshirani 1993, chapter 11; Cameron and Miller 2015, section VI), which covers over ten clusters too,
where the percentile bootstrap is narrow. Correlations and areas, over many clusters: the percentile bootstrap
(chapter 13). With fewer than `MIN_CLUSTERS` there is no interval. The order of rows never matters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from .types import InputError

METRICS = (
    "BLEU", "ROUGE", "BERTScore", "RAGChecker", "EMS(ROUGE)", "EMS(BERTScore)", "EMS(LLM)", "EMS(LLM, sides)",
    "EMS(local)", "EMS-Support", "EMS-open", "EMS-Support(LLM)", "EMS-open(LLM)")
PARTS = ("Score", "Precision", "Recall", "F1")
COLUMNS = ("metric", "part", "model", "value", "ci_low", "ci_high", "n", "unscored", "signature")
MIN_COVERAGE = 0.95            # below it a number is flagged
MIN_CLUSTERS = 6               # fewer say too little about how clusters vary
EXACT = 2**14                  # up to so many sign patterns the permutation test counts them all
BLOCK = 2**17                  # numbers held at a time while resampling rows: 1 MB, which a cache holds
Statistic = Callable[[np.ndarray], np.ndarray]     # (resamples, clusters) counts -> one value per resample


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; nan where it is undefined."""

    value: float
    ci_low: float
    ci_high: float
    n: int                     # observations it rests on
    clusters: int
    left_out: int = 0          # observations without a value, or without a preference


@dataclass(frozen=True, slots=True)
class Paired:
    """Model `a` minus model `b` on the triplets both have a value for; positive: `a` scores higher."""

    metric: str
    part: str
    a: str
    b: str
    difference: float          # mean over triplets
    ci_low: float
    ci_high: float
    p: float                   # two-sided, of `sign_flip_test` over clusters
    n: int                     # triplets compared
    clusters: int
    only_a: int                # triplets that b has no row for
    only_b: int
    unscored: int              # triplets both have, without a value on one side or both
    exact: bool                # all sign patterns counted, else random ones


def paper_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of the paper's Table 1, then by model, small to large (`by_size`)."""
    def rank(column: pd.Series) -> pd.Series:
        if column.name == "model":
            return column.map(by_size)
        known = METRICS if column.name == "metric" else PARTS
        return column.map(lambda name: (known.index(name) if name in known else len(known), natural(name)))
    keys = [column for column in ("metric", "part", "model") if column in frame]
    return frame.sort_values(keys, key=rank, ignore_index=True)


def natural(name: object) -> tuple[object, ...]:
    """Sort key under which "Q2" comes before "Q10"."""
    pieces = re.split(r"([0-9]+)", str(name))
    return tuple((int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces)


def by_size(model: object) -> tuple[float, tuple[object, ...]]:
    """Sort key for models: the parameter count in the name ("-135M", "_11b"), none last; then the name."""
    size = re.search(r"(?<![a-z0-9.])([0-9]+(?:[.][0-9]+)?)([mb])(?![a-z0-9])", str(model), flags=re.I)
    parameters = float(size[1]) * {"m": 1e6, "b": 1e9}[size[2].lower()] if size else math.inf
    return parameters, natural(model)


def summarise(values: pd.DataFrame, *, cluster: str = "group", pool: str = "macro") -> pd.DataFrame:
    """Value and interval per metric, part and model: table1.csv's columns and some on coverage.

    `pool="macro"` is the mean of the values there are, as in the paper's table; `"micro"` is sum(num) /
    sum(den), 0 for refusals only, and the harmonic mean of pooled Precision and Recall for an F1 without
    sums. `n` counts answers with a value, `unscored` points; `coverage` = 1 - unscored / units; `flagged`
    when it, or the share of answers with a value, is under 95 %. InputError for a broken frame, or one that
    mixes settings in a cell.
    """
    if pool not in ("macro", "micro"):
        raise InputError(f"pool must be 'macro' or 'micro', got {pool!r}")
    frame = _checked(values, cluster)
    if pool == "macro":
        frame = frame.assign(num=frame["value"], den=1.0)
    cells = dict(list(frame.groupby(["metric", "part", "model"])))
    rows = []
    for (metric, part, model), cell in cells.items():
        signature, *others = cell["signature"].unique()
        if others:
            raise InputError(f"{metric} {part} of {model} mixes {1 + len(others)} settings, e.g. "
                             f"{signature!r} and {others[0]!r}: summarise them apart")
        estimate = jackknifed(*_pooled(*_summed(cells, metric, part, model)))
        n = int(cell["value"].count())
        units, unscored = (int(cell[column].sum()) for column in ("units", "unscored"))
        coverage = 1 - unscored / units if units else np.nan
        rows.append({
            "metric": metric, "part": part, "model": model, **asdict(estimate), "n": n, "unscored": unscored,
            "signature": f"{signature}|pool:{pool}|n:{n}|unscored:{unscored}"
                         f"|interval:t,cluster={cluster},clusters={estimate.clusters}",
            "coverage": coverage, "units": units,
            "flagged": coverage < MIN_COVERAGE or n / len(cell) < MIN_COVERAGE})
    return paper_order(pd.DataFrame(rows, columns=[*COLUMNS, "coverage", "units", "flagged", "clusters"]))


def _summed(cells: Mapping[tuple[str, str, str], pd.DataFrame], metric: str, part: str,
            model: str) -> list[pd.DataFrame]:
    """The cells whose sums give a value: its own, or Precision's and Recall's for an F1 without sums."""
    cell = cells[metric, part, model]
    if cell["num"].notna().any() or cell["value"].isna().all():
        return [cell]
    sides = [cells[metric, side, model] for side in ("Precision", "Recall") if (metric, side, model) in cells]
    if part != "F1" or len(sides) < 2:
        raise InputError(f"micro pooling of {metric} {part} needs num and den, or Precision and Recall rows "
                         f"for F1; {model} has neither: use pool='macro'")
    return sides


def paired(values: pd.DataFrame, metric: str, part: str, a: str, b: str, *, cluster: str = "group",
           permutations: int = 9999, seed: int = 7) -> Paired:
    """Mean difference a - b over triplets joined by id, its interval, and `sign_flip_test` over clusters.

    InputError when metric, part or a model is not in the frame.
    """
    cell = _checked(values, cluster, metric=metric, part=part)
    _known(values, "model", a, b)
    return _paired(cell, metric, part, [(a, b)], permutations, seed)[0]


def _paired(cell: pd.DataFrame, metric: str, part: str, pairs: Sequence[tuple[str, str]], permutations: int,
            seed: int) -> list[Paired]:
    """`paired` for each of these pairs, from the checked rows of one metric and part."""
    wide = cell.assign(there=1.0).pivot(index=["cluster", "triplet_id"], columns="model",
                                        values=["value", "there"])
    models = list(dict.fromkeys(model for pair in pairs for model in pair))
    value, there = (wide[column].reindex(columns=models) for column in ("value", "there"))
    there = there.notna()
    gaps = pd.DataFrame({k: value[a] - value[b] for k, (a, b) in enumerate(pairs)}, index=wide.index)
    by_cluster = gaps.groupby(level="cluster")
    sums, counts = (table.to_numpy(dtype=float).T for table in (by_cluster.sum(), by_cluster.count()))
    found = []
    for (a, b), num, den in zip(pairs, sums, counts, strict=True):
        num, den = num[den > 0], den[den > 0]
        estimate = jackknifed(_ratio([(num, den, den)]), len(num), int(den.sum()))
        p, exact = sign_flip_test(num, permutations, seed)
        both = int((there[a] & there[b]).sum())
        found.append(Paired(
            metric, part, a, b, estimate.value, estimate.ci_low, estimate.ci_high, p, estimate.n,
            estimate.clusters, only_a=int(there[a].sum()) - both, only_b=int(there[b].sum()) - both,
            unscored=both - estimate.n, exact=exact))
    return found


def sign_flip_test(sums: Sequence[float], permutations: int = 9999, seed: int = 7) -> tuple[float, bool]:
    """Fisher's two-sided p of a sum of independent terms symmetric about 0, and whether it is exact.

    All 2^k patterns of signs are counted up to 2^14 of them (or `permutations`, if that is more); beyond,
    that many random ones are drawn, and p = (1 + as extreme) / (1 + drawn). In (0, 1]; nan without terms.
    """
    from scipy.stats import permutation_test  # late, here and in `_page`: it takes a second

    terms = np.asarray(sums, dtype=float)
    if len(terms) < 2:                                    # scipy refuses what is no sample
        return (1.0 if len(terms) else math.nan), True
    counted = max(permutations, EXACT) if 2 ** len(terms) <= EXACT else permutations
    # scipy takes two values for equal when they differ by 2e-14 of themselves. With this constant added that
    # means 2e-14 of the terms' sizes: the same sum in another order is a tie, near 0 too.
    size = np.abs(terms).sum()
    test = permutation_test(
        (terms,), lambda signed, axis: size + np.abs(signed.sum(axis=axis)), permutation_type="samples",
        alternative="greater", n_resamples=counted, batch=1000, vectorized=True,
        rng=np.random.default_rng(seed))
    return float(test.pvalue), 2 ** len(terms) <= counted


def paired_table(values: pd.DataFrame, *, models: Sequence[str] | None = None, cluster: str = "group",
                 permutations: int = 9999, seed: int = 7) -> pd.DataFrame:
    """`paired` for every metric, part and pair of models; `p_holm` is adjusted within a metric and part.

    Of `models` (by default `by_size`) a later one is `a`, an earlier one `b`: a positive difference is a
    gain.
    """
    frame = _checked(values, cluster)
    models = sorted(frame["model"].unique(), key=by_size) if models is None else models
    _known(frame, "model", *models)
    cells = dict(list(frame.groupby(["metric", "part"])))
    pairs = [(a, b) for b, a in combinations(models, 2)]
    order = paper_order(frame[["metric", "part"]].drop_duplicates()).to_numpy()
    rows = [asdict(pair) for metric, part in order
            for pair in _paired(cells[metric, part], metric, part, pairs, permutations, seed)]
    table = pd.DataFrame(rows, columns=list(Paired.__slots__))
    adjusted = table.groupby(["metric", "part"])["p"].transform(holm)
    table.insert(table.columns.get_loc("p") + 1, "p_holm", adjusted)
    return table


def resolution(paired: pd.DataFrame, difference: float = 0.02, power: float = 0.8) -> pd.DataFrame:
    """How small a difference a design can see: `paired_table`'s rows with three columns more.

    smallest            the true difference that a two-sided t test over clusters at 5 % finds with chance
                        `power`, if differences vary between clusters as they do here (Bloom 1995)
    clusters_needed     clusters, with as many questions each as here, to find `difference` so
    questions_needed    the questions they hold

    nan or <NA> where there is no interval; InputError for a difference or a power that makes no sense.
    """
    if not difference > 0 or not 0.5 <= power < 1:
        raise InputError(f"a difference above 0 and a power from 0.5 to 1 are needed, got {difference} and "
                         f"{power}")
    rows = []
    for n, clusters, reach in zip(paired["n"], paired["clusters"],
                                  (paired["ci_high"] - paired["ci_low"]) / 2, strict=True):
        smallest = needed = math.nan
        if math.isfinite(reach):
            error = reach / float(stdtrit(clusters - 1, 0.975))
            smallest = error * _detectable(clusters, power)
            needed = MIN_CLUSTERS if error else clusters
            while error * math.sqrt(clusters / needed) * _detectable(needed, power) > difference:
                needed += max(1, needed // 200)
        rows.append((smallest, needed, math.ceil(needed * n / clusters) if needed == needed else math.nan))
    columns = ["smallest", "clusters_needed", "questions_needed"]
    found = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[1:], "Int64"))
    return paired.reset_index(drop=True).join(found)


def _detectable(clusters: float, power: float) -> float:
    """The true difference found with chance `power`, in standard errors."""
    return float(stdtrit(clusters - 1, 0.975) + stdtrit(clusters - 1, power))


def bounds(values: pd.DataFrame) -> pd.DataFrame:
    """Where every mean could lie: if all unscored points scored 0 (`low`), or all 1 (`high`).

    Columns metric, part, model, value, low, high; `value` is the mean over answers with a value, as
    `summarise` gives it. An unscored point is put into its answer's numerator (1) or not (0) and into the
    denominator, with a weight of 1: the frame does not say what it weighs. An unscored answer counts 0 or 1.
    In precision every unscored reference point may stand for one more answer point: wider than needed, never
    narrower. An F1 takes the bounds of its precision and recall.
    """
    frame = _checked(values, "triplet_id")
    key, unscored = ["metric", "model", "triplet_id"], frame["unscored"]
    total = (frame["den"] + unscored).where(frame["den"] + unscored > 0, 1.0)
    of_f1 = (frame["part"] == "F1") & (unscored > 0)
    for name, score in (("low", 0.0), ("high", 1.0)):
        known = ((frame["num"] + score * unscored) / total).clip(upper=1).where(frame["num"].notna(), score)
        frame[name] = frame["value"].where(unscored == 0, known)
        if of_f1.any():
            sides = frame.pivot(index=key, columns="part", values=name)
            answers = sides.loc[pd.MultiIndex.from_frame(frame.loc[of_f1, key])]
            p, r = answers["Precision"].to_numpy(), answers["Recall"].to_numpy()
            frame.loc[of_f1, name] = np.divide(2 * p * r, p + r, out=np.zeros_like(p), where=p + r > 0)
    means = frame.groupby(["metric", "part", "model"], as_index=False)[["value", "low", "high"]].mean()
    return paper_order(means)


def holm(p: Iterable[float]) -> np.ndarray:
    """Holm's step-down adjustment of p values (1979), in their own order; nan stays nan, uncounted."""
    raw = np.asarray(list(p), dtype=float)
    adjusted = np.full(len(raw), np.nan)
    order = np.argsort(raw, kind="stable")[: int(np.isfinite(raw).sum())]
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * np.arange(len(order), 0, -1)), 1)
    return adjusted


def trend(values: pd.DataFrame, order: Mapping[str, float], *, cluster: str = "group") -> pd.DataFrame:
    """Does each metric rise with model size? `order` maps models to sizes in billions of parameters.

    `slope`: mean over triplets of the least-squares slope on log2(size), the change per doubling. `page_l`,
    `p`: Page's one-sided test (1963) over cluster means, or triplets with fewer than three clusters
    (`page_over`); nan with fewer than three models or two rows. `incomplete` triplets, without a value for
    every model, are left out.
    """
    frame = _checked(values, cluster)
    _known(frame, "model", *order)
    models = sorted(order, key=lambda model: order[model])
    sizes = [order[model] for model in models]
    if len(set(sizes)) < max(2, len(models)) or not all(0 < size < math.inf for size in sizes):
        raise InputError(f"order must give two or more models different sizes above 0, got {dict(order)}")
    doublings = np.array([math.log2(size / sizes[0]) for size in sizes])
    doublings -= doublings.mean()
    rows = []
    for (metric, part), cell in frame[frame["model"].isin(models)].groupby(["metric", "part"]):
        wide = cell.pivot(index=["cluster", "triplet_id"], columns="model", values="value")
        full = wide.reindex(columns=models).dropna()
        slopes = (full.to_numpy() * doublings).sum(axis=1) / (doublings**2).sum()
        estimate = jackknifed(*_pooled(full.reset_index().assign(num=slopes, den=1.0)))
        rows.append({
            "metric": metric, "part": part, "slope": estimate.value, "ci_low": estimate.ci_low,
            "ci_high": estimate.ci_high, **_page(full), "n": len(full), "incomplete": len(wide) - len(full),
            "clusters": estimate.clusters})
    return paper_order(pd.DataFrame(rows))


def _page(full: pd.DataFrame) -> dict[str, float | str]:
    """`trend`'s page_l, p and page_over from a frame of triplets by models, without gaps."""
    from scipy.stats import page_trend_test

    means = full.groupby(level="cluster").mean()
    ranked, over = (means, "clusters") if len(means) >= 3 else (full, "triplets")
    if len(ranked) < 2 or ranked.shape[1] < 3:
        return {"page_l": math.nan, "p": math.nan, "page_over": over}
    page = page_trend_test(ranked.to_numpy())
    return {"page_l": page.statistic, "p": float(page.pvalue), "page_over": over}


def correlate(x: Sequence[float], y: Sequence[float], cluster: Sequence[object] | None = None, *,
              coefficients: Iterable[str] = ("pearson", "spearman", "kendall"), resamples: int = 2000,
              seed: int = 7) -> pd.DataFrame:
    """Pearson, Spearman and Kendall (tau-b) between two columns, in [-1, 1]: one row each.

    Without `cluster` rows are drawn singly. Rows where x or y is nan are left out and counted. nan for a
    constant column. No interval under six clusters, or where half of the resamples or more are nan.
    """
    (x_kept, y_kept), codes, left_out = _columns(cluster, x, y)
    clusters, n = _count(codes)
    rows = []
    for name in coefficients:
        value, draws = _correlations(name, x_kept, y_kept, codes, resamples, seed)
        rows.append({"coefficient": name, **asdict(_interval(value, draws, n, clusters, left_out))})
    return pd.DataFrame(rows)


def correlate_difference(a: Sequence[float], b: Sequence[float], y: Sequence[float],
                         cluster: Sequence[object] | None = None, *,
                         coefficients: Iterable[str] = ("pearson", "spearman", "kendall"),
                         resamples: int = 2000, seed: int = 7) -> pd.DataFrame:
    """Correlation(a, y) - correlation(b, y), in [-2, 2], and both (`a`, `b`): a row per coefficient.

    Both come from the same rows and the same resamples, so the interval is a paired one. The coefficient
    "auc" is the area under the ROC curve, for a `y` of 0 and 1.
    """
    (first, second, target), codes, left_out = _columns(cluster, a, b, y)
    clusters, n = _count(codes)
    rows = []
    for name in coefficients:
        (of_a, draws_a), (of_b, draws_b) = (
            _correlations(name, column, target, codes, resamples, seed) for column in (first, second))
        gap = _interval(of_a - of_b, draws_a - draws_b, n, clusters, left_out)
        rows.append({"coefficient": name, "a": of_a, "b": of_b, **asdict(gap)})
    return pd.DataFrame(rows)


def auc(score: Sequence[float], label: Sequence[bool], cluster: Sequence[object] | None = None, *,
        resamples: int = 2000, seed: int = 7) -> Estimate:
    """Area under the ROC curve: chance that a positive (label 1) outscores a negative (0), a tie counts half.

    nan without a positive or without a negative. InputError for a label that is neither 0 nor 1.
    """
    (scores, labels), codes, left_out = _columns(cluster, score, label)
    if not np.isin(labels, (0, 1)).all():
        raise InputError(f"label must be 0 or 1 (or bool), got {min(set(labels) - {0, 1})}")
    clusters, n = _count(codes)
    return _interval(*_correlations("auc", scores, labels, codes, resamples, seed), n, clusters, left_out)


def sign_accuracy(difference: Sequence[float], preference: Sequence[float],
                  cluster: Sequence[object] | None = None, *, resamples: int = 2000,
                  seed: int = 7) -> Estimate:
    """Share of preferences (not 0) whose difference has the same sign; 0 counts half, nan without one."""
    liked = np.asarray(preference, dtype=float)
    (gap, liked), codes, left_out = _columns(cluster, difference, np.where(liked == 0, np.nan, liked))
    table = pd.DataFrame({"cluster": codes, "num": (np.sign(gap) * np.sign(liked) + 1) / 2, "den": 1.0})
    return bootstrapped(*_pooled(table), resamples, seed, left_out)


def _checked(values: pd.DataFrame, cluster: str, **only: str) -> pd.DataFrame:
    """The values frame, verified and sorted, with a column `cluster`; `only` keeps one metric and part."""
    keys = ["metric", "part", "model", "triplet_id"]
    needed = dict.fromkeys([*keys, cluster, "value", "num", "den", "units", "unscored", "signature"])
    if absent := [c for c in needed if c not in values]:
        raise InputError(f"the values frame lacks {', '.join(map(repr, absent))}; "
                         f"it has {list(values.columns)}")
    for column, name in only.items():
        _known(values, column, name)
        values = values[values[column] == name]
    if values.empty:
        raise InputError("the values frame has no rows: nothing was scored")
    for column in dict.fromkeys([*keys, cluster]):
        if (holes := values[column].isna()).any():
            raise InputError(f"column {column!r} must be filled, got {int(holes.sum())} empty cells")
    if (twice := values.duplicated(keys)).any():
        raise InputError(f"one row per metric, part, model and triplet, got {int(twice.sum())} more, "
                         f"e.g. {tuple(values.loc[twice, keys].iloc[0])}")
    if (spread := values.groupby("triplet_id")[cluster].nunique()).max() > 1:
        raise InputError(f"a triplet must lie in one {cluster}, {spread.idxmax()!r} lies in {spread.max()}")
    return values.assign(cluster=values[cluster].astype(str)).sort_values(keys, ignore_index=True)


def _known(frame: pd.DataFrame, column: str, *names: str) -> None:
    """InputError when a name is not in the column."""
    known = sorted(frame[column].unique(), key=natural)
    if strange := [name for name in names if name not in known]:
        raise InputError(f"no {column} {strange[0]!r} among the values; "
                         f"there are {', '.join(map(repr, known))}")


def _columns(cluster: Sequence[object] | None,
             *columns: Sequence[float] | np.ndarray) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Finite rows of equally long columns, sorted; their cluster codes 0..; how many rows were left out."""
    arrays = [np.asarray(c, dtype=float) for c in columns]
    kept = np.isfinite(arrays).all(axis=0)
    arrays = [a[kept] for a in arrays]
    if cluster is None:                                   # every row is a cluster
        order = np.lexsort(arrays[::-1])
        codes = np.arange(len(order))
    else:
        codes = pd.factorize(pd.Series(list(cluster))[kept].astype(str), sort=True)[0]
        order = np.lexsort([*arrays[::-1], codes])
        codes = codes[order]
    return [a[order] for a in arrays], codes, int((~kept).sum())


def _count(codes: np.ndarray) -> tuple[int, int]:
    """How many clusters and rows there are; codes are sorted."""
    return int(codes[-1]) + 1 if len(codes) else 0, len(codes)


def _pooled(*sources: pd.DataFrame) -> tuple[Statistic, int, int]:
    """sum(num) / sum(den), 0 for rows drawn that are all refusals, or the harmonic mean of two such ratios;
    the counts of clusters and rows.
    """
    scored = [source[["cluster", "num", "den"]].dropna(subset="num").assign(rows=1.0) for source in sources]
    sums = [source.groupby("cluster").sum() for source in scored]
    clusters = sorted({c for s in sums for c in s.index})
    parts = [s.reindex(clusters, fill_value=0.0).to_numpy().T for s in sums]
    return _ratio(parts), len(clusters), max(map(len, sources))


def _ratio(parts: Sequence[Sequence[np.ndarray]]) -> Statistic:
    """`_pooled`'s statistic, from num, den and the rows behind them by cluster, once or twice."""
    def ratio(weights: np.ndarray) -> np.ndarray:
        # Products and sums by hand rather than `@`: BLAS adds in an order that differs between machines.
        ratios = []
        for num, den, rows in parts:
            below, drawn = (weights * den).sum(axis=1), (weights * rows).sum(axis=1)
            ratios.append(np.where((below == 0) & (drawn > 0), 0.0, (weights * num).sum(axis=1) / below))
        if len(ratios) == 1:
            return ratios[0]
        total = ratios[0] + ratios[1]
        return np.where(total > 0, 2 * ratios[0] * ratios[1] / total, total)
    return ratio


def jackknifed(statistic: Statistic, clusters: int, n: int) -> Estimate:
    """A mean or another smooth statistic and its interval: t, clusters - 1 degrees of freedom, jackknife."""
    value = low = high = math.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        if clusters:
            value = float(statistic(np.ones((1, clusters)))[0])
        if clusters >= MIN_CLUSTERS:
            without = statistic(1.0 - np.eye(clusters))            # each cluster left out once
            error = math.sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
            reach = float(stdtrit(clusters - 1, 0.975)) * error
            low, high = value - reach, value + reach
    return Estimate(value, low, high, n, clusters)


def mean_over(values: Sequence[float], cluster: Sequence[object]) -> Estimate:
    """Mean of the finite values, with its t interval over clusters (module docstring)."""
    (kept,), codes, left_out = _columns(cluster, values)
    table = pd.DataFrame({"cluster": codes, "num": kept, "den": 1.0})
    return replace(jackknifed(*_pooled(table)), left_out=left_out)


def bootstrapped(statistic: Statistic, clusters: int, n: int, resamples: int = 2000, seed: int = 7,
                 left_out: int = 0) -> Estimate:
    """The statistic with every cluster counted once, and its 95 % percentile interval (module docstring)."""
    return _interval(*_drawn(statistic, clusters, n, resamples, seed), n, clusters, left_out)


def _drawn(statistic: Statistic, clusters: int, n: int, resamples: int, seed: int
           ) -> tuple[float, np.ndarray]:
    """The statistic with every cluster counted once, nan without any; and of each resample, if they suffice.
    """
    if not clusters:
        return math.nan, np.array([])
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(np.ones((1, clusters)))[0])
        if clusters < MIN_CLUSTERS:
            return value, np.array([])
        weights, step = _resampled(clusters, resamples, seed), max(1, BLOCK // n)
        return value, np.concatenate([statistic(weights[i:i + step]) for i in range(0, resamples, step)])


def _interval(value: float, draws: np.ndarray, n: int, clusters: int, left_out: int) -> Estimate:
    """The 95 % percentile interval of draws; none when half of them or more are undefined."""
    defined, low, high = draws[np.isfinite(draws)], math.nan, math.nan
    if len(defined) > len(draws) / 2:
        low, high = map(float, np.quantile(defined, [0.025, 0.975]))
    return Estimate(value, low, high, n, clusters, left_out)


def _correlations(name: str, x: np.ndarray, y: np.ndarray, codes: np.ndarray, resamples: int, seed: int
                  ) -> tuple[float, np.ndarray]:
    """`_drawn` of a coefficient, kept by content: one column is compared with several others."""
    order = np.lexsort((y, x, codes))
    columns = (x[order].tobytes(), y[order].tobytes(), codes[order].astype(np.int64).tobytes())
    return _kept_correlations(name, *columns, resamples, seed)


@lru_cache(maxsize=64)
def _kept_correlations(name: str, x: bytes, y: bytes, codes: bytes, resamples: int, seed: int
                       ) -> tuple[float, np.ndarray]:
    clusters = np.frombuffer(codes, dtype=np.int64)
    statistic = COEFFICIENTS[name](np.frombuffer(x), np.frombuffer(y), clusters)
    value, draws = _drawn(statistic, *_count(clusters), resamples, seed)
    draws.flags.writeable = False
    return value, draws


@lru_cache(maxsize=4)
def _resampled(clusters: int, resamples: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn, (resamples, clusters); the same for all metrics and models."""
    drawn = np.random.default_rng(seed).integers(clusters, size=(resamples, clusters))
    flat = (drawn + clusters * np.arange(resamples)[:, None]).ravel()
    counts = np.bincount(flat, minlength=resamples * clusters).reshape(resamples, clusters).astype(float)
    counts.flags.writeable = False
    return counts


def _midranks(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Rank of each x in a sample of w[b, i] copies of x[i], ties sharing their mean rank: shape of w."""
    distinct, place = np.unique(x, return_inverse=True)
    by_value = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[by_value], np.arange(len(distinct)))
    copies = np.add.reduceat(w[:, by_value], starts, axis=1)
    return (np.cumsum(copies, axis=1) - copies / 2 + 0.5)[:, place]


def _weighted_pearson(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Pearson's r per row of weights; x and y may be one row or one row per row of weights."""
    total = w.sum(axis=1, keepdims=True)
    dx = x - (w * x).sum(axis=1, keepdims=True) / total
    dy = y - (w * y).sum(axis=1, keepdims=True) / total
    xx, yy = (w * dx * dx).sum(axis=1), (w * dy * dy).sum(axis=1)
    flat = (xx <= 1e-24 * total[:, 0]) | (yy <= 1e-24 * total[:, 0])      # constant but for rounding
    return np.where(flat, np.nan, (w * dx * dy).sum(axis=1) / np.sqrt(xx * yy))


def _pearson(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> Statistic:
    return lambda weights: _weighted_pearson(x, y, weights[:, codes])


def _spearman(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> Statistic:
    def rho(weights: np.ndarray) -> np.ndarray:
        w = weights[:, codes]
        return _weighted_pearson(_midranks(x, w), _midranks(y, w), w)
    return rho


def _kendall(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> Statistic:
    """tau-b from counts of pairs of rows between clusters: a resample is a quadratic form in its counts."""
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]]) if len(codes) else np.array([], dtype=int)
    dx, dy = ((v[:, None] > v).view(np.int8) - (v[:, None] < v).view(np.int8) for v in (x, y))
    by_cluster = (np.add.reduceat(pairs, starts, axis=1, dtype=np.int32)
                  for pairs in (dx * dy, np.abs(dx), np.abs(dy)))
    agree, in_x, in_y = (np.add.reduceat(rows, starts, axis=0, dtype=float) for rows in by_cluster)

    def tau(weights: np.ndarray) -> np.ndarray:
        concordant, untied_x, untied_y = (
            (weights @ pairs * weights).sum(axis=1) for pairs in (agree, in_x, in_y))
        return concordant / np.sqrt(untied_x * untied_y)   # whole numbers until here: exact in any order
    return tau


def _auc(scores: np.ndarray, labels: np.ndarray, codes: np.ndarray) -> Statistic:
    """Each positive outscores the negatives below it, and half of those level with it. Quicker than ranks."""
    positive, negative = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    negative = negative[np.argsort(scores[negative], kind="stable")]
    below, up_to = (np.searchsorted(scores[negative], scores[positive], side) for side in ("left", "right"))

    def area(weights: np.ndarray) -> np.ndarray:
        positives, negatives = (weights.T[codes[rows]] for rows in (positive, negative))
        passed = np.concatenate([np.zeros((1, len(weights))), negatives]).cumsum(axis=0)
        outscored = (positives * (passed[below] + passed[up_to]) / 2).sum(axis=0)
        return outscored / (positives.sum(axis=0) * passed[-1])
    return area


COEFFICIENTS = {"pearson": _pearson, "spearman": _spearman, "kendall": _kendall, "auc": _auc}
