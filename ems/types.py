"""The records that all modules exchange: what is evaluated, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

Points = tuple[str, ...]
# Per reference point: 0-based index of its answer point (eq. 4 counts from 1), -1 = none, None = not known.
Match = tuple[int | None, ...]


class InputError(ValueError):
    """Bad input: says what, what was allowed, what came and what to do. The command line exits 2 on it."""


# --- what is evaluated ---


@dataclass(frozen=True, slots=True)
class GivenPoint:
    """A reference point written by someone, such as a nugget or a rubric's criterion: stage 1 skips it."""

    text: str
    weight: float = 1.0           # what it counts in recall; below 0: an answer should not say it
    kind: str = ""                # a name for people, such as vital or okay


@dataclass(frozen=True, slots=True)
class Triplet:
    """One long question-context-answer triplet (paper, section 3.1).

    With `points` the reference is not extracted; it may then be empty.
    """

    id: str                       # unique within a data set
    group: str                    # what observations are clustered by: the company, or the claim's document
    question: str
    reference: str                # the long-form reference answer
    context: str | None = None    # the document the question is about; never needed for scoring
    others: tuple[str, ...] = ()  # further references: an answer is held against all, the best F1 counts
    points: tuple[GivenPoint, ...] = ()    # reference points given by hand; () = extract them


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to one triplet. `answer` may be empty: that is a refusal, and scores 0."""

    triplet_id: str
    model: str
    answer: str


# --- what comes out ---


@dataclass(frozen=True, slots=True)
class Support:
    """What a document says of one answer point, beside the paper's scores and never inside them.

    `reason` is empty but for a point that was not checked: a judge's failure (label None), or a point that
    gives the supporter nothing to go by (label "silent": without a number, for one that compares numbers).
    """

    label: str | None             # "supported", "contradicted", "silent"; None = unscored
    passage: int | None = None    # index of the passage that decided, or of the nearest one; None = none
    quote: str = ""               # the line of it that decided, cut to a few hundred characters
    missing: tuple[str, ...] = ()         # numbers of the point that are not in the document
    derived: tuple[str, ...] = ()         # numbers of the point that follow from others, with their formula
    reason: str = ""

    @property
    def checked(self) -> bool:
        """Whether the label counts: it is one, and the point could be checked."""
        return self.label is not None and not self.reason

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Support:
        """The inverse of `dataclasses.asdict`. InputError for a dictionary that is no support of a point."""
        return cls(**_values(cls, data, {"label"}, "what a document says of a point"))


@dataclass(frozen=True, slots=True)
class EMSResult:
    """One answer's alignment: the points of both sides, who matched whom, how well, and the three metrics.

    After stages 1 and 2 alone every score is None and the metrics are nan. `recall`, `precision` and `f1` lie
    in [0, 1]; nan when there is nothing to divide by, and `reason` then says why. A side whose points could
    not be read is named in `lost`: its points are (), every match is None and the metrics are nan. It is
    unscored, not zero.
    """

    triplet_id: str
    model: str
    ref_points: Points
    ans_points: Points
    match: Match
    score: tuple[float | None, ...] = ()   # per reference point: s_i in [0, 1] (eq. 5), None = unscored
    recall: float = math.nan
    precision: float = math.nan
    f1: float = math.nan
    # Reference points that no readable reply covers; where a scorer judges whole sides, answer points too.
    unscored: int = 0
    signature: str = ""
    reason: str = ""                       # why a metric is nan or points are unscored; empty otherwise
    # Per answer point: s_j of eq. 7, or what a scorer of whole sides says of it.
    ans_score: tuple[float | None, ...] = ()
    lost: tuple[str, ...] = ()             # sides whose points could not be read: "reference", "answer"
    # From here on nothing is the paper's. Scores of each point against the whole other side (not eq. 7):
    # `match` and `ans_match` then only name the nearest point there, for the reader, and made no number.
    whole_sides: bool = False
    ans_match: tuple[int | None, ...] = ()
    ref_weights: tuple[float, ...] = ()    # () = every point weighs 1; below 0: should not be said
    ans_weights: tuple[float, ...] = ()
    support: tuple[Support, ...] = ()      # per answer point, what the document says; () = never asked
    question: str = ""                     # what was asked, for a scorer that reads it
    # Kind of each reference point where they were given with the triplet, and `ref_weights` with them.
    given: tuple[str, ...] = ()

    @property
    def supporting(self) -> Points:
        """The reference points that support what an answer says; "" for one that should not be said."""
        if not self.given:
            return self.ref_points
        return tuple(p if w >= 0 else "" for p, w in zip(self.ref_points, self.ref_weights, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; nan metrics become null."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}
        plain["support"] = [asdict(s) for s in self.support]
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in plain.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EMSResult:
        """The inverse of `to_dict`. InputError for a dictionary that is no result."""
        needed = {"triplet_id", "model", "match", "signature"}
        values = _values(cls, data, needed, "a result of ems evaluate")
        for name in ("recall", "precision", "f1"):
            values[name] = math.nan if values.get(name) is None else values[name]
        values["support"] = tuple(Support.from_dict(entry) for entry in values.get("support") or ())
        return cls(**values)

    def __str__(self) -> str:
        """The alignment as text for a terminal: its rows, then the sums and the signature."""
        from .results.alignment import alignment_text

        return alignment_text(self)

    def _repr_html_(self) -> str:
        """The alignment as two columns in a notebook, coloured by score."""
        from .results.alignment import alignment_html

        return alignment_html(self)


def _values(kind: type, data: Any, needed: set[str], what: str) -> dict[str, Any]:
    """The fields of a record of this kind from JSON, lists as tuples; InputError for what is none."""
    names = {f.name for f in fields(kind)}
    if not isinstance(data, Mapping) or not needed <= data.keys() <= names:
        raise InputError(f"not {what}: an object with {', '.join(sorted(names))} was expected, "
                         f"got {str(data)!r:.80}")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
