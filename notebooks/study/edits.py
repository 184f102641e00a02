"""Edits of English prose whose effect is known: which metric notices what was done to a text?

Every edit offers changes in a random order that the seed fixes. A dose is a share of them; the changes of a
small dose are among those of a larger one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from ems.analysis.frames import to_frame
from ems.analysis.stats import mean_over, spearman
from ems.baselines import bleu, rouge
from ems.evaluators import build
from ems.extract import Extractor
from ems.judge import Judge
from ems.local.sentences import SentenceExtractor
from ems.pipeline import Evaluator
from ems.results import EMSResult
from ems.types import Answer, InputError, Points, Triplet

from . import by_hash, values_frame
from .granularity import one_a_group

DOSES = (0.1, 0.25, 0.5, 0.75)
UNEDITED = "unedited"
PADDED = "pad with other facts"  # the edit that precision should notice
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of an answer's points that are replaced by a worse answer's
BEST, WORST = "Large LLM (closed weights)", "Qwen2.5-Coder-1.5B-Instruct (closed book)"
Sentences = list[str]
# From a text's sentences and another text's: which sentence, and its new text.
Edit = Callable[[Sentences, Sentences, random.Random], Iterator[tuple[int, str]]]

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|will|would|can|could|should|has|have|had|does|did)\b"
    r"(?! not\b|['’])"
)
_VERB = re.compile(
    r"\b(?:shows?|confirms?|indicates?|expects?|reports?|reported|said|rose|fell|grew|"
    r"remains?|supports?)\b"
)


def _delete(text: Sentences, other: Sentences, rng: random.Random) -> Iterator[tuple[int, str]]:
    for i in range(len(text)):
        yield i, ""


def _change_numbers(
    text: Sentences, other: Sentences, rng: random.Random
) -> Iterator[tuple[int, str]]:
    """The first digit but 0 of every number of a sentence becomes another one: far beyond rounding."""
    for i, sentence in enumerate(text):
        changed = _NUMBER.sub(lambda m: _other_number(m[0], rng), sentence)
        if changed != sentence:
            yield i, changed


def _other_number(number: str, rng: random.Random) -> str:
    return re.sub(
        "[1-9]", lambda digit: rng.choice("123456789".replace(digit[0], "")), number, count=1
    )


def _negate(text: Sentences, other: Sentences, rng: random.Random) -> Iterator[tuple[int, str]]:
    """One "not" or "never" in each sentence that has a place for it."""
    for i, sentence in enumerate(text):
        if found := _AUXILIARY.search(sentence):
            yield i, f"{sentence[: found.end()]} not{sentence[found.end() :]}"
        elif found := _VERB.search(sentence):
            yield i, f"{sentence[: found.start()]}never {sentence[found.start() :]}"


def _pad(text: Sentences, other: Sentences, rng: random.Random) -> Iterator[tuple[int, str]]:
    for i, (sentence, added) in enumerate(zip(text, other, strict=False)):
        yield i, f"{sentence} {added}"


def _shuffle(text: Sentences, other: Sentences, rng: random.Random) -> Iterator[tuple[int, str]]:
    order = rng.sample(range(len(text)), len(text))
    for i, j in enumerate(order):
        yield i, text[j]


# The edits by name: what a metric should make of it, and the changes it offers.
EDITS: dict[str, tuple[str, Edit]] = {
    "delete points": ("content lost: F1 falls", _delete),
    "change numbers": ("content false: F1 falls", _change_numbers),
    "negate": ("content false: F1 falls", _negate),
    PADDED: ("more than was asked: precision falls", _pad),
    "shuffle sentences": ("content unchanged: nothing falls", _shuffle),
}


def edited(name: str, text: str, other: str, dose: float, key: str, seed: int = 7) -> str | None:
    """The text after the share `dose` in (0, 1] of an edit's changes, at least one; None where there is none.

    `other` is a text to take sentences from; `key` varies the choice. Equal arguments give equal texts.
    """
    if not 0 < dose <= 1:
        raise InputError(f"a dose is a share in (0, 1], got {dose}")
    rng = random.Random(f"{seed}|{name}|{key}")
    cut = SentenceExtractor(keep_summaries=True)
    sentences, others = (list(points or ()) for points in cut([text, other]))
    offered = list(EDITS[name][1](sentences, others, rng))
    if not offered:
        return None
    if name != "shuffle sentences":  # there all sentences move together, whatever the dose
        offered = rng.sample(offered, len(offered))[: max(1, round(dose * len(offered)))]
    for i, new in offered:
        sentences[i] = new
    return "\n\n".join(sentence for sentence in sentences if sentence)


def edited_answers(
    triplets: Sequence[Triplet], doses: Sequence[float] = DOSES, seed: int = 7
) -> list[Answer]:
    """Every edit at every dose of every reference as an answer: model "<edit>@<dose>", and `UNEDITED`.

    Padding comes from the next triplet's reference.
    """
    answers = []
    for t, following in zip(triplets, [*triplets[1:], *triplets[:1]], strict=True):
        sentences = SentenceExtractor(keep_summaries=True)([t.reference])[0] or ()
        answers.append(Answer(t.id, UNEDITED, "\n\n".join(sentences)))
        for name, dose in product(EDITS, doses):
            text = edited(name, t.reference, following.reference, dose, t.id, seed)
            if text is not None:
                answers.append(Answer(t.id, f"{name}@{dose:g}", text))
    return answers


def mixtures(
    triplets: Sequence[Triplet], results: Sequence[EMSResult], best: str = BEST, worst: str = WORST
) -> tuple[list[Triplet], list[Answer]]:
    """Answers of a known order: the points of `best`'s answer, more and more replaced by those of `worst`'s.

    One question a group, drawn by hash, in five steps (`SHARES`); a point a line; model is the share
    replaced, "25 %". Which points go is fixed by hash, and those of a small share are among those of a larger
    one. Where `worst` has too few points for the question, those for its group's other questions follow.
    """
    points = {(r.model, r.triplet_id): r.ans_points for r in results}
    drawn = one_a_group(t for t in triplets if points.get((best, t.id)) and (worst, t.id) in points)
    answers = []
    for triplet in drawn:
        good = list(points[best, triplet.id])
        others = [t.id for t in triplets if t.group == triplet.group and t.id != triplet.id]
        bad = [point for id_ in [triplet.id, *others] for point in points.get((worst, id_), ())]
        order = by_hash(range(len(good)), partial("{} {}".format, triplet.id))
        for share in SHARES:
            mixed = dict(enumerate(good))
            for i, point in zip(order[: round(share * len(good))], bad, strict=False):
                mixed[i] = point
            answers.append(Answer(triplet.id, f"{share:.0%}", "\n".join(mixed.values())))
    return drawn, answers


class Lines:
    """An extractor for `mixtures`: a line of such an answer is a point; other texts go to `extract`."""

    def __init__(self, extract: Extractor, answers: Sequence[Answer]):
        self.extract, self.texts = extract, {answer.answer for answer in answers}
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
    """What the metrics say of the answers, as a frame of values.

    With a judge also EMS(LLM), joint, the judge alone and, on the points of `extract`, coverage by the judge.
    """
    reference = {t.id: t.reference for t in triplets}
    texts = [reference[a.triplet_id] for a in answers], [a.answer for a in answers]
    rouge_l = [f1 for _, _, f1 in rouge(*texts, ["rougeL"])["rougeL"]]
    evaluators: dict[str, Evaluator[Any]] = {
        "EMS(ROUGE)": build(None, "rouge"),
        "Coverage(local)": build(),
    }
    if judge is not None:
        evaluators["EMS(LLM)"] = build(judge, joint=True, extractor=extract)
        evaluators["Judge alone"] = build(judge, "judge")
    if judge is not None and extract is not None:
        evaluators["Coverage(LLM)"] = build(judge, "coverage", extractor=extract)
    frames = [
        values_frame(answers, bleu(*texts), "BLEU", "Score", {}, triplets),
        values_frame(answers, rouge_l, "ROUGE-L", "F1", {}, triplets),
    ]
    frames += [to_frame(one.evaluate(triplets, answers), name) for name, one in evaluators.items()]
    return pd.concat(frames, ignore_index=True)


def rises(values: pd.DataFrame) -> pd.DataFrame:
    """How each metric follows the `mixtures`: means by share replaced, and whether each step is a loss.

    Columns: a mean (of F1 or Score) for each of `SHARES`; `steps`, the share of an answer's steps to more
    replaced points at which its value falls (ties half); `spearman`, mean over answers of the correlation
    with the share that was kept.
    """
    cell = values[values["part"].isin(["F1", "Score"])]
    columns = [f"{share:.0%}" for share in SHARES]
    rows = {}
    for metric, one in cell.groupby("metric", sort=False):
        table = one.pivot(index="triplet_id", columns="model", values="value")[columns]
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
    """What each edit takes off each metric, from a frame of values of `edited_answers`.

    A row per metric, edit and dose: the mean loss over texts (the unedited text's value less the edited
    one's; of precision where the edit adds text, else of F1 or Score) with its t interval over groups, and n.
    """
    whole = values[values["model"] == UNEDITED].set_index(["metric", "part", "triplet_id"])["value"]
    changed = values[values["model"] != UNEDITED].copy()
    changed[["edit", "dose"]] = changed["model"].str.split("@", expand=True).to_numpy()
    rows = []
    for (metric, name, dose), cell in changed.groupby(["metric", "edit", "dose"], sort=False):
        adds = name == PADDED and "Precision" in set(cell["part"])
        cell = cell[cell["part"].isin(["Precision"] if adds else ["F1", "Score"])]
        before = whole.reindex(pd.MultiIndex.from_frame(cell[["metric", "part", "triplet_id"]]))
        loss = mean_over(before.to_numpy() - cell["value"].to_numpy(), list(cell["group"]))
        rows.append(
            {
                "metric": metric,
                "edit": name,
                "dose": float(dose),
                "part": cell["part"].iloc[0],
                "loss": loss.value,
                "ci_low": loss.ci_low,
                "ci_high": loss.ci_high,
                "n": loss.n,
                "should": EDITS[name][0],
            }
        )
    return pd.DataFrame(rows)
