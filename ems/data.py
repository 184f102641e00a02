"""A user's rows in, tidy frames out: triplets and answers; a row per metric, part, model and triplet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from .baselines import Claims, entailed, ragchecker_scores
from .batches import check_known, triplets_by_id
from .io import (
    OWN_CHECK,
    duplicates,
    is_encodable,
    parse_jsonl,
    read_json,
    read_text,
    some,
    unguarded,
    validated,
)
from .judge.budget import Usage, merged
from .results.pooling import tally
from .support.scores import support_scores
from .types import Answer, EMSResult, GivenPoint, InputError, Triplet

if TYPE_CHECKING:
    import pandas as pd

    from .judge.budget import Planner
    from .judge.client import LLMJudge


# --- a user's rows ---

POINT_KEYS = ("points", "nuggets", "rubrics")      # of a triplet's line: its reference points are given
NUGGET_WEIGHTS = {"vital": 1.0, "okay": 0.5}       # TREC RAG 2024, weighted score (arXiv:2411.09607)


def _refused_unless(holds: Callable[[Any], object], message: str) -> AfterValidator:
    """A check of a field; the message reads on after the field's name."""
    def check(value: Any) -> Any:
        if not holds(value):
            raise PydanticCustomError(OWN_CHECK, message)
        return value
    return AfterValidator(check)


Text = Annotated[str, _refused_unless(is_encodable, "holds half a surrogate pair, which is no text; mend it")]
Name = Annotated[Text, _refused_unless(str.strip, "is empty; it must name something")]
Weight = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]        # of a point; sums stay finite


class _Row(BaseModel):
    """A row from outside: a number is no text, and keys that nobody knows are ignored."""

    model_config = ConfigDict(strict=True)


class PointRow(_Row):
    """A given point: the kit's own, a nugget (TREC RAG: importance) or a rubric's criterion (HealthBench)."""

    text: Name = Field(validation_alias=AliasChoices("text", "criterion"))
    kind: Text = Field("", validation_alias=AliasChoices("kind", "importance"))
    weight: Weight | None = Field(None, validation_alias=AliasChoices("weight", "points"))

    def point(self) -> GivenPoint:
        """The point; without a weight, a nugget that is only okay weighs half of any other."""
        weight = NUGGET_WEIGHTS.get(self.kind, 1.0) if self.weight is None else self.weight
        return GivenPoint(self.text, float(weight), self.kind)


class TripletRow(_Row):
    """A row of triplets. Without a group it is one of its own; `references` may stand for `reference`."""

    id: Name
    group: Name | None = None
    question: Text
    reference: Text
    context: Text | None = None
    others: list[Text] = []

    @model_validator(mode="before")
    @classmethod
    def _first_reference(cls, row: Any) -> Any:
        """A row with `references`, a list, as one with `reference` and `others`."""
        several = row.get("references") if isinstance(row, dict) and "reference" not in row else None
        if isinstance(several, list) and several:
            return {**row, "reference": several[0], "others": several[1:]}
        return row

    def triplet(self) -> Triplet:
        """The row as a record."""
        return Triplet(self.id, self.group or self.id, self.question, self.reference, self.context,
                       tuple(self.others))


class PointedRow(TripletRow):
    """A line whose reference points are given: the kit's own, or as nugget lists and rubrics are written."""

    id: Name = Field(validation_alias=AliasChoices("id", "qid", "prompt_id"))
    question: Text = Field(validation_alias=AliasChoices("question", "query", "prompt"))
    reference: Text = ""
    points: Annotated[list[PointRow], _refused_unless(
        lambda rows: any(row.point().weight > 0 for row in rows),
        "needs a point with a weight above 0, or recall is undefined",
    )] = Field(validation_alias=AliasChoices(*POINT_KEYS))

    @field_validator("question", mode="before")
    @classmethod
    def _last_message(cls, value: Any) -> Any:
        """A conversation, as HealthBench has it, becomes its last message."""
        last = value[-1] if isinstance(value, list) and value else value
        return last.get("content", value) if isinstance(last, dict) else value

    def triplet(self) -> Triplet:
        """The row as a record, without further references: its points are those of all."""
        return replace(super().triplet(), others=(), points=tuple(row.point() for row in self.points))


def _model_of(value: Any) -> type[TripletRow] | type[PointedRow]:
    return PointedRow if isinstance(value, dict) and value.keys() & set(POINT_KEYS) else TripletRow


class AnswerRow(_Row):
    """A line of answers.jsonl. An empty answer is valid: a refusal."""

    triplet_id: Name
    model: Name
    answer: Text


class Document(_Row):
    """A retrieved passage in RAGChecker's JSON."""

    text: Text


class RAGCheckerRow(_Row):
    """An entry of `results` in RAGChecker's input JSON."""

    query_id: Name
    query: Text
    gt_answer: Text
    response: Text
    retrieved_context: list[Document] | None = None


def load_triplets(path: str | Path) -> list[Triplet]:
    """Triplets `{id, group?, question, reference, context?}` from JSON (lines, array, RAGChecker's) or CSV.

    Without a group a triplet is a group of its own. `references`, a list, may stand for `reference`. A row of
    JSON may give the reference's points instead, which are then not extracted: `points: [{text, weight?,
    kind?}]`, a weight below 0 for what should not be said. Nugget lists (`{qid, query, nuggets: [{text,
    importance}]}`; vital 1, okay 0.5) and rubrics (`{prompt_id, prompt, rubrics: [{criterion, points}]}`) are
    read as they are. Blank lines, empty cells of a CSV and unknown keys are ignored. InputError names file
    and line for anything malformed.
    """
    return [row.triplet() for row in _rows(path, _values(path), _model_of, key=("id",))]


def load_answers(path: str | Path) -> list[Answer]:
    """Answers `{triplet_id, model, answer}` from the same formats; RAGChecker's are by the file's stem.

    As strict as `load_triplets`; each (triplet_id, model) may occur once. An empty answer is valid: a
    refusal.
    """
    return _answers(path, _values(path))


def triplets_of(rows: Iterable[Mapping[str, Any]]) -> list[Triplet]:
    """Triplets from dictionaries with the fields of `load_triplets`, such as a Hugging Face data set's rows.

    InputError names the row, counted from 0, for anything malformed.
    """
    return [row.triplet() for row in _rows("rows", _numbered(rows), _model_of, key=("id",))]


def answers_of(rows: Iterable[Mapping[str, Any]]) -> list[Answer]:
    """Answers from dictionaries with the fields of `load_answers`; else as `triplets_of`."""
    return _answers("rows", _numbered(rows))


def _answers(path: str | Path, values: Iterable[tuple[str, Any]]) -> list[Answer]:
    rows = _rows(path, values, lambda _: AnswerRow, key=("triplet_id", "model"))
    return [Answer(**dict(row)) for row in rows]


def check_join(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> dict[str, list[str]]:
    """The triplets each model left unanswered, `{model: [id, ...]}`, without models that answered all.

    InputError for an answer to an unknown triplet, and for an id or a (triplet_id, model) that is repeated.
    """
    by_id = triplets_by_id(triplets)
    check_known(answers, by_id)
    if again := duplicates([(a.triplet_id, a.model) for a in answers]):
        named = some([f"{triplet} by {model}" for triplet, model in again])
        raise InputError(f"each model may answer a triplet once; {named} occur more than once")
    answered, models = {(a.triplet_id, a.model) for a in answers}, dict.fromkeys(a.model for a in answers)
    left = {model: [i for i in by_id if (i, model) not in answered] for model in models}
    return {model: missing for model, missing in left.items() if missing}


def _numbered(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Rows with their numbers; what is None is a data set's column that this row does not have."""
    return ((f"row {number}", {k: v for k, v in row.items() if v is not None})
            for number, row in enumerate(rows))


def _values(path: str | Path) -> Iterator[tuple[str, Any]]:
    """Every row of RAGChecker's JSON, CSV (by the file's name), a JSON array or JSON lines, and its place."""
    text = read_text(path)
    if rows := _ragchecker_values(path, text):
        yield from rows
    elif str(path).lower().endswith(".csv"):
        yield from csv_rows(path, text)
    elif text.lstrip()[:1] == "[":
        try:
            yield from ((f"entry {number}", value) for number, value in enumerate(read_json(text)))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} begins like a JSON array and is none: {error}") from None
    else:
        yield from ((f"line {number}", value) for number, value in parse_jsonl(text, path))


def csv_rows(path: str | Path, text: str) -> Iterator[tuple[str, Any]]:
    """The rows of a CSV file with a header, each with its line; an empty `group` or `context` is absent.

    InputError for a column that is there twice, and for what is not CSV.
    """
    csv.field_size_limit(2**31 - 1)                  # a document in a cell may be longer than the usual limit
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        if twice := duplicates([name for name in reader.fieldnames or () if name]):
            raise InputError(f"{path}: the header names {some(twice)} more than once; rename all but one")
        for row in reader:
            if None in row:
                raise InputError(f"{path}, line {reader.line_num}: more cells than the header has; quote "
                                 "texts that hold a comma")
            yield (f"line {reader.line_num}",
                   {k: v for k, v in row.items() if v is not None and (v or k not in ("group", "context"))})
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num} is not CSV: {error}") from None


def _rows(path: str | Path, values: Iterable[tuple[str, Any]], model_of: Callable[[Any], type[_Row]],
          key: Sequence[str]) -> list[Any]:
    """Every value as its model; `key` names the fields whose values may occur together once only."""
    found: dict[tuple[Any, ...], tuple[str, Any]] = {}
    for place, value in values:
        where = f"{path}, {place}"
        row = validated(model_of(value), value, where)
        names = tuple(getattr(row, name) for name in key)
        if names in found:
            raise InputError(
                f"{where}: {' and '.join(key)} {some(names)} occurred already on {found[names][0]}")
        found[names] = place, row
    if not found:
        fields = ", ".join(name for name in model_of(None).model_fields if name != "others")
        raise InputError(f"{path} is empty; rows with {fields} are needed, as JSON lines, a JSON array or "
                         "CSV")
    return [row for _, row in found.values()]


def _ragchecker_values(path: str | Path, text: str) -> list[tuple[str, Any]]:
    """The entries of RAGChecker's `{"results": [...]}`, each as a row of triplets and of answers in one; none
    when the text is something else.
    """
    try:
        whole = json.loads(text) if '"results"' in text else None
    except (ValueError, RecursionError):
        return []
    results = whole.get("results") if isinstance(whole, dict) else None
    if not isinstance(results, list):
        return []
    if not results:
        raise InputError(f"{path}: 'results' is empty; RAGChecker's JSON needs at least one row")
    rows = [validated(RAGCheckerRow, entry, f"{path}, results[{i}]") for i, entry in enumerate(results)]
    if twice := duplicates([row.query_id for row in rows]):
        raise InputError(f"{path}: query_id must be unique; {some(twice)} occur more than once")
    return [(f"results[{i}]", {
        "id": row.query_id, "question": row.query, "reference": row.gt_answer,
        "context": "\n\n".join(document.text for document in row.retrieved_context or ()) or None,
        "triplet_id": row.query_id, "model": Path(path).stem, "answer": row.response,
    }) for i, row in enumerate(rows)]


# --- tidy frames ---

# Columns of names, in frames of values and of labels: text, whatever it looks like.
NAMES = ("metric", "part", "model", "triplet_id", "instance_id", "group", "signature")
# Of a frame of values, whose `value` is nan for an unscored answer. `num` / `den` is what the answer adds to
# a pooled value (nan where there is none), `units` how many points (or claims, or whole answers) were judged,
# `unscored` how many of these have no score.
COLUMNS = ["metric", "part", "model", "triplet_id", "group", "value", "num", "den", "units", "unscored",
           "signature"]


def to_frame(results: Iterable[EMSResult], metric: str = "EMS",
             triplets: Sequence[Triplet] | None = None) -> pd.DataFrame:
    """A frame of values from EMS results: rows Precision, Recall and F1 of every answer, columns `COLUMNS`.

    `group`, which intervals are clustered by, comes from the triplets; without them each triplet is a group
    of its own. InputError for a result of a triplet that is not among those given.
    """
    rows = []
    for r in results:
        sums, units = tally(r), max(len(r.match), r.unscored)
        rows += _three_parts(metric, r, (r.precision, sums.ans_sum, sums.ans_n),
                             (r.recall, sums.ref_sum, sums.ref_n), r.f1, units, r.signature)
    return _frame(rows, triplets)


SUPPORT_PARTS = {"support": ("EMS-Support", "Score"), "open_precision": ("EMS-open", "Precision"),
                 "blind_spot": ("blind spot", "Score"), "unsupported": ("unsupported", "Score")}


def support_frame(results: Iterable[EMSResult], triplets: Sequence[Triplet] | None = None) -> pd.DataFrame:
    """A frame of values, as `to_frame` gives it, of `support.scores.support_scores`: four rows an answer.

    EMS-Support Score, EMS-open Precision, and the shares blind spot and unsupported. `units` are the answer's
    points; `unscored` those without a label or score, for EMS-Support also those that could not be checked.
    An answer whose points were lost or never checked is one unscored unit.
    """
    rows = []
    for r in results:
        s, never = support_scores(r), bool(r.lost) or len(r.support) < len(r.ans_points)
        for name, (metric, part) in SUPPORT_PARTS.items():
            value, unscored = getattr(s, name), s.unchecked if name == "support" else s.unscored
            rows.append((metric, part, r.model, r.triplet_id, value, value, nan if isnan(value) else 1.0,
                         1 if never else s.points, 1 if never else unscored, r.signature))
    return _frame(rows, triplets)


def values_frame(answers: Sequence[Answer], values: Sequence[float], metric: str, part: str, signature: str,
                 triplets: Sequence[Triplet] | None = None) -> pd.DataFrame:
    """A frame of values, as `to_frame` gives it, from a metric with one value per answer (nan = unscored)."""
    rows = [(metric, part, a.model, a.triplet_id, value, value, 1.0, 1, int(isnan(value)), signature)
            for a, value in zip(answers, values, strict=True)]
    return _frame(rows, triplets)


def claims_frame(claims: Iterable[Claims], signature: str,
                 triplets: Sequence[Triplet] | None = None) -> pd.DataFrame:
    """A frame of values, as `to_frame` gives it: RAGChecker's Precision, Recall and F1 of every answer."""
    rows = []
    for c in claims:
        precision, recall, harmonic = ragchecker_scores(c)
        rows += _three_parts("RAGChecker", c, (precision, *entailed(c.answer2response)),
                             (recall, *entailed(c.response2answer)), harmonic, c.units, signature)
    return _frame(rows, triplets)


def read_frames(*paths: str | Path) -> pd.DataFrame:
    """Frames of values, or a data set's labels, from CSV files, one below the other.

    Names ("1.10", "N/A", "None") are text as `io.csv_text` or pandas wrote it; an empty cell elsewhere is
    nan. InputError for a file that cannot be read.
    """
    import pandas as pd

    tables = [pd.read_csv(io.StringIO(read_text(path)), converters=dict.fromkeys(NAMES, unguarded),
                          keep_default_na=False, na_values="").fillna(dict.fromkeys(NAMES, ""))
              for path in paths]
    return pd.concat(tables, ignore_index=True)


def judge_usage(*judges: LLMJudge | Planner) -> Usage:
    """What judges were asked and cost, by model and task, JSON-ready. Judges of one name are summed."""
    return merged({judge.name: {task: vars(used) for task, used in judge.usage().items()}}
                  for judge in judges)


def _three_parts(metric: str, of: EMSResult | Claims, precision: Sequence[float], recall: Sequence[float],
                 f1: float, units: int, signature: str) -> list[tuple]:
    """The rows of an answer: Precision and Recall with their sums (value, num, den), and F1 without."""
    parts = {"Precision": precision, "Recall": recall, "F1": (f1, nan, nan)}
    return [(metric, part, of.model, of.triplet_id, value, *((nan, nan) if isnan(value) else sums), units,
             of.unscored, signature) for part, (value, *sums) in parts.items()]


def _frame(rows: Sequence[tuple], triplets: Sequence[Triplet] | None) -> pd.DataFrame:
    """The rows, which lack the group, as a frame."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[name for name in COLUMNS if name != "group"])
    if triplets is None:
        return frame.assign(group=frame["triplet_id"])[COLUMNS]
    groups = {t.id: t.group for t in triplets}
    if unknown := sorted(set(frame["triplet_id"]) - groups.keys()):
        raise InputError(
            f"no triplet {some(unknown)} among the {len(groups)} given; give those that were answered")
    return frame.assign(group=frame["triplet_id"].map(groups))[COLUMNS]
