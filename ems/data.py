"""Triplets, answers and results of the user: each row is checked, from a file or a data frame.

Files are JSON lines, a JSON array, or CSV with a header. An error names the file, the line, the
field and the value.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import date
from functools import cache
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from .analysis.frames import (
    FIGURES_METRIC,
    GivenResults,
    ValueRow,
    by_metric,
    metric_of,
    of_rows,
    to_frame,
    value_rows,
    with_figures_once,
)
from .baselines import Claims
from .io import FilePath, parse_jsonl, read_lines, write_jsonl
from .metrics import check_alignment
from .results import CoverageResult, EMSResult, Result, ScoreResult
from .terminal import did_you_mean, first_few, notify
from .types import Answer, InputError, Triplet, warning_of

if TYPE_CHECKING:
    import pandas as pd

Rows = FilePath | Iterable[Any]  # a file, dictionaries or records, or a pandas frame
_PlacedRows = Iterator[tuple[str, Any]]  # each row with the place where it stands, for messages
# Fields that name something. They are texts, and a whole number is read as its text.
_NAME_FIELDS = ("id", "triplet_id", "model", "group")
# Fields without a value where the cell of a CSV file is blank; a blank text of another is a value.
_NEVER_BLANK = (*_NAME_FIELDS, "reference", "context", "points", "label")
# The kinds of results, by a field that no other kind has.
_RESULT_KINDS: dict[str, type[Result]] = {
    "match": EMSResult,
    "ref_score": CoverageResult,
    "value": ScoreResult,
    "response_claims": Claims,
}
_adapter = cache(TypeAdapter)  # making one takes milliseconds


# --- triplets and answers ---


def load_triplets(source: Rows) -> list[Triplet]:
    """Triplets from a file, dictionaries, records or a frame.

    Their fields are `{id, group?, question, reference, context?, points?}`; a name may have capital
    letters and blanks. A triplet without a group is a group of its own. `points: [{text, weight?}]`
    stand in place of the reference, with weights from 0 to 1e9. None and nan are no values. Unknown
    fields are ignored; a notice names one that resembles a field which no row has. InputError for
    a row with an error, an empty reference among them, for a second row of an id, and for no rows.
    """
    return list(records(source, Triplet))


def load_answers(source: Rows) -> list[Answer]:
    """Answers `{triplet_id, model, answer}`, where an empty text is a refusal; errors as above."""
    return list(records(source, Answer))


def notify_unanswered(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[str]:
    """A line, and a notice, for each model that left triplets unanswered.

    InputError for answers to unknown triplets.
    """
    ids = [triplet.id for triplet in triplets]
    if unknown := sorted({answer.triplet_id for answer in answers}.difference(ids)):
        raise InputError(
            f"answers to {len(unknown)} unknown triplets: {first_few(unknown)}; there are "
            f"{len(ids)}: {first_few(ids)}"
        )
    answered = {(answer.model, answer.triplet_id) for answer in answers}
    lines = []
    for model in dict.fromkeys(answer.model for answer in answers):
        if missing := [name for name in ids if (model, name) not in answered]:
            lines.append(
                f"{model} left {len(missing)} of {len(ids)} triplets unanswered, e.g. {missing[0]}"
            )
            notify(f"ems: {lines[-1]}")
    return lines


# --- results ---


def iter_results(path: FilePath) -> Iterator[tuple[str, Any]]:
    """(metric, result) of each line of a file of results, one at a time: the file may be large.

    A line is `Result.to_dict()`, and may have the metric's name. InputError names file and line
    for what is no result, for an impossible alignment, and for a second result of an answer under
    one metric.
    """
    seen = set()
    for number, row in parse_jsonl(read_lines(path), path):
        place = f"{path}, line {number}"
        result = _result(row, place)
        metric = sys.intern(str(row.get("metric") or metric_of(result)))
        key = (metric, sys.intern(result.triplet_id), sys.intern(result.model))
        if key in seen:
            raise InputError(f"{place}: a second result of {key}; keep one of them")
        seen.add(key)
        yield metric, result


def _result(row: Any, place: str) -> Any:
    """A line of a file of results as the record that it was written from."""
    names = row if isinstance(row, Mapping) else ()
    kind = next((_RESULT_KINDS[name] for name in _RESULT_KINDS if name in names), None)
    if kind is None:
        raise InputError(f"{place}: not a result of ems evaluate, got {str(row)!r:.60}")
    values = dict(row)
    for field in fields(kind):
        # JSON has no nan: to_dict() writes null for a number that could not be computed.
        if field.type == "float" and row.get(field.name) is None:
            values[field.name] = math.nan
    result = _validated(kind, values, place, values)
    try:
        if result.date:
            date.fromisoformat(result.date)
        if isinstance(result, EMSResult):
            check_alignment(result.match, result.score, len(result.ans_points), result.ref_weights)
    except ValueError as error:
        raise InputError(f"{place}: {error}") from None
    return result


def result_rows(path: FilePath) -> Iterator[ValueRow]:
    """The rows of a frame of values, of all results of a file; else as `iter_results`."""
    for metric, result in iter_results(path):
        yield from value_rows(result, metric)


def load_results(path: FilePath) -> ResultsByMetric:
    """The results of a file by metric, in the file's order; else as `iter_results`."""
    results = ResultsByMetric()
    for metric, result in iter_results(path):
        results.setdefault(metric, []).append(result)
    return results


def save_results(results: GivenResults, path: FilePath) -> Path:
    """Write results, one, a list or by metric, as JSON lines that `load_results` reads.

    `ems report`, `compare` and `agree` read them too. The file's folder is made. InputError for
    what is no result, and for a file that cannot be written.
    """
    lines = []
    for metric, rows in by_metric(results).items():
        for result in rows:
            lines.append({"metric": metric, **result.to_dict()})
    return write_jsonl(path, lines)


class Shown:
    """Results that show their means, in a notebook too, and warn where no judge was asked."""

    save = save_results

    def summary(self: Any, *, cluster: str = "group") -> pd.DataFrame:
        """Means with intervals per metric, part and model: `ems.summarise` of `ems.to_frame`."""
        from .analysis.stats import summarise
        from .analysis.tables import Summary

        return Summary(summarise(to_frame(self), cluster=cluster))

    def report(self: Any, path: FilePath, **options: Any) -> Path:
        """As `ems.save_report`, whose options these are."""
        from .analysis.report import save_report

        return save_report(self, path, **options)

    def __repr__(self) -> str:
        from .analysis.tables import table_text

        if not self:
            return "no results"
        return f"{self._warning()}\n{table_text(self._means())}".lstrip()

    def _repr_html_(self) -> str:
        if not self:
            return "no results"
        means = self._means().to_html(index=False)
        return f'<div class="mathjax_ignore"><p><strong>{self._warning()}</strong></p>{means}</div>'

    def _means(self) -> pd.DataFrame:
        from .analysis.tables import means_table

        return means_table(self.summary())

    def _warning(self: Any) -> str:
        results = chain.from_iterable(by_metric(self).values())
        return max(warning_of(result.signature) for result in results)


class ResultList(Shown, list[Any]):
    """The results of one evaluation, in the order of the answers."""


class ResultsByMetric(Shown, dict[str, list[Any]]):
    """The results of a file: a list for each metric, by its name."""


def worst_results(path: FilePath, most: int = 1000) -> tuple[dict[str, list[Any]], pd.DataFrame]:
    """The worst results of a file by metric, and the frame of values of all its results.

    The worst are, of each metric and model, the `most` results with the lowest F1 or Score, lowest
    first; a result without a value is the last. Else as `iter_results`.
    """
    values: list[ValueRow] = []
    lists: dict[tuple[str, str], list[tuple[float, Any]]] = {}
    for metric, result in iter_results(path):
        values += value_rows(result, metric)
        value = values[-1].value  # the last row is F1 or Score
        rank = math.inf if math.isnan(value) else value
        ranked = lists.setdefault((metric, result.model), [])
        insort(ranked, (rank, result), key=itemgetter(0))
        del ranked[most:]
    worst: dict[str, list[Any]] = {}
    for (metric, _), ranked in lists.items():
        worst.setdefault(metric, []).extend(result for _, result in ranked)
    return worst, of_rows(values)


def read_results(paths: Sequence[FilePath]) -> tuple[dict[str, list[Any]], pd.DataFrame]:
    """The worst results of files, by metric, and the values of all, as `worst_results` has them.

    A metric that several files have, of one model or by different settings, is told apart by the
    file: "Judge alone, b.jsonl".
    """
    files = [worst_results(path) for path in paths]
    if len(files) == 1:
        return files[0]
    import pandas as pd

    names = ["metric", "model", "signature"]
    cells = pd.concat([values[names].drop_duplicates() for _, values in files])
    by_metric = cells.groupby("metric")
    counts = by_metric.nunique()
    is_one = (counts["model"] == by_metric.size()) & (counts["signature"] == 1)
    is_one[FIGURES_METRIC] = True  # the figures of an answer are the same in all files
    results: dict[str, list[Any]] = {}
    frames = []
    for path, (found, values) in zip(paths, files, strict=True):
        told = {metric: metric if one else f"{metric}, {path}" for metric, one in is_one.items()}
        for metric, its_results in found.items():
            results.setdefault(told[metric], []).extend(its_results)
        frames.append(values.assign(metric=values["metric"].map(told)))
    return results, with_figures_once(pd.concat(frames, ignore_index=True))


# --- rows ---


def records(source: Rows, kind: type[Any]) -> Iterator[Any]:
    """Every row as a record of this kind, one at a time; errors as `load_triplets` has them."""
    seen = set()
    columns: set[str] = set()
    kind_name = kind.__name__.lower()
    for place, row in _rows(source, kind_name):
        if is_dataclass(row) and not isinstance(row, type):
            row = asdict(row)
        given = row
        if isinstance(row, Mapping):
            given = _with_plain_names(row)
            columns |= given.keys()
            row = _cleaned(given)
        record = _validated(kind, row, place, given)
        for point in getattr(record, "points", ()):
            if not (point.text.strip() and 0 <= point.weight <= 1e9):
                raise InputError(
                    f"{place}: each of the points needs a text and a weight from 0 to 1e9"
                )
        if re.search("[\ud800-\udfff]", json.dumps(row, ensure_ascii=False, default=str)):
            raise InputError(
                f"{place}: a text holds half a surrogate pair, which no file can hold; mend it"
            )
        key = record.id if hasattr(record, "id") else (record.triplet_id, record.model)
        if key in seen:
            raise InputError(f"{place}: a second row of {key!r}; keep one of them")
        seen.add(key)
        yield record
    name = source if isinstance(source, FilePath) else f"the list of {kind_name}s"
    if not seen:
        raise InputError(f"{name} has no rows")
    _notify_misspelt(columns, {field.name for field in fields(kind)}, name)


def _notify_misspelt(columns: set[str], names: set[str], source: FilePath) -> None:
    """A notice for each column that is not used and resembles a field that no column has."""
    for column in sorted(columns - names):
        if hint := did_you_mean(column, names - columns):
            notify(f"ems: {source}: columns not used: {column}{hint}")


def _with_plain_names(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The row with names as fields have them: "Triplet ID " is read as "triplet_id".

    A name stays as it is where the row has the plain one too.
    """
    named = {}
    for name, value in row.items():
        plain = "_".join(str(name).lower().split())
        named[str(name) if plain in row else plain] = value
    return named


def _rows(source: Rows, kind_name: str) -> _PlacedRows:
    """(place, row) of every row: messages name the place. Rows of no file are counted from 0."""
    if isinstance(source, FilePath):
        path = Path(source)
        is_table = path.suffix.lower() in (".csv", ".tsv")
        yield from _csv_rows(path) if is_table else _json_rows(path)
        return
    rows: Any = source
    if hasattr(rows, "iterrows"):  # a pandas frame, which has several kinds of empty cells
        _check_header(rows.columns, f"the frame of {kind_name}s")
        rows = rows.astype(object).where(rows.notna(), None).to_dict("records")
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise InputError(
            f"{kind_name}s are a file, a frame or a list of rows, got {type(rows).__name__}"
        )
    for number, row in enumerate(rows):
        yield f"{kind_name} row {number}", row


def _json_rows(path: Path) -> _PlacedRows:
    """The rows of JSON lines, or of one JSON array. The file may be a pipe: it is read once."""
    lines = read_lines(path, any_encoding=True)
    first = next(lines, "")
    lines = chain([first], lines)
    if not first.lstrip().startswith("["):
        for number, row in parse_jsonl(lines, path):
            yield f"{path}, line {number}", row
        return
    for _, array in parse_jsonl(["".join(lines)], path):
        for number, row in enumerate(array):
            yield f"{path}, entry {number}", row


def _csv_rows(path: Path) -> _PlacedRows:
    """The rows of a CSV file, separated by what its header has most often: `,`, `;`, tab or `|`.

    The line "sep=;" that Excel reads may stand before the header.
    """
    csv.field_size_limit(2**31 - 1)  # a document in a cell may be longer than the usual limit
    lines = read_lines(path, newline="", any_encoding=True)
    header = next(lines, "")
    skipped = 0
    if header.startswith("sep="):
        header = next(lines, "")
        skipped = 1
    separator = max(",;\t|", key=header.count)
    reader = csv.DictReader(chain([header], lines), delimiter=separator, strict=True)
    try:
        _check_header([name for name in reader.fieldnames or () if name], path)
        for row in reader:
            place = f"{path}, line {reader.line_num + skipped}"
            if None in row:
                raise InputError(
                    f"{place}: more cells than the header has; quote texts that hold {separator!r}"
                )
            yield place, row
    except csv.Error as error:
        number = reader.line_num + skipped
        raise InputError(f"{path}, line {number} is not CSV: {error}") from None


def _check_header(columns: Sequence[str], source: FilePath) -> None:
    if len(columns) > len(set(columns)):
        raise InputError(
            f"{source}: the header names a column more than once: {first_few(columns, 12)}"
        )


def _cleaned(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without empty values, with names as texts, and with what a triplet may leave out."""
    cleaned = {}
    for field, value in row.items():
        if value is None or value != value:  # nan is not equal to itself
            continue
        if field in _NEVER_BLANK and not str(value).strip():
            continue
        if field in _NAME_FIELDS and isinstance(value, int | str):
            value = sys.intern(str(value).strip())
        if field == "label" and isinstance(value, str):
            value = _number_of(value)
        cleaned[field] = value
    if "id" in cleaned:
        cleaned.setdefault("group", cleaned["id"])
    if cleaned.get("points"):
        cleaned.setdefault("reference", "")
    return cleaned


def _number_of(label: str) -> float | str:
    """The number that a label writes, with Arabic digits or decimal sign too; else the label."""
    try:
        return float(label.replace("\N{ARABIC DECIMAL SEPARATOR}", "."))
    except ValueError:
        return label


def _validated(kind: Any, row: Any, place: str, given: Any) -> Any:
    """The row, `given` before it was `_cleaned`, as a record; else InputError with the `place`."""
    if not isinstance(row, Mapping):
        raise InputError(
            f"{place}: an object with named values is needed (a dictionary, a row of a frame), got "
            f"{str(row)!r:.40}"
        )
    try:
        return _adapter(kind).validate_python(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    location = first["loc"]
    field = ".".join(map(str, location))
    if first["type"] == "missing" and len(location) == 1:
        hint = "; a refusal is the text ''" if field == "answer" else ""
        problem = f"is missing; the columns are {first_few(list(given), 8)}"
        if field in given:
            problem = "is empty"
        raise InputError(f"{place}: {field!r} {problem}{hint}")
    value = first["input"]
    raise InputError(
        f"{place}: {field!r}: {first['msg']}, got {type(value).__name__} {str(value)!r:.40}"
    )
