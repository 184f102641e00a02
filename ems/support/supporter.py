"""What a triplet's document says of each answer point, beside the paper's metrics and never inside them.

A judge reads the passages nearest to a point and labels it. Without a judge there is one plain check: which
of a point's numbers stand anywhere in the document. Neither changes a score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from ..analysis.view import EXTRA, alignment_rows
from ..judge import Judge, Request, as_judge, listed, reply_schema
from ..local.terms import FACTORS, Number, read_terms
from ..prompts import Prompts, numbered, sanitized
from ..reading import read_rows, read_word
from ..results import CoverageResult, EMSResult, Support
from ..types import InputError
from .passages import Passages, passages_of

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R", EMSResult, CoverageResult)
Contexts = Mapping[str, str | Sequence[str]]  # by triplet id: a document's text, or its passages
SAID = {
    "Entailment": "supported",
    "Neutral": "silent",
    "Contradiction": "contradicted",
}  # a judge's words
SHARES = [
    "supported",
    "contradicted",
    "silent",
    "supported but unmatched",
]  # of the points with a label
COUNTS = ["points", "unscored", "numbers", "missing"]
SCHEMA = reply_schema("labels", {"type": "string", "enum": list(SAID)})
POINTS_PER_CALL = 10  # of one answer
QUOTE = 300  # characters of a quoted passage
NUMBERS = "numbers"  # the signature of the check by numbers
PRECISE = 0.005  # rounding, as a share of a number, of one with three digits or more


def check_by_judge(
    results: Sequence[R],
    contexts: Contexts,
    judge: Judge | Callable[[str], str],
    prompts: Prompts | None = None,
    k: int = 3,
) -> list[R]:
    """The results with what a judge says of every answer point, and "support" in their signatures.

    Up to ten points of an answer are asked at once, with the `k` passages nearest to each of them; a point
    that an answer repeats is asked once. A point that shares no word with the document is silent without a
    call. A point whose label could not be read has none, and the reason. InputError for a result whose
    triplet has no context, or one without words.
    """
    judge, prompts = as_judge(judge), prompts or Prompts()
    found = [dict.fromkeys(result.ans_points, Support("silent")) for result in results]
    asked = []  # per request: what is found of its answer, its document, points with passages
    for result, of_point in zip(results, found, strict=True):
        document = passages_of(_context(contexts, result.triplet_id))
        nearest = [(point, top) for point in of_point if (top := document.top(point, k))]
        asked += [
            (of_point, document, nearest[start : start + POINTS_PER_CALL])
            for start in range(0, len(nearest), POINTS_PER_CALL)
        ]
    replies = judge.ask(
        [_request(prompts, document, part) for _, document, part in asked], "check points"
    )
    for (of_point, document, part), reply in zip(asked, replies, strict=True):
        labels = read_rows(
            reply.usable or "", "labels", len(part), partial(read_word, words=tuple(SAID))
        )
        for (point, top), label in zip(part, labels or [None] * len(part), strict=True):
            reason = "" if label else f"no label: {reply.error or 'unreadable'}"
            quote = document.texts[top[0]][:QUOTE]
            of_point[point] = Support(SAID.get(label or ""), top[0], quote, reason=reason)
    named: list[str] = [f"{name}={value}" for name, value in judge.signature.items()]
    signature = ",".join(
        [prompts.signature("support"), f"k={k}", f"points={POINTS_PER_CALL}", *named]
    )
    return [
        _with_support(result, [of_point[point] for point in result.ans_points], signature)
        for result, of_point in zip(results, found, strict=True)
    ]


def _request(
    prompts: Prompts, document: Passages, part: Sequence[tuple[str, list[int]]]
) -> Request:
    shown = sorted({passage for _, top in part for passage in top})
    text = "\n\n".join(sanitized(document.texts[passage]) for passage in shown)
    prompt = prompts.fill("support", passages=text, points=numbered([point for point, _ in part]))
    longest = partial(listed, "labels", ["Contradiction"] * len(part))
    return Request("support", prompt, 32 + 8 * len(part), SCHEMA, assumed=longest)


def check_numbers(results: Sequence[R], contexts: Contexts) -> list[R]:
    """The results with the numbers of every answer point that the document does not have, in `missing`.

    A number is found when an equal one stands anywhere in the document. That says nothing of what the numbers
    are about, so that no point gets a label; `reason` counts those found. InputError as `check_by_judge`.
    """
    documents = [_numbers_of(_context(contexts, result.triplet_id)) for result in results]
    return [
        _with_support(
            result, [_numbers_in(document, point) for point in result.ans_points], NUMBERS
        )
        for result, document in zip(results, documents, strict=True)
    ]


def _numbers_in(document: Sequence[Number], point: str) -> Support:
    numbers = _numbers_of(point)
    lacking = [
        number for number in numbers if not any(_is_same(number, other) for other in document)
    ]
    missing = tuple(f"{n.value:,.12g}" if n.value >= 10_000 else f"{n.value:.12g}" for n in lacking)
    return Support(
        None,
        missing=missing,
        reason=f"{len(numbers) - len(lacking)} of {len(numbers)} numbers found" if numbers else "",
    )


@lru_cache(maxsize=1024)
def _numbers_of(text: str | tuple[str, ...]) -> tuple[Number, ...]:
    """The different numbers of a point or of a document, in order."""
    terms = dict.fromkeys(read_terms(text if isinstance(text, str) else "\n\n".join(text)))
    return tuple(term for term in terms if isinstance(term, Number))


def _is_same(stated: Number, found: Number) -> bool:
    """Whether a document's number, rounded as an answer prints its own, is the answer's: 4 is not 3.5.

    One of the two may lack the scale word of the other, as in a table "in millions", where both have three
    digits or more: "7 million" is not any 7.
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


def _with_support(result: R, supports: Sequence[Support], signature: str) -> R:
    return replace(
        result, support=tuple(supports), signature={**result.signature, "support": signature}
    )


def support_table(results: Sequence[R]) -> pd.DataFrame:
    """A row for each model: what the documents say of the points of its answers, all answers together.

    Columns: model; points; then, where a judge was asked, unscored (points without a label) and, as shares in
    [0, 1] of the points with a label, supported, contradicted, silent, and supported but unmatched (supported
    and not in the reference); where numbers were checked, numbers and the share of them found.
    """
    import pandas as pd

    rows = []
    for result in results:
        extra = {row.ans for row in alignment_rows(result.to_dict()) if row.word == EXTRA}
        for j, (point, support) in enumerate(zip(result.ans_points, result.support, strict=True)):
            row: dict[str, object] = {"model": result.model, "points": 1}
            if result.signature.get("support") == NUMBERS:
                row |= {"numbers": len(_numbers_of(point)), "missing": len(support.missing)}
            elif support.label is None:
                row |= {"unscored": 1}
            else:
                said = {support.label, f"{support.label} but unmatched" if j in extra else ""}
                row |= {"unscored": 0, **{share: share in said for share in SHARES}}
            rows.append(row)
    table = pd.DataFrame(rows, columns=["model", *COUNTS, *SHARES]).groupby("model", sort=False)
    counts = table[COUNTS].sum(min_count=1).astype("Int64")
    counts["numbers found"] = (1 - counts.pop("missing") / counts["numbers"]).astype(float)
    return counts.join(table[SHARES].mean().astype(float)).dropna(axis=1, how="all").reset_index()
