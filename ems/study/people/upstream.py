"""Public data sets that the study uses: pinned downloads, and their answers, labels and human scores."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
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
REALSUMM = "realsumm/data/REALSumm"
UNIT_KEYS = ["triplet_id", "model", "unit"]         # of labels of single points
FINANCEBENCH_SETS = (               # the configurations of the paper's table 2, in its order
    "gpt-4-1106-preview_closedBook", "llama2_sharedStore", "gpt-4-1106-preview_sharedStore",
    "llama2_singleStore", "gpt-4-1106-preview_singleStore", "claude-2_inContext_reverse",
    "gpt-4-1106-preview_inContext_reverse", "gpt-4-1106-preview_oracle",
)


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
        return len(content) == self.size and _sha256(content) == self.sha256


@dataclass(frozen=True, slots=True)
class Source:
    """A pinned file on this machine: where it is, where it came from and whether it is what upstream has."""

    name: str                     # "<data set>/<path in the repository>"
    path: Path
    origin: str                   # "mirror", "cache" or "download"
    sha256: str
    pin: Pin

    @property
    def provenance(self) -> dict[str, str]:
        """What a manifest records: names, commit and hash, no local path."""
        note = "as upstream" if self.sha256 == self.pin.sha256 else "differs from upstream"
        return {"name": self.name, "repository": self.pin.repository, "commit": self.pin.commit,
                "sha256": self.sha256, "origin": self.origin, "note": note}

    def rows(self) -> Any:
        """The file's JSON; of JSON lines, the list. InputError when it is not JSON."""
        text = read_text(self.path)
        if self.path.suffix == ".jsonl":
            return [row for _, row in parse_jsonl(text, self.path)]
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"{self.path} is not JSON ({error}); fetch it from "
                             f"{self.pin.repository}") from None


@cache
def pins() -> dict[str, Pin]:
    """The pinned files by name, from data/upstream.csv."""
    table = csv.DictReader(read_text(data_path("upstream.csv")).splitlines())
    rows = [validated(Pin, row, f"upstream.csv, row {number}") for number, row in enumerate(table, 1)]
    return {f"{pin.dataset}/{pin.path}": pin for pin in rows}


def source(name: str) -> Source:
    """A pinned file: from the mirror, as it is, else from the cache or the code host when it is upstream's.

    The mirror is `EMS_DATA_MIRROR`, laid out as `<data set>/<path>`; the cache `EMS_CACHE`, by default
    `~/.cache/ems`; the host `EMS_UPSTREAM_URL`, by default GitHub. InputError when the name is not pinned, or
    no place has the file.
    """
    pin = pins().get(name)
    if pin is None:
        raise InputError(f"{name} is not pinned in data/upstream.csv; there are {some(sorted(pins()))}")
    if mirror := os.environ.get("EMS_DATA_MIRROR"):
        if not Path(mirror).is_dir():
            raise InputError(f"EMS_DATA_MIRROR is {mirror!r}, which is no folder; correct it or unset it")
        if (path := Path(mirror, name)).is_file():
            return Source(name, path, "mirror", _sha256(path.read_bytes()), pin)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("EMS_CACHE") or Path(caches, "ems"), pin.repository, pin.commit, pin.path)
    if path.is_file() and pin.matches(path.read_bytes()):
        return Source(name, path, "cache", pin.sha256, pin)
    base = os.environ.get("EMS_UPSTREAM_URL") or UPSTREAM_URL
    write_file(path, _download(f"{base.rstrip('/')}/{pin.repository}/{pin.commit}/{pin.path}", name, pin))
    return Source(name, path, "download", pin.sha256, pin)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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

def _labels(rows: Sequence[Any], sources: Sequence[Source], columns: Sequence[str] | None = None
            ) -> pd.DataFrame:
    """A table of labels that says in `attrs["sources"]` which files it was made from."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=columns)
    frame.attrs["sources"] = [s.provenance for s in sources]
    return frame


def findver() -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """FinDVer's 700 testmini claims with the chain-of-thought answers of three Llama models (RAG setting).

    Reference: the experts' explanation. Group: the filing. Labels, a row per answer: triplet_id, model, size
    (billions of parameters), subset, entailed (the truth), correct, correct_without_cot (bool: upstream's
    reading of the answer is right), stated (`names_verdict`); `attrs["sources"]`. InputError when a file is
    not available or the files disagree about a claim.
    """
    testmini = source("findver/data/testmini.json")
    # the data name a claim ie-val-0 where the outputs name it ie-testmini-0
    claims = {row["example_id"].replace("-val-", "-testmini-"): row for row in testmini.rows()}
    # upstream spells explanation in two ways
    triplets = [Triplet(id_, row["report"].removesuffix(".json"), FINDVER_TASK + row["statement"],
                        row["explanation"] if "explanation" in row else row["explaination"])
                for id_, row in claims.items()]
    sources, answers, labels = [testmini], [], []
    for model, (stem, size) in FINDVER_MODELS.items():
        cot, direct = (source(f"findver/outputs/testmini_outputs/rag/processed_{kind}_outputs/{stem}.json")
                       for kind in ("cot", "do"))
        sources += [cot, direct]
        correct_without_cot = {row["example_id"]: row["result"] for row in direct.rows()}
        for row in cot.rows():
            id_ = row["example_id"]
            known = id_ in claims and id_ in correct_without_cot
            if not known or row["statement"] != claims[id_]["statement"]:
                raise InputError(f"{cot.name}: {id_} is not the claim of that id in {testmini.name}, "
                                 f"{direct.name}")
            answers.append(Answer(id_, model, _without_chat_tokens(row["output"][0])))
            labels.append((id_, model, size, row["subset"], row["entailment_label"], row["result"],
                           correct_without_cot[id_], names_verdict(row["output"][0])))
    columns = ["triplet_id", "model", "size", "subset", "entailed", "correct", "correct_without_cot",
               "stated"]
    return triplets, answers, _labels(labels, sources, columns)


def findver_claims() -> tuple[list[dict[str, Any]], dict[str, list[str]], dict[str, dict[str, bool]]]:
    """FinDVer's testmini claims about the 48 pinned filings: claims, passages by filing, released verdicts.

    A claim has triplet_id, subset, statement, entailed (bool), relevant (indices of the passages that experts
    named) and report. The verdicts say by model and triplet_id whether the released answer with retrieval and
    chain of thought is right. InputError when a file is not available.
    """
    folder = "findver/financial_reports/"
    filings = {name.removeprefix(folder): source(name).rows()["context"]
               for name in pins() if name.startswith(folder)}
    place = {report: {part["id"]: i for i, part in enumerate(parts)} for report, parts in filings.items()}
    claims = [{"triplet_id": row["example_id"].replace("-val-", "-testmini-"), "subset": row["subset"],
               "statement": row["statement"], "report": row["report"],
               "entailed": bool(row["entailment_label"]),
               "relevant": {place[row["report"]][id_] for id_ in row["relevant_context"]}}
              for row in source("findver/data/testmini.json").rows() if row["report"] in filings]
    answers = "findver/outputs/testmini_outputs/rag/processed_cot_outputs/"
    verdicts = {Path(name).stem: {row["example_id"]: bool(row["result"]) for row in source(name).rows()}
                for name in pins() if name.startswith(answers)}
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
    question_type, group; `attrs["sources"]`. They are the paper's table 2 but for its 126 failures of the
    closed book, where 131 make 150.
    """
    sources = [source("financebench/data/financebench_open_source.jsonl")]
    questions = {row["financebench_id"]: row for row in sources[0].rows()}
    answers, labels = [], []
    for name in sets:
        sources.append(source(f"financebench/results/{name}.jsonl"))
        llm, _, setting = name.partition("_")
        for row in sources[-1].rows():
            id_, label = row["financebench_id"], row["label"].split()[0].lower()
            if id_ not in questions or row["question"] != questions[id_]["question"]:
                raise InputError(f"{sources[-1].name}: {id_} is not the question of that id in "
                                 f"{sources[0].name}")
            if label not in ("correct", "incorrect", "refusal"):
                raise InputError(f"{sources[-1].name}: {id_}: correct, incorrect or refusal needed, "
                                 f"got {label!r}")
            answers.append(Answer(id_, name, str(row["model_answer"]).strip()))   # one is the number 0
            labels.append((id_, name, llm, setting, label, label == "correct",
                           questions[id_]["question_type"], questions[id_]["company"]))
    pages = {id_: "\n\n".join(part["evidence_text_full_page"] for part in q["evidence"]) if contexts else None
             for id_, q in questions.items()}
    triplets = [Triplet(id_, q["company"], q["question"], q["answer"], pages[id_])
                for id_, q in questions.items()]
    columns = ["triplet_id", "model", "llm", "setting", "label", "correct", "question_type", "group"]
    return triplets, answers, _labels(labels, sources, columns)


def financebench_sets() -> list[str]:
    """The sixteen answer sets that FinanceBench's authors labelled, `FINANCEBENCH_SETS` among them."""
    folder = "financebench/results/"
    return [Path(name).stem for name in pins() if name.startswith(folder)]


def ragchecker_meta() -> pd.DataFrame:
    """RAGChecker's human meta-evaluation: pairs of answers to one query, compared by two annotators each.

    One row per judgement: instance_id, annotator (0 or 1, in order), dataset, query, gt_answer, model1,
    response1, model2, response2; correctness, completeness, overall (-2 .. 2: positive favours response 2);
    RAGChecker's precision, recall and F1 of each answer as rc_correctness1, rc_completeness1, rc_overall1,
    rc_correctness2, ...; `attrs["sources"]`.
    """
    human, scored = (source(f"ragchecker/data/meta_evaluation/{name}.json")
                     for name in ("human_labeled_data", "baseline_ragchecker"))
    scores = {row["instance_id"]: row for row in scored.rows()}
    annotators: dict[Any, int] = {}
    rows = []
    for pair in human.rows():
        id_ = pair["instance_id"]
        if id_ not in scores or any(pair[model]["response"] != scores[id_][model]["response"]
                                    for model in ("model1", "model2")):
            raise InputError(f"{human.name}: instance {id_} is not the pair of that number in {scored.name}")
        annotators[id_] = annotators.get(id_, -1) + 1
        row = {"instance_id": id_, "annotator": annotators[id_],
               **{name: pair[name] for name in ("dataset", "query", "gt_answer")}}
        for i in "12":
            model = pair[f"model{i}"]
            row |= {f"model{i}": model["model_name"], f"response{i}": model["response"]}
        for ask in ("correctness", "completeness", "overall"):
            row[ask] = pair[f"{ask}_label"]
            row |= {f"rc_{ask}{i}": scores[id_][f"model{i}"]["ragchecker"][f"{ask}_label"] for i in "12"}
        rows.append(row)
    return _labels(rows, [human, scored])


def realsumm() -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """REALSumm's 100 news articles: references, summaries of 25 systems, and content units with their labels.

    A triplet's points are the units that people took from its reference (Bhandari et al. 2020, as kept by
    Zhang and Bansal 2021). Labels: `UNIT_KEYS`, present (bool: the summary says the unit);
    `attrs["sources"]`. InputError when the files do not fit together.
    """
    sources: list[Source] = []

    def lines(name: str) -> list[str]:
        sources.append(source(name))
        return read_text(sources[-1].path).removesuffix("\n").split("\n")

    ids, references, units = (lines(f"{REALSUMM}/{name}.txt") for name in ("ids", "references", "SCUs"))
    triplets = [Triplet(id_, id_, "", _plain(reference), points=tuple(map(GivenPoint, line.split("\t"))))
                for id_, reference, line in zip(ids, references, units, strict=True)]
    answers, labels = [], []
    for name in sorted(pins()):
        if not name.startswith(f"{REALSUMM}/summaries/"):
            continue
        system = name.rpartition("/")[2].removesuffix(".summary")
        summaries, present = lines(name), lines(f"{REALSUMM}/labels/{system}.label")
        for triplet, summary, line in zip(triplets, summaries, present, strict=True):
            values = line.split("\t")
            if len(values) != len(triplet.points) or not {*values} <= {"0", "1"}:
                raise InputError(f"{system}.label: {triplet.id} needs {len(triplet.points)} labels, 0 or 1, "
                                 f"got {line!r:.60}")
            answers.append(Answer(triplet.id, system, _plain(summary)))
            labels += [(triplet.id, system, unit, value == "1") for unit, value in enumerate(values)]
    return triplets, answers, _labels(labels, sources, [*UNIT_KEYS, "present"])


def _plain(text: str) -> str:
    """The text without its marks of sentences."""
    return re.sub(r"\s+", " ", re.sub(r"</?t>", " ", text)).strip()


def kqa() -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """K-QA's 50 medical questions with one model's answer each; physicians labelled the reference's claims.

    Manes et al. 2024. Labels: `UNIT_KEYS`, label (Entailment, Neutral, Contradiction: the majority of three),
    must (bool: the claim must be in an answer), present (bool: Entailment); `attrs["sources"]`.
    """
    import pandas as pd

    file = source("kqa/dataset/NLI_medical_annotator.csv")
    rows = pd.read_csv(io.StringIO(read_text(file.path)), dtype=str, keep_default_na=False)
    triplets, answers, labels = [], [], []
    for number, (question, claims) in enumerate(rows.groupby("Question", sort=False), 1):
        id_, first = f"kqa-{number:03}", claims.iloc[0]
        triplets.append(Triplet(id_, id_, str(question), "", points=tuple(map(GivenPoint, claims["claim"]))))
        answers.append(Answer(id_, first["llm_x"], first["answer"]))
        labels += [(id_, first["llm_x"], unit, c.majority_label, c.category_x == "Must_have",
                    c.majority_label == "Entailment") for unit, c in enumerate(claims.itertuples())]
    return triplets, answers, _labels(labels, [file], [*UNIT_KEYS, "label", "must", "present"])
