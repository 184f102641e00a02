"""People's labels of single points: REALSumm's content units and K-QA's claims, and what metrics say of them.

Both sets give the reference's points with labels: is this unit in that summary, does that answer entail this
claim? A *unit table* has a row per labelled unit and a column per metric, in [0, 1].
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ... import stats
from ...baselines import bertscore, rouge
from ...match import Matcher
from ...pipeline import EMS
from ...presets import build
from ...score import BLEUScorer, RougeScorer
from ...types import Answer, InputError, Triplet
from .agreement import metrics_of, surface_table
from .upstream import UNIT_KEYS

if TYPE_CHECKING:
    from ...local.encoder import Encoder


def unit_table(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """What each scorer without a judge says of every given point: `UNIT_KEYS` and a column per metric.

    EMS(local) holds a point against the whole answer; the others against the point that the matcher chose
    (`matched` is its decision alone, 0 or 1). "words" is the share of the point's words that the answer has.
    """
    local, pair = build(None, "local"), build(None, "local-pair")
    matcher: Matcher | None = pair.matcher
    stages = {"EMS(local)": local, "EMS(local-pair)": pair,
              "EMS(ROUGE)": EMS(pair.extractor, matcher, RougeScorer()),
              "EMS(BLEU)": EMS(pair.extractor, matcher, BLEUScorer())}
    results = {name: stage.evaluate(triplets, answers) for name, stage in stages.items()}
    rows = []
    for i, answer in enumerate(answers):
        words = _words(answer.answer)
        first = results["EMS(local-pair)"][i]
        for unit, point in enumerate(first.ref_points):
            of_unit = _words(point)
            rows.append({"triplet_id": answer.triplet_id, "model": answer.model, "unit": unit,
                         "words": len(of_unit & words) / max(1, len(of_unit)),
                         "matched": float((first.match[unit] or 0) >= 0),
                         **{name: of[i].score[unit] for name, of in results.items()}})
    return pd.DataFrame(rows)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def summary_table(triplets: Sequence[Triplet], answers: Sequence[Answer], encoder: Encoder
                  ) -> pd.DataFrame:
    """The score table of whole summaries against references: the recalls that the community compares."""
    triplets = [replace(t, points=()) for t in triplets]
    reference = {t.id: t.reference for t in triplets}
    references, texts = [reference[a.triplet_id] for a in answers], [a.answer for a in answers]
    table = surface_table(triplets, answers)[["triplet_id", "model", "unigram Recall"]]
    for kind, scores in rouge(references, texts).items():
        table[f"ROUGE-{kind[-1]} Recall"] = [recall for _, recall, _ in scores]
    for name, scorer in (("EMS(local)", "local"), ("EMS(local-pair)", "local-pair")):
        table[f"{name} Recall"] = [r.recall for r in build(None, scorer).evaluate(triplets, answers)]
    table["BERTScore Score"] = bertscore(references, texts, encoder)
    return table


def joined(labels: pd.DataFrame, units: pd.DataFrame) -> pd.DataFrame:
    """A unit table with its labels. InputError when the two are not of one set."""
    table = labels.merge(units, on=UNIT_KEYS, how="outer", indicator=True, validate="one_to_one")
    if unjoined := int((table["_merge"] != "both").sum()):
        raise InputError(f"{unjoined} units have only scores or only a label; both must be of one set")
    return table.drop(columns="_merge")


def unit_agreement(units: pd.DataFrame, *, resamples: int = 1000, seed: int = 7) -> pd.DataFrame:
    """How well each metric tells units that are in an answer from others: AUC over clusters of triplets.

    `units` is a unit table with labels (`joined`). Columns metric, value, ci_low, ci_high, n, clusters.
    """
    metrics = [column for column in units if column not in (*UNIT_KEYS, "present", "label", "must")]
    rows = [{"metric": metric, **_row(stats.auc(units[metric], units["present"], units["triplet_id"],
                                                resamples=resamples, seed=seed))} for metric in metrics]
    return pd.DataFrame(rows)


def pyramid(labels: pd.DataFrame) -> pd.DataFrame:
    """Share of the units that each answer holds, by people: triplet_id, model, value."""
    shares = labels.groupby(["triplet_id", "model"], as_index=False)["present"].mean()
    return shares.rename(columns={"present": "value"})


def summary_agreement(people: pd.DataFrame, scores: pd.DataFrame, *, resamples: int = 1000, seed: int = 7
                      ) -> pd.DataFrame:
    """Correlation with the pyramid score as REALSumm reports it, over triplets drawn with the same systems.

    `people` is `pyramid`'s frame; of the score table the columns of recall and of one value count. Levels:
    summary (mean over triplets of the correlation across systems; triplets where either is constant are left
    out) and system (of the systems' means). Columns metric, level, measure (kendall: tau-b; pearson), value,
    ci_low, ci_high, n, clusters.
    """
    people = people.pivot(index="triplet_id", columns="model", values="value")
    rows = []
    for metric, column in metrics_of(scores, "Recall").items():
        ours = scores.pivot(index="triplet_id", columns="model", values=column).reindex_like(people)
        x, y = ours.to_numpy(dtype=float), people.to_numpy(dtype=float)
        for measure in ("kendall", "pearson"):
            by_triplet = [_correlation(a, b, measure) for a, b in zip(x, y, strict=True)]
            mean = stats.mean_over(by_triplet, people.index)
            system = stats.bootstrapped(system_level(x, y, measure), len(x), x.size, resamples, seed)
            rows += [{"metric": metric, "level": level, "measure": measure, **_row(estimate)}
                     for level, estimate in (("summary", mean), ("system", system))]
    return pd.DataFrame(rows)


def system_level(x: np.ndarray, y: np.ndarray, measure: str) -> stats.Statistic:
    """Correlation of the systems' means, from (triplets, systems) values and counts of drawn triplets."""
    def statistic(weights: np.ndarray) -> np.ndarray:
        total = weights.sum(axis=1, keepdims=True)
        means = zip(weights @ x / total, weights @ y / total, strict=True)
        return np.array([_correlation(a, b, measure) for a, b in means])
    return statistic


def _correlation(a: np.ndarray, b: np.ndarray, measure: str) -> float:
    """Pearson's r or Kendall's tau-b of two short rows; nan where either is constant."""
    if measure == "kendall":
        upper = np.triu_indices(len(a), 1)
        a, b = (np.sign(np.subtract.outer(v, v))[upper] for v in (a, b))
    else:
        a, b = a - a.mean(), b - b.mean()
    length = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / length) if length > 1e-12 else np.nan


def _row(estimate: stats.Estimate) -> dict[str, float]:
    return {name: getattr(estimate, name) for name in ("value", "ci_low", "ci_high", "n", "clusters")}
