"""EMS(LLM) beside labels of people that no prompt was tuned on: answers of two sets, and K-QA's points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from ...asking import Judge
from ...types import Answer, Triplet
from . import agreement, human, rubric_labels, unit_labels, upstream

OF_EACH = 100                     # correct answers of a set, and as many incorrect ones
BESIDE = ("EMS(local)", "BERTScore", "ROUGE-L", "unigram")
POINT_FILE = "kqa_judged.csv"


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """A data set whose answers people marked as correct or incorrect."""

    stored: str                   # the name of its labels and scores (`human.stored`)
    texts: Callable[[], tuple[list[Triplet], list[Answer], pd.DataFrame]]
    sides: bool                   # whether the judge also held whole sides against each other

    @property
    def file(self) -> str:
        """The committed file of the judge's scores."""
        return f"{self.stored}_judged_scores.csv"


SETS = {"FinanceBench": LabelledAnswers(
            "financebench_all", lambda: upstream.financebench(upstream.financebench_sets()), sides=True),
        "FinDVer": LabelledAnswers("findver", upstream.findver, sides=False)}


def answers(name: str, committed: Path, judge: Judge | None = None, save: Path | None = None
            ) -> tuple[human.LabelSet, str]:
    """Labels and scores of `OF_EACH` correct and as many incorrect answers of one of `SETS`, drawn by hash.

    EMS(LLM) and its other forms (`agreement.judged_table`) stand beside the metrics `BESIDE`. Also where the
    judge's scores come from (`human.recorded`).
    """
    one, known = SETS[name], human.stored(committed, SETS[name].stored)
    marked = _marked(known.labels)
    keys = pd.DataFrame(rubric_labels.answer_sample(marked, OF_EACH), columns=agreement.KEYS)
    judged, source = human.recorded(committed / one.file, judge, partial(_answers, one, keys), save)
    columns = [c for c in known.scores if c.rpartition(" ")[0] in BESIDE]
    scores = judged.merge(known.scores[[*agreement.KEYS, *columns]], on=agreement.KEYS, validate="one_to_one")
    return human.LabelSet(marked.merge(keys), scores, source), source


def shares(name: str, committed: Path) -> dict[str, float]:
    """Share of correct answers of every system of one of `SETS`, over all that are correct or incorrect."""
    marked = _marked(human.stored(committed, SETS[name].stored).labels)
    tried = marked[marked["label"].isin(["correct", "incorrect"])]
    return tried.groupby("model")["correct"].mean().to_dict()


def _marked(labels: pd.DataFrame) -> pd.DataFrame:
    """Labels with a column `label`: correct, incorrect, or, in FinanceBench, refusal."""
    if "label" in labels:
        return labels
    return labels.assign(label=labels["correct"].map({True: "correct", False: "incorrect"}))


def _answers(one: LabelledAnswers, keys: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    triplets, given, _ = one.texts()
    drawn = set(keys.itertuples(index=False, name=None))
    some = [a for a in given if (a.triplet_id, a.model) in drawn]
    return agreement.judged_table(triplets, some, judge, sides=one.sides).round(5)


def points(committed: Path, units: pd.DataFrame, judge: Judge | None = None, save: Path | None = None
           ) -> tuple[pd.DataFrame, str]:
    """K-QA's unit table with two more columns, what the judge says of every claim: EMS(LLM), of the pair that
    it matched, and EMS(LLM, sides), of the claim and the whole answer. And where they come from.
    """
    judged, source = human.recorded(committed / POINT_FILE, judge, _points, save)
    return units.merge(judged, on=unit_labels.UNIT_KEYS, how="left", validate="one_to_one"), source


def _points(judge: Judge) -> pd.DataFrame:
    triplets, given, _ = upstream.kqa()
    return unit_labels.by_unit(given, {
        name: [r.score for r in pipeline.evaluate(triplets, given)]
        for name, pipeline in agreement.of_sentences(judge).items()})
