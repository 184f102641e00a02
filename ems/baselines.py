"""What EMS is compared with (paper, section 3.2): BLEU, ROUGE and BERTScore on whole answers, and RAGChecker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan

from .extract import list_schema, room
from .judge.budget import longest_list
from .local.encoder import Encoder
from .metrics import f1
from .pipeline import batch_size, through
from .prompting import Prompts, as_judge
from .reading import read_list, read_word
from .sanitise import harmless, quoted
from .types import Answer, Judge, Request, Triplet

LABELS = ("Entailment", "Neutral", "Contradiction")
BLEU_SIGNATURE = "bleu:nltk sentence,4-gram,smoothing=method1,words=lower"


def bleu(references: Sequence[str], answers: Sequence[str]) -> list[float]:
    """Sentence BLEU of each answer against its reference, in [0, 1]; 0 when either is empty.

    NLTK's, up to 4-grams, uniform weights, smoothing method 1, on lower-cased words, numbers and signs. The paper
    names no settings.
    """
    from nltk.tokenize import wordpunct_tokenize
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    words = [(wordpunct_tokenize(r.lower()), wordpunct_tokenize(a.lower()))
             for r, a in zip(references, answers, strict=True)]
    return [float(sentence_bleu([ref], ans, smoothing_function=smoothing)) if ref and ans else 0.0
            for ref, ans in words]


def rouge(references: Sequence[str], answers: Sequence[str],
          kinds: Sequence[str] = ("rouge1", "rouge2", "rougeL")) -> dict[str, list[tuple[float, float, float]]]:
    """ROUGE (precision, recall, F1) of each answer, by kind, in [0, 1], with stemming (rouge-score)."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(kinds), use_stemmer=True)
    scored = [scorer.score(r, a) for r, a in zip(references, answers, strict=True)]
    return {kind: [(s[kind].precision, s[kind].recall, s[kind].fmeasure) for s in scored] for kind in kinds}


def bertscore(references: Sequence[str], answers: Sequence[str], encoder: Encoder) -> list[float]:
    """BERTScore F1 of each whole answer, cut at the encoder's 512 tokens (counted in `encoder.truncated`)."""
    return encoder.bertscore(references, answers)[2]


@dataclass(frozen=True, slots=True)
class Claims:
    """RAGChecker's view of one answer: the claims of both sides and what the other side says of each."""

    triplet_id: str
    model: str
    response_claims: tuple[str, ...] | None       # None = the judge's list could not be read
    gt_answer_claims: tuple[str, ...] | None
    answer2response: tuple[str | None, ...]       # per response claim, what the reference says; None = unscored
    response2answer: tuple[str | None, ...]       # per reference claim, what the response says

    @property
    def units(self) -> int:
        """Claims that should have a label; a side whose claims could not be read counts as one."""
        return sum(1 if side is None else len(side) for side in (self.response_claims, self.gt_answer_claims))

    @property
    def unscored(self) -> int:
        """Claims without a readable label; all of them when a side could not be read: the answer has no value then."""
        if self.response_claims is None or self.gt_answer_claims is None:
            return self.units
        return (self.answer2response + self.response2answer).count(None)


def entailed(labels: Sequence[str | None]) -> tuple[int, int]:
    """How many labels are Entailment, and how many could be read at all."""
    read = [label for label in labels if label is not None]
    return sum(label == "Entailment" for label in read), len(read)


def ragchecker_scores(claims: Claims) -> tuple[float, float, float]:
    """RAGChecker's overall precision, recall and F1, each in [0, 1] (Ru et al., 2024).

    Precision is the share of response claims that the reference entails, recall the share of reference claims that
    the response entails. As upstream computes it, a response without claims has precision 0 and the recall its text has
    by the labels: a judge may find no claim in a text and still say that it entails one. nan when the reference has no
    claims (upstream: 0), a side's claims could not be read, or no label of a side could be.
    """
    if claims.response_claims is None or claims.gt_answer_claims is None or not claims.gt_answer_claims:
        return nan, nan, nan
    (right, of), (covered, out_of) = entailed(claims.answer2response), entailed(claims.response2answer)
    precision = 0.0 if not claims.response_claims else right / of if of else nan
    recall = covered / out_of if out_of else nan
    return precision, recall, f1(recall, precision)


class RAGChecker:
    """Claims from each side, each checked against the other side, by one judge (RAGChecker's overall metrics)."""

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *, max_tokens: int = 32):
        self.judge, self.prompts, self.max_tokens = as_judge(judge), prompts or Prompts(), max_tokens
        self.unread: Counter[str] = Counter()

    @property
    def signature(self) -> str:
        """Prompts, and the judge as its server let it be asked so far."""
        return f"ragchecker:{self.prompts.signature('claims', 'entail')}|{self.judge.signature}"

    def check(self, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[Claims]:
        """Claims and labels of each answer; answers are joined to triplets by id."""
        by_id, size = {t.id: t for t in triplets}, batch_size(self.judge)
        batches = (answers[i:i + size] for i in range(0, len(answers), size))
        return list(through(batches, lambda batch: self._check(by_id, batch)))

    def _check(self, by_id: dict[str, Triplet], answers: Sequence[Answer]) -> list[Claims]:
        asked = [by_id[a.triplet_id] for a in answers]
        both = self._claims([(t.question, t.reference) for t in asked] +
                            [(t.question, a.answer) for t, a in zip(asked, answers, strict=True)])
        refs, said = both[:len(answers)], both[len(answers):]
        questions = [(text, claim) for a, ref, own in zip(answers, refs, said, strict=True)
                     for text, side in ((by_id[a.triplet_id].reference, own), (a.answer, ref))
                     for claim in side or ()]
        labels = iter(self._labels(questions))
        return [Claims(a.triplet_id, a.model, own, ref,
                       tuple(next(labels) for _ in own or ()), tuple(next(labels) for _ in ref or ()))
                for a, ref, own in zip(answers, refs, said, strict=True)]

    def _claims(self, texts: Sequence[tuple[str, str]]) -> list[tuple[str, ...] | None]:
        asked = [i for i, (_, text) in enumerate(texts) if harmless(text)]
        requests = []
        for i in asked:
            question, text = (harmless(part) for part in texts[i])
            prompt = self.prompts.fill("claims", question=quoted(question), answer=text)
            requests.append(Request("claims", prompt, room(text) * 2, list_schema("claims", text),
                                    assumed=partial(longest_list, text, list_schema("claims", text))))
        claims: list[tuple[str, ...] | None] = [()] * len(texts)
        for i, reply in zip(asked, self.judge.ask(requests, "list claims"), strict=True):
            read = None if reply.text is None else read_list(reply.text, "claims")
            if read is None:
                self.unread[f"claims: {reply.error or 'unreadable'}"] += 1
            claims[i] = None if read is None else tuple(read)
        return claims

    def _labels(self, questions: Sequence[tuple[str, str]]) -> list[str | None]:
        """What each text says of each claim; an empty text leaves every claim open, without a call."""
        labels: list[str | None] = ["Neutral"] * len(questions)
        clean = {text: harmless(text) for text in {text for text, _ in questions}}     # once, not for each of its claims
        asked = [i for i, (text, _) in enumerate(questions) if clean[text]]
        requests = [Request("entail", self.prompts.fill("entail", text=clean[questions[i][0]],
                                                        claim=quoted(questions[i][1])), self.max_tokens,
                            assumed="Neutral")
                    for i in asked]
        for i, reply in zip(asked, self.judge.ask(requests, "check claims"), strict=True):
            labels[i] = None if reply.text is None else read_word(reply.text, LABELS)
            if labels[i] is None:
                self.unread[f"entail: {reply.error or 'unreadable'}"] += 1
        return labels
