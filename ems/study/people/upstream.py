"""Public data sets that the study uses: pinned downloads, and their answers, labels and human scores."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import logging
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from ...io import data_path, parse_jsonl, read_text, some, validated, write_file
from ...types import Answer, GivenPoint, InputError, Triplet

if TYPE_CHECKING:
    import pandas as pd

UPSTREAM_URL = "https://raw.githubusercontent.com"       # <this>/<repository>/<commit>/<path>
FINDVER_MODELS = {                  # name -> (upstream's file, billions of parameters)
    "Llama-3.2-3B": ("Llama-3_2-3B-Instruct", 3.0),
    "Llama-3.1-8B": ("Meta-Llama-3_1-8B-Instruct", 8.0),
    "Llama-3.1-70B": ("Meta-Llama-3_1-70B-Instruct-AWQ-INT4", 70.0),
}
FINDVER_TASK = "Is the claim below supported or contradicted by the filing? Give your reasoning.\n\nClaim: "
# The words with which FinDVer's prompts ask an answer to name its verdict.
VERDICT = re.compile(r"\b(?:entail(?:s|ed)|refut(?:es?|ed))\b", re.IGNORECASE)
FINDVER_CLAIMS, FINDVER_OUTPUTS = "findver/data/testmini.json", "findver/outputs/testmini_outputs/rag"
FINANCEBENCH_QUESTIONS = "financebench/data/financebench_open_source.jsonl"
FINANCEBENCH_RESULTS = "financebench/results"
REALSUMM = "realsumm/data/REALSumm"
UNIT_KEYS = ["triplet_id", "model", "unit"]         # of labels of single points
FINANCEBENCH_SETS = (               # the configurations of the paper's table 2, in its order
    "gpt-4-1106-preview_closedBook", "llama2_sharedStore", "gpt-4-1106-preview_sharedStore",
    "llama2_singleStore", "gpt-4-1106-preview_singleStore", "claude-2_inContext_reverse",
    "gpt-4-1106-preview_inContext_reverse", "gpt-4-1106-preview_oracle",
)


log = logging.getLogger("ems")


# --- files: mirror, cache, download ---

class Pin(BaseModel):
    """A file of an upstream repository at one commit: a row of data/upstream.csv."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    repository: str               # owner/name at the code host
    commit: str
    path: str                     # in the repository
    size: int = Field(alias="bytes")
    sha256: str

    def matches(self, content: bytes) -> bool:
        """Whether the content is what upstream has at this commit."""
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256


@cache
def pins() -> dict[str, Pin]:
    """The pinned files by name, from data/upstream.csv."""
    table = csv.DictReader(read_text(data_path("upstream.csv")).splitlines())
    rows = [validated(Pin, row, f"upstream.csv, row {number}") for number, row in enumerate(table, 1)]
    return {f"{pin.dataset}/{pin.path}": pin for pin in rows}


def pinned(folder: str) -> list[str]:
    """The names of the pinned files in a folder, in the order of data/upstream.csv."""
    return [name for name in pins() if name.startswith(f"{folder}/")]


def source(name: str) -> Path:
    """A pinned file: from the mirror, as it is, else from the cache or the code host when it is upstream's.

    The mirror is the folder `EMS_DATA_MIRROR`, laid out as `<data set>/<path>`; a warning says which file in
    it is not upstream's. The cache is `EMS_CACHE`, by default `~/.cache/ems`; the host `EMS_UPSTREAM_URL`, by
    default GitHub. InputError when the name is not pinned, or no place has the file.
    """
    pin = pins().get(name)
    if pin is None:
        raise InputError(f"{name} is not pinned in data/upstream.csv; there are {some(sorted(pins()))}")
    if mirror := os.environ.get("EMS_DATA_MIRROR"):
        if not Path(mirror).is_dir():
            raise InputError(f"EMS_DATA_MIRROR is {mirror!r}, which is no folder; correct it or unset it")
        if (path := Path(mirror, name)).is_file():
            if not pin.matches(path.read_bytes()):
                log.warning("%s is not the file of %s at commit %s; it is read as it is", path,
                            pin.repository, pin.commit[:12])
            return path
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("EMS_CACHE") or Path(caches, "ems"), pin.repository, pin.commit, pin.path)
    if not (path.is_file() and pin.matches(path.read_bytes())):
        base = os.environ.get("EMS_UPSTREAM_URL") or UPSTREAM_URL
        write_file(path, _download(f"{base.rstrip('/')}/{pin.repository}/{pin.commit}/{pin.path}", name, pin))
    return path


def rows_of(name: str) -> Any:
    """A pinned file's JSON; of JSON lines, the list. InputError when it is not JSON."""
    path = source(name)
    text = read_text(path)
    if path.suffix == ".jsonl":
        return [row for _, row in parse_jsonl(text, path)]
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); fetch it from {pins()[name].repository}") from None


def _download(url: str, name: str, pin: Pin) -> bytes:
    """The file at `url`, held in memory until its size and hash are upstream's."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=30) as reply:
            content = reply.read(pin.size + 1)      # one byte more shows a file that has grown
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        reason = f"HTTP {error.code}" if isinstance(error, HTTPError) else reason
        raise InputError(f"{name} is in no mirror and no cache, and fetching {url} failed ({reason}); set "
                         "EMS_DATA_MIRROR to a folder that has it, or run once with network access") from None
    if not pin.matches(content):
        came = f"more than {pin.size}" if len(content) > pin.size else len(content)
        raise InputError(f"{url} is not the pinned file: {came} bytes came, {pin.size} with SHA-256 "
                         f"{pin.sha256[:12]} are pinned in data/upstream.csv; nothing was kept")
    return content


# --- data sets ---

def _table(rows: Sequence[Any], columns: Sequence[str] | None = None) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def _claims() -> dict[str, dict[str, Any]]:
    """FinDVer's claims by the ids that its outputs have: ie-testmini-0 where their file has ie-val-0."""
    return {row["example_id"].replace("-val-", "-testmini-"): row for row in rows_of(FINDVER_CLAIMS)}


def findver() -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """FinDVer's 700 testmini claims with the chain-of-thought answers of three Llama models (RAG setting).

    Reference: the experts' explanation. Group: the filing. Labels, a row per answer: triplet_id, model, size
    (billions of parameters), subset, entailed (the truth), correct, correct_without_cot (bool: upstream's
    reading of the answer is right), stated (`names_verdict`). InputError when a file is not available or the
    files disagree about a claim.
    """
    claims, answers, labels = _claims(), [], []
    # upstream spells explanation in two ways
    triplets = [Triplet(id_, row["report"].removesuffix(".json"), FINDVER_TASK + row["statement"],
                        row["explanation"] if "explanation" in row else row["explaination"])
                for id_, row in claims.items()]
    for model, (stem, size) in FINDVER_MODELS.items():
        cot, direct = (f"{FINDVER_OUTPUTS}/processed_{kind}_outputs/{stem}.json" for kind in ("cot", "do"))
        without_cot = {row["example_id"]: row["result"] for row in rows_of(direct)}
        for row in rows_of(cot):
            id_, said = row["example_id"], row["output"][0]
            known = id_ in claims and id_ in without_cot
            if not known or row["statement"] != claims[id_]["statement"]:
                raise InputError(f"{cot}: {id_} is not the claim of that id in {FINDVER_CLAIMS}, {direct}")
            answers.append(Answer(id_, model, _without_chat_tokens(said)))
            labels.append({"triplet_id": id_, "model": model, "size": size, "subset": row["subset"],
                           "entailed": row["entailment_label"], "correct": row["result"],
                           "correct_without_cot": without_cot[id_], "stated": names_verdict(said)})
    return triplets, answers, _table(labels)


def findver_claims() -> tuple[list[dict[str, Any]], dict[str, list[str]], dict[str, dict[str, bool]]]:
    """FinDVer's testmini claims about the 48 pinned filings: claims, passages by filing, released verdicts.

    A claim has triplet_id, subset, statement, entailed (bool), relevant (indices of the passages that experts
    named) and report. The verdicts say by model and triplet_id whether the released answer with retrieval and
    chain of thought is right. InputError when a file is not available.
    """
    filings = {Path(name).name: rows_of(name)["context"] for name in pinned("findver/financial_reports")}
    place = {report: {part["id"]: i for i, part in enumerate(parts)} for report, parts in filings.items()}
    claims = [{"triplet_id": id_, "subset": row["subset"], "statement": row["statement"],
               "report": row["report"], "entailed": bool(row["entailment_label"]),
               "relevant": {place[row["report"]][part] for part in row["relevant_context"]}}
              for id_, row in _claims().items() if row["report"] in filings]
    verdicts = {Path(name).stem: {row["example_id"]: bool(row["result"]) for row in rows_of(name)}
                for name in pinned(f"{FINDVER_OUTPUTS}/processed_cot_outputs")}
    passages = {report: [part["context"] for part in parts] for report, parts in filings.items()}
    return claims, passages, verdicts


def names_verdict(answer: str) -> bool:
    """Whether an answer to a FinDVer claim says that it is entailed or refuted, in the words of its prompt.

    Another wording ("the claim is false") is not counted: shares of such answers are lower bounds.
    """
    return bool(VERDICT.search(answer))


def _without_chat_tokens(output: str) -> str:
    """The answer without Llama's header, whole or broken off, and without other special tokens."""
    output = re.sub(r"^(?:<\|start_header_id\|>assistant)+", "", output)
    return re.sub(r"<\|[a-z_]+(?:_\d+)?\|>", "", output).strip()


def financebench(sets: Sequence[str] = FINANCEBENCH_SETS, contexts: bool = False
                 ) -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """FinanceBench's 150 open questions with answers that its authors labelled, one set per configuration.

    Reference: the gold answer of the question file. Group: the company. Model: the configuration; `_reverse`
    puts the filing before the question. `contexts` adds the pages that hold the evidence. Labels, a row per
    answer: triplet_id, model, llm, setting, label (correct, incorrect, refusal), correct (bool),
    question_type, group. They are the paper's table 2 but for its 126 failures of the closed book, where 131
    make 150.
    """
    questions = {row["financebench_id"]: row for row in rows_of(FINANCEBENCH_QUESTIONS)}
    answers, labels = [], []
    for name in sets:
        file = f"{FINANCEBENCH_RESULTS}/{name}.jsonl"
        llm, _, setting = name.partition("_")
        for row in rows_of(file):
            id_, label = row["financebench_id"], row["label"].split()[0].lower()
            if id_ not in questions or row["question"] != questions[id_]["question"]:
                raise InputError(f"{file}: {id_} is not the question of that id in {FINANCEBENCH_QUESTIONS}")
            if label not in ("correct", "incorrect", "refusal"):
                raise InputError(f"{file}: {id_}: correct, incorrect or refusal needed, got {label!r}")
            answers.append(Answer(id_, name, str(row["model_answer"]).strip()))   # one is the number 0
            labels.append({"triplet_id": id_, "model": name, "llm": llm, "setting": setting, "label": label,
                           "correct": label == "correct", "question_type": questions[id_]["question_type"],
                           "group": questions[id_]["company"]})
    triplets = [Triplet(id_, q["company"], q["question"], q["answer"],
                        "\n\n".join(part["evidence_text_full_page"] for part in q["evidence"]) if contexts
                        else None) for id_, q in questions.items()]
    return triplets, answers, _table(labels)


def financebench_sets() -> list[str]:
    """The sixteen answer sets that FinanceBench's authors labelled, `FINANCEBENCH_SETS` among them."""
    return [Path(name).stem for name in pinned(FINANCEBENCH_RESULTS)]


def ragchecker() -> tuple[list[Triplet], list[Answer], pd.DataFrame, pd.DataFrame]:
    """RAGChecker's human meta-evaluation: pairs of answers to one query, compared by two annotators each.

    Answers are of models "1" and "2". Labels, a row per judgement: instance_id (of the triplet), annotator (0
    or 1, in order), dataset; overall, completeness, correctness (-2 .. 2: positive favours answer 2). Last
    the score table of RAGChecker's own precision, recall and F1. InputError when the files disagree.
    """
    human, scored = (f"ragchecker/data/meta_evaluation/{name}.json"
                     for name in ("human_labeled_data", "baseline_ragchecker"))
    published = {row["instance_id"]: row for row in rows_of(scored)}
    triplets: dict[str, Triplet] = {}
    answers, labels, scores = [], [], []
    for pair in rows_of(human):
        id_, known = str(pair["instance_id"]), published.get(pair["instance_id"])
        if known is None or any(pair[model]["response"] != known[model]["response"]
                                for model in ("model1", "model2")):
            raise InputError(f"{human}: instance {id_} is not the pair of that number in {scored}")
        labels.append({"instance_id": id_, "annotator": int(id_ in triplets), "dataset": pair["dataset"],
                       **{ask: pair[f"{ask}_label"] for ask in ("overall", "completeness", "correctness")}})
        if id_ in triplets:
            continue
        triplets[id_] = Triplet(id_, id_, pair["query"], pair["gt_answer"])
        for i in "12":
            answers.append(Answer(id_, i, pair[f"model{i}"]["response"]))
            own = known[f"model{i}"]["ragchecker"]
            scores.append({"triplet_id": id_, "model": i, "RAGChecker Precision": own["correctness_label"],
                           "RAGChecker Recall": own["completeness_label"],
                           "RAGChecker F1": own["overall_label"]})
    return list(triplets.values()), answers, _table(labels), _table(scores)


def realsumm() -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """REALSumm's 100 news articles: references, summaries of 25 systems, and content units with their labels.

    A triplet's points are the units that people took from its reference (Bhandari et al. 2020, as kept by
    Zhang and Bansal 2021). Labels: `UNIT_KEYS`, present (bool: the summary says the unit). InputError when
    the files do not fit together.
    """
    def lines(name: str) -> list[str]:
        return read_text(source(f"{REALSUMM}/{name}")).removesuffix("\n").split("\n")

    texts = zip(lines("ids.txt"), lines("references.txt"), lines("SCUs.txt"), strict=True)
    triplets = [Triplet(id_, id_, "", _plain(reference), points=tuple(map(GivenPoint, units.split("\t"))))
                for id_, reference, units in texts]
    answers, labels = [], []
    for system in sorted(Path(name).stem for name in pinned(f"{REALSUMM}/summaries")):
        summaries, present = lines(f"summaries/{system}.summary"), lines(f"labels/{system}.label")
        for triplet, summary, line in zip(triplets, summaries, present, strict=True):
            values = line.split("\t")
            if len(values) != len(triplet.points) or not {*values} <= {"0", "1"}:
                raise InputError(f"{system}.label: {triplet.id} needs {len(triplet.points)} labels, 0 or 1, "
                                 f"got {line!r:.60}")
            answers.append(Answer(triplet.id, system, _plain(summary)))
            labels += [(triplet.id, system, unit, value == "1") for unit, value in enumerate(values)]
    return triplets, answers, _table(labels, [*UNIT_KEYS, "present"])


def _plain(text: str) -> str:
    """The text without its marks of sentences."""
    return re.sub(r"\s+", " ", re.sub(r"</?t>", " ", text)).strip()


def kqa() -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """K-QA's 50 medical questions with one model's answer each; physicians labelled the reference's claims.

    Manes et al. 2024. Labels: `UNIT_KEYS`, label (Entailment, Neutral, Contradiction: the majority of three),
    must (bool: the claim must be in an answer), present (bool: Entailment).
    """
    import pandas as pd

    text = read_text(source("kqa/dataset/NLI_medical_annotator.csv"))
    rows = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
    triplets, answers, labels = [], [], []
    for number, (question, claims) in enumerate(rows.groupby("Question", sort=False), 1):
        id_, first = f"kqa-{number:03}", claims.iloc[0]
        triplets.append(Triplet(id_, id_, str(question), "", points=tuple(map(GivenPoint, claims["claim"]))))
        answers.append(Answer(id_, first["llm_x"], first["answer"]))
        labels += [(id_, first["llm_x"], unit, c.majority_label, c.category_x == "Must_have",
                    c.majority_label == "Entailment") for unit, c in enumerate(claims.itertuples())]
    return triplets, answers, _table(labels, [*UNIT_KEYS, "label", "must", "present"])
