"""People's labels of single points: REALSumm's content units and K-QA's claims, and what metrics say of them.

Both sets give the reference's points with labels: is this unit in that summary, does that answer entail this
claim? A *unit table* has a row per labelled unit and a column per metric, in [0, 1].
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ... import stats
from ...baselines import bertscore, rouge
from ...pipeline import rescored
from ...presets import build
from ...score import BLEUScorer, RougeScorer
from ...types import Answer, Triplet
from .. import own
from . import agreement
from .upstream import UNIT_KEYS

if TYPE_CHECKING:
    from ...local.encoder import Encoder


def unit_table(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """What each scorer without a judge says of every given point: `UNIT_KEYS` and a column per metric.

    EMS(local) holds a point against the whole answer; the others against the point that the matcher chose
    (`matched` is its decision alone, 0 or 1). "words" is the share of the point's words that the answer has.
    """
    pair = build(None, "local-pair")
    aligned = pair.evaluate(triplets, answers)
    results = {"EMS(local)": build().evaluate(triplets, answers), "EMS(local-pair)": aligned,
               "EMS(ROUGE)": rescored(aligned, RougeScorer(), pair),
               "EMS(BLEU)": rescored(aligned, BLEUScorer(), pair)}
    said = [_words(answer.answer) for answer in answers]
    points = [[_words(point) for point in r.ref_points] for r in aligned]
    return by_unit(answers, {
        "words": [[len(unit & words) / max(1, len(unit)) for unit in units]
                  for words, units in zip(said, points, strict=True)],
        "matched": [[float((index or 0) >= 0) for index in r.match] for r in aligned],
        **{name: [r.score for r in rows] for name, rows in results.items()}})


def by_unit(answers: Sequence[Answer], metrics: Mapping[str, Sequence[Sequence[Any]]]) -> pd.DataFrame:
    """A unit table from each metric's values of every answer's units."""
    rows = [(a.triplet_id, a.model, unit, *values)
            for a, *of_answer in zip(answers, *metrics.values(), strict=True)
            for unit, values in enumerate(zip(*of_answer, strict=True))]
    return pd.DataFrame(rows, columns=[*UNIT_KEYS, *metrics])


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def summary_table(triplets: Sequence[Triplet], answers: Sequence[Answer], encoder: Encoder
                  ) -> pd.DataFrame:
    """The score table of whole summaries against references: the recalls that the community compares."""
    triplets = [replace(t, points=()) for t in triplets]
    texts = own.texts_of(triplets, answers)
    found: dict[str, Sequence[Any]] = {"unigram": agreement.unigram(*texts)}
    found |= {f"ROUGE-{kind[-1]}": scores for kind, scores in rouge(*texts).items()}
    found |= {f"EMS({form})": build(None, form).evaluate(triplets, answers)
              for form in ("local", "local-pair")}
    table = agreement.table_of(answers, found | {"BERTScore": bertscore(*texts, encoder)})
    return table[[*agreement.KEYS, *agreement.metrics_of(table, "Recall").values()]]


def unit_agreement(units: pd.DataFrame, **bootstrap: int) -> pd.DataFrame:
    """How well each metric of a unit table with labels (`agreement.joined`) tells units that are in an answer
    from others: AUC over clusters of triplets. Columns metric, value, ci_low, ci_high, n, clusters.
    """
    metrics = dict(units.drop(columns=[*UNIT_KEYS, "present", "label", "must"], errors="ignore").items())
    rows = agreement.measured(metrics, units["present"], units["triplet_id"], ["AUC"], (), **bootstrap)
    return pd.DataFrame(rows).drop(columns=["measure", "left_out"])


def pyramid(labels: pd.DataFrame) -> pd.DataFrame:
    """Share of the units that each answer holds, by people: triplet_id, model, value."""
    shares = labels.groupby(["triplet_id", "model"], as_index=False)["present"].mean()
    return shares.rename(columns={"present": "value"})


def summary_agreement(people: pd.DataFrame, scores: pd.DataFrame, **bootstrap: int) -> pd.DataFrame:
    """Correlation with the pyramid score as REALSumm reports it, over triplets drawn with the same systems.

    `people` is `pyramid`'s frame; of the score table the columns of recall and of one value count. Levels:
    summary (mean over triplets of the correlation across systems; triplets where either is constant are left
    out) and system (of the systems' means). Columns metric, level, measure (kendall: tau-b; pearson), value,
    ci_low, ci_high, n, clusters.
    """
    people = people.pivot(index="triplet_id", columns="model", values="value")
    rows = []
    for metric, column in agreement.metrics_of(scores, "Recall").items():
        ours = scores.pivot(index="triplet_id", columns="model", values=column).reindex_like(people)
        x, y = ours.to_numpy(dtype=float), people.to_numpy(dtype=float)
        for measure in ("kendall", "pearson"):
            levels = {"summary": stats.mean_over(list(_by_row(x, y, measure)), people.index),
                      "system": stats.bootstrapped(system_level(x, y, measure), len(x), x.size, **bootstrap)}
            rows += [{"metric": metric, "level": level, "measure": measure, **asdict(estimate)}
                     for level, estimate in levels.items()]
    return pd.DataFrame(rows).drop(columns="left_out")


def system_level(x: np.ndarray, y: np.ndarray, measure: str) -> stats.Statistic:
    """Correlation of the systems' means, from (triplets, systems) values and counts of drawn triplets."""
    def statistic(weights: np.ndarray) -> np.ndarray:
        total = weights.sum(axis=1, keepdims=True)
        return _by_row(weights @ x / total, weights @ y / total, measure)
    return statistic


def _by_row(a: np.ndarray, b: np.ndarray, measure: str) -> np.ndarray:
    """Pearson's r or Kendall's tau-b of each row of a with that of b; nan where either is constant."""
    if measure == "kendall":
        i, j = np.triu_indices(a.shape[1], 1)
        a, b = (np.sign(v[:, i] - v[:, j]) for v in (a, b))
    else:
        a, b = (v - v.mean(axis=1, keepdims=True) for v in (a, b))
    length = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return np.divide((a * b).sum(axis=1), length, out=np.full(len(a), np.nan), where=length > 1e-12)
