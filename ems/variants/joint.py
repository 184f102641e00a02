"""All points of an answer matched, and all its pairs scored, in one call each: cheaper than one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ..asking import Judge, Reply, Request, as_judge, read_listed, reply_schema
from ..parsing.lists import read_rows
from ..prompting import Prompts
from ..reading import read_index, read_score
from ..sanitise import numbered, quoted
from ..score import MAX_TOKENS, JudgedScorer, scale
from ..types import Match, Points

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
        requests = [self._request(ref, ans) for ref, ans in pairs if ref and ans]
        replies = iter(self.judge.ask(requests, "match points"))
        return [self._read(next(replies), ref, ans) if ref and ans else (-1,) * len(ref)
                for ref, ans in pairs]

    def _request(self, ref: Points, ans: Points) -> Request:
        prompt = self.prompts.fill("match_all", references=numbered(ref), candidates=self.prompts.menu(ans))
        first = self.prompts.first
        return Request("match", prompt, MAX_TOKENS + 8 * len(ref), MATCHES_SCHEMA,
                       choices=range(first, first + len(ans)), entries=len(ref))

    def _read(self, reply: Reply, ref: Points, ans: Points) -> Match:
        read = partial(read_index, n_points=len(ans), first=self.prompts.first)
        return tuple(read_listed(reply, "matches", len(ref), read, "match", self.unread))


class ListScorer(JudgedScorer):
    """Asks a judge for lists of whole numbers 0 .. `max_score`, with one template for all."""

    def _ask(
        self, slots: Sequence[Mapping[str, str]], counts: Sequence[int], progress: str
    ) -> Iterator[list[float | None]]:
        """For each prompt as many scores as it asks for, each None where it could not be read."""
        requests = [
            Request("score", self.prompts.fill(self.template, **values, **scale(self.max_score)),
                    MAX_TOKENS + 8 * count, SCORES_SCHEMA, choices=range(self.max_score + 1), entries=count)
            for values, count in zip(slots, counts, strict=True)
        ]
        read = partial(read_score, max_score=self.max_score)
        for count, reply in zip(counts, self.judge.ask(requests, progress), strict=True):
            yield read_listed(reply, "scores", count, read, "score", self.unread)


class JointLLMScorer(ListScorer):
    """All matched pairs of an answer scored in one call; else as `LLMScorer`. The signature says so.

    A reply without exactly one number a pair leaves all pairs of its answer unscored; a number off the scale,
    its own.
    """

    template, suffix = "score_all", ",variant=all"

    def by_answer(self, groups: Sequence[Sequence[tuple[str, str]]]) -> list[list[float | None]]:
        """The scores of each answer's pairs, in their order."""
        asked = [pairs for pairs in groups if pairs]
        slots = [{"pairs": "\n".join(f"{i}: {quoted(ref)}\n   {quoted(ans)}"
                                     for i, (ref, ans) in enumerate(pairs))} for pairs in asked]
        scores = self._ask(slots, [len(pairs) for pairs in asked], "score pairs")
        return [next(scores) if pairs else [] for pairs in groups]


def read_pairs(reply: str, key: str, count: int, n_points: int, max_score: int
               ) -> list[tuple[int | None, float | None]] | None:
    """The index and the score of each of `count` reference points, listed as `[index, score]`.

    They are read as by `read_index` and `read_score`: None for what these cannot read, and for both in an
    entry that is no pair. None for all where there is no list of so many entries, or several.
    """
    rows = read_rows(reply, key)
    if rows is None or len(rows) != count:
        return None
    pairs = [row if isinstance(row, list) and len(row) == 2 else ["", ""] for row in rows]
    texts = [[str(part) if type(part) in (int, str) else "" for part in pair] for pair in pairs]
    return [(read_index(index, n_points), read_score(score, max_score)) for index, score in texts]
