"""Triplets and answers: reading, writing and joining them, and the public data sets the kit speaks.

Files of other projects are pinned in `data/upstream.csv` (repository, commit, path, size, SHA-256) and found, in this
order, in the folder `EMS_DATA_MIRROR`, in the cache, and at the code host.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .types import Answer, InputError, Triplet, duplicates

if TYPE_CHECKING:
    import pandas as pd

DATA = Path(__file__).resolve().parent.parent / "data"
UPSTREAM_URL = "https://raw.githubusercontent.com"       # <this>/<repository>/<commit>/<path>
ENTAILMENT = ("Entailment", "Neutral", "Contradiction", None)

FINDVER_MODELS = {                  # name -> (upstream's file, billions of parameters)
    "Llama-3.2-3B": ("Llama-3_2-3B-Instruct", 3.0),
    "Llama-3.1-8B": ("Meta-Llama-3_1-8B-Instruct", 8.0),
    "Llama-3.1-70B": ("Meta-Llama-3_1-70B-Instruct-AWQ-INT4", 70.0),
}
FINDVER_TASK = "Is the claim below supported or contradicted by the filing? Give your reasoning.\n\nClaim: "
FINANCEBENCH_SETS = (               # the configurations of the paper's table 2, in its order
    "gpt-4-1106-preview_closedBook", "llama2_sharedStore", "gpt-4-1106-preview_sharedStore", "llama2_singleStore",
    "gpt-4-1106-preview_singleStore", "claude-2_inContext_reverse", "gpt-4-1106-preview_inContext_reverse",
    "gpt-4-1106-preview_oracle",
)


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without a byte order mark. InputError when it cannot be read or is not UTF-8."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        hint = "; give a file" if isinstance(error, IsADirectoryError) else ""
        raise InputError(f"{path} cannot be read: {error.strerror or error}{hint}") from None
    mark = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
    try:
        return raw[mark:].decode()
    except UnicodeDecodeError as error:
        at = error.start + mark
        raise InputError(f"{path} is not UTF-8: byte 0x{raw[at]:02x} at offset {at} (line {raw.count(10, 0, at) + 1}); "
                         "save it as UTF-8") from None


def load_triplets(path: str | Path) -> list[Triplet]:
    """Triplets from JSON lines `{id, group, question, reference, context?}`, or from RAGChecker's input JSON.

    Blank lines and unknown keys are ignored. InputError names file and line for anything malformed: a missing key, a
    value that is no string, an empty id or group, an id given twice, a file without rows.
    """
    text = read_text(path)
    if (results := _results(path, text)) is not None:
        return _ragchecker(path, results)[0]
    rows = _rows(path, text, ("id", "group", "question", "reference"), key=("id",), optional="context", named=("group",))
    return [Triplet(**row) for row in rows]


def load_answers(path: str | Path) -> list[Answer]:
    """Answers from JSON lines `{triplet_id, model, answer}`, or from RAGChecker's input JSON (model: the file's stem).

    As strict as `load_triplets`; each (triplet_id, model) may occur once. An empty answer is valid: a refusal.
    """
    text = read_text(path)
    if (results := _results(path, text)) is not None:
        return _ragchecker(path, results)[1]
    return [Answer(**row) for row in _rows(path, text, ("triplet_id", "model", "answer"), key=("triplet_id", "model"))]


def check_join(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> dict[str, list[str]]:
    """The triplets each model left unanswered, `{model: [triplet id, ...]}`; models that answered all are absent.

    InputError when an answer names a triplet that does not exist, or an id or a (triplet_id, model) is repeated.
    """
    ids = [t.id for t in triplets]
    if twice := duplicates(ids):
        raise InputError(f"triplet ids must be unique; {_some(twice)} occur more than once")
    if twice := duplicates([f"{a.triplet_id} by {a.model}" for a in answers]):
        raise InputError(f"each model may answer a triplet once; {_some(twice)} occur more than once")
    if unknown := sorted({a.triplet_id for a in answers} - set(ids)):
        raise InputError(f"{len(unknown)} triplet ids of the answers are not among the {len(ids)} triplets: "
                         f"{_some(unknown)}; known ids look like {_some(ids)}")
    answered: dict[str, set[str]] = {}
    for a in answers:
        answered.setdefault(a.model, set()).add(a.triplet_id)
    return {model: missing for model, done in answered.items() if (missing := [i for i in ids if i not in done])}


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> Path:
    """Write records or mappings as JSON lines: UTF-8, keys in their own order, the whole file or nothing.

    A record's `to_dict()` is used where it has one; a triplet without context leaves the key out. ValueError for nan
    and infinity, which JSON cannot hold; InputError for text that is not Unicode or a place that takes no file.
    """
    lines = [json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
    if broken := [number for number, line in enumerate(lines, 1) if not _encodable(line)]:
        raise InputError(f"{path}: row {broken[0]} holds half a surrogate pair, which UTF-8 cannot; mend the text")
    return write_file(Path(path), "".join(lines).encode())


def _plain(row: Any) -> Any:
    if hasattr(row, "to_dict"):
        return row.to_dict()
    plain = asdict(row) if is_dataclass(row) else row
    return {k: v for k, v in plain.items() if k != "context" or v is not None}


def write_file(path: Path, content: bytes) -> Path:
    """Put `content` at `path` in one step: readers see the old file or the new one, and no fragment stays behind.

    Folders are made. InputError when it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def _encodable(text: str) -> bool:
    return text.isascii() or not re.search("[\ud800-\udfff]", text)


def _some(items: Sequence[str], n: int = 3) -> str:
    return ", ".join(repr(i) for i in items[:n]) + (", ..." if len(items) > n else "")


def _rows(path: str | Path, text: str, required: Sequence[str], key: Sequence[str], optional: str = "",
          named: Sequence[str] = ()) -> list[dict]:
    """The wanted keys of every JSON line, checked; `key` (once only) and `named` must not be empty.

    Lines end at newlines only: U+2028 may stand inside a string.
    """
    rows, first = [], {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            raise InputError(f"{where} is not JSON: {reason}; one object per line is needed") from None
        row = _checked(where, row, required, optional)
        if empty := [k for k in (*key, *named) if not row[k].strip()]:
            raise InputError(f"{where}: {empty[0]!r} is empty; it must name something")
        said = tuple(row[k] for k in key)
        if said in first:
            raise InputError(f"{where}: {' and '.join(key)} {_some(said)} occurred already on line {first[said]}")
        first[said] = number
        rows.append(row)
    if not rows:
        raise InputError(f"{path} is empty; one JSON object per line with {', '.join(required)} is needed")
    return rows


def _checked(where: str, row: Any, required: Sequence[str], optional: str = "") -> dict[str, str]:
    """The required (and the optional) keys of a JSON object, all of them strings."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: an object with {', '.join(required)} is needed, got {type(row).__name__}")
    if missing := [k for k in required if k not in row]:
        raise InputError(f"{where}: {_some(missing)} missing; {', '.join(required)} are needed, got {_some(list(row))}")
    wanted = [*required, optional] if row.get(optional) is not None else required
    for name in wanted:
        value = row[name]
        if not isinstance(value, str):
            raise InputError(f"{where}: {name!r} must be a string, got {type(value).__name__} {str(value)[:40]!r}")
        if not _encodable(value):
            raise InputError(f"{where}: {name!r} holds half a surrogate pair, which is no text; mend it")
    return {name: row[name] for name in wanted}


@dataclass(frozen=True, slots=True)
class CheckedClaims:
    """One row of RAGChecker's output: the claims of both sides and the entailment label of each."""

    query_id: str
    response_claims: tuple[str, ...]
    gt_answer_claims: tuple[str, ...]
    answer2response: tuple[str | None, ...]    # per response claim: does the reference answer entail it?
    response2answer: tuple[str | None, ...]    # per reference claim: does the response entail it?
    metrics: Mapping[str, float]               # RAGChecker's own numbers, as printed there; may be empty


def read_ragchecker_claims(path: str | Path) -> list[CheckedClaims]:
    """The claims and labels of a RAGChecker output JSON. A claim triple becomes one string, its parts spaced.

    Labels are Entailment, Neutral or Contradiction, None where absent. InputError when claims and labels differ in
    number, a label is off the list, or the file is not such an output.
    """
    rows, results = [], _results(path, read_text(path))
    if results is None:
        raise InputError(f"{path} is not RAGChecker JSON: an object with a list 'results' is needed")
    for number, row in enumerate(results):
        where, read = f"{path}, results[{number}]", {}
        query_id = _checked(where, row, ("query_id",))["query_id"]
        for claims, labels in (("response_claims", "answer2response"), ("gt_answer_claims", "response2answer")):
            if not isinstance(row.get(claims), list) or not isinstance(row.get(labels), list):
                raise InputError(f"{where}: lists {claims!r} and {labels!r} are needed; let RAGChecker check first")
            if len(row[claims]) != len(row[labels]):
                raise InputError(f"{where}: one label per claim is needed, got {len(row[labels])} {labels} for "
                                 f"{len(row[claims])} {claims}")
            if off := [label for label in row[labels] if label not in ENTAILMENT]:
                raise InputError(f"{where}: {labels} must be of {', '.join(ENTAILMENT[:3])}, got {off[0]!r}")
            read[claims] = tuple(c if isinstance(c, str) else " ".join(map(str, c)) for c in row[claims])
            read[labels] = tuple(row[labels])
        rows.append(CheckedClaims(query_id, **read, metrics=row.get("metrics") or {}))
    return rows


def _results(path: str | Path, text: str) -> list | None:
    """The rows of RAGChecker's `{"results": [...]}`, None when the text is something else."""
    try:
        whole = json.loads(text) if '"results"' in text else None
    except (ValueError, RecursionError):
        return None
    results = whole.get("results") if isinstance(whole, dict) else None
    if results == []:
        raise InputError(f"{path}: 'results' is empty; RAGChecker's JSON needs at least one row")
    return results if isinstance(results, list) else None


def _ragchecker(path: str | Path, results: list) -> tuple[list[Triplet], list[Answer]]:
    triplets, answers = [], []
    for number, row in enumerate(results):
        where = f"{path}, results[{number}]"
        id_, query, reference, response = _checked(where, row, ("query_id", "query", "gt_answer", "response")).values()
        if not id_.strip():
            raise InputError(f"{where}: 'query_id' is empty; it must name something")
        documents = row.get("retrieved_context") or []
        if not isinstance(documents, list):
            raise InputError(f"{where}: 'retrieved_context' must be a list of objects with 'text', got {str(documents)[:40]!r}")
        context = "\n\n".join(_checked(f"{where}, retrieved_context", d, ("text",))["text"] for d in documents) or None
        triplets.append(Triplet(id_, id_, query, reference, context))
        answers.append(Answer(id_, Path(path).stem, response))
    if twice := duplicates([t.id for t in triplets]):
        raise InputError(f"{path}: query_id must be unique; {_some(twice)} occur more than once")
    return triplets, answers


@dataclass(frozen=True, slots=True)
class Source:
    """A pinned file, found: where it lies, where it came from and whether it is what upstream holds."""

    name: str                 # "<data set>/<path in the repository>"
    path: Path
    origin: str               # "mirror", "cache" or "download"
    sha256: str
    pin: Mapping[str, str]    # its row of data/upstream.csv

    @property
    def provenance(self) -> dict[str, str]:
        """What a manifest records: names, commit and hash, no local path."""
        note = "as upstream" if self.sha256 == self.pin["sha256"] else "differs from upstream"
        return {"name": self.name, "repository": self.pin["repository"], "commit": self.pin["commit"],
                "sha256": self.sha256, "origin": self.origin, "note": note}

    def rows(self) -> Any:
        """The file's JSON; of JSON lines, the list."""
        text = read_text(self.path)
        try:
            lines = [json.loads(x) for x in text.split("\n") if x.strip()] if self.path.suffix == ".jsonl" else None
            return json.loads(text) if lines is None else lines
        except ValueError as error:
            raise InputError(f"{self.path} is not JSON ({error}); fetch it from {self.pin['repository']}") from None


@cache
def pins() -> dict[str, dict[str, str]]:
    """The pinned files by name, from data/upstream.csv."""
    rows = csv.DictReader(read_text(DATA / "upstream.csv").splitlines())
    return {f"{row['dataset']}/{row['path']}": row for row in rows}


def source(name: str, base_url: str | None = None) -> Source:
    """Find a pinned file: in the mirror, then the cache, then at the code host.

    `EMS_DATA_MIRROR` is a folder laid out as `<data set>/<path>`; its files are taken as they are, and one that is not
    upstream's says so in its provenance. The cache (`EMS_CACHE`, by default `~/.cache/ems`) and downloads
    (`base_url`, else `EMS_UPSTREAM_URL`, else the code host) count only when size and SHA-256 are upstream's.
    InputError when the name is not pinned, or nothing has the file.
    """
    if name not in pins():
        raise InputError(f"{name} is not pinned in data/upstream.csv; there are {_some(sorted(pins()))}")
    pin, mirror = pins()[name], os.environ.get("EMS_DATA_MIRROR")
    if mirror and not Path(mirror).is_dir():
        raise InputError(f"EMS_DATA_MIRROR is {mirror!r}, which is no folder; correct it or unset it")
    if mirror and (path := Path(mirror, name)).is_file():
        return Source(name, path, "mirror", _sha256(path.read_bytes()), pin)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = Path(os.environ.get("EMS_CACHE") or Path(caches, "ems")) / pin["repository"] / pin["commit"] / pin["path"]
    if path.is_file() and _sha256(path.read_bytes()) == pin["sha256"]:
        return Source(name, path, "cache", pin["sha256"], pin)
    base = base_url or os.environ.get("EMS_UPSTREAM_URL") or UPSTREAM_URL
    write_file(path, _download(f"{base.rstrip('/')}/{pin['repository']}/{pin['commit']}/{pin['path']}", name, pin))
    return Source(name, path, "download", pin["sha256"], pin)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(url: str, name: str, pin: Mapping[str, str]) -> bytes:
    """The file at `url`, held in memory until its size and hash are upstream's."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen
    size = int(pin["bytes"])
    try:
        with urlopen(url, timeout=30) as reply:
            content = reply.read(size + 1)      # one byte more shows a file that has grown
    except (OSError, HTTPException, ValueError) as error:
        said = f"HTTP {error.code}" if isinstance(error, HTTPError) else getattr(error, "reason", None) or error
        raise InputError(f"{name} is in no mirror and no cache, and fetching {url} failed ({said}); set "
                         "EMS_DATA_MIRROR to a folder that has it, or run once with network access") from None
    if len(content) != size or _sha256(content) != pin["sha256"]:
        came = f"more than {size}" if len(content) > size else len(content)
        raise InputError(f"{url} is not the pinned file: {came} bytes came, {size} with SHA-256 {pin['sha256'][:12]} "
                         "are pinned in data/upstream.csv; nothing was kept")
    return content


def findver(contexts: bool = False) -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """FinDVer's 700 testmini claims with the released chain-of-thought answers of three Llama models (RAG setting).

    Question: the claim under a one-line task. Reference: the experts' explanation. Group: the filing a claim is about.
    Answers: without the chat template's tokens. `contexts` adds the text of those filings (8 of 255) that are pinned.

    The labels have one row per answer: triplet_id, model, size (billions of parameters), subset (ie, numeric,
    knowledge), entailed (bool, the truth), correct (bool: the label extracted upstream from the answer is right),
    correct_without_cot (bool: the same for the answer given without reasoning). `labels.attrs["sources"]` is the
    provenance. InputError when a file is not to be had or the files disagree about a claim.
    """
    import pandas as pd
    sources = [source("findver/data/testmini.json")]
    # the data say ie-val-0 where the outputs say ie-testmini-0
    claims = {row["example_id"].replace("-val-", "-testmini-"): row for row in sources[0].rows()}
    triplets, answers, labels = [], [], []
    for id_, row in claims.items():
        reference = row["explanation"] if "explanation" in row else row["explaination"]    # upstream has both
        filing, context = f"findver/financial_reports/{row['report']}", None
        if contexts and filing in pins():
            context = "\n\n".join(f"[{p['id']}] {p['context']}" for p in source(filing).rows()["context"])
        group = row["report"].removesuffix(".json")
        triplets.append(Triplet(id_, group, FINDVER_TASK + row["statement"], reference, context))
    for model, (stem, size) in FINDVER_MODELS.items():
        cot, direct = (source(f"findver/outputs/testmini_outputs/rag/processed_{kind}_outputs/{stem}.json")
                       for kind in ("cot", "do"))
        sources += [cot, direct]
        bare = {row["example_id"]: row["result"] for row in direct.rows()}
        for row in cot.rows():
            id_ = row["example_id"]
            if id_ not in claims or id_ not in bare or row["statement"] != claims[id_]["statement"]:
                raise InputError(f"{cot.name}: {id_} is not the claim of that id in {sources[0].name}, {direct.name}")
            answers.append(Answer(id_, model, _without_chat_tokens(row["output"][0])))
            labels.append((id_, model, size, row["subset"], row["entailment_label"], row["result"], bare[id_]))
    columns = ["triplet_id", "model", "size", "subset", "entailed", "correct", "correct_without_cot"]
    frame = pd.DataFrame(labels, columns=columns)
    frame.attrs["sources"] = [s.provenance for s in sources]
    return triplets, answers, frame


def _without_chat_tokens(output: str) -> str:
    """The answer without Llama's header, whole or broken off, and without other special tokens."""
    output = re.sub(r"^(?:<\|start_header_id\|>assistant)+", "", output)
    return re.sub(r"<\|[a-z_]+(?:_\d+)?\|>", "", output).strip()


def financebench(sets: Sequence[str] = FINANCEBENCH_SETS) -> tuple[list[Triplet], list[Answer], pd.DataFrame]:
    """FinanceBench's 150 open questions with answers that its authors labelled by hand, one set per configuration.

    Reference: the gold answer of the question file (the result files give the same numbers without their format).
    Group: the company. A model is a configuration such as `llama2_sharedStore`. In upstream's script `_reverse` puts
    the filing before the question, the plain names put the question first.

    The labels have one row per answer: triplet_id, model, llm, setting, label (correct, incorrect, refusal), correct
    (bool), question_type. `pd.crosstab(labels.model, labels.label)` is the paper's table 2 but for one cell: it prints
    126 failures of the closed book, where 131 make 150 and fit its own total. `labels.attrs["sources"]`: provenance.
    """
    import pandas as pd
    sources = [source("financebench/data/financebench_open_source.jsonl")]
    questions = {row["financebench_id"]: row for row in sources[0].rows()}
    answers, labels = [], []
    for name in sets:
        sources.append(source(f"financebench/results/{name}.jsonl"))
        llm, _, setting = name.partition("_")
        for row in sources[-1].rows():
            id_, label = row["financebench_id"], row["label"].split()[0].lower()
            if id_ not in questions or row["question"] != questions[id_]["question"]:
                raise InputError(f"{sources[-1].name}: {id_} is not the question of that id in {sources[0].name}")
            if label not in ("correct", "incorrect", "refusal"):
                raise InputError(f"{sources[-1].name}: {id_}: correct, incorrect or refusal needed, got {label!r}")
            answers.append(Answer(id_, name, str(row["model_answer"]).strip()))     # one answer is the number 0
            labels.append((id_, name, llm, setting, label, label == "correct", questions[id_]["question_type"]))
    frame = pd.DataFrame(labels, columns=["triplet_id", "model", "llm", "setting", "label", "correct", "question_type"])
    frame.attrs["sources"] = [s.provenance for s in sources]
    return [Triplet(i, q["company"], q["question"], q["answer"]) for i, q in questions.items()], answers, frame


def ragchecker_meta() -> pd.DataFrame:
    """RAGChecker's human meta-evaluation: pairs of answers to one query, compared by two annotators each.

    One row per judgement: instance_id, annotator (0 or 1: the instance's first or second row; who it was is not
    recorded), dataset, query, gt_answer, model1, response1, model2, response2; correctness, completeness, overall (the
    preference, -2 .. 2: positive favours response 2); and RAGChecker's own scores of each answer in [0, 1],
    rc_correctness1, rc_completeness1, rc_overall1, rc_correctness2, ... (its precision, recall and F1).
    `attrs["sources"]`: provenance, which says so when a mirror holds only part of a file.
    """
    import pandas as pd
    human, scored = (source(f"ragchecker/data/meta_evaluation/{name}.json")
                     for name in ("human_labeled_data", "baseline_ragchecker"))
    own, seen, rows = {row["instance_id"]: row for row in scored.rows()}, {}, []
    for pair in human.rows():
        id_ = pair["instance_id"]
        if id_ not in own or any(pair[m]["response"] != own[id_][m]["response"] for m in ("model1", "model2")):
            raise InputError(f"{human.name}: instance {id_} is not the pair of that number in {scored.name}")
        seen[id_] = seen.get(id_, -1) + 1
        row = {"instance_id": id_, "annotator": seen[id_], **{k: pair[k] for k in ("dataset", "query", "gt_answer")}}
        for i in "12":
            row |= {f"model{i}": pair[f"model{i}"]["model_name"], f"response{i}": pair[f"model{i}"]["response"]}
        for ask in ("correctness", "completeness", "overall"):
            row[ask] = pair[f"{ask}_label"]
            row |= {f"rc_{ask}{i}": own[id_][f"model{i}"]["ragchecker"][f"{ask}_label"] for i in "12"}
        rows.append(row)
    frame = pd.DataFrame(rows)
    frame.attrs["sources"] = [human.provenance, scored.provenance]
    return frame
