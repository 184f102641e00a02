"""The tables of FinDVer and FinanceBench, computed again from the answers that their authors released.

`data/paper/related_tables.csv` has a row for each cell: its paper, table, row and column, what is counted
(`measure`), in which released file (several: their sum) and part of it (`subset`), and the printed value,
empty where a figure prints none. What is right is upstream's reading of an answer, or its authors' label.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ...io import read_text
from ...results.display import markdown_text
from ...stats import mean_over
from ...support.retrieve import recall_at
from ...types import InputError
from ..findings.figures import GREY, RED, SERIES, panels, styled
from . import human
from .upstream import FINANCEBENCH_QUESTIONS, FINDVER_CLAIMS, names_verdict, pins, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    found, _ = human.recorded(committed, partial(_computed, cells) if recompute else None, save)
    frame = cells.merge(found, on=KEYS, how="left", validate="one_to_one")
    frame["gap"] = (frame["ours"] - frame["printed"]).round(2)
    return frame


def _computed(cells: pd.DataFrame) -> pd.DataFrame:
    """`KEYS` and `COMPUTED` of the cells whose files are all pinned."""
    read = cache(rows_of)                                       # each file once
    estimates = {i: _estimate(pd.concat([_answers(name, cells.loc[i], read) for name in names]),
                              cells.loc[i, "measure"])
                 for i, names in cells["file"].str.split().items() if set(names) <= pins().keys()}
    table = pd.DataFrame.from_dict(estimates, orient="index").reindex(columns=COMPUTED)
    return cells[KEYS].join(table, how="inner").reset_index(drop=True)


def _answers(name: str, cell: pd.Series, read: Callable[[str], list[dict[str, Any]]]) -> pd.DataFrame:
    """The answers of a released file that a cell counts: group, value in [0, 1] (1 for right), stated.

    A subset of FinanceBench is a label, and a question type after a comma: "correct, novel-generated".
    """
    answers: list[tuple[str, float, bool | None]] = []
    if cell["paper"] == "FinanceBench":
        label, _, kind = cell["subset"].partition(", ")
        questions = {row["financebench_id"]: row for row in read(FINANCEBENCH_QUESTIONS)}
        for row in read(name):
            question, said = questions[row["financebench_id"]], row["label"].split()[0].lower()
            if kind in ("", question["question_type"]):
                answers.append((question["company"], float(said == label), None))
    elif cell["measure"] == "recall":
        relevant = {claim["example_id"]: set(claim["relevant_context"]) for claim in read(FINDVER_CLAIMS)}
        for row in read(name):
            found, group = row["retrieved_context"], Path(row["report"]).stem
            answers.append((group, recall_at(found, relevant[row["example_id"]], len(found)), None))
    else:
        answers += [(Path(row["report"]).stem, float(row["result"]), names_verdict(row["output"][0]))
                    for row in read(name) if cell["subset"] in ("all", row["subset"])]
    return pd.DataFrame(answers, columns=["group", "value", "stated"])


def _estimate(answers: pd.DataFrame, measure: str) -> dict[str, float]:
    """`COMPUTED` of one cell, in its unit."""
    mean, digits = mean_over(answers["value"], answers["group"]), DIGITS[measure]
    unit = len(answers) if measure == "count" else 100
    estimate = {"ours": round(unit * mean.value, digits), "n": len(answers),
                "ci_low": round(unit * mean.ci_low, digits or 1),
                "ci_high": round(unit * mean.ci_high, digits or 1)}
    if answers["stated"].notna().all():
        stated = answers[answers["stated"].astype(bool)]
        estimate |= {"stated": round(len(stated) / len(answers), 3),
                     "ours_stated": round(100 * stated["value"].mean(), 1)}
    return estimate


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
    return other[[*KEYS, "printed", "ours", "gap", "note"]].reset_index(drop=True)


def side_by_side(cells: pd.DataFrame, table: str) -> pd.DataFrame:
    """One table as its paper has it: each column printed and computed, rows and columns in printed order."""
    chosen = cells[cells["table"] == table]
    if chosen.empty:
        known = ", ".join((cells["paper"] + " " + cells["table"]).unique())
        raise InputError(f"no table {table!r}; there are {known}")
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


# --- as a figure ---

@styled
def cells_figure(cells: pd.DataFrame, titles: Mapping[str, str], unit: str, *,
                 guessing: float | None = None) -> Figure:
    """A panel for each table named in `titles`: for every computed cell a dot with its 95 % interval, and a
    cross where its paper prints another value. Columns are colours and markers. `unit` labels the horizontal
    axis, `guessing` is what guessing gives (a dotted line).
    """
    shown = {table: cells[(cells["table"] == table) & cells["ours"].notna()] for table in titles}
    fig, axes = panels(len(titles), 1.9 + 0.55 * max(panel["row"].nunique() for panel in shown.values()))
    for ax, (table, title) in zip(axes, titles.items(), strict=True):
        _draw(ax, shown[table])
        if guessing is not None:
            ax.axvline(guessing, color=GREY, linewidth=0.8, linestyle=":")
        ax.set_title(title, fontsize=13)
        dotted = "" if guessing is None else " (dotted: guessing)"
        ax.set_xlabel(f"{unit}, 95 % interval{dotted}")
    return fig


def _draw(ax: Axes, panel: pd.DataFrame) -> None:
    rows, columns = list(dict.fromkeys(panel["row"])), list(dict.fromkeys(panel["column"]))
    differs = panel["gap"].fillna(0) != 0
    for k, ((colour, marker), column) in enumerate(zip(SERIES, columns, strict=False)):
        cells = panel[panel["column"] == column]
        y = cells["row"].map(rows.index) + 0.22 * (k - (len(columns) - 1) / 2)
        ax.plot([cells["ci_low"], cells["ci_high"]], [y, y], color=colour, linewidth=2.5, alpha=0.6)
        ax.plot(cells["ours"], y, marker, color=colour, markersize=8)
        ax.plot(cells["printed"].where(differs), y, "x", color=RED, markersize=8, markeredgewidth=2, zorder=4)
        ax.plot([], [], marker, color=colour, label=column)
    if differs.any():
        ax.plot([], [], "x", color=RED, markeredgewidth=2, label="printed, where it differs")
    ax.set_yticks(range(len(rows)), [textwrap.fill(row, 20) for row in rows])
    ax.set_xlim(-3, 103)
    ax.invert_yaxis()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=11)
