"""Matching and scoring without a judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import tee
from typing import Any

from ..types import EMSResult, Points
from .words import QUESTION_WORD, Side, bent, coverage, held_by, likeness, rules_hash, similarity


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
        side, other = _reference(ref), Side(ans)
        alike = likeness(side, other, held_by(side, other))
        if self.encoder and ref and ans:
            embedded = self.encoder.embed([*ref, *ans])
            cosines = embedded[: len(ref)] @ embedded[len(ref) :].T
            alike = ({j: bent(value, of_point[j]) for j, value in row.items()}
                     for row, of_point in zip(alike, cosines, strict=True))
        return tuple(j if row.get(j, 0.0) >= self.threshold else -1
                     for row in alike for j in [_nearest(row)])


def _nearest(row: Mapping[int, float]) -> int:
    """The index of the highest value, the earliest of equals; -1 for none."""
    highest = max(row.values(), default=0.0)
    return min((j for j, value in row.items() if value == highest), default=-1)


class LocalScorer:
    """Whole sides without a judge: how far the other side as a whole covers each point, in [0, 1], both ways.

    Points weigh as much as their words and numbers, unless they were given with weights of their own. Words
    of the question weigh `question_word` times what they weigh elsewhere (1 = as much). `match` and
    `ans_match` name the most similar point of the other side, for the reader alone. An `encoder` (as in
    `SimilarityMatcher`) lets meaning count as well.
    """

    name = "local"

    def __init__(self, encoder: Any = None, *, question_word: float = QUESTION_WORD):
        if not 0 <= question_word <= 1:
            raise ValueError(f"question_word must be in [0, 1], got {question_word}")
        self.encoder, self.question_word = encoder, question_word
        suffix = f"+{encoder.signature}" if encoder else ""
        self.signature = f"local:{rules_hash()},question_word={question_word}{suffix}"

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
        asked = alignment.question, self.question_word
        ref = _reference(alignment.ref_points, *asked, bool(alignment.given))
        ans = Side(alignment.ans_points, *asked)
        supporting = Side(alignment.supporting, *asked) if alignment.given else ref
        score, match = _of_side(ref, ans, cosine)
        ans_score, ans_match = _of_side(ans, supporting, None if cosine is None else cosine.T)
        return replace(alignment, score=score, ans_score=ans_score, match=match, ans_match=ans_match,
                       ref_weights=alignment.ref_weights if alignment.given else tuple(ref.weights),
                       ans_weights=tuple(ans.weights))


@lru_cache(maxsize=64)
def _reference(points: Points, *settings: Any) -> Side:
    """A reference's points, kept for the next answer to it."""
    return Side(points, *settings)


def _of_side(side: Side, other: Side, cosine: Any) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """The score of each point of a side, and its nearest other point; -1 for one that nothing covers."""
    first, second = tee(held_by(side, other))         # point by point: of thousands, not all at once
    nearest = map(_nearest, likeness(side, other, second))
    pairs = list(zip(coverage(side, first, cosine), nearest, strict=True))
    return tuple(s for s, _ in pairs), tuple(j if s > 0 else -1 for s, j in pairs)


class PairScorer:
    """The paper's one-to-one form without a judge: `similarity` of the two points, in [0, 1]."""

    name = "local-pair"

    def __init__(self) -> None:
        self.signature = f"local-pair:{rules_hash()}"

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        return [similarity(ref, ans) for ref, ans in pairs]
