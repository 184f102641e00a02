"""A judge on samples of what people labelled: EMS(LLM) on answers and points, OmniEval's rubrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ...asking import Judge
from ...support.rubrics import RUBRICS, RubricJudge
from ..ablations.reliability import by_hash
from . import agreement, human, unit_labels, upstream

OF_EACH = 100                     # correct answers of a set that EMS(LLM) scores, and as many incorrect ones
BESIDE = ("EMS(local)", "BERTScore", "ROUGE-L", "unigram")
POINT_FILE, RATING_FILE = "kqa_judged.csv", "rubric_scores.csv"
PAIR_RUBRICS = ("accuracy", "completeness")     # the pairs come without the passages that were retrieved
PAGE_RUBRICS = ("hallucination",)               # FinanceBench's evidence comes with its pages
PAIRS = 3                                       # that are rated, of each of RAGChecker's ten data sets
ANSWERS = 20                                    # correct ones that are rated, and as many incorrect ones
BESIDE_PAIRS = ("EMS(LLM)", "EMS(LLM, sides)", "RAGChecker", "EMS(local)", "ROUGE-L", "unigram")
BESIDE_ANSWERS = ("support by evidence", "number recall", "EMS(local)", "ROUGE-L", "unigram")
Key = tuple[str, str]             # triplet_id, model


class LabelledAnswers(NamedTuple):
    """A data set whose answers people marked as correct or incorrect."""

    stored: str                   # the name of its labels and scores (`human.stored`)
    texts: Callable[[], tuple[Any, ...]]
    sides: bool                   # whether the judge also held whole sides against each other

    @property
    def file(self) -> str:
        """The committed file of the judge's scores."""
        return f"{self.stored}_judged_scores.csv"


SETS = {"FinanceBench": LabelledAnswers(
            "financebench_all", lambda: upstream.financebench(upstream.financebench_sets()), sides=True),
        "FinDVer": LabelledAnswers("findver", upstream.findver, sides=False)}


# --- EMS(LLM) ---

def answers(name: str, committed: Path, judge: Judge | None = None, save: Path | None = None
            ) -> human.LabelSet:
    """Labels and scores of `OF_EACH` correct and as many incorrect answers of one of `SETS`, drawn by hash:
    the judge's (`agreement.judged_table`, made now or committed) beside those of the metrics `BESIDE`.
    """
    one, known = SETS[name], _tried(name, committed)
    drawn = set(answer_sample(known.labels, OF_EACH))
    compute = partial(_scored, one, drawn, judge) if judge else None
    judged, source = human.recorded(committed / one.file, compute, save and save / one.file)
    return replace(known.beside(judged, BESIDE), source=source)


def shares(name: str, committed: Path) -> dict[str, float]:
    """Share of correct answers of every system of one of `SETS`, over all that are correct or incorrect."""
    return _tried(name, committed).labels.groupby("model")["correct"].mean().to_dict()


def _tried(name: str, committed: Path) -> human.LabelSet:
    """One of `SETS` as stored, without refusals; its labels have a column `label`: correct or incorrect."""
    known = human.stored(committed, SETS[name].stored)
    marked = known.labels["correct"].map({True: "correct", False: "incorrect"})
    labels = known.labels.assign(label=known.labels.get("label", marked))
    return human.without_refusals(replace(known, labels=labels))


def _scored(one: LabelledAnswers, drawn: set[Key], judge: Judge) -> pd.DataFrame:
    triplets, given, _ = one.texts()
    some = [a for a in given if (a.triplet_id, a.model) in drawn]
    return agreement.judged_table(triplets, some, judge, sides=one.sides).round(5)


def points(committed: Path, units: pd.DataFrame, judge: Judge | None = None, save: Path | None = None
           ) -> tuple[pd.DataFrame, str]:
    """K-QA's unit table with two more columns, what the judge says of every claim: EMS(LLM), of the pair that
    it matched, and EMS(LLM, sides), of the claim and the whole answer. And where they come from.
    """
    compute = partial(_points, judge) if judge else None
    judged, source = human.recorded(committed / POINT_FILE, compute, save and save / POINT_FILE)
    return units.merge(judged, on=upstream.UNIT_KEYS, how="left", validate="one_to_one"), source


def _points(judge: Judge) -> pd.DataFrame:
    triplets, given, _ = upstream.kqa()
    return unit_labels.by_unit(given, {
        name: [r.score for r in pipeline.evaluate(triplets, given)]
        for name, pipeline in agreement.of_sentences(judge).items()})


# --- rubrics ---

def pair_sample(labels: pd.DataFrame) -> list[str]:
    """The ids of `PAIRS` pairs of each data set in RAGChecker's labels, drawn by the hash of the id."""
    of_set = labels.drop_duplicates("instance_id").groupby("dataset")["instance_id"]
    return [id_ for _, ids in of_set for id_ in by_hash(ids)[:PAIRS]]


def answer_sample(labels: pd.DataFrame, of_each: int = ANSWERS) -> list[Key]:
    """(triplet_id, model) of so many answers marked correct and as many incorrect ones, drawn by hash from
    all systems, one answer a question and label. Refusals state nothing, so there is nothing to rate.
    """
    drawn: list[Key] = []
    for label in ("correct", "incorrect"):
        rows = labels.loc[labels["label"] == label, agreement.KEYS].itertuples(index=False, name=None)
        first: dict[str, Key] = {}
        for key in by_hash(rows, "|".join):
            first.setdefault(key[0], key)
        drawn += list(first.values())[:of_each]
    return drawn


def ratings(committed: Path, judge: Judge | None = None, save: Path | None = None
            ) -> tuple[pd.DataFrame, str]:
    """The ratings of samples of RAGChecker's pairs and FinanceBench's answers, made now or committed, and
    where they come from (`human.recorded`).

    Columns: set ("ragchecker", "financebench"), triplet_id, model, rubric, value (nan where there is none,
    for the reason in the column `reason`), signature.
    """
    compute = partial(_rated, committed, judge) if judge else None
    return human.recorded(committed / RATING_FILE, compute, save and save / RATING_FILE)


def _rated(committed: Path, judge: Judge) -> pd.DataFrame:
    pairs, bench = (human.stored(committed, name).labels for name in ("ragchecker", "financebench_all"))
    drawn_pairs = {(id_, model) for id_ in pair_sample(pairs) for model in "12"}
    rows = []
    for name, rubrics, drawn, (triplets, given, *_) in (
            ("ragchecker", PAIR_RUBRICS, drawn_pairs, upstream.ragchecker()),
            ("financebench", PAGE_RUBRICS, set(answer_sample(bench)),
             upstream.financebench(upstream.financebench_sets(), contexts=True))):
        rater = RubricJudge(judge, rubrics=rubrics)
        some = [a for a in given if (a.triplet_id, a.model) in drawn]
        rows += [(name, r.triplet_id, r.model, r.rubric, r.value, r.reason, rater.signature)
                 for r in rater.rate(triplets, some)]
    return pd.DataFrame(rows, columns=["set", *agreement.KEYS, "rubric", "value", "reason", "signature"])


def with_ratings(known: human.LabelSet, rated: pd.DataFrame, keep: Sequence[str]) -> human.LabelSet:
    """The rated answers of a set with their labels, the metrics in `keep`, and a column for each rubric.

    A rubric where less is better is turned round and named so: "no hallucination". Its value is nan where it
    does not apply or was not scored.
    """
    turned = rated["rubric"].isin([name for name, rubric in RUBRICS.items() if rubric.lower_is_better])
    wide = rated.assign(
        metric=("OmniEval " + rated["rubric"]).where(~turned, "OmniEval no " + rated["rubric"]), part="Score",
        value=rated["value"].where(~turned, 1 - rated["value"]))
    return known.beside(agreement.of_values(wide), keep)


def on_pairs(pairs: human.LabelSet, rated: pd.DataFrame, **bootstrap: Any) -> pd.DataFrame:
    """`agreement.human_agreement` of the rubrics and a few other metrics, on the rated pairs of answers.

    A rubric that does not apply to one answer of a pair has the median difference there (0 in the recording).
    Differences are to EMS(LLM).
    """
    known = with_ratings(pairs, rated[rated["set"] == "ragchecker"], BESIDE_PAIRS)
    return agreement.human_agreement(known.labels, known.scores, against=["EMS(LLM)"], **bootstrap)


def on_answers(bench: human.LabelSet, rated: pd.DataFrame, **bootstrap: Any) -> pd.DataFrame:
    """`agreement.label_agreement` of the rubrics and a few other metrics' recall, on FinanceBench's rated
    answers; an answer to which the rubric does not apply is left out.
    """
    known = with_ratings(bench, rated[(rated["set"] == "financebench") & rated["value"].notna()],
                         BESIDE_ANSWERS)
    return agreement.label_agreement(known.labels, known.scores, part="Recall", **bootstrap)
