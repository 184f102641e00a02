"""Results beside labels: how well metrics agree with people.

A label is a number for an answer, or a word of a page of `sheet` for a point or a pair of answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from scipy.special import stdtrit
from scipy.stats import binomtest

from ..data import Rows, load_results, records, result_rows
from ..io import FilePath, read_lines
from ..terminal import first_few
from ..types import WITHOUT_JUDGE, InputError
from .frames import TABLE1_PARTS, basis_of, in_order, of_rows
from .sheet import pair_items, point_items
from .stats import MIN_CLUSTERS, Estimate, auc, bootstrap, mean_over, pearson, spearman
from .tables import shortened, table_text
from .view import COVERED, FIGURE_WORDS, NOT_COVERED

MIN_LABELS = 10  # a model with fewer labels of its own has no corrected recall
_ANSWER = ["triplet_id", "model"]  # what a label and a value of the same answer have in common
_CONFIRMS = {
    COVERED: "stated",
    NOT_COVERED: "not stated",
}  # other words are confirmed by themselves
_STATED = {
    "stated": 1.0,
    "in part": 0.5,
    "not stated": 0.0,
    "contradicted": 0.0,
}  # score of a point


@dataclass(frozen=True)
class Label:
    """What a person says of one answer."""

    triplet_id: str
    model: str
    label: float = math.nan  # 0 or 1, or a grade; nan = the person says nothing


def read_labels(source: Rows) -> pd.DataFrame:
    """Labels `{triplet_id, model, label}` from a file, dictionaries or a frame.

    They are read as `load_answers` reads answers. Rows with an empty label are left out. InputError
    for a label that is no number, for an answer that has two labels, and for labels that are all
    equal: nothing can agree with these.
    """
    table = pd.DataFrame(map(asdict, records(source, Label))).dropna(subset="label")
    if table["label"].nunique() < 2 or not np.isfinite(table["label"]).all():
        raise InputError(
            "'label' must hold two or more different numbers, got "
            f"{first_few(table['label'].unique().tolist()) or 'none'}; correct them or label more"
        )
    return table


def agreement(values: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """How well each metric and part agrees with the labels of the same answers.

    Values and labels are joined by triplet and model. The measures are Spearman's and Pearson's
    correlation, and the area under the ROC curve where all labels are 0 or 1. Columns metric, part,
    measure, value, ci_low, ci_high (over groups), n, clusters, left_out (without a value).
    InputError for a label of an answer without values.
    """
    unknown = labels.set_index(_ANSWER).index.difference(values.set_index(_ANSWER).index)
    if len(unknown):
        raise InputError(
            f"{len(unknown)} labelled answers are not among the results: {first_few(unknown)}"
        )
    measures: list[Callable[..., float]] = [spearman, pearson]
    if set(labels["label"]) <= {0.0, 1.0}:
        measures.append(auc)
    rows = []
    for (metric, part), cell in values.merge(labels, on=_ANSWER).groupby(["metric", "part"]):
        for measure in measures:
            columns = cell["value"], cell["label"]
            estimate = bootstrap(measure, columns, cell["group"])
            rows.append((metric, part, measure.__name__, *estimate))
    return in_order(pd.DataFrame(rows, columns=["metric", "part", "measure", *Estimate._fields]))


def agreement_text(results: Sequence[FilePath], labels: FilePath) -> str:
    """What `ems agree` prints of Table 1's parts; of several files metrics have the file's name.

    Files that pages of `sheet` have saved may stand among the results as well; see `sheets_text`.
    """
    sheets = [path for path in [*results, labels] if _is_sheet(path)]
    if sheets:
        return sheets_text([path for path in results if path not in sheets], sheets)
    frames = []
    for path in results:
        frame = of_rows(list(result_rows(path)))
        if len(results) > 1:
            frame["metric"] = f"{Path(path).stem}: " + frame["metric"]
        frames.append(frame[frame["part"].isin(TABLE1_PARTS)])
    values = pd.concat(frames)
    table = table_text(agreement(values, read_labels(labels)))
    lines = ["Agreement of values and labels:", table]
    signatures = values.groupby("metric")["signature"]
    if "meaning" not in [basis_of(metric, cell) for metric, cell in signatures]:
        lines.append(WITHOUT_JUDGE)
    return "\n".join(lines)


# --- labels of a sheet ---


@dataclass(frozen=True)
class SheetLabel:
    """A row of the file that a page of `sheet` saves."""

    id: str
    stratum: int
    size: int  # number of items in the stratum
    label: Literal[
        "stated",
        "in part",
        "not stated",
        "contradicted",
        "first better",
        "second better",
        "equal",
        "cannot tell",
    ] = "cannot tell"
    by: str = ""  # the person


def _is_sheet(path: FilePath) -> bool:
    """Whether a file is one that a page of `sheet` saves."""
    return str(path).endswith(".csv") and "stratum" in next(read_lines(path), "")


def sheets_text(results: Sequence[FilePath], files: Sequence[FilePath]) -> str:
    """What `ems agree` prints of files that pages of `sheet` have saved, one file a person.

    InputError for a label of an item that the results lack; else as `_sheet_labels`.
    """
    rows = []
    for path in dict.fromkeys(results):
        for metric, of_metric in load_results(path).items():
            name = f"{path}: {metric}" if len(results) > 1 else metric
            for item in chain(point_items(of_metric), pair_items(of_metric)):
                rows.append({"metric": name, **item})
    labels = _sheet_labels(files)
    unknown = sorted(set(labels["id"]) - {row["id"] for row in rows})
    if unknown:
        raise InputError(
            f"{len(unknown)} labelled items are not among the results: {first_few(unknown)}; give "
            "the results from which the page was made"
        )
    items = pd.DataFrame(rows)
    lines = []
    labels = labels[labels["label"] != "cannot tell"]
    if labels.empty:
        raise InputError(f"every label of {first_few(files)} is 'cannot tell'; label more")
    for person, said in labels.groupby("person"):
        lines += [f"{person}: {len(said)} labels other than: cannot tell", *_tables(items, said)]
    if len(files) > 1:
        group = items.groupby("id")["group"].first()
        lines += ["\nAgreement of the people:", table_text(people_table(labels, group))]
    if not items["is_judged"].any():
        lines.append(WITHOUT_JUDGE)
    return "\n".join(lines)


def _sheet_labels(files: Sequence[FilePath]) -> pd.DataFrame:
    """The rows of all files; the column `person` has the file.

    InputError for two files of one person (`by`) with equal labels of all items that both have: one
    is a copy, or an earlier state, and no second opinion.
    """
    people = []
    for path in files:
        table = pd.DataFrame(map(asdict, records(path, SheetLabel)))
        people.append(table.assign(person=str(path)))
    for one, other in combinations(people, 2):
        both = one.merge(other, on=["id", "by"])
        if len(both) and both["label_x"].equals(both["label_y"]):
            same = both.iloc[0]
            raise InputError(
                f"{same.person_x} and {same.person_y} hold the same labels of one person, "
                f"{same.by!r}; name each person's file once"
            )
    return pd.concat(people)


def _tables(items: pd.DataFrame, said: pd.DataFrame) -> list[str]:
    """The tables of one person's labels."""
    labelled = items.merge(said, on="id")
    words = table_text(words_table(labelled))
    lines = ["\nHow often the labels confirm what a metric says:", words]
    if labelled["score"].isna().all():  # pairs
        return lines
    recall = recall_table(items.dropna(subset="score"), said)
    is_corrected = recall["corrected"].notna()
    if is_corrected.any():
        lines += ["\nRecall, and what it is when the labels correct it:", table_text(recall)]
    if not is_corrected.all():
        lines.append(
            f"To correct the recall of a model, {MIN_LABELS} labels or more of its points in "
            f"{MIN_CLUSTERS} clusters or more are needed, and a label for every word."
        )
    for row in recall.itertuples():
        if row.recall < row.ci_low or row.ci_high < row.recall:
            name = shortened(row.model)
            lines.append(
                f"{name}: the recall of {row.metric} is outside the interval that the labels give."
            )
    return lines


def words_table(labelled: pd.DataFrame) -> pd.DataFrame:
    """How many items with each word of a metric have each label, and which share confirms the word.

    Of pairs the words and the labels are the better models. The interval is Clopper and Pearson's,
    for independent items. No label confirms the words for figures.
    """
    models = labelled["models"].str
    label = labelled["label"].mask(labelled["label"] == "first better", models[0])
    label = label.mask(label == "second better", models[-1])
    keys = [labelled["metric"], labelled["word"]]
    table = pd.crosstab(keys, label)
    hits = (label == labelled["word"].replace(_CONFIRMS)).groupby(keys).agg(["sum", "count"])
    hits = hits.drop(list(FIGURE_WORDS), level="word", errors="ignore")
    for key, (confirmed, n) in hits.iterrows():
        interval = binomtest(confirmed, n).proportion_ci()
        table.loc[key, ["confirmed", "ci_low", "ci_high"]] = confirmed / n, *interval
    return table.reset_index()


def recall_table(points: pd.DataFrame, said: pd.DataFrame) -> pd.DataFrame:
    """The recall of each metric and model, as it is and as the labels correct it.

    The correction is the mean error of the scores in the labelled sample, with the sample's
    weights: the difference estimator (Särndal, Swensson and Wretman 1992, section 6.3), which is
    prediction-powered inference (Angelopoulos and others 2023) for a stratified sample. Its
    interval, Student's t over groups, holds the errors of the scores, and is widened by what a
    small sample may have missed; see `_missed_error`. `corrected` is nan for a model that has too
    few labels of its own, or none for one of its words. `labels` and `clusters` count
    the labels of the model and their groups.
    """
    weight = said["size"] / said.groupby("stratum")["id"].transform("size")
    table = points.merge(said.assign(weight=weight), on="id", how="left")
    table["stated"] = table["label"].map(_STATED)
    error = table["stated"] - table["score"]
    of_word = [table["metric"], table["models"], table["word"]]
    expected = error.groupby(of_word).transform("mean")
    # What an error has beyond its mean is added with the weight of the labelled point.
    beyond = (table["weight"] * (error - expected)).fillna(0)
    table["corrected"] = table["score"] + expected + beyond
    rows = []
    for (metric, (model,)), cell in table.groupby(["metric", "models"]):
        cluster, share = cell["group"], cell["share"].to_numpy()
        recall = mean_over(cell["score"], cluster, share)
        corrected = mean_over(cell["corrected"], cluster, share)
        own = mean_over(cell["stated"], cluster)
        ends = [math.nan] * 3
        if own.n >= MIN_LABELS and own.clusters >= MIN_CLUSTERS and not corrected.left_out:
            half_width = math.hypot(corrected.ci_high - corrected.value, _missed_error(cell))
            ends = np.clip(corrected.value + half_width * np.array([0, -1, 1]), 0, 1)
        rows.append((metric, model, recall.value, *ends, own.n, own.clusters))
    columns = ["metric", "model", "recall", "corrected", "ci_low", "ci_high", "labels", "clusters"]
    return pd.DataFrame(rows, columns=columns)


def _missed_error(points: pd.DataFrame) -> float:
    """Half of the width of a 95 % interval of a model's recall, for the sample of labels alone.

    Equal labels have no variance, but a few of them do not show that the other points have the
    same label. To the labels of each word two are therefore added that say "stated", and two that
    say "not stated" (Agresti and Coull 1998), and the quantile is Student's, for the number of
    labels. Nothing is missed where all points have a label.
    """
    by_word = points.groupby("word")
    n = by_word["stated"].count()
    sums = by_word[["stated", "share"]].sum()
    stated = (sums["stated"] + 2) / (n + 4)
    variance = stated * (1 - stated) / (n + 4) * (1 - n / by_word.size())
    error = math.sqrt(sums["share"] ** 2 @ variance) / sums["share"].sum()
    return stdtrit(n.sum() - 1, 0.975) * error


def people_table(labels: pd.DataFrame, group: pd.Series) -> pd.DataFrame:
    """How far each two people agree on what both have labelled: the share of equal labels, kappa.

    The interval is that of kappa, over groups; `group` has the group of each item.
    """
    codes = labels.assign(code=pd.factorize(labels["label"])[0])
    codes = codes.pivot(index="id", columns="person", values="code")
    rows = []
    for a, b in combinations(codes, 2):
        both = codes[[a, b]].dropna()
        equal = (both[a] == both[b]).mean()
        estimate = bootstrap(kappa, (both[a], both[b]), group[both.index])
        rows.append((a, b, equal, *estimate[:5]))
    columns = ["a", "b", "equal", "kappa", "ci_low", "ci_high", "n", "clusters"]
    return pd.DataFrame(rows, columns=columns)


def kappa(x: Sequence[float], y: Sequence[float]) -> float:
    """Cohen's kappa (1960) of two people's labels, at most 1; nan where chance alone gives 1."""
    by_chance = sum(np.mean(x == label) * np.mean(y == label) for label in set(x))
    return float((np.mean(x == y) - by_chance) / (1 - by_chance)) if by_chance < 1 else math.nan
