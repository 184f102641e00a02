"""Does a judge agree with itself, and do several judges agree with one another?

A *rater* is one judge, or one repetition of the same judge. Raters are compared on the same answers and
points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import groupby, islice, product
from operator import attrgetter, itemgetter
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd

from ...asking import Judge, Reply, Request, as_judge
from ...batches import MissingReplies, through
from ...data import to_frame
from ...extract import LLMExtractor
from ...io import duplicates
from ...pipeline import EMS
from ...presets import build
from ...types import Answer, EMSResult, InputError, Triplet

T = TypeVar("T")
Scale = Literal["nominal", "ordinal", "interval", "ratio"]
PARTS = ("recall", "precision", "f1")
# What is compared of each reference point: the level's name, the field of a result, the scale of its values.
POINT_LEVELS: tuple[tuple[str, str, Scale], ...] = (
    ("match index", "match", "nominal"), ("point score", "score", "interval"))


class RepeatedJudge:
    """The same judge asked once more: its requests carry the number of the repetition, so replies stay apart.

    At temperature 0 repetitions show what the server leaves to chance; above, how far one reply can be
    trusted.
    """

    def __init__(self, judge: Judge, repetition: int):
        self.judge, self.repetition, self.name = judge, repetition, judge.name

    @property
    def signature(self) -> str:
        """The judge's signature, and the number of the repetition."""
        return f"{self.judge.signature},sample={self.repetition}"

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """As the judge's own `ask`."""
        return self.judge.ask([replace(request, sample=self.repetition) for request in requests], progress)


def judged_again(judge: Any, triplets: Sequence[Triplet], answers: Sequence[Answer], *, again: int = 0,
                 one_by_one: int = 0, other: Any = None, other_variants: Sequence[str] = (),
                 variant: str = "faithful", **settings: Any) -> dict[str, list[EMSResult]]:
    """Judgements to hold beside a judge's first ones (`second_opinions`), all on the points it extracted.

    again        so many answers of each model a second time, by the same judge ("again")
    one_by_one   so many of each model in the paper's form, a call a point and a call a pair ("one by one"),
                 to be compared with a joint `variant`
    other        another judge, asked about all answers; its name is the row's. It is asked in the forms
                 `other_variants`, in `variant` where none is named; the row of another form says which

    `settings` are `presets.build`'s. In a replay, answers whose judgement is not stored are left out.
    """
    asked: dict[str, tuple[Any, str, Sequence[Answer]]] = {
        "again": (RepeatedJudge(judge, 1), variant, drawn(answers, again)),
        "one by one": (judge, "faithful", drawn(answers, one_by_one))}
    for form in (other_variants or [variant]) if other is not None else ():
        asked[other.name if form == variant else f"{other.name}, {form}"] = other, form, answers
    return {name: stored_part(_on_points_of(judge, one, variant=form, **settings), triplets, few)
            for name, (one, form, few) in asked.items() if few}


def _on_points_of(extracting: Any, judge: Any, scorer: str = "llm", **settings: Any) -> EMS:
    """A judge's matches and scores on the points that another one extracts."""
    second = build(judge, scorer, **settings)
    return EMS(LLMExtractor(extracting, settings.get("prompts")), second.matcher, second.scorer)


def raters(judge: Any, triplets: Sequence[Triplet], answers: Sequence[Answer], *, repeats: int = 1,
           judges: Sequence[Any] = (), incomplete: bool = False, scorer: str = "llm", **settings: Any
           ) -> dict[str, list[EMSResult]]:
    """The same answers judged by `judge` and further `judges`, each so many times, on the points that `judge`
    extracted: for `reliability` and `panel`.

    By name of the judge, " #2" and so on added to its repetitions. `settings` are `presets.build`'s. With
    `incomplete`, what a replay lacks is left out, and a rater without a result; else it is MissingReplies,
    once for all raters. InputError for fewer than one repeat, for two judges of one name, and for repeats of
    a scorer that repeats by itself.
    """
    everyone = [as_judge(one) for one in (judge, *judges)]
    if repeats < 1 or (repeats > 1 and scorer == "llm-sampled"):
        raise InputError(f"a judge is asked once or more, with llm-sampled once, got {repeats} repeats")
    if twice := duplicates([one.name for one in everyone]):
        raise InputError(f"judge {twice[0]} is named twice; name each once, and ask it again with repeats")

    def judged(rater: tuple[Judge, int]) -> Iterator[tuple[str, list[EMSResult]]]:
        one, k = rater
        stages = _on_points_of(judge, RepeatedJudge(one, k) if k else one, scorer, **settings)
        evaluate = partial(stored_part, stages) if incomplete else stages.evaluate
        yield f"{one.name} #{k + 1}" if k else one.name, evaluate(triplets, answers)

    by_rater = dict(through(product(everyone, range(repeats)), judged))
    return {name: results for name, results in by_rater.items() if results}


def stored_part(stages: Any, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[EMSResult]:
    """The results of the answers whose replies a replay has; of all where the judge can be asked."""
    try:
        return stages.evaluate(triplets, answers)
    except MissingReplies:                  # the recording is about other answers, or a part of these
        if len(answers) < 2:
            return []
        return [result for a in answers for result in stored_part(stages, triplets, [a])]


def by_hash(items: Iterable[T], name: Callable[[T], str] = str) -> list[T]:
    """The items in the order of the SHA-256 of their names: as good as random, and always the same."""
    return sorted(items, key=lambda item: sha256(name(item).encode()).digest())


def drawn(answers: Sequence[Answer], per_model: int) -> list[Answer]:
    """So many answers of each model, always the same ones whatever other answers there are."""
    shuffled = by_hash(answers, lambda a: f"{a.model} {a.triplet_id}")
    by_model = groupby(sorted(shuffled, key=attrgetter("model")), attrgetter("model"))
    return [a for _, of_model in by_model for a in islice(of_model, per_model)]


def second_opinions(first: Sequence[EMSResult], others: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """Other judgements of the same answers and points beside the first, a row for each of `others`.

    answers             that both judged; joined by triplet and model, and must have equal points
    scored              share of the reference points in them that the other judge could score
    points              whose match both gave readably
    same choice         share of the reference points with the same match in both
    kappa               Cohen's, of these choices; chance is how often each of the two names each index in
                        that answer
    no partner          share of these points for which the other judge names no partner
    one place           of the partners that it names, the share with the index that it names most often: near
                        1 for a judge that names the same place in every list
    score correlation   Spearman, over points that both matched with the same answer point
    score difference    mean of the other's score less the first's, over the same points
    F1 correlation      Spearman, over answers; and F1 difference, their mean difference
    F1 spread           mean over answers of the standard deviation of the two values

    An answer without points leaves no choice and does not count; nor does what either left unscored, but in
    `scored`. nan where nothing can be computed. InputError for an answer that a set of results has twice, or
    whose points differ.
    """
    rows = {name: _beside(in_both(first, results, name), name) for name, results in others.items()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("judged again")


def means_by_model(first: Sequence[EMSResult], others: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """Mean EMS-F1 of each model by the first judge and by another, over the answers that both judged.

    Columns: judged again, model, answers, first, other. It shows whether both put the models in one order.
    Answers without points, or to which either judge gave no value, are left out.
    """
    rows = [(name, a.model, a.f1, b.f1) for name, results in others.items()
            for a, b in in_both(first, results, name) if a.ans_points]
    table = pd.DataFrame(rows, columns=["judged again", "model", "first", "other"]).dropna()
    return table.groupby(["judged again", "model"], sort=False, as_index=False).agg(
        answers=("first", "size"), first=("first", "mean"), other=("other", "mean"))


def widest(first: Sequence[EMSResult], other: Sequence[EMSResult]) -> EMSResult:
    """Of the other judge's results, the one with the most matches unlike the first judge's; first of equals.

    A match that either judge did not give readably is not compared. InputError when the two have no answer in
    common.
    """
    unlike = [(sum(i != j for i, j in zip(a.match, b.match, strict=True) if None not in (i, j)), b)
              for a, b in in_both(first, other)]
    if not unlike:
        raise InputError("the two judges have no answer in common; give results of the same answers")
    return max(unlike, key=itemgetter(0))[1]


def in_both(first: Sequence[EMSResult], other: Sequence[EMSResult], name: str = "the other judge"
            ) -> list[tuple[EMSResult, EMSResult]]:
    """Both results of each answer that two judges judged, in the first's order."""
    others = _by_answer(other, name)
    return [(a, others[key]) for key, a in _by_answer(first, "the first judge").items() if key in others]


def choices_of(both: Sequence[tuple[EMSResult, EMSResult]]) -> pd.DataFrame:
    """A row for each reference point whose match both judges gave; answer is its number, nan is unscored."""
    rows = [(k, *point) for k, (a, b) in enumerate(both)
            for point in zip(a.match, b.match, a.score, b.score, strict=True)]
    columns = ["answer", "match", "other match", "score", "other score"]
    return pd.DataFrame(rows, columns=columns, dtype=float).dropna(subset=["match", "other match"])


def _by_answer(results: Sequence[EMSResult], rater: str) -> dict[tuple[str, str], EMSResult]:
    if twice := duplicates([f"{r.model} on {r.triplet_id}" for r in results]):
        raise InputError(f"rater {rater} has {twice[0]} more than once; give one result an answer")
    return {(r.triplet_id, r.model): r for r in results}


def _beside(both: Sequence[tuple[EMSResult, EMSResult]], name: str) -> dict[str, float]:
    """One row of `second_opinions`."""
    for a, b in both:
        if (a.ref_points, a.ans_points) != (b.ref_points, b.ans_points):
            raise InputError(f"{name} has other points than the first judge for {a.model} on {a.triplet_id}; "
                             "let it judge the same points")
    both = sorted([pair for pair in both if pair[1].ans_points],
                  key=lambda pair: (pair[0].triplet_id, pair[0].model))
    points = choices_of(both)
    same, named = points["match"] == points["other match"], points["other match"] != -1
    chance = sum((answer["match"].value_counts() * answer["other match"].value_counts()).sum() / len(answer)
                 for _, answer in points.groupby("answer"))
    alike, by_chance = same.mean(), chance / len(points) if len(points) else np.nan
    scores = points.loc[same & named, ["score", "other score"]].dropna()
    f1 = pd.DataFrame([(a.f1, b.f1) for a, b in both], columns=["score", "other score"], dtype=float).dropna()
    return {"answers": len(both), "scored": pd.Series([s for _, b in both for s in b.score]).notna().mean(),
            "points": len(points), "same choice": alike,
            "kappa": (alike - by_chance) / (1 - by_chance) if by_chance < 1 else np.nan,
            "no partner": 1 - named.mean(),
            "one place": points.loc[named, "other match"].value_counts(normalize=True).max(),
            "score correlation": scores.corr("spearman").iloc[0, 1],
            "score difference": (scores["other score"] - scores["score"]).mean(),
            "F1 correlation": f1.corr("spearman").iloc[0, 1],
            "F1 difference": (f1["other score"] - f1["score"]).mean(),
            "F1 spread": f1.std(axis=1).mean()}


def reliability(results: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """How far raters agree on the same answers: `results` holds, by rater, one result an answer.

    A row each for the answers' recall, precision and f1, and for the match index and the score of each
    reference point, over answers for which all raters were given the same points. Columns: level; n, the
    units (answers or points) that two raters or more rated; raters; alpha (`krippendorff_alpha`, nominal for
    the index, interval for the rest); spread, the mean over units of the standard deviation between raters;
    largest, the largest range within a unit. The last two are nan for the index. InputError for fewer than
    two raters, and for a rater that has an answer twice.
    """
    if len(results) < 2:
        raise InputError(f"agreement needs the results of two raters or more, got {len(results)}")
    by_rater = [_by_answer(answers, rater) for rater, answers in results.items()]
    keys = sorted({key for by_key in by_rater for key in by_key})
    rated = [[by_key.get(key) for by_key in by_rater] for key in keys]
    rows = [_agreement(part, [[getattr(r, part, None) for r in row] for row in rated]) for part in PARTS]
    same = [row for row in rated
            if len({None if r is None else (r.ref_points, r.ans_points) for r in row}) == 1]
    for level, field, scale in POINT_LEVELS:
        points = [point for row in same for point in zip(*(getattr(r, field) for r in row), strict=True)]
        rows.append(_agreement(level, points, scale))
    columns = ["level", "n", "raters", "alpha", "spread", "largest"]
    return pd.DataFrame(rows).assign(raters=len(results))[columns]


def panel(results: Mapping[str, Sequence[EMSResult]], triplets: Sequence[Triplet] | None = None,
          metric: str = "EMS(panel)") -> pd.DataFrame:
    """A frame of values (`data.to_frame`) with the mean of several raters for each answer and part.

    `results` is by rater, as in `reliability`: judges, or repetitions of one. A rater without a value for an
    answer is left out of its mean; the answers that all raters judged make the frame. `units` and `unscored`
    are sums over raters, the signature names all of them. InputError for fewer than two raters, or for
    raters that have no answer in common.
    """
    if len(results) < 2:
        raise InputError(f"a panel needs the results of two raters or more, got {len(results)}")
    table = pd.concat([to_frame(_by_answer(answers, rater).values(), metric, triplets).assign(rater=rater)
                       for rater, answers in results.items()])
    keys = ["metric", "part", "model", "triplet_id", "group"]
    grouped = table.groupby(keys, as_index=False).agg(
        value=("value", "mean"), num=("num", "mean"), den=("den", "mean"), units=("units", "sum"),
        unscored=("unscored", "sum"), raters=("rater", "nunique"))
    whole = grouped[grouped["raters"] == len(results)].drop(columns="raters")
    if whole.empty:
        raise InputError(f"the raters {', '.join(results)} have no answer in common")
    signatures = [table[table["rater"] == rater]["signature"].iloc[0] for rater in results]
    return whole.assign(signature="panel:" + " + ".join(signatures)).reset_index(drop=True)


def _agreement(level: str, units: Sequence[Sequence[float | None]], scale: Scale = "interval"
               ) -> dict[str, object]:
    """One row of `reliability`, over the units that two raters or more rated."""
    ratings = _rated_twice(np.array(units or [[]], dtype=float))
    row = {"level": level, "n": len(ratings), "alpha": krippendorff_alpha(ratings, scale)}
    if scale == "nominal" or not len(ratings):
        return row | {"spread": np.nan, "largest": np.nan}
    ranges = np.nanmax(ratings, axis=1) - np.nanmin(ratings, axis=1)
    return row | {"spread": float(np.nanstd(ratings, axis=1, ddof=1).mean()), "largest": float(ranges.max())}


def krippendorff_alpha(ratings: np.ndarray, scale: Scale = "interval") -> float:
    """Krippendorff's alpha of (units, raters) ratings: 1 is agreement, 0 chance, less is worse than chance.

    `scale` is that of the ratings. nan in `ratings` is a missing rating; a unit that fewer than two raters
    rated does not count. nan when all ratings that count are equal: agreement by chance is complete then, and
    alpha undefined. Computed by the krippendorff package, after K. Krippendorff, Content Analysis (chapter on
    reliability). InputError when the package is not installed.
    """
    try:
        import krippendorff
    except ImportError:
        raise InputError("Krippendorff's alpha needs its package: pip install 'ems-kit[agreement]'") from None
    counted = _rated_twice(np.asarray(ratings, dtype=float))
    if len(np.unique(counted[np.isfinite(counted)])) < 2:
        return np.nan
    return float(krippendorff.alpha(reliability_data=counted.T, level_of_measurement=scale))


def _rated_twice(ratings: np.ndarray) -> np.ndarray:
    """The units that two raters or more rated."""
    return ratings[np.isfinite(ratings).sum(axis=1) >= 2]
