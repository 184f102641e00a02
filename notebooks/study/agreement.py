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

from ems.analysis.findings import series
from ems.analysis.frames import FIGURES_METRIC
from ems.analysis.stats import MIN_CLUSTERS, holm
from ems.types import InputError

from . import read_frames
from .datasets import KEYS, PART_OF, POINT_KEYS, SETS
from .ranking import ALPHA

# The points of these metrics are sentences; in Table 1 they are the judge's.
EMS_JUDGED = "EMS(LLM, sentences)"
EMS_ROUGE = "EMS(ROUGE, sentences)"
COVERAGE_JUDGED = "Coverage(LLM, sentences)"
SENTENCES = "RAGChecker (sentences)"
JUDGE_METRICS = [EMS_JUDGED, COVERAGE_JUDGED, "Judge alone", SENTENCES]
# 1 minus the share of the reference's points that the judge calls contradicted.
UNCONTRADICTED = "Coverage(LLM) contradicted Score"

# Shown beside the metrics: how far the other annotator, or the system's name alone, leads.
ANNOTATOR, SYSTEM = "the other annotator", "the system alone"
WITHIN = "AUC within systems"


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
    A difference to the metric `against` has a p, which is corrected (`with_clear`) over the metrics
    that are compared with it in one measure; there too.
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


def contradicted_edits(labels: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """In how many edits the judge calls a point contradicted; a row for each label `correct`.

    `edits` counts the edits whose coverage the judge read, `named` those of them of which it calls
    at least one reference point contradicted.
    """
    table = labels.merge(scores, on=KEYS, validate="one_to_one")
    table = table.dropna(subset=[UNCONTRADICTED])
    by_label = (table[UNCONTRADICTED] < 1).groupby(table["correct"])
    return by_label.agg(edits="size", named="sum").reset_index()


def people_findings(shown: pd.DataFrame, differences: pd.DataFrame) -> list[str]:
    """Sentences: which metric is highest on which sets, and what is clearly not as high as a judge.

    It is said as well on how many sets the judge alone is clearly above EMS by a judge.
    `shown` has a row for each metric and set (columns metric, set, measure, value). `differences`
    has rows of `pair_agreement` and `answer_agreement` against the judge alone, with the column
    set.
    """
    values = shown.pivot(index="metric", columns=["set", "measure"], values="value")
    values = values[shown["set"].unique()]
    values = values.drop(index=[ANNOTATOR, SYSTEM, "length"], errors="ignore")
    best = values.idxmax()
    below = differences[differences["clear"] == "below"]
    sets_below = below.value_counts(["metric", "against"])
    sentences = []
    for metric, sets in best.groupby(best, sort=False):
        of_metric = values.loc[metric]
        numbers = [f"{key} {of_metric[name, key]:.2f} on {name}" for name, key in sets.index]
        sentences.append(
            f"{metric} agrees best with people on {len(numbers)} of the {of_metric.count()} sets "
            f"that it has a value for: {series(numbers)}."
        )
        if above := sets_below.get((EMS_JUDGED, metric)):
            sentences[-1] += f" It is clearly above {EMS_JUDGED} on {above} of its sets."
    for (metric, against), rows in below.groupby(["metric", "against"], sort=False):
        numbers = [
            f"by {-row.difference:.2f} [{-row.difference_high:.2f}, {-row.difference_low:.2f}] "
            f"on {row.set}"
            for row in rows.itertuples()
        ]
        sentences.append(f"{metric} is clearly below {against} {series(numbers)}.")
    return sentences


def edit_findings(table: pd.DataFrame, contradicted: pd.DataFrame) -> list[str]:
    """Sentences about rows of `edit_agreement`, one a metric, and of `contradicted_edits`."""
    rows = table.sort_values("value", ascending=False)
    named = rows["metric"] + rows["value"].map(" {:.2f}".format)
    is_above = rows["ci_low"] > 0.5
    above, others = list(named[is_above]), list(named[~is_above])
    of_label = contradicted.set_index("correct")
    consistent, other = of_label.loc[True], of_label.loc[False]
    return [
        "These metrics tell consistent edits from others better than guessing (AUC, whole interval "
        f"over {rows['clusters'].max()} calls above 0.50): {series(above) or 'none'}.",
        f"These do not: {series(others) or 'none'}.",
        f"Coverage(LLM) calls a point contradicted in {consistent['named']} of "
        f"{consistent['edits']} consistent edits and in {other['named']} of {other['edits']} "
        "others.",
    ]


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
    bootstrap over clusters; with fewer than MIN_CLUSTERS they are nan. Whether a difference is
    clear is said by `with_clear`, over the metrics of a measure.
    """
    figures = [name for name in metrics if name.startswith(FIGURES_METRIC)]
    rest = labels, clusters, measures, against, systems
    tables = [_measured_together(metrics.drop(columns=figures), *rest, **settings)]
    for name in figures:
        columns = metrics.columns.intersection([name, against])
        table = _measured_together(metrics[columns], *rest, **settings)
        tables.append(table[table["metric"] == name])
    table = pd.concat(tables, ignore_index=True)
    return with_clear(table, "measure") if "p" in table else table


def with_clear(table: pd.DataFrame, family: str) -> pd.DataFrame:
    """A table of differences between metrics with `p_holm` and `clear`.

    `p_holm` is p after Holm's correction over the rows that have one value of the column `family`.
    `clear` is "above" or "below" where the difference's whole interval is above or below 0 and
    p_holm is under 0.05, and otherwise "no"; it is "" where there is no p.
    """
    p_holm = table.groupby(family)["p"].transform(holm)
    above = (table["difference_low"] > 0) & (p_holm < ALPHA)
    below = (table["difference_high"] < 0) & (p_holm < ALPHA)
    clear = np.select([p_holm.isna(), above, below], ["", "above", "below"], "no")
    return table.assign(p_holm=p_holm, clear=clear)


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
    drawn = _drawn_clusters(len(members), resamples, seed)
    tables = []
    for measure in measures:
        if measure in STATISTICS:
            statistic = STATISTICS[measure]
            of_samples = [statistic(values, people)]
            for draw in drawn:
                rows = np.concatenate([members[cluster] for cluster in draw])
                of_samples.append(statistic(values[rows], people[rows]))
            estimates = np.array(of_samples)
        else:
            strata = systems[complete] if measure == WITHIN else np.zeros(len(people))
            estimates = _areas(values, people == 1, strata, members, drawn)
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


def _drawn_clusters(number: int, resamples: int, seed: int) -> np.ndarray:
    """The clusters of each resample: as many as there are, drawn with replacement.

    There is no resample where they are fewer than `MIN_CLUSTERS`.
    """
    if number < MIN_CLUSTERS:
        return np.empty((0, number), dtype=int)
    return np.random.default_rng(seed).integers(number, size=(resamples, number))


def _differences(
    observed: np.ndarray, draws: np.ndarray, metrics: list[str], against: str
) -> dict[str, Any]:
    """Columns: each metric's value minus that of `against`, its interval, and p.

    p is two-sided, of the same resamples as the interval: twice the share of them on the rarer side
    of 0, the observed sample counted (Efron and Tibshirani 1993, chapter 15). It is nan without an
    interval, and for `against` itself.
    """
    base = metrics.index(against)
    gaps = draws - draws[:, [base]]
    low, high = np.quantile(gaps, [0.025, 0.975], axis=0)
    rarer = np.minimum((gaps <= 0).sum(axis=0), (gaps >= 0).sum(axis=0))
    p = np.minimum(2 * (rarer + 1) / (len(gaps) + 1), 1)
    p[np.isnan(low)] = np.nan
    p[base] = np.nan
    return {
        "against": against,
        "difference": observed - observed[base],
        "difference_low": low,
        "difference_high": high,
        "p": p,
    }


# --- measures: how well each column of `x`, a metric's values, follows what people say ---
# nan where a measure is undefined.


def _pearson(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x = x - x.mean(axis=0)
    y = y - y.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        return y @ x / np.sqrt((x * x).sum(axis=0) * (y * y).sum())


def _spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _pearson(rankdata(x, axis=0), rankdata(y))


STATISTICS = {"Spearman": _spearman, "Pearson": _pearson}


def _areas(
    x: np.ndarray,
    is_right: np.ndarray,
    strata: np.ndarray,
    members: Sequence[np.ndarray],
    drawn: np.ndarray,
) -> np.ndarray:
    """AUC over the pairs of a right and a wrong row of one stratum; a tie counts half.

    The first row of the result is that of all rows, the others are those of the resamples. Every
    pair is compared once: a resample has it as often as it has the two clusters of the pair,
    multiplied. `members` are the rows of each cluster, `drawn` the clusters of each resample.
    """
    in_cluster = np.zeros((len(x), len(members)))
    for cluster, rows in enumerate(members):
        in_cluster[rows, cluster] = 1
    of_right, of_wrong = in_cluster[is_right], in_cluster[~is_right]
    every = np.arange(len(members))
    times = np.array([np.bincount(draw, minlength=len(members)) for draw in (every, *drawn)])

    def sums(pairs: np.ndarray) -> np.ndarray:
        by_clusters = of_right.T @ pairs @ of_wrong
        return ((times @ by_clusters) * times).sum(axis=1)

    is_pair = strata[is_right][:, None] == strata[~is_right]
    n_pairs = sums(is_pair)
    areas = []
    for values in x.T:
        order = np.sign(values[is_right][:, None] - values[~is_right])
        with np.errstate(invalid="ignore"):  # nan: a resample without a pair
            areas.append(sums(np.where(is_pair, (order + 1) / 2, 0)) / n_pairs)
    return np.column_stack(areas)
