"""What a triplet's document says of each point of an answer; no score depends on it.

A judge reads the passages nearest to a point and labels it. Without a judge there is one plain
check: which of a point's numbers stand anywhere in the document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from ..analysis.view import EXTRA, alignment_rows
from ..judge import Judge, Request, as_judge, reply_schema
from ..local.terms import FACTORS, Number, read_terms
from ..prompts import Prompts, numbered, sanitized
from ..reading import read_word
from ..results import CoverageResult, EMSResult, Support
from ..score import rows_request
from ..types import InputError
from .passages import Passages, passages_of

if TYPE_CHECKING:
    import pandas as pd

_R = TypeVar("_R", EMSResult, CoverageResult)
Contexts = Mapping[str, str | Sequence[str]]  # by triplet id: a document's text, or its passages
# The words that a judge may choose from, and the labels that they become.
_LABELS = {
    "Entailment": "supported",
    "Neutral": "silent",
    "Contradiction": "contradicted",
}
_SCHEMA = reply_schema("labels", {"type": "string", "enum": list(_LABELS)})
# Columns of `support_table`: shares of the points with a label, and counts.
_SHARES = ["supported", "contradicted", "silent", "supported but unmatched"]
_COUNTS = ["points", "unscored", "numbers", "missing"]
POINTS_PER_CALL = 10  # all of one answer
_QUOTE_LENGTH = 300  # characters
NUMBERS = "numbers"  # the signature of the check by numbers
PRECISE = 0.005  # rounding, as a share of a number, of one with three digits or more


def check_by_judge(
    results: Sequence[_R],
    contexts: Contexts,
    judge: Judge | Callable[[str], str],
    prompts: Prompts | None = None,
    k: int = 3,
) -> list[_R]:
    """The results with what a judge says of every answer point, and "support" in their signatures.

    Up to ten points of an answer are asked about in one call, with the `k` passages nearest to each
    of them. A point that an answer repeats is asked about once. A point that shares no word with
    the document is silent without a call. A point whose label could not be read has none, and the
    reason. InputError for a result whose triplet has no context, or one without words.
    """
    judge, prompts = as_judge(judge), prompts or Prompts()
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
    requests = [_request(prompts, document, points) for _, document, points in calls]
    replies = judge.ask(requests, "check points")
    for call, request, reply in zip(calls, requests, replies, strict=True):
        by_point, document, points = call
        record = request.answered(reply)
        words = record.value or [None] * len(points)
        for (point, passages), word in zip(points, words, strict=True):
            reason = "" if word else f"no label: {record.error or 'unreadable'}"
            quote = document.texts[passages[0]][:_QUOTE_LENGTH]
            by_point[point] = Support(_LABELS.get(word), passages[0], quote, reason=reason)
    settings: list[str] = [f"{name}={value}" for name, value in judge.signature.items()]
    template = prompts.signature("support")
    signature = ",".join([template, f"k={k}", f"points={POINTS_PER_CALL}", *settings])
    checked = []
    for result, by_point in zip(results, supports, strict=True):
        in_order = [by_point[point] for point in result.ans_points]
        checked.append(_with_support(result, in_order, signature))
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
    longest = ["Contradiction"] * len(points)
    return rows_request(
        "support", prompt, _SCHEMA, longest, partial(read_word, words=tuple(_LABELS))
    )


def check_numbers(results: Sequence[_R], contexts: Contexts) -> list[_R]:
    """The results with the numbers of every answer point that the document does not have.

    They stand in `missing`. A number is found when an equal one stands anywhere in the document.
    That says nothing of what the numbers are about, so that no point gets a label; `reason` counts
    those found. InputError as `check_by_judge`.
    """
    checked = []
    for result in results:
        document = _numbers_of(_context(contexts, result.triplet_id))
        supports = [_numbers_in(document, point) for point in result.ans_points]
        checked.append(_with_support(result, supports, NUMBERS))
    return checked


def _numbers_in(document: Sequence[Number], point: str) -> Support:
    numbers = _numbers_of(point)
    lacking = [number for number in numbers if not _holds(document, number)]
    missing = tuple(f"{n.value:,.12g}" if n.value >= 10_000 else f"{n.value:.12g}" for n in lacking)
    return Support(
        None,
        missing=missing,
        reason=f"{len(numbers) - len(lacking)} of {len(numbers)} numbers found" if numbers else "",
    )


def _holds(document: Sequence[Number], number: Number) -> bool:
    return any(_is_same(number, other) for other in document)


@lru_cache(maxsize=1024)
def _numbers_of(text: str | tuple[str, ...]) -> tuple[Number, ...]:
    """The different numbers of a point or of a document, in order."""
    terms = dict.fromkeys(read_terms(text if isinstance(text, str) else "\n\n".join(text)))
    return tuple(term for term in terms if isinstance(term, Number))


def _is_same(stated: Number, found: Number) -> bool:
    """Whether a document's number, rounded as an answer prints its own, is the answer's.

    4 is not 3.5. One of the two may lack the scale word of the other, as in a table "in millions",
    where both have three digits or more: "7 million" is not any 7.
    """
    factors = [1.0]
    if stated.scaled != found.scaled and all(
        n.rounding <= PRECISE * n.value for n in (stated, found)
    ):
        factors += [1 / factor if found.scaled else factor for factor in FACTORS]
    return any(
        abs(found.value * factor - stated.value) <= stated.rounding + 1e-9 * stated.value
        for factor in factors
    )


def _context(contexts: Contexts, triplet_id: str) -> str | tuple[str, ...]:
    context = contexts.get(triplet_id) or ""
    if not "".join(context).strip():
        raise InputError(
            f"triplet {triplet_id!r} has no context, and checking points against the document "
            "needs one; put the document's text into its 'context', or ask for no support"
        )
    return context if isinstance(context, str) else tuple(context)


def _with_support(result: _R, supports: Sequence[Support], signature: str) -> _R:
    return replace(
        result, support=tuple(supports), signature={**result.signature, "support": signature}
    )


def support_table(results: Sequence[_R]) -> pd.DataFrame:
    """A row for each model: what the documents say of the points of all its answers together.

    Columns: model and points; where a judge was asked, unscored (points without a label) and, as
    shares in [0, 1] of the points with a label, supported, contradicted, silent, and supported but
    unmatched (supported and not in the reference); where numbers were checked, numbers and the
    share of them found.
    """
    import pandas as pd

    rows = []
    for result in results:
        extra = {row.ans for row in alignment_rows(result.to_dict()) if row.word == EXTRA}
        by_numbers = result.signature.get("support") == NUMBERS
        for j, (point, support) in enumerate(zip(result.ans_points, result.support, strict=True)):
            row: dict[str, object] = {"model": result.model, "points": 1}
            if by_numbers:
                row["numbers"] = len(_numbers_of(point))
                row["missing"] = len(support.missing)
            elif support.label is None:
                row["unscored"] = 1
            else:
                row["unscored"] = 0
                for share in _SHARES:
                    row[share] = share == support.label
                row["supported but unmatched"] = support.label == "supported" and j in extra
            rows.append(row)
    table = pd.DataFrame(rows, columns=["model", *_COUNTS, *_SHARES])
    by_model = table.groupby("model", sort=False)
    counts = by_model[_COUNTS].sum(min_count=1).astype("Int64")
    counts["numbers found"] = (1 - counts.pop("missing") / counts["numbers"]).astype(float)
    shares = by_model[_SHARES].mean().astype(float)
    return counts.join(shares).dropna(axis=1, how="all").reset_index()
