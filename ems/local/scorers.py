"""Matching and scoring without a judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..match import Points
from ..score import Sides
from .words import Neighbours, coverage, overlap_matrix, read_point, rules_hash, similarity


class SimilarityMatcher:
    """The most similar answer point of each reference point, or -1 when none reaches `threshold` in (0, 1].

    Ties go to the earlier point. `encoder`, when given, has `embed(texts)` -> unit rows and a `signature`: then the
    points' meaning counts beside their words. Deterministic; needs no judge.
    """

    def __init__(self, *, threshold: float = 0.2, encoder: Any = None):
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold must be in (0, 1], got {threshold}")
        self.threshold, self.encoder = threshold, encoder
        self.signature = f"similarity:{rules_hash()},threshold={threshold}" + (f"+{encoder.signature}" if encoder else "")

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[tuple[int | None, ...]]:
        return [self._match(ref, ans) for ref, ans in pairs]

    def _match(self, ref: Points, ans: Points) -> tuple[int, ...]:
        if not ref or not ans:
            return (-1,) * len(ref)
        points, answers = ([read_point(p) for p in side] for side in (ref, ans))
        cosines: Any = [None] * len(ref)
        if self.encoder:
            embedded = self.encoder.embed([*ref, *ans])
            cosines = embedded[:len(ref)] @ embedded[len(ref):].T
        neighbours = Neighbours(answers)
        best = [neighbours.most_similar(point, row, c)
                for point, row, c in zip(points, overlap_matrix(points, answers), cosines, strict=True)]
        return tuple(j if value >= self.threshold else -1 for j, value in best)


class LocalScorer:
    """Whole sides without a judge: how far the other side as a whole covers each point, in [0, 1], both ways.

    A point's weight is that of its words and numbers, so longer points count more. `match` names the most similar
    answer point, for the alignment view. `encoder` (anything with `embed(texts)` -> unit rows, and a `signature`) lets
    meaning bend the word coverage.
    """

    name = "local"

    def __init__(self, encoder: Any = None):
        self.encoder = encoder
        self.signature = f"local:{rules_hash()}" + (f"+{encoder.signature}" if encoder else "")
        self._embedded, self._row = None, {}        # unit rows of the points at hand, and which is whose

    def prepare(self, points: Iterable[str]) -> None:
        """Embed the points of many answers at once, for the next calls of `sides`: far quicker than one by one."""
        if self.encoder:
            self._row = {text: i for i, text in enumerate(dict.fromkeys(points))}
            self._embedded = self.encoder.embed(list(self._row))

    def sides(self, ref_points: Sequence[str], ans_points: Sequence[str]) -> Sides:
        """Both sides of one answer; see `Sides`."""
        ref, ans = ([read_point(p) for p in side] for side in (ref_points, ans_points))
        near = overlap_matrix(ref, ans)
        meaning = None
        if self.encoder and ref and ans:
            if not self._row.keys() >= {*ref_points, *ans_points}:
                self.prepare([*ref_points, *ans_points])
            rows, columns = (self._embedded[[self._row[p] for p in side]] for side in (ref_points, ans_points))
            meaning = rows @ columns.T
        score = coverage(ref, ans, near, meaning)
        back = list(zip(*near, strict=True))
        ans_score = coverage(ans, ref, back, None if meaning is None else meaning.T)
        neighbours = Neighbours(ans)
        match = [neighbours.most_similar(r, row)[0] if s > 0 else -1
                 for r, row, s in zip(ref, near, score, strict=True)]
        return Sides(tuple(match), tuple(score), tuple(ans_score),
                     tuple(p.weight for p in ref), tuple(p.weight for p in ans))


class PairScorer:
    """The paper's one-to-one form without a judge: `similarity` of the two points, in [0, 1]."""

    name = "local-pair"

    def __init__(self) -> None:
        self.signature = f"local-pair:{rules_hash()}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [similarity(read_point(ref), read_point(ans)) for ref, ans in pairs]
