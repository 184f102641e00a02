"""How large should a point be, and which of the paper's choices help? One choice changed at a time.

The paper asks for points of at most two sentences, keeps repetitions and removes summaries (A.3), and tests
none of it. Here points are sentences in a row, cut by rules; then a judge matches and scores them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

import ems
from ems.analysis.frames import to_frame
from ems.extract import Extractor, LLMExtractor
from ems.io import parse_jsonl, read_lines
from ems.judge import Judge, Request, reply_schema
from ems.local.sentences import SentenceExtractor
from ems.local.words import WordMatcher
from ems.metrics import ems_scores
from ems.pipeline import Evaluator, is_lost
from ems.prompts import Prompts, numbered
from ems.reading import parsed, read_index, read_score
from ems.results import EMSResult
from ems.score import rouge_scorer, scale
from ems.types import Answer, Points, Triplet

from . import agreement, by_hash, recorded
from .datasets import KEYS

BASE, SUMMARIES = "points of 1 sentence", "summaries kept"
PROMPTS = Path(__file__).parent / "prompts"
PAIRS_SCHEMA = reply_schema("pairs", {"type": "array", "items": {"type": "integer"}})
MAX_SCORE = 10
JUDGED = "the judge's points"


def as_prose(triplets: Sequence[Triplet], path: Path) -> list[Triplet]:
    """The triplets with other references, from JSON lines of id and reference; those that the file has."""
    prose = {row["id"]: row["reference"] for _, row in parse_jsonl(read_lines(path), path)}
    return [replace(t, reference=prose[t.id]) for t in triplets if t.id in prose]


class Sentences:
    """So many sentences in a row as a point, across the ends of paragraphs and list entries."""

    def __init__(self, size: int = 1, keep_summaries: bool = False, keep_repeats: bool = True):
        self.size, self.keep_repeats = size, keep_repeats
        self.sentences = SentenceExtractor(keep_summaries=keep_summaries)
        repeats = "" if keep_repeats else ",no repeats"
        self.signature = f"{self.sentences.signature},{size} a point{repeats}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        """Points of each text; a text without a sentence has none."""
        cut: list[Points | None] = []
        for points in self.sentences(texts):
            rows = list(points or ()) if self.keep_repeats else list(dict.fromkeys(points or ()))
            cut.append(
                tuple(" ".join(rows[i : i + self.size]) for i in range(0, len(rows), self.size))
            )
        return cut


CHOICES: dict[str, Callable[[], Extractor]] = {
    BASE: Sentences,
    "points of 2 sentences": lambda: Sentences(2),
    "points of 3 sentences": lambda: Sentences(3),
    "points are paragraphs": lambda: SentenceExtractor(unit="paragraph"),
    "repeats dropped": lambda: Sentences(keep_repeats=False),
    SUMMARIES: lambda: Sentences(keep_summaries=True),
}


def values(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> pd.DataFrame:
    """Values of every choice, without a judge, of the answers to these triplets.

    Metrics: `EMS(ROUGE): ...` and `Coverage(local): ...`.
    Coverage(local) counts a text's words once, however they are cut into points: of the choices only
    summaries can change it.
    """
    ids = {t.id for t in triplets}
    answers = [a for a in answers if a.triplet_id in ids]
    frames = [
        to_frame(
            ems.EMS(extractor(), WordMatcher(), rouge_scorer()).evaluate(triplets, answers),
            f"EMS(ROUGE): {name}",
        )
        for name, extractor in CHOICES.items()
    ]
    frames += [
        to_frame(
            ems.Coverage(CHOICES[name]()).evaluate(triplets, answers), f"Coverage(local): {name}"
        )
        for name in (BASE, SUMMARIES)
    ]
    return pd.concat(frames, ignore_index=True)


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    """F1 of each metric as a column, a row per answer: what data/human keeps."""
    f1 = frame[frame["part"] == "F1"]
    table = f1.pivot_table(index=KEYS, columns="metric", values="value", sort=False)
    return table.reset_index()


def agreement_of_choices(
    stored: pd.DataFrame, labels: pd.DataFrame, **settings: Any
) -> pd.DataFrame:
    """How each choice agrees with the annotators' overall preference, and its change against `BASE`.

    `stored` is a table of `wide` about RAGChecker's answers, `labels` its annotators' (`settings` are the
    bootstrap's). Index: metric. Columns: spearman; change with its 95 % interval; clear: above, below or no.
    """
    tables = []
    for form in ("EMS(ROUGE)", "Coverage(local)"):
        names = {name: f"{name} F1" for name in stored if name.startswith(form)}
        scores = stored[[*KEYS, *names]].rename(columns=names)
        found = agreement.pair_agreement(labels, scores, against=f"{form}: {BASE}", **settings)
        tables.append(
            found.query("asked == 'overall' and measure == 'Spearman'").iloc[: len(names)]
        )
    columns = {
        "value": "spearman",
        "difference": "change",
        "difference_low": "change_low",
        "difference_high": "change_high",
        "clear": "clear",
    }
    return pd.concat(tables).set_index("metric")[list(columns)].rename(columns=columns)


# --- points of one, two and three sentences, matched and scored by a judge in one call ---


Pair = tuple[int | None, float | None]  # match and score of a reference point


class OneCall(Evaluator[EMSResult]):
    """EMS whose judge matches and scores all reference points of an answer in one call.

    A match or score that is not on offer leaves its reference point unscored; a reply without exactly one
    pair a point, all of them.
    """

    def __init__(self, extractor: Extractor, judge: Judge):
        self.extractor, self.judge, self.prompts = extractor, judge, Prompts(PROMPTS)
        self._failures: Counter[str] = Counter()
        signature = self.prompts.signature("match_and_score")
        super().__init__(
            extract=extractor,
            match_and_score=SimpleNamespace(
                signature=signature, judge=judge, failures=self._failures
            ),
        )

    def batch(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]) -> list[EMSResult]:
        """One result an answer; an answer without points costs no call."""
        results = self.points_of(self.extractor, triplets, answers)
        asked = [i for i, r in enumerate(results) if r.ref_points and r.ans_points]
        replies = self.judge.ask(
            [self._request(results[i]) for i in asked], "match and score points"
        )
        for i, reply in zip(asked, replies, strict=True):
            count = len(results[i].ref_points)
            read = partial(read_pairs, count=count, n_points=len(results[i].ans_points))
            pairs = parsed(reply, read, "match and score", self._failures)
            results[i] = _with_pairs(results[i], pairs or [(None, None)] * count)
        for i, r in enumerate(results):
            if i not in asked and not is_lost(r):
                results[i] = _with_pairs(r, [(-1, 0.0)] * len(r.ref_points))
        return [replace(r, signature=self.signature) for r in results]

    def _request(self, r: EMSResult) -> Request:
        prompt = self.prompts.fill(
            "match_and_score",
            references=numbered(r.ref_points),
            candidates=numbered(r.ans_points),
            **scale(MAX_SCORE),
        )
        return Request("match and score", prompt, 32 + 16 * len(r.ref_points), PAIRS_SCHEMA)


def read_pairs(text: str, count: int, n_points: int) -> list[Pair] | None:
    """Match and score of `count` reference points from `{"pairs": [[match, score], ...]}`, else None.

    A match other than -1 .. n_points - 1, and a score other than a whole number 0 .. 10, is None.
    """
    try:
        pairs = [
            (read_index(str(match), n_points), read_score(str(score), MAX_SCORE))
            for match, score in json.loads(text)["pairs"]
        ]
    except (ValueError, TypeError, KeyError):
        return None
    return pairs if len(pairs) == count else None


def _with_pairs(r: EMSResult, pairs: Sequence[Pair]) -> EMSResult:
    match, score = tuple(match for match, _ in pairs), tuple(score for _, score in pairs)
    m = ems_scores(match, score, len(r.ans_points))
    return replace(
        r,
        match=match,
        score=score,
        recall=m.recall,
        precision=m.precision,
        f1=m.f1,
        unscored=m.unscored,
        reason=m.reason,
    )


def one_a_group(triplets: Iterable[Triplet], groups: int | None = None) -> list[Triplet]:
    """One triplet of each of so many groups or of all, always the same ones: drawn by a hash of their ids."""
    first: dict[str, Triplet] = {}
    for t in drawn(triplets):
        first.setdefault(t.group, t)
    return list(first.values())[:groups]


def drawn(triplets: Iterable[Triplet], number: int = 0) -> list[Triplet]:
    """So many triplets in the order of the hashes of their ids; 0 for all."""
    return by_hash(triplets, lambda t: t.id)[: number or None]


def by_grain(
    judge: Judge, triplets: Sequence[Triplet], answers: Sequence[Answer], groups: int = 6
) -> dict[str, list[EMSResult]]:
    """Answers to one triplet of each of so many groups, judged in one call on the judge's points (`JUDGED`)
    and on points of 1 to 3 sentences; without those that a replay lacks. {} where a form has none.
    """
    few = {t.id for t in one_a_group(triplets, groups)}
    grains: dict[str, Extractor] = {
        JUDGED: LLMExtractor(judge),
        "1 sentence": Sentences(1),
        "2 sentences": Sentences(2),
        "3 sentences": Sentences(3),
    }
    asked = [a for a in answers if a.triplet_id in few]
    results = {name: recorded(OneCall(cut, judge), triplets, asked) for name, cut in grains.items()}
    return results if all(results.values()) else {}


def shared(grains: Mapping[str, Sequence[EMSResult]]) -> pd.DataFrame:
    """F1 of the answers that all forms of `by_grain` have, as a frame of values; the metric is the form."""
    keys = set.intersection(*({(r.triplet_id, r.model) for r in rows} for rows in grains.values()))
    both = {
        name: [r for r in rows if (r.triplet_id, r.model) in keys] for name, rows in grains.items()
    }
    return to_frame(both).query("part == 'F1'")
