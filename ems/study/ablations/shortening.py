"""Does a metric notice that an answer lost its detail? (paper, section 2.1 and figure 1)

An answer stands beside a shorter one of the same topics, true as well, from which most figures, names and
periods were left out. A shortened answer has its model's name with `SUFFIX`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from ... import data as frames
from ...baselines import BLEU_SIGNATURE, RAGChecker, bertscore, bleu, rouge
from ...pipeline import EMS
from ...presets import build
from ...stats import paired_table
from ...types import Answer, EMSResult, Triplet
from ..own import texts_of

if TYPE_CHECKING:
    from ...local.encoder import Encoder

SUFFIX = ", shortened"


def beside_originals(answers: Sequence[Answer], short: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """Each shortened answer with the answer it was made from; those whose original is absent are left out."""
    originals = {(a.triplet_id, a.model): a for a in answers}
    keys = [(s.triplet_id, s.model.removesuffix(SUFFIX)) for s in short]
    return [(originals[key], s) for key, s in zip(keys, short, strict=True) if key in originals]


def study(triplets: Sequence[Triplet], answers: Sequence[Answer], short: Sequence[Answer], pipeline: EMS, *,
          checker: RAGChecker | None = None, encoder: Encoder | None = None
          ) -> tuple[pd.DataFrame, list[EMSResult]]:
    """Values of every metric for the pairs of `beside_originals` (as of `data.to_frame`), and alignments.

    EMS(LLM) by the judge's `pipeline`, RAGChecker and BERTScore where a checker and an encoder are given. An
    alignment holds a shortened answer's points against the detailed answer's, as if that were the reference;
    the one with the fewest points comes first.
    """
    pairs = beside_originals(answers, short)
    both = [a for pair in pairs for a in pair]
    results = pipeline.evaluate(triplets, both)
    parts = [*_without_judge(triplets, both, encoder), frames.to_frame(results, "EMS(LLM)", triplets)]
    if checker is not None:
        parts.append(frames.claims_frame(checker.check(triplets, both), checker.signature, triplets))
    by_id = {t.id: t for t in triplets}
    aligned = []
    for model in dict.fromkeys(a.model for a, _ in pairs):   # each with references of its own
        of_model = [(a, s) for a, s in pairs if a.model == model]
        as_references = [replace(by_id[a.triplet_id], reference=a.answer) for a, _ in of_model]
        aligned += pipeline.evaluate(as_references, [s for _, s in of_model])
    return pd.concat(parts, ignore_index=True), sorted(aligned, key=lambda r: len(r.ref_points))


def _without_judge(triplets: Sequence[Triplet], answers: Sequence[Answer], encoder: Encoder | None
                   ) -> list[pd.DataFrame]:
    texts = texts_of(triplets, answers)
    scored = {("BLEU", "Score", BLEU_SIGNATURE): bleu(*texts),
              ("ROUGE", "F1", "rouge:rougeL,stemmed"): [f1 for *_, f1 in rouge(*texts, ["rougeL"])["rougeL"]]}
    if encoder is not None:
        scored["BERTScore", "Score", f"bertscore:{encoder.signature}"] = bertscore(*texts, encoder)
    local = build(None, "local").evaluate(triplets, answers)
    return [*(frames.values_frame(answers, values, *named, triplets) for named, values in scored.items()),
            frames.to_frame(local, "EMS(local)", triplets)]


def kept(values: pd.DataFrame) -> pd.DataFrame:
    """What shortened answers keep of each metric's value, a row a metric and part, over pairs with both.

    detailed, shortened: means; share: shortened / detailed; lost: mean paired difference, with ci_low,
    ci_high, p (of the interval and test of `stats.paired`); n, the pairs, of all models together.
    """
    model, short = values["model"].str.removesuffix(SUFFIX), values["model"].str.endswith(SUFFIX)
    pairs = values.assign(triplet_id=values["triplet_id"] + " " + model,
                          model=short.map({True: "shortened", False: "detailed"}))
    table = paired_table(pairs, models=["shortened", "detailed"]).set_index(["metric", "part"])
    wide = pairs.pivot(index=["metric", "part", "triplet_id"], columns="model", values="value").dropna()
    means = wide.groupby(level=["metric", "part"]).mean().reindex(table.index)[["detailed", "shortened"]]
    frame = means.assign(share=means["shortened"] / means["detailed"]).rename_axis(columns=None)
    return frame.join(table.rename(columns={"difference": "lost"})[["lost", "ci_low", "ci_high", "p", "n"]])
