"""Coverage: how far each point of one text is stated by the other text as a whole.

Nothing is matched. This is ours; it is not the paper's equation 7. Coverage(local) compares words
and numbers and asks nobody. Coverage(LLM) asks a judge twice for each answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from .custom import as_stage
from .judge import NUMBER_TOKENS, AnyJudge, JudgeStage, Request
from .local.words import SIGNATURE, foreign_language, word_overlap
from .metrics import coverage_scores
from .pipeline import Evaluator, is_lost
from .prompts import Prompts, numbered, sanitized
from .reading import read_numbers, read_rows, read_score
from .results import CoverageResult, EMSResult
from .score import SCORES_SCHEMA, scale
from .types import Answer, Points, Scores, Triplet, Triplets

COVERAGE_SCHEMA = SCORES_SCHEMA | {
    "properties": dict.fromkeys(("scores", "contradicted"), SCORES_SCHEMA["properties"]["scores"]),
    "required": ["scores", "contradicted"],
}
_Side = tuple[Points, str]  # the points of one text, and the other text
_Judgement = tuple[Scores, tuple[int, ...]]  # scores of points, and which are contradicted


class Coverage(Evaluator[CoverageResult]):
    """Recall, precision and F1 from how far each point is stated by the other text as a whole.

    The extractor may also be a plain function, or its import path (`custom`).
    Without a judge the points are compared by their words and numbers (`local.words`), and points
    weigh as much as their words. With a judge a point's score is a whole number from 0 to
    `max_score`, divided by `max_score`, and all points weigh the same. The judge is asked twice for
    an answer, once about the points of each side. A side without points, and one whose other text
    is empty, costs no call; its points score 0. Points that were given with the triplet keep their
    own weights. The judge also names the points that the other text contradicts, which does not
    change their scores.
    """

    def __init__(
        self,
        extractor: Any,
        judge: AnyJudge | None = None,
        prompts: Prompts | None = None,
        max_score: int = 10,
    ):
        self.extractor = as_stage(extractor, "extractor")
        self.max_score = max_score
        self.scale = scale(max_score)
        self.stage = None
        if judge is not None:
            self.stage = JudgeStage(judge, prompts)
            template = self.stage.prompts.signature("coverage")
            self.stage.signature = f"llm:{template},max={max_score}"
        by_words = SimpleNamespace(signature=SIGNATURE)
        super().__init__(extract=self.extractor, coverage=self.stage or by_words)

    def batch(self, triplets: Triplets, answers: Sequence[Answer]) -> list[CoverageResult]:
        """Extract the points of both sides, and score them."""
        results = self.points_of(self.extractor, triplets, answers)
        return self.of_results(results, triplets.values(), answers)

    def of_results(
        self, results: Sequence[EMSResult], triplets: Iterable[Triplet], answers: Iterable[Answer]
    ) -> list[CoverageResult]:
        """Coverage of the points that results have, which this extractor must have made.

        `triplets` and `answers` have the whole texts, in any order.
        """
        signature = self.signature
        coverages = [_without_scores(result, signature) for result in results]
        readable = [i for i, result in enumerate(results) if not is_lost(result)]
        unscored = [coverages[i] for i in readable]
        if self.stage is None:
            scored = [_by_words(coverage) for coverage in unscored]
        else:
            scored = self._by_judge(self.stage, unscored, triplets, answers)
        for i, coverage in zip(readable, scored, strict=True):
            coverages[i] = _with_metrics(coverage)
        return self._dated(coverages)

    def _by_judge(
        self,
        stage: JudgeStage,
        results: Sequence[CoverageResult],
        triplets: Iterable[Triplet],
        answers: Iterable[Answer],
    ) -> list[CoverageResult]:
        by_id = {triplet.id: triplet for triplet in triplets}
        texts = {(answer.triplet_id, answer.model): answer.answer for answer in answers}
        sides = []
        for result in results:
            answer = texts[result.triplet_id, result.model]
            sides.append((result.ref_points, sanitized(answer)))
            reference = by_id[result.triplet_id].reference_text
            sides.append((result.ans_points, sanitized(reference)))
        judgements = iter(self._ask(stage, sides))
        scored = []
        for result in results:
            ref_score, contradicted = next(judgements)
            ans_score, ans_contradicted = next(judgements)
            words = word_overlap(result.ref_points, result.ans_points, result.question)
            scored.append(
                replace(
                    result,
                    ref_score=ref_score,
                    ans_score=ans_score,
                    contradicted=contradicted,
                    ans_contradicted=ans_contradicted,
                    nearest=words.nearest,  # a hint for the reader: the judge names no pairs
                )
            )
        return scored

    def _ask(self, stage: JudgeStage, sides: Sequence[_Side]) -> list[_Judgement]:
        """The judge's scores of each side's points; None for those of a reply that is lost."""
        requests = [self._request(stage.prompts, *side) for side in sides if all(side)]
        replies = iter(stage.ask_and_read(requests, "cover points"))
        judgements: list[_Judgement] = []
        for points, other in sides:
            if points and other:
                judgements.append(next(replies) or ((None,) * len(points), ()))
            else:
                judgements.append(((0.0,) * len(points), ()))
        return judgements

    def _request(self, prompts: Prompts, points: Points, other: str) -> Request:
        prompt = prompts.fill("coverage", points=numbered(points), text=other, **self.scale)
        longest = {"scores": [self.max_score] * len(points), "contradicted": []}
        return Request(
            "coverage",
            prompt,
            NUMBER_TOKENS + 12 * len(points),
            COVERAGE_SCHEMA,
            assumed=partial(json.dumps, longest),
            read=partial(self._read, count=len(points)),
        )

    def _read(self, text: str, count: int) -> _Judgement | None:
        """What a reply says of `count` points; None where either of its lists cannot be read."""
        if "contradicted" not in text:
            return None  # a bare list of numbers would be read as both lists
        scores = read_rows(text, "scores", count, partial(read_score, max_score=self.max_score))
        contradicted = read_numbers(text, "contradicted", count)
        if scores is None or contradicted is None:
            return None
        return tuple(scores), tuple(contradicted)


def _without_scores(result: EMSResult, signature: dict[str, str]) -> CoverageResult:
    """The points of a result. All are unscored if those of a side could not be read."""
    lost = is_lost(result)
    return CoverageResult(
        result.triplet_id,
        result.model,
        result.ref_points,
        result.ans_points,
        ref_score=(None,) * len(result.ref_points),
        ans_score=(None,) * len(result.ans_points),
        ref_weights=result.ref_weights,
        question=result.question,
        group=result.group,
        signature=signature,
        figures=result.figures,
        date=result.date,
        unscored=result.unscored if lost else 0,
        reason=result.reason if lost else "",
    )


def _by_words(result: CoverageResult) -> CoverageResult:
    words = word_overlap(result.ref_points, result.ans_points, result.question)
    return replace(
        result,
        ref_score=words.ref_score,
        ans_score=words.ans_score,
        nearest=words.nearest,
        ref_weights=result.ref_weights or words.ref_weights,
        ans_weights=words.ans_weights,
        reason=_unread(result),
    )


def _unread(result: CoverageResult) -> str:
    """Which language of a result the local evaluator does not read; "" for none."""
    for points in (result.ref_points, result.ans_points):
        if language := foreign_language(" ".join(points)):
            return f"the local evaluator reads English, and a text is in {language}"
    return ""


def _with_metrics(result: CoverageResult) -> CoverageResult:
    metrics = coverage_scores(
        result.ref_score, result.ans_score, result.ref_weights, result.ans_weights
    )
    reasons = [reason for reason in (result.reason, metrics.reason) if reason]
    return replace(result, **asdict(metrics) | {"reason": "; ".join(reasons)})
