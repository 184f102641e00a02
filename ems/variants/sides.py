"""Each point held against the whole other side: a judge's counterpart of the local scorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..sanitise import numbered, quoted
from ..types import EMSResult
from .joint import ListScorer


class SidesLLMScorer(ListScorer):
    """Each point held by a judge against the whole other side, both ways: two calls an answer. Not eq. 7.

    Scores are whole numbers 0 .. `max_score`, divided by `max_score`. An answer without points costs no call.
    A reply without exactly one number a point leaves its side unscored.
    """

    name, template = "llm-sides", "sides"

    def cover(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """The alignments with the scores of both sides; no nearest points are named."""
        sides = [side for a in alignments if a.ref_points and a.ans_points
                 for side in ((a.ref_points, a.ans_points), (a.ans_points, a.supporting))]
        slots = [{"points": numbered(points), "others": _bare(others)} for points, others in sides]
        scores = self._ask(slots, [len(points) for points, _ in sides], "score sides")
        covered = []
        for a in alignments:
            ref, ans = ((next(scores), next(scores)) if a.ref_points and a.ans_points
                        else ([0.0] * len(a.ref_points), [0.0] * len(a.ans_points)))
            covered.append(replace(a, match=(None,) * len(ref), score=tuple(ref), ans_score=tuple(ans)))
        return covered


def _bare(points: Sequence[str]) -> str:
    """Points as lines without numbers, which are left to the points that are scored."""
    return "\n".join(f"- {quoted(point)}" for point in points if point)
