"""The nouns of the kit: small frozen records that every other module speaks. Imports nothing of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable


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


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the judge."""

    task: str                     # what it is for: extract, match, score, ... (usage is counted by it)
    prompt: str
    max_tokens: int               # limit of the reply's length
    schema: dict | None = None    # JSON schema the reply should follow; the prompt has to say so in words as well
    sample: int = 0               # number of the repetition, when the same question is asked several times
    chances: int = 0              # how many likely first tokens of the reply to ask the probabilities of
    label: str = field(default="", compare=False)   # a name for people; changes nothing
    # The reply that a dry run assumes; a function is told how much of the longest one, from 0 to 1.
    assumed: str | Callable[[float], str] = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `text` None means no usable reply, and `error` says why."""

    text: str | None
    error: str = ""               # "length", "refusal", "timeout", "connection", "http 500", "not JSON", ...
    prompt_tokens: int = 0        # as the server counts; 0 when it does not say
    completion_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0          # of the call that brought the reply
    stored: bool = False          # came from the store: nothing was asked
    cut: str | None = None        # what there is of a text that hit its limit: no judgement, but still an answer
    chances: Mapping[str, float] = field(default_factory=dict)   # probabilities of likely first tokens, if asked for
    date: str = ""                # when it came, UTC
    said: str = field(default="", compare=False)     # the server's words about a failure, shortened, for people


@runtime_checkable
class Judge(Protocol):
    """Anything with a name, a signature and `ask`."""

    name: str                     # the model, for people
    signature: str                # everything that can change its replies

    def ask(self, requests: Sequence[Request], progress: str = "") -> list[Reply]:
        """One reply per request, in the same order; a bar with the words `progress` is shown if there are any."""
        ...


class MissingReplies(InputError):
    """A replay met requests without a saved reply; `keys` has them by task.

    They are noted in the store as pending, unless it is a recording, which takes nothing.
    """

    def __init__(self, model: str, keys: Mapping[str, Sequence[str]], noted: bool = True):
        self.noted = noted        # as pending, in a store that keeps them
        self.model, self.keys = model, {task: list(dict.fromkeys(own)) for task, own in sorted(keys.items())}
        named = "; ".join(f"{len(own)} {task} ({', '.join(k[:12] for k in own[:3])}{', ...' * (len(own) > 3)})"
                          for task, own in self.keys.items())
        super().__init__(
            f"{sum(map(len, self.keys.values()))} replies of {model} are not saved: {named}; " + (
                "ask a live endpoint for them (mode 'live'), or write them to a batch file (ems replies export --pending)"
                if noted else "to ask for them, name a .sqlite store and give this one as recorded replies (--recorded)"))

    def __or__(self, other: MissingReplies) -> MissingReplies:
        """Both together."""
        tasks = self.keys.keys() | other.keys.keys()
        return MissingReplies(self.model, {t: self.keys.get(t, []) + other.keys.get(t, []) for t in tasks}, self.noted)
