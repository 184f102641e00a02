"""How large should a point be, and which of the paper's choices help? One choice changed at a time.

The paper asks for points of at most two sentences, keeps repetitions and removes summaries (A.3),
and tests none of it. Here points are sentences in a row, cut by rules; then a judge matches and
scores them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import ems
from ems.analysis.findings import series
from ems.analysis.frames import to_frame
from ems.custom import as_stage
from ems.extract import Extractor, LLMExtractor
from ems.judge import Judge, JudgeStage, Request, reply_schema
from ems.local.sentences import SentenceExtractor
from ems.local.words import WordMatcher
from ems.metrics import ems_scores
from ems.pipeline import Evaluator, is_lost
from ems.prompts import Prompts, numbered
from ems.reading import read_number, read_score
from ems.results import EMSResult
from ems.score import rouge_scorer, scale
from ems.types import Answer, Points, Triplet

from . import agreement, by_hash, recorded
from .datasets import KEYS

BASE = "points of 1 sentence"
_PROMPTS = Path(__file__).parent / "prompts"
_PAIRS_SCHEMA = reply_schema("pairs", {"type": "array", "items": {"type": "integer"}})
_MAX_SCORE = 10
JUDGE_POINTS = "the judge's points"

# What a judge gives a reference point: its match and its score; None for one that is not allowed.
MatchAndScore = tuple[int | None, float | None]


class Sentences:
    """An extractor whose points are `size` sentences in a row.

    A point may go on after the end of a paragraph or list entry.
    """

    def __init__(self, size: int = 1, keep_summaries: bool = False, keep_repeats: bool = True):
        self.size, self.keep_repeats = size, keep_repeats
        self.sentences = SentenceExtractor(keep_summaries=keep_summaries)
        repeats = "" if keep_repeats else ",no repeats"
        self.signature = f"{self.sentences.signature},{size} a point{repeats}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        """Points of each text; a text without a sentence has none."""
        extracted: list[Points | None] = []
        for sentences in self.sentences(texts):
            sentences = sentences or ()
            if not self.keep_repeats:
                sentences = tuple(dict.fromkeys(sentences))
            starts = range(0, len(sentences), self.size)
            extracted.append(tuple(" ".join(sentences[i : i + self.size]) for i in starts))
        return extracted


CHOICES: dict[str, Extractor] = {
    BASE: Sentences(),
    "points of 2 sentences": Sentences(2),
    "points of 3 sentences": Sentences(3),
    "points are paragraphs": SentenceExtractor(unit="paragraph"),
    "repeats dropped": Sentences(keep_repeats=False),
    "summaries kept": Sentences(keep_summaries=True),
}


def values_by_choice(
    triplets: Sequence[Triplet], answers: Sequence[Answer], own: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Values of every choice, without a judge, of the answers to these triplets.

    Metrics: `EMS(ROUGE): ...` and `Coverage(local): ...`. Coverage(local) counts a word of a text
    once, but a figure that the other text lacks costs up to half of its whole point. `own` maps
    names of further choices to extractors or their import paths.
    """
    ids = {t.id for t in triplets}
    answers = [a for a in answers if a.triplet_id in ids]
    choices = CHOICES | {name: as_stage(given, "extractor") for name, given in (own or {}).items()}
    evaluators: dict[str, Evaluator[Any]] = {}
    for name, extractor in choices.items():
        evaluators[f"EMS(ROUGE): {name}"] = ems.EMS(extractor, WordMatcher(), rouge_scorer())
    for name, extractor in choices.items():
        evaluators[f"Coverage(local): {name}"] = ems.Coverage(extractor)
    return to_frame({name: one.evaluate(triplets, answers) for name, one in evaluators.items()})


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    """F1 of each metric as a column, a row per answer, as in data/human/granularity_scores.csv."""
    f1 = frame[frame["part"] == "F1"]
    return f1.pivot_table(index=KEYS, columns="metric", values="value", sort=False).reset_index()


def agreement_of_choices(
    stored: pd.DataFrame, labels: pd.DataFrame, **settings: Any
) -> pd.DataFrame:
    """How each choice agrees with annotators' overall preference, and its change against `BASE`.

    `stored` is a table of `wide` about RAGChecker's answers, `labels` those of its annotators;
    `settings` are those of the bootstrap. Index: metric. Columns: spearman; change with its 95 %
    interval and p_holm, over the changes of EMS(ROUGE) or of Coverage(local); clear: above, below
    or no.
    """
    tables = []
    for form in ("EMS(ROUGE)", "Coverage(local)"):
        names = {name: f"{name} F1" for name in stored if name.startswith(form)}
        scores = stored[[*KEYS, *names]].rename(columns=names)
        table = agreement.pair_agreement(labels, scores, against=f"{form}: {BASE}", **settings)
        table = table.query("asked == 'overall' and measure == 'Spearman'")
        tables.append(table.iloc[: len(names)])  # the rows after them are not of metrics
    columns = {
        "value": "spearman",
        "difference": "change",
        "difference_low": "change_low",
        "difference_high": "change_high",
        "p_holm": "p_holm",
        "clear": "clear",
    }
    return pd.concat(tables).set_index("metric")[list(columns)].rename(columns=columns)


def choice_findings(choices: pd.DataFrame) -> list[str]:
    """Sentences: which choices agree with people clearly better or worse than `BASE`.

    `choices` is a table of `agreement_of_choices`.
    """
    tested = choices[choices["clear"].isin(["above", "below", "no"])]
    sentences = []
    for word, side in (("better", "above"), ("worse", "below")):
        changes = [
            f"{row.Index} {row.change:+.3f} [{row.change_low:+.3f}, {row.change_high:+.3f}]"
            for row in tested[tested["clear"] == side].itertuples()
        ]
        if changes:
            sentences.append(
                f"{len(changes)} of {len(tested)} changed choices agree with people clearly {word} "
                f"than {BASE}: {series(changes)}."
            )
    if not sentences:
        sentences.append(
            f"None of {len(tested)} changed choices agrees with people clearly better or worse "
            f"than {BASE}."
        )
    return sentences


# --- points that a judge matches and scores in one call ---


class OneCall(Evaluator[EMSResult]):
    """EMS whose judge matches and scores all reference points of an answer in one call.

    A match or score that is not allowed leaves its reference point unscored. A reply that has not
    exactly one pair for each reference point leaves all of them unscored.
    """

    def __init__(self, extractor: Extractor, judge: Judge):
        self.extractor = extractor
        self.stage = JudgeStage(judge, Prompts(_PROMPTS))
        self.stage.signature = self.stage.prompts.signature("match_and_score")
        super().__init__(extract=extractor, match_and_score=self.stage)

    def batch(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]) -> list[EMSResult]:
        """One result an answer; an answer without points costs no call."""
        extracted = self.points_of(self.extractor, triplets, answers)
        requests = [self._request(r) for r in extracted if r.ref_points and r.ans_points]
        replies = iter(self.stage.ask_and_read(requests, "match and score points"))
        results = []
        for r in extracted:
            if r.ref_points and r.ans_points:
                r = _with_pairs(r, next(replies) or [(None, None)] * len(r.ref_points))
            elif not is_lost(r):
                r = _with_pairs(r, [(-1, 0.0)] * len(r.ref_points))
            results.append(replace(r, signature=self.signature))
        return results

    def _request(self, r: EMSResult) -> Request:
        prompt = self.stage.prompts.fill(
            "match_and_score",
            references=numbered(r.ref_points),
            candidates=numbered(r.ans_points),
            **scale(_MAX_SCORE),
        )
        count = len(r.ref_points)
        read = partial(read_pairs, count=count, n_points=len(r.ans_points))
        return Request("match and score", prompt, 32 + 16 * count, _PAIRS_SCHEMA, read=read)


def read_pairs(text: str, count: int, n_points: int) -> list[MatchAndScore] | None:
    """What `{"pairs": [[match, score], ...]}` says of `count` reference points, else None.

    A match other than -1 .. n_points - 1, and a score other than a whole number 0 .. 10, is None.
    """
    try:
        pairs = [
            (read_number(match, -1, n_points - 1), read_score(score, _MAX_SCORE))
            for match, score in json.loads(text)["pairs"]
        ]
    except (ValueError, TypeError, KeyError):
        return None
    return pairs if len(pairs) == count else None


def _with_pairs(r: EMSResult, pairs: Sequence[MatchAndScore]) -> EMSResult:
    match = tuple(match for match, _ in pairs)
    score = tuple(score for _, score in pairs)
    metrics = ems_scores(match, score, len(r.ans_points))
    return replace(r, match=match, score=score, **asdict(metrics))


def one_a_group(triplets: Iterable[Triplet]) -> list[Triplet]:
    """One triplet of each group; the hashes of their ids decide which, and in which order."""
    first: dict[str, Triplet] = {}
    for t in drawn(triplets):
        first.setdefault(t.group, t)
    return list(first.values())


def drawn(triplets: Iterable[Triplet], number: int = 0) -> list[Triplet]:
    """So many triplets in the order of the hashes of their ids; 0 for all."""
    return by_hash(triplets, lambda t: t.id)[: number or None]


def in_one_call(
    judge: Judge, triplets: Sequence[Triplet], answers: Sequence[Answer]
) -> list[EMSResult]:
    """Answers to one triplet of each of six groups, on the judge's points, by `OneCall`.

    A replay leaves out answers whose replies it lacks.
    """
    ids = {t.id for t in one_a_group(triplets)[:6]}
    answers = [a for a in answers if a.triplet_id in ids]
    return recorded(OneCall(LLMExtractor(judge), judge), triplets, answers)
