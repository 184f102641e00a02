"""What comes out: one record for each kind of result.

A record shows itself in a terminal and in a notebook.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, fields, is_dataclass
from typing import Any

from .types import Match, Points, Scores, Signature


@dataclass(frozen=True, slots=True)
class Support:
    """What a document says about one answer point; it never changes a score."""

    label: str | None  # "supported", "contradicted", "silent"; None = unscored
    passage: int | None = None  # index of the passage that decided; None = none
    quote: str = ""  # its beginning, cut to a few hundred characters
    reason: str = ""  # why there is no label


Place = tuple[int, int, int]  # index of a point, and start and end in the point's text


@dataclass(frozen=True, slots=True)
class SideFigures:
    """The figures of one text; those of the question do not count."""

    count: int  # different figures of the whole text
    shared: int  # of them, how many the other whole text has
    lacking: tuple[Place, ...] = ()  # where points print one that the other whole text lacks

    @property
    def share(self) -> float:
        """The share of the figures that the other text has, in [0, 1]; nan without figures."""
        return self.shared / self.count if self.count else math.nan


@dataclass(frozen=True, slots=True)
class Figures:
    """Which numbers of a reference and an answer the other one lacks: a fact, not a contradiction.

    `ref.share` is the recall of figures, `ans.share` their precision.
    """

    ref: SideFigures
    ans: SideFigures
    # In answer points, those that the document lacks; None = no document was given.
    not_in_document: tuple[Place, ...] | None = None


@dataclass(frozen=True)
class Result:
    """What every result has: its triplet and model, its signature, and what could not be scored."""

    triplet_id: str
    model: str
    _: KW_ONLY
    signature: Signature = field(default_factory=dict)
    question: str = ""
    group: str = ""
    unscored: int = 0  # points (or answers) for which no readable reply came
    reason: str = ""  # why a value is nan or points are unscored; else empty
    # The day, in UTC, of the newest of the judge's replies that the evaluation had used by then:
    # those about this answer, about others of its batch, and about earlier batches. "" = no reply.
    date: str = ""
    figures: Figures | None = None  # None for metrics of the user's own, and in older results

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; nan becomes null."""
        row = _plain(self)
        row["signature"] = dict(self.signature)
        if "support" in row:
            row["support"] = tuple(map(_plain, row["support"]))
        for name, value in row.items():
            if value != value:  # nan
                row[name] = None
        return row

    def __str__(self) -> str:
        from .analysis.view import as_text  # drawn only where it is shown

        return as_text(self.to_dict())

    def _repr_html_(self) -> str:
        from .analysis.view import as_html

        return as_html(self.to_dict())


def _plain(record: Any) -> dict[str, Any]:
    """A record as a dictionary, as `asdict` has it, and faster: what fields hold is not copied."""
    row = {}
    for part in fields(record):
        value = getattr(record, part.name)
        row[part.name] = _plain(value) if is_dataclass(value) else value
    return row


@dataclass(frozen=True)
class PointsResult(Result):
    """The points of both sides, and metrics made from their scores, each in [0, 1] or nan."""

    ref_points: Points
    ans_points: Points
    _: KW_ONLY
    ref_weights: tuple[float, ...] = ()  # () = every point weighs 1
    recall: float = math.nan
    precision: float = math.nan
    f1: float = math.nan
    support: tuple[Support, ...] = ()  # per answer point, what the document says; () = not asked


@dataclass(frozen=True)
class EMSResult(PointsResult):
    """The alignment of one answer (eq. 4-9). Only given points have weights."""

    match: Match
    score: Scores = ()  # per reference point: s_i (eq. 5), None = unscored


@dataclass(frozen=True)
class CoverageResult(PointsResult):
    """Each point compared with the whole other text. Not the paper's eq. 7: nothing is matched."""

    ref_score: Scores  # per reference point: how far the answer states it
    ans_score: Scores  # per answer point: how far the reference states it
    ans_weights: tuple[float, ...] = ()
    nearest: Match = ()  # per reference point: the answer point most like it, for the reader
    contradicted: tuple[int, ...] = ()  # indices of reference points that the answer contradicts
    ans_contradicted: tuple[int, ...] = ()  # indices of those that the reference contradicts


@dataclass(frozen=True)
class ScoreResult(Result):
    """One value for a whole answer: the judge alone, or a metric of the user's own."""

    value: float  # nan = unscored
