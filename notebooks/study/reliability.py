"""A judge asked again, or another judge: how far two judgements of the same points agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pandas as pd

from ems.analysis.frames import to_frame
from ems.analysis.stats import spearman
from ems.results import EMSResult
from ems.types import InputError


def agreement_of_results(
    first: Iterable[EMSResult], other: Iterable[EMSResult]
) -> dict[str, float]:
    """How far two judgements of the same points agree. Answers are joined by triplet and model.

    `answers` that both judged and that have points; `scored`, the share of their reference points that the
    other judge could score; `points` whose match both gave readably; `same choice`, the share of these with
    the same match; `same partner`, that share among points for which either names a partner, where agreement
    is hardest; `kappa` (Cohen's) of the choices, where chance is how often each names each index in an
    answer. Of points that both matched with the same answer point `score correlation` (Spearman) and `score
    difference` (mean of the other's less the first's). nan where nothing can be computed. InputError for an
    answer whose points differ.
    """
    by_key = {(r.triplet_id, r.model): r for r in first}
    both = [
        (by_key[r.triplet_id, r.model], r)
        for r in other
        if r.ans_points and (r.triplet_id, r.model) in by_key
    ]
    for a, b in both:
        if (a.ref_points, a.ans_points) != (b.ref_points, b.ans_points):
            raise InputError(
                f"the points of {a.model} on {a.triplet_id} differ: both must judge the same"
            )
    rows = [
        (number, *point)
        for number, (a, b) in enumerate(both)
        for point in zip(a.match, b.match, a.score, b.score, strict=True)
    ]
    points = pd.DataFrame(
        rows, columns=["answer", "match", "other", "score", "other_score"], dtype=float
    )
    read = points.dropna(subset=["match", "other"])
    same, partnered = read["match"] == read["other"], (read["match"] != -1) | (read["other"] != -1)
    by_chance = [
        (answer["match"].value_counts() * answer["other"].value_counts()).sum() / len(answer)
        for _, answer in read.groupby("answer")
    ]
    chance = sum(by_chance) / len(read) if len(read) else math.nan
    scores = read[same & (read["other"] != -1)].dropna()
    return {
        "answers": len(both),
        "scored": points["other_score"].notna().mean(),
        "points": len(read),
        "same choice": same.mean(),
        "same partner": same[partnered].mean(),
        "kappa": (same.mean() - chance) / (1 - chance) if chance < 1 else math.nan,
        "score correlation": spearman(scores["score"], scores["other_score"]),
        "score difference": (scores["other_score"] - scores["score"]).mean(),
    }


def judge_variance(first: Sequence[EMSResult], again: Sequence[EMSResult]) -> pd.DataFrame:
    """How much of the spread of F1 is the judge's, by model, from a second judgement of the same answers.

    Columns: n answers, their mean F1 in both judgements, `sd` of one judgement of an answer (that of the
    differences over the root of 2), and `share`, its square in the variance between answers.
    """
    frames = [to_frame(results).query("part == 'F1'") for results in (first, again)]
    both = frames[0].merge(frames[1], on=["model", "triplet_id"], suffixes=("", "_again"))
    rows = []
    for model, of in both.groupby("model"):
        sd = (of["value_again"] - of["value"]).std() / 2**0.5
        spread = of["value"].var() or math.nan
        rows.append(
            {
                "model": model,
                "n": len(of),
                "first": of["value"].mean(),
                "again": of["value_again"].mean(),
                "sd": sd,
                "share": sd**2 / spread,
            }
        )
    return pd.DataFrame(rows).set_index("model")
