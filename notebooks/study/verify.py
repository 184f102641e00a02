"""`make verify`: every decimal that README and the replication note print, against a run's files.

docs/claims.yaml lists, for each document, words with numbers in them. A claim names rows of a
run's tables and the words that they make; `settings` are words whose numbers no run has, with the
reason. All of these words must stand in the document exactly once, and together they must hold
every decimal of it: a number that is changed, in the document or in the run, is noticed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ems.io import parse_yaml, read_text

from . import ROOT

_DECIMAL = re.compile(r"\d+\.\d+")
_CONTEXT = 30  # characters shown on either side of a number that no claim holds


def verify(run: Path, project: Path = ROOT) -> tuple[int, list[str]]:
    """The number of decimals that the documents print, and a line for each thing that is wrong."""
    n_decimals = 0
    problems = []
    for document, claims in claims_of(project).items():
        text = text_of(project / document)
        words, missing = expected_words(claims, run)
        n_decimals += len(_DECIMAL.findall(text))
        for problem in [*missing, *problems_of(text, words)]:
            problems.append(f"{document}: {problem}")
    return n_decimals, problems


def claims_of(project: Path) -> dict[str, Any]:
    """The claims of each document, by its path: docs/claims.yaml."""
    path = project / "docs" / "claims.yaml"
    claims: dict[str, Any] = parse_yaml(read_text(path), path)
    return claims


def text_of(document: Path) -> str:
    """The text of a document, with one space for a line break or any other white space."""
    return " ".join(read_text(document).split())


def expected_words(claims: Mapping[str, Any], run: Path) -> tuple[list[str], list[str]]:
    """The words that a document must have, and a line for each claim that cannot be looked up."""
    words = []
    problems = []
    for words_of_one_reason in claims.get("settings", {}).values():
        words += words_of_one_reason
    for claim in claims.get("claims", []):
        for names in claim.get("each", [{}]):
            try:
                words.append(_words_of(claim, names, run))
            except (LookupError, OSError, ValueError) as error:
                problems.append(f"{claim['words']!r} with {names}: {error}")
    return words, problems


def _words_of(claim: Mapping[str, Any], names: Mapping[str, str], run: Path) -> str:
    """The words of a claim with the numbers of its rows, for one entry of its `each`.

    ValueError where a query does not find exactly one row.
    """
    rows: dict[str, dict[str, Any]] = {}
    for letter, (file, template) in claim["rows"].items():
        query = template.format(**names)
        table = pd.read_csv(run / file).query(query)
        if len(table) != 1:
            raise ValueError(f"{file} has {len(table)} rows where {query}, not one")
        rows[letter] = table.iloc[0].to_dict()
    return str(claim["words"]).format(**rows, **names)


def problems_of(text: str, words: Sequence[str]) -> list[str]:
    """A line for words that do not stand in the text once; else for each decimal outside all words.

    Words that are missing leave their decimals outside all words; these are not listed as well.
    """
    problems = []
    spans = []
    for phrase in words:
        times = text.count(phrase)
        if times != 1:
            problems.append(f"these words stand there {times} times, not once: {phrase!r}")
        start = text.find(phrase)
        spans.append((start, start + len(phrase)))
    if problems:
        return problems
    for number in _DECIMAL.finditer(text):
        if not any(start <= number.start() and number.end() <= end for start, end in spans):
            context = text[max(0, number.start() - _CONTEXT) : number.end() + _CONTEXT]
            problems.append(f"no claim holds {number[0]} in {context!r}")
    return problems


def main(run: Path, project: Path = ROOT) -> int:
    """Print what does not hold, and how many decimals were looked at; returns the exit status."""
    n_decimals, problems = verify(run, project)
    for problem in problems:
        print(problem)
    print(f"{n_decimals} decimals of the documentation, {len(problems)} problems; run {run.name}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(ROOT / (sys.argv[1] if len(sys.argv) > 1 else "runs/default")))
