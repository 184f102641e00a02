"""EMS(LLM) beside labels of people that nothing was tuned on: FinanceBench's answers and K-QA's points."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ..local.sentences import SentenceExtractor
from ..pipeline import EMS, build
from ..score import SidesLLMScorer
from ..types import Judge
from . import agreement, human, rubric_labels, unit_labels, upstream

ANSWERS = 100                     # correct ones of FinanceBench, and as many incorrect ones
BESIDE = ("EMS(local)", "ROUGE-L", "unigram")
ANSWER_FILE, POINT_FILE = "financebench_judged_scores.csv", "kqa_judged.csv"


def answers(committed: Path, judge: Judge | None = None, save: Path | None = None
            ) -> tuple[human.LabelSet, str]:
    """FinanceBench's labels and scores of `ANSWERS` correct and as many incorrect answers, drawn by hash from
    its sixteen sets; EMS(LLM) and its two other forms (`agreement.judged_table`) beside the metrics `BESIDE`.
    And where the judge's scores come from (`human.recorded`).
    """
    known = human.stored(committed, "financebench_all")
    keys = pd.DataFrame(rubric_labels.answer_sample(known.labels, ANSWERS), columns=agreement.KEYS)
    judged, source = human.recorded(committed / ANSWER_FILE, judge, partial(_answers, keys), save)
    columns = [c for c in known.scores if c.rpartition(" ")[0] in BESIDE]
    scores = judged.merge(known.scores[[*agreement.KEYS, *columns]], on=agreement.KEYS, validate="one_to_one")
    return human.LabelSet(known.labels.merge(keys), scores, source), source


def _answers(keys: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    triplets, given, _ = upstream.financebench(upstream.financebench_sets())
    drawn = set(keys.itertuples(index=False, name=None))
    some = [a for a in given if (a.triplet_id, a.model) in drawn]
    return agreement.judged_table(triplets, some, judge).round(5)


def points(committed: Path, units: pd.DataFrame, judge: Judge | None = None, save: Path | None = None
           ) -> tuple[pd.DataFrame, str]:
    """K-QA's unit table with two more columns, what the judge says of every claim: EMS(LLM), of the pair that
    it matched, and EMS(LLM, sides), of the claim and the whole answer. And where they come from.
    """
    judged, source = human.recorded(committed / POINT_FILE, judge, _points, save)
    return units.merge(judged, on=unit_labels.UNIT_KEYS, how="left", validate="one_to_one"), source


def _points(judge: Judge) -> pd.DataFrame:
    triplets, given, _ = unit_labels.kqa()
    joint = build(judge, "llm", variant="all")
    stages = {"EMS(LLM)": EMS(SentenceExtractor(), joint.matcher, joint.scorer),
              "EMS(LLM, sides)": EMS(SentenceExtractor(), None, SidesLLMScorer(judge))}
    results = {name: stage.evaluate(triplets, given) for name, stage in stages.items()}
    rows: list[dict[str, Any]] = [
        {"triplet_id": a.triplet_id, "model": a.model, "unit": unit,
         **{name: of[i].score[unit] for name, of in results.items()}}
        for i, a in enumerate(given) for unit in range(len(results["EMS(LLM)"][i].ref_points))]
    return pd.DataFrame(rows)
