"""Do the metrics agree with people? How well the scores of the labelled sets follow the labels.

A table of scores is wide: a row per answer (`KEYS`) or point (`POINT_KEYS`), a column per metric
and part, such as "ROUGE-L Recall" or "BLEU Score". Values are in [0, 1]; "length Score" counts
words. Scores and labels hold no texts, so agreement can be computed where the texts are absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from ems.analysis.frames import FIGURES_METRIC
from ems.analysis.stats import MIN_CLUSTERS
from ems.types import InputError

from . import read_frames
from .datasets import KEYS, PART_OF, POINT_KEYS, SETS

# The points of these metrics are sentences; in Table 1 they are the judge's.
EMS_JUDGED = "EMS(LLM, sentences)"
EMS_ROUGE = "EMS(ROUGE, sentences)"
COVERAGE_JUDGED = "Coverage(LLM, sentences)"
SENTENCES = "RAGChecker (sentences)"
JUDGE_METRICS = [EMS_JUDGED, COVERAGE_JUDGED, "Judge alone"]

# Shown beside the metrics: how far the other annotator, or the system's name alone, leads.
ANNOTATOR, SYSTEM = "the other annotator", "the system alone"
WITHIN = "AUC within systems"
SYSTEM_OFFSET = 1e6  # more than any value, a length in words included


# --- tables ---


def stored(name: str, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labels and scores of one of `SETS`, from `<name>_labels.csv` and `<name>_scores.csv`."""
    labels = read_frames(folder / f"{name}_labels.csv")
    scores = read_frames(folder / f"{name}_scores.csv")
    if SETS[name].about == "systems":
        labels = labels.melt(["triplet_id", "group"], var_name="model", value_name="correct")
        labels["correct"] = labels["correct"].astype(bool)
    return labels, scores


def without_refusals(labels: pd.DataFrame) -> pd.DataFrame:
    """The labels without those of refusals; a set without the column `label` has none."""
    return labels[labels["label"] != "refusal"] if "label" in labels else labels


def metrics_of(table: pd.DataFrame, part: str) -> pd.DataFrame:
    """The columns of the part, and of metrics with one value ("Score"), named by their metric."""
    metric_of = {}
    for column in table:
        metric, _, part_of_column = column.rpartition(" ")
        if part_of_column in (part, "Score"):
            metric_of[column] = metric
    return table[list(metric_of)].rename(columns=metric_of)


# --- agreement ---


def pair_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, against: str = "RAGChecker", **settings: Any
) -> pd.DataFrame:
    """How well each metric's preference within a pair follows the annotators', as in RAGChecker.

    There is one observation per pair and annotator: the score of answer "2" minus that of answer
    "1" and the label, -2 to 2. A missing difference is the median difference; of figures it is left
    out. The metric `ANNOTATOR` is one annotator as a predictor of the other. Intervals resample
    pairs. `settings` are the bootstrap's `resamples` and `seed`, here and in the functions below.
    """
    tables = []
    measures = ("Spearman", "Pearson")
    pairs = labels["instance_id"]
    for question, part in PART_OF.items():
        values = metrics_of(scores.set_index(KEYS), part)
        differences = values.xs("2", level="model") - values.xs("1", level="model")
        medians = differences.median().drop(FIGURES_METRIC, errors="ignore")
        differences = differences.fillna(medians).loc[pairs]
        people = labels.pivot(index="instance_id", columns="annotator", values=question)
        first = people[[0]].set_axis([ANNOTATOR], axis=1)
        for table in (
            _measured(differences, labels[question], pairs, measures, against, **settings),
            _measured(first, people[1], people.index, measures, **settings),
        ):
            tables.append(table.assign(asked=question, part=part))
    return pd.concat(tables, ignore_index=True)


def answer_agreement(
    labels: pd.DataFrame,
    scores: pd.DataFrame,
    part: str = "F1",
    judged: bool = False,
    against: str = "ROUGE-L",
    **settings: Any,
) -> pd.DataFrame:
    """How well each metric tells correct answers from incorrect ones; refusals are left out.

    AUC is the chance that a correct answer has a higher score than an incorrect one; a tie counts
    half. `WITHIN` is the same over pairs of answers of one system, because a metric may do no more
    than tell good systems from bad ones. The metric `SYSTEM` shows how far that leads: each answer
    has its system's share of correct answers. With `judged` the table has the answers that the
    judge read and all metrics; without it all answers, and no metric of `JUDGE_METRICS`. Clusters
    are groups. InputError for an answer without scores.
    """
    labels = without_refusals(labels)
    labels = labels[labels["triplet_id"].isin(scores["triplet_id"])]
    table = labels.merge(scores, on=KEYS, how="left", indicator=True, validate="one_to_one")
    if missing := int((table["_merge"] != "both").sum()):
        raise InputError(
            f"{missing} labelled answers have no scores; labels and scores must be of one set"
        )
    table[f"{SYSTEM} Score"] = table["model"].map(labels.groupby("model")["correct"].mean())
    if judged:
        was_read = metrics_of(table, part)[EMS_JUDGED].notna()
        table = table[was_read]
    metrics = metrics_of(table, part)
    if not judged:
        metrics = metrics.drop(columns=JUDGE_METRICS, errors="ignore")
    measured = _measured(
        metrics,
        table["correct"],
        table["group"],
        ("AUC", WITHIN),
        against,
        pd.factorize(table["model"])[0],
        **settings,
    )
    return measured.assign(part=part)


def point_agreement(
    labels: pd.DataFrame, scores: pd.DataFrame, against: str = EMS_ROUGE, **settings: Any
) -> pd.DataFrame:
    """How well each metric tells points that an answer states from others (AUC).

    Clusters are questions.
    """
    table = labels.merge(scores, on=POINT_KEYS, validate="one_to_one")
    metrics = metrics_of(table, "Score")
    return _measured(metrics, table["present"], table["triplet_id"], ("AUC",), against, **settings)


def edit_agreement(
    labels: pd.DataFrame,
    scores: pd.DataFrame,
    judged: bool = False,
    against: str = "ROUGE-L F1",
    **settings: Any,
) -> pd.DataFrame:
    """How well each metric tells consistent edits of a text from others (AUC).

    Metrics are F1, or the one value of a metric without F1, and recall, precision and their mean
    (of those that have a value) of the figures. With `judged` the table has the edits for which
    every metric but figures has a value; without it all edits, and the metrics that have a value
    for each of them. Clusters are groups.
    """
    table = labels.merge(scores, on=KEYS, validate="one_to_one")
    metrics = table.filter(regex=" (?:F1|Score)$")
    if judged:
        metrics = metrics.dropna()
    else:
        metrics = metrics.dropna(axis=1)
    table = table.loc[metrics.index]
    figures = table.filter(like=FIGURES_METRIC)
    metrics = metrics.join(figures).assign(**{f"{FIGURES_METRIC} mean": figures.mean(axis=1)})
    columns = metrics, table["correct"], table["group"]
    return _measured(*columns, ("AUC",), against, **settings)


def kind_agreement(labels: pd.DataFrame, *arguments: Any, **settings: Any) -> pd.DataFrame:
    """`edit_agreement` of the edits with each kind of error, against all consistent edits.

    An edit with errors of several kinds counts for each of them. The column `kind` names the kind;
    n counts the edits of that kind and the consistent ones.
    """
    kinds_of_edit = labels["kinds"].str.split("+")
    tables = []
    for kind in kinds_of_edit[~labels["correct"]].explode().unique():
        has_kind = kinds_of_edit.map(lambda kinds, kind=kind: kind in kinds)
        table = edit_agreement(labels[has_kind | labels["correct"]], *arguments, **settings)
        tables.append(table.assign(kind=kind))
    return pd.concat(tables, ignore_index=True)


def _measured(
    metrics: pd.DataFrame,
    labels: pd.Series,
    clusters: pd.Series,
    measures: Sequence[str],
    against: str = "",
    systems: Any = None,
    **settings: Any,
) -> pd.DataFrame:
    """A row per measure and metric: value, interval, and paired difference to the metric `against`.

    A row that any metric has no value for is left out for all of them. Figures, which not every
    text has, are measured apart: on the rows that have some. Intervals are those of the percentile
    bootstrap over clusters; with fewer than MIN_CLUSTERS they are nan.
    """
    figures = [name for name in metrics if name.startswith(FIGURES_METRIC)]
    rest = labels, clusters, measures, against, systems
    tables = [_measured_together(metrics.drop(columns=figures), *rest, **settings)]
    for name in figures:
        columns = metrics.columns.intersection([name, against])
        table = _measured_together(metrics[columns], *rest, **settings)
        tables.append(table[table["metric"] == name])
    return pd.concat(tables, ignore_index=True)


def _measured_together(
    metrics: pd.DataFrame,
    labels: pd.Series,
    clusters: pd.Series,
    measures: Sequence[str],
    against: str,
    systems: Any,
    *,
    resamples: int = 1000,
    seed: int = 7,
) -> pd.DataFrame:
    """`_measured` of metrics on the rows for which all of them have a value."""
    complete = metrics.notna().all(axis=1).to_numpy()
    values = metrics.to_numpy(dtype=float)[complete]
    people = np.asarray(labels, dtype=float)[complete]
    names = pd.Series(np.asarray(clusters)[complete]).astype(str)
    members = list(names.groupby(names).indices.values())  # each cluster's rows
    every_row = np.arange(len(people))
    samples = [every_row, *_resampled(members, resamples, seed)]
    tables = []
    for measure in measures:
        statistic = STATISTICS[measure]
        strata = systems[complete] if measure == WITHIN else np.zeros_like(every_row)
        estimates = np.array([statistic(values[i], people[i], strata[i]) for i in samples])
        observed, draws = estimates[0], estimates[1:]
        if len(draws) == 0:
            draws = np.full_like(estimates, np.nan)
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        table = pd.DataFrame(
            {
                "measure": measure,
                "metric": list(metrics),
                "value": observed,
                "ci_low": low,
                "ci_high": high,
                "n": len(people),
                "clusters": len(members),
            }
        )
        if against in metrics:
            table = table.assign(**_differences(observed, draws, list(metrics), against))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _resampled(members: Sequence[np.ndarray], resamples: int, seed: int) -> list[np.ndarray]:
    """The rows of each resample: those of as many clusters, drawn with replacement."""
    if len(members) < MIN_CLUSTERS:
        return []
    draws = np.random.default_rng(seed).integers(len(members), size=(resamples, len(members)))
    samples = []
    for draw in draws:
        samples.append(np.concatenate([members[cluster] for cluster in draw]))
    return samples


def _differences(
    observed: np.ndarray, draws: np.ndarray, metrics: list[str], against: str
) -> dict[str, Any]:
    """Columns: each metric's value minus that of `against`, the difference's interval, and `clear`.

    `clear` is "above" or "below" where the whole interval is above or below 0, otherwise "no"; it
    is empty for `against` itself.
    """
    base = [metrics.index(against)]
    low, high = np.quantile(draws - draws[:, base], [0.025, 0.975], axis=0)
    clear = np.select([low > 0, high < 0], ["above", "below"], "no")
    clear[base] = ""
    return {
        "against": against,
        "difference": observed - observed[base],
        "difference_low": low,
        "difference_high": high,
        "clear": clear,
    }


# --- measures: how well each column of `x`, a metric's values, follows what people say, `y` ---
# nan where a measure is undefined. Only `_area` looks at the rows' systems.


def _pearson(x: np.ndarray, y: np.ndarray, systems: np.ndarray) -> np.ndarray:
    x = x - x.mean(axis=0)
    y = y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        return y @ x / np.sqrt((x * x).sum(axis=0) * (y * y).sum())


def _spearman(x: np.ndarray, y: np.ndarray, systems: np.ndarray) -> np.ndarray:
    return _pearson(rankdata(x, axis=0), rankdata(y), systems)


def _area(x: np.ndarray, y: np.ndarray, systems: np.ndarray) -> np.ndarray:
    """AUC over the pairs of a 1 and a 0 of the same system; a tie counts half."""
    positive = y == 1
    sizes = np.bincount(systems)
    positives = np.bincount(systems[positive], minlength=len(sizes))
    pairs = (positives * (sizes - positives)).sum()
    if pairs == 0:
        return np.full(x.shape[1], np.nan)
    # One ranking of all rows, in which the values of each system lie above those of the last one.
    # A rank within the system is this rank minus the number of rows of the systems below.
    ranks = rankdata(x + systems[:, None] * SYSTEM_OFFSET, axis=0)
    rows_below = sizes.cumsum() - sizes
    ranks = ranks - rows_below[systems, None]
    lowest_sum = (positives * (positives + 1) / 2).sum()
    wins = ranks[positive].sum(axis=0) - lowest_sum
    return wins / pairs


STATISTICS = {"Spearman": _spearman, "Pearson": _pearson, "AUC": _area, WITHIN: _area}
