"""A user's rows in and tidy frames out: triplets, answers, and one row per metric, part, model and triplet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .baselines import Claims, entailed, ragchecker_scores
from .io import is_encodable, read_text
from .judge.budget import merged
from .metrics import tally
from .types import Answer, EMSResult, InputError, Triplet, duplicates

if TYPE_CHECKING:
    import pandas as pd




def load_triplets(path: str | Path) -> list[Triplet]:
    """Triplets from JSON lines `{id, group, question, reference, context?}`, or from RAGChecker's input JSON.

    Blank lines and unknown keys are ignored. InputError names file and line for anything malformed: a missing key, a
    value that is no string, an empty id or group, an id given twice, a file without rows.
    """
    text = read_text(path)
    if (results := _results(path, text)) is not None:
        return _ragchecker(path, results)[0]
    rows = _rows(path, text, ("id", "group", "question", "reference"), key=("id",), optional="context", named=("group",))
    return [Triplet(**row) for row in rows]


def load_answers(path: str | Path) -> list[Answer]:
    """Answers from JSON lines `{triplet_id, model, answer}`, or from RAGChecker's input JSON (model: the file's stem).

    As strict as `load_triplets`; each (triplet_id, model) may occur once. An empty answer is valid: a refusal.
    """
    text = read_text(path)
    if (results := _results(path, text)) is not None:
        return _ragchecker(path, results)[1]
    return [Answer(**row) for row in _rows(path, text, ("triplet_id", "model", "answer"), key=("triplet_id", "model"))]


def check_join(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> dict[str, list[str]]:
    """The triplets each model left unanswered, `{model: [triplet id, ...]}`; models that answered all are absent.

    InputError when an answer names a triplet that does not exist, or an id or a (triplet_id, model) is repeated.
    """
    ids = [t.id for t in triplets]
    if twice := duplicates(ids):
        raise InputError(f"triplet ids must be unique; {some(twice)} occur more than once")
    if twice := duplicates([f"{a.triplet_id} by {a.model}" for a in answers]):
        raise InputError(f"each model may answer a triplet once; {some(twice)} occur more than once")
    if unknown := sorted({a.triplet_id for a in answers} - set(ids)):
        raise InputError(f"{len(unknown)} triplet ids of the answers are not among the {len(ids)} triplets: "
                         f"{some(unknown)}; known ids look like {some(ids)}")
    answered: dict[str, set[str]] = {}
    for a in answers:
        answered.setdefault(a.model, set()).add(a.triplet_id)
    return {model: missing for model, done in answered.items() if (missing := [i for i in ids if i not in done])}


def some(items: Sequence[str], n: int = 3) -> str:
    return ", ".join(repr(i) for i in items[:n]) + (", ..." if len(items) > n else "")


def _rows(path: str | Path, text: str, required: Sequence[str], key: Sequence[str], optional: str = "",
          named: Sequence[str] = ()) -> list[dict]:
    """The wanted keys of every JSON line, checked; `key` (once only) and `named` must not be empty.

    Lines end at newlines only: U+2028 may stand inside a string.
    """
    rows, first = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            raise InputError(f"{where} is not JSON: {reason}; one object per line is needed") from None
        row = _checked(where, row, required, optional)
        if empty := [k for k in (*key, *named) if not row[k].strip()]:
            raise InputError(f"{where}: {empty[0]!r} is empty; it must name something")
        said = tuple(row[k] for k in key)
        if said in first:
            raise InputError(f"{where}: {' and '.join(key)} {some(said)} occurred already on line {first[said]}")
        first[said] = number
        rows.append(row)
    if not rows:
        raise InputError(f"{path} is empty; one JSON object per line with {', '.join(required)} is needed")
    return rows


def _checked(where: str, row: Any, required: Sequence[str], optional: str = "") -> dict[str, str]:
    """The required (and the optional) keys of a JSON object, all of them strings."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: an object with {', '.join(required)} is needed, got {type(row).__name__}")
    if missing := [k for k in required if k not in row]:
        raise InputError(f"{where}: {some(missing)} missing; {', '.join(required)} are needed, got {some(list(row))}")
    wanted = [*required, optional] if row.get(optional) is not None else required
    for name in wanted:
        value = row[name]
        if not isinstance(value, str):
            raise InputError(f"{where}: {name!r} must be a string, got {type(value).__name__} {str(value)[:40]!r}")
        if not is_encodable(value):
            raise InputError(f"{where}: {name!r} holds half a surrogate pair, which is no text; mend it")
    return {name: row[name] for name in wanted}


ENTAILMENT = ("Entailment", "Neutral", "Contradiction", None)


@dataclass(frozen=True, slots=True)
class CheckedClaims:
    """One row of RAGChecker's output: the claims of both sides and the entailment label of each."""

    query_id: str
    response_claims: tuple[str, ...]
    gt_answer_claims: tuple[str, ...]
    answer2response: tuple[str | None, ...]    # per response claim: does the reference answer entail it?
    response2answer: tuple[str | None, ...]    # per reference claim: does the response entail it?
    metrics: Mapping[str, float]               # RAGChecker's own numbers, as printed there; may be empty


def read_ragchecker_claims(path: str | Path) -> list[CheckedClaims]:
    """The claims and labels of a RAGChecker output JSON. A claim triple becomes one string, its parts spaced.

    Labels are Entailment, Neutral or Contradiction, None where absent. InputError when claims and labels differ in
    number, a label is off the list, or the file is not such an output.
    """
    rows, results = [], _results(path, read_text(path))
    if results is None:
        raise InputError(f"{path} is not RAGChecker JSON: an object with a list 'results' is needed")
    for number, row in enumerate(results):
        where, read = f"{path}, results[{number}]", {}
        query_id = _checked(where, row, ("query_id",))["query_id"]
        for claims, labels in (("response_claims", "answer2response"), ("gt_answer_claims", "response2answer")):
            if not isinstance(row.get(claims), list) or not isinstance(row.get(labels), list):
                raise InputError(f"{where}: lists {claims!r} and {labels!r} are needed; let RAGChecker check first")
            if len(row[claims]) != len(row[labels]):
                raise InputError(f"{where}: one label per claim is needed, got {len(row[labels])} {labels} for "
                                 f"{len(row[claims])} {claims}")
            if off := [label for label in row[labels] if label not in ENTAILMENT]:
                raise InputError(f"{where}: {labels} must be of {', '.join(ENTAILMENT[:3])}, got {off[0]!r}")
            read[claims] = tuple(c if isinstance(c, str) else " ".join(map(str, c)) for c in row[claims])
            read[labels] = tuple(row[labels])
        rows.append(CheckedClaims(query_id, **read, metrics=row.get("metrics") or {}))
    return rows


def _results(path: str | Path, text: str) -> list | None:
    """The rows of RAGChecker's `{"results": [...]}`, None when the text is something else."""
    try:
        whole = json.loads(text) if '"results"' in text else None
    except (ValueError, RecursionError):
        return None
    results = whole.get("results") if isinstance(whole, dict) else None
    if results == []:
        raise InputError(f"{path}: 'results' is empty; RAGChecker's JSON needs at least one row")
    return results if isinstance(results, list) else None


def _ragchecker(path: str | Path, results: list) -> tuple[list[Triplet], list[Answer]]:
    triplets, answers = [], []
    for number, row in enumerate(results):
        where = f"{path}, results[{number}]"
        id_, query, reference, response = _checked(where, row, ("query_id", "query", "gt_answer", "response")).values()
        if not id_.strip():
            raise InputError(f"{where}: 'query_id' is empty; it must name something")
        documents = row.get("retrieved_context") or []
        if not isinstance(documents, list):
            raise InputError(f"{where}: 'retrieved_context' must be a list of objects with 'text', got {str(documents)[:40]!r}")
        context = "\n\n".join(_checked(f"{where}, retrieved_context", d, ("text",))["text"] for d in documents) or None
        triplets.append(Triplet(id_, id_, query, reference, context))
        answers.append(Answer(id_, Path(path).stem, response))
    if twice := duplicates([t.id for t in triplets]):
        raise InputError(f"{path}: query_id must be unique; {some(twice)} occur more than once")
    return triplets, answers


NAMES = ("metric", "part", "model", "triplet_id", "instance_id", "group", "signature")       # text, in values and labels
COLUMNS = ["metric", "part", "model", "triplet_id", "group", "value", "num", "den", "units", "unscored", "signature"]


def of_results(results: Sequence[EMSResult], metric: str, triplets: Sequence[Triplet]) -> pd.DataFrame:
    """Precision, Recall and F1 of EMS results."""
    rows = []
    for r in results:
        t, units = tally(r), max(len(r.match), r.unscored)
        known = not isnan(r.recall)
        for part, value, num, den in (("Precision", r.precision, t.ans_sum, t.ans_n),
                                      ("Recall", r.recall, t.ref_sum, t.ref_n), ("F1", r.f1, nan, nan)):
            rows.append((metric, part, r.model, r.triplet_id, value, num if known else nan, den if known else nan,
                         units, r.unscored, r.signature))
    return _frame(rows, triplets)


def of_values(metric: str, part: str, answers: Sequence[Answer], values: Sequence[float], triplets: Sequence[Triplet],
              signature: str) -> pd.DataFrame:
    """One value per answer, from a metric that looks at whole answers."""
    rows = [(metric, part, a.model, a.triplet_id, v, v, 1.0, 1, int(isnan(v)), signature)
            for a, v in zip(answers, values, strict=True)]
    return _frame(rows, triplets)


def of_claims(claims: Sequence[Claims], triplets: Sequence[Triplet], signature: str) -> pd.DataFrame:
    """RAGChecker's Precision, Recall and F1."""
    rows = []
    for c in claims:
        precision, recall, harmonic = ragchecker_scores(c)
        sides = {"Precision": (precision, *entailed(c.answer2response)), "Recall": (recall, *entailed(c.response2answer)),
                 "F1": (harmonic, nan, nan)}
        for part, (value, num, den) in sides.items():
            if isnan(value):                   # an unscored answer has no share of a pooled value either
                num = den = nan
            rows.append(("RAGChecker", part, c.model, c.triplet_id, value, num, den, c.units, c.unscored, signature))
    return _frame(rows, triplets)


def read(*paths: str | Path) -> pd.DataFrame:
    """Values frames, or a data set's labels, from csv files, one below the other.

    Names are text as they stand there, whatever they look like: "1.10", "7", "N/A" and "None" are names. An empty cell of
    any other column is nan.
    """
    import pandas as pd

    tables = []
    for path in paths:
        numbers = [column for column in pd.read_csv(path, nrows=0) if column not in NAMES]
        tables.append(pd.read_csv(path, dtype=dict.fromkeys(NAMES, str), keep_default_na=False,
                                  na_values=dict.fromkeys(numbers, "")))
    return pd.concat(tables, ignore_index=True)


def usage(*judges: Any) -> dict[str, dict[str, Any]]:
    """What judges were asked and cost, by model and task, JSON-ready; for the manifest. Judges of one name are summed."""

    return merged({j.name: {task: {**asdict(u), "failures": dict(u.failures)} for task, u in j.usage().items()}}
                  for j in judges)


def _frame(rows: Sequence[tuple], triplets: Sequence[Triplet]) -> pd.DataFrame:
    import pandas as pd

    groups: Mapping[str, str] = {t.id: t.group for t in triplets}
    return pd.DataFrame([(*row[:4], groups[row[3]], *row[4:]) for row in rows], columns=COLUMNS)


# Names that this module's frames are to have.
to_frame, read_frames, judge_usage = of_results, read, usage


def values_frame(answers: Sequence[Answer], values: Sequence[float], metric: str, part: str, signature: str,
                 triplets: Sequence[Triplet]) -> pd.DataFrame:
    """`of_values`, its arguments in another order."""
    return of_values(metric, part, answers, values, triplets, signature)


def claims_frame(claims: Sequence[Claims], signature: str, triplets: Sequence[Triplet]) -> pd.DataFrame:
    """`of_claims`, its arguments in another order."""
    return of_claims(claims, triplets, signature)
