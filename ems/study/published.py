"""FinDVer's Table 3 (testmini) computed again from the released answers, beside the printed values."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from ..io import write_csv
from .upstream import source

ANSWERS = "findver/outputs/testmini_outputs/rag/processed_cot_outputs/"


def findver_table3(printed: Path, committed: Path, recompute: bool, save: Path | None = None) -> pd.DataFrame:
    """A row a model and subset: printed and ours (percent right, one decimal), gap, and n claims.

    `printed` has model, file (upstream's name), subset and printed; subset "all" is the table's average, ours
    over all claims. Right is upstream's reading of an answer, in which an answer without a verdict was given
    one at random. From the file `committed`, or from the pinned answers (and written to `save`).
    """
    if not recompute:
        return pd.read_csv(committed)
    frame = pd.read_csv(printed)
    cells = {name: _cells(f"{ANSWERS}{name}.json") for name in frame["file"].unique()}
    ours = [cells[row.file][row.subset] for row in frame.itertuples()]
    frame = frame.assign(ours=[value for value, _ in ours], n=[n for _, n in ours])
    frame["gap"] = (frame["ours"] - frame["printed"]).round(1)
    if save is not None:
        write_csv(save, frame)
    return frame


def _cells(name: str) -> dict[str, tuple[float, int]]:
    """Percent right and claims, by subset and over all."""
    right, total = Counter[str](), Counter[str]()
    for row in source(name).rows():
        for subset in (row["subset"], "all"):
            total[subset] += 1
            right[subset] += bool(row["result"])
    return {subset: (round(100 * right[subset] / n, 1), n) for subset, n in total.items()}


def mismatches(table: pd.DataFrame) -> str:
    """How many cells are as printed, in words, and each that is not."""
    other = table[table["gap"] != 0]
    text = f"{len(table) - len(other)} of {len(table)} cells are as printed."
    named = [f"{row.model} {row.subset}: {row.printed:.1f} printed, {row.ours:.1f} here"
             for row in other.itertuples()]
    return " ".join([text, "The others:", "; ".join(named) + "."]) if named else text
