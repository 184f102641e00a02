"""OmniEval's rubrics by a judge, on a sample of answers that people labelled (RAGChecker, FinanceBench)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ...asking import Judge
from ...support.rubrics import RUBRICS, RubricJudge
from ...types import Answer, Triplet
from ..choices.reliability import by_hash
from . import agreement, human, upstream

PAIR_RUBRICS = ("accuracy", "completeness")     # the pairs come without the passages that were retrieved
PAGE_RUBRICS = ("hallucination",)               # FinanceBench's evidence comes with its pages
PAIRS = 3                                       # of each of RAGChecker's ten data sets
ANSWERS = 20                                    # correct ones, and as many incorrect ones
FILE = "rubric_scores.csv"
BESIDE_PAIRS = ("EMS(LLM)", "EMS(LLM, sides)", "RAGChecker", "EMS(local)", "ROUGE-L", "unigram")
BESIDE_ANSWERS = ("support by evidence", "number recall", "EMS(local)", "ROUGE-L", "unigram")


def pair_sample(labels: pd.DataFrame) -> list[str]:
    """The ids of `PAIRS` pairs of each data set in RAGChecker's labels, drawn by the hash of the id."""
    of_set = labels.drop_duplicates("instance_id").groupby("dataset")["instance_id"]
    return [id_ for _, ids in of_set for id_ in by_hash(ids)[:PAIRS]]


def answer_sample(labels: pd.DataFrame, of_each: int = ANSWERS) -> list[tuple[str, str]]:
    """(triplet_id, model) of so many answers that FinanceBench marks correct and as many incorrect ones.

    Drawn by hash from all sixteen sets, one answer a question and label. Refusals state nothing, so there is
    nothing to rate.
    """
    drawn: list[tuple[str, str]] = []
    for label in ("correct", "incorrect"):
        rows = labels.loc[labels["label"] == label, agreement.KEYS].itertuples(index=False, name=None)
        first: dict[str, tuple[str, str]] = {}
        for key in by_hash(rows, "|".join):
            first.setdefault(key[0], key)
        drawn += list(first.values())[:of_each]
    return drawn


def ratings(committed: Path, recompute: str = "no", judge: Judge | None = None, save: Path | None = None
            ) -> tuple[pd.DataFrame, str]:
    """The sample's ratings and where they come from: from the folder `committed`, or by `judge` now.

    Columns: set ("ragchecker", "financebench"), triplet_id, model, rubric, value (nan where there is none,
    for the reason in the column `reason`), signature. What was rated now is written to `save`. A judge whose
    recorded replies do not suffice leaves the committed ratings in place; the second value says so.
    """
    judge = judge if human.is_recomputed(recompute) else None
    return human.recorded(committed / FILE, judge, partial(_rated, committed), save)


def _rated(committed: Path, judge: Judge) -> pd.DataFrame:
    pairs = set(pair_sample(human.stored(committed, "ragchecker").labels))
    triplets, answers, *_ = upstream.ragchecker()
    parts = [_rows("ragchecker", triplets, [a for a in answers if a.triplet_id in pairs],
                   RubricJudge(judge, rubrics=PAIR_RUBRICS))]
    wanted = set(answer_sample(human.stored(committed, "financebench_all").labels))
    triplets, answers, _ = upstream.financebench(upstream.financebench_sets(), contexts=True)
    parts.append(_rows("financebench", triplets, [a for a in answers if (a.triplet_id, a.model) in wanted],
                       RubricJudge(judge, rubrics=PAGE_RUBRICS)))
    return pd.concat(parts, ignore_index=True)


def _rows(name: str, triplets: Sequence[Triplet], answers: Sequence[Answer], judge: RubricJudge
          ) -> pd.DataFrame:
    rated = judge.rate(triplets, answers)
    return pd.DataFrame([{"set": name, "triplet_id": r.triplet_id, "model": r.model, "rubric": r.rubric,
                          "value": r.value, "reason": r.reason, "signature": judge.signature}
                         for r in rated])


def with_ratings(known: human.LabelSet, rated: pd.DataFrame, keep: Iterable[str]) -> human.LabelSet:
    """The rated answers of a set with their labels, the metrics in `keep`, and a column for each rubric.

    A rubric where less is better is turned round and named so: "no hallucination". Its value is nan where it
    does not apply or was not scored.
    """
    lower = {name for name, rubric in RUBRICS.items() if rubric.lower_is_better}
    turned = rated["rubric"].isin(lower)
    column = ("OmniEval " + rated["rubric"].where(~turned, "no " + rated["rubric"])) + " Score"
    value = rated["value"].where(~turned, 1 - rated["value"])
    wide = rated.assign(column=column, value=value).pivot(
        index=agreement.KEYS, columns="column", values="value").reset_index().rename_axis(columns=None)
    columns = [c for c in known.scores if c.rpartition(" ")[0] in set(keep)]
    scores = wide.merge(known.scores[[*agreement.KEYS, *columns]], on=agreement.KEYS, validate="one_to_one")
    key = "instance_id" if "instance_id" in known.labels else "triplet_id"
    labels = known.labels[known.labels[key].isin(set(scores["triplet_id"]))]
    if key == "triplet_id":
        labels = labels.merge(scores[agreement.KEYS])
    return human.LabelSet(labels, scores, known.source)


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
