"""A judge asked again, or another judge: how far two judgements of the same points agree."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ems.analysis.stats import mean_over, spearman
from ems.io import parse_jsonl, read_lines
from ems.results import EMSResult
from ems.types import InputError


def agreement_of_results(
    first: Iterable[EMSResult], other: Iterable[EMSResult]
) -> dict[str, float]:
    """How far two judgements of the same points agree. Answers are joined by triplet and model.

    answers             that both judged and that have points
    scored              share of their reference points that the other judge could score
    points              reference points whose match could be read in both judgements
    same choice         share of these points with the same match
    same partner        the same share among points that either judge matched with an answer point,
                        where agreement is hardest
    kappa               Cohen's, of the choices; chance is how often each judge names each index in
                        an answer
    score correlation   Spearman's, over points that both matched with the same answer point
    score difference    mean of the other's score minus the first's, over the same points

    nan where nothing can be computed. InputError for an answer whose points differ.
    """
    first_of = {(r.triplet_id, r.model): r for r in first}
    answers = 0
    rows = []
    for b in other:
        a = first_of.get((b.triplet_id, b.model))
        if a is None or not b.ans_points:
            continue
        if (a.ref_points, a.ans_points) != (b.ref_points, b.ans_points):
            raise InputError(
                f"the points of {a.model} on {a.triplet_id} differ: both must judge the same"
            )
        for point in zip(a.match, b.match, a.score, b.score, strict=True):
            rows.append((answers, *point))
        answers += 1
    columns = ["answer", "match", "other", "score", "other_score"]
    points = pd.DataFrame(rows, columns=columns, dtype=float)
    matched = points.dropna(subset=["match", "other"])
    same = matched["match"] == matched["other"]
    has_partner = (matched["match"] != -1) | (matched["other"] != -1)
    chance = _same_by_chance(matched)
    scores = matched[same & has_partner].dropna()
    return {
        "answers": answers,
        "scored": points["other_score"].notna().mean(),
        "points": len(matched),
        "same choice": same.mean(),
        "same partner": same[has_partner].mean(),
        "kappa": (same.mean() - chance) / (1 - chance) if chance < 1 else math.nan,
        "score correlation": spearman(scores["score"], scores["other_score"]),
        "score difference": (scores["other_score"] - scores["score"]).mean(),
    }


def _same_by_chance(points: pd.DataFrame) -> float:
    """The share of points with the same match if each judge chose at random, as often as it did."""
    expected = 0.0
    for _, of_answer in points.groupby("answer"):
        counts = of_answer["match"].value_counts() * of_answer["other"].value_counts()
        expected += counts.sum() / len(of_answer)
    return expected / len(points) if len(points) else math.nan


def agreement_table(
    first: Sequence[EMSResult], opinions: Mapping[str, Sequence[EMSResult]]
) -> pd.DataFrame:
    """`agreement_of_results` of the first judgements with each opinion: a row for each."""
    rows = {name: agreement_of_results(first, results) for name, results in opinions.items()}
    columns = agreement_of_results([], [])
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(columns), dtype=float)


def repeat_findings(agreement: pd.DataFrame) -> list[str]:
    """Sentences about judgements that were repeated: the share of the same choices.

    `agreement` is an `agreement_table` with rows "again" and "one by one", of the same judge, and
    other judges by name. Rows "again: ..." are of single systems and are left out.
    """
    asked = {
        "again": "Asked again, the judge",
        "one by one": "Asked one question a point, the judge",
    }
    sentences = []
    for name, row in agreement.dropna(subset="same choice").iterrows():
        if not str(name).startswith("again: "):
            sentences.append(
                f"{asked.get(name, name)} makes the same choice for {row['same choice']:.3f} of "
                f"{row['points']:,.0f} points, and for {row['same partner']:.3f} of those that "
                "either judgement matches."
            )
    return sentences


def changes(first: pd.DataFrame, again: pd.DataFrame, by: str | list[str]) -> pd.DataFrame:
    """How values change where the same answers are judged again, or otherwise.

    Both are frames of values; what only one of them has is left out. There is a row for each value
    of the column `by`, or of the columns; the table is empty without a common value.

    n                     answers with a value in both
    first, again          means
    difference            of the means, again minus first, with its t interval over groups (ci_low,
                          ci_high)
    spearman              correlation of both over answers
    sd                    standard deviation of one judgement of an answer: that of the differences,
                          divided by the root of 2
    share                 the square of sd, divided by the variance between answers
    order                 share of pairs of models whose means have the same order, from Kendall's
                          tau, which is exact where no two means are equal
    points, points_again  mean number of points of the side that the part is about
    """
    names = ["metric", "part", "model", "triplet_id"]
    both = first.merge(again[[*names, "value", "den"]], on=names, suffixes=("", "_again"))
    if both.empty:
        return both.set_index(by)
    rows = {}
    for name, cell in both.groupby(by, sort=False):
        difference = cell["value_again"] - cell["value"]
        mean = mean_over(difference, cell["group"])
        sd = difference.std() / 2**0.5
        variance = cell["value"].var()
        of_models = cell.groupby("model")[["value", "value_again"]].mean()
        rows[name] = {
            "n": mean.n,
            "first": cell["value"].mean(),
            "again": cell["value_again"].mean(),
            "difference": mean.value,
            "ci_low": mean.ci_low,
            "ci_high": mean.ci_high,
            "spearman": spearman(cell["value"], cell["value_again"]),
            "sd": sd,
            "share": sd**2 / variance if variance else math.nan,
            "order": (of_models.corr("kendall").iloc[0, 1] + 1) / 2,
            "points": cell["den"].mean(),
            "points_again": cell["den_again"].mean(),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(by)


# --- single replies that somebody read a second time ---


def second_readings(recorded: Sequence[Path], second: Path) -> pd.DataFrame:
    """How far a second reading of the same prompts agrees with the recorded replies.

    `second` has the second replies, JSON lines of key, task and text; `recorded` are files with the
    first ones. A row for what was asked. Columns: what; n, the points, pairs or answers that both
    readings speak of; same, the share with an equal value; near, the share within 1 (of 10; within
    5 of 100 for the number of a whole answer); correlation, Pearson's. Of matches, `same` is over
    points that either reading matches. Of contradicted points, n are those that the first reading
    names, and `same` is the share of them that the second one names too.

    InputError for a reply that is not recorded.
    """
    first = {}
    for path in recorded:
        for _, row in parse_jsonl(read_lines(path), path):
            first[row["key"]] = row["text"]
    pairs: dict[str, list[tuple[float, float]]] = {}
    for number, row in parse_jsonl(read_lines(second), second):
        if row["key"] not in first:
            raise InputError(f"{second}, line {number}: no recorded reply has this key")
        for name, values in _values_twice(row["task"], first[row["key"]], row["text"]).items():
            pairs.setdefault(name, []).extend(values)
    return pd.DataFrame([_compared(name, values) for name, values in pairs.items()])


def _values_twice(task: str, first: str, second: str) -> dict[str, list[tuple[float, float]]]:
    """The values of two replies to one prompt, in pairs, by what was asked."""
    if task == "judge":
        return {"numbers of whole answers": [(float(first), float(second))]}
    a, b = json.loads(first), json.loads(second)
    if task == "match":
        matches = zip(a["matches"], b["matches"], strict=True)
        return {"matches": [pair for pair in matches if pair != (-1, -1)]}
    scores = list(zip(a["scores"], b["scores"], strict=True))
    if task == "score":
        return {"scores of pairs": scores}
    named = [(1, int(point in b["contradicted"])) for point in a["contradicted"]]
    return {"scores of coverage": scores, "contradicted points": named}


def _compared(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    values = pd.DataFrame(pairs, columns=["first", "second"])
    limit = 5 if name == "numbers of whole answers" else 1
    distance = (values["first"] - values["second"]).abs()
    row = {"what": name, "n": len(values), "same": (distance == 0).mean()}
    if name not in ("matches", "contradicted points"):
        row["near"] = (distance <= limit).mean()
        row["correlation"] = values["first"].corr(values["second"])
    return row
