"""The recorded judgements as a data set in the Croissant format: data/croissant.json.

    python tests/croissant.py            # names each file whose entry differs from it
    python tests/croissant.py --write    # shows the same, and makes the entries anew

The first part of the file, from `@context` to `rai:dataBiases`, is written by hand and is kept.
Made from the files are `distribution` (path, size and SHA-256 of each file), `recordSet` (the
columns of each file) and `datePublished` (the day of the newest reply). The files are all CSV and
JSON-lines files in FOLDERS. The format is that of MLCommons, http://mlcommons.org/croissant/1.0.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

DATA = Path(__file__).resolve().parent.parent / "data"
FILE = DATA / "croissant.json"
FOLDERS = ("human", "q3-2024", "versions")
FORMATS = {".jsonl": "application/jsonlines", ".csv": "text/csv", ".gz": "text/csv"}
# The descriptions of files: the first pattern that a name fits counts.
KINDS = {
    "(replies|readings)[.]jsonl": "Replies of a judge or of a system, a row each, without prompts.",
    "answers[.]jsonl": "Answers to the questions.",
    "references[.]jsonl": "Reference answers in prose.",
    "triplets[.]jsonl": "Questions with reference answers.",
    "labels[.]csv": "Labels, most of them by people: a row for each answer, claim or pair.",
    "scores[.]csv": "Scores: a row for each answer, claim or pair, a column for each metric.",
    "values[.]csv[.]gz": "Every value of the default run: a row for each metric, part and answer.",
    "related_tables[.]csv": "Cells of tables that are printed in papers, counted again.",
    "bodies[.]csv": "Which part of a text was cut into points, by the text's hash.",
    "(judged|support_[a-z]+)[.]csv": "Labels by a judge: a row for each point or claim.",
    "": "Rows of the study; data/README.md and data/human/README.md describe them.",
}
COLUMNS = {
    "key": "SHA-256 of the request: model, prompt, schema, settings and length limit.",
    "task": "What was asked, such as extract, match, score, coverage or judge.",
    "model": "Which model replied, or wrote the answer.",
    "text": "The reply, word for word.",
    "finish_reason": "Why the reply ended; stop is the regular end.",
    "date": "When the reply was imported, or the answer was made.",
    "seconds": "How long the reply took; 0 where it was not measured.",
    "prompt_tokens": "Tokens of the prompt; 0 where they were not counted.",
    "completion_tokens": "Tokens of the reply; 0 where they were not counted.",
    "cached_tokens": "Tokens of the prompt that the endpoint had in its cache.",
    "triplet_id": "Which question, pair or claim.",
    "instance_id": "Which pair.",
    "group": "The company, filing or call; intervals resample these.",
    "reason": "Why there is no value.",
}


def files() -> list[Path]:
    """The files of the data set."""
    found = []
    for folder in FOLDERS:
        found += [path for path in (DATA / folder).iterdir() if path.suffix in FORMATS]
    return sorted(found)


def described() -> dict[str, Any]:
    """The whole description, with the entries of the files as the files are now."""
    description: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    description["datePublished"] = newest_reply()
    description["distribution"] = [file_object(path) for path in files()]
    description["recordSet"] = [record_set(path) for path in files()]
    return description


def newest_reply() -> str:
    """The last day on which a reply was recorded: "2026-11-24"."""
    days = []
    for path in files():
        if path.suffix == ".jsonl":
            days += [row["date"][:10] for row in rows_of(path) if "date" in row]
    return max(days)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def file_object(path: Path) -> dict[str, Any]:
    name = path.relative_to(DATA).as_posix()
    content = path.read_bytes()
    kind = next(text for pattern, text in KINDS.items() if re.search(f"{pattern}$", name))
    return {
        "@type": "cr:FileObject",
        "@id": f"files/{name}",
        "name": name,
        "description": kind,
        "contentUrl": name,
        "contentSize": f"{len(content)} B",
        "encodingFormat": FORMATS[path.suffix],
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def record_set(path: Path) -> dict[str, Any]:
    """A row of the file is a record. Columns that hold objects (`sent`) are left out."""
    name = path.relative_to(DATA).as_posix()
    table = pd.DataFrame(rows_of(path)) if path.suffix == ".jsonl" else pd.read_csv(path)
    fields = []
    for column in table:
        if not table[column].map(type).isin([dict, list]).any():
            fields.append(field(name, column, data_type(column, table[column])))
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


def field(name: str, column: str, data_type: str) -> dict[str, Any]:
    entry = {
        "@type": "cr:Field",
        "@id": f"{name}/{re.sub('[^A-Za-z0-9.-]+', '_', column)}",
        "name": column,
        "dataType": data_type,
        "source": {"fileObject": {"@id": f"files/{name}"}, "extract": {"column": column}},
    }
    if column in COLUMNS:
        entry["description"] = COLUMNS[column]
    return entry


def data_type(column: str, values: pd.Series) -> str:
    if column == "date":
        return "sc:DateTime"
    if pd.api.types.is_bool_dtype(values):
        return "sc:Boolean"
    if pd.api.types.is_integer_dtype(values):
        return "sc:Integer"
    return "sc:Float" if pd.api.types.is_float_dtype(values) else "sc:Text"


def text_of(value: Any, depth: int = 0, width: int = 100) -> str:
    """JSON in which what fits into a line, and each field, stands on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    is_field = isinstance(value, dict) and value.get("@type") == "cr:Field"
    if is_field or len(flat) + depth <= width or not isinstance(value, (dict, list)):
        return flat
    inner = "\n" + " " * (depth + 1)
    if isinstance(value, list):
        parts = [text_of(item, depth + 1) for item in value]
        return "[" + inner + f",{inner}".join(parts) + "\n" + " " * depth + "]"
    parts = [f"{json.dumps(key)}: {text_of(item, depth + 1)}" for key, item in value.items()]
    return "{" + inner + f",{inner}".join(parts) + "\n" + " " * depth + "}"


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The names of the files whose entries differ, and of other parts that do."""
    names = set()
    for part in ("distribution", "recordSet"):
        before = {entry["name"]: entry for entry in old.get(part, [])}
        after = {entry["name"]: entry for entry in new[part]}
        for name in before.keys() | after.keys():
            if before.get(name) != after.get(name):
                names.add(name)
    if old.get("datePublished") != new["datePublished"]:
        names.add("datePublished")
    return sorted(names)


def main(arguments: Sequence[str]) -> None:
    if arguments not in ([], ["--write"]):
        sys.exit("usage: python tests/croissant.py [--write]")
    old = json.loads(FILE.read_text(encoding="utf-8"))
    new = described()
    changed = changes(old, new)
    print(*changed, f"{len(changed)} entries of {FILE.name} differ from the files", sep="\n")
    if arguments:
        FILE.write_text(text_of(new) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
