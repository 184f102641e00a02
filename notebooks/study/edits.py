"""Edits of English prose whose effect is known: which metric notices what was done to a text?

Every edit offers changes in a random order that is the same in every run. A dose is a share of
them; the changes of a small dose are among those of a larger one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ems.analysis.frames import to_frame
from ems.analysis.stats import mean_over, spearman
from ems.evaluators import build
from ems.extract import Extractor
from ems.judge import Judge
from ems.local.sentences import SentenceExtractor
from ems.pipeline import Evaluator
from ems.results import EMSResult
from ems.score import bleu, rouge_l
from ems.types import Answer, InputError, Points, Triplet

from . import by_hash, values_frame
from .granularity import one_a_group

DOSES = (0.1, 0.25, 0.5, 0.75)
UNEDITED = "unedited"
PADDED = "pad with other facts"  # the edit that precision should notice
SHUFFLED = "shuffle sentences"
REPLACED = (0.0, 0.25, 0.5, 0.75, 1.0)  # shares of an answer's points, in `mixtures`
BEST, WORST = "Large LLM (closed weights)", "Qwen2.5-Coder-1.5B-Instruct (closed book)"
_SentenceList = list[str]  # the sentences of a text
# From a text's sentences and those of another text: new text for each sentence, or the old one.
Edit = Callable[[_SentenceList, _SentenceList, random.Random], _SentenceList]

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|will|would|can|could|should|has|have|had|does|did)\b"
    r"(?! not\b|['’])"
)
_VERB = re.compile(
    r"\b(?:shows?|confirms?|indicates?|expects?|reports?|reported|said|rose|fell|grew|"
    r"remains?|supports?)\b"
)


def _delete(sentences: _SentenceList, others: _SentenceList, rng: random.Random) -> _SentenceList:
    return [""] * len(sentences)


def _change_numbers(
    sentences: _SentenceList, others: _SentenceList, rng: random.Random
) -> _SentenceList:
    """The first digit but 0 of every number becomes another one: far beyond rounding."""

    def other_digit(digit: re.Match[str]) -> str:
        return rng.choice("123456789".replace(digit[0], ""))

    def other_number(number: re.Match[str]) -> str:
        return re.sub("[1-9]", other_digit, number[0], count=1)

    return [_NUMBER.sub(other_number, sentence) for sentence in sentences]


def _negate(sentences: _SentenceList, others: _SentenceList, rng: random.Random) -> _SentenceList:
    """One "not" or "never" in each sentence that has a place for it."""
    negated = []
    for sentence in sentences:
        text = _AUXILIARY.sub(r"\g<0> not", sentence, count=1)
        if text == sentence:
            text = _VERB.sub(r"never \g<0>", sentence, count=1)
        negated.append(text)
    return negated


def _pad(sentences: _SentenceList, others: _SentenceList, rng: random.Random) -> _SentenceList:
    padded = [f"{sentence} {added}" for sentence, added in zip(sentences, others, strict=False)]
    return padded + sentences[len(padded) :]


def _shuffle(sentences: _SentenceList, others: _SentenceList, rng: random.Random) -> _SentenceList:
    return rng.sample(sentences, len(sentences))


# The edits by name: what a metric should make of it, and the function.
EDITS: dict[str, tuple[str, Edit]] = {
    "delete points": ("content lost: F1 falls", _delete),
    "change numbers": ("content false: F1 falls", _change_numbers),
    "negate": ("content false: F1 falls", _negate),
    PADDED: ("more than was asked: precision falls", _pad),
    SHUFFLED: ("content unchanged: nothing falls", _shuffle),
}


def edit_text(name: str, text: str, other: str, dose: float, key: str) -> str | None:
    """The text after the share `dose` in (0, 1] of an edit's changes, at least one.

    None where the edit changes nothing. `other` is a text to take sentences from; `key` varies the
    choice of changes. Equal arguments give equal texts. Shuffling ignores the dose, since all
    sentences move together. InputError for a dose that is not such a share.
    """
    if not 0 < dose <= 1:
        raise InputError(f"a dose is a share in (0, 1], got {dose}")
    rng = random.Random(f"7|{name}|{key}")
    sentences = _sentences(text)
    new = EDITS[name][1](sentences, _sentences(other), rng)
    if name == SHUFFLED:
        return "\n\n".join(new) if new else None
    changes = [i for i, sentence in enumerate(sentences) if new[i] != sentence]
    if not changes:
        return None
    for i in rng.sample(changes, len(changes))[: max(1, round(dose * len(changes)))]:
        sentences[i] = new[i]
    return "\n\n".join(sentence for sentence in sentences if sentence)


def _sentences(text: str) -> _SentenceList:
    return list(SentenceExtractor(keep_summaries=True)([text])[0] or ())


def edited_answers(triplets: Sequence[Triplet], doses: Sequence[float] = DOSES) -> list[Answer]:
    """Every edit at every dose of every reference, as answers.

    An answer's model is "<edit>@<dose>", or `UNEDITED`. Padding comes from the next triplet's
    reference.
    """
    answers = []
    for t, following in zip(triplets, [*triplets[1:], *triplets[:1]], strict=True):
        answers.append(Answer(t.id, UNEDITED, "\n\n".join(_sentences(t.reference))))
        for name, dose in product(EDITS, doses):
            text = edit_text(name, t.reference, following.reference, dose, t.id)
            if text is not None:
                answers.append(Answer(t.id, f"{name}@{dose:g}", text))
    return answers


def mixtures(
    triplets: Sequence[Triplet], results: Sequence[EMSResult]
) -> tuple[list[Triplet], list[Answer]]:
    """Answers of a known order: points of `BEST`'s answer, more and more replaced by `WORST`'s.

    One question a group, drawn by hash, in five steps (`REPLACED`). A point is a line; the model is
    the share replaced, such as "25%". Hashes decide which points are replaced; those of a small
    share are among those of a larger one. Where `WORST` has too few points for the question, its
    points for other questions of the group follow.
    """
    points = {(r.model, r.triplet_id): r.ans_points for r in results}
    drawn = one_a_group(t for t in triplets if points.get((BEST, t.id)) and (WORST, t.id) in points)
    answers = []
    for triplet in drawn:
        good = points[BEST, triplet.id]
        bad = list(points[WORST, triplet.id])
        for t in triplets:
            if t.group == triplet.group and t.id != triplet.id:
                bad += points.get((WORST, t.id), ())
        order = by_hash(range(len(good)), partial("{} {}".format, triplet.id))
        for share in REPLACED:
            mixed = list(good)
            for i, point in zip(order[: round(share * len(good))], bad, strict=False):
                mixed[i] = point
            answers.append(Answer(triplet.id, f"{share:.0%}", "\n".join(mixed)))
    return drawn, answers


class Lines:
    """An extractor for `mixtures`: each line of such an answer is a point.

    Other texts go to `extract`.
    """

    def __init__(self, extract: Extractor, answers: Sequence[Answer]):
        self.extract = extract
        self.texts = {answer.answer for answer in answers}
        self.signature = f"lines of mixed answers, else {extract.signature}"

    def __call__(self, texts: Sequence[str]) -> list[Points | None]:
        others = iter(self.extract([text for text in texts if text not in self.texts]))
        return [tuple(text.split("\n")) if text in self.texts else next(others) for text in texts]


def values(
    triplets: Sequence[Triplet],
    answers: Sequence[Answer],
    judge: Judge | None = None,
    extract: Extractor | None = None,
) -> pd.DataFrame:
    """The values of BLEU, ROUGE-L, EMS(ROUGE) and Coverage(local) for the answers.

    With a judge also EMS(LLM), joint, and the judge alone; with `extract` also coverage by the
    judge, on its points.
    """
    reference = {t.id: t.reference for t in triplets}
    references = [reference[a.triplet_id] for a in answers]
    texts = [a.answer for a in answers]
    f1_of_rouge = [f1 for _, _, f1 in rouge_l(references, texts)]
    evaluators: dict[str, Evaluator[Any]] = {
        "EMS(ROUGE)": build(None, "rouge"),
        "Coverage(local)": build(),
    }
    if judge is not None:
        evaluators["EMS(LLM)"] = build(judge, joint=True, extractor=extract)
        evaluators["Judge alone"] = build(judge, "judge")
        if extract is not None:
            evaluators["Coverage(LLM)"] = build(judge, "coverage", extractor=extract)
    results = {name: one.evaluate(triplets, answers) for name, one in evaluators.items()}
    frames = [
        values_frame(answers, bleu(references, texts), "BLEU", "Score", {}, triplets),
        values_frame(answers, f1_of_rouge, "ROUGE-L", "F1", {}, triplets),
        to_frame(results),
    ]
    return pd.concat(frames, ignore_index=True)


def order_kept(values: pd.DataFrame) -> pd.DataFrame:
    """How far each metric gives the `mixtures` the order that is known.

    Index: metric. Columns: the mean of F1 or Score for each of `REPLACED`; `steps`, the share of
    steps to more replaced points at which the value falls (a tie counts half); `spearman`, the mean
    over answers of the correlation with the share that is not replaced; `n` answers.
    """
    values = values[values["part"].isin(["F1", "Score"])]
    columns = [f"{share:.0%}" for share in REPLACED]
    rows = {}
    for metric, rows_of_metric in values.groupby("metric", sort=False):
        table = rows_of_metric.pivot(index="triplet_id", columns="model", values="value")[columns]
        falls = (1 - np.sign(np.diff(table.to_numpy(), axis=1))) / 2
        follows = table.apply(lambda row: spearman(row.to_numpy(), range(len(row), 0, -1)), axis=1)
        rows[metric] = {
            **table.mean(),
            "steps": falls.mean(),
            "spearman": follows.mean(),
            "n": len(table),
        }
    return pd.DataFrame(rows).T.rename_axis("metric")


def losses(values: pd.DataFrame) -> pd.DataFrame:
    """How much each metric falls at each edit, from the values of `edited_answers`.

    A row per metric, edit and dose: the mean over texts of the unedited text's value minus the
    edited one's, with its t interval over groups, and n. The value is that of `_part_that_falls`.
    """
    is_edited = values["model"] != UNEDITED
    keys = ["metric", "part", "triplet_id"]
    pairs = values[is_edited].merge(values[~is_edited], "left", keys, suffixes=("", "_before"))
    pairs["loss"] = pairs["value_before"] - pairs["value"]
    pairs[["edit", "dose"]] = pairs["model"].str.split("@", expand=True).to_numpy()
    rows = []
    for (metric, name, dose), cell in pairs.groupby(["metric", "edit", "dose"], sort=False):
        part = _part_that_falls(name, set(cell["part"]))
        cell = cell[cell["part"] == part]
        loss = mean_over(cell["loss"].to_numpy(), list(cell["group"]))
        rows.append(
            {
                "metric": metric,
                "edit": name,
                "dose": float(dose),
                "part": part,
                "loss": loss.value,
                "ci_low": loss.ci_low,
                "ci_high": loss.ci_high,
                "n": loss.n,
                "should": EDITS[name][0],
            }
        )
    return pd.DataFrame(rows)


def _part_that_falls(edit: str, parts: Collection[str]) -> str:
    """Of the parts of a metric, that which should notice the edit.

    It is precision where the edit adds text, else F1, Score, or the recall of a metric without F1.
    """
    wanted = ["F1", "Score", "Recall"]
    if edit == PADDED:
        wanted = ["Precision", *wanted]
    return next(part for part in wanted if part in parts)
