"""Stage 2: the best answer point for each reference point, or none (paper, 2.2, eq. 3-4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from .judge import NUMBER_TOKENS, AnyJudge, JudgeStage, Request, reply_schema, rows_request
from .prompts import Prompts, numbered, quoted
from .reading import read_number
from .types import Match, Points

MATCHES_SCHEMA = reply_schema("matches", {"type": "integer"})
PointLists = tuple[Points, Points]  # the reference's points and the answer's


class LLMMatcher(JudgeStage):
    """A judge names the answer point that says the same as a reference point, or none (eq. 4).

    It is asked once per reference point, as in the paper; with `joint` once per answer, about all
    reference points together. Without answer points every reference point is unmatched, and no
    call is made. An unreadable choice is None; a joint reply without exactly one entry per
    reference point makes all of them None. `failures` counts them.
    """

    def __init__(
        self,
        judge: AnyJudge,
        prompts: Prompts | None = None,
        *,
        joint: bool = False,
    ):
        super().__init__(judge, prompts)
        self.joint = joint
        template = self.prompts.signature("match_all" if joint else "match")
        self.signature = f"llm:{template}" + (",joint" if joint else "")

    def __call__(self, pairs: Sequence[PointLists]) -> list[Match]:
        requests = []
        for ref, ans in pairs:
            if ref and ans:
                requests += self._requests(ref, ans)
        choices = iter(self.ask_and_read(requests, "match points"))
        matches: list[Match] = []
        for ref, ans in pairs:
            if ans:
                matches.append(tuple(islice(choices, len(ref))))
            else:
                matches.append((-1,) * len(ref))
        return matches

    def _requests(self, ref: Points, ans: Points) -> list[Request]:
        """One question for each reference point; with `joint` one about all of them."""
        candidates = numbered(ans)
        read = partial(read_number, least=-1, most=len(ans) - 1)
        choices = [i % len(ans) for i in range(len(ref))]
        if self.joint:
            prompt = self.prompts.fill("match_all", references=numbered(ref), candidates=candidates)
            return [rows_request("match", prompt, MATCHES_SCHEMA, choices, read)]
        requests = []
        for point, choice in zip(ref, choices, strict=True):
            prompt = self.prompts.fill("match", reference=quoted(point), candidates=candidates)
            assumed = partial(str, choice)
            requests.append(Request("match", prompt, NUMBER_TOKENS, assumed=assumed, read=read))
        return requests
