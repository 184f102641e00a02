"""Scores of the labelled sets, made from their texts; `agreement` has the form of the tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from ems.analysis.frames import FIGURES_METRIC, to_frame
from ems.baselines import RAGChecker
from ems.coverage import Coverage
from ems.evaluators import build
from ems.judge.client import LLMJudge, MissingReplies
from ems.local.encoder import Encoder
from ems.local.sentences import SentenceExtractor
from ems.results import CoverageResult, EMSResult
from ems.score import bleu, rouge
from ems.terminal import notify
from ems.types import Answer, Triplet

from . import ROOT, by_hash, read_frames, write_csv
from .agreement import (
    COVERAGE_JUDGED,
    EMS_JUDGED,
    EMS_ROUGE,
    SENTENCES,
    UNCONTRADICTED,
    stored,
    without_refusals,
)
from .datasets import KEYS, POINT_KEYS, SETS, LabelledSet

THREE_PARTS = ("Precision", "Recall", "F1")
HUMAN = ROOT / "data" / "human"
BODIES = HUMAN / "bodies.csv"


class SentenceClaims(RAGChecker):
    """RAGChecker's check of each sentence of both sides, in place of claims that a judge lists."""

    def _claims(self, texts: Any) -> Any:
        questions_and_texts = list(texts)
        sentences = SentenceExtractor()([text for _, text in questions_and_texts])
        return dict(zip(questions_and_texts, sentences, strict=True))


def rescore(
    name: str,
    fallback: Path,
    to: Path,
    encoder: Encoder | None = None,
    judge: LLMJudge | None = None,
) -> None:
    """Score one of `SETS` from its texts; write its labels and scores to the folder `to`.

    Scores have five decimals. What is not computed (BERTScore without an encoder, a judge's metrics
    without a judge) is taken from the folder `fallback`, joined by id.
    """
    labelled_set = SETS[name]
    triplets, answers, labels = labelled_set.load()
    if labelled_set.about == "points":
        keys, scores = POINT_KEYS, score_points(triplets, answers)
    else:
        keys, scores = KEYS, score_answers(triplets, answers, encoder)
    tables = []
    if labelled_set.published:
        tables.append(labelled_set.published())
    if judge is not None:
        sample = answers_to_judge(answers, labels, labelled_set.judged)
        tables += score_by_judge(triplets, sample, judge, labelled_set)
    if (fallback / f"{name}_scores.csv").is_file():  # a new set has none yet
        tables.append(stored(name, fallback)[1])
    for table in tables:
        new = [column for column in table if column in keys or column not in scores]
        scores = scores.merge(table[new], on=keys, how="left", validate="one_to_one")
    if labelled_set.about == "systems":
        wide = labels.pivot(index=["triplet_id", "group"], columns="model", values="correct")
        labels = wide.astype(int).reset_index()
    write_csv(to / f"{name}_labels.csv", labels)
    write_csv(to / f"{name}_scores.csv", scores.round(5))


def score_answers(
    triplets: Sequence[Triplet], answers: Sequence[Answer], encoder: Encoder | None = None
) -> pd.DataFrame:
    """Every metric that needs no judge, by answer; EMS is on sentence points, matched by words."""
    reference_of = {t.id: t.reference for t in triplets}
    references = [reference_of[a.triplet_id] for a in answers]
    texts = [a.answer for a in answers]
    table = pd.DataFrame([(a.triplet_id, a.model) for a in answers], columns=KEYS)
    table["length Score"] = [len(text.split()) for text in texts]
    table["BLEU Score"] = bleu(references, texts)
    for kind, values in rouge_kinds(references, texts).items():
        table[[f"{kind} {part}" for part in THREE_PARTS]] = values
    if encoder is not None:
        table["BERTScore Score"] = encoder.bertscore(references, texts)
    results = {
        EMS_ROUGE: build(scorer="rouge").evaluate(triplets, answers),
        "Coverage(local)": build().evaluate(triplets, answers),
        FIGURES_METRIC: [],
    }
    return table.merge(by_answer(results), on=KEYS)


def rouge_kinds(
    references: Sequence[str], answers: Sequence[str]
) -> dict[str, list[tuple[float, float, float]]]:
    """ROUGE-1, ROUGE-2 and ROUGE-L (precision, recall, F1) of each answer, as rouge-score's."""
    kinds = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
    return {name: rouge(references, answers, kind) for name, kind in kinds.items()}


def score_points(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """Every metric that needs no judge, for every given point."""
    by_rouge = _by_point(EMS_ROUGE, build(scorer="rouge").evaluate(triplets, answers))
    by_words = _by_point("Coverage(local)", build().evaluate(triplets, answers))
    return by_rouge.merge(by_words, on=POINT_KEYS, validate="one_to_one")


def score_by_judge(
    triplets: Sequence[Triplet],
    answers: Sequence[Answer],
    judge: LLMJudge,
    labelled_set: LabelledSet,
) -> list[pd.DataFrame]:
    """A table per metric of the judge: a row per answer, or per given point.

    Where the judge only replays, a metric whose replies are not all recorded is left out.
    """
    if labelled_set.judge_extracts:
        runs = _runs_on_extracted_points(triplets, answers, judge)
    else:
        runs = _runs_on_sentences(triplets, answers, judge, labelled_set.about)
    tables = []
    for metric, evaluator, *texts in runs:
        try:
            results = evaluator.evaluate(*texts)
        except MissingReplies as error:
            notify(f"{metric} is left out: {str(error).partition(';')[0]}")
            continue
        if labelled_set.about == "points":
            tables.append(_by_point(metric, results))
        else:
            tables.append(by_answer({metric: results}))
        if metric == "Coverage(LLM)":
            tables.append(_uncontradicted(results))
    return tables


def _runs_on_extracted_points(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: LLMJudge
) -> list[Any]:
    """(metric, evaluator, triplets, answers) of each metric; the judge extracts the points."""
    evaluators = {
        "EMS(LLM)": build(judge, joint=True),
        "Coverage(LLM)": build(judge, "coverage"),
        "RAGChecker": build(judge, "ragchecker"),
        "Judge alone": build(judge, "judge"),
    }
    return [(metric, evaluator, triplets, answers) for metric, evaluator in evaluators.items()]


def _runs_on_sentences(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: LLMJudge, about: str
) -> list[Any]:
    """The same on sentence points. `about` is as in `SETS`.

    The judge alone is not asked about points, and RAGChecker's check is asked about systems only.
    """
    whole = triplets, answers
    triplets, answers = as_recorded(triplets, answers)
    extractor = SentenceExtractor()
    runs: list[Any] = [
        (EMS_JUDGED, build(judge, joint=True, extractor=extractor), triplets, answers),
        (COVERAGE_JUDGED, Coverage(extractor, judge), triplets, answers),
    ]
    if about != "points":
        runs.append(("Judge alone", build(judge, "judge"), *whole))
    if about == "systems":
        runs.append((SENTENCES, SentenceClaims(judge), triplets, answers))
    return runs


def as_recorded(
    triplets: Sequence[Triplet], answers: Sequence[Answer]
) -> tuple[list[Triplet], list[Answer]]:
    """The triplets and answers with the `recorded_text` of references and answers."""
    bodies = read_frames(BODIES).set_index("text")
    return (
        [replace(t, reference=recorded_text(t.reference, bodies)) for t in triplets],
        [replace(a, answer=recorded_text(a.answer, bodies)) for a in answers],
    )


def recorded_text(text: str, bodies: pd.DataFrame) -> str:
    """The part of a text that was cut into points when its replies were recorded.

    The rules for opening and closing summaries were others then. `bodies` has the few texts where
    that makes a difference: 16 hex digits of the text's SHA-256, start and end of the part.
    """
    digits = hashlib.sha256(text.encode()).hexdigest()[:16]
    if digits not in bodies.index:
        return text
    return text[bodies.loc[digits, "start"] : bodies.loc[digits, "end"]]


def answers_to_judge(
    answers: Sequence[Answer], labels: pd.DataFrame, of_each: int | None
) -> list[Answer]:
    """The answers that a judge reads: `of_each` correct and as many incorrect ones; None means all.

    They are the first by the SHA-256 of "triplet_id|model", one per question and label. Refusals
    state nothing and are left out.
    """
    if of_each is None:
        return list(answers)
    rows = without_refusals(labels)
    names = rows["triplet_id"] + "|" + rows["model"]
    rows = rows.loc[by_hash(rows.index, names.get)]
    rows = rows.drop_duplicates(["triplet_id", "correct"]).groupby("correct").head(of_each)
    keys = set(rows[KEYS].itertuples(index=False, name=None))
    return [a for a in answers if (a.triplet_id, a.model) in keys]


def by_answer(results: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """A row per answer, from results by metric: one value of a metric, or its three parts.

    Figures have their precision and recall, nan where a side has none, if they are a key of
    `results`; theirs may be empty, since the results of other metrics have the figures.
    """
    values = to_frame(results)
    is_shown = values["part"].isin([*THREE_PARTS, "Score"]) & values["metric"].isin(results)
    values = values[is_shown]
    columns = values["metric"] + " " + values["part"]
    table = values.set_index([*KEYS, columns])["value"].unstack()
    return table[columns.unique()].reset_index()


def _uncontradicted(results: Sequence[CoverageResult]) -> pd.DataFrame:
    """A row per answer: 1 minus the share of reference points that it contradicts."""
    rows = []
    for r in results:
        share = len(r.contradicted) / len(r.ref_points) if r.ref_points else nan
        rows.append((r.triplet_id, r.model, 1 - share))
    return pd.DataFrame(rows, columns=[*KEYS, UNCONTRADICTED])


def _by_point(metric: str, results: Sequence[EMSResult | CoverageResult]) -> pd.DataFrame:
    """A row per reference point: its score by the metric."""
    rows = []
    for result in results:
        scores = result.ref_score if isinstance(result, CoverageResult) else result.score
        for unit, score in enumerate(scores):
            rows.append((result.triplet_id, result.model, unit, score))
    return pd.DataFrame(rows, columns=[*POINT_KEYS, f"{metric} Score"])
