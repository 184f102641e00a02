"""What EMS is compared with: RAGChecker, the judge alone, and BLEU, ROUGE and BERTScore of whole answers.

`bleu` and `rouge` are the arithmetic of `score`, which scores pairs of points with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, nan
from types import SimpleNamespace

from .extract import ask_lists, list_request, room
from .judge import Judge, Request, as_judge, reply_schema
from .local.encoder import Encoder
from .metrics import f1
from .pipeline import Evaluator
from .prompts import Prompts, numbered, quoted, sanitized
from .reading import parsed, parsed_rows, read_score, read_word
from .results import Result, ScoreResult
from .score import BLEU_SIGNATURE, NUMBER_TOKENS, bleu, rouge, rows_request
from .types import Answer, Points, Signature, Triplet

__all__ = [
    "BLEU_SIGNATURE",
    "Claims",
    "JudgeAlone",
    "RAGChecker",
    "bertscore",
    "bleu",
    "claim_scores",
    "rouge",
]
LABELS = ("Entailment", "Neutral", "Contradiction")
LABELS_SCHEMA = reply_schema("labels", {"type": "string", "enum": list(LABELS)})
CLAIMS_PER_CALL = 30  # are checked together: a lost reply loses no more labels than that
Labels = tuple[str | None, ...]


def bertscore(references: Sequence[str], answers: Sequence[str], encoder: Encoder) -> list[float]:
    """BERTScore F1 of each whole answer, cut at 512 tokens; `encoder.truncated` counts the cuts."""
    return encoder.bertscore(references, answers)[2]


def score_result(
    triplet: Triplet, answer: Answer, value: float | None, signature: Signature
) -> ScoreResult:
    """One value of a whole answer; None is unscored, and nan the value of one whose reference is empty."""
    reason = (
        "no value could be read"
        if value is None
        else "the reference is empty"
        if isnan(value)
        else ""
    )
    return ScoreResult(
        answer.triplet_id,
        answer.model,
        nan if value is None else value,
        signature=signature,
        question=triplet.question,
        group=triplet.group,
        unscored=int(value is None),
        reason=reason,
    )


# --- RAGChecker (Ru et al., 2024): claims of both sides, each checked against the other text ---


@dataclass(frozen=True)
class Claims(Result):
    """RAGChecker's view of one answer; metrics are in [0, 1], nan as `claim_scores` says."""

    response_claims: Points | None  # None = the judge's list could not be read
    gt_answer_claims: Points | None
    answer2response: Labels  # per response claim, what the reference says; None = unscored
    response2answer: Labels  # per reference claim, what the response says
    recall: float = nan
    precision: float = nan
    f1: float = nan


def claim_scores(
    response_claims: Points | None,
    gt_answer_claims: Points | None,
    answer2response: Labels,
    response2answer: Labels,
) -> tuple[float, float, float]:
    """RAGChecker's overall precision, recall and F1, each in [0, 1].

    Precision is the share of response claims that the reference entails, recall the share of reference
    claims that the response entails, each over the labels that could be read. A response without claims has
    precision 0, and the recall of its labels, as upstream has it. nan when the reference has no claims
    (upstream: 0), a side's claims could not be read, or none of a side's labels could be.
    """
    if response_claims is None or not gt_answer_claims:
        return nan, nan, nan
    shares = []
    for labels in (answer2response, response2answer):
        known = [label == "Entailment" for label in labels if label is not None]
        shares.append(sum(known) / len(known) if known else nan)
    precision, recall = shares[0] if response_claims else 0.0, shares[1]
    return precision, recall, f1(recall, precision)


class RAGChecker(Evaluator[Claims]):
    """Lists the claims of both sides, and checks each against the other text; one judge does all.

    Claims are short sentences, where upstream has triples; its prompts are its own.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None):
        self.prompts = prompts or Prompts()
        self.stage = SimpleNamespace(
            signature=self.prompts.signature("claims", "entail_all"),
            judge=as_judge(judge),
            failures=Counter(),
        )
        super().__init__(ragchecker=self.stage)

    def batch(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]) -> list[Claims]:
        """List the claims of both sides, those of equal texts once, and check them."""
        asked = [(triplets[answer.triplet_id], answer) for answer in answers]
        claims = self._claims(
            (t.question, text) for t, a in asked for text in (t.reference, a.answer)
        )
        own = [claims[t.question, a.answer] for t, a in asked]
        ref = [claims[t.question, t.reference] for t, _ in asked]
        said = self._labels([t.reference for t, _ in asked], own)
        back = self._labels([a.answer for _, a in asked], ref)
        sides = zip(asked, own, ref, said, back, strict=True)
        return [
            _with_metrics(
                Claims(
                    a.triplet_id,
                    a.model,
                    o,
                    r,
                    s,
                    b,
                    question=t.question,
                    group=t.group,
                    signature=self.signature,
                )
            )
            for (t, a), o, r, s, b in sides
        ]

    def _claims(self, texts: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Points | None]:
        """The claims of each different (question, text); an empty text has none, without a call."""
        clean = {(question, text): sanitized(text) for question, text in texts}
        requests = {
            pair: list_request(
                self.prompts, "claims", "claims", text, 2 * room(text), question=quoted(pair[0])
            )
            for pair, text in clean.items()
            if text
        }
        found = ask_lists(self.stage.judge, requests, "claims", self.stage.failures)
        return {pair: found.get(pair, ()) for pair in clean}

    def _labels(self, texts: Sequence[str], claims: Sequence[Points | None]) -> list[Labels]:
        """What each text says of each of its claims; an empty text leaves all open, without a call."""
        clean = [sanitized(text) for text in texts]
        labels: list[Labels] = [
            () if text else ("Neutral",) * len(some or ())
            for text, some in zip(clean, claims, strict=True)
        ]
        parts = [
            (i, some[start : start + CLAIMS_PER_CALL])
            for i, some in enumerate(claims)
            if some and clean[i]
            for start in range(0, len(some), CLAIMS_PER_CALL)
        ]
        prompts = [
            self.prompts.fill("entail_all", text=clean[i], claims=numbered(some))
            for i, some in parts
        ]
        requests = [
            rows_request("entail", prompt, LABELS_SCHEMA, LABELS[-1:] * len(some))
            for prompt, (_, some) in zip(prompts, parts, strict=True)
        ]
        read = partial(read_word, words=LABELS)
        for (i, some), reply in zip(
            parts, self.stage.judge.ask(requests, "check claims"), strict=True
        ):
            labels[i] += tuple(
                parsed_rows(reply, "labels", len(some), read, "entail", self.stage.failures)
            )
        return labels


def _with_metrics(c: Claims) -> Claims:
    """The claims with their metrics, and how many are unscored: all where a side, counted as one, is lost."""
    sides = (c.response_claims, c.gt_answer_claims)
    if None in sides:
        unscored = sum(1 if claims is None else len(claims) for claims in sides)
        return replace(c, unscored=unscored, reason="the claims of a side could not be read")
    precision, recall, harmonic = claim_scores(*sides, c.answer2response, c.response2answer)
    unscored = (c.answer2response + c.response2answer).count(None)
    reason = f"{unscored} claims unscored" if unscored else ""
    return replace(
        c,
        precision=precision,
        recall=recall,
        f1=harmonic,
        unscored=unscored,
        reason=reason if c.gt_answer_claims else "the reference has no claims",
    )


class JudgeAlone(Evaluator[ScoreResult]):
    """One number from 0 to 100 for a whole answer, held against the reference by a judge; divided by 100.

    One call per answer. An empty answer scores 0 and an empty reference gives nan, both without a call. A
    reply without a whole number 0 .. 100 is unscored: nan.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None):
        self.prompts = prompts or Prompts()
        self.stage = SimpleNamespace(
            signature=self.prompts.signature("judge_alone"),
            judge=as_judge(judge),
            failures=Counter(),
        )
        super().__init__(judge_alone=self.stage)

    def batch(
        self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]
    ) -> list[ScoreResult]:
        """One value per answer."""
        asked = [(triplets[answer.triplet_id], answer) for answer in answers]
        values: list[float | None] = [
            0.0 if triplet.reference.strip() else nan for triplet, _ in asked
        ]
        judged = [i for i, (t, a) in enumerate(asked) if t.reference.strip() and a.answer.strip()]
        prompts = [
            self.prompts.fill(
                "judge_alone",
                question=quoted(t.question),
                reference=sanitized(t.reference),
                answer=sanitized(a.answer),
            )
            for t, a in (asked[i] for i in judged)
        ]
        read = partial(read_score, max_score=100)
        requests = [
            Request("judge", prompt, NUMBER_TOKENS, assumed=partial(str, 100), read=read)
            for prompt in prompts
        ]
        for i, reply in zip(judged, self.stage.judge.ask(requests, "judge answers"), strict=True):
            values[i] = parsed(reply, read, "judge", self.stage.failures)
        return [
            score_result(*pair, value, self.signature)
            for pair, value in zip(asked, values, strict=True)
        ]
