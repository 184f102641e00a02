"""A user's rows in: triplets, answers and results, each row checked, from a file or a data frame.

Files are JSON lines, a JSON array, or CSV with a header. An error names file, line, field and what came.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from heapq import heappop, heappush
from itertools import chain, tee
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .analysis.frames import ValueRow, metric_of, value_rows
from .baselines import Claims
from .io import parse_jsonl, read_lines
from .metrics import check_alignment
from .results import CoverageResult, EMSResult, Result, ScoreResult
from .terminal import first_few
from .types import Answer, InputError, Triplet

Rows = str | Path | Iterable[Mapping[str, Any]]  # a file, dictionaries, or a pandas frame
NAMES = ("id", "triplet_id", "model", "group")  # texts; a whole number is taken for one
NOT_BLANK = (*NAMES, "context", "points", "label")  # an empty cell of a CSV is none
# The kinds of results, told apart by a field that only one of them has.
KINDS: dict[str, type[Result]] = {
    "match": EMSResult,
    "ref_score": CoverageResult,
    "value": ScoreResult,
    "response_claims": Claims,
}
adapter = cache(TypeAdapter)  # checks values of one kind; costly to make


# --- triplets and answers ---


def load_triplets(source: Rows) -> list[Triplet]:
    """Triplets `{id, group?, question, reference, context?, points?}` from a file, dictionaries or a frame.

    Without a group a triplet is a group of its own. `points: [{text, weight?}]` stand in place of the
    reference, with weights of 0 or more. None and nan are empty; unknown keys are ignored.
    InputError for anything malformed, and for an id that is there twice.
    """
    return list(records(source, Triplet))


def load_answers(source: Rows) -> list[Answer]:
    """Answers `{triplet_id, model, answer}`, where an empty text is a refusal; else as `load_triplets`."""
    return list(records(source, Answer))


def check_join(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> dict[str, list[str]]:
    """The ids that each model left unanswered, for models that did; InputError for answers to unknown ids."""
    ids = {triplet.id: None for triplet in triplets}  # in their order
    if unknown := sorted({answer.triplet_id for answer in answers} - ids.keys()):
        raise InputError(
            f"answers to {len(unknown)} unknown triplets: {first_few(unknown)}; there are "
            f"{len(ids)}: {first_few(list(ids))}"
        )
    left: dict[str, dict[str, None]] = {}
    for answer in answers:
        left.setdefault(answer.model, dict(ids)).pop(answer.triplet_id, None)
    return {model: list(missing) for model, missing in left.items() if missing}


# --- results ---


def iter_results(path: str | Path) -> Iterator[tuple[str, Any]]:
    """(metric, result) of each line of a file of results, one at a time: a large file is never held whole.

    A line is `Result.to_dict()`, and may have the metric's name. InputError names file and line for what is
    no result, for an impossible alignment, and for an answer that is there twice under one metric.
    """
    seen = set()
    for number, row in parse_jsonl(read_lines(path), path):
        where = f"{path}, line {number}"
        names = row if isinstance(row, Mapping) else ()
        kind = next((kind for field, kind in KINDS.items() if field in names), None)
        if kind is None:
            raise InputError(f"{where}: not a result of ems evaluate, got {str(row)!r:.60}")
        # JSON has no nan: to_dict() writes null for a number that could not be computed.
        numbers = {
            f.name: math.nan for f in fields(kind) if f.type == "float" and row.get(f.name) is None
        }
        result = checked(kind, {**row, **numbers}, where)
        if isinstance(result, EMSResult):
            try:
                check_alignment(
                    result.match, result.score, len(result.ans_points), result.ref_weights
                )
            except ValueError as error:
                raise InputError(f"{where}: {error}") from None
        metric = sys.intern(str(row.get("metric") or metric_of(result)))
        key = metric, sys.intern(result.triplet_id), sys.intern(result.model)
        if key in seen:
            raise InputError(f"{where}: a second result of {key}; keep one of them")
        seen.add(key)
        yield metric, result


def load_results(path: str | Path) -> dict[str, list[Any]]:
    """The results of a file by metric, in its order; else as `iter_results`."""
    by_metric: dict[str, list[Any]] = {}
    for metric, result in iter_results(path):
        by_metric.setdefault(metric, []).append(result)
    return by_metric


def worst_results(
    path: str | Path, most: int = 1000
) -> tuple[dict[str, list[Any]], list[ValueRow]]:
    """Of each metric and model the `most` results with the lowest F1, or Score; and the values of all.

    A result without a value stands behind those that have one. Else as `iter_results`.
    """
    values: list[ValueRow] = []
    worst: dict[str, dict[str, list[tuple[float, int, Any]]]] = {}
    for number, (metric, result) in enumerate(iter_results(path)):
        values += value_rows(result, metric)  # F1 comes last
        value = values[-1].value
        kept = worst.setdefault(metric, {}).setdefault(result.model, [])
        heappush(kept, (-math.inf if math.isnan(value) else -value, -number, result))
        if len(kept) > most:
            heappop(kept)
    return {
        metric: [result for kept in models.values() for *_, result in sorted(kept, reverse=True)]
        for metric, models in worst.items()
    }, values


# --- rows ---


def rows_of(source: Rows) -> Iterable[tuple[str, Any]]:
    """Every row with its place, for messages; rows of dictionaries and frames are counted from 0."""
    if not isinstance(source, str | Path):
        frame: Any = source
        if hasattr(frame, "notna"):  # a pandas frame: its empty cells have several forms
            frame = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return ((f"row {number}", row) for number, row in enumerate(frame))
    path = Path(source)
    if path.suffix.lower() in (".csv", ".tsv"):
        return _csv_rows(path)
    lines, ahead = tee(read_lines(path))  # the file, which may be a pipe, is read once
    if next(filter(str.strip, ahead), "").lstrip().startswith("["):
        return (
            (f"{path}, entry {number}", row)
            for _, rows in parse_jsonl(["".join(lines)], path)
            for number, row in enumerate(rows)
        )
    return ((f"{path}, line {number}", row) for number, row in parse_jsonl(lines, path))


def _csv_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """The rows of a CSV file; its separator is the one of `,`, `;` and tab that its header has most often."""
    csv.field_size_limit(2**31 - 1)  # a document in a cell may be longer than the usual limit
    lines = read_lines(path, newline="")
    first = next(lines, "")
    separator = max(",;\t", key=first.count)
    reader = csv.DictReader(chain([first], lines), delimiter=separator, strict=True)
    try:
        header = list(filter(None, reader.fieldnames or ()))
        if len(header) > len(set(header)):
            raise InputError(
                f"{path}: the header names a column more than once: {first_few(header, 12)}"
            )
        for row in reader:
            if None in row:
                raise InputError(
                    f"{path}, line {reader.line_num}: more cells than the header has; quote "
                    f"texts that hold {separator!r}"
                )
            yield f"{path}, line {reader.line_num}", row
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num} is not CSV: {error}") from None


def records(source: Rows, kind: type[Any]) -> Iterator[Any]:
    """Every row as a record of this kind, one at a time. InputError for a key that comes twice, or no row."""
    seen = set()
    for place, row in rows_of(source):
        record = checked(kind, _cleaned(row) if isinstance(row, Mapping) else row, place)
        points = getattr(record, "points", ())
        if not all(point.text.strip() and 0 <= point.weight <= 1e9 for point in points):
            raise InputError(f"{place}: each of the points needs a text and a weight from 0 to 1e9")
        if re.search("[\ud800-\udfff]", json.dumps(row, ensure_ascii=False, default=str)):
            raise InputError(
                f"{place}: a text holds half a surrogate pair, which no file can hold; mend it"
            )
        name = record.id if kind is Triplet else (record.triplet_id, record.model)
        if name in seen:
            raise InputError(f"{place}: a second row of {name!r}; keep one of them")
        seen.add(name)
        yield record
    if not seen:
        named = source if isinstance(source, str | Path) else "the list"
        needed = [f.name for f in fields(kind) if f.default is MISSING and f.name != "group"]
        raise InputError(f"{named} has no rows; each needs {', '.join(needed)}")


def _cleaned(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without its empty values, with ids as text, and with what a triplet may leave out."""
    row = {
        name: value for name, value in row.items() if value is not None and value == value
    }  # nan != nan
    row = {
        name: sys.intern(str(value)) if name in NAMES and isinstance(value, int | str) else value
        for name, value in row.items()
        if name not in NOT_BLANK or str(value).strip()
    }
    if "id" in row:
        row.setdefault("group", row["id"])
    if row.get("points"):
        row.setdefault("reference", "")
    return row


def checked(kind: Any, row: Any, where: str) -> Any:
    """The row as a record of this kind; InputError, beginning with `where`, when it is none."""
    if not isinstance(row, Mapping):
        raise InputError(f"{where}: an object with named values is needed, got {str(row)!r:.40}")
    try:
        return adapter(kind).validate_python(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field, came = ".".join(map(str, first["loc"])), first["input"]
    if first["type"] == "missing" and len(first["loc"]) == 1:
        raise InputError(
            f"{where}: {field!r} is missing or empty; there are {first_few(list(row), 8)}"
        )
    raise InputError(
        f"{where}: {field!r}: {first['msg']}, got {type(came).__name__} {str(came)!r:.40}"
    )
