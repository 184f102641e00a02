"""OmniEval's five rubrics of a whole answer (Wang et al., 2024, arXiv:2412.13018), by a judge or by numbers.

The rubrics and their levels are the paper's, the prompts are ours. A level is normalised to [0, 1]: its rank
divided by that of the highest one. An answer to which a rubric does not apply is *not applicable*: it leaves
the mean, as in the paper, and is counted. A reply that cannot be read is *unscored*, which is something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, nan
from typing import TYPE_CHECKING

from ..asking import Judge, Reply, Request, as_judge
from ..batches import check_known, triplets_by_id
from ..local.quantities import Quantity, find_quantities, same
from ..local.sentences import SentenceExtractor
from ..prompting import Prompts
from ..reading import read_word
from ..sanitise import harmless, quoted
from ..types import Answer, InputError, Support, Triplet
from .document import Document
from .stage import Supporter
from .supporters import LocalSupporter

if TYPE_CHECKING:
    import pandas as pd

NOT_APPLICABLE = "not applicable"
PASSAGES = 5               # of a document, laid before the judge; as many as OmniEval retrieves
MAX_TOKENS = 32            # of a reply
Found = float | str        # a value in [0, 1], or the reason why there is none


@dataclass(frozen=True, slots=True)
class Rubric:
    """One question about an answer, and the levels that a judge chooses from."""

    name: str
    levels: tuple[str, ...]              # the lowest first
    may_not_apply: bool = False          # whether a judge may say that it does not apply
    of_document: bool = False            # whether it is about the document; without one it does not apply
    lower_is_better: bool = False

    @property
    def template(self) -> str:
        return f"rubric_{self.name}"

    @property
    def choices(self) -> tuple[str, ...]:
        return (*self.levels, NOT_APPLICABLE) if self.may_not_apply else self.levels


RUBRICS = {rubric.name: rubric for rubric in (
    Rubric("accuracy", ("wrong", "partly right", "right")),
    Rubric("completeness", ("none", "some", "all"), may_not_apply=True),
    Rubric("hallucination", ("no", "yes"), may_not_apply=True, of_document=True, lower_is_better=True),
    Rubric("utilization", ("none", "some", "all"), of_document=True),
    Rubric("numeric", ("wrong", "right"), may_not_apply=True),
)}


@dataclass(frozen=True, slots=True)
class Rating:
    """What one rubric says of one answer: a value, or why there is none."""

    triplet_id: str
    model: str
    rubric: str
    value: float | None           # in [0, 1]; None when the rubric does not apply or the reply was no answer
    reason: str = ""              # empty with a value; else "not applicable", or what went wrong

    @property
    def applies(self) -> bool:
        """Whether the answer counts for this rubric, scored or not."""
        return self.reason != NOT_APPLICABLE


def normalised(level: str, levels: Sequence[str]) -> float:
    """The rank of a level among `levels`, the lowest first, divided by the highest rank: in [0, 1]."""
    return list(levels).index(level) / (len(levels) - 1)


class RubricJudge:
    """Rates whole answers by a judge, one call for each answer and rubric; `unread` counts what was lost.

    `rubrics` names some of `RUBRICS`. Those about the document see its passages nearest to the question and
    the answer, and do not apply to a triplet without context. An empty answer is not asked about: it has the
    lowest level, no hallucination to look for, and no number where the reference has none.
    """

    def __init__(self, judge: Judge | Callable[[str], str], prompts: Prompts | None = None, *,
                 rubrics: Sequence[str] = tuple(RUBRICS)):
        if unknown := [name for name in rubrics if name not in RUBRICS]:
            raise InputError(f"rubrics must be among {', '.join(RUBRICS)}, got {unknown[0]!r}")
        self.judge, self.prompts = as_judge(judge), prompts or Prompts()
        self.rubrics = [RUBRICS[name] for name in rubrics]
        self.unread: Counter[str] = Counter()

    @property
    def signature(self) -> str:
        """The prompts, the number of passages, and the judge with its decoding."""
        prompts = self.prompts.signature(*(rubric.template for rubric in self.rubrics))
        return f"rubrics:{prompts},passages={PASSAGES}|{self.judge.signature}"

    def rate(self, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> list[Rating]:
        """A rating for each answer and rubric, in this order. InputError for an answer to no triplet."""
        by_id = _by_id(triplets, answers)
        wanted = [(rubric, by_id[answer.triplet_id], answer) for answer in answers for rubric in self.rubrics]
        found = [_without_asking(*one) for one in wanted]
        asked = [k for k, known in enumerate(found) if known is None]
        replies = self.judge.ask([self._request(*wanted[k]) for k in asked], "rate answers")
        for k, reply in zip(asked, replies, strict=True):
            found[k] = self._read(wanted[k][0], reply)
        return [_rated(answer, rubric.name, one)
                for (rubric, _, answer), one in zip(wanted, found, strict=True)]

    def _request(self, rubric: Rubric, triplet: Triplet, answer: Answer) -> Request:
        slots = {"question": quoted(triplet.question), "answer": harmless(answer.answer)}
        if rubric.name != "utilization":
            slots["reference"] = harmless(triplet.reference)
        if rubric.of_document:
            document = Document.of(triplet.context or "")
            best = sorted(document.index.top(f"{triplet.question}\n{answer.answer}", PASSAGES))
            slots["passages"] = "\n\n".join(harmless(document.passages[i]) for i in best)
        prompt = self.prompts.fill(rubric.template, **slots)
        return Request("rubric", prompt, MAX_TOKENS, choices=rubric.choices)

    def _read(self, rubric: Rubric, reply: Reply) -> Found:
        word = None if reply.text is None else read_word(reply.text, rubric.choices)
        if word is None:
            word = reply.error or "unreadable"
            self.unread[f"{rubric.name}: {word}"] += 1
        return normalised(word, rubric.levels) if word in rubric.levels else word


def _without_asking(rubric: Rubric, triplet: Triplet, answer: Answer) -> Found | None:
    """What is found without a judge; None where one is to be asked."""
    if rubric.of_document and not (triplet.context or "").strip():
        return NOT_APPLICABLE
    if harmless(answer.answer):
        return None
    nothing_to_say = rubric.name == "hallucination" or (
        rubric.name == "numeric" and not _amounts(triplet.reference))
    return NOT_APPLICABLE if nothing_to_say else 0.0


# --- without a judge ---

def number_recall(references: Sequence[str], answers: Sequence[str]) -> list[float | None]:
    """Share in [0, 1] of the amounts of each reference that its answer has too: numeric accuracy by numbers.

    Numbers are the same when they agree as far as they are printed (`local.quantities.same`); dates are not
    counted. None where the reference has no amount, and the rubric does not apply.
    """
    return [_share_found(reference, answer) for reference, answer in zip(references, answers, strict=True)]


def local_ratings(triplets: Sequence[Triplet], answers: Sequence[Answer],
                  supporter: Supporter | None = None) -> list[Rating]:
    """Two of the rubrics without a judge, for each answer: numeric accuracy and hallucination.

    Numeric accuracy is `number_recall`. Hallucination is the share of the answer's sentences with an amount
    that the document does not support (1 - EMS-Support, by `supporter`, by default `LocalSupporter`). It is
    stricter than the judge's question: a right number from elsewhere counts. Neither applies where there is
    nothing to check. A sentence that the supporter failed to judge leaves the share; an answer with no other
    sentence is unscored. InputError for an answer to no triplet.
    """
    by_id, supporter = _by_id(triplets, answers), supporter or LocalSupporter()
    documents = [(by_id[answer.triplet_id].context or "").strip() for answer in answers]
    points = SentenceExtractor()([answer.answer for answer in answers])
    with_document = [i for i, document in enumerate(documents) if document]
    supports = dict(zip(with_document, supporter([(documents[i], points[i] or ()) for i in with_document]),
                        strict=True))
    ratings = []
    for i, answer in enumerate(answers):
        found = _share_found(by_id[answer.triplet_id].reference, answer.answer)
        ratings.append(_rated(answer, "numeric", NOT_APPLICABLE if found is None else found))
        ratings.append(_rated(answer, "hallucination", _hallucination(supports.get(i, ()))))
    return ratings


def _hallucination(supports: Sequence[Support]) -> Found:
    labels = [support.label for support in supports if support.checked]
    if labels:
        return sum(label != "supported" for label in labels) / len(labels)
    return "unreadable" if any(support.label is None for support in supports) else NOT_APPLICABLE


def _share_found(reference: str, answer: str) -> float | None:
    wanted, given = _amounts(reference), _amounts(answer)
    return sum(any(same(q, other) for other in given) for q in wanted) / len(wanted) if wanted else None


def _amounts(text: str) -> list[Quantity]:
    return [q for q in find_quantities(text) if q.unit not in ("date", "versus")]


# --- many ratings ---

def rating_table(ratings: Iterable[Rating]) -> pd.DataFrame:
    """A row a model and rubric: mean over scored answers (nan for none), scored, not_applicable, unscored."""
    import pandas as pd

    rows = [(r.model, r.rubric, r.value, not r.applies, r.applies and r.value is None) for r in ratings]
    table = pd.DataFrame(rows, columns=["model", "rubric", "value", "not_applicable", "unscored"])
    return table.astype({"value": float}).groupby(["model", "rubric"], sort=False, as_index=False).agg(
        mean=("value", lambda values: fsum(values.dropna()) / values.count() if values.count() else nan),
        scored=("value", "count"), not_applicable=("not_applicable", "sum"), unscored=("unscored", "sum"))


def rating_frame(ratings: Sequence[Rating], signature: str, triplets: Sequence[Triplet]) -> pd.DataFrame:
    """The ratings as a values frame for `stats.summarise` and the tables, as metric "OmniEval accuracy" ....

    An answer to which a rubric does not apply has no row; the signature says how many there are.
    """
    import pandas as pd

    groups = {t.id: t.group for t in triplets}
    absent = Counter((r.rubric, r.model) for r in ratings if not r.applies)
    return pd.DataFrame([{
        "metric": f"OmniEval {r.rubric}", "part": "Score", "model": r.model, "triplet_id": r.triplet_id,
        "group": groups[r.triplet_id], "value": nan if r.value is None else r.value,
        "num": nan if r.value is None else r.value, "den": nan if r.value is None else 1.0, "units": 1,
        "unscored": int(r.value is None),
        "signature": f"{signature}|{NOT_APPLICABLE}:{absent[r.rubric, r.model]}"}
        for r in ratings if r.applies])


def _by_id(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> Mapping[str, Triplet]:
    by_id = triplets_by_id(triplets)
    check_known(answers, by_id)
    return by_id


def _rated(answer: Answer, rubric: str, found: Found | None) -> Rating:
    value, reason = (None, found) if isinstance(found, str) else (found, "")
    return Rating(answer.triplet_id, answer.model, rubric, value, reason)
