"""`save_sheet`: a sample of points, or of pairs of answers, that a person labels on one HTML page.

The page is offline, and shows neither models nor scores. `labels` reads the file that it saves.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

import pandas as pd

from ..io import FilePath
from ..results import ScoreResult
from ..terminal import visible
from ..types import InputError
from .report import write_page
from .view import alignment_rows

_ON_PAGE = ["id", "stratum", "size", "question", "point", "reference", "answers"]


def point_items(results: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Every reference point that has a score, with the word that the result gives to it.

    `share` is the point's share of the recall of its answer.
    """
    for result in results:
        if not hasattr(result, "ref_points"):
            continue
        weights = result.ref_weights or (1.0,) * len(result.ref_points)
        rows: Iterable[Any] = alignment_rows(result.to_dict())
        scored = [row for row in rows if None not in (row.ref, row.score)]
        total = sum(weights[row.ref] for row in scored) or 1
        for row in scored:
            item = _item(row.word, row.ref, result)
            share = weights[row.ref] / total
            yield item | {"point": result.ref_points[row.ref], "score": row.score, "share": share}


def pair_items(results: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Every two answers to one question, with the model whose F1 or Score is higher, or "equal".

    Only answers with a value. A hash of the names decides which answer is the first.
    """
    by_question: dict[str, list[tuple[float, Any]]] = {}
    for result in sorted(results, key=lambda result: _digest(result.triplet_id, result.model)):
        value = result.value if isinstance(result, ScoreResult) else result.f1
        if not math.isnan(value):
            by_question.setdefault(result.triplet_id, []).append((value, result))
    for answers in by_question.values():
        for (value, first), (other, second) in combinations(answers, 2):
            word = first.model if value > other else second.model
            if value == other:
                word = "equal"
            yield _item(word, None, first, second)


def _item(word: str, ref: int | None, *results: Any) -> dict[str, Any]:
    """What a person labels. Its id does not depend on what the metric says."""
    first = results[0]
    ref_points = getattr(first, "ref_points", ())
    models = [result.model for result in results]
    return {
        "id": _digest(first.triplet_id, models, ref, ref_points),
        "word": word,
        "models": tuple(models),
        "triplet_id": first.triplet_id,
        "group": first.group or first.triplet_id,
        "is_judged": "judge" in first.signature,
        "question": first.question,
        "point": "",
        "score": math.nan,
        "reference": "\n".join(ref_points),
        "answers": ["\n".join(getattr(result, "ans_points", ())) for result in results],
    }


def save_sheet(
    results: Iterable[Any],
    path: FilePath,
    number: int,
    *,
    pairs: bool = False,
    whole: Mapping[tuple[str, str], tuple[str, str]],
) -> int:
    """Write the page for a stratified sample; returns how many items it has.

    The strata are what the metric says, by model. In turn each gives an item until it has no more,
    so that rare words are seen. In a stratum the order is that of hashes: the sample is always the
    same, and part of a larger one. `whole` has texts, by triplet and model, that the page shows in
    place of the points. InputError without anything to label, or without a text of it.
    """
    items = pd.DataFrame(pair_items(results) if pairs else point_items(results))
    if items.empty or number < 1:
        raise InputError(
            "results of --scorer judge have no points: use --pairs, which needs several models; "
            "points come with --scorer local, llm or coverage; there is nothing to label among "
            f"{len(items)} items with --number {number}"
        )
    items = items.sort_values("id")
    strata = items.groupby(["word", "models"])
    items["turn"] = strata.cumcount()
    items["size"] = strata["id"].transform("size")
    items["stratum"] = strata.ngroup()
    drawn = items.sort_values(["turn", "stratum"]).head(number)
    # What is of one question, and then of one answer, is labelled together. Models have no order.
    drawn = drawn.sort_values(["question", "answers", "id"], key=lambda column: column.map(_digest))
    for item in drawn.itertuples():
        for i, model in enumerate(item.models):
            if (item.triplet_id, model) in whole:
                drawn.at[item.Index, "reference"], item.answers[i] = whole[item.triplet_id, model]
    if not drawn["reference"].all():
        raise InputError(
            "these results keep no texts: add --triplets FILE and --answers FILE, those of ems "
            "evaluate"
        )
    data = visible(drawn[_ON_PAGE].to_json(orient="records", force_ascii=False), 10**9)
    # No text can end the element that holds the data.
    write_page(path, "label", ["label.js"], {"data": data.replace("<", "\\u003c")})
    return len(drawn)


def _digest(*parts: object) -> str:
    """A name made from other names. It begins with a letter: no workbook takes it for a number."""
    return "x" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
