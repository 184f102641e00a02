"""Results beside labels: how well metrics agree with people, and a judge with another or with itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .data import Rows, iter_results, records
from .frames import in_order, of_rows, values_of
from .io import some
from .stats import Estimate, auc, bootstrap, mean_over, pearson, spearman
from .tables import as_text
from .types import EMSResult, InputError

KEY = ["triplet_id", "model"]
# What a person said of one answer: 0 or 1, or a grade; nan = nothing.
Label: Any = make_dataclass("Label", [("triplet_id", str), ("model", str), ("label", float, math.nan)])


def read_labels(source: Rows) -> pd.DataFrame:
    """Labels `{triplet_id, model, label}` from a file, dictionaries or a frame, as `load_answers` reads them.

    Rows with an empty label are left out. InputError for a label that is no number, for an answer that is
    there twice, and for labels that are all the same: nothing can agree with these.
    """
    rows = records(source, Label, lambda row: (row.triplet_id, row.model))
    table = pd.DataFrame(map(asdict, rows)).dropna(subset="label")
    if table["label"].nunique() < 2 or not np.isfinite(table["label"]).all():
        raise InputError(f"'label' must hold two or more different numbers, got {len(table)} labels in "
                         f"{len(rows)} rows: {some(table['label'].unique().tolist())}")
    return table


def agreement(values: pd.DataFrame, labels: pd.DataFrame, **settings: int) -> pd.DataFrame:
    """How well each metric and part agrees with the labels of the same answers, joined by triplet and model.

    Measures: spearman and pearson; auc where all labels are 0 or 1; pairs, the share of pairs of answers to
    one question that the metric puts in the order of their labels, where a tie of the metric counts half.
    Columns metric, part, measure, value, ci_low, ci_high (over groups), n, clusters, left_out (without a
    value). `settings` are those of `stats.bootstrap`. InputError for a label of an answer without values.
    """
    known, labelled = (set(table[KEY].itertuples(index=False, name=None)) for table in (values, labels))
    if unknown := sorted(labelled - known):
        raise InputError(f"{len(unknown)} of {len(labels)} labelled answers are not among the results, e.g. "
                         f"{unknown[0]}; the results have {some(sorted(known))}")
    measures = [spearman, pearson, *[auc] * (set(labels["label"]) <= {0.0, 1.0})]
    rows = []
    for (metric, part), cell in values.merge(labels, on=KEY).groupby(["metric", "part"]):
        columns = cell["value"], cell["label"]
        found = {one.__name__: bootstrap(one, columns, cell["group"], **settings) for one in measures}
        pairs = cell.merge(cell, on=["triplet_id", "group"], suffixes=("", "_other"))
        pairs = pairs[pairs["label"] > pairs["label_other"]]
        found["pairs"] = mean_over((np.sign(pairs["value"] - pairs["value_other"]) + 1) / 2, pairs["group"])
        rows += [(metric, part, measure, *estimate) for measure, estimate in found.items()]
    return in_order(pd.DataFrame(rows, columns=["metric", "part", "measure", *Estimate._fields]))


def agreement_text(results: Sequence[str | Path], source: str | Path) -> str:
    """What `ems agree` prints: the agreement, and each model's mean label with its t interval over groups.

    Of several files a metric has its file's name in front.
    """
    values = of_rows([row for path in results for metric, result in iter_results(path) for row in
                      values_of(result, f"{Path(path).stem}: {metric}" if len(results) > 1 else metric)])
    labels, rows = read_labels(source), []
    table = agreement(values, labels)
    for model, answers in values.drop_duplicates(KEY).merge(labels, on=KEY, how="left").groupby("model"):
        mean = mean_over(answers["label"], answers["group"])
        rows.append({"model": model, "labelled": mean.n, "answers": len(answers), "mean label": mean.value,
                     "ci_low": mean.ci_low, "ci_high": mean.ci_high})
    means = as_text(in_order(pd.DataFrame(rows)))
    return f"Agreement of values and labels:\n{as_text(table)}\n\nMeans of the labelled answers:\n{means}"


# --- a judge asked again, or another judge ---

def agreement_of_results(first: Iterable[EMSResult], other: Iterable[EMSResult]) -> dict[str, float]:
    """How far two judgements of the same points agree. Answers are joined by triplet and model.

    `answers` that both judged and that have points; `scored`, the share of their reference points that the
    other judge could score; `points` whose match both gave readably; `same choice`, `no partner`: shares of
    these with the same match, and for which the other judge names none; `kappa` (Cohen's) of these choices,
    where chance is how often each names each index in an answer. Of points that both matched with the same
    answer point `score correlation` (Spearman) and `score difference` (mean of the other's less the first's);
    of answers `F1 correlation` and `F1 difference`. nan where nothing can be computed. InputError for an
    answer whose points differ.
    """
    by_key = {(r.triplet_id, r.model): r for r in first}
    both = [(by_key[r.triplet_id, r.model], r) for r in other
            if r.ans_points and (r.triplet_id, r.model) in by_key]
    for a, b in both:
        if (a.ref_points, a.ans_points) != (b.ref_points, b.ans_points):
            raise InputError(f"the points of {a.model} on {a.triplet_id} differ: both must judge the same")
    rows = [(number, *point) for number, (a, b) in enumerate(both)
            for point in zip(a.match, b.match, a.score, b.score, strict=True)]
    points = pd.DataFrame(rows, columns=["answer", "match", "other", "score", "other_score"], dtype=float)
    read = points.dropna(subset=["match", "other"])
    same = read["match"] == read["other"]
    by_chance = [(answer["match"].value_counts() * answer["other"].value_counts()).sum() / len(answer)
                 for _, answer in read.groupby("answer")]
    chance = sum(by_chance) / len(read) if len(read) else math.nan
    scores = read[same & (read["other"] != -1)].dropna()
    f1 = pd.DataFrame([(a.f1, b.f1) for a, b in both], columns=["first", "other"], dtype=float).dropna()
    return {
        "answers": len(both), "scored": points["other_score"].notna().mean(), "points": len(read),
        "same choice": same.mean(),
        "kappa": (same.mean() - chance) / (1 - chance) if chance < 1 else math.nan,
        "no partner": (read["other"] == -1).mean(),
        "score correlation": spearman(scores["score"], scores["other_score"]),
        "score difference": (scores["other_score"] - scores["score"]).mean(),
        "F1 correlation": spearman(f1["first"], f1["other"]),
        "F1 difference": (f1["other"] - f1["first"]).mean()}
