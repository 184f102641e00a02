"""Two sets of results of the same questions: how far the second differs from the first, and where.

For two systems, two judges or two versions of a prompt. Answers are joined by triplet and model; where the
first set has one model, every model of the second is held against that one. Reference points are joined by
their text. Files are read line by line: their points are never all held at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from .data import iter_results
from .frames import Row, in_order, metric_of, of_rows, values_of
from .metrics import reference_scores
from .stats import PAIRED, paired_table, with_verdicts
from .tables import as_text
from .types import EMSResult, InputError, Result

Source = str | Path | Iterable[Result]
CELL = ["metric", "model", "part"]
PARTS = [*CELL, "a", "b", *PAIRED[4:]]
CHANGE = ["metric", "model", "triplet_id", "a", "b", "change"]


def compare(a: Source, b: Source, *, metric: str | None = None, top: int = 5, cluster: str = "group"
            ) -> dict[str, pd.DataFrame]:
    """Compare two files of `ems evaluate`, or two lists of results: one `metric`, or all that both have.

    Differences are B less A: positive where B is higher; `model` is B's. Gives the tables

    parts      per metric, model and part: both means (a, b) and the columns of `stats.paired_table`, with
               p_holm adjusted over the models of a metric and part
    answers    F1 (or Score) of every answer that has one in both, the largest change first
    points     the `top` reference points of both whose scores changed most

    InputError where nothing joins.
    """
    rows_a: list[Row] = []
    rows_b: list[Row] = []
    known: dict[tuple[str, str, str], dict[int, float]] = {}       # the scores of A's points, by their hash
    moved: list[Row] = []
    for name, result in _results(a, metric):
        rows_a += values_of(result, name)
        known[name, result.model, result.triplet_id] = {hash(text): score for text, score in _points(result)}
    models = {model for _, model, _ in known}
    sole = models.pop() if len(models) == 1 else None
    for name, result in _results(b, metric):
        rows_b += values_of(result, name)
        old = known.get((name, sole or result.model, result.triplet_id), {})
        moved += [(name, result.model, result.triplet_id, old[hash(point)], score, score - old[hash(point)],
                   point) for point, score in _points(result) if old.get(hash(point), score) != score]
        moved = heapq.nlargest(top, moved, key=lambda row: abs(row[5]))
    of_a, of_b = of_rows(rows_a), of_rows(rows_b)
    if sole:
        of_a = of_a.drop(columns="model").merge(of_b["model"].drop_duplicates(), how="cross")
    both = of_a.merge(of_b, on=[*CELL, "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    if both.empty:
        raise InputError(f"nothing to compare: A and B need {metric or 'a metric'} and triplets in common, "
                         "and models unless A has only one")
    answers = both.assign(change=both["b"] - both["a"]).loc[both["part"].isin(["F1", "Score"]), CHANGE]
    return {"parts": _parts(of_a, of_b, both, cluster),
            "answers": answers.sort_values("change", key=abs, ascending=False, ignore_index=True),
            "points": pd.DataFrame(moved, columns=[*CHANGE, "point"])}


def text(tables: Mapping[str, pd.DataFrame], top: int = 5) -> str:
    """The tables of `compare` for a terminal, with the `top` answers that changed most."""
    shown = {"B less A": tables["parts"], "Answers that changed most": tables["answers"].head(top),
             "Reference points of both that changed most": tables["points"]}
    return "\n\n".join(f"{title}:\n{as_text(table, 100)}" for title, table in shown.items() if len(table))


def _parts(of_a: pd.DataFrame, of_b: pd.DataFrame, both: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """The table of parts from the values of A, of B and of the answers that have one in both."""
    tables = []
    for model in both["model"].unique():
        sides = [rows[rows["model"] == model].assign(model=side) for side, rows in (("A", of_a), ("B", of_b))]
        tables.append(paired_table(pd.concat(sides), models=["A", "B"], cluster=cluster).assign(model=model))
    # Of two models the later one is `a` in the table of pairs: here B.
    table = pd.concat(tables).rename(columns={"only_a": "only_b", "only_b": "only_a"})
    means = both.groupby(CELL)[["a", "b"]].mean()
    return in_order(with_verdicts(table.drop(columns=["a", "b"]).join(means, on=CELL, how="inner"))[PARTS])


def _results(source: Source, metric: str | None) -> Iterator[tuple[str, Any]]:
    """(metric, result) of a file or a list; of one metric if named."""
    pairs = iter_results(source) if isinstance(source, str | Path) else ((metric_of(r), r) for r in source)
    return (pair for pair in pairs if metric in (None, pair[0]))


def _points(result: Any) -> Iterator[tuple[str, float]]:
    """The scored reference points of a result; none for a kind that has no points."""
    scores = getattr(result, "ref_score", ())
    if isinstance(result, EMSResult):
        scores = reference_scores(result.match, result.score)
    points = zip(getattr(result, "ref_points", ()), scores, strict=False)
    return ((point, score) for point, score in points if score is not None)
