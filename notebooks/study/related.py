"""The tables of FinDVer and FinanceBench, counted again from the answers that their authors released.

`data/paper/related_tables.csv` has a row for each cell: its paper, table, row and column, what is counted
(`measure`) in which released files (`file`) and which part of them (`subset`), the printed value, a note.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ems.analysis.stats import mean_over
from ems.io import read_text, write_csv

from . import datasets

KEYS = ["paper", "table", "row", "column"]
DIGITS = {"accuracy": 1, "recall": 2, "percent": 0, "count": 0}  # by measure, as printed


def tables(printed: Path, stored: Path, recompute: bool = False) -> pd.DataFrame:
    """The printed cells beside what the released files give: ours, its 95 % interval, n, and gap.

    The gap is ours less printed. Ours are read from `stored`, or counted from the files and written there;
    nan where a released file is not pinned.
    """
    read_text(printed)  # InputError where it cannot be read
    cells = pd.read_csv(printed, keep_default_na=False, na_values={"printed": ""})
    if recompute:
        write_csv(stored, counted(cells))
    frame = cells.merge(pd.read_csv(stored), on=KEYS, how="left", validate="one_to_one")
    return frame.assign(gap=(frame["ours"] - frame["printed"]).round(2))


def counted(cells: pd.DataFrame) -> pd.DataFrame:
    """`KEYS`, ours, ci_low, ci_high and n of the cells whose files are all pinned."""
    read = cache(datasets.rows_of)  # each file once
    rows = []
    for cell in cells.itertuples(index=False):
        files = cell.file.split()
        if set(files) <= set(datasets.pins()):
            answers = [answer for file in files for answer in answers_of(file, cell, read)]
            rows.append(
                {**{key: getattr(cell, key) for key in KEYS}, **estimate(answers, cell.measure)}
            )
    return pd.DataFrame(rows)


def answers_of(file: str, cell: Any, read: Callable[[str], Any]) -> list[tuple[str, float]]:
    """The answers of a released file that a cell counts: group, and a value in [0, 1] (1 for right).

    A subset of FinanceBench is a label, and a question type after a comma: "correct, novel-generated".
    """
    if cell.paper == "FinanceBench":
        label, _, kind = cell.subset.partition(", ")
        questions = {q["financebench_id"]: q for q in read(datasets.FINANCEBENCH_QUESTIONS)}
        asked = [
            (questions[row["financebench_id"]], row["label"].split()[0].lower())
            for row in read(file)
        ]
        return [
            (question["company"], float(said == label))
            for question, said in asked
            if kind in ("", question["question_type"])
        ]
    if cell.measure == "recall":
        relevant = {
            c["example_id"]: set(c["relevant_context"]) for c in read(datasets.FINDVER_CLAIMS)
        }
        return [
            (row["report"], recall(row["retrieved_context"], relevant[row["example_id"]]))
            for row in read(file)
        ]
    return [
        (row["report"], float(row["result"]))
        for row in read(file)
        if cell.subset in ("all", row["subset"])
    ]


def recall(found: list[int], relevant: set[int]) -> float:
    """Share of the relevant passages that are among those found."""
    return len(relevant & set(found)) / len(relevant)


def estimate(answers: list[tuple[str, float]], measure: str) -> dict[str, float]:
    """Mean over answers with its t interval over groups, in the unit of the measure (percent, or a count)."""
    groups, values = zip(*answers, strict=True)
    mean = mean_over(values, groups)
    unit, digits = (len(answers) if measure == "count" else 100), DIGITS[measure]
    return {
        "ours": round(unit * mean.value, digits),
        "ci_low": round(unit * mean.ci_low, digits or 1),
        "ci_high": round(unit * mean.ci_high, digits or 1),
        "n": len(answers),
    }


def compared(cells: pd.DataFrame) -> pd.DataFrame:
    """A row a paper and table: printed cells, how many could be counted, and how many of these are equal."""
    known = cells[cells["printed"].notna()]
    return known.groupby(["paper", "table"], sort=False).agg(
        printed=("printed", "size"),
        counted=("ours", "count"),
        equal=("gap", lambda gaps: (gaps == 0).sum()),
    )
