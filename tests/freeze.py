"""What the committed replies give in the default run, a row each; writes tests/frozen.json.

    export PYTHONPATH=notebooks
    python tests/freeze.py            # shows each row that differs: what it was, what it is
    python tests/freeze.py --write    # shows the same, and writes frozen.json anew

There are three kinds of rows. `keys`: for each metric and task, how many replies are asked for, and
a hash of their keys. `answers`: for each judged metric and answer its F1, how many points (or
claims) the reference and the answer have, and a hash of these with their matches and scores.
`table1`: the rows of Table 1. A row stands on one line, so that `git diff` shows what changed.

BERTScore needs the extra `encoder`. A run takes about a minute.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from doubles import Noting, recorded
from study import ROOT, rescored, values_frame

import ems
from ems.analysis.frames import TABLE1_PARTS
from ems.baselines import JudgeAlone, RAGChecker
from ems.coverage import Coverage
from ems.evaluators import build
from ems.local.encoder import Encoder
from ems.score import BLEU_SIGNATURE, bert_scorer, bleu, rouge_l, rouge_scorer

FILE = ROOT / "tests" / "frozen.json"
DATA = ROOT / "data" / "q3-2024"
Rows = Mapping[str, Any]  # a row by its label: "kind: metric: what"


# --- the default run ---


@cache
def triplets():
    return ems.load_triplets(DATA / "triplets.jsonl")


@cache
def answers():
    return ems.load_answers(DATA / "answers.jsonl")


@cache
def judge_of(metric: str) -> Noting:
    """A judge for each metric, so that its keys are those of the metric."""
    return recorded("q3-2024/replies.jsonl")


@cache
def ems_evaluator():
    return build(judge_of("EMS(LLM)"), joint=True)


@cache
def encoder():
    return Encoder("all-MiniLM-L6-v2")


@cache
def results_of(metric: str):
    """The results of a metric that has points or a judge; all answers, in their order."""
    judge = judge_of(metric)
    evaluator = ems_evaluator()
    if metric == "EMS(LLM)":
        return evaluator.evaluate(triplets(), answers())
    if metric == "EMS(ROUGE)":
        return rescored(results_of("EMS(LLM)"), rouge_scorer(), evaluator)
    if metric == "EMS(BERTScore)":
        return rescored(results_of("EMS(LLM)"), bert_scorer(encoder()), evaluator)
    if metric == "Coverage(LLM)":
        coverage = Coverage(evaluator.extractor, judge)
        return coverage.of_results(results_of("EMS(LLM)"), triplets(), answers())
    if metric == "RAGChecker":
        return RAGChecker(judge).evaluate(triplets(), answers())
    assert metric == "Judge alone"
    return JudgeAlone(judge).evaluate(triplets(), answers())


def text_frame(metric: str, part: str, values: Sequence[float], signature: dict) -> pd.DataFrame:
    return values_frame(answers(), values, metric, part, signature, triplets())


def frame_of(metric: str) -> pd.DataFrame:
    """The values of a metric, a row for each answer and part."""
    references = {triplet.id: triplet.reference for triplet in triplets()}
    texts = (
        [references[answer.triplet_id] for answer in answers()],
        [answer.answer for answer in answers()],
    )
    if metric == "BLEU":
        return text_frame(metric, "Score", bleu(*texts), {"bleu": BLEU_SIGNATURE})
    if metric == "BERTScore":
        return text_frame(metric, "Score", encoder().bertscore(*texts), {"encoder": "MiniLM"})
    if metric == "ROUGE":
        columns = zip(*rouge_l(*texts), strict=True)
        frames = []
        for part, column in zip(("Precision", "Recall", "F1"), columns, strict=True):
            frames.append(text_frame(metric, part, column, {"rouge": "rougeL"}))
        return pd.concat(frames)
    if metric in ("Coverage(local)", "Figures"):  # figures are the same under every metric
        return ems.to_frame(build().evaluate(triplets(), answers()))
    return ems.to_frame(results_of(metric))


# --- rows ---


def digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def key_rows(metric: str) -> Rows:
    """For each task of a judge, how many replies were asked for, and the hash of their keys."""
    results_of(metric)
    keys = defaultdict(list)
    for key, task in judge_of(metric).keys.items():
        keys[task].append(key)
    rows = {}
    for task in sorted(keys):
        rows[f"keys: {metric}: {task}"] = [len(keys[task]), digest(sorted(keys[task]))[:16]]
    return rows


def six(scores: Sequence[float | None]) -> list[float | None]:
    return [None if score is None else round(score, 6) for score in scores]


def sides(metric: str, result: Any) -> tuple[Sequence[str], Sequence[str], list]:
    """The points or claims of the reference and of the answer, and what they were given."""
    if metric == "RAGChecker":
        labels = [list(result.answer2response), list(result.response2answer)]
        return result.gt_answer_claims or (), result.response_claims or (), labels
    if metric == "Coverage(LLM)":
        scores = [six(result.ref_score), six(result.ans_score)]
    else:
        scores = [list(result.match), six(result.score)]
    return result.ref_points, result.ans_points, scores


def answer_rows(metric: str) -> Rows:
    """For each answer its F1, the numbers of points, and a hash of points, matches and scores."""
    rows = {}
    for result in results_of(metric):
        reference, answer, given = sides(metric, result)
        line = json.dumps([list(reference), list(answer), given], ensure_ascii=False)
        row = [round(result.f1, 6), len(reference), len(answer), digest([line])[:12]]
        rows[f"answers: {metric}: {result.triplet_id}, {result.model}"] = row
    return rows


def table1_rows(metric: str) -> Rows:
    """For each part and model: value, both ends of its interval, n, and how many are unscored."""
    columns = ["part", "model", "value", "ci_low", "ci_high", "n", "unscored"]
    summary = ems.summarise(frame_of(metric))
    # Figures have rows of their own, and Table 1 shows no other part.
    summary = summary[(summary["metric"] == metric) & summary["part"].isin(TABLE1_PARTS)]
    rows = {}
    for part, model, value, low, high, n, unscored in summary[columns].values.tolist():
        row = [*six([value, low, high]), n, unscored]
        rows[f"table1: {metric}: {part}, {model}"] = row
    return rows


ROWS = {
    "keys": (key_rows, ("EMS(LLM)", "Coverage(LLM)", "RAGChecker", "Judge alone")),
    "answers": (answer_rows, ("EMS(LLM)", "EMS(ROUGE)", "Coverage(LLM)", "RAGChecker")),
    "table1": (
        table1_rows,
        (
            "EMS(LLM)",
            "EMS(ROUGE)",
            "Coverage(LLM)",
            "RAGChecker",
            "Judge alone",
            "BLEU",
            "ROUGE",
            "BERTScore",
            "EMS(BERTScore)",
            "Coverage(local)",
            "Figures",
        ),
    ),
}


def rows_now() -> dict[str, Any]:
    """All rows as the code and the committed replies give them."""
    rows: dict[str, Any] = {}
    for make, metrics in ROWS.values():
        for metric in metrics:
            rows |= make(metric)
    return rows


# --- the file ---


def frozen_rows(kind: str = "", metric: str = "") -> dict[str, Any]:
    """The rows of frozen.json; those of one kind and metric where these are named."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    start = f"{kind}: {metric}: " if kind else ""
    return {label: row for label, row in rows.items() if label.startswith(start)}


def differences(old: Rows, new: Rows, tolerance: float = 1e-6) -> list[str]:
    """A line for each row that changed: its label, what it was, what it is.

    Numbers differ when they are further apart than `tolerance`.
    """
    lines = []
    for label in [*old, *(label for label in new if label not in old)]:
        before, after = old.get(label), new.get(label)
        if before is None or after is None or not equal(before, after, tolerance):
            lines.append(f"{label}: was {before}, is {after}")
    return lines


def equal(before: Sequence[Any], after: Sequence[Any], tolerance: float) -> bool:
    if len(before) != len(after):
        return False
    for a, b in zip(before, after, strict=True):
        if isinstance(a, float) and isinstance(b, float):
            if not math.isclose(a, b, rel_tol=0, abs_tol=tolerance):
                return False
        elif a != b:
            return False
    return True


def write(rows: Rows, file: Path) -> None:
    """Write the rows, one on a line."""
    lines = []
    for label, row in rows.items():
        lines.append(f"{json.dumps(label)}: {json.dumps(row)}")
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    if arguments not in ([], ["--write"]):
        sys.exit("usage: PYTHONPATH=notebooks python tests/freeze.py [--write]")
    old, new = frozen_rows(), rows_now()
    lines = differences(old, new)
    print(*lines, f"{len(lines)} of {len(new)} rows differ from {FILE.name}", sep="\n")
    if arguments:
        write(new, FILE)


if __name__ == "__main__":
    main(sys.argv[1:])
