"""Coverage: each point of either text held against the whole other text. Ours, not the paper's eq. 7.

Coverage(local) goes by words and numbers and asks nobody; Coverage(LLM) asks a judge twice per answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

from .extract import Extractor
from .judge import Judge, Request, as_judge
from .local.words import SIGNATURE, cover, unread_scripts
from .metrics import coverage_scores
from .pipeline import Evaluator, is_lost
from .prompts import Prompts, numbered, quoted
from .reading import parsed_rows, read_score
from .score import scale, scores_request
from .types import Answer, CoverageResult, EMSResult, Points, Triplet


class Coverage(Evaluator[CoverageResult]):
    """Recall, precision and F1 from how far each point is said by the other text as a whole.

    Without a judge by words (`local.words`), and points weigh as much as their words. With one by its whole
    numbers 0 .. `max_score`, divided by `max_score`, and points weigh the same: two calls an answer, none
    where a side has no points. Points that were given with the triplet keep their own weights.
    """

    def __init__(self, extractor: Extractor, judge: Judge | Callable[[str], str] | None = None,
                 prompts: Prompts | None = None, max_score: int = 10):
        self.extractor, self.prompts = extractor, prompts or Prompts()
        self.max_score, self.scale = max_score, scale(max_score)
        self.judge = None if judge is None else as_judge(judge)
        self._failures: Counter[str] = Counter()
        by_words = SimpleNamespace(signature=SIGNATURE)
        by_judge = SimpleNamespace(signature=f"llm:{self.prompts.signature('sides')},max={max_score}",
                                   judge=self.judge, failures=self._failures)
        super().__init__(extract=extractor, coverage=by_judge if self.judge else by_words)

    def batch(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]) -> list[CoverageResult]:
        """Extract the points of both sides, and cover them."""
        return covered(self.points_of(self.extractor, triplets, answers), self)

    def scored(self, results: Sequence[CoverageResult]) -> list[CoverageResult]:
        """The results with scores and weights, by words or by the judge; no metrics yet."""
        if self.judge is None:
            return [_by_words(r) for r in results]
        asked = [r for r in results if r.ref_points and r.ans_points]
        sides = [side for r in asked for side in ((r.ref_points, r.ans_points), (r.ans_points, r.ref_points))]
        replies = self.judge.ask([self._request(*side) for side in sides], "score sides")
        read = partial(read_score, max_score=self.max_score)
        scores = iter([tuple(parsed_rows(reply, "scores", len(points), read, "score", self._failures))
                       for reply, (points, _) in zip(replies, sides, strict=True)])
        return [replace(r, ref_score=next(scores), ans_score=next(scores)) if r.ref_points and r.ans_points
                else r for r in results]

    def _request(self, points: Points, others: Points) -> Request:
        prompt = self.prompts.fill("sides", points=numbered(points), **self.scale,
                                   others="\n".join(f"- {quoted(other)}" for other in others))
        return scores_request(prompt, len(points), self.max_score)


def covered(results: Sequence[EMSResult], coverage: Coverage) -> list[CoverageResult]:
    """Coverage of the points that results have; the extractor of `coverage` is the one that made them."""
    signature, unscored = coverage.signature, []
    for r in results:
        lost = is_lost(r)
        blank = None if lost else 0.0              # 0 stays where a side has no points
        unscored.append(CoverageResult(
            r.triplet_id, r.model, r.ref_points, r.ans_points, ref_score=(blank,) * len(r.ref_points),
            ans_score=(blank,) * len(r.ans_points), ref_weights=r.ref_weights, question=r.question,
            group=r.group, signature=signature, unscored=r.unscored if lost else 0,
            reason=r.reason if lost else ""))
    scored = iter(coverage.scored([r for r in unscored if not is_lost(r)]))
    return [r if is_lost(r) else _with_metrics(next(scored)) for r in unscored]


def _by_words(r: CoverageResult) -> CoverageResult:
    found = cover(r.ref_points, r.ans_points, r.question)
    scripts = ", ".join(unread_scripts(" ".join(r.ref_points + r.ans_points)))
    return replace(r, ref_score=found.ref_score, ans_score=found.ans_score, nearest=found.nearest,
                   ref_weights=r.ref_weights or found.ref_weights, ans_weights=found.ans_weights,
                   reason=f"the local evaluator does not read this script: {scripts}" if scripts else "")


def _with_metrics(r: CoverageResult) -> CoverageResult:
    m = coverage_scores(r.ref_score, r.ans_score, r.ref_weights, r.ans_weights)
    return replace(r, **asdict(m) | {"reason": "; ".join(filter(None, (r.reason, m.reason)))})
