"""All points of an answer matched, and all its pairs scored, in one call each: cheaper than one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..asking import Judge, Request, as_judge, reply_schema
from ..prompting import Prompts
from ..sanitise import numbered, quoted
from ..score import MAX_TOKENS, scale
from ..types import InputError, Match, Points
from .replies import read_indices, read_scores

MATCHES_SCHEMA = reply_schema("matches", {"type": "integer"})
SCORES_SCHEMA = reply_schema("scores", {"type": "integer"})


class JointLLMMatcher:
    """One question to the judge about all reference points of an answer; else as `match.LLMMatcher`.

    A reply without exactly one index a point leaves all of them unscored; an index that is no candidate's,
    its own. `unread` counts the matches that could not be read, by reason.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None):
        self.judge, self.prompts = as_judge(judge), prompts or Prompts()
        self.unread: Counter[str] = Counter()
        self.signature = f"llm:{self.prompts.signature('match_all')},variant=all"

    def __call__(self, pairs: Sequence[tuple[Points, Points]]) -> list[Match]:
        matches: list[Match] = [(-1,) * len(ref) for ref, _ in pairs]
        asked = [p for p, (ref, ans) in enumerate(pairs) if ref and ans]
        requests = [self._request(*pairs[p]) for p in asked]
        for p, reply in zip(asked, self.judge.ask(requests, "match points"), strict=True):
            ref, ans = pairs[p]
            indices = None
            if reply.text is not None:
                indices = read_indices(reply.text, "matches", len(ref), len(ans), self.prompts.first)
            matches[p] = (None,) * len(ref) if indices is None else tuple(indices)
            if lost := matches[p].count(None):
                self.unread[f"match: {reply.error or 'unreadable'}"] += lost
        return matches

    def _request(self, ref: Points, ans: Points) -> Request:
        prompt = self.prompts.fill("match_all", references=numbered(ref), candidates=self.prompts.menu(ans))
        first = self.prompts.first
        return Request("match", prompt, MAX_TOKENS + 8 * len(ref), MATCHES_SCHEMA,
                       choices=range(first, first + len(ans)), entries=len(ref))


class ListScorer:
    """Asks a judge for lists of whole numbers 0 .. `max_score`, with one template for all."""

    name = template = suffix = ""

    def __init__(
        self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *, max_score: int = 10
    ):
        if max_score < 1:
            raise InputError(f"max_score must be 1 or more, got {max_score}")
        self.judge, self.prompts, self.max_score = as_judge(judge), prompts or Prompts(), max_score
        self.unread: Counter[str] = Counter()
        prompt = self.prompts.signature(self.template)
        self.signature = f"{self.name}:{prompt},max={max_score}{self.suffix}"

    def _ask(
        self, slots: Sequence[Mapping[str, str]], counts: Sequence[int], progress: str
    ) -> Iterator[list[float | None]]:
        """For each prompt as many scores as it asks for, each None where it could not be read."""
        requests = [
            Request("score", self.prompts.fill(self.template, **values, **scale(self.max_score)),
                    MAX_TOKENS + 8 * count, SCORES_SCHEMA, choices=range(self.max_score + 1), entries=count)
            for values, count in zip(slots, counts, strict=True)
        ]
        for count, reply in zip(counts, self.judge.ask(requests, progress), strict=True):
            read = None
            if reply.text is not None:
                read = read_scores(reply.text, "scores", count, self.max_score)
            scores: list[float | None] = [None] * count if read is None else read
            if lost := scores.count(None):
                self.unread[f"score: {reply.error or 'unreadable'}"] += lost
            yield scores


class JointLLMScorer(ListScorer):
    """All matched pairs of an answer scored in one call; else as `LLMScorer`. The signature says so.

    A reply without exactly one number a pair leaves all pairs of its answer unscored; a number off the scale,
    its own.
    """

    name, template, suffix = "llm", "score_all", ",variant=all"

    def by_answer(self, groups: Sequence[Sequence[tuple[str, str]]]) -> list[list[float | None]]:
        """The scores of each answer's pairs, in their order."""
        asked = [pairs for pairs in groups if pairs]
        slots = [{"pairs": _listed(pairs)} for pairs in asked]
        scores = self._ask(slots, [len(pairs) for pairs in asked], "score pairs")
        return [next(scores) if pairs else [] for pairs in groups]


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{i}: {quoted(ref)}\n   {quoted(ans)}" for i, (ref, ans) in enumerate(pairs))
