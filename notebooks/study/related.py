"""The tables of FinDVer and FinanceBench, counted again from the released answers.

`data/paper/related_tables.csv` has a row for each cell: its paper, table, row and column, what is
counted (`measure`) in which released files (`file`) and which part of them (`subset`), the printed
value, and a note. The files of a cell are counted together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from ems.analysis.findings import series
from ems.analysis.stats import mean_over
from ems.io import read_text

from . import upstream, write_csv
from .datasets import FINANCEBENCH_QUESTIONS, FINDVER_CLAIMS

CELL_KEYS = ["paper", "table", "row", "column"]
# By measure. The last three are measures of lists, and have the names of trec_eval beside them.
PRINTED_DECIMALS = {"accuracy": 1, "percent": 0, "count": 0, "recall": 2, "MAP": 2, "MRR": 2}
LIST_MEASURES = {"recall": "recall_10", "MAP": "map_cut_10", "MRR": "recip_rank"}


def tables(printed: Path, stored: Path, recompute: bool = False) -> pd.DataFrame:
    """The printed cells beside what the released files give: ours, its 95 % interval, n, and gap.

    The gap is ours minus printed. Ours are read from `stored`, or with `recompute` counted from the
    files and written there; nan where a released file is not pinned.
    """
    read_text(printed)  # InputError where it cannot be read
    cells = pd.read_csv(printed, keep_default_na=False, na_values={"printed": ""})
    if recompute:
        write_csv(stored, counted(cells))
    frame = cells.merge(pd.read_csv(stored), on=CELL_KEYS, how="left", validate="one_to_one")
    return frame.assign(gap=(frame["ours"] - frame["printed"]).round(2))


def counted(cells: pd.DataFrame) -> pd.DataFrame:
    """`CELL_KEYS`, ours, ci_low, ci_high and n of the cells whose files are all pinned."""
    rows_of_file = cache(upstream.pinned_rows)  # each file is read once
    rows = []
    for cell in cells.itertuples(index=False):
        files = cell.file.split()
        if not all(file in upstream.pins() for file in files):
            continue
        groups, values = zip(*counted_answers(files, cell, rows_of_file), strict=True)
        row = {key: getattr(cell, key) for key in CELL_KEYS}
        rows.append({**row, **estimate(values, groups, cell.measure)})
    return pd.DataFrame(rows)


def counted_answers(
    files: Iterable[str], cell: Any, rows_of_file: Callable[[str], Any]
) -> Iterator[tuple[str, float]]:
    """The answers that a cell counts: group, and value in [0, 1] (1 = right).

    A subset of FinanceBench is a label, and a question type after a comma: "correct,
    novel-generated"; its value is 1 where the answer has the label.
    """
    rows = chain.from_iterable(map(rows_of_file, files))
    if cell.paper == "FinanceBench":
        label, _, kind = cell.subset.partition(", ")
        questions = {q["financebench_id"]: q for q in rows_of_file(FINANCEBENCH_QUESTIONS)}
        for row in rows:
            question = questions[row["financebench_id"]]
            if kind in ("", question["question_type"]):
                has_label = row["label"].split()[0].lower() == label
                yield question["company"], float(has_label)
    elif cell.measure in LIST_MEASURES:
        yield from _retrieved(rows, rows_of_file(FINDVER_CLAIMS), cell)
    else:
        for row in rows:
            if cell.subset in ("all", row["subset"]):
                yield row["report"], float(row["result"])


def _retrieved(
    rows: Iterable[Any], claims: Iterable[Any], cell: Any
) -> Iterator[tuple[str, float]]:
    """The claims whose relevant paragraphs a retriever looked for: filing, and value in [0, 1].

    The released lists are in the order of the filing, not by rank. Each longer list contains the
    shorter ones, so a paragraph ranks by the number of lists that have it. Among equals, the subset
    "lowest" puts the relevant paragraphs last, and "highest" first.
    """
    import pytrec_eval  # counts again only

    relevant = {}
    for claim in claims:
        relevant[claim["example_id"]] = dict.fromkeys(map(str, claim["relevant_context"]), 1)
    filings = {}
    ranking: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        filings[row["example_id"]] = row["report"]
        ranking[row["example_id"]].update(map(str, row["retrieved_context"]))
    for claim, lists in ranking.items():
        ties = 0.5 if cell.subset == "highest" else -0.5
        lists.update(dict.fromkeys(lists.keys() & relevant[claim].keys(), ties))
    measure = LIST_MEASURES[cell.measure]
    found = pytrec_eval.RelevanceEvaluator(relevant, {measure}).evaluate(ranking)
    for claim, values in found.items():
        yield filings[claim], values[measure]


def estimate(values: Sequence[float], groups: Sequence[str], measure: str) -> dict[str, float]:
    """Mean over answers with its t interval over groups, in percent, or as a count of answers."""
    mean = mean_over(values, groups)
    unit = len(values) if measure == "count" else 100
    decimals = PRINTED_DECIMALS[measure]
    return {
        "ours": round(unit * mean.value, decimals),
        "ci_low": round(unit * mean.ci_low, decimals or 1),
        "ci_high": round(unit * mean.ci_high, decimals or 1),
        "n": len(values),
    }


def compared(cells: pd.DataFrame) -> pd.DataFrame:
    """A row per paper and table: how many cells are printed, could be counted, and are equal."""
    printed = cells.dropna(subset="printed")
    return printed.groupby(["paper", "table"], sort=False).agg(
        printed=("printed", "size"),
        counted=("ours", "count"),
        equal=("gap", lambda gaps: (gaps == 0).sum()),
    )


def cell_findings(cells: pd.DataFrame) -> list[str]:
    """A sentence for each paper: how many printed cells come out; tables of which none does."""
    sentences = []
    for paper, rows in compared(cells).groupby("paper", sort=False):
        counts = rows.sum()
        sentence = (
            f"{paper} prints {counts['printed']} cells in these tables; {counts['counted']} can be "
            f"counted from the released files, and {counts['equal']} of these are equal."
        )
        none = [table for _, table in rows.index[rows["equal"] == 0]]
        if none:
            sentence += f" No cell is equal in {series(none)}."
        sentences.append(sentence)
    return sentences
