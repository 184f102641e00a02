"""OmniEval's rubrics (arXiv:2412.13018): a judge reads a whole answer and chooses one of a few levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ems.io import read_text, write_csv
from ems.judge import Judge, Request
from ems.prompts import Prompts, quoted, sanitized
from ems.reading import parsed, read_word
from ems.support.passages import passages_of
from ems.types import Answer, Triplet

from . import agreement, by_hash, datasets
from .datasets import KEYS

PROMPTS = Path(__file__).parent / "prompts"
NOT_APPLICABLE = "not applicable"
PASSAGES = 5  # of a document, laid before the judge; as many as OmniEval retrieves
MAX_TOKENS = 32  # of a reply
PAIRS, ANSWERS = (
    3,
    20,
)  # rated: pairs of each of RAGChecker's sets; FinanceBench's answers of each label
FILE = "rubric_scores.csv"
# Metrics shown beside the ratings.
BESIDE = ("OmniEval", "EMS(LLM", "Coverage", "RAGChecker", "ROUGE-L", agreement.ANNOTATOR)


@dataclass(frozen=True, slots=True)
class Rubric:
    """One question about an answer, and the levels that a judge chooses from, the lowest first."""

    levels: tuple[str, ...]
    may_not_apply: bool = False
    of_document: bool = False  # whether it is about the document

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that a reply may consist of."""
        return (*self.levels, NOT_APPLICABLE) if self.may_not_apply else self.levels


RUBRICS = {
    "accuracy": Rubric(("wrong", "partly right", "right")),
    "completeness": Rubric(("none", "some", "all"), may_not_apply=True),
    "hallucination": Rubric(("no", "yes"), may_not_apply=True, of_document=True),
    "utilization": Rubric(("none", "some", "all"), of_document=True),
    "numeric": Rubric(("wrong", "right"), may_not_apply=True),
}


# --- asking ---


def rated(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: Judge, names: Sequence[str]
) -> pd.DataFrame:
    """What the judge says of each answer by each rubric in `names`.

    Columns: triplet_id, model, rubric, value, reason.
    `value` is the level's rank in [0, 1]; nan with a reason where the rubric does not apply or the reply
    could not be read. An answer without text is not asked about and has the lowest level.
    """
    prompts, failures = Prompts(PROMPTS), Counter[str]()
    by_id = {t.id: t for t in triplets}
    wanted = [(a, name) for a in answers for name in names]
    asked = [(a, name) for a, name in wanted if sanitized(a.answer)]
    requests = [_request(prompts, by_id[a.triplet_id], a, name) for a, name in asked]
    replies = dict(zip(asked, judge.ask(requests, "rate answers"), strict=True))
    rows = []
    for answer, name in wanted:
        rubric, reply = RUBRICS[name], replies.get((answer, name))
        word, error = rubric.levels[0], ""
        if reply is not None:
            word = parsed(reply, partial(read_word, words=rubric.choices), name, failures) or ""
            error = reply.error or "unreadable"
        value, reason = float("nan"), word or error
        if word in rubric.levels:
            value, reason = rubric.levels.index(word) / (len(rubric.levels) - 1), ""
        rows.append((answer.triplet_id, answer.model, name, value, reason))
    return pd.DataFrame(rows, columns=[*KEYS, "rubric", "value", "reason"])


def _request(prompts: Prompts, triplet: Triplet, answer: Answer, name: str) -> Request:
    slots = {"question": quoted(triplet.question), "answer": sanitized(answer.answer)}
    if name != "utilization":
        slots["reference"] = sanitized(triplet.reference)
    if RUBRICS[name].of_document:
        document = passages_of(triplet.context or "")
        best = sorted(document.top(f"{triplet.question}\n{answer.answer}", PASSAGES))
        slots["passages"] = "\n\n".join(sanitized(document.texts[i]) for i in best)
    return Request("rubric", prompts.fill(f"rubric_{name}", **slots), MAX_TOKENS)


# --- samples of answers that people labelled ---


def pair_sample(labels: pd.DataFrame) -> list[str]:
    """The ids of three pairs of each data set in RAGChecker's labels."""
    pairs = labels.drop_duplicates("instance_id").groupby("dataset")["instance_id"]
    return [name for _, names in pairs for name in by_hash(names)[:PAIRS]]


def answer_sample(labels: pd.DataFrame) -> list[tuple[str, str]]:
    """(triplet_id, model) of twenty correct and twenty incorrect answers, one a question and label."""
    drawn = []
    for label in ("correct", "incorrect"):
        keys = labels.loc[labels["label"] == label, KEYS].itertuples(index=False, name=None)
        first: dict[str, tuple[str, str]] = {}
        for key in by_hash(keys, "|".join):
            first.setdefault(key[0], key)
        drawn += list(first.values())[:ANSWERS]
    return drawn


def ratings(folder: Path, judge: Judge | None = None) -> pd.DataFrame:
    """The ratings of both samples, by accuracy and completeness (RAGChecker's pairs) and by hallucination
    (FinanceBench's answers, with their pages): set, triplet_id, model, rubric, value, reason.

    From `folder`/rubric_scores.csv; with a judge from the upstream files, and then written there.
    """
    if judge is not None:
        triplets, answers, labels = datasets.ragchecker()
        ids = set(pair_sample(labels))
        pairs = [a for a in answers if a.triplet_id in ids]
        tables = [
            rated(triplets, pairs, judge, ["accuracy", "completeness"]).assign(set="ragchecker")
        ]
        triplets, answers, labels = datasets.financebench(contexts=True)
        drawn = set(answer_sample(labels))
        some = [a for a in answers if (a.triplet_id, a.model) in drawn]
        tables.append(rated(triplets, some, judge, ["hallucination"]).assign(set="financebench"))
        write_csv(folder / FILE, pd.concat(tables)[["set", *KEYS, "rubric", "value", "reason"]])
    read_text(folder / FILE)
    return pd.read_csv(
        folder / FILE,
        dtype={"triplet_id": str, "model": str},
        keep_default_na=False,
        na_values={"value": ""},
    )


def beside_metrics(rated: pd.DataFrame, folder: Path, **settings: Any) -> pd.DataFrame:
    """How well `ratings` follow people's labels, beside a few metrics on the same answers.

    Spearman with the annotators' preferences (`agreement.pair_agreement`) on RAGChecker's pairs, and AUC
    (`agreement.answer_agreement`, recall) on FinanceBench's answers. Columns: labels, metric, value, ci_low,
    ci_high, n. Labels and other metrics are those stored in `folder`; `settings` are the bootstrap's.
    """
    turned = rated["rubric"] == "hallucination"  # of it less is better
    wide = rated.assign(
        value=rated["value"].where(~turned, 1 - rated["value"]),
        metric="OmniEval " + rated["rubric"].where(~turned, "no hallucination") + " Score",
    )
    tables = []
    for name, ratings in wide.groupby("set", sort=False):
        labels, scores = agreement.stored(name, folder)
        ratings = ratings.pivot(index=KEYS, columns="metric", values="value").reset_index()
        scores = ratings.merge(scores, on=KEYS)
        if name == "ragchecker":
            labels = labels[labels["instance_id"].isin(scores["triplet_id"])]
            found = agreement.pair_agreement(labels, scores, **settings).query(
                "measure == 'Spearman'"
            )
            found = found.assign(labels="preference, " + found["asked"])
        else:
            found = agreement.answer_agreement(
                labels.merge(scores[KEYS]), scores, "Recall", **settings
            )
            found = found.query("measure == 'AUC'").assign(labels="right or wrong")
        tables.append(found[found["metric"].str.startswith(BESIDE)])
    return pd.concat(tables)[["labels", "metric", "value", "ci_low", "ci_high", "n"]]
