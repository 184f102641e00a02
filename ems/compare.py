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
from .io import meant, some
from .metrics import reference_scores
from .stats import paired_table, with_verdicts
from .tables import as_text
from .types import EMSResult, InputError, Result

Source = str | Path | Iterable[Result]
PARTS = ["metric", "model", "part", "a", "b", "difference", "ci_low", "ci_high", "p", "n", "clusters",
         "only_a", "only_b", "unscored"]
CHANGE = ["metric", "model", "triplet_id", "a", "b", "change"]


def compare(a: Source, b: Source, *, metric: str | None = None, top: int = 5, cluster: str = "group",
            seed: int = 7) -> dict[str, pd.DataFrame]:
    """Compare two files of `ems evaluate`, or two lists of results: one `metric`, or all that both have.

    Differences are B less A: positive where B is higher. Gives the tables

    parts      per metric, model and part: both means (a, b) and the columns of `stats.paired_table`, with
               p_holm adjusted over the models of a metric and part
    answers    F1 (or Score) of every answer that has one in both, the largest change first
    points     the `top` reference points of both whose scores changed most
    left_out   the metrics and models that one side alone has

    InputError where nothing joins, and for a metric that a side does not have.
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
        of_a = known.get((name, sole or result.model, result.triplet_id), {})
        moved += [(name, result.model, result.triplet_id, of_a[hash(point)], score, score - of_a[hash(point)],
                   point) for point, score in _points(result) if hash(point) in of_a]
        moved = heapq.nlargest(top, moved, key=lambda row: abs(row[5]))
    cells_a, cells_b = (dict(list(of_rows(rows).groupby(["metric", "model"]))) for rows in (rows_a, rows_b))
    partners = {(name, model): (name, sole or model) for name, model in cells_b}
    found = [_compared(cells_a[partner], cells_b[cell], cluster, seed)
             for cell, partner in partners.items() if partner in cells_a]
    if not any(len(answers) for _, answers in found):
        raise InputError("nothing to compare: A and B need a metric and triplets in common, and models "
                         f"unless A has only one; A has {some(list(cells_a))}, B has {some(list(cells_b))}")
    parts, answers = (pd.concat(tables, ignore_index=True) for tables in zip(*found, strict=True))
    left_out = [("A", *cell) for cell in cells_a if cell not in partners.values()]
    left_out += [("B", *cell) for cell, partner in partners.items() if partner not in cells_a]
    return {"parts": with_verdicts(in_order(parts)),
            "answers": answers.sort_values("change", key=abs, ascending=False, ignore_index=True),
            "points": pd.DataFrame(moved, columns=[*CHANGE, "point"]),
            "left_out": pd.DataFrame(left_out, columns=["side", "metric", "model"])}


def text(tables: Mapping[str, pd.DataFrame], top: int = 5) -> str:
    """The tables of `compare` for a terminal, with the `top` answers that changed most."""
    answers, points = (tables[name][tables[name]["change"] != 0] for name in ("answers", "points"))
    shown = {"B less A": tables["parts"], "In one file only": tables["left_out"],
             "Answers that changed most": answers.head(top),
             "Reference points of both that changed most": points}
    return "\n\n".join(f"{title}:\n{as_text(table, 100)}" for title, table in shown.items() if len(table))


def _compared(of_a: pd.DataFrame, of_b: pd.DataFrame, cluster: str, seed: int) -> list[pd.DataFrame]:
    """The rows of parts and of answers for one metric, one model of A and one of B."""
    old, new = of_a["model"].iloc[0], of_b["model"].iloc[0]
    label = new if new == old else f"{old} → {new}"
    both = of_a.merge(of_b, on=["metric", "part", "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    both = both.assign(model=label, change=both["b"] - both["a"])
    sides = pd.concat([of_a.assign(model="A"), of_b.assign(model="B")])
    table = paired_table(sides, models=["A", "B"], cluster=cluster, seed=seed).drop(columns=["a", "b"])
    table = table.join(both.groupby("part")[["a", "b"]].mean(), on="part").assign(model=label)
    # Of two models the later one is `a` in the table of pairs: here B.
    table = table.rename(columns={"only_a": "only_b", "only_b": "only_a"})
    return [table[PARTS], both.loc[both["part"].isin(["F1", "Score"]), CHANGE]]


def _results(source: Source, metric: str | None) -> Iterator[tuple[str, Any]]:
    """(metric, result) of a file or a list; of one metric if named, InputError when that is not there."""
    pairs = iter_results(source) if isinstance(source, str | Path) else ((metric_of(r), r) for r in source)
    seen = set()
    for name, result in pairs:
        seen.add(name)
        if metric in (None, name):
            yield name, result
    if metric is not None and metric not in seen:
        raise InputError(f"no metric {metric!r} among the results; there are {some(sorted(seen), 12)}"
                         f"{meant(metric, seen)}")


def _points(result: Any) -> Iterator[tuple[str, float]]:
    """The scored reference points of a result; none for a kind that has no points."""
    scores = getattr(result, "ref_score", ())
    if isinstance(result, EMSResult):
        scores = reference_scores(result.match, result.score)
    points = zip(getattr(result, "ref_points", ()), scores, strict=False)
    return ((point, score) for point, score in points if score is not None)
