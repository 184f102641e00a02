"""Matching and scoring without a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..types import EMSResult, Points
from .words import Point, coverage, most_similar, overlap_matrix, read_point, rules_hash, similarity

KEPT = 4096            # overlaps of one answer, at most, that are kept for the next scorer of the same points
Compared = tuple[list[Point], list[Point], list[list[float]]]


def _compared(ref: Points, ans: Points) -> Compared:
    """Both sides' points as they are compared, and their `overlap_matrix`; not to be changed."""
    if len(ref) * len(ans) > KEPT:
        return _read(ref, ans)
    return _kept(tuple(ref), tuple(ans))


def _read(ref: Points, ans: Points) -> Compared:
    points, answers = [read_point(p) for p in ref], [read_point(p) for p in ans]
    return points, answers, overlap_matrix(points, answers)


_kept = lru_cache(maxsize=512)(_read)


class SimilarityMatcher:
    """The most similar answer point of each reference point, or -1 when none reaches `threshold` in (0, 1].

    Ties go to the earlier point. With an `encoder` (`embed(texts)` -> unit rows, `signature`) the points'
    meaning counts beside their words.
    """

    def __init__(self, *, threshold: float = 0.2, encoder: Any = None):
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold must be in (0, 1], got {threshold}")
        self.threshold, self.encoder = threshold, encoder
        suffix = f"+{encoder.signature}" if encoder else ""
        self.signature = f"similarity:{rules_hash()},threshold={threshold}{suffix}"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[tuple[int | None, ...]]:
        return [self._match(ref, ans) for ref, ans in pairs]

    def _match(self, ref: Points, ans: Points) -> tuple[int, ...]:
        points, answers, overlaps = _compared(ref, ans)
        cosines = None
        if self.encoder and ref and ans:
            embedded = self.encoder.embed([*ref, *ans])
            cosines = embedded[: len(ref)] @ embedded[len(ref) :].T
        best = most_similar(points, answers, overlaps, cosines)
        return tuple(j if value >= self.threshold else -1 for j, value in best)


class LocalScorer:
    """Whole sides without a judge: how far the other side as a whole covers each point, in [0, 1], both ways.

    Points weigh as much as their words and numbers. `match` and `ans_match` name the most similar point of
    the other side, for the reader alone. An `encoder` (as in `SimilarityMatcher`) lets meaning count as well.
    """

    name = "local"

    def __init__(self, encoder: Any = None):
        self.encoder = encoder
        self.signature = f"local:{rules_hash()}" + (f"+{encoder.signature}" if encoder else "")

    def cover(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """The alignments with scores, weights and nearest points; see `score.WholeScorer`."""
        cosines = self._cosines(alignments) if self.encoder else [None] * len(alignments)
        return [self._covered(a, cosine) for a, cosine in zip(alignments, cosines, strict=True)]

    def _cosines(self, alignments: Sequence[EMSResult]) -> list[Any]:
        """Cosine of each reference point and answer point of each alignment; every text embedded once."""
        texts = list(dict.fromkeys(p for a in alignments for p in (*a.ref_points, *a.ans_points)))
        row, embedded = {text: i for i, text in enumerate(texts)}, self.encoder.embed(texts)
        return [embedded[[row[p] for p in a.ref_points]] @ embedded[[row[p] for p in a.ans_points]].T
                if a.ref_points and a.ans_points else None for a in alignments]

    def _covered(self, alignment: EMSResult, cosine: Any) -> EMSResult:
        ref, ans, near = _compared(alignment.ref_points, alignment.ans_points)
        back = [list(row) for row in zip(*near, strict=True)] if ref else [[] for _ in ans]
        score = coverage(ref, ans, near, cosine)
        ans_score = coverage(ans, ref, back, None if cosine is None else cosine.T)
        return replace(alignment, score=tuple(score), ans_score=tuple(ans_score),
                       match=_nearest(ref, ans, near, score), ans_match=_nearest(ans, ref, back, ans_score),
                       ref_weights=tuple(p.weight for p in ref), ans_weights=tuple(p.weight for p in ans))


def _nearest(points: Sequence[Point], others: Sequence[Point], near: Sequence[Sequence[float]],
             score: Sequence[float]) -> tuple[int, ...]:
    """Index of the most similar other point of each point; -1 for one that nothing covers."""
    best = most_similar(points, others, near)
    return tuple(j if s > 0 else -1 for (j, _), s in zip(best, score, strict=True))


class PairScorer:
    """The paper's one-to-one form without a judge: `similarity` of the two points, in [0, 1]."""

    name = "local-pair"

    def __init__(self) -> None:
        self.signature = f"local-pair:{rules_hash()}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [similarity(read_point(ref), read_point(ans)) for ref, ans in pairs]
