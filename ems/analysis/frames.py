"""Results as tidy frames of values: a row per metric, part, model and triplet."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..metrics import answer_scores, reference_scores, weighted_sum
from ..results import CoverageResult, EMSResult, Result, ScoreResult
from ..types import rendered

if TYPE_CHECKING:
    import pandas as pd

# The paper's Table 1 in its order, then what is ours.
METRICS = (
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
PARTS = ("Score", "Precision", "Recall", "F1")
SCORERS = {"llm": "LLM", "rouge": "ROUGE", "bertscore": "BERTScore", "bleu": "BLEU"}
# `value` is nan for an unscored answer; `num` / `den` is the sum behind it and the weight it is divided by,
# nan where there is no such sum; `units` counts what was judged (points, claims or whole answers), `unscored`
# those of them without a score.
COLUMNS = [
    "metric",
    "part",
    "model",
    "triplet_id",
    "group",
    "value",
    "num",
    "den",
    "units",
    "unscored",
    "signature",
]
# Columns that are text whatever they hold: "1.10", "N/A", "None".
NAMES = ("metric", "part", "model", "triplet_id", "instance_id", "group", "signature")
Row = tuple[Any, ...]


def metric_of(result: Result) -> str:
    """The metric's name as Table 1 has it, from the kind of result and its signature."""
    signature = result.signature
    if isinstance(result, EMSResult):
        scorer = signature.get("score", "own").partition(":")[0]
        return f"EMS({SCORERS.get(scorer, scorer)})"
    if isinstance(result, CoverageResult):
        return (
            "Coverage(LLM)"
            if signature.get("coverage", "").startswith("llm:")
            else "Coverage(local)"
        )
    if isinstance(result, ScoreResult):
        return signature.get("metric", "Judge alone").partition(":")[0]
    return "RAGChecker"


def to_frame(
    results: Iterable[Result] | Mapping[str, Iterable[Result]], metric: str | None = None
) -> pd.DataFrame:
    """A frame of values from results of any kind, or from what `load_results` gives; columns `COLUMNS`.

    An answer has the rows Precision, Recall and F1, or Score where a metric gives one value. `metric` names
    all of them; by default each has the name of `metric_of`.
    """
    groups = results.items() if isinstance(results, Mapping) else [("", results)]
    return of_rows(
        [
            row
            for name, group in groups
            for result in group
            for row in values_of(result, metric or name or metric_of(result))
        ]
    )


def values_of(result: Any, metric: str) -> Iterator[Row]:
    """The rows of one result in a frame of values; without a group it is in one named like its triplet."""
    if isinstance(result, ScoreResult):
        units, parts = 1, {"Score": (result.value, result.value, 1.0)}
    else:
        judged = ("ref_points", "ans_score", "answer2response", "response2answer")
        units = max(sum(len(getattr(result, name, ())) for name in judged), result.unscored)
        precision, recall = _sums(result)
        parts = {
            "Precision": (result.precision, *precision),
            "Recall": (result.recall, *recall),
            "F1": (result.f1, math.nan, math.nan),
        }
    names = (
        result.model,
        result.triplet_id,
        result.group or result.triplet_id,
        rendered(result.signature),
    )
    model, triplet_id, group, signature = (
        sys.intern(str(name)) for name in names
    )  # each text held once
    for part, (value, num, den) in parts.items():
        sums = (math.nan, math.nan) if math.isnan(value) else (num, den)
        yield (
            metric,
            part,
            model,
            triplet_id,
            group,
            value,
            *sums,
            units,
            result.unscored,
            signature,
        )


def _sums(result: Any) -> list[tuple[float, float]]:
    """(num, den) of precision and of recall: weighted sums over what was scored."""
    if isinstance(result, EMSResult):
        s_ref = reference_scores(result.match, result.score)
        s_ans = answer_scores(result.match, s_ref, len(result.ans_points))
        return [weighted_sum(s_ans), weighted_sum(s_ref, result.ref_weights)]
    if isinstance(result, CoverageResult):
        return [
            weighted_sum(result.ans_score, result.ans_weights),
            weighted_sum(result.ref_score, result.ref_weights),
        ]
    return [
        (labels.count("Entailment"), len(labels) - labels.count(None))
        for labels in (result.answer2response, result.response2answer)
    ]


def of_rows(rows: Sequence[Row]) -> pd.DataFrame:
    """A frame of values from its rows."""
    import pandas as pd

    return pd.DataFrame(rows, columns=COLUMNS)


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of Table 1: by metric and part, own ones last, then by model (`by_size`)."""
    known = {name: i for i, name in enumerate(METRICS + PARTS)}

    def rank(column: pd.Series) -> pd.Series:
        return column.map(
            by_size if column.name == "model" else lambda name: (known.get(name, 99), name)
        )

    keys = [column for column in ("metric", "part", "model") if column in frame]
    return frame.sort_values(keys, key=rank, ignore_index=True)


def by_size(model: str) -> tuple[float, str]:
    """Sort key for models: the size in the name ("-135M", "_11b"), those without one last; then its name."""
    size = re.search(r"(?<![a-z0-9.])([0-9]+(?:[.][0-9]+)?)([mb])(?![a-z0-9])", model, flags=re.I)
    parameters = float(size[1]) * {"m": 1e6, "b": 1e9}[size[2].lower()] if size else math.inf
    return parameters, model
