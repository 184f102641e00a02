"""Answers whose order is known, because points of one answer were replaced by those of a worse one.

`values` has the metrics that notebook 5 compares with that order, and on references as prose.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ems.analysis.frames import to_frame
from ems.evaluators import build
from ems.extract import Extractor
from ems.judge import Judge
from ems.local.encoder import Encoder
from ems.pipeline import Evaluator
from ems.results import EMSResult
from ems.score import bleu, rouge_l
from ems.types import Answer, Points, Triplet

from . import by_hash, values_frame
from .granularity import one_a_group

REPLACED = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of an answer's points, in `mixtures`
BEST, WORST = "Large LLM (closed weights)", "Qwen2.5-Coder-1.5B-Instruct (closed book)"


def mixtures(
    triplets: Sequence[Triplet], results: Sequence[EMSResult]
) -> tuple[list[Triplet], list[Answer]]:
    """Answers of a known order: points of `BEST`'s answer, more and more replaced by `WORST`'s.

    One question a group, drawn by hash, in five steps (`REPLACED`). A point is a line; the model is
    the share replaced, such as "25%". Hashes decide which points are replaced; those of a small
    share are among those of a larger one. Where `WORST` has too few points for the question, its
    points for other questions of the group follow.
    """
    points = {(r.model, r.triplet_id): r.ans_points for r in results}
    drawn = one_a_group(t for t in triplets if points.get((BEST, t.id)) and (WORST, t.id) in points)
    answers = []
    for triplet in drawn:
        good = points[BEST, triplet.id]
        bad = list(points[WORST, triplet.id])
        for t in triplets:
            if t.group == triplet.group and t.id != triplet.id:
                bad += points.get((WORST, t.id), ())
        order = by_hash(range(len(good)), partial("{} {}".format, triplet.id))
        for share in REPLACED:
            mixed = list(good)
            for i, point in zip(order[: round(share * len(good))], bad, strict=False):
                mixed[i] = point
            answers.append(Answer(triplet.id, f"{share:.0%}", "\n".join(mixed)))
    return drawn, answers


class Lines:
    """An extractor for `mixtures`: each line of such an answer is a point.

    Other texts go to `extract`.
    """

    def __init__(self, extract: Extractor, answers: Sequence[Answer]):
        self.extract = extract
        self.texts = {answer.answer for answer in answers}
        self.signature = f"lines of mixed answers, else {extract.signature}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        others = iter(self.extract([text for text in texts if text not in self.texts]))
        return [tuple(text.split("\n")) if text in self.texts else next(others) for text in texts]


def values(
    triplets: Sequence[Triplet],
    answers: Sequence[Answer],
    judge: Judge | None = None,
    extract: Extractor | None = None,
) -> pd.DataFrame:
    """The values of BLEU, ROUGE-L, EMS(ROUGE) and Coverage(local) for the answers.

    With a judge also EMS(LLM), joint, and the judge alone; with `extract` also coverage by the
    judge, on its points.
    """
    evaluators: dict[str, Evaluator[Any]] = {
        "EMS(ROUGE)": build(None, "rouge"),
        "Coverage(local)": build(),
    }
    if judge is not None:
        evaluators["EMS(LLM)"] = build(judge, joint=True, extractor=extract)
        evaluators["Judge alone"] = build(judge, "judge")
        if extract is not None:
            evaluators["Coverage(LLM)"] = build(judge, "coverage", extractor=extract)
    results = {name: one.evaluate(triplets, answers) for name, one in evaluators.items()}
    return pd.concat([whole_text_values(triplets, answers), to_frame(results)], ignore_index=True)


def whole_text_values(
    triplets: Sequence[Triplet], answers: Sequence[Answer], encoder: Encoder | None = None
) -> pd.DataFrame:
    """The values of BLEU and ROUGE-L F1 for the answers; with an encoder also of BERTScore."""
    reference = {t.id: t.reference for t in triplets}
    references = [reference[a.triplet_id] for a in answers]
    texts = [a.answer for a in answers]
    f1_of_rouge = [f1 for _, _, f1 in rouge_l(references, texts)]
    frames = [
        values_frame(answers, bleu(references, texts), "BLEU", "Score", {}, triplets),
        values_frame(answers, f1_of_rouge, "ROUGE-L", "F1", {}, triplets),
    ]
    if encoder is not None:
        scores = encoder.bertscore(references, texts)
        frames.append(values_frame(answers, scores, "BERTScore", "Score", {}, triplets))
    return pd.concat(frames, ignore_index=True)


def order_kept(values: pd.DataFrame) -> pd.DataFrame:
    """How far each metric gives the `mixtures` the order that is known.

    Index: metric. Columns: the mean of F1 or Score for each of `REPLACED`; `steps`, the share of
    steps to more replaced points at which the value falls (a tie counts half); `n` answers.
    """
    values = values[values["part"].isin(["F1", "Score"])]
    columns = [f"{share:.0%}" for share in REPLACED]
    rows = {}
    for metric, rows_of_metric in values.groupby("metric", sort=False):
        table = rows_of_metric.pivot(index="triplet_id", columns="model", values="value")[columns]
        falls = (1 - np.sign(np.diff(table.to_numpy(), axis=1))) / 2
        rows[metric] = {**table.mean(), "steps": falls.mean(), "n": len(table)}
    return pd.DataFrame(rows).T.rename_axis("metric")
