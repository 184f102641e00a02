"""What is evaluated, and the types that all modules share. `results` has what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

from .terminal import did_you_mean

_Function = TypeVar("_Function", bound=Callable[..., Any])

Points = tuple[str, ...]
Scores = tuple[float | None, ...]  # in [0, 1]; None = unscored
# Per reference point: the 0-based index of its answer point (eq. 4 counts from 1), -1 for none,
# None where the judge's choice could not be read.
Match = tuple[int | None, ...]
Signature = dict[str, str]  # everything that can change a value, by name: stages, judge, decoding
# What every exit says where the signature of its results names no judge.
WITHOUT_JUDGE = (
    "No judge was asked: these values compare words and figures, not meaning. Do not choose "
    "between versions by them alone."
)


class InputError(ValueError):
    """Bad input. It says what is wrong, what is allowed, what came, and what to do.

    The command line exits with status 2 on it.
    """


def clear_arguments(function: _Function) -> _Function:
    """The function, with an InputError in place of a TypeError for arguments that do not fit it."""
    accepted = signature(function)
    names = list(accepted.parameters)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            accepted.bind(*args, **named)
        except TypeError as error:
            hints = [did_you_mean(name, names) for name in named if name not in names]
            hint = "".join(hints) or f"; it takes {', '.join(names)}"
            raise InputError(f"{function.__name__}: {error}{hint}") from None
        return function(*args, **named)

    checked: Any = call
    return checked


class Signed:
    """What has a `signature`, a text or texts by name, and shows itself by it."""

    def __repr__(self) -> str:
        signature = getattr(self, "signature", "")
        if not isinstance(signature, str):
            signature = rendered(signature)
        return f"{type(self).__name__}({signature})"


@dataclass(frozen=True, slots=True)
class GivenPoint:
    """A reference point written by someone, in place of the reference: stage 1 skips it."""

    text: str
    weight: float = 1.0  # what it counts in recall, at least 0


@dataclass(frozen=True, slots=True)
class Triplet:
    """One long question-context-answer triplet (paper, section 3.1).

    With `points` no reference is needed.
    """

    id: str  # unique within a data set
    group: str  # what observations are clustered by: the company, or the claim's document
    question: str
    reference: str  # the long-form reference answer
    context: str | None = None  # the document the question is about; no score depends on it
    points: tuple[GivenPoint, ...] = ()

    @property
    def reference_text(self) -> str:
        """The reference; where points are given in place of it, these."""
        return self.reference or "\n".join(point.text for point in self.points)


Triplets = Mapping[str, Triplet]  # by id


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to one triplet. `answer` may be empty: that is a refusal, and scores 0."""

    triplet_id: str
    model: str
    answer: str


def warning_of(signature: Mapping[str, str]) -> str:
    """The warning about values with this signature; "" where it names a judge."""
    return "" if "judge" in signature else WITHOUT_JUDGE


def rendered(signature: Mapping[str, str]) -> str:
    """A signature as one line, for a table or a page: `name:value|name:value`."""
    return "|".join(f"{name}:{value}" for name, value in signature.items())
