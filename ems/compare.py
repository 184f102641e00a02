"""Two sets of results of the same questions: how far the second differs from the first, and where.

For two systems, two judges or two versions of a prompt. Answers are joined by triplet and model; where the
first set has one model, every model of the second is held against that one. Of results that are read line by
line only the values are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from .data import iter_results
from .frames import in_order, metric_of, of_rows, values_of
from .results import Result
from .stats import PAIRED, paired_table, with_verdicts
from .tables import as_text
from .types import InputError

Source = str | Path | Iterable[Result]
CELL = ["metric", "model", "part"]


def compare(a: Source, b: Source, *, metric: str | None = None, cluster: str = "group"
            ) -> dict[str, pd.DataFrame]:
    """Compare two files of `ems evaluate`, or two lists of results: one `metric`, or all that both have.

    Differences are B less A: positive where B is higher; `model` is B's. Gives the tables

    parts      per metric, model and part: both means (a, b) and the columns of `stats.paired_table`, with
               p_holm adjusted over the models of a metric and part
    answers    F1 (or Score) of every answer that has one in both, the largest change first

    InputError where nothing joins.
    """
    of_a, of_b = _values(a, metric), _values(b, metric)
    if of_a["model"].nunique() == 1:
        of_a = of_a.drop(columns="model").merge(of_b["model"].drop_duplicates(), how="cross")
    both = of_a.merge(of_b, on=[*CELL, "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    if both.empty:
        raise InputError(f"nothing to compare: A and B need {metric or 'a metric'} and triplets in common, "
                         "and models unless A has only one")
    answers = both.loc[both["part"].isin(["F1", "Score"]), ["metric", "model", "triplet_id", "a", "b"]]
    answers = answers.assign(change=answers["b"] - answers["a"])
    return {"parts": _parts(of_a, of_b, both, cluster),
            "answers": answers.sort_values("change", key=abs, ascending=False, ignore_index=True)}


def text(tables: Mapping[str, pd.DataFrame], top: int = 5) -> str:
    """The tables of `compare` for a terminal, with the `top` answers that changed most."""
    return (f"B less A:\n{as_text(tables['parts'])}\n\n"
            f"Answers that changed most:\n{as_text(tables['answers'].head(top))}")


def _parts(of_a: pd.DataFrame, of_b: pd.DataFrame, both: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """The table of parts from the values of A, of B and of the answers that have one in both."""
    tables = []
    for model in both["model"].unique():
        sides = [rows[rows["model"] == model].assign(model=side) for side, rows in (("A", of_a), ("B", of_b))]
        tables.append(paired_table(pd.concat(sides), models=["A", "B"], cluster=cluster).assign(model=model))
    # Of two models the later one is `a` in the table of pairs: here B.
    table = pd.concat(tables).rename(columns={"only_a": "only_b", "only_b": "only_a"})
    means = both.groupby(CELL)[["a", "b"]].mean()
    table = with_verdicts(table.drop(columns=["a", "b"]).join(means, on=CELL, how="inner"))
    return in_order(table[[*CELL, "a", "b", *PAIRED[4:]]])


def _values(source: Source, metric: str | None) -> pd.DataFrame:
    """The frame of values of a file or a list; of one metric if named."""
    pairs = iter_results(source) if isinstance(source, str | Path) else ((metric_of(r), r) for r in source)
    return of_rows([row for name, result in pairs if metric in (None, name)
                    for row in values_of(result, name)])
