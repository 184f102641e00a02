"""Which of the paper's choices help, and which metric notices what was done to a text? (notebook 05)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ... import data as frames
from ... import stats
from ...local.scorers import LocalScorer, PairScorer, SimilarityMatcher
from ...local.sentences import SentenceExtractor
from ...match import Matcher
from ...pipeline import EMS, rescored
from ...score import Scorer, WholeScorer
from ...types import Answer, EMSResult, InputError, Points, Triplet
from ..people.agreement import PEOPLE, human_agreement, metrics_of

BASE = "the paper's choices"
THRESHOLD = 0.5      # of the all-or-nothing variant
FALSIFIED = "change numbers"
FORMS = ("pair", "local")


class TwoWay:
    """Matching from both sides: precision is recall with the sides exchanged.

    In the paper an answer point counts only if a reference point picked it (eq. 7).
    """

    def __init__(self, matcher: Matcher, scorer: Scorer):
        self.matcher, self.scorer, self.name = matcher, scorer, scorer.name
        self.signature = f"{scorer.signature},matched both ways"

    def cover(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """Matches and scores of both sides of each answer; every point weighs 1."""
        return [self._both_ways(a) for a in alignments]

    def _both_ways(self, a: EMSResult) -> EMSResult:
        match, back = self.matcher([(a.ref_points, a.ans_points), (a.ans_points, a.ref_points)])
        return replace(a, match=match, score=self._scores(a.ref_points, a.ans_points, match),
                       ans_match=back, ans_score=self._scores(a.ans_points, a.ref_points, back))

    def _scores(self, points: Points, others: Points,
                match: Sequence[int | None]) -> tuple[float | None, ...]:
        pairs = [(p, others[j]) for p, j in zip(points, match, strict=True) if j is not None and j >= 0]
        scores = iter(self.scorer(pairs))
        return tuple(None if j is None else 0.0 if j < 0 else next(scores) for j in match)


class AllOrNothing:
    """Another scorer's scores of pairs, 1 from THRESHOLD on and else 0."""

    def __init__(self, scorer: Scorer):
        self.scorer, self.name = scorer, scorer.name
        self.signature = f"{scorer.signature},1 from {THRESHOLD}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return _cut(self.scorer(pairs))


class AllOrNothingSides:
    """The same for a scorer of whole sides."""

    def __init__(self, scorer: WholeScorer):
        self.scorer, self.name = scorer, scorer.name
        self.signature = f"{scorer.signature},1 from {THRESHOLD}"

    def cover(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """The other scorer's alignments with their scores cut."""
        return [replace(a, score=tuple(_cut(a.score)), ans_score=tuple(_cut(a.ans_score)))
                for a in self.scorer.cover(alignments)]


def _cut(scores: Sequence[float | None]) -> list[float | None]:
    return [None if s is None else float(s >= THRESHOLD) for s in scores]


def variants(form: str = "pair") -> dict[str, EMS]:
    """The paper's choices, and each of them changed alone, without a judge.

    Its points have at most two sentences; one is the choice here, two are among the changes. `form` "pair" is
    the paper's one-to-one scoring (`PairScorer`), "local" the coverage of whole sides (`LocalScorer`), which
    has no direction of matching to choose.
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    matcher = SimilarityMatcher()
    scorer: Any = PairScorer() if form == "pair" else LocalScorer()
    points: dict[str, dict[str, Any]] = {
        BASE: {},
        "points of 2 sentences": {"max_sentences": 2}, "points of 3 sentences": {"max_sentences": 3},
        "points are clauses": {"unit": "clause"}, "points are paragraphs": {"unit": "paragraph"},
        "repeats dropped": {"dedupe": True}, "summaries kept": {"remove_summary": False}}
    made = {name: EMS(SentenceExtractor(**options), matcher, scorer) for name, options in points.items()}
    if form == "pair":
        made["matched both ways"] = EMS(SentenceExtractor(), matcher, TwoWay(matcher, scorer))
    cut_scorer: Any = AllOrNothingSides(scorer) if form == "local" else AllOrNothing(scorer)
    made["all-or-nothing scores"] = EMS(SentenceExtractor(), matcher, cut_scorer)
    return made


def study(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """The values frame of every variant; its metrics are named "<form>: <choice>".

    Variants that cut the same points share them, the pair form's matches and, of several references, the one
    whose F1 is highest there.
    """
    points: dict[str, list[EMSResult]] = {}
    made = {f"{form}: {choice}": pipeline for form in FORMS for choice, pipeline in variants(form).items()}
    found = {}
    # Those that cut the same points in a row: what was read of them is still at hand.
    for name, pipeline in sorted(made.items(), key=lambda item: item[1].extractor.signature):
        cut = pipeline.extractor.signature
        if cut in points:
            results = rescored(points[cut], pipeline.scorer, pipeline)
        else:
            results = points[cut] = pipeline.evaluate(triplets, answers)
        found[name] = frames.to_frame(results, name, triplets)
    return pd.concat([found[name] for name in made], ignore_index=True)


def agreement_of_choices(labels: pd.DataFrame, scores: pd.DataFrame, *, resamples: int = 1000,
                         seed: int = 7) -> pd.DataFrame:
    """How well every variant agrees with people overall (Spearman), against its form's `BASE`.

    `labels` are RAGChecker's, `scores` the score table of `study`'s values on its pairs. Indexed by metric.
    """
    people = human_agreement(labels, scores, against=[f"{form}: {BASE}" for form in FORMS], asked=["overall"],
                             resamples=resamples, seed=seed)
    return people[people["measure"] == "spearman"].set_index("metric").drop(PEOPLE)


def separation(values: pd.DataFrame, *, models: Sequence[str] | None = None, cluster: str = "group",
               resamples: int = 1000, seed: int = 7) -> pd.DataFrame:
    """How well the F1 of each metric of a values frame tells the models apart, and how stable that is.

    `models` gives them in order, by default `stats.by_size`; a pair of equal size has no order there, so say
    it. `gap` is the mean difference of the `last` of them to the `first` over triplets, divided by its
    standard deviation: the paired effect size, with its interval over clusters; nan with one model alone.
    `order` lists the models by mean score; `order_kept` is the share of resamples of whole clusters with that
    order. A tie is no order and never kept. nan, like the interval, with one cluster or one model.
    """
    known = sorted(values["model"].unique(), key=stats.by_size)
    models = known if models is None else list(models)
    if strange := [m for m in models if m not in known]:
        raise InputError(f"no model {strange[0]!r} among the values; there are {known}")
    first, last = models[0], models[-1]
    rows = []
    for metric in values["metric"].drop_duplicates():
        cell = values[(values["metric"] == metric) & (values["part"] == "F1") & values["model"].isin(models)]
        cell = cell.assign(cluster=cell[cluster].astype(str))
        gap = dict.fromkeys(("gap", "gap_low", "gap_high"), np.nan)
        if len(models) > 1:
            pair = stats.paired(cell, metric, "F1", last, first, cluster="cluster", seed=seed)
            both = cell.pivot(index="triplet_id", columns="model", values="value")
            if deviation := float((both[last] - both[first]).std(ddof=1)):
                differences = (pair.difference, pair.ci_low, pair.ci_high)
                gap = dict(zip(gap, (x / deviation for x in differences), strict=True))
        rows.append({"metric": metric, "mean": float(cell["value"].mean()), "first": first, "last": last,
                     **gap, **_order(cell, resamples, seed)})
    return pd.DataFrame(rows)


def _order(cell: pd.DataFrame, resamples: int, seed: int) -> dict[str, Any]:
    """`separation`'s order, n and order_kept, over the triplets that have a value for every model."""
    wide = cell.pivot(index=["cluster", "triplet_id"], columns="model", values="value").dropna()
    sums, kept = wide.groupby(level="cluster").sum().to_numpy(), np.nan
    totals = sums.sum(axis=0, keepdims=True)
    if min(sums.shape) > 1:
        drawn = np.random.default_rng(seed).integers(len(sums), size=(resamples, len(sums)))
        totals = np.vstack([totals, sums[drawn].sum(axis=1)])
    ranked = np.argsort(totals, axis=1, kind="stable")
    steps = np.diff(np.take_along_axis(totals, ranked, axis=1), axis=1)
    # The same sum in another order is still a tie.
    apart = steps > 1e-12 * np.abs(totals).max(axis=1, keepdims=True)
    if len(totals) > 1:
        kept = float((apart[0].all() & apart.all(axis=1) & (ranked == ranked[0]).all(axis=1))[1:].mean())
    names = wide.columns[ranked[0]]
    later = [f" {'<' if a else '='} {name}" for a, name in zip(apart[0], names[1:], strict=True)]
    return {"order": names[0] + "".join(later), "n": len(wide), "order_kept": kept}


def compare(people: pd.DataFrame, apart: pd.DataFrame) -> pd.DataFrame:
    """One row per form and choice: agreement with people, separation of the models, and a verdict.

    `people` is of `agreement_of_choices`, `apart` of `separation`, both indexed by metric. `verdict`: the
    change "helps" or "harms" when the interval of its paired difference in agreement lies above or below 0,
    else "no clear difference"; "" for `BASE`.
    """
    rows = []
    for metric in apart.index:
        form, choice = metric.split(": ", 1)
        human, base = people.loc[metric], f"vs {form}: {BASE}"
        low, high = human.get(f"{base} low"), human.get(f"{base} high")
        verdict = ""
        if choice != BASE:
            verdict = "helps" if low > 0 else "harms" if high < 0 else "no clear difference"
        rows.append({
            "form": form, "choice": choice, "name": f"{choice} ({form})",
            "agreement": human["value"], "agreement_low": human["ci_low"], "agreement_high": human["ci_high"],
            "change": human.get(base), "change_low": low, "change_high": high,
            **apart.loc[metric, ["gap", "gap_low", "gap_high", "first", "last", "order_kept"]],
            "verdict": verdict})
    return pd.DataFrame(rows)


def losses(scores: pd.DataFrame, about: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """What every edit took off every metric: one row per text, edit, dose and metric.

    `scores` and `about` belong to `edits.edited_answers`. `loss` is the unedited reference's score less the
    edited one's, of precision where more was said than asked ("excess"), else of F1, or of a metric's only
    part. `touched` is the share of words the edit touched. Length is no metric here.
    """
    scores = scores.drop(columns="length Score", errors="ignore")
    table = pd.DataFrame(about).merge(scores, on=["triplet_id", "model"], validate="one_to_one")
    whole = table[table["edit"] == ""].set_index("triplet_id")
    parts = {"excess": metrics_of(scores, "Precision")}
    rows = []
    for harm, found in table[table["edit"] != ""].groupby("harm", sort=False):
        for metric, column in parts.get(harm, metrics_of(scores)).items():
            lost = whole[column].reindex(found["triplet_id"]).to_numpy() - found[column].to_numpy()
            rows.append(found[["triplet_id", "group", "edit", "harm", "dose", "changes", "touched"]]
                        .assign(metric=metric, part=column.rsplit(" ", 1)[1], loss=lost))
    return pd.concat(rows, ignore_index=True)


def verdicts(lost: pd.DataFrame, *, cluster: str = "group") -> pd.DataFrame:
    """Which metric notices which edit: one row per metric and edit, over `n` texts.

    These are the texts that allow the edit and have a loss at every dose. `loss` is the mean at the largest
    dose, with its t interval over `clusters` (none under six); `noticed` the share of texts whose score moves
    at the smallest dose. An edit that does harm passes in `direction` when the interval lies above 0 (missing
    without one), and in `proportion` when the mean loss rises with the dose and never falls. One that does
    none, or only changes stop words, passes in direction when at every dose it costs less than changing the
    same share of numbers, in proportion when at the largest it costs at most half as much; missing where no
    text has a number to change. `passes`: both.
    """
    losses_of_text = lost.groupby(["metric", "edit", "triplet_id"])["loss"]
    lost = lost[losses_of_text.transform("count") == losses_of_text.transform("size")]
    mean = lost.groupby(["metric", "edit", "dose"])["loss"].mean()
    top = lost["dose"].max()
    rows = []
    for (metric, edit), found in lost.groupby(["metric", "edit"], sort=False):
        largest = found[found["dose"] == top]
        mean_loss = stats.mean_over(largest["loss"], largest[cluster])
        by_dose, harm = mean[metric, edit], found["harm"].iloc[0]
        if harm in ("worse", "excess"):
            steps = np.diff(by_dose)
            direction = pd.NA if np.isnan(mean_loss.ci_low) else mean_loss.ci_low > 0
            proportion = bool((steps >= 0).all() and steps.sum() > 0)
        elif (metric, FALSIFIED) in mean:
            number = mean[metric, FALSIFIED]
            direction, proportion = bool((by_dose < number).all()), bool(by_dose[top] <= number[top] / 2)
        else:
            direction = proportion = pd.NA
        least = found.loc[found["dose"] == found["dose"].min(), "loss"]
        rows.append({
            "metric": metric, "edit": edit, "harm": harm, "part": found["part"].iloc[0],
            "loss": mean_loss.value, "ci_low": mean_loss.ci_low, "ci_high": mean_loss.ci_high,
            "touched": largest["touched"].mean(), "noticed": float((least.abs() > 1e-9).mean()),
            "n": mean_loss.n, "clusters": mean_loss.clusters,
            "direction": direction, "proportion": proportion})
    found = pd.DataFrame(rows).astype({"direction": "boolean", "proportion": "boolean"})
    return found.assign(passes=found["direction"] & found["proportion"])
