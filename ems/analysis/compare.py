"""How far the results of two files, or of the models of one file, differ, and where."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ..data import iter_results
from ..io import FilePath
from ..terminal import visible
from ..types import WITHOUT_JUDGE, InputError
from .frames import ValueRow, in_order, of_rows, value_rows
from .stats import DIFFERENCE_COLUMNS, paired_table, with_verdicts
from .tables import pairs_table, table_text

_CELL = ["metric", "model", "part"]


def compare_results(
    a: FilePath,
    b: FilePath | None = None,
    *,
    metric: str | None = None,
    cluster: str = "group",
) -> dict[str, pd.DataFrame]:
    """Compare two files of results of `ems evaluate`: a minus b.

    All metrics that both have are compared, or the one that `metric` names. Answers are joined by
    triplet and model; where `a` has one model only, it is compared with every model of `b`.

    `parts` has a row per metric, model (that of `b`) and part: the means of both, `a` and `b`, and
    the differences of `stats.paired_table`, where p_holm is adjusted over the models of a metric
    and part. `answers` has F1 (or Score) of every answer that has a value in both, the largest
    difference first.

    Without `b` the models of `a` are compared two by two: `parts` is then their
    `stats.paired_table`. InputError where nothing can be joined.
    """
    of_a = _values(a, metric)
    if b is None:
        return {"parts": _models_compared(of_a, cluster)}
    of_b = _values(b, metric)
    if of_a["model"].nunique() == 1:
        of_a = of_a.drop(columns="model").merge(of_b["model"].drop_duplicates(), how="cross")
    both = of_a.merge(of_b, on=[*_CELL, "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    if both.empty:
        raise InputError(
            f"nothing to compare: the files need {metric or 'a metric'} and triplets in common, "
            "and models unless the first file has only one"
        )
    differences = _sides_compared(of_a, of_b, cluster)
    means = both.groupby(_CELL)[["a", "b"]].mean()
    parts = with_verdicts(differences.join(means, on=_CELL, how="inner"))
    return {
        "parts": in_order(parts[[*_CELL, "a", "b", *DIFFERENCE_COLUMNS]]),
        "answers": _answers_compared(both),
    }


def _models_compared(values: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """Every model minus every smaller one, over the triplets that both answered."""
    n_models = values["model"].nunique()
    if n_models < 2:
        raise InputError(
            "nothing to compare: one file needs two models with a metric in common, and has "
            f"{n_models}; name a second file"
        )
    return paired_table(values, cluster=cluster)


def _sides_compared(of_a: pd.DataFrame, of_b: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """For each model its values in `of_a` minus its values in `of_b`, by metric and part."""
    sides = pd.concat([of_a.assign(side="a"), of_b.assign(side="b")])
    tables = []
    for model, rows in sides.groupby("model"):
        if rows["side"].nunique() == 1:
            continue  # a model of one file only has no difference
        # Of the sides that `paired_table` is given, the later one minus the earlier one.
        table = paired_table(rows.assign(model=rows["side"]), models=["b", "a"], cluster=cluster)
        tables.append(table.drop(columns=["a", "b"]).assign(model=model))
    return pd.concat(tables)


def _answers_compared(both: pd.DataFrame) -> pd.DataFrame:
    """F1 (or Score) of each answer on both sides and a minus b, the largest difference first."""
    answers = both[both["part"].isin(["F1", "Score"])]
    answers = answers[["metric", "model", "triplet_id", "a", "b"]]
    answers = answers.assign(difference=answers["a"] - answers["b"])
    return answers.sort_values("difference", key=abs, ascending=False, ignore_index=True)


def comparison_text(tables: Mapping[str, pd.DataFrame], a: str, b: str | None = None) -> str:
    """The tables of `compare_results` for a terminal, with the five answers that differ most.

    `a` and `b` are the files that were compared. The column `higher` names one of them, or a model,
    where a difference is clear. The last line warns of values without a judge.
    """
    lines = ["Differences are a minus b: above 0, a is higher; below 0, b is higher."]
    if b is None:
        lines.append(table_text(pairs_table(tables["parts"])))
    else:
        lines = [f"a: {visible(a)}", f"b: {visible(b)}", *lines]
        lines += [table_text(pairs_table(tables["parts"], a, b)), "", "Answers that differ most:"]
        lines.append(table_text(tables["answers"].head(5)))
    if warning := warning_of(tables):
        lines.append(warning)
    return "\n".join(lines)


def warning_of(tables: Mapping[str, pd.DataFrame]) -> str:
    """What must be said of a comparison of `compare_results` without a judge; "" with one."""
    return "" if "meaning" in set(tables["parts"]["compares"]) else WITHOUT_JUDGE


def _values(path: FilePath, metric: str | None) -> pd.DataFrame:
    """The frame of values of a file; of one metric if `metric` names it."""
    rows: list[ValueRow] = []
    for name, result in iter_results(path):
        rows += (row for row in value_rows(result, name) if metric in (None, row.metric))
    return of_rows(rows)
