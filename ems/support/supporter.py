"""What a triplet's document says of each point of an answer; no score depends on it.

A judge reads the passages nearest to a point and labels it. Which figures of a point the document
lacks is in every result (`local.figures`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from ..analysis.view import EXTRA, alignment_rows
from ..judge import AnyJudge, JudgeStage, Request, labels_request
from ..prompts import Prompts, numbered, sanitized
from ..results import PointsResult, Support
from ..types import InputError
from .passages import Passages, passages_of

if TYPE_CHECKING:
    import pandas as pd

_R = TypeVar("_R", bound=PointsResult)
Contexts = Mapping[str, str | Sequence[str]]  # by triplet id: a document's text, or its passages
# The words that a judge chooses from (`judge.LABELS`), and the labels that they become.
_LABELS = {
    "Entailment": "supported",
    "Neutral": "silent",
    "Contradiction": "contradicted",
}
# Columns of `support_table`: shares of the points with a label, and counts.
_SHARES = ["supported", "contradicted", "silent", "supported but unmatched"]
_COUNTS = ["points", "unscored"]
POINTS_PER_CALL = 10  # all of one answer
_QUOTE_LENGTH = 300  # characters


def check_by_judge(
    results: Sequence[_R],
    contexts: Contexts,
    judge: AnyJudge,
    prompts: Prompts | None = None,
    k: int = 3,
) -> list[_R]:
    """The results with what a judge says of every answer point, and "support" in their signatures.

    Up to ten points of an answer are asked about in one call, with the `k` passages nearest to each
    of them. A point that an answer repeats is asked about once. A point that shares no word with
    the document is silent without a call. A point whose label could not be read has none, and a
    reason. InputError for a result whose triplet has no context, or one without words.
    """
    stage = JudgeStage(judge, prompts)
    supports = [dict.fromkeys(result.ans_points, Support("silent")) for result in results]
    calls = []  # of each call: the answer's supports, its document, points with passages
    for result, by_point in zip(results, supports, strict=True):
        document = passages_of(_context(contexts, result.triplet_id))
        nearest = []
        for point in by_point:
            if passages := document.top(point, k):
                nearest.append((point, passages))
        for start in range(0, len(nearest), POINTS_PER_CALL):
            calls.append((by_point, document, nearest[start : start + POINTS_PER_CALL]))
    requests = [_request(stage.prompts, document, points) for _, document, points in calls]
    words = iter(stage.ask_and_read(requests, "check points"))
    for by_point, document, points in calls:
        for point, passages in points:
            word = next(words)
            reason = "" if word else "no label could be read"
            quote = document.texts[passages[0]][:_QUOTE_LENGTH]
            by_point[point] = Support(_LABELS.get(word), passages[0], quote, reason=reason)
    settings: list[str] = [f"{name}={value}" for name, value in stage.judge.signature.items()]
    template = stage.prompts.signature("support")
    signature = ",".join([template, f"k={k}", f"points={POINTS_PER_CALL}", *settings])
    checked = []
    for result, by_point in zip(results, supports, strict=True):
        in_order = tuple(by_point[point] for point in result.ans_points)
        signed = {**result.signature, "support": signature}
        date = max(result.date, stage.newest)
        checked.append(replace(result, support=in_order, signature=signed, date=date))
    return checked


def _request(
    prompts: Prompts, document: Passages, points: Sequence[tuple[str, list[int]]]
) -> Request:
    """The question about points, each given with the passages nearest to it."""
    shown: set[int] = set()
    for _, passages in points:
        shown.update(passages)
    texts = [sanitized(document.texts[passage]) for passage in sorted(shown)]
    lines = numbered([point for point, _ in points])
    prompt = prompts.fill("support", passages="\n\n".join(texts), points=lines)
    return labels_request("support", prompt, len(points))


def _context(contexts: Contexts, triplet_id: str) -> str | tuple[str, ...]:
    context = contexts.get(triplet_id) or ""
    if not "".join(context).strip():
        raise InputError(
            f"triplet {triplet_id!r} has no context, and checking points against the document "
            "needs one; put the document's text into its 'context', or ask for no support"
        )
    return context if isinstance(context, str) else tuple(context)


def support_table(results: Sequence[_R]) -> pd.DataFrame:
    """A row for each model: what the documents say of the points of all its answers together.

    Columns: model, points, unscored (points without a label) and, as shares in [0, 1] of the points
    with a label, supported, contradicted, silent, and supported but unmatched (supported and not in
    the reference).
    """
    import pandas as pd

    rows = []
    for result in results:
        extra = {row.ans for row in alignment_rows(result.to_dict()) if row.word == EXTRA}
        for j, support in enumerate(result.support):
            rows.append((result.model, 1, support.label, j in extra))
    table = pd.DataFrame(rows, columns=["model", "points", "label", "unmatched"])
    label = table["label"]
    table["unscored"] = label.isna()
    for share in _LABELS.values():
        table[share] = label == share
    table["supported but unmatched"] = table["supported"] & table["unmatched"]
    table[_SHARES] = table[_SHARES].astype(float).mask(label.isna())
    by_model = table.groupby("model", sort=False)
    counts = by_model[_COUNTS].sum().astype("Int64")
    shares = by_model[_SHARES].mean()
    return counts.join(shares).dropna(axis=1, how="all").reset_index()
