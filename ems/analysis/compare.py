"""Results of the same questions: how far two sets of them, or the models within one, differ, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from ..data import iter_results
from ..results import Result
from ..types import InputError
from .frames import in_order, metric_of, of_rows, values_of
from .stats import PAIRED, paired_table, with_verdicts
from .tables import as_text, pairs_table

Source = str | Path | Iterable[Result]
CELL = ["metric", "model", "part"]


def compare(
    a: Source, b: Source | None = None, *, metric: str | None = None, cluster: str = "group"
) -> dict[str, pd.DataFrame]:
    """Compare two files of `ems evaluate`, or two lists of results, by one `metric` or all that both have.

    Answers are joined by triplet and model; where A has one model, every model of B is held against it.
    `parts` has per metric, model and part both means (a, b) and the columns of `stats.paired_table`: B less
    A, `model` is B's, p_holm adjusted over the models of a metric and part. `answers` has F1 (or Score) of
    every answer that has one in both, the largest change first. Without B the models of A are compared:
    `parts` alone, their `stats.paired_table`, model a less model b. InputError where nothing joins.
    """
    of_a = _values(a, metric)
    if b is None:
        if of_a["model"].nunique() < 2:
            raise InputError(
                "nothing to compare: A alone needs two models with a metric in common, and has "
                f"{of_a['model'].nunique()}; name a second file as B"
            )
        return {"parts": paired_table(of_a, cluster=cluster)}
    of_b = _values(b, metric)
    if of_a["model"].nunique() == 1:
        of_a = of_a.drop(columns="model").merge(of_b["model"].drop_duplicates(), how="cross")
    both = of_a.merge(of_b, on=[*CELL, "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    if both.empty:
        raise InputError(
            f"nothing to compare: A and B need {metric or 'a metric'} and triplets in common, "
            "and models unless A has only one"
        )
    sides = pd.concat([of_a.assign(side="A"), of_b.assign(side="B")]).groupby("model")
    tables = [
        paired_table(rows.assign(model=rows["side"]), models=["A", "B"], cluster=cluster).assign(
            model=model
        )
        for model, rows in sides
    ]
    # Of two models the later one is `a` in the table of pairs: here B.
    table = pd.concat(tables).rename(columns={"only_a": "only_b", "only_b": "only_a"})
    means = both.groupby(CELL)[["a", "b"]].mean()
    table = with_verdicts(table.drop(columns=["a", "b"]).join(means, on=CELL, how="inner"))
    answers = both.loc[
        both["part"].isin(["F1", "Score"]), ["metric", "model", "triplet_id", "a", "b"]
    ]
    answers = answers.assign(change=answers["b"] - answers["a"])
    return {
        "parts": in_order(table[[*CELL, "a", "b", *PAIRED[4:]]]),
        "answers": answers.sort_values("change", key=abs, ascending=False, ignore_index=True),
    }


def text(tables: Mapping[str, pd.DataFrame], top: int = 5) -> str:
    """The tables of `compare` for a terminal, with the `top` answers that changed most."""
    parts = as_text(pairs_table(tables["parts"]))
    if "answers" not in tables:
        return f"Differences are a less b: above 0, a is higher.\n{parts}"
    return (
        f"Differences are B less A: above 0, B is higher.\n{parts}\n\n"
        f"Answers that changed most:\n{as_text(tables['answers'].head(top))}"
    )


def _values(source: Source, metric: str | None) -> pd.DataFrame:
    """The frame of values of a file or a list; of one metric if named."""
    pairs = (
        iter_results(source)
        if isinstance(source, str | Path)
        else ((metric_of(r), r) for r in source)
    )
    return of_rows(
        [row for name, result in pairs if metric in (None, name) for row in values_of(result, name)]
    )
