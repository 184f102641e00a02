"""What EMS is compared with: RAGChecker, and the judge alone.

BLEU, ROUGE-L and BERTScore of whole answers are `bleu` and `rouge_l` in `score`, and `bertscore` of
an encoder (`local.encoder`), as for pairs of points.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import isnan, nan

from .extract import list_request
from .judge import NUMBER_TOKENS, AnyJudge, JudgeStage, Request, labels_request
from .local.figures import compare_figures
from .metrics import f1
from .pipeline import Evaluator
from .prompts import Prompts, numbered, quoted, sanitized
from .reading import read_score
from .results import Result, ScoreResult
from .types import Answer, Points, Signature, Triplet, Triplets

CLAIMS_PER_CALL = 30  # a lost reply loses no more labels than that
Labels = tuple[str | None, ...]  # one of `judge.LABELS` per claim; None = unscored


def score_result(
    triplet: Triplet, answer: Answer, value: float | None, signature: Signature
) -> ScoreResult:
    """The record of one value of a whole answer.

    None stands for an unscored answer, and nan for one whose reference is empty.
    """
    reason = ""
    if value is None:
        reason = "no value could be read"
    elif isnan(value):
        reason = "the reference is empty"
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


# --- RAGChecker (Ru et al., 2024): the claims of both sides, checked against the other text ---


@dataclass(frozen=True)
class Claims(Result):
    """RAGChecker's view of one answer. Metrics are as `with_claim_scores` says."""

    response_claims: Points | None  # None = the judge's list could not be read
    gt_answer_claims: Points | None
    answer2response: Labels = ()  # per response claim, what the reference says
    response2answer: Labels = ()  # per reference claim, what the response says
    recall: float = nan
    precision: float = nan
    f1: float = nan


def with_claim_scores(result: Claims) -> Claims:
    """The result with RAGChecker's overall precision, recall and F1, and what is unscored.

    Precision is the share of response claims that the reference entails. Recall is the share of
    reference claims that the response entails. Both are shares of the labels that could be read. A
    response without claims has precision 0, and the recall of its labels, as upstream has it. A
    value is nan when the reference has no claims (upstream: 0), when the claims of a side could not
    be read, and when no label of its side could be.

    `unscored` counts claims. Where the claims of a side could not be read, that side counts as one
    claim, and all are unscored.
    """
    sides = (result.response_claims, result.gt_answer_claims)
    if None in sides:
        unscored = sum(1 if claims is None else len(claims) for claims in sides)
        reason = "the claims of a side could not be read"
        return replace(result, unscored=unscored, reason=reason)
    unscored = (result.answer2response + result.response2answer).count(None)
    if not result.gt_answer_claims:
        return replace(result, unscored=unscored, reason="the reference has no claims")
    precision = _entailed(result.answer2response) if result.response_claims else 0.0
    recall = _entailed(result.response2answer)
    return replace(
        result,
        precision=precision,
        recall=recall,
        f1=f1(recall, precision),
        unscored=unscored,
        reason=f"{unscored} claims unscored" if unscored else "",
    )


def _entailed(labels: Labels) -> float:
    """The share of entailed claims among those with a label; nan without any."""
    n_labels = len(labels) - labels.count(None)
    return labels.count("Entailment") / n_labels if n_labels else nan


class RAGChecker(Evaluator[Claims]):
    """One judge lists the claims of both sides, and checks each against the other text.

    Claims are short sentences, where upstream has triples, and the prompts are the kit's own.
    """

    def __init__(self, judge: AnyJudge, prompts: Prompts | None = None):
        self.stage = JudgeStage(judge, prompts)
        self.stage.signature = self.stage.prompts.signature("claims", "entail_all")
        super().__init__(ragchecker=self.stage)

    def batch(self, triplets: Triplets, answers: Sequence[Answer]) -> list[Claims]:
        """List the claims of both sides, those of equal texts once, and check them."""
        pairs = [(triplets[answer.triplet_id], answer) for answer in answers]
        texts = []  # each with its question
        for triplet, answer in pairs:
            texts.append((triplet.question, triplet.reference))
            texts.append((triplet.question, answer.answer))
        claims = self._claims(texts)
        signature = self.signature
        results = []
        checks = []  # claims, and the text that they are checked against
        for triplet, answer in pairs:
            response = claims[triplet.question, answer.answer]
            reference = claims[triplet.question, triplet.reference]
            checks.append((response or (), sanitized(triplet.reference)))
            checks.append((reference or (), sanitized(answer.answer)))
            result = Claims(
                answer.triplet_id,
                answer.model,
                response_claims=response,
                gt_answer_claims=reference,
                question=triplet.question,
                group=triplet.group,
                signature=signature,
                figures=compare_figures(triplet, answer.answer, reference or (), response or ()),
            )
            results.append(result)
        labels = self._labels(checks)
        scored = []
        for result, by_reference, by_response in zip(
            results, labels[::2], labels[1::2], strict=True
        ):
            checked = replace(result, answer2response=by_reference, response2answer=by_response)
            scored.append(with_claim_scores(checked))
        return scored

    def _claims(self, texts: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Points | None]:
        """The claims of each different (question, text); an empty text has none, without a call."""
        claims: dict[tuple[str, str], Points | None] = {}
        requests = {}
        for question, text in texts:
            clean = sanitized(text)
            claims[question, text] = ()
            if clean:
                requests[question, text] = list_request(
                    self.stage.prompts,
                    "claims",
                    "claims",
                    clean,
                    question=quoted(question),
                )
        lists = self.stage.ask_and_read([*requests.values()], "list claims")
        return claims | dict(zip(requests, lists, strict=True))

    def _labels(self, checks: Sequence[tuple[Points, str]]) -> list[Labels]:
        """What the text of each check says of its claims, all in one round of asking.

        An empty text is Neutral about all claims, without a call.
        """
        requests = []
        for claims, text in checks:
            if text:
                requests += self._check_requests(claims, text)
        values = iter(self.stage.ask_and_read(requests, "check claims"))
        labels: list[Labels] = []
        for claims, text in checks:
            if text:
                labels.append(tuple(islice(values, len(claims))))
            else:
                labels.append(("Neutral",) * len(claims))
        return labels

    def _check_requests(self, claims: Points, text: str) -> list[Request]:
        requests = []
        for start in range(0, len(claims), CLAIMS_PER_CALL):
            part = claims[start : start + CLAIMS_PER_CALL]
            prompt = self.stage.prompts.fill("entail_all", text=text, claims=numbered(part))
            requests.append(labels_request("entail", prompt, len(part)))
        return requests


class JudgeAlone(Evaluator[ScoreResult]):
    """The judge compares a whole answer with the reference, and gives it a number from 0 to 100.

    The value is this number divided by 100. One call per answer. An empty answer scores 0 and an
    empty reference gives nan, both without a call. A reply without a whole number from 0 to 100 is
    unscored.
    """

    def __init__(self, judge: AnyJudge, prompts: Prompts | None = None):
        self.stage = JudgeStage(judge, prompts)
        self.stage.signature = self.stage.prompts.signature("judge_alone")
        super().__init__(judge_alone=self.stage)

    def batch(self, triplets: Triplets, answers: Sequence[Answer]) -> list[ScoreResult]:
        """One value per answer."""
        requests = []
        for answer in answers:
            triplet = triplets[answer.triplet_id]
            if triplet.reference.strip() and answer.answer.strip():
                requests.append(self._request(triplet, answer))
        values = iter(self.stage.ask_and_read(requests, "judge answers"))
        signature = self.signature
        results = []
        for answer in answers:
            triplet = triplets[answer.triplet_id]
            if not triplet.reference.strip():
                value = nan
            elif not answer.answer.strip():
                value = 0.0
            else:
                value = next(values)
            result = score_result(triplet, answer, value, signature)
            results.append(replace(result, figures=compare_figures(triplet, answer.answer, (), ())))
        return results

    def _request(self, triplet: Triplet, answer: Answer) -> Request:
        prompt = self.stage.prompts.fill(
            "judge_alone",
            question=quoted(triplet.question),
            reference=sanitized(triplet.reference),
            answer=sanitized(answer.answer),
        )
        read = partial(read_score, max_score=100)
        return Request("judge", prompt, NUMBER_TOKENS, assumed=partial(str, 100), read=read)
