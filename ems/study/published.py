"""The tables of FinDVer and FinanceBench, computed again from the answers that their authors released.

`data/paper/related_tables.csv` has a row for each cell: its paper, table, row and column, what is counted
(`measure`), in which released file (several: their sum) and part of it (`subset`), and the printed value,
empty where a figure prints none. What is right is upstream's reading of an answer, or its authors' label.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ..data import read_frames
from ..io import read_text, write_csv
from ..report import markdown_text
from ..stats import mean_over
from ..support.retrieve import recall_at
from ..types import InputError
from .upstream import names_verdict, pins, source

KEYS = ["paper", "table", "row", "column"]
COMPUTED = ["ours", "ci_low", "ci_high", "n", "stated", "ours_stated"]
DIGITS = {"accuracy": 1, "recall": 2, "percent": 0, "count": 0}      # by measure, as printed
HALF = 0.5                 # share of answers that name a verdict below which a cell is called out


def tables(printed: Path, committed: Path, recompute: bool, save: Path | None = None) -> pd.DataFrame:
    """The cells of `printed` with what the released files give, from `committed` or computed from them.

    Further columns: ours (rounded as printed), its 95 % interval over filings or companies in the same unit,
    n (answers), gap (ours less printed), and for FinDVer's accuracies `stated` (share of answers that name a
    verdict) and `ours_stated` (percent right of these). `ours` is nan where a released file is not pinned.
    `save` names a file to write them to.
    """
    cells = pd.read_csv(io.StringIO(read_text(printed)), keep_default_na=False, na_values={"printed": ""})
    if unknown := sorted(set(cells["measure"]) - DIGITS.keys()):
        raise InputError(f"{printed}: measure must be one of {', '.join(DIGITS)}, got {unknown[0]!r}")
    found = _computed(cells) if recompute else read_frames(committed)
    if save is not None:
        write_csv(save, found)
    frame = cells.merge(found, on=KEYS, how="left", validate="one_to_one")
    frame["gap"] = (frame["ours"] - frame["printed"]).round(2)
    return frame


def _computed(cells: pd.DataFrame) -> pd.DataFrame:
    """`KEYS` and `COMPUTED` of the cells whose files are all pinned."""
    released = _Released()
    answers = {i: released.answers(cell) for i, cell in cells.to_dict("index").items()
               if _is_pinned(cell["file"])}
    estimates = pd.DataFrame.from_dict(_estimates(answers, cells["measure"]), orient="index")
    return cells[KEYS].join(estimates.reindex(columns=COMPUTED), how="inner").reset_index(drop=True)


# --- the released files ---

def _is_pinned(files: str) -> bool:
    return all(name in pins() for name in files.split())


class _Released:
    """What the released files say of each answer; each file is read once."""

    def __init__(self) -> None:
        self.verdicts, self.relevant, self.questions = cache(_verdicts), cache(_relevant), cache(_questions)

    def answers(self, cell: dict[str, Any]) -> pd.DataFrame:
        """The answers that a cell counts: group, value in [0, 1] (1 for right), stated (bool or None)."""
        read = (self._labelled if cell["paper"] == "FinanceBench" else
                self._retrieved if cell["measure"] == "recall" else self._judged)
        return pd.concat([read(name, cell["subset"]) for name in cell["file"].split()])

    def _judged(self, name: str, subset: str) -> pd.DataFrame:
        frame = self.verdicts(name)
        return frame if subset == "all" else frame[frame["subset"] == subset]

    def _retrieved(self, name: str, _: str) -> pd.DataFrame:
        return pd.DataFrame([{"group": Path(row["report"]).stem, "stated": None,
                              "value": recall_at(row["retrieved_context"], self.relevant()[row["example_id"]],
                                                 len(row["retrieved_context"]))}
                             for row in source(name).rows()])

    def _labelled(self, name: str, subset: str) -> pd.DataFrame:
        """`subset` is a label, and a question type after a comma: "correct, novel-generated"."""
        label, _, kind = subset.partition(", ")
        rows = [(self.questions()[row["financebench_id"]], row["label"].split()[0].lower())
                for row in source(name).rows()]
        return pd.DataFrame([{"group": question["company"], "stated": None, "value": float(said == label)}
                             for question, said in rows if kind in ("", question["question_type"])])


def _verdicts(name: str) -> pd.DataFrame:
    return pd.DataFrame([{"group": Path(row["report"]).stem, "subset": row["subset"],
                          "value": float(row["result"]), "stated": names_verdict(row["output"][0])}
                         for row in source(name).rows()])


def _relevant() -> dict[str, set[int]]:
    """The passages that FinDVer's experts named, by claim."""
    claims = source("findver/data/testmini.json").rows()
    return {claim["example_id"]: set(claim["relevant_context"]) for claim in claims}


def _questions() -> dict[str, Any]:
    rows = source("financebench/data/financebench_open_source.jsonl").rows()
    return {row["financebench_id"]: row for row in rows}


# --- values and intervals ---

def _estimates(answers: dict[int, pd.DataFrame], measures: pd.Series) -> dict[int, dict[str, float]]:
    """By cell: ours, ci_low, ci_high, n, stated, ours_stated."""
    estimates = {}
    for i, frame in answers.items():
        mean, measure = mean_over(frame["value"], frame["group"]), measures[i]
        unit = len(frame) if measure == "count" else 100
        digits = DIGITS[measure]
        estimates[i] = {"ours": round(unit * mean.value, digits), "n": len(frame),
                        "ci_low": round(unit * mean.ci_low, digits or 1),
                        "ci_high": round(unit * mean.ci_high, digits or 1)}
        if frame["stated"].notna().all():
            stated = frame[frame["stated"].astype(bool)]
            estimates[i] |= {"stated": round(len(stated) / len(frame), 3),
                             "ours_stated": round(100 * stated["value"].mean(), 1)}
    return estimates


# --- in words ---

def compared(cells: pd.DataFrame) -> pd.DataFrame:
    """A row a paper and table: printed cells, how many could be computed, and how many of these are equal."""
    known = cells[cells["printed"].notna()]
    return known.groupby(["paper", "table"], sort=False).agg(
        printed=("printed", "size"), computed=("ours", "count"),
        equal=("gap", lambda gaps: int((gaps == 0).sum()))).reset_index()


def mismatches(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells that are not as printed, with the reason as far as one is known."""
    other = cells[cells["gap"].notna() & (cells["gap"] != 0)]
    columns = ["paper", "table", "row", "column", "printed", "ours", "gap", "note"]
    return other[columns].reset_index(drop=True)


def side_by_side(cells: pd.DataFrame, table: str, paper: str = "") -> pd.DataFrame:
    """One table as its paper has it: each column printed and computed, rows and columns in printed order."""
    chosen = cells[(cells["table"] == table) & (cells["paper"] == paper if paper else True)]
    if chosen.empty:
        known = ", ".join((cells["paper"] + " " + cells["table"]).unique())
        raise InputError(f"no table {f'{paper} {table}'.strip()!r}; there are {known}")
    columns = list(dict.fromkeys(chosen["column"]))
    wide = chosen.pivot_table(index="row", columns="column", values=["printed", "ours"], sort=False)
    return wide.reorder_levels([1, 0], axis=1).reindex(
        columns=[(column, kind) for column in columns for kind in ("printed", "ours")
                 if (kind, column) in wide.columns])


def findings(cells: pd.DataFrame) -> str:
    """What came out as printed and what did not, in Markdown; every number is computed from `cells`."""
    equal = ", ".join(f"{row.paper} {row.table} {row.equal} of {row.computed}"
                      for row in compared(cells).itertuples() if row.computed)
    quoted = int((cells["printed"].notna() & cells["ours"].isna()).sum())
    first = (f"**Cells as printed**, of those that can be computed here: {equal}. Every other one is named "
             f"below. {quoted} accuracies of FinDVer's Table 4 are quoted only: the answers behind them are "
             "released, but not pinned here.")
    parts = [first, _recall_text(cells), _verdict_text(cells), _order_text(cells)]
    return "\n".join(f"- {part}" for part in parts)


def _recall_text(cells: pd.DataFrame) -> str:
    recall = cells[cells["measure"] == "recall"]
    ours, printed = (f"{recall[kind].min():.1f} to {recall[kind].max():.1f} %"
                     for kind in ("ours", "printed"))
    return (f"**FinDVer's retrieval recall cannot be reproduced**: {int((recall['gap'] == 0).sum())} of "
            f"{len(recall)} cells. The released lists give {ours}, printed are {printed}. We counted it as "
            "the mean over claims, pooled, and as claims with all or with any passage found: none gives "
            "the printed values.")


def _verdict_text(cells: pd.DataFrame) -> str:
    mute = cells[(cells["table"] == "Figure 3") & (cells["stated"] < HALF)]
    named = "; ".join(f"{markdown_text(row.row)}, {row.column} ({100 * row.stated:.0f} % of the answers)"
                      for row in mute.itertuples())
    return ("**Answers without a verdict.** Where no verdict could be read, upstream drew one at random, "
            "and the released files do not say where. Fewer than half of the answers in Figure 3 name one "
            f"for {named or 'no model'}: near 50 % right says little about reading there. The column "
            "`stated` has the share for each cell, `ours_stated` the accuracy of the answers that name one.")


def _order_text(cells: pd.DataFrame) -> str:
    right = cells[cells["table"] == "Figure 2"].set_index(["row", "column"])["ours"]

    def against(row: str) -> str:
        first, last = (right[row, column] for column in ("context first", "question first"))
        return f"{first:.0f} % against {last:.0f} %"

    return ("**FinanceBench's prompt order.** Its released notebook puts the context first in both "
            "`_reverse` modes. Read so, GPT-4-Turbo is right more often with the context first, with the "
            f"whole filing ({against('GPT-4-Turbo, long context')}) and with the evidence pages "
            f"({against('GPT-4-Turbo, oracle')}); GPT-4 with the evidence pages is not "
            f"({against('GPT-4, oracle')}). The paper's text reads the evidence file the other way round "
            "and concludes the opposite for it; its appendix prints the two templates under each other's "
            "name.")
