"""Sentences about means by system: which metric orders the systems, and how clearly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isclose

import pandas as pd

import ems
from ems.analysis.findings import series
from ems.analysis.frames import METRIC_ORDER

MAIN_PARTS = ("F1", "Score")


def main_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of F1 or, for a metric without parts, of Score."""
    return table[table["part"].isin(MAIN_PARTS)]


def order_findings(
    values: pd.DataFrame, names: Mapping[str, str], cluster: str = "group"
) -> list[str]:
    """Sentences about F1 or Score: which metrics put all systems in one clear order, or one first.

    `values` is a frame of values, `names` has the models that are compared, with their short names.
    A step between two systems is clear where `ems.paired_table` says so. A metric without a clear
    step to the highest system is in no sentence, and so is every metric where there is one system.
    """
    rows = main_rows(values)
    rows = rows[rows["model"].isin(list(names))]
    if rows["model"].nunique() < 2:
        return []
    pairs = ems.paired_table(rows, cluster=cluster)
    orders: dict[tuple[str, ...], list[str]] = {}
    leaders: dict[str, list[str]] = {}
    for metric in _metrics_of(rows):
        means = _ordered_means(rows, metric)
        order = tuple(means.index)
        of_metric = pairs[pairs["metric"] == metric]
        words = _with_range(metric, means)
        if _are_clear(of_metric, pairwise(order)):
            orders.setdefault(order, []).append(words)
        elif _are_clear(of_metric, _against_the_last(order)):
            leaders.setdefault(order[-1], []).append(words)
    sentences = []
    for order, metrics in orders.items():
        systems = ", ".join(names[model] for model in order)
        verb = "puts" if len(metrics) == 1 else "put"
        sentences.append(
            f"{series(metrics)} {verb} {len(order)} systems in one clear order, from the lowest "
            f"mean to the highest: {systems}."
        )
    for model, metrics in leaders.items():
        sentences.append(f"{names[model]} has clearly the highest mean by {series(metrics)}.")
    return sentences


def _metrics_of(table: pd.DataFrame) -> list[str]:
    """The metrics in the order of Table 1, then those that Table 1 does not have."""
    present = list(dict.fromkeys(table["metric"]))
    of_table1 = [metric for metric in METRIC_ORDER if metric in present]
    return of_table1 + [metric for metric in present if metric not in of_table1]


def _ordered_means(rows: pd.DataFrame, metric: str) -> pd.Series:
    """The means by model of a metric, the lowest one first; models without a value are left out."""
    of_metric = rows[rows["metric"] == metric]
    means = of_metric.groupby("model")["value"].mean().dropna()
    return means.sort_values(kind="stable")


def _with_range(metric: str, means: pd.Series, digits: int = 3) -> str:
    return f"{metric} ({means.iloc[0]:.{digits}f} to {means.iloc[-1]:.{digits}f})"


def _against_the_last(order: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of the last system with each of the others."""
    for model in order[:-1]:
        yield model, order[-1]


def _are_clear(pairs: pd.DataFrame, wanted: Iterable[tuple[str, str]]) -> bool:
    """Whether the two systems of each wanted pair differ clearly; False for no pair."""
    clear = pairs[pairs["clear"]]
    clear_pairs = {frozenset(pair) for pair in zip(clear["a"], clear["b"], strict=True)}
    wanted_pairs = {frozenset(pair) for pair in wanted}
    return bool(wanted_pairs) and wanted_pairs <= clear_pairs


def contradiction_findings(
    values: pd.DataFrame, names: Mapping[str, str], cluster: str = "group"
) -> list[str]:
    """A sentence where one system's answers clearly contradict most of the reference's points.

    It is about the part Contradicted of Coverage(LLM); there is no sentence without such rows, and
    none where no system has clearly more than every other one.
    """
    is_asked = (values["metric"] == "Coverage(LLM)") & (values["part"] == "Contradicted")
    rows = values[is_asked & values["model"].isin(list(names))]
    if rows["model"].nunique() < 2:
        return []
    means = _ordered_means(rows, "Coverage(LLM)")
    pairs = ems.paired_table(rows, cluster=cluster)
    if not _are_clear(pairs, _against_the_last(means.index)):
        return []
    most, next_most = 100 * means.iloc[-1], 100 * means.iloc[-2]
    return [
        f"Answers of {names[means.index[-1]]} contradict {most:.1f} % of the reference's points, "
        f"clearly more than those of every other system ({next_most:.1f} % at most)."
    ]


def unscored_findings(summary: pd.DataFrame) -> list[str]:
    """A sentence for each metric of `ems.summarise` with points that a judge left unscored."""
    sentences = []
    for metric, rows in summary.groupby("metric", sort=False):
        per_model = rows.groupby("model")[["unscored", "units"]].max().sum()
        if per_model["unscored"]:
            sentences.append(
                f"{metric} lacks {per_model['unscored']:,.0f} of {per_model['units']:,.0f} "
                "judgements: its means leave them out, and its bounds say what they could change."
            )
    return sentences


def paper_findings(summary: pd.DataFrame, paper: pd.DataFrame) -> list[str]:
    """Sentences about our means beside the paper's: how far the systems lie apart by each metric.

    `summary` is a table of `ems.summarise`, `paper` has the columns metric, part, model, value.
    Where a model is in both, a sentence says how far its values are apart.
    """
    ours, theirs = main_rows(summary), main_rows(paper)
    ours = ours[ours["metric"].isin(theirs["metric"])]
    sentences = []
    if ours["model"].nunique() > 1:
        sentences.append(f"In the paper the means differ {_most_and_least(theirs, 2)}.")
        sentences.append(f"Here they differ {_most_and_least(ours, 3)}.")
    both = summary.merge(paper, on=["metric", "part", "model"], suffixes=("", "_of_paper"))
    gaps = (both["value"] - both["value_of_paper"]).abs().dropna()
    if len(gaps):
        sentences.append(
            f"In the {len(gaps)} cells that both tables have, our value and the paper's are "
            f"{gaps.mean():.3f} apart on average and {gaps.max():.3f} at most."
        )
    return sentences


def _most_and_least(table: pd.DataFrame, digits: int) -> str:
    """By which metric the lowest and the highest mean lie furthest apart, and by which nearest."""
    means = table.groupby("metric", sort=False)["value"].agg(["min", "max"]).dropna()
    spread = (means["max"] - means["min"]).sort_values(kind="stable")
    most, least = spread.index[-1], spread.index[0]
    words = {}
    for metric in (most, least):
        words[metric] = _with_range(metric, means.loc[metric], digits)
    if isclose(spread[most], spread[least]):
        return f"equally by all metrics, such as {words[most]}"
    return f"most by {words[most]} and least by {words[least]}"
