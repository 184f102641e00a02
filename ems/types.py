"""The records that all modules exchange: what is evaluated, and what comes out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Points = tuple[str, ...]
Scores = tuple[float | None, ...]     # in [0, 1]; None = unscored
# Per reference point: 0-based index of its answer point (eq. 4 counts from 1), -1 = none, None = not known.
Match = tuple[int | None, ...]
Signature = dict[str, str]            # everything that can change a value, by name: stages, judge, decoding


class InputError(ValueError):
    """Bad input: says what, what was allowed, what came and what to do. The command line exits 2 on it."""


@dataclass(frozen=True, slots=True)
class GivenPoint:
    """A reference point written by someone, in place of the reference: stage 1 skips it."""

    text: str
    weight: float = 1.0           # what it counts in recall, at least 0


@dataclass(frozen=True, slots=True)
class Triplet:
    """One long question-context-answer triplet (paper, section 3.1). With `points` no reference is needed."""

    id: str                       # unique within a data set
    group: str                    # what observations are clustered by: the company, or the claim's document
    question: str
    reference: str                # the long-form reference answer
    context: str | None = None    # the document the question is about; never needed for scoring
    points: tuple[GivenPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to one triplet. `answer` may be empty: that is a refusal, and scores 0."""

    triplet_id: str
    model: str
    answer: str


@dataclass(frozen=True, slots=True)
class Support:
    """What a document says of one answer point, beside the scores and never inside them."""

    label: str | None             # "supported", "contradicted", "silent"; None = unscored
    passage: int | None = None    # index of the passage that decided; None = none
    quote: str = ""               # its beginning, cut to a few hundred characters
    missing: tuple[str, ...] = () # numbers of the point that are not in the document
    reason: str = ""              # why there is no label


@dataclass(frozen=True)
class Result:
    """What every result has: whose it is, its signature, and what could not be scored."""

    triplet_id: str
    model: str
    signature: Signature = field(default_factory=dict, kw_only=True)
    question: str = field(default="", kw_only=True)
    group: str = field(default="", kw_only=True)
    unscored: int = field(default=0, kw_only=True)    # points (or answers) for which no readable reply came
    reason: str = field(default="", kw_only=True)     # why a value is nan or points are unscored; else empty

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; nan becomes null."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class EMSResult(Result):
    """One answer's alignment (eq. 4-9): points, who matched whom, how well; metrics in [0, 1], or nan."""

    ref_points: Points
    ans_points: Points
    match: Match
    score: Scores = ()                # per reference point: s_i (eq. 5), None = unscored
    recall: float = math.nan
    precision: float = math.nan
    f1: float = math.nan
    ref_weights: tuple[float, ...] = ()       # () = every point weighs 1; only given points have weights
    support: tuple[Support, ...] = ()         # per answer point, what the document says; () = never asked

    def __str__(self) -> str:
        from .view import as_text

        return as_text(self.to_dict())

    def _repr_html_(self) -> str:
        from .view import as_html

        return as_html(self.to_dict())


@dataclass(frozen=True)
class CoverageResult(Result):
    """Each point held against the whole other text. Ours, not the paper's eq. 7: nothing is matched."""

    ref_points: Points
    ans_points: Points
    ref_score: Scores                 # per reference point: how far the answer states it
    ans_score: Scores                 # per answer point: how far the reference states it
    ref_weights: tuple[float, ...] = ()
    ans_weights: tuple[float, ...] = ()
    nearest: Match = ()               # per reference point: the answer point most like it, for the reader
    contradicted: tuple[int, ...] = ()        # indices of reference points that the answer contradicts
    ans_contradicted: tuple[int, ...] = ()    # indices of answer points that the reference contradicts
    recall: float = math.nan
    precision: float = math.nan
    f1: float = math.nan
    support: tuple[Support, ...] = ()

    __str__ = EMSResult.__str__
    _repr_html_ = EMSResult._repr_html_


@dataclass(frozen=True)
class ScoreResult(Result):
    """One value for a whole answer: the judge alone, or a metric of the user's own."""

    value: float                      # nan = unscored


def rendered(signature: Mapping[str, str]) -> str:
    """A signature as one line, for a table or a page: `name:value|name:value`."""
    return "|".join(f"{name}:{value}" for name, value in signature.items())
