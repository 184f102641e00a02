"""Results read back from a file: what `ems evaluate` wrote, or `alignments.jsonl` of a reproduced run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ..data import Name, Text, Weight, _Row
from ..io import meant, parse_jsonl, read_text, some, validated
from ..types import EMSResult, InputError

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Index = Annotated[int, Field(ge=-1)]


UNNAMED = "EMS"                # the metric of lines that name none


class ResultRow(_Row):
    """A line of results. `metric` names it where a file holds several, as `alignments.jsonl` does."""

    metric: Name = UNNAMED
    triplet_id: Name
    model: Name
    ref_points: list[Text]
    ans_points: list[Text]
    match: list[Index | None]
    score: list[Share | None]
    ans_score: list[Share | None] = []
    ans_match: list[Index | None] = []
    recall: Share | None
    precision: Share | None
    f1: Share | None
    unscored: Annotated[int, Field(ge=0)] = 0
    reason: Text = ""
    lost: list[str] = []
    ref_weights: list[Weight] = []                        # of given points also below 0
    ans_weights: list[Annotated[Weight, Field(gt=0)]] = []
    support: list[Any] | None = []
    given: list[Text] = []
    signature: Text


def load_results(path: str | Path) -> dict[str, list[EMSResult]]:
    """The results of a file by metric, in its order: `UNNAMED` where the lines name none.

    InputError names file and line for what is no result, for lists that do not fit together, and for a
    second result of the same metric, triplet and model.
    """
    by_metric: dict[str, list[EMSResult]] = {}
    lines: dict[tuple[str, str, str], int] = {}
    for number, value in parse_jsonl(read_text(path), path):
        where = f"{path}, line {number}"
        row = validated(ResultRow, value, where)
        key = (row.metric, row.triplet_id, row.model)
        if key in lines:
            raise InputError(f"{where}: {row.metric} of {row.triplet_id!r} by {row.model!r} stands already "
                             f"on line {lines[key]}; keep one of them")
        lines[key] = number
        _check_lengths(row, where)
        result = EMSResult.from_dict({k: v for k, v in value.items() if k not in ("metric", "rubrics")})
        by_metric.setdefault(row.metric, []).append(result)
    if not by_metric:
        raise InputError(f"{path} is empty; the results of ems evaluate, one a line, are needed")
    return by_metric


def of_metric(results: dict[str, list[EMSResult]], metric: str | None, path: str | Path) -> list[EMSResult]:
    """The results of one metric: the one asked for, or the only one of a file that names none.

    InputError when several are there and none is asked for, and for one that is not there.
    """
    if list(results) == [UNNAMED] or (metric is None and len(results) == 1):
        return next(iter(results.values()))
    if metric not in results:
        there = f"{path} holds {some(list(results), 12)}"
        raise InputError(f"{there}; name one with --metric" if metric is None else
                         f"{there}, and no {metric!r}{meant(metric, results)}")
    return results[metric]


def _check_lengths(row: ResultRow, where: str) -> None:
    """InputError for lists that do not fit the points: an entry a point, indices of the other side's."""
    refs, answers = len(row.ref_points), len(row.ans_points)
    lengths = {"match": refs, "score": refs, "ref_weights": refs, "given": refs, "support": answers,
               "ans_match": answers, "ans_score": answers, "ans_weights": len(row.ans_score)}
    for name, points in lengths.items():
        entries = getattr(row, name) or ()
        if len(entries) != points and (entries or name in ("match", "score")):
            raise InputError(f"{where}: {name!r} must have an entry per point, {points}, got {len(entries)}")
    for name, menu in (("match", answers), ("ans_match", refs)):
        if off := [index for index in getattr(row, name) if index is not None and index >= menu]:
            raise InputError(f"{where}: {name!r} names point {off[0]} of {menu}, counted from 0")
