"""Results beside labels: how well metrics agree with people, and a judge with another or with itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from .data import Rows, iter_results, records
from .frames import in_order, of_rows, values_of
from .io import some
from .stats import correlate, mean_over
from .tables import as_text
from .types import EMSResult, InputError

KEY = ["triplet_id", "model"]


@dataclass(frozen=True)
class Label:
    """What a person said of one answer: 0 or 1, or a grade; nan = nothing."""

    triplet_id: str
    model: str
    label: float = math.nan


def read_labels(source: Rows) -> pd.DataFrame:
    """Labels `{triplet_id, model, label}` from a file, dictionaries or a frame, as `load_answers` reads them.

    Rows with an empty label are left out. InputError for a label that is no number, for an answer that is
    there twice, and for labels that are all the same: nothing can agree with these.
    """
    rows = records(source, Label, lambda row: (row.triplet_id, row.model))
    table = pd.DataFrame([asdict(row) for row in rows]).dropna(subset="label")
    if table["label"].nunique() < 2 or not np.isfinite(table["label"]).all():
        raise InputError(f"'label' must hold two or more different numbers, got {len(table)} labels in "
                         f"{len(rows)} rows: {some(table['label'].unique().tolist())}")
    return table


def read_values(*paths: str | Path) -> pd.DataFrame:
    """The frame of values of files of results; of several files a metric has its file's name in front."""
    rows = []
    for path in paths:
        named = f"{Path(path).stem}: " if len(paths) > 1 else ""
        rows += [row for metric, result in iter_results(path) for row in values_of(result, named + metric)]
    return of_rows(rows)


def agreement(values: pd.DataFrame, labels: pd.DataFrame, **bootstrap: int) -> pd.DataFrame:
    """How well each metric and part agrees with the labels of the same answers, joined by triplet and model.

    Measures: spearman and pearson; auc where all labels are 0 or 1; pairs, the share of pairs of answers to
    one question that the metric puts in the order of their labels, where a tie of the metric counts half.
    Columns metric, part, measure, value, ci_low, ci_high (over groups), n, clusters, left_out (without a
    value). InputError for a label of an answer that is not among the values.
    """
    known = set(values[KEY].itertuples(index=False, name=None))
    if unknown := [key for key in labels[KEY].itertuples(index=False, name=None) if key not in known]:
        raise InputError(f"{len(unknown)} of {len(labels)} labelled answers are not among the results, e.g. "
                         f"{unknown[0]}; the results have {some(sorted(known))}")
    measures = ["spearman", "pearson", *["auc"] * (set(labels["label"]) <= {0.0, 1.0})]
    rows = []
    for (metric, part), cell in values.merge(labels, on=KEY).groupby(["metric", "part"]):
        found = {measure: correlate(cell["value"], cell["label"], cell["group"], measure=measure, **bootstrap)
                 for measure in measures}
        pairs = cell.merge(cell, on=["triplet_id", "group"], suffixes=("", "_other"))
        pairs = pairs[pairs["label"] > pairs["label_other"]]
        found["pairs"] = mean_over((np.sign(pairs["value"] - pairs["value_other"]) + 1) / 2, pairs["group"])
        rows += [{"metric": metric, "part": part, "measure": measure, **asdict(estimate)}
                 for measure, estimate in found.items()]
    return in_order(pd.DataFrame(rows))


def agreement_text(results: Sequence[str | Path], source: str | Path) -> str:
    """What `ems agree` prints: the agreement, and each model's mean label with its t interval over groups."""
    values, labels = read_values(*results), read_labels(source)
    table = agreement(values, labels)
    rows = []
    for model, answers in values.drop_duplicates(KEY).merge(labels, on=KEY, how="left").groupby("model"):
        mean = mean_over(answers["label"], answers["group"])
        rows.append({"model": model, "labelled": mean.n, "answers": len(answers), "mean label": mean.value,
                     "ci_low": mean.ci_low, "ci_high": mean.ci_high})
    means = in_order(pd.DataFrame(rows))
    note = "These are means of the labelled answers alone."
    if means["labelled"].sum() == means["answers"].sum():
        note = "Every answer is labelled: nothing is left to estimate."
    return f"Agreement of values and labels:\n{as_text(table)}\n\nMean labels:\n{as_text(means)}\n{note}"


# --- a judge asked again, or another judge ---

def agreement_of_results(first: Iterable[EMSResult], other: Iterable[EMSResult]) -> dict[str, float]:
    """How far two judgements of the same points agree. Answers are joined by triplet and model.

    answers             that both judged, and that have points
    scored              share of their reference points that the other judge could score
    points              reference points whose match both gave readably
    same choice         share of these with the same match
    kappa               Cohen's, of these choices; chance is how often each names each index in an answer
    no partner          share of these points for which the other judge names no partner
    score correlation   Spearman, over points that both matched with the same answer point
    score difference    mean of the other's score less the first's, over the same points
    F1 correlation      Spearman, over answers
    F1 difference       mean of the other's F1 less the first's

    nan where nothing can be computed. InputError for an answer whose points differ.
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
    same, named = read["match"] == read["other"], read["other"] != -1
    by_chance = [(answer["match"].value_counts() * answer["other"].value_counts()).sum() / len(answer)
                 for _, answer in read.groupby("answer")]
    chance = sum(by_chance) / len(read) if len(read) else math.nan
    scores = read[same & named].dropna()
    f1 = pd.DataFrame([(a.f1, b.f1) for a, b in both], columns=["first", "other"], dtype=float).dropna()
    return {
        "answers": len(both), "scored": points["other_score"].notna().mean(), "points": len(read),
        "same choice": same.mean(),
        "kappa": (same.mean() - chance) / (1 - chance) if chance < 1 else math.nan,
        "no partner": (read["other"] == -1).mean(),
        "score correlation": correlate(scores["score"], scores["other_score"], resamples=0).value,
        "score difference": (scores["other_score"] - scores["score"]).mean(),
        "F1 correlation": correlate(f1["first"], f1["other"], resamples=0).value,
        "F1 difference": (f1["other"] - f1["first"]).mean()}
