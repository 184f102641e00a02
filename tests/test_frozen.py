"""The default run: every recorded reply still answers, reads as it did, and gives the values of Table 1.

frozen.json holds, of the run that made data/q3-2024, the reply keys by feature (count and SHA-256 of the sorted
keys), the alignments (SHA-256 of sorted JSON rows) and the rows of Table 1. A prompt, a schema or a cleaning
rule that changes a reply's key shows here, and so does a change of arithmetic.
"""

import hashlib
import json
from functools import cache
from pathlib import Path

import pytest
from doubles import recorded
from study import rescored, values_frame

import ems
from ems.baselines import BLEU_SIGNATURE, JudgeAlone, RAGChecker, bertscore, bleu, rouge
from ems.coverage import Coverage
from ems.evaluators import build
from ems.local.encoder import Encoder
from ems.score import bert_scorer, rouge_scorer

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "q3-2024"
FROZEN = json.loads((ROOT / "tests" / "frozen.json").read_text(encoding="utf-8"))
TRIPLETS = ems.load_triplets(DATA / "triplets.jsonl")
ANSWERS = ems.load_answers(DATA / "answers.jsonl")


@cache
def judged():
    """EMS(LLM), joint: the judge, the evaluator and its results."""
    judge = recorded("q3-2024/replies.jsonl")
    evaluator = build(judge, joint=True)
    return judge, evaluator, evaluator.evaluate(TRIPLETS, ANSWERS)


@cache
def coverage():
    judge = recorded("q3-2024/replies.jsonl")
    evaluator = Coverage(judged()[1].extractor, judge)
    return judge, evaluator.of_results(judged()[2], TRIPLETS, ANSWERS)


@cache
def ragchecker():
    judge = recorded("q3-2024/replies.jsonl")
    return judge, RAGChecker(judge).evaluate(TRIPLETS, ANSWERS)


@cache
def alone():
    judge = recorded("q3-2024/replies.jsonl")
    return judge, JudgeAlone(judge).evaluate(TRIPLETS, ANSWERS)


@cache
def by_rouge():
    _, evaluator, results = judged()
    return rescored(results, rouge_scorer(), evaluator)


@cache
def encoder():
    pytest.importorskip("bert_score", reason="BERTScore needs the extra 'encoder'")
    return Encoder("all-MiniLM-L6-v2")


def texts():
    reference = {triplet.id: triplet.reference for triplet in TRIPLETS}
    return [reference[answer.triplet_id] for answer in ANSWERS], [
        answer.answer for answer in ANSWERS
    ]


def six(scores):
    return [None if score is None else round(score, 6) for score in scores]


# --- keys and alignments ---


@pytest.mark.parametrize(
    ("feature", "asked"),
    [
        ("EMS(LLM) joint", judged),
        ("Coverage(LLM)", coverage),
        ("RAGChecker", ragchecker),
        ("Judge alone", alone),
    ],
)
def test_the_recorded_replies_are_asked_for_with_their_keys(feature, asked):
    keys = sorted(asked()[0].keys)
    found = {"n": len(keys), "sha256": hashlib.sha256("\n".join(keys).encode()).hexdigest()}
    assert found == FROZEN["keys"][feature]


ROWS = {
    "EMS(LLM)": lambda: [
        [list(r.ref_points), list(r.ans_points), list(r.match), six(r.score)] for r in judged()[2]
    ],
    "EMS(ROUGE)": lambda: [[six(r.score)] for r in by_rouge()],
    "Coverage(LLM)": lambda: [[six(r.ref_score), six(r.ans_score)] for r in coverage()[1]],
    "RAGChecker": lambda: [
        [
            list(c.response_claims or []),
            list(c.gt_answer_claims or []),
            list(c.answer2response),
            list(c.response2answer),
        ]
        for c in ragchecker()[1]
    ],
}


@pytest.mark.parametrize("metric", ROWS)
def test_replies_read_as_they_did(metric):
    rows = [
        json.dumps([a.triplet_id, a.model, *row], sort_keys=True, ensure_ascii=False)
        for a, row in zip(ANSWERS, ROWS[metric](), strict=True)
    ]
    assert (
        hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest() == FROZEN["alignments"][metric]
    )


# --- values ---


def of_whole_texts(metric):
    """The frame of a metric of whole answers."""
    if metric == "BLEU":
        return values_frame(
            ANSWERS, bleu(*texts()), metric, "Score", {"bleu": BLEU_SIGNATURE}, TRIPLETS
        )
    if metric == "BERTScore":
        return values_frame(
            ANSWERS,
            bertscore(*texts(), encoder()),
            metric,
            "Score",
            {"encoder": "MiniLM"},
            TRIPLETS,
        )
    import pandas as pd

    columns = zip(*rouge(*texts(), ["rougeL"])["rougeL"], strict=True)
    return pd.concat(
        [
            values_frame(ANSWERS, column, metric, part, {"rouge": "rougeL"}, TRIPLETS)
            for part, column in zip(("Precision", "Recall", "F1"), columns, strict=True)
        ]
    )


FRAMES = {
    "EMS(LLM)": lambda: ems.to_frame(judged()[2]),
    "EMS(ROUGE)": lambda: ems.to_frame(by_rouge()),
    "Coverage(LLM)": lambda: ems.to_frame(coverage()[1]),
    "RAGChecker": lambda: ems.to_frame(ragchecker()[1]),
    "Judge alone": lambda: ems.to_frame(alone()[1]),
    "BLEU": lambda: of_whole_texts("BLEU"),
    "ROUGE": lambda: of_whole_texts("ROUGE"),
    "BERTScore": lambda: of_whole_texts("BERTScore"),
    "EMS(BERTScore)": lambda: ems.to_frame(
        rescored(judged()[2], bert_scorer(encoder()), judged()[1])
    ),
}


@pytest.mark.parametrize(
    "metric",
    [pytest.param(name, marks=pytest.mark.slow if "BERT" in name else ()) for name in FRAMES],
)
def test_table_1_keeps_its_values_to_the_last_digit(metric):
    columns = ["part", "model", "value", "ci_low", "ci_high", "n", "unscored"]
    summary = ems.summarise(FRAMES[metric]())
    assert set(summary["metric"]) == {metric}
    # An encoder's sums end in another digit on another processor; all else is the same everywhere.
    exact = 2e-6 if "BERT" in metric else 6e-7
    found = {
        (part, model): pytest.approx(values, abs=exact)
        for part, model, *values in summary[columns].values.tolist()
    }
    frozen = {
        (part, model): rest for name, part, model, *rest in FROZEN["table1"] if name == metric
    }
    assert frozen == found


def test_every_frozen_row_is_tested():
    assert {row[0] for row in FROZEN["table1"]} == set(FRAMES)
