"""Public data sets with labels of people: pinned files, fetched where not at hand, read into records.

Each loader gives triplets, answers and a frame of labels. `SETS` says of each set what its labels are about:

pairs    two answers to one question, compared by annotators: `ASKED` from -2 to 2, positive favours model "2"
answers  one answer, right or wrong: `correct` (bool), clustered by `group`
points   one point of a reference, in an answer or not: `present` (bool), named by `unit`, its place
systems  as answers; labels are of more triplets than answers, and lie in a table with a column per system
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from math import nan
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pandas as pd

from ems.io import parse_jsonl, read_text, write_file
from ems.terminal import first_few
from ems.types import Answer, GivenPoint, InputError, Triplet

from . import ROOT, by_hash

UPSTREAM = "https://raw.githubusercontent.com"  # <this>/<repository>/<commit>/<path>
KEYS = ["triplet_id", "model"]
POINT_KEYS = [*KEYS, "unit"]
ASKED = ("overall", "completeness", "correctness")
FINDVER_CLAIMS, FINDVER_OUTPUTS = (
    "findver/data/testmini.json",
    "findver/outputs/testmini_outputs/rag",
)
FINDVER_DRAWN = 40  # claims
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
# The words with which FinDVer's prompts ask an answer to name its verdict.
VERDICT = re.compile(r"\b(?:entail(?:s|ed)|refut(?:es?|ed))\b", re.IGNORECASE)
FINANCEBENCH_QUESTIONS = "financebench/data/financebench_open_source.jsonl"
FINANCEBENCH_RESULTS = "financebench/results"
Loaded = tuple[list[Triplet], list[Answer], pd.DataFrame]


# --- files: mirror, cache, download ---


@dataclass(frozen=True, slots=True)
class Pin:
    """A file of an upstream repository at one commit: a row of data/upstream.csv."""

    repository: str  # owner/name at the code host
    commit: str
    path: str  # in the repository
    size: int
    sha256: str

    def matches(self, content: bytes) -> bool:
        """Whether the content is what upstream has at this commit."""
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256


@cache
def pins() -> dict[str, Pin]:
    """The pinned files by name, `<data set>/<path>`."""
    rows = csv.DictReader(read_text(ROOT / "data" / "upstream.csv").splitlines())
    return {
        f"{row['dataset']}/{row['path']}": Pin(
            row["repository"], row["commit"], row["path"], int(row["bytes"]), row["sha256"]
        )
        for row in rows
    }


def pinned(folder: str) -> list[str]:
    """The names of the pinned files in a folder, in the order of data/upstream.csv."""
    return [name for name in pins() if name.startswith(f"{folder}/")]


def source(name: str) -> Path:
    """A pinned file: from the folder EMS_DATA_MIRROR, as it is there; else from the cache, or fetched.

    A warning names a file of the mirror that is not upstream's, such as one that holds half of the rows. The
    cache is EMS_CACHE, by default `~/.cache/ems`; the host EMS_UPSTREAM_URL, by default GitHub's. InputError
    when the name is not pinned, or no place has the file.
    """
    pin = pins().get(name)
    if pin is None:
        raise InputError(
            f"{name} is not pinned in data/upstream.csv; there are {first_few(sorted(pins()))}"
        )
    mirror = os.environ.get("EMS_DATA_MIRROR")
    if mirror and not Path(mirror).is_dir():
        raise InputError(
            f"EMS_DATA_MIRROR is {mirror!r}, which is no folder; correct it or unset it"
        )
    if mirror and Path(mirror, name).is_file():
        path = Path(mirror, name)
        if not pin.matches(path.read_bytes()):
            warnings.warn(
                f"{path} is not the whole file of {pin.repository} at commit {pin.commit[:12]}; it "
                "is read as it is",
                stacklevel=2,
            )
        return path
    caches = os.environ.get("EMS_CACHE") or Path.home() / ".cache" / "ems"
    path = Path(caches, pin.repository, pin.commit, pin.path)
    if not (path.is_file() and pin.matches(path.read_bytes())):
        write_file(path, [_download(name, pin).decode("utf-8")])
    return path


def rows_of(name: str) -> Any:
    """A pinned file's JSON; of JSON lines, the list. InputError when it is not JSON."""
    path = source(name)
    text = read_text(path)
    if path.suffix == ".jsonl":
        return [row for _, row in parse_jsonl(text.split("\n"), path)]
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(
            f"{path} is not JSON ({error}); fetch it from {pins()[name].repository}"
        ) from None


def _download(name: str, pin: Pin) -> bytes:
    """The content of a pinned file, given only when its size and hash are upstream's."""
    base = os.environ.get("EMS_UPSTREAM_URL") or UPSTREAM
    url = f"{base.rstrip('/')}/{pin.repository}/{pin.commit}/{pin.path}"
    try:
        with urlopen(url, timeout=30) as reply:
            content: bytes = reply.read(pin.size + 1)  # one byte more shows a file that has grown
    except (OSError, HTTPException, ValueError) as error:
        reason = (
            f"HTTP {error.code}"
            if isinstance(error, HTTPError)
            else getattr(error, "reason", error)
        )
        raise InputError(
            f"{name} is in no mirror and no cache, and fetching {url} failed ({reason}); set "
            "EMS_DATA_MIRROR to a folder that has it, or run once with network access"
        ) from None
    if not pin.matches(content):
        raise InputError(
            f"{url} is not the file pinned in data/upstream.csv: {len(content)} bytes were "
            f"read, {pin.size} with SHA-256 {pin.sha256[:12]} are pinned; nothing was kept"
        )
    return content


# --- data sets ---


def ragchecker() -> Loaded:
    """RAGChecker's human meta-evaluation: pairs of answers to one query, compared by two annotators each.

    Answers are of models "1" and "2". A row of labels is one annotator's judgement: instance_id (the
    triplet's id), annotator (0 or 1), dataset (one of ten), and `ASKED`.
    """
    triplets: dict[str, Triplet] = {}
    answers, labels = [], []
    for row in rows_of("ragchecker/data/meta_evaluation/human_labeled_data.json"):
        id_ = str(row["instance_id"])
        labels.append(
            {
                "instance_id": id_,
                "annotator": int(id_ in triplets),
                "dataset": row["dataset"],
                **{asked: row[f"{asked}_label"] for asked in ASKED},
            }
        )
        if id_ not in triplets:
            triplets[id_] = Triplet(id_, id_, row["query"], row["gt_answer"])
            answers += [Answer(id_, model, row[f"model{model}"]["response"]) for model in "12"]
    return list(triplets.values()), answers, pd.DataFrame(labels)


def ragchecker_values() -> pd.DataFrame:
    """RAGChecker's precision, recall and F1 of the same answers by its authors' judge, in [0, 1]."""
    parts = {"Precision": "correctness", "Recall": "completeness", "F1": "overall"}
    return pd.DataFrame(
        [
            {
                "triplet_id": str(row["instance_id"]),
                "model": model,
                **{
                    f"RAGChecker {part}": row[f"model{model}"]["ragchecker"][f"{asked}_label"]
                    for part, asked in parts.items()
                },
            }
            for row in rows_of("ragchecker/data/meta_evaluation/baseline_ragchecker.json")
            for model in "12"
        ]
    )


def financebench(contexts: bool = False) -> Loaded:
    """FinanceBench's 150 open questions with sixteen systems' answers, labelled by its authors.

    Reference: the answer of the question file. Group: the company. `contexts` adds the pages that hold the
    evidence. Labels: label (correct, incorrect, refusal), correct, question_type. InputError
    when the files do not fit together.
    """
    questions = {row["financebench_id"]: row for row in rows_of(FINANCEBENCH_QUESTIONS)}
    answers, labels = [], []
    for file in pinned(FINANCEBENCH_RESULTS):
        model = Path(file).stem
        for row in rows_of(file):
            id_, label = row["financebench_id"], row["label"].split()[0].lower()
            if id_ not in questions or row["question"] != questions[id_]["question"]:
                raise InputError(
                    f"{file}: {id_} is not the question of that id in {FINANCEBENCH_QUESTIONS}"
                )
            if label not in ("correct", "incorrect", "refusal"):
                raise InputError(
                    f"{file}: {id_}: correct, incorrect or refusal needed, got {label!r}"
                )
            answers.append(
                Answer(id_, model, str(row["model_answer"]).strip())
            )  # one is the number 0
            labels.append(
                {
                    "triplet_id": id_,
                    "model": model,
                    "label": label,
                    "correct": label == "correct",
                    "question_type": questions[id_]["question_type"],
                    "group": questions[id_]["company"],
                }
            )
    triplets = []
    for id_, row in questions.items():
        pages = (
            "\n\n".join(part["evidence_text_full_page"] for part in row["evidence"])
            if contexts
            else None
        )
        triplets.append(Triplet(id_, row["company"], row["question"], row["answer"], pages))
    return triplets, answers, pd.DataFrame(labels)


def findver() -> Loaded:
    """FinDVer's 700 testmini claims with the chain-of-thought answers of three Llama models (with retrieval).

    Reference: the experts' explanation. Group: the filing. Labels: size (billions of parameters), subset,
    entailed (whether the claim is), correct (upstream's reading of the answer is right), stated (the answer
    says "entailed" or "refuted"). InputError when the files do not fit together.
    """
    llama = [name for name, (_, family, _) in FINDVER_SYSTEMS.items() if family == "Llama"]
    return _findver(findver_claims(), llama)


def findver_systems() -> Loaded:
    """The same of sixteen systems; triplets and answers of the forty claims that were drawn, labels of all.

    Drawn by the SHA-256 of their ids, not by their labels, from the 450 claims about information and
    knowledge: the explanation of a claim about calculation is a formula's steps.
    """
    claims = findver_claims()
    triplets, answers, labels = _findver(claims, list(FINDVER_SYSTEMS))
    worded = [id_ for id_, row in claims.items() if row["subset"] != "numeric"]
    drawn = by_hash(worded)[:FINDVER_DRAWN]
    return (
        [t for t in triplets if t.id in drawn],
        [a for a in answers if a.triplet_id in drawn],
        labels,
    )


def _findver(claims: Mapping[str, Mapping[str, Any]], models: Sequence[str]) -> Loaded:
    triplets = [
        Triplet(id_, row["group"], FINDVER_TASK + row["statement"], row["explanation"])
        for id_, row in claims.items()
    ]
    answers, labels = [], []
    for model in models:
        stem, _, size = FINDVER_SYSTEMS[model]
        file = f"{FINDVER_OUTPUTS}/processed_cot_outputs/{stem}.json"
        for row in rows_of(file):
            id_, said = row["example_id"], row["output"][0]
            if id_ not in claims or row["statement"] != claims[id_]["statement"]:
                raise InputError(f"{file}: {id_} is not the claim of that id in {FINDVER_CLAIMS}")
            answers.append(Answer(id_, model, without_chat_tokens(said)))
            labels.append(
                {
                    "triplet_id": id_,
                    "model": model,
                    "size": size,
                    "subset": row["subset"],
                    "entailed": row["entailment_label"],
                    "correct": row["result"],
                    "stated": bool(VERDICT.search(said)),
                    "group": claims[id_]["group"],
                }
            )
    return triplets, answers, pd.DataFrame(labels)


def findver_claims() -> dict[str, dict[str, Any]]:
    """FinDVer's claims as upstream has them, by the ids of its outputs: ie-testmini-0 for ie-val-0.

    Added to each: `group`, the filing, and `explanation`, which upstream spells in two ways.
    """
    return {
        row["example_id"].replace("-val-", "-testmini-"): {
            "explanation": row.get("explaination"),
            **row,
            "group": row["report"].removesuffix(".json"),
        }
        for row in rows_of(FINDVER_CLAIMS)
    }


def without_chat_tokens(output: str) -> str:
    """The answer without Llama's header, whole or broken off, and without other special tokens."""
    output = re.sub(r"^(?:<\|start_header_id\|>assistant)+", "", output)
    return re.sub(r"<\|[a-z_]+(?:_\d+)?\|>", "", output).strip()


def kqa() -> Loaded:
    """K-QA's 50 medical questions with one model's answer each; physicians labelled the reference's claims.

    A triplet's points are the claims. Labels: unit, label (Entailment, Neutral, Contradiction: the majority
    of three), must (an answer has to state the claim), present (Entailment).
    """
    text = read_text(source("kqa/dataset/NLI_medical_annotator.csv"))
    rows = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    triplets, answers, labels = [], [], []
    for number, (question, claims) in enumerate(rows.groupby("Question", sort=False), 1):
        id_, model = f"kqa-{number:03}", claims["llm_x"].iloc[0]
        triplets.append(
            Triplet(id_, id_, str(question), "", points=tuple(map(GivenPoint, claims["claim"])))
        )
        answers.append(Answer(id_, model, claims["answer"].iloc[0]))
        labels += [
            (
                id_,
                model,
                unit,
                claim.majority_label,
                claim.category_x == "Must_have",
                claim.majority_label == "Entailment",
            )
            for unit, claim in enumerate(claims.itertuples())
        ]
    return (
        triplets,
        answers,
        pd.DataFrame(labels, columns=[*POINT_KEYS, "label", "must", "present"]),
    )


# --- the table of sets ---


@dataclass(frozen=True, slots=True)
class LabelledSet:
    """What `agreement` has to know of a set; `data/human` has its `<name>_labels.csv` and `_scores.csv`."""

    title: str  # for tables and figures
    about: str  # what the labels are about: pairs, answers, points, systems
    load: Callable[[], Loaded]
    judged: int | None = None  # answers of each label that the judge read; None = all
    published: Callable[[], pd.DataFrame] | None = None  # values by the set's authors


SETS = {
    "ragchecker": LabelledSet(
        "RAGChecker's pairs", "pairs", ragchecker, published=ragchecker_values
    ),
    "financebench": LabelledSet("FinanceBench", "answers", financebench, judged=100),
    "findver": LabelledSet("FinDVer", "answers", findver, judged=100),
    "kqa": LabelledSet("K-QA", "points", kqa),
    "systems": LabelledSet("FinDVer, sixteen systems", "systems", findver_systems),
}
