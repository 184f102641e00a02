"""What EMS is compared with (paper, section 3.2): RAGChecker, and BLEU, ROUGE and BERTScore of whole answers,
whose arithmetic is in ngrams and local/encoder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

from .asking import Judge, Reply, Request, as_judge, list_schema, read_listed, read_reply, reply_schema, room
from .batches import batch_size, check_known, in_batches, through, triplets_by_id
from .metrics import f1
from .ngrams import BLEU_SIGNATURE, bleu, rouge
from .prompting import Prompts
from .reading import read_list, read_word
from .sanitise import harmless, numbered, quoted
from .score import MAX_TOKENS
from .types import Answer, InputError, Points, Triplet

__all__ = ["BLEU_SIGNATURE", "Claims", "RAGChecker", "bertscore", "bleu", "ragchecker_scores", "rouge"]
LABELS = ("Entailment", "Neutral", "Contradiction")
CHECKS = {"joint": "entail_all", "single": "entail"}     # ways to check claims, with the template of each
CLAIMS_PER_CALL = 30         # of a joint check: a lost reply loses no more labels than that
LABELS_SCHEMA = reply_schema("labels", {"type": "string", "enum": list(LABELS)})


def bertscore(references: Sequence[str], answers: Sequence[str], encoder: Any) -> list[float]:
    """BERTScore F1 of each whole answer, cut at the encoder's 512 tokens (counted in `encoder.truncated`)."""
    return encoder.bertscore(references, answers)[2]


@dataclass(frozen=True, slots=True)
class Claims:
    """RAGChecker's view of one answer: the claims of both sides and what the other side says of each."""

    triplet_id: str
    model: str
    response_claims: Points | None                # None = the judge's list could not be read
    gt_answer_claims: Points | None
    # Per response claim, what the reference says; None = unscored.
    answer2response: tuple[str | None, ...]
    response2answer: tuple[str | None, ...]       # per reference claim, what the response says

    @property
    def units(self) -> int:
        """Claims that should have a label; a side whose claims could not be read counts as one."""
        return sum(1 if side is None else len(side) for side in (self.response_claims, self.gt_answer_claims))

    @property
    def unscored(self) -> int:
        """Claims without a readable label; all, and no value, when a side's claims could not be read."""
        if self.response_claims is None or self.gt_answer_claims is None:
            return self.units
        return (self.answer2response + self.response2answer).count(None)


def entailed(labels: Sequence[str | None]) -> tuple[int, int]:
    """How many labels are Entailment, and how many could be read at all."""
    read = [label for label in labels if label is not None]
    return sum(label == "Entailment" for label in read), len(read)


def ragchecker_scores(claims: Claims) -> tuple[float, float, float]:
    """RAGChecker's overall precision, recall and F1, each in [0, 1] (Ru et al., 2024).

    Precision is the share of response claims that the reference entails, recall the share of reference claims
    that the response entails. As upstream computes it, a response without claims has precision 0 and the
    recall its text has by the labels: a judge may find no claim in a text and still say that it entails one.
    nan when the reference has no claims (upstream: 0), a side's claims could not be read, or no label of a
    side could be.
    """
    if claims.response_claims is None or claims.gt_answer_claims is None or not claims.gt_answer_claims:
        return nan, nan, nan
    (right, of), (covered, out_of) = entailed(claims.answer2response), entailed(claims.response2answer)
    precision = 0.0 if not claims.response_claims else right / of if of else nan
    recall = covered / out_of if out_of else nan
    return precision, recall, f1(recall, precision)


class RAGChecker:
    """Claims from each side, each checked against the other by one judge (RAGChecker's overall metrics).

    Claims are short sentences; upstream's are (subject, relation, object), and its prompts are its own.
    `check` "joint" lays up to `CLAIMS_PER_CALL` claims of a side before the judge at once, as upstream does;
    "single" asks about each claim alone. The signature says which. `unread` counts what could not be read.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *,
                 check: str = "joint"):
        if check not in CHECKS:
            raise InputError(f"check must be one of {', '.join(CHECKS)}, got {check!r}")
        self.judge, self.prompts = as_judge(judge), prompts or Prompts()
        self.form = check
        self.unread: Counter[str] = Counter()

    @property
    def signature(self) -> str:
        """The prompts, and the judge with its decoding."""
        prompts = self.prompts.signature("claims", CHECKS[self.form])
        return f"ragchecker:{prompts}|{self.judge.signature}"

    def check(self, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[Claims]:
        """Claims and labels of each answer, joined to triplets by id; a reference's claims are listed once.

        InputError for an answer to an unknown triplet, and for a repeated triplet id.
        """
        by_id = triplets_by_id(triplets)
        check_known(answers, by_id)
        listed: dict[str, Points | None] = {}
        batches = in_batches(answers, batch_size(self.judge), progress=False)
        return list(through(batches, lambda batch: self._check(by_id, batch, listed)))

    def _check(self, by_id: dict[str, Triplet], answers: Sequence[Answer],
               listed: dict[str, Points | None]) -> list[Claims]:
        """One batch; `listed` keeps the claims of references, by triplet id, from batch to batch."""
        wanted = [by_id[i] for i in dict.fromkeys(a.triplet_id for a in answers) if i not in listed]
        both = self._claims([(t.question, t.reference) for t in wanted]
                            + [(by_id[a.triplet_id].question, a.answer) for a in answers])
        listed.update(zip([t.id for t in wanted], both[:len(wanted)], strict=True))
        # What is checked against which text: of each answer first its own claims, then the reference's.
        sides: list[tuple[str, Points | None]] = []
        for a, claims in zip(answers, both[len(wanted):], strict=True):
            sides += [(by_id[a.triplet_id].reference, claims), (a.answer, listed[a.triplet_id])]
        labels = self._labels([(text, claims or ()) for text, claims in sides])
        return [Claims(a.triplet_id, a.model, sides[2 * i][1], sides[2 * i + 1][1], *labels[2 * i:2 * i + 2])
                for i, a in enumerate(answers)]

    def _claims(self, texts: Sequence[tuple[str, str]]) -> list[Points | None]:
        asked = [i for i, (_, text) in enumerate(texts) if harmless(text)]
        requests = []
        for i in asked:
            question, text = (harmless(part) for part in texts[i])
            prompt = self.prompts.fill("claims", question=quoted(question), answer=text)
            schema = list_schema("claims", text)
            requests.append(Request("claims", prompt, room(text) * 2, schema, about=text))
        claims: list[Points | None] = [()] * len(texts)
        for i, reply in zip(asked, self.judge.ask(requests, "list claims"), strict=True):
            listed = read_reply(reply, lambda text: read_list(text, "claims"), "claims", self.unread)
            claims[i] = None if listed is None else tuple(listed)
        return claims

    def _labels(self, sides: Sequence[tuple[str, Points]]) -> list[tuple[str | None, ...]]:
        """What each text says of each claim; an empty text leaves every claim open, without a call."""
        # Once, not for each of its claims.
        clean = {text: harmless(text) for text in {text for text, _ in sides}}
        labels: list[list[str | None]] = [["Neutral"] * len(claims) for _, claims in sides]
        step = CLAIMS_PER_CALL if self.form == "joint" else 1
        parts = [(s, i, claims[i:i + step]) for s, (text, claims) in enumerate(sides) if clean[text]
                 for i in range(0, len(claims), step)]
        requests = [self._request(clean[sides[s][0]], claims) for s, _, claims in parts]
        for (s, i, claims), reply in zip(parts, self.judge.ask(requests, "check claims"), strict=True):
            labels[s][i:i + step] = self._read(reply, len(claims))
        return [tuple(side) for side in labels]

    def _request(self, text: str, claims: Points) -> Request:
        if self.form == "single":
            prompt = self.prompts.fill("entail", text=text, claim=quoted(claims[0]))
            return Request("entail", prompt, MAX_TOKENS, choices=LABELS)
        prompt = self.prompts.fill("entail_all", text=text, claims=numbered(claims))
        return Request("entail", prompt, MAX_TOKENS + 8 * len(claims), LABELS_SCHEMA, choices=LABELS,
                       entries=len(claims))

    def _read(self, reply: Reply, count: int) -> list[str | None]:
        """One label a claim; None for each that could not be read."""
        read = partial(read_word, words=LABELS)
        if self.form == "single":
            return [read_reply(reply, read, "entail", self.unread)]
        return read_listed(reply, "labels", count, read, "entail", self.unread)
