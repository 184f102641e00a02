"""Results as tidy frames of values: a row per metric, part, model and triplet."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..metrics import answer_scores, reference_scores, weighted_sum
from ..results import CoverageResult, EMSResult, Result, ScoreResult
from ..types import rendered

if TYPE_CHECKING:
    import pandas as pd

# The metrics of the paper's Table 1 in its order, then the metrics that only this kit has.
METRIC_ORDER = (
    "BLEU",
    "ROUGE",
    "BERTScore",
    "RAGChecker",
    "EMS(ROUGE)",
    "EMS(BERTScore)",
    "EMS(LLM)",
    "Judge alone",
    "Coverage(LLM)",
    "Coverage(local)",
)
PART_ORDER = ("Score", "Precision", "Recall", "F1")
# How a scorer of EMS is written in the metric's name; a scorer of the user's own keeps its name.
_SCORER_NAMES = {"llm": "LLM", "rouge": "ROUGE", "bertscore": "BERTScore", "bleu": "BLEU"}
# Columns that are text whatever they hold: "1.10", "N/A", "None".
TEXT_COLUMNS = ("metric", "part", "model", "triplet_id", "instance_id", "group", "signature")


class ValueRow(NamedTuple):
    """One value of one answer; its fields are the columns of a frame of values."""

    metric: str
    part: str  # one of PART_ORDER
    model: str
    triplet_id: str
    group: str
    value: float  # nan for an unscored answer
    num: float  # the sum behind the value, nan where there is no such sum
    den: float  # the weight by which the sum is divided, nan where there is no such sum
    units: int  # number of points, claims or whole answers that were judged
    unscored: int  # number of them without a score
    signature: str


COLUMNS = list(ValueRow._fields)


def metric_of(result: Result) -> str:
    """The metric's name as Table 1 has it, from the kind of result and its signature."""
    signature = result.signature
    if isinstance(result, EMSResult):
        scorer = signature.get("score", "own").partition(":")[0]
        return f"EMS({_SCORER_NAMES.get(scorer, scorer)})"
    if isinstance(result, CoverageResult):
        by_judge = signature.get("coverage", "").startswith("llm:")
        return "Coverage(LLM)" if by_judge else "Coverage(local)"
    if isinstance(result, ScoreResult):
        return signature.get("metric", "Judge alone").partition(":")[0]
    return "RAGChecker"


def to_frame(
    results: Iterable[Result] | Mapping[str, Iterable[Result]], metric: str | None = None
) -> pd.DataFrame:
    """A frame of values from results of any kind, or from what `load_results` gives.

    The columns are the fields of `ValueRow`. An answer has the rows Precision, Recall and F1, or
    the row Score where a metric gives one value. `metric` names all of them; by default each has
    the name of `metric_of`.
    """
    groups = results.items() if isinstance(results, Mapping) else [("", results)]
    rows: list[ValueRow] = []
    for name, group in groups:
        for result in group:
            rows += value_rows(result, metric or name or metric_of(result))
    return of_rows(rows)


def value_rows(result: Any, metric: str) -> Iterator[ValueRow]:
    """The rows of one result in a frame of values, F1 last.

    A result without a group is in a group of its own, with the name of its triplet.
    """
    if isinstance(result, ScoreResult):
        units = 1
        parts = {"Score": (result.value, result.value, 1.0)}
    else:
        units = max(_judged(result), result.unscored)
        precision, recall = _sums(result)
        parts = {
            "Precision": (result.precision, *precision),
            "Recall": (result.recall, *recall),
            "F1": (result.f1, math.nan, math.nan),
        }
    # Interned, each text is held in memory once, however many rows repeat it.
    model = sys.intern(str(result.model))
    triplet_id = sys.intern(str(result.triplet_id))
    group = sys.intern(str(result.group or result.triplet_id))
    signature = sys.intern(rendered(result.signature))
    for part, (value, num, den) in parts.items():
        if math.isnan(value):
            num = den = math.nan
        names = metric, part, model, triplet_id, group
        yield ValueRow(*names, value, num, den, units, result.unscored, signature)


def _judged(result: Any) -> int:
    """How many points or claims of a result were judged: one judgement each makes its values."""
    fields = ("ref_points", "ans_score", "answer2response", "response2answer")
    return sum(len(getattr(result, name, ())) for name in fields)


def _sums(result: Any) -> list[tuple[float, float]]:
    """(num, den) of precision and of recall: weighted sums over what was scored."""
    if isinstance(result, EMSResult):
        ref_score = reference_scores(result.match, result.score)
        ans_score = answer_scores(result.match, ref_score, len(result.ans_points))
        return [weighted_sum(ans_score), weighted_sum(ref_score, result.ref_weights)]
    if isinstance(result, CoverageResult):
        precision = weighted_sum(result.ans_score, result.ans_weights)
        return [precision, weighted_sum(result.ref_score, result.ref_weights)]
    return [_entailed(result.answer2response), _entailed(result.response2answer)]


def _entailed(labels: Sequence[str | None]) -> tuple[int, int]:
    """The number of entailed claims, and of claims that have a label."""
    return labels.count("Entailment"), len(labels) - labels.count(None)


def of_rows(rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """A frame of values from its rows."""
    import pandas as pd

    return pd.DataFrame(rows, columns=COLUMNS)


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of Table 1: by metric and part, then by model (`by_size`).

    Metrics that Table 1 does not have stand last, in the order of their names.
    """
    places = {name: place for place, name in enumerate(METRIC_ORDER + PART_ORDER)}

    def rank(column: pd.Series) -> pd.Series:
        if column.name == "model":
            return column.map(by_size)
        return column.map(lambda name: (places.get(name, len(places)), name))

    keys = [column for column in ("metric", "part", "model") if column in frame]
    return frame.sort_values(keys, key=rank, ignore_index=True)


def by_size(model: str) -> tuple[float, str]:
    """Sort key for models: the number of parameters in the name ("-135M", "_11b"), then the name.

    A model without a size in its name comes last.
    """
    size = re.search(r"(?<![a-z0-9.])([0-9]+(?:[.][0-9]+)?)([mb])(?![a-z0-9])", model, flags=re.I)
    if size is None:
        return math.inf, model
    unit = {"m": 1e6, "b": 1e9}[size[2].lower()]
    return float(size[1]) * unit, model
