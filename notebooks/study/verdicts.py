"""Answers of the sixteen systems: without the words that name a verdict, and judged a second time.

The reference of a refuted claim states the verdict, and so do most answers. Is one number for a
whole answer ahead of EMS because it compares verdicts? Both judge the same answers without the
words of data/human/verdict_words.txt. The scores of both studies are committed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pandas as pd

import ems
from ems.analysis.findings import series
from ems.io import read_text
from ems.judge.client import LLMJudge
from ems.local.sentences import SentenceExtractor
from ems.types import Answer, Points, Triplet

from . import by_hash
from .agreement import EMS_JUDGED
from .datasets import KEYS, SETS, findver_systems
from .rescoring import HUMAN, by_answer, score_by_judge

N_MASKED, N_AGAIN = 160, 120  # answers, the first by hash
MASK = "[...]"


# --- texts ---


@cache
def _verdict_words() -> re.Pattern[str]:
    """A word that names a verdict, with the words before it that would show a denial."""
    verb = r"(?:do|does|did|is|are|was|were|be|been|has|have|can|could|cannot)(?:n['\u2019]t)?"
    adverb = r"(?:not|never|be|been|being|also|therefore|directly|neither|either)"
    before = rf"(?:{verb}\s+)?(?:{adverb}\s+)*(?:(?!only\b)\w+ly\s+)?"
    words = "|".join(read_text(HUMAN / "verdict_words.txt").split())
    return re.compile(rf"{before}(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


def masked(text: str) -> str:
    """The text with `MASK` in place of every word that names a verdict."""
    return _verdict_words().sub(MASK, text)


class MaskedSentences:
    """An extractor: points are the masked sentences of the text."""

    signature = "sentences, masked"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        return [tuple(map(masked, points or ())) for points in SentenceExtractor()(texts)]


def drawn_answers(number: int) -> tuple[list[Triplet], list[Answer]]:
    """The triplets of FinDVer's sixteen systems, and so many of their answers, drawn by hash."""
    triplets, answers, _ = findver_systems()
    return triplets, by_hash(answers, lambda a: f"{a.triplet_id}|{a.model}")[:number]


# --- scores ---


def masked_scores(judge: LLMJudge) -> pd.DataFrame:
    """The judge alone and EMS(LLM) of the masked answers: data/human/masked_scores.csv.

    EMS has sentence points, which are masked after the texts are cut.
    """
    triplets, answers = drawn_answers(N_MASKED)
    without_verdict = (
        [replace(t, reference=masked(t.reference)) for t in triplets],
        [replace(a, answer=masked(a.answer)) for a in answers],
    )
    one_number = ems.build(judge, "judge").evaluate(*without_verdict)
    pipeline = ems.build(judge, joint=True, extractor=MaskedSentences())
    aligned = pipeline.evaluate(triplets, answers)
    table = by_answer("Judge alone", one_number)
    return table.merge(by_answer(EMS_JUDGED, aligned), on=KEYS).round(5)


def again_scores(first: LLMJudge, again: LLMJudge) -> pd.DataFrame:
    """The metrics of the judge in a second judgement of answers: data/human/again_scores.csv.

    `matched` counts the reference points that `first` or `again` matches, `same` those of them with
    the same match in both judgements.
    """
    triplets, answers = drawn_answers(N_AGAIN)
    aligned = []
    for judge in (first, again):
        pipeline = ems.build(judge, joint=True, extractor=SentenceExtractor())
        aligned.append(pipeline.evaluate(triplets, answers))
    counts = []
    for a, b in zip(*aligned, strict=True):
        pairs = [pair for pair in zip(a.match, b.match, strict=True) if pair != (-1, -1)]
        counts.append((a.triplet_id, a.model, len(pairs), sum(x == y for x, y in pairs)))
    table = pd.DataFrame(counts, columns=[*KEYS, "matched", "same"])
    for of_metric in score_by_judge(triplets, answers, again, SETS["findver"]):
        table = table.merge(of_metric, on=KEYS)
    return table.round(5)


# --- findings ---


def masked_findings(table: pd.DataFrame) -> list[str]:
    """A sentence: is one number ahead of EMS without the words that name the verdict?

    `table` has two rows of `agreement.answer_agreement`, of the judge alone against EMS; their
    column `texts` is "masked" and "as written".
    """
    words = {"above": "clearly above", "below": "clearly below", "no": "not clearly different from"}
    told = {}
    for row in table.itertuples():
        told[row.texts] = (
            f"{row.value:.2f} and {row.value - row.difference:.2f}, difference "
            f"{row.difference:.2f} [{row.difference_low:.2f}, {row.difference_high:.2f}]"
        )
    masked_row = table.set_index("texts").loc["masked"]
    return [
        f"Without the words that name a verdict, the judge alone is {words[masked_row['clear']]} "
        f"EMS(LLM) F1 in telling right from wrong verdicts of {masked_row['n']} answers (AUC "
        f"{told['masked']}; with these words {told['as written']})."
    ]


def again_findings(again: pd.DataFrame, masked: pd.DataFrame) -> list[str]:
    """Sentences from tables of `reliability.changes` by metric: judged again, and masked."""
    one = [f"{100 * row.sd:.1f} for {row.Index}" for row in again.itertuples()]
    ratios = (masked["sd"] / again["sd"]).dropna()
    times = [f"{ratio:.1f} times as much for {name}" for name, ratio in ratios.items()]
    return [
        f"Judged a second time, {again['n'].min()} answers of the sixteen systems show the standard "
        f"deviation of one judgement: in points of 100, {series(one)}.",
        f"Masking the verdict changes a value {series(times)} as judging it a second time does "
        "(standard deviation of the change).",
    ]
