"""`make verify`: every decimal that README and the replication note print, against a run's files.

docs/claims.yaml lists, for each document, words with numbers in them. A claim names rows of a run's
tables and the words that they make; `settings` are words whose numbers no run has, with the reason.
All of these words must stand in the document exactly once, and together they must hold every decimal
of it: a number that is changed, in the text or in the run, is noticed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ems.io import read_text

PROJECT = Path(__file__).resolve().parents[2]
CLAIMS = PROJECT / "docs" / "claims.yaml"
DECIMAL = re.compile(r"\d+\.\d+")
AROUND = 30  # characters shown on either side of a number without a claim


def verify(documents: Mapping[str, Any], run: Path, project: Path = PROJECT) -> tuple[int, list[str]]:
    """How many decimals the documents print, and what is wrong, a line each; no line when all hold."""
    decimals = 0
    problems = []
    for name, claims in documents.items():
        text = " ".join(read_text(project / name).split())
        held: list[tuple[int, int]] = []
        for words in expected_words(claims, run, project, problems):
            times = text.count(words)
            if times == 1:
                start = text.index(words)
                held.append((start, start + len(words)))
            else:
                problems.append(f"{name} says {times} times, not once: {words!r}")
        for number in DECIMAL.finditer(text):
            decimals += 1
            if not any(start <= number.start() and number.end() <= end for start, end in held):
                shown = text[max(0, number.start() - AROUND) : number.end() + AROUND]
                problems.append(f"{name}: no claim holds {number[0]} in {shown!r}")
    return decimals, problems


def expected_words(
    claims: Mapping[str, Any], run: Path, project: Path, problems: list[str]
) -> Iterator[str]:
    """The words of a document's settings and claims; a claim that cannot be made is a problem."""
    for words_of_one_reason in claims.get("settings", {}).values():
        yield from words_of_one_reason
    for claim in claims.get("claims", []):
        for names in claim.get("each", [{}]):
            try:
                yield words_of(claim, names, run, project)
            except (LookupError, OSError, ValueError) as error:
                problems.append(f"{claim['words']!r} with {names}: {error}")


def words_of(claim: Mapping[str, Any], names: Mapping[str, str], run: Path, project: Path) -> str:
    """The words of a claim with the numbers of its rows, for one entry of its `each`.

    ValueError where a query does not find exactly one row.
    """
    rows: dict[str, dict[str, Any]] = {}
    for letter, (file, query) in claim["rows"].items():
        table = read_table(file, run, project)
        found = table.query(query.format(**names))
        if len(found) != 1:
            raise ValueError(f"{file} has {len(found)} rows where {query.format(**names)}, not one")
        rows[letter] = found.iloc[0].to_dict()
    return str(claim["words"]).format(**rows, **names)


def read_table(file: str, run: Path, project: Path) -> pd.DataFrame:
    """A table of the run, or a committed one where the run has none of that name."""
    own = run / file
    return pd.read_csv(own if own.is_file() else project / file)


def main(run: Path) -> int:
    """Print what does not hold, and how many numbers were looked up; returns the exit status."""
    documents = yaml.safe_load(read_text(CLAIMS))
    decimals, problems = verify(documents, run)
    for problem in problems:
        print(problem)
    print(f"{decimals} decimals of {', '.join(documents)}; {len(problems)} problems in {run.name}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(PROJECT / (sys.argv[1] if len(sys.argv) > 1 else "runs/default")))
