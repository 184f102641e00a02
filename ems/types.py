"""The nouns of the kit: small frozen records that every other module speaks. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


class InputError(ValueError):
    """Bad input from outside: says what, what was allowed, what came and what to do. The CLI exits 2 on it."""


@dataclass(frozen=True, slots=True)
class Triplet:
    """One long question-context-answer triplet (paper, section 3.1)."""

    id: str                       # unique within a data set
    group: str                    # what observations are clustered by: the company, or the claim's document
    question: str
    reference: str                # the long-form reference answer
    context: str | None = None    # the document the question is about; never needed for scoring


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to one triplet. `answer` may be empty: that is a refusal, and scores 0."""

    triplet_id: str
    model: str
    answer: str


@dataclass(frozen=True, slots=True)
class Match:
    """The answer point chosen for one reference point (eq. 4) and their alignment score (eq. 5)."""

    ref: int                      # index i into the reference points, 0-based
    answer: int | None            # index a_i into the answer points; -1 = no match; None = reply unreadable
    score: float | None           # s_i in [0, 1]; 0.0 when there is no match; None = unscored


@dataclass(frozen=True, slots=True)
class Tally:
    """All that one answer adds to a pooled score: any pooling or bootstrap can be redone without a judge.

    Addition is element-wise. `ref_sum / ref_n` is EMS-Recall (eq. 6), `ans_sum / ans_n` EMS-Precision (eq. 8).
    """

    ref_sum: float                # sum of (weighted) s_i over scored reference points
    ref_n: float                  # how many of them there are (their weight, for a weighted scorer)
    ans_sum: float                # sum of (weighted) s_j over scored answer points
    ans_n: float
    unscored: int = 0             # reference points without a readable match or score

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class EMSResult:
    """One answer, evaluated: the points of both sides, who matched whom, how well, and the three metrics.

    `recall`, `precision` and `f1` lie in [0, 1]; nan when there is nothing to divide by (no reference points, or
    none that could be scored), and `reason` then says which. An answer whose points could not be read keeps
    `ans_points == ()`, every match None, and nan metrics: it is unscored, not zero.
    """

    triplet_id: str
    model: str
    ref_points: tuple[str, ...]
    ans_points: tuple[str, ...]
    match: tuple[int | None, ...]          # per reference point: answer index, -1 = none, None = unscored
    score: tuple[float | None, ...]        # per reference point: s_i in [0, 1], None = unscored
    recall: float
    precision: float
    f1: float
    unscored: int                          # reference points that no readable reply covers
    signature: str
    reason: str = ""                       # why a metric is nan or points are unscored; empty otherwise
    ans_score: tuple[float | None, ...] = ()   # per answer point: s_j of eq. 7, or the scorer's own precision side
    tally: Tally = field(default=Tally(0.0, 0.0, 0.0, 0.0))

    @property
    def matches(self) -> tuple[Match, ...]:
        """The alignment as records, one per reference point."""
        return tuple(Match(i, a, s) for i, (a, s) in enumerate(zip(self.match, self.score, strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; nan metrics become null."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "tally"}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}
        plain["tally"] = {f.name: getattr(self.tally, f.name) for f in fields(self.tally)}
        return {k: None if isinstance(v, float) and v != v else v for k, v in plain.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EMSResult:
        """The inverse of `to_dict`."""
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        for name in ("recall", "precision", "f1"):
            values[name] = float("nan") if values[name] is None else values[name]
        return cls(**{**values, "tally": Tally(**data["tally"])})


def duplicates(items: Sequence[str]) -> list[str]:
    """The items that occur more than once, each named once, in order of first repetition."""
    seen, twice = set(), {}
    for item in items:
        if item in seen:
            twice[item] = None
        seen.add(item)
    return list(twice)
