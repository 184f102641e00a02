"""Public data sets with labels of people, read into records from pinned files (`upstream`).

Each loader gives triplets, answers and a frame of labels. `SETS` says what the labels are about:

pairs    two answers to one question, which annotators compared: the columns of `PART_OF`, from -2
         to 2; a positive number favours model "2"
answers  one answer, right or wrong: `correct` (bool), clustered by `group`
points   one point of a reference, in an answer or not: `present` (bool); `unit` is its place
systems  as answers; the labels are of more triplets than the answers, and their file is a table
         with a column per system
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from ems.io import read_text
from ems.types import Answer, GivenPoint, InputError, Triplet

from . import by_hash
from .upstream import pinned, pinned_rows, source

KEYS = ["triplet_id", "model"]
POINT_KEYS = [*KEYS, "unit"]
# What RAGChecker's annotators were asked, and the part of a metric that is about the same.
PART_OF = {"overall": "F1", "completeness": "Recall", "correctness": "Precision"}
FINDVER_CLAIMS = "findver/data/testmini.json"
FINDVER_OUTPUTS = "findver/outputs/testmini_outputs/rag"
FINDVER_SAMPLE = 40  # claims
FINDVER_TASK = (
    "Is the claim below supported or contradicted by the filing? Give your reasoning.\n\nClaim: "
)
FINDVER_SYSTEMS = {  # name -> (upstream's file, family, billions of parameters)
    "Llama-3.2-3B": ("Llama-3_2-3B-Instruct", "Llama", 3.0),
    "Llama-3.1-8B": ("Meta-Llama-3_1-8B-Instruct", "Llama", 8.0),
    "Llama-3.1-70B": ("Meta-Llama-3_1-70B-Instruct-AWQ-INT4", "Llama", 70.0),
    "Qwen2-7B": ("Qwen2-7B-Instruct", "Qwen", 7.0),
    "Qwen2.5-7B": ("Qwen2_5-7B-Instruct", "Qwen", 7.0),
    "Qwen2.5-72B": ("Qwen2_5-72B-Instruct-AWQ", "Qwen", 72.0),
    "Mistral-7B-v0.3": ("Mistral-7B-Instruct-v0_3", "Mistral", 7.0),
    "Ministral-8B": ("Ministral-8B-Instruct-2410", "Mistral", 8.0),
    "Mistral-Large-2407": ("Mistral-Large-Instruct-2407-AWQ", "Mistral", 123.0),
    "DeepSeek-V2-Lite": ("DeepSeek-V2-Lite-Chat", "", 16.0),
    "GLM-4-9B": ("glm-4-9b-chat", "", 9.0),
    "InternLM2.5-7B": ("internlm2_5-7b-chat", "", 7.0),
    "Mathstral-7B": ("mathstral-7B-v0_1", "", 7.0),
    "Claude-3.5-Sonnet": ("claude-3-5-sonnet-20241022", "", nan),
    "Gemini-1.5-Pro": ("gemini-1_5-pro", "", nan),
    "GPT-4o": ("gpt-4o", "", nan),
}
LLAMA_SYSTEMS = [name for name, (_, family, _) in FINDVER_SYSTEMS.items() if family == "Llama"]
# The words with which FinDVer's prompts ask an answer to name its verdict.
VERDICT = re.compile(r"\b(?:entail(?:s|ed)|refut(?:es?|ed))\b", re.IGNORECASE)
FINANCEBENCH_QUESTIONS = "financebench/data/financebench_open_source.jsonl"
FINANCEBENCH_RESULTS = "financebench/results"
SUMMEDITS_EDITS = "summedits/data/summedits/summedits_ectsum.json"
SUMMEDITS_QUESTION = "What are the main points of the earnings call?"
CONSISTENT = "none"  # in place of the kinds of an edit's errors, where it has none
Loaded = tuple[list[Triplet], list[Answer], pd.DataFrame]


# --- data sets ---


def ragchecker() -> Loaded:
    """RAGChecker's human meta-evaluation: pairs of answers to one query, compared by annotators.

    Answers are of models "1" and "2". A row of labels is the judgement of one of two annotators:
    instance_id (the triplet's id), annotator (0 or 1), dataset (one of ten), and `PART_OF`.
    """
    triplets: dict[str, Triplet] = {}
    answers, labels = [], []
    for row in pinned_rows("ragchecker/data/meta_evaluation/human_labeled_data.json"):
        id_ = str(row["instance_id"])
        label = {
            "instance_id": id_,
            "annotator": int(id_ in triplets),
            "dataset": row["dataset"],
        }
        for question in PART_OF:
            label[question] = row[f"{question}_label"]
        labels.append(label)
        if id_ not in triplets:
            triplets[id_] = Triplet(id_, id_, row["query"], row["gt_answer"])
            answers += [Answer(id_, model, row[f"model{model}"]["response"]) for model in "12"]
    return list(triplets.values()), answers, pd.DataFrame(labels)


def ragchecker_values() -> pd.DataFrame:
    """RAGChecker's precision, recall and F1 of these answers by its authors' judge, in [0, 1]."""
    rows = []
    for row in pinned_rows("ragchecker/data/meta_evaluation/baseline_ragchecker.json"):
        for model in "12":
            values = row[f"model{model}"]["ragchecker"]
            rows.append(
                {
                    "triplet_id": str(row["instance_id"]),
                    "model": model,
                    "RAGChecker Precision": values["correctness_label"],
                    "RAGChecker Recall": values["completeness_label"],
                    "RAGChecker F1": values["overall_label"],
                }
            )
    return pd.DataFrame(rows)


def financebench() -> Loaded:
    """FinanceBench's 150 open questions with sixteen systems' answers, labelled by its authors.

    The reference is the answer of the question file, the group the company, the context the pages
    that hold the evidence. Labels: label (correct, incorrect, refusal), correct, question_type.
    InputError when the files do not fit together.
    """
    questions = {row["financebench_id"]: row for row in pinned_rows(FINANCEBENCH_QUESTIONS)}
    answers, labels = [], []
    for file in pinned(FINANCEBENCH_RESULTS):
        model = Path(file).stem
        for row in pinned_rows(file):
            id_, label = row["financebench_id"], row["label"].split()[0].lower()
            question = questions.get(id_)
            if question is None or row["question"] != question["question"]:
                raise InputError(
                    f"{file}: {id_} is not the question of that id in {FINANCEBENCH_QUESTIONS}"
                )
            if label not in ("correct", "incorrect", "refusal"):
                raise InputError(
                    f"{file}: {id_}: correct, incorrect or refusal needed, got {label!r}"
                )
            # One answer is the number 0.
            answers.append(Answer(id_, model, str(row["model_answer"]).strip()))
            labels.append(
                {
                    "triplet_id": id_,
                    "model": model,
                    "label": label,
                    "correct": label == "correct",
                    "question_type": question["question_type"],
                    "group": question["company"],
                }
            )
    triplets = []
    for id_, row in questions.items():
        pages = "\n\n".join(part["evidence_text_full_page"] for part in row["evidence"])
        triplets.append(Triplet(id_, row["company"], row["question"], row["answer"], pages))
    return triplets, answers, pd.DataFrame(labels)


def findver() -> Loaded:
    """FinDVer's 700 testmini claims with the answers of three Llama models.

    The answers are chains of thought, with retrieval. The reference is the experts' explanation,
    the group the filing. Labels: size (billions of parameters), subset, entailed (whether the claim
    is), correct (upstream's reading of the answer is right), stated (the answer says "entailed" or
    "refuted"). InputError when the files do not fit together.
    """
    return _findver(findver_rows(), LLAMA_SYSTEMS)


def findver_systems() -> Loaded:
    """FinDVer with sixteen systems: triplets and answers of forty claims, and labels of all claims.

    The forty are the first by the SHA-256 of their ids, whatever their labels, among the 450 claims
    about information and knowledge: the explanation of a claim about calculation is a
    formula's steps.
    """
    claims = findver_rows()
    triplets, answers, labels = _findver(claims, list(FINDVER_SYSTEMS))
    in_words = [id_ for id_, row in claims.items() if row["subset"] != "numeric"]
    sample = by_hash(in_words)[:FINDVER_SAMPLE]
    return (
        [t for t in triplets if t.id in sample],
        [a for a in answers if a.triplet_id in sample],
        labels,
    )


def _findver(claims: Mapping[str, Mapping[str, Any]], models: Sequence[str]) -> Loaded:
    triplets = []
    for id_, row in claims.items():
        question = FINDVER_TASK + row["statement"]
        triplets.append(Triplet(id_, row["group"], question, row["explanation"]))
    answers, labels = [], []
    for model in models:
        stem, _, size = FINDVER_SYSTEMS[model]
        file = f"{FINDVER_OUTPUTS}/processed_cot_outputs/{stem}.json"
        for row in pinned_rows(file):
            id_, output = row["example_id"], row["output"][0]
            if id_ not in claims or row["statement"] != claims[id_]["statement"]:
                raise InputError(f"{file}: {id_} is not the claim of that id in {FINDVER_CLAIMS}")
            answers.append(Answer(id_, model, without_chat_tokens(output)))
            labels.append(
                {
                    "triplet_id": id_,
                    "model": model,
                    "size": size,
                    "subset": row["subset"],
                    "entailed": row["entailment_label"],
                    "correct": row["result"],
                    "stated": bool(VERDICT.search(output)),
                    "group": claims[id_]["group"],
                }
            )
    return triplets, answers, pd.DataFrame(labels)


def findver_rows() -> dict[str, dict[str, Any]]:
    """FinDVer's claims as upstream has them, by the ids of its outputs.

    The id ie-val-0 becomes ie-testmini-0. Added to each: `group`, the filing, and `explanation`,
    which upstream spells in two ways.
    """
    claims = {}
    for row in pinned_rows(FINDVER_CLAIMS):
        id_ = row["example_id"].replace("-val-", "-testmini-")
        group = row["report"].removesuffix(".json")
        claims[id_] = {"explanation": row.get("explaination"), **row, "group": group}
    return claims


def without_chat_tokens(output: str) -> str:
    """The answer without Llama's header, whole or broken off, and without other special tokens."""
    output = re.sub(r"^(?:<\|start_header_id\|>assistant)+", "", output)
    return re.sub(r"<\|[a-z_]+(?:_\d+)?\|>", "", output).strip()


def kqa() -> Loaded:
    """K-QA's 50 medical questions with one model's answer each; physicians labelled claims.

    The claims of the reference are a triplet's points. Labels: unit, label (Entailment, Neutral,
    Contradiction: the majority of three), must (an answer has to state the claim), present
    (Entailment).
    """
    text = read_text(source("kqa/dataset/NLI_medical_annotator.csv"))
    table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    triplets, answers, labels = [], [], []
    for number, (question, claims) in enumerate(table.groupby("Question", sort=False), 1):
        id_, model = f"kqa-{number:03}", claims["llm_x"].iloc[0]
        points = tuple(map(GivenPoint, claims["claim"]))
        triplets.append(Triplet(id_, id_, str(question), "", points=points))
        answers.append(Answer(id_, model, claims["answer"].iloc[0]))
        for unit, claim in enumerate(claims.itertuples()):
            label = claim.majority_label
            must = claim.category_x == "Must_have"
            labels.append((id_, model, unit, label, must, label == "Entailment"))
    columns = [*POINT_KEYS, "label", "must", "present"]
    return triplets, answers, pd.DataFrame(labels, columns=columns)


def summedits() -> Loaded:
    """SummEdits' edits of summaries of earnings calls, which annotators found consistent or not.

    A language model made the edits. The reference is the summary before the edit, the answer the
    summary after it, by the model "edit"; the group is the call. Edits that change nothing are left
    out. Labels: correct (the edit is consistent with the call), kinds (of the errors that the edit
    makes, joined by "+", or `CONSISTENT`; upstream's language model named them), group.
    """
    triplets, answers, labels = [], [], []
    for row in pinned_rows(SUMMEDITS_EDITS):
        if row["summary"] == row["original_summary"]:
            continue
        id_ = row["id"].removeprefix("ectsum_")
        call = id_.rpartition("_")[0]
        triplets.append(Triplet(id_, call, SUMMEDITS_QUESTION, row["original_summary"]))
        answers.append(Answer(id_, "edit", row["summary"]))
        labels.append(
            {
                "triplet_id": id_,
                "model": "edit",
                "correct": row["label"] == 1,
                "kinds": "+".join(row["edit_types"]) or CONSISTENT,
                "group": call,
            }
        )
    return triplets, answers, pd.DataFrame(labels)


# --- the table of sets ---


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """What `agreement` and `rescoring` have to know of a set.

    `data/human` has its `<name>_labels.csv` and `<name>_scores.csv`.
    """

    title: str  # for tables and figures
    about: str  # what the labels are about: pairs, answers, points, systems
    load: Callable[[], Loaded]
    judged: int | None = None  # answers of each label that the judge reads; None = all
    published: Callable[[], pd.DataFrame] | None = None  # values by the set's authors
    judge_extracts: bool = False  # the judge extracts the points; otherwise they are sentences


SETS = {
    "ragchecker": LabelledSet(
        "RAGChecker's pairs", "pairs", ragchecker, published=ragchecker_values
    ),
    "financebench": LabelledSet("FinanceBench", "answers", financebench, judged=100),
    "findver": LabelledSet("FinDVer", "answers", findver, judged=100),
    "kqa": LabelledSet("K-QA", "points", kqa),
    "systems": LabelledSet("FinDVer, sixteen systems", "systems", findver_systems),
    "summedits": LabelledSet("SummEdits", "answers", summedits, judged=80, judge_extracts=True),
}
