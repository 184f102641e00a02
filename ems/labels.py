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
from .stats import Estimate, auc, bootstrap, pearson, spearman
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
    rows = map(asdict, records(source, Label, lambda row: (row.triplet_id, row.model)))
    table = pd.DataFrame(rows).dropna(subset="label")
    if table["label"].nunique() < 2 or not np.isfinite(table["label"]).all():
        raise InputError(f"'label' must hold two or more different numbers, got {some(list(table['label']))}")
    return table


def agreement(values: pd.DataFrame, labels: pd.DataFrame, **settings: int) -> pd.DataFrame:
    """How well each metric and part agrees with the labels of the same answers, joined by triplet and model.

    Measures: spearman and pearson; auc where all labels are 0 or 1. Columns metric, part, measure, value,
    ci_low, ci_high (over groups), n, clusters, left_out (without a value). `settings` are those of
    `stats.bootstrap`. InputError for a label of an answer without values.
    """
    known, labelled = (set(table[KEY].itertuples(index=False, name=None)) for table in (values, labels))
    if unknown := sorted(labelled - known):
        raise InputError(f"{len(unknown)} labelled answers are not among the results: {some(unknown)}")
    measures = [spearman, pearson, *[auc] * (set(labels["label"]) <= {0.0, 1.0})]
    rows = []
    for (metric, part), cell in values.merge(labels, on=KEY).groupby(["metric", "part"]):
        for measure in measures:
            estimate = bootstrap(measure, (cell["value"], cell["label"]), cell["group"], **settings)
            rows.append((metric, part, measure.__name__, *estimate))
    return in_order(pd.DataFrame(rows, columns=["metric", "part", "measure", *Estimate._fields]))


def agreement_text(results: Sequence[str | Path], labels: str | Path) -> str:
    """What `ems agree` prints; of several files a metric has its file's name in front."""
    values = of_rows([row for path in results for metric, result in iter_results(path) for row in
                      values_of(result, f"{Path(path).stem}: {metric}" if len(results) > 1 else metric)])
    return f"Agreement of values and labels:\n{as_text(agreement(values, read_labels(labels)))}"


# --- a judge asked again, or another judge ---

def agreement_of_results(first: Iterable[EMSResult], other: Iterable[EMSResult]) -> dict[str, float]:
    """How far two judgements of the same points agree. Answers are joined by triplet and model.

    `answers` that both judged and that have points; `scored`, the share of their reference points that the
    other judge could score; `points` whose match both gave readably; `same choice`, the share of these with
    the same match; `same partner`, that share among points for which either names a partner, where agreement
    is hardest; `kappa` (Cohen's) of the choices, where chance is how often each names each index in an
    answer. Of points that both matched with the same answer point `score correlation` (Spearman) and `score
    difference` (mean of the other's less the first's). nan where nothing can be computed. InputError for an
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
    same, partnered = read["match"] == read["other"], (read["match"] != -1) | (read["other"] != -1)
    by_chance = [(answer["match"].value_counts() * answer["other"].value_counts()).sum() / len(answer)
                 for _, answer in read.groupby("answer")]
    chance = sum(by_chance) / len(read) if len(read) else math.nan
    scores = read[same & (read["other"] != -1)].dropna()
    return {
        "answers": len(both), "scored": points["other_score"].notna().mean(), "points": len(read),
        "same choice": same.mean(), "same partner": same[partnered].mean(),
        "kappa": (same.mean() - chance) / (1 - chance) if chance < 1 else math.nan,
        "score correlation": spearman(scores["score"], scores["other_score"]),
        "score difference": (scores["other_score"] - scores["score"]).mean()}
