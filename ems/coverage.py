"""Coverage: each point of either text held against the whole other text. Ours, not the paper's eq. 7.

Coverage(local) goes by words and numbers and asks nobody; Coverage(LLM) asks a judge twice per answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

from .extract import Extractor
from .judge import Judge, Request, as_judge
from .local.terms import unread_scripts
from .local.words import SIGNATURE, word_overlap
from .metrics import coverage_scores
from .pipeline import Evaluator, is_lost
from .prompts import Prompts, numbered, sanitized
from .reading import parsed, read_numbers, read_rows, read_score
from .results import CoverageResult, EMSResult
from .score import MAX_TOKENS, SCORES_SCHEMA, scale
from .types import Answer, Points, Scores, Triplet

COVERAGE_SCHEMA = SCORES_SCHEMA | {
    "properties": dict.fromkeys(("scores", "contradicted"), SCORES_SCHEMA["properties"]["scores"]),
    "required": ["scores", "contradicted"],
}
Key = tuple[str, str]  # triplet and model; of a reference the model is ""
Covered = tuple[Scores, tuple[int, ...]]  # of one side's points: scores, and which are contradicted


class Coverage(Evaluator[CoverageResult]):
    """Recall, precision and F1 from how far each point is stated by the other text as a whole.

    Without a judge by words (`local.words`), and points weigh as much as their words. With one by its whole
    numbers 0 .. `max_score`, divided by `max_score`, and points weigh the same: two calls an answer, one for
    each side's points. A side without points, or held against an empty text, costs no call and scores 0.
    Points that were given with the triplet keep their own weights. The judge also names the points that the
    other text contradicts; they keep the score that they got.
    """

    def __init__(
        self,
        extractor: Extractor,
        judge: Judge | Callable[[str], str] | None = None,
        prompts: Prompts | None = None,
        max_score: int = 10,
    ):
        self.extractor, self.prompts = extractor, prompts or Prompts()
        self.max_score, self.scale = max_score, scale(max_score)
        self.judge = None if judge is None else as_judge(judge)
        self._failures: Counter[str] = Counter()
        by_words = SimpleNamespace(signature=SIGNATURE)
        by_judge = SimpleNamespace(
            signature=f"llm:{self.prompts.signature('coverage')},max={max_score}",
            judge=self.judge,
            failures=self._failures,
        )
        super().__init__(extract=extractor, coverage=by_judge if self.judge else by_words)

    def batch(
        self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]
    ) -> list[CoverageResult]:
        """Extract the points of both sides, and cover them."""
        asked = {answer.triplet_id: triplets[answer.triplet_id] for answer in answers}
        return covered(
            self.points_of(self.extractor, triplets, answers), self, asked.values(), answers
        )

    def scored(
        self, results: Sequence[CoverageResult], texts: Mapping[Key, str]
    ) -> list[CoverageResult]:
        """The results with scores and weights, by words or by the judge; no metrics yet."""
        if self.judge is None:
            return [_by_words(r) for r in results]
        sides: list[
            tuple[Points, str]
        ] = []  # of each result the reference's points, then the answer's
        for r in results:
            sides += [
                (r.ref_points, sanitized(texts[r.triplet_id, r.model])),
                (r.ans_points, sanitized(texts[r.triplet_id, ""])),
            ]
        asked = [i for i, (points, other) in enumerate(sides) if points and other]
        replies = self.judge.ask([self._request(*sides[i]) for i in asked], "cover points")
        found: list[Covered] = [((0.0,) * len(points), ()) for points, _ in sides]
        for i, reply in zip(asked, replies, strict=True):
            count = len(sides[i][0])
            found[i] = parsed(
                reply, partial(self._read, count=count), "coverage", self._failures
            ) or ((None,) * count, ())
        return [
            replace(
                r, ref_score=ref[0], contradicted=ref[1], ans_score=ans[0], ans_contradicted=ans[1]
            )
            for r, ref, ans in zip(results, found[::2], found[1::2], strict=True)
        ]

    def _request(self, points: Points, other: str) -> Request:
        prompt = self.prompts.fill("coverage", points=numbered(points), text=other, **self.scale)
        assumed = json.dumps({"scores": [self.max_score] * len(points), "contradicted": []})
        return Request(
            "coverage",
            prompt,
            MAX_TOKENS + 12 * len(points),
            COVERAGE_SCHEMA,
            assumed=lambda: assumed,
            read=partial(self._read, count=len(points)),
        )

    def _read(self, text: str, count: int) -> Covered | None:
        """Each point's score, and the contradicted points; None where either list cannot be read."""
        scores = read_rows(text, "scores", count, partial(read_score, max_score=self.max_score))
        # Looked for by its name: a bare list of numbers would be read as both.
        named = read_numbers(text, "contradicted", count) if "contradicted" in text else None
        return None if scores is None or named is None else (tuple(scores), tuple(named))


def covered(
    results: Sequence[EMSResult],
    coverage: Coverage,
    triplets: Iterable[Triplet],
    answers: Iterable[Answer],
) -> list[CoverageResult]:
    """Coverage of the points that results have; the extractor of `coverage` is the one that made them."""
    texts: dict[Key, str] = {
        (t.id, ""): t.reference or "\n".join(p.text for p in t.points) for t in triplets
    }
    texts |= {(a.triplet_id, a.model): a.answer for a in answers}
    signature = coverage.signature
    unscored = [
        CoverageResult(
            r.triplet_id,
            r.model,
            r.ref_points,
            r.ans_points,
            ref_score=(None,) * len(r.ref_points),
            ans_score=(None,) * len(r.ans_points),
            ref_weights=r.ref_weights,
            question=r.question,
            group=r.group,
            signature=signature,
            unscored=r.unscored if is_lost(r) else 0,
            reason=r.reason if is_lost(r) else "",
        )
        for r in results
    ]
    scored = iter(coverage.scored([r for r in unscored if not is_lost(r)], texts))
    return [r if is_lost(r) else _with_metrics(next(scored)) for r in unscored]


def _by_words(r: CoverageResult) -> CoverageResult:
    found = word_overlap(r.ref_points, r.ans_points, r.question)
    scripts = ", ".join(unread_scripts(" ".join(r.ref_points + r.ans_points)))
    return replace(
        r,
        ref_score=found.ref_score,
        ans_score=found.ans_score,
        nearest=found.nearest,
        ref_weights=r.ref_weights or found.ref_weights,
        ans_weights=found.ans_weights,
        reason=f"the local evaluator does not read this script: {scripts}" if scripts else "",
    )


def _with_metrics(r: CoverageResult) -> CoverageResult:
    m = coverage_scores(r.ref_score, r.ans_score, r.ref_weights, r.ans_weights)
    return replace(r, **asdict(m) | {"reason": "; ".join(filter(None, (r.reason, m.reason)))})
