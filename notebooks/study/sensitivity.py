"""What costs what? References that were edited in known ways, read as answers to themselves.

The file of edited texts is committed; data/README.md says how each variant was made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import ems
from ems.analysis.frames import FIGURES_METRIC, to_frame
from ems.analysis.stats import with_verdicts
from ems.judge import Judge
from ems.local.encoder import Encoder
from ems.pipeline import Evaluator
from ems.score import bleu, rouge_l
from ems.types import Answer, Triplet

from . import COMMITTED, values_frame

UNEDITED, REWORDED = "unedited", "reworded"
# Variants that say something false, nearly in the words of the reference.
WRONG = (
    "a third of the figures changed",
    "all figures changed",
    "directions and names swapped",
    "negated",
)
# Every variant, and what a metric should make of it.
VARIANTS = {
    "half of the points deleted": "content lost: falls",
    WRONG[0]: "some figures wrong: falls",
    WRONG[1]: "figures wrong: falls",
    WRONG[2]: "statements wrong: falls",
    WRONG[3]: "statements wrong: falls",
    "padded": "more than was asked: precision falls",
    "shuffled": "same content in another order: nothing may fall",
    REWORDED: "same content in other words: nothing may fall",
}
METRICS = (  # in the order of tables and figures
    "BLEU",
    "ROUGE-L",
    "BERTScore",
    "RAGChecker",
    "EMS(ROUGE)",
    "Coverage(local)",
    FIGURES_METRIC,
    "EMS(LLM)",
    "Coverage(LLM)",
    "Judge alone",
)


def edited_texts(path: Path, number: int = 0) -> tuple[list[Triplet], list[Answer]]:
    """The first so many references of a file of edited texts, 0 for all, and their variants.

    An answer's model is the name of its variant.
    """
    answers = ems.load_answers(path)
    ids = list(dict.fromkeys(a.triplet_id for a in answers))[: number or None]
    triplets = [t for t in ems.load_triplets(COMMITTED / "triplets.jsonl") if t.id in ids]
    return triplets, [a for a in answers if a.triplet_id in ids]


def variant_values(
    triplets: Sequence[Triplet],
    answers: Sequence[Answer],
    judge: Judge | None = None,
    encoder: Encoder | None = None,
) -> pd.DataFrame:
    """One value of each of `METRICS` for each answer: F1, or the only value, or figures' recall.

    Without a judge the metrics of a judge are left out, and the points of EMS(ROUGE) are sentences;
    without an encoder BERTScore is left out. Metrics of whole texts read them without list marks,
    because the edits dropped these.
    """
    plain_triplets = [replace(t, reference=_without_list_marks(t.reference)) for t in triplets]
    plain_answers = [replace(a, answer=_without_list_marks(a.answer)) for a in answers]
    evaluators = point_evaluators(judge)
    if judge is not None:
        evaluators["RAGChecker"] = ems.build(judge, "ragchecker")
    results = {metric: one.evaluate(triplets, answers) for metric, one in evaluators.items()}
    frames = [whole_text_values(plain_triplets, plain_answers, encoder), to_frame(results)]
    return main_values(pd.concat(frames, ignore_index=True))


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


def main_values(values: pd.DataFrame) -> pd.DataFrame:
    """The rows of F1, of a metric's only value, and of the recall of figures."""
    is_recall_of_figures = (values["metric"] == FIGURES_METRIC) & (values["part"] == "Recall")
    return values[values["part"].isin(["F1", "Score"]) | is_recall_of_figures]


def _without_list_marks(text: str) -> str:
    return re.sub(r"^- ", "", text, flags=re.MULTILINE)


def point_evaluators(judge: Judge | None) -> dict[str, Evaluator[Any]]:
    """What compares points; EMS(ROUGE) has the judge's points and matches, where there is one."""
    if judge is None:
        return {"EMS(ROUGE)": ems.build(scorer="rouge"), "Coverage(local)": ems.build()}
    return {
        "EMS(ROUGE)": ems.build(judge, "rouge", joint=True),
        "Coverage(local)": ems.build(),
        "EMS(LLM)": ems.build(judge, joint=True),
        "Coverage(LLM)": ems.build(judge, "coverage"),
        "Judge alone": ems.build(judge, "judge"),
    }


def losses(values: pd.DataFrame) -> pd.DataFrame:
    """How much each metric falls at each variant, in points of 100.

    A row per metric and variant: the value of the unedited text minus that of the variant. `loss`
    is the mean over companies, with its 95 % t interval. `text` is the loss with half its interval,
    as "7.9 ± 1.7". `clear`: the interval excludes 0, and p, adjusted by Holm over a metric's
    variants, is below 0.05. `should` says what a good metric does.
    """
    table = _differences(values, UNEDITED, VARIANTS)
    table["should"] = table["variant"].map(VARIANTS)
    return table.rename(columns={"difference": "loss"})


def reworded_minus_wrong(values: pd.DataFrame) -> pd.DataFrame:
    """How much higher the reworded text stands than each variant of `WRONG`, in points of 100.

    Columns as in `losses`, with `difference` in place of `loss`. Above 0 a metric prefers a right
    text in other words to a wrong text in the reference's words.
    """
    return _differences(values, REWORDED, WRONG)


def _differences(values: pd.DataFrame, model: str, variants: Iterable[str]) -> pd.DataFrame:
    """The value of `model` minus that of each variant, in points of 100.

    Metrics stand in the order of `METRICS`.
    """
    tables = [ems.paired_table(values, models=[variant, model]) for variant in variants]
    table = with_verdicts(pd.concat(tables, ignore_index=True)).rename(columns={"b": "variant"})
    numbers = ["difference", "ci_low", "ci_high"]
    table[numbers] *= 100
    half = (table["ci_high"] - table["ci_low"]) / 2
    table["text"] = list(map(_with_half, table["difference"], half))
    table["place"] = table["metric"].map(METRICS.index)
    columns = ["metric", "part", "variant", *numbers, "text", "p_holm", "clear", "n"]
    return table.sort_values("place", kind="stable", ignore_index=True)[columns]


def _with_half(difference: float, half: float) -> str:
    """A difference ± half its interval; without it where too few groups give no interval."""
    rounded = round(difference, 1) + 0.0  # so that no "-0.0" is written
    return f"{rounded:.1f}" if math.isnan(half) else f"{rounded:.1f} ± {half:.1f}"


def loss_findings(losses: pd.DataFrame, reworded: pd.DataFrame) -> list[str]:
    """Sentences made from the tables of `losses` and `reworded_minus_wrong`.

    Metrics that put the reworded text clearly above all wrong variants, or below all; then what
    BLEU and EMS(LLM) lose. A sentence without a metric is left out.
    """
    sentences = []
    for place, sign in (("above", 1), ("below", -1)):
        is_clear = reworded["clear"] & (sign * reworded["difference"] > 0)
        of_metric = is_clear.groupby(reworded["metric"], sort=False).all()
        metrics = ", ".join(of_metric.index[of_metric])
        if metrics:
            sentences.append(
                "These metrics put the right text in other words clearly "
                f"{place} each of the four wrong texts: {metrics}."
            )
    text = losses.set_index(["metric", "variant"])["text"]
    for metric in ("BLEU", "EMS(LLM)"):
        if (metric, REWORDED) in text:
            sentences.append(
                f"{metric} loses {text[metric, REWORDED]} points of 100 to other words, and "
                f"{text[metric, WRONG[1]]} where all figures are wrong."
            )
    return sentences
