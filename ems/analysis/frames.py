"""Results as tidy frames of values: a row per metric, part, model and triplet."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..baselines import Claims
from ..local.figures import FIGURES_RULE
from ..metrics import weighted_sum
from ..pipeline import is_lost
from ..results import CoverageResult, EMSResult, Result, ScoreResult
from ..types import InputError, Points, Scores, rendered
from .view import asks_what_is_contradicted, side_scores

if TYPE_CHECKING:
    import pandas as pd

FIGURES_METRIC = "Figures"
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
    FIGURES_METRIC,
)
_JUDGED = ("ref_points", "ans_score", "answer2response", "response2answer")
TABLE1_PARTS = ("Score", "Precision", "Recall", "F1")
HIGHER_IS_WORSE = ("Contradicted", "Missing", "Refused")
PART_ORDER = (*TABLE1_PARTS, "Recall uncontradicted", *HIGHER_IS_WORSE)
# How a scorer of EMS is written in the metric's name; a scorer of the user's own keeps its name.
_SCORER_NAMES = {"llm": "LLM", "rouge": "ROUGE", "bertscore": "BERTScore", "bleu": "BLEU"}


# One result, several, or several by metric, as `load_results` gives them.
GivenResults = Result | Iterable[Result] | Mapping[str, Iterable[Result]]


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
    units: int  # number of points, claims, figures or whole answers that were judged
    unscored: int  # number of them without a score
    signature: str


COLUMNS = list(ValueRow._fields)


def metric_of(result: Result) -> str:
    """The metric's name as Table 1 has it, from the kind of result and its signature."""
    if not isinstance(result, Result):
        raise InputError(f"a result is needed, got {result!r:.40}; ems.load_results reads a file")
    signature = result.signature
    if isinstance(result, EMSResult):
        scorer = signature.get("score", "own").partition(":")[0]
        return f"EMS({_SCORER_NAMES.get(scorer, scorer)})"
    if isinstance(result, CoverageResult):
        return "Coverage(LLM)" if asks_what_is_contradicted(signature) else "Coverage(local)"
    if isinstance(result, ScoreResult):
        return signature.get("metric", "Judge alone").partition(":")[0]
    return "RAGChecker"


def by_metric(results: GivenResults) -> Mapping[str, Iterable[Any]]:
    """Results by metric. InputError for what is no result."""
    if isinstance(results, Mapping):
        return results
    if isinstance(results, Result) or not isinstance(results, Iterable):
        results = [results]
    groups: dict[str, list[Any]] = {}
    for result in results:
        groups.setdefault(metric_of(result), []).append(result)
    return groups


def to_frame(results: GivenResults) -> pd.DataFrame:
    """A frame of values from results of any kind, or from what `load_results` gives.

    The columns are the fields of `ValueRow`. An answer has the row Score where a metric gives one
    value. Else it has Precision, Recall and F1, and these shares: Missing, of the reference points
    that score 0 and are not contradicted; Contradicted, of those that a judge says the answer
    contradicts; Refused, 1 for an answer without a point and else 0. Recall uncontradicted is
    Recall where a contradicted point counts 0. The rows have the names of the mapping; without one
    they have those of `metric_of`.

    The metric Figures has the rows Precision and Recall of an answer, once for all its results, and
    no row for a side without figures.
    """
    rows: list[ValueRow] = []
    for metric, group in by_metric(results).items():
        for result in group:
            rows += value_rows(result, metric)
    return of_rows(rows)


def value_rows(result: Any, metric: str) -> Iterator[ValueRow]:
    """The rows of one result in a frame of values: of its figures first, F1 or Score last.

    A result without a group is in a group of its own, with the name of its triplet.
    """
    # Interned, each text is held in memory once, however many rows repeat it.
    model = sys.intern(str(result.model))
    triplet_id = sys.intern(str(result.triplet_id))
    group = sys.intern(str(result.group or result.triplet_id))
    names = model, triplet_id, group
    if result.figures is not None:
        yield from _figure_rows(result, names)
    if isinstance(result, ScoreResult):
        units = 1
        values = {"Score": result.value}
        sums = {"Score": (result.value, 1.0)}
    else:
        # One judgement of each point or claim makes the values.
        judged = sum(len(getattr(result, name, ())) for name in _JUDGED)
        units = max(judged, result.unscored)
        values = {"Precision": result.precision, "Recall": result.recall, "F1": result.f1}
        sums = _sums(result)
    signature = sys.intern(rendered(result.signature))
    for part, (num, den) in sums.items():
        value = values.get(part, num / den if den else math.nan)
        if math.isnan(value):
            num = den = math.nan
        unscored = 0 if part == "Refused" else result.unscored
        yield ValueRow(metric, part, *names, value, num, den, units, unscored, signature)


def _figure_rows(result: Any, names: tuple[str, str, str]) -> Iterator[ValueRow]:
    version = result.signature.get("ems", __version__)
    signature = sys.intern(rendered({"ems": version, "figures": FIGURES_RULE}))
    for part, side in (("Precision", result.figures.ans), ("Recall", result.figures.ref)):
        if side.count:
            sums = side.shared, side.count
            yield ValueRow(
                FIGURES_METRIC, part, *names, side.share, *sums, side.count, 0, signature
            )


def _sums(result: Any) -> dict[str, tuple[float, float]]:
    """(num, den) by part, F1 last: weighted sums over what was scored."""
    ref_score, ans_score, contradicted, ans_points = _sides(result)
    ref_weights = getattr(result, "ref_weights", ())
    n_scored = len(ref_score) - ref_score.count(None)
    missing = [i for i, score in enumerate(ref_score) if score == 0 and i not in contradicted]
    sums = {
        "Refused": (math.nan, math.nan) if ans_points is None else (int(not ans_points), 1),
        "Missing": (len(missing), n_scored),
    }
    if asks_what_is_contradicted(result.signature):
        others = [0.0 if i in contradicted else score for i, score in enumerate(ref_score)]
        sums["Contradicted"] = len(contradicted), n_scored
        sums["Recall uncontradicted"] = weighted_sum(others, ref_weights)
    sums["Precision"] = weighted_sum(ans_score, getattr(result, "ans_weights", ()))
    sums["Recall"] = weighted_sum(ref_score, ref_weights)
    sums["F1"] = math.nan, math.nan
    return sums


def _sides(result: Any) -> tuple[Scores, Scores, Sequence[int], Points | None]:
    """The scores of both sides, which reference points are contradicted, and the answer's points.

    The points are None where they could not be read. RAGChecker's claims are points here.
    """
    if isinstance(result, Claims):
        labels = result.response2answer
        contradicted = [i for i, label in enumerate(labels) if label == "Contradiction"]
        ans_score = _entailed(result.answer2response)
        return _entailed(labels), ans_score, contradicted, result.response_claims
    ans_points = None if is_lost(result) else result.ans_points
    ref_score, ans_score = side_scores(vars(result))
    return ref_score, ans_score, getattr(result, "contradicted", ()), ans_points


def _entailed(labels: Sequence[str | None]) -> Scores:
    return tuple(None if label is None else float(label == "Entailment") for label in labels)


def of_rows(rows: Sequence[tuple[Any, ...]]) -> pd.DataFrame:
    """A frame of values from its rows, those of an answer's figures once."""
    import pandas as pd

    columns = {}  # one at a time: in memory all rows are large
    for i, name in enumerate(COLUMNS):
        columns[name] = pd.Series(map(itemgetter(i), rows))
    return with_figures_once(pd.DataFrame(columns, copy=False))


def with_figures_once(values: pd.DataFrame) -> pd.DataFrame:
    """The frame without the rows of Figures that repeat another: several results have the same.

    Figures of different answers under one name stay, and are refused where they are summarised.
    """
    is_dropped = values["metric"] == FIGURES_METRIC
    figures = values[is_dropped]
    is_dropped[is_dropped] = figures.duplicated(["part", "model", "triplet_id", "value"])
    return values[~is_dropped] if is_dropped.any() else values


def basis_of(metric: str, signatures: Iterable[str]) -> str:
    """What the values of a metric compare: "figures", "meaning" if a judge was asked, or "words".

    `signatures` are those of its rows, as texts.
    """
    if metric == FIGURES_METRIC:
        return "figures"
    if all(re.search(r"(^|\|)judge:", signature) for signature in signatures):
        return "meaning"
    return "words"


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows in the order of Table 1: by metric, part and model, of those that are columns.

    Metrics and parts that Table 1 does not have stand last, in the order of their names. Models
    stand as they first come: in the order of the answers, as in all tables of a frame of values.
    """
    import pandas as pd

    order = {"metric": METRIC_ORDER, "part": PART_ORDER, "model": frame.get("model", ())}
    places = {}
    for column, known in order.items():
        if column in frame:
            names = dict.fromkeys([*known, *sorted(frame[column].unique())])
            places[column] = pd.Categorical(frame[column], list(names)).codes
    rows = pd.DataFrame(places).sort_values(list(places)).index
    return frame.iloc[rows].reset_index(drop=True)
