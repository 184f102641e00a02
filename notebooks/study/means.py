"""Sentences about means by system: which metric orders the systems, and how clearly."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pandas as pd

import ems
from ems.analysis.findings import series


def main_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of F1 or, for a metric without parts, of Score."""
    return table[table["part"].isin(["F1", "Score"])]


def order_findings(
    values: pd.DataFrame, names: Mapping[str, str], cluster: str = "group"
) -> list[str]:
    """Sentences that say how each metric orders the systems, as far from the top as it is clear.

    `values` is a frame of values, of which F1 or Score counts; `names` has the models that are
    compared, with short names. A step from a system to the next one is clear where
    `ems.paired_table` says so of the answers that both have. A sentence ends with "the others"
    where the last step to each of them is clear, and otherwise with the next system. Metrics with
    the same clear order share a sentence; one whose first step is not clear is in none.
    """
    rows = main_rows(values)
    rows = rows[rows["model"].isin(list(names))]
    if rows.empty:
        return []
    pairs = ems.paired_table(rows, cluster=cluster)
    metrics_of: dict[str, list[str]] = {}
    for metric, cell in ems.summarise(rows, cluster=cluster).groupby("metric", sort=False):
        means = _highest_first(cell)
        pairs_clear = _clear_pairs(pairs[pairs["metric"] == metric])
        clear = _clear_steps(means, pairs_clear)
        if clear:
            order = [names[model] for model in means.index[: clear + 1]]
            last, *lower = means.index[clear - 1 :]
            if len(lower) > 1 and pairs_clear.issuperset((last, x) for x in lower):
                order[-1] = "the others"
            metrics_of.setdefault(" > ".join(order), []).append(_with_range(str(metric), means))
    return [
        f"These steps between systems are clear by {series(metrics)}: {order}."
        for order, metrics in metrics_of.items()
    ]


def _highest_first(cell: pd.DataFrame) -> pd.Series:
    """The means by model of one metric in a table of `ems.summarise`."""
    means = cell.set_index("model")["value"].dropna()
    return means.sort_values(ascending=False, kind="stable")


def _clear_steps(means: pd.Series, clear: set[tuple[str, str]]) -> int:
    """How many steps from a system to the next one are clear, from the top without a gap."""
    steps = [step in clear for step in pairwise(means.index)]
    return [*steps, False].index(False)


def _clear_pairs(pairs: pd.DataFrame) -> set[tuple[str, str]]:
    """The pairs of models whose difference is clear, the higher one first.

    The higher mean may be the other one's, where it is over other answers.
    """
    clear = set()
    for row in pairs[pairs["clear"]].itertuples():
        clear.add((row.a, row.b) if row.difference > 0 else (row.b, row.a))
    return clear


def _with_range(metric: str, means: pd.Series, digits: int = 3) -> str:
    return f"{metric} ({means.min():.{digits}f} to {means.max():.{digits}f})"


def contradiction_findings(
    values: pd.DataFrame, names: Mapping[str, str], cluster: str = "group"
) -> list[str]:
    """A sentence about the system whose answers contradict most of the reference's points.

    It is about the part Contradicted of Coverage(LLM), where the step to the next system is clear.
    """
    is_asked = (values["metric"] == "Coverage(LLM)") & (values["part"] == "Contradicted")
    rows = values[is_asked & values["model"].isin(list(names))]
    if rows.empty:
        return []
    means = _highest_first(ems.summarise(rows, cluster=cluster))
    if not _clear_steps(means, _clear_pairs(ems.paired_table(rows, cluster=cluster))):
        return []
    most, next_most = means.index[:2]
    return [
        f"An answer of {names[most]} contradicts on average {100 * means[most]:.1f} % of the "
        f"points of its reference, clearly more than one of {names[next_most]}, which comes next "
        f"with {100 * means[next_most]:.1f} %."
    ]


def partial_findings(values: pd.DataFrame, names: Mapping[str, str], questions: int) -> list[str]:
    """A sentence for each system with values of fewer than all `questions`."""
    sentences = []
    for model, answered in values.groupby("model", sort=False)["triplet_id"].nunique().items():
        if answered < questions:
            sentences.append(
                f"{names[model]} answers {answered} of {questions} questions: its means are over "
                "these alone, and two systems are compared over the questions that both answer."
            )
    return sentences


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
    if ours["model"].nunique() > 1 and ours["metric"].nunique() > 1:
        sentences.append(f"In the paper the means differ {_most_and_least(theirs, 2)}.")
        sentences.append(f"Here, of the paper's metrics, they differ {_most_and_least(ours, 3)}.")
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
    means_of = dict(list(table.groupby("metric", sort=False)["value"]))
    by_spread = sorted(means_of, key=lambda metric: means_of[metric].max() - means_of[metric].min())
    least, *_, most = [_with_range(name, means_of[name], digits) for name in by_spread]
    return f"most by {most} and least by {least}"
