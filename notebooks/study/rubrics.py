"""OmniEval's rubrics (arXiv:2412.13018): a judge reads a whole answer and chooses a level."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from ems.analysis.findings import series
from ems.judge import Judge, Request
from ems.prompts import Prompts, quoted, sanitized
from ems.reading import read_word
from ems.support.passages import passages_of
from ems.types import Answer, Triplet

from . import agreement, by_hash, datasets, read_frames, write_csv
from .datasets import KEYS
from .rescoring import answers_to_judge

RUBRIC_PROMPTS = Path(__file__).parent / "prompts"
NOT_APPLICABLE = "not applicable"
PASSAGES = 5  # of a document, shown to the judge; as many as OmniEval retrieves
RATING_TOKENS = 32  # the longest reply
PAIRS_OF_EACH_SET = 3  # rated, of RAGChecker's sets
ANSWERS_OF_EACH_LABEL = 20  # rated, of FinanceBench's
RATINGS_FILE = "rubric_scores.csv"
# Metrics shown beside the ratings.
SHOWN_METRICS = ("OmniEval", "EMS(LLM", "Coverage", "RAGChecker", "ROUGE-L", agreement.ANNOTATOR)
# The words that a reply to a rubric may be: its levels, the lowest first, and `NOT_APPLICABLE` last
# where the rubric may not apply to an answer.
RUBRICS = {
    "accuracy": ("wrong", "partly right", "right"),
    "completeness": ("none", "some", "all", NOT_APPLICABLE),
    "hallucination": ("no", "yes", NOT_APPLICABLE),
}
OF_DOCUMENT = "hallucination"  # this rubric is about the document


# --- asking ---


def rated(
    triplets: Sequence[Triplet], answers: Sequence[Answer], judge: Judge, names: Sequence[str]
) -> pd.DataFrame:
    """The judge's rating of each answer by each rubric in `names`.

    Columns: triplet_id, model, rubric, value, reason. `value` is the level's rank in [0, 1]; it is
    nan, with a reason, where the rubric does not apply or the reply could not be read. An answer
    without text is not asked about and has the lowest level.
    """
    prompts = Prompts(RUBRIC_PROMPTS)
    triplet_of = {t.id: t for t in triplets}
    cells = list(product(answers, names))
    requests = {}
    for answer, name in cells:
        if sanitized(answer.answer):
            triplet = triplet_of[answer.triplet_id]
            requests[answer, name] = _request(prompts, triplet, answer, name)
    records = judge.ask(list(requests.values()), "rate answers")
    replies = dict(zip(requests, records, strict=True))
    rows = []
    for answer, name in cells:
        levels = [word for word in RUBRICS[name] if word != NOT_APPLICABLE]
        level, reason = levels[0], ""
        if request := requests.get((answer, name)):
            reply = replies[answer, name]
            reason = reply.error or "unreadable"
            level = "" if reply.error else request.read(reply.text)
        value = math.nan
        if level in levels:
            value, reason = levels.index(level) / (len(levels) - 1), ""
        elif level == NOT_APPLICABLE:
            reason = NOT_APPLICABLE
        rows.append((answer.triplet_id, answer.model, name, value, reason))
    return pd.DataFrame(rows, columns=[*KEYS, "rubric", "value", "reason"])


def _request(prompts: Prompts, triplet: Triplet, answer: Answer, name: str) -> Request:
    slots = {
        "question": quoted(triplet.question),
        "answer": sanitized(answer.answer),
        "reference": sanitized(triplet.reference),
    }
    if name == OF_DOCUMENT:
        document = passages_of(triplet.context or "")
        best = sorted(document.top(f"{triplet.question}\n{answer.answer}", PASSAGES))
        slots["passages"] = "\n\n".join(sanitized(document.texts[i]) for i in best)
    prompt = prompts.fill(f"rubric_{name}", **slots)
    return Request("rubric", prompt, RATING_TOKENS, read=partial(read_word, words=RUBRICS[name]))


# --- samples of answers that people labelled ---


def pair_sample(labels: pd.DataFrame) -> list[str]:
    """The ids of a few pairs of each data set in RAGChecker's labels, the first by their hash."""
    pairs = labels.drop_duplicates("instance_id")
    ids = []
    for _, of_set in pairs.groupby("dataset")["instance_id"]:
        ids += by_hash(of_set)[:PAIRS_OF_EACH_SET]
    return ids


def ratings(folder: Path, judge: Judge | None = None) -> pd.DataFrame:
    """The ratings of both samples: set, triplet_id, model, rubric, value, reason.

    RAGChecker's pairs are rated by accuracy and completeness, FinanceBench's answers, with their
    pages, by hallucination. The ratings are read from `folder`/rubric_scores.csv; with a judge they
    are made from the upstream files, and written there first.
    """
    path = folder / RATINGS_FILE
    if judge is not None:
        triplets, answers, labels = datasets.ragchecker()
        ids = pair_sample(labels)
        answers = [a for a in answers if a.triplet_id in ids]
        of_pairs = rated(triplets, answers, judge, ["accuracy", "completeness"])
        triplets, answers, labels = datasets.financebench()
        answers = answers_to_judge(answers, labels, ANSWERS_OF_EACH_LABEL)
        of_answers = rated(triplets, answers, judge, ["hallucination"])
        table = pd.concat(
            [of_pairs.assign(set="ragchecker"), of_answers.assign(set="financebench")]
        )
        write_csv(path, table[["set", *KEYS, "rubric", "value", "reason"]])
    return read_frames(path).fillna({"reason": ""})


def beside_metrics(rated: pd.DataFrame, folder: Path, **settings: Any) -> pd.DataFrame:
    """How well `ratings` follow people's labels, beside a few metrics on the same answers.

    On RAGChecker's pairs it is Spearman's correlation with the annotators' preferences
    (`agreement.pair_agreement`), on FinanceBench's answers the AUC (`agreement.answer_agreement`,
    recall). Columns: labels, metric, value, ci_low, ci_high, n. Labels and other metrics are those
    stored in `folder`; `settings` are the bootstrap's.
    """
    is_reversed = rated["rubric"] == "hallucination"  # the lowest level is the best one
    rubric = rated["rubric"].mask(is_reversed, "no hallucination")
    value = rated["value"].mask(is_reversed, 1 - rated["value"])
    rated = rated.assign(metric="OmniEval " + rubric + " Score", value=value)
    tables = []
    for name, of_set in rated.groupby("set", sort=False):
        labels, scores = agreement.stored(name, folder)
        wide = of_set.pivot(index=KEYS, columns="metric", values="value").reset_index()
        scores = wide.merge(scores, on=KEYS)
        if name == "ragchecker":
            labels = labels[labels["instance_id"].isin(scores["triplet_id"])]
            table = agreement.pair_agreement(labels, scores, **settings)
            table = table.query("measure == 'Spearman'")
            table = table.assign(labels="preference, " + table["asked"])
        else:
            labels = labels.merge(scores[KEYS])
            table = agreement.answer_agreement(labels, scores, "Recall", **settings)
            table = table.query("measure == 'AUC'").assign(labels="right or wrong")
        tables.append(table[table["metric"].str.startswith(SHOWN_METRICS)])
    return pd.concat(tables)[["labels", "metric", "value", "ci_low", "ci_high", "n"]]


def rubric_findings(beside: pd.DataFrame) -> list[str]:
    """Sentences about a table of `beside_metrics`: the values of the rubrics and of EMS.

    They are about the overall preference, and about right and wrong answers.
    """
    sentences = []
    for labels, rows in beside.groupby("labels", sort=False):
        if labels in ("preference, overall", "right or wrong"):
            shown = rows[rows["metric"].str.startswith(("OmniEval", "EMS"))]
            told = [
                f"{row.metric} {row.value:.2f} [{row.ci_low:.2f}, {row.ci_high:.2f}]"
                for row in shown.itertuples()
            ]
            sentences.append(
                f"Agreement with people ({labels}, n {rows['n'].max()}): {series(told)}."
            )
    return [*sentences, "No difference between a rubric and a metric was tested."]
