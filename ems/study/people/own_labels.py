"""`ems agree`: a user's own labels of answers beside EMS results: agreement by metric, and a corrected mean.

Labels are a CSV file with a row per judgement, columns `triplet_id, model, label`, or `triplet_id, model_a,
model_b, preference` for pairs (positive: b is better); optional columns `rater` and `group`. A row without a
label only says which group its answer belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ... import stats
from ...data import csv_rows
from ...io import read_text, some
from ...results.saved import UNNAMED, load_results
from ...types import InputError
from ..ablations.reliability import Scale, krippendorff_alpha
from .agreement import SIGN, measured

SINGLE = ("triplet_id", "model", "label")
PAIR = ("triplet_id", "model_a", "model_b", "preference")
PARTS = ("recall", "precision", "f1")
KEY = ["triplet_id", "model"]


def own_results(paths: Sequence[str | Path]) -> dict[str, pd.DataFrame]:
    """The results of every file, a frame with an answer a row: `KEY`, `PARTS` (or nan).

    By the file's stem, or by metric where its lines name one. InputError for two of one name.
    """
    found: dict[str, pd.DataFrame] = {}
    for path in paths:
        for metric, results in load_results(path).items():
            name = Path(path).stem if metric == UNNAMED else metric
            if name in found:
                raise InputError(f"two of the files hold results called {name}; rename a file, or the metric "
                                 "in its lines")
            rows = [tuple(getattr(r, column) for column in (*KEY, *PARTS)) for r in results]
            found[name] = pd.DataFrame(rows, columns=[*KEY, *PARTS])
    return found


def read_labels(path: str | Path) -> pd.DataFrame:
    """The labels of a CSV file, checked: the columns of `SINGLE` or `PAIR`, rater and group.

    Labels are numbers, nan where the cell is empty. InputError for other columns, an empty name, a label that
    is no number, a judgement that is there twice, and labels that are all the same.
    """
    rows = [row for _, row in csv_rows(path, read_text(path))]
    given = list(dict.fromkeys(name for row in rows for name in row))
    columns = next((kind for kind in (SINGLE, PAIR) if {*kind} <= {*given}), None)
    if columns is None:
        raise InputError(f"{path} needs the columns {', '.join(SINGLE)} or {', '.join(PAIR)} and a row a "
                         f"judgement, got {', '.join(map(str, given)) or 'nothing'}")
    *units, named = columns
    for number, row in enumerate(rows, 2):
        if empty := [name for name in units if not row.get(name, "").strip()]:
            raise InputError(f"{path}, row {number}: {empty[0]} is empty")
        row[named] = _number(row.get(named, ""), f"{path}, row {number}: {named}")
    table = pd.DataFrame(rows, columns=[*columns, "rater", "group"])
    table["rater"] = table["rater"].fillna("") if "rater" in given else "1"
    table["group"] = table["group"].where(table["group"].fillna("").str.strip() != "", table["triplet_id"])
    if (twice := table.duplicated([*units, "rater"])).any():
        raise InputError(f"{path} has {some(list(table.loc[twice, [*units, 'rater']].iloc[0]), 4)} more than "
                         "once; several people's labels need a column rater")
    if table[named].nunique() < 2:
        some_label = table[named].notna().any()
        every = f"every {named} is {table[named].max():g}" if some_label else f"no row has a {named}"
        raise InputError(f"{path}: {every}; nothing can agree with that")
    return table


def _number(cell: str, where: str) -> float:
    """A label; nan for an empty cell."""
    if not cell.strip():
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{where} must be a number, got {cell!r:.40}")
    return value


def raters(labels: pd.DataFrame) -> tuple[int, float]:
    """How many people labelled, and Krippendorff's alpha of those who labelled the same (nan for one)."""
    named, units = _named(labels)
    labels = labels.dropna(subset=[named])
    wide = labels.pivot(index=units, columns="rater", values=named)
    count = wide.shape[1]
    scale: Scale = "nominal" if labels[named].nunique() == 2 else "interval"
    return count, krippendorff_alpha(wide.to_numpy(), scale) if count > 1 else math.nan


def _named(labels: pd.DataFrame) -> tuple[str, list[str]]:
    """The column of the judgements, and those that say what was judged."""
    return ("preference", [*PAIR[:3]]) if "preference" in labels else ("label", KEY)


def agreement(results: Mapping[str, pd.DataFrame], labels: pd.DataFrame, **bootstrap: int) -> pd.DataFrame:
    """How well each metric and part agrees with people: Spearman and Pearson; AUC of labels 0 and 1; for
    pairs Spearman of the gap and the share of preferences with its sign.

    The labels of several raters are averaged. `results` is by name (`own_results`). Columns metric, part,
    measure, value, ci_low, ci_high (over groups), n, left_out (answers without a value). InputError for
    labels of answers that are not among the results.
    """
    named, units = _named(labels)
    people = labels.groupby(units, as_index=False).agg({named: "mean", "group": "first"}).dropna()
    zero_or_one = set(people[named].unique()) <= {0.0, 1.0}
    last = [SIGN] if named == "preference" else ["AUC"] if zero_or_one else []
    rows = []
    for name, table in results.items():
        found = measured(dict(_beside(people, table).items()), people[named], people["group"],
                         ["spearman", "pearson", *last], (), **bootstrap)
        rows += [{"metric": name, "part": row.pop("metric"), **row} for row in found]
    return pd.DataFrame(rows).drop(columns="clusters").replace({"measure": {SIGN: "right side"}})


def _beside(people: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The results of what was judged, row by row; of a pair, the second's less the first's."""
    known = table.set_index(KEY)[list(PARTS)]

    def of(model: str) -> pd.DataFrame:
        keys = list(zip(people["triplet_id"], people[model], strict=True))
        if unknown := [key for key in keys if key not in known.index]:
            raise InputError(
                f"{len(unknown)} of {len(keys)} labelled answers are not among the results, e.g. "
                f"{unknown[0][1]!r} on {unknown[0][0]!r}; the results have {known.index[0][1]!r} on "
                f"{known.index[0][0]!r}")
        return known.loc[keys].reset_index(drop=True)
    return of("model_b") - of("model_a") if "model_b" in people else of("model")


def corrected_means(table: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """Each model's mean label, over all its answers: labelled ones, corrected by the metric on the others.

    Prediction-powered inference (Angelopoulos et al. 2023; the tuned form of 2024): the mean label plus lam
    times the metric's mean over unlabelled answers less that over labelled ones, where lam in [0, 1] is what
    makes the variance least; at 0 it is the labels' own mean. On the labels' scale. Columns model, labelled,
    unlabelled, labels_mean with its interval, mean with its interval, lam, worth (the number of labels
    that would give an interval as short without the metric). Intervals are t over groups; none under six.
    Answers that `labels` does not name are groups of their own; those without an F1 are left out.
    """
    people = labels.groupby(KEY, as_index=False).agg({"label": "mean", "group": "first"})
    _beside(people, table)                                   # every label has its answer
    joined = table.dropna(subset="f1").merge(people, on=KEY, how="left")
    joined["group"] = joined["group"].fillna(joined["triplet_id"])
    return pd.DataFrame([{"model": model, **_corrected(answers)} for model, answers in joined.groupby("model")
                         if answers["label"].notna().any()])


def _corrected(joined: pd.DataFrame) -> dict[str, Any]:
    """One row of `corrected_means`, from a model's answers with their labels (nan: none)."""
    known = joined["label"].notna().to_numpy()
    x, y = joined["f1"].to_numpy(dtype=float), joined["label"].fillna(0.0).to_numpy()
    codes, groups = pd.factorize(joined["group"], sort=True)
    n, others = int(known.sum()), int((~known).sum())
    tuned = 0.0
    if others and n > 1 and np.var(x[known]) > 0:
        covariance = float(np.cov(x[known], y[known])[0, 1])
        tuned = min(1.0, max(0.0, covariance / ((1 + n / others) * float(np.var(x, ddof=1)))))

    def mean(lam: float) -> stats.Statistic:
        def statistic(weights: np.ndarray) -> np.ndarray:
            w = weights[:, codes]
            here, there = w * known, w * ~known
            labelled = (here * (y - lam * x)).sum(axis=1) / here.sum(axis=1)
            return labelled + (lam * (there * x).sum(axis=1) / there.sum(axis=1) if lam else 0.0)
        return statistic
    own, best = (stats.jackknifed(mean(lam), len(groups), n) for lam in (0.0, tuned))
    width, shortest = (one.ci_high - one.ci_low for one in (own, best))
    shrunk = 1.0 if width == shortest else width / shortest       # equal labels leave no width at all
    return {"labelled": n, "unlabelled": others, "labels_mean": own.value, "labels_low": own.ci_low,
            "labels_high": own.ci_high, "mean": best.value, "ci_low": best.ci_low, "ci_high": best.ci_high,
            "lam": tuned, "worth": n * shrunk**2}


def as_text(results: Mapping[str, pd.DataFrame], labels: pd.DataFrame) -> list[str]:
    """What `ems agree` prints: who labelled, the agreement by metric, the corrected means; one block each."""
    count, alpha = raters(labels)
    people = "one person labelled: how far people agree is not known, and no metric can be held to it"
    if count > 1:
        people = f"{count} people labelled; Krippendorff's alpha between them is {alpha:.2f}"
    blocks = [people, _shown(agreement(results, labels))]
    if "label" in labels:
        for name, table in results.items():
            means = corrected_means(table, labels)
            blocks.append(f"mean label of every model, {name} f1 standing in for labels that are missing "
                          f"(prediction-powered):\n{_shown(means)}\n{_worth(means)}")
    return blocks


def _worth(means: pd.DataFrame) -> str:
    """In words: how many labels the metric saves."""
    if means["worth"].isna().all():
        return f"No interval with fewer than {stats.MIN_CLUSTERS} labelled groups: they are too few."
    gained = (means["worth"] - means["labelled"]).sum()
    if not gained >= 0.05 * means["labelled"].sum():
        return "The metric saves hardly any label here: the intervals are those of the labels alone."
    return (f"The metric is worth {gained:.0f} labels beside the {means['labelled'].sum()} there are.")


def _shown(table: pd.DataFrame) -> str:
    from ...results.display import visible

    texts = table.select_dtypes("object").columns
    safe = table.assign(**{name: table[name].map(visible) for name in texts})
    return safe.to_string(index=False, float_format=lambda v: f"{v:.3f}", na_rep="–",
                          formatters={"worth": lambda v: "–" if math.isnan(v) else f"{v:.0f}"})
