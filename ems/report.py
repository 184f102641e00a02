"""Table 1 as CSV, Markdown and LaTeX. Names from outside are harmless in each."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .io import csv_text, write_file
from .results.display import latex_text, markdown_text, percent, visible, with_interval
from .stats import COLUMNS, MIN_CLUSTERS, by_size, paper_order
from .types import InputError

PAPER = "paper: "              # starts the name of a column with the paper's values
# metrics that ask the document
SUPPORT = {"EMS-Support", "EMS-open", "EMS-Support(LLM)", "EMS-open(LLM)"}
AGREEMENT = "people"           # name of the column with the agreement with people


def table1(summary: pd.DataFrame, paper: pd.DataFrame | None = None,
           models: Sequence[str] | None = None, people: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 1 for display, from `stats.summarise`: a row per metric and part, a column per model.

    A cell reads "0.412 [0.371, 0.455] †": value, 95 % interval, flagged. A model that `paper` (columns
    metric, part, model, value) has as well gets a second column: the paper's value, our gap to it, and
    whether it lies in our interval. `n` and `coverage` stand once where the models agree. `models`, by
    default `by_size`, are the columns; InputError for one that the summary does not have. `people` (columns
    metric, part, value, ci_low, ci_high) adds how far each metric agrees with people elsewhere.
    """
    models = sorted(summary["model"].unique(), key=by_size) if models is None else list(models)
    if strange := [m for m in models if m not in set(summary["model"])]:
        raise InputError(
            f"no model {strange[0]!r} in the summary; there are {sorted(summary['model'].unique())}")
    cells = {(r.metric, r.part, r.model): r for r in summary.itertuples(index=False)}
    printed = {} if paper is None else paper.set_index(["metric", "part", "model"])["value"].to_dict()
    in_paper = {model for _, _, model in printed}
    agreeing = {} if people is None else {(r.metric, r.part): r for r in people.itertuples(index=False)}
    rows = []
    for metric, part in paper_order(summary[["metric", "part"]].drop_duplicates()).to_numpy():
        row = {"metric": metric, "part": part}
        ours = [cells.get((metric, part, model)) for model in models]
        for model, cell in zip(models, ours, strict=True):
            row[model] = _cell(cell)
            if model in in_paper:
                row[f"{PAPER}{model}"] = _paper_cell(cell, printed.get((metric, part, model)))
        row["n"] = _agreed([str(c.n) if c else "–" for c in ours])
        row["coverage"] = _agreed([percent(c.coverage) if c else "–" for c in ours])
        if people is not None:
            row[AGREEMENT] = with_interval(agreeing.get((metric, part)), 2)
        rows.append(row)
    return pd.DataFrame(rows)


def _cell(cell: Any) -> str:
    shown = with_interval(cell)
    return shown if shown == "–" or not cell.flagged else f"{shown} †"


def _paper_cell(cell: Any, printed: float | None) -> str:
    if cell is None or printed is None or math.isnan(cell.value):
        return "–" if printed is None else f"{printed:.2f}"
    verdict = ("no interval" if math.isnan(cell.ci_low)
               else "in" if cell.ci_low <= printed <= cell.ci_high else "out")
    gap = round(cell.value - printed, 3) + 0.0           # + 0.0: never "-0.000"
    return f"{printed:.2f} ({gap:+.3f}, {verdict})"


def _agreed(entries: list[str]) -> str:
    return entries[0] if len(set(entries)) == 1 else " / ".join(entries)


def save_table1(summary: pd.DataFrame, folder: str | os.PathLike[str], paper: pd.DataFrame | None = None, *,
                absent: Mapping[str, str] | None = None, models: Sequence[str] | None = None,
                people: pd.DataFrame | None = None, about_people: str = "") -> list[Path]:
    """Write table1.csv (tidy, six decimals), table1.md and table1.tex (booktabs) into `folder`.

    `absent` maps a metric without rows to the reason, listed under the table; `people` is `table1`'s, for the
    last two files, and `about_people` says under the table what it is. Names are harmless in each format.
    """
    table, ordered = table1(summary, paper, models, people), paper_order(summary)
    notes = _notes(table, summary, absent or {}) + [f"{AGREEMENT}: {about_people}"] * bool(about_people)
    settings = _settings(ordered)
    names = ordered[["metric", "part", "model", "signature"]].map(visible)
    tidy = ordered.assign(**names)[list(COLUMNS)].round(6)
    files = {"table1.csv": csv_text(tidy), "table1.md": _markdown(table, notes, settings),
             "table1.tex": _latex(table, notes, settings)}
    return [write_file(Path(folder, name), text.encode()) for name, text in files.items()]


def _settings(ordered: pd.DataFrame) -> list[str]:
    """A line for each signature, without what differs from cell to cell and stands in the csv: n, unscored,
    and the clusters, which are named all together.
    """
    signatures = ordered["signature"].str.replace(r"\|(n|unscored):\d+", "", regex=True)
    parts = signatures.str.extract(r"(?s)\A(.*?)(?:,clusters=(\d+))?\Z")
    lines = []
    for signature, cells in ordered.assign(counts=parts[1]).groupby(parts[0], sort=False):
        counts = sorted(cells["counts"].dropna().unique(), key=int)
        clusters = ",clusters=" + " or ".join(counts) if counts else ""
        lines.append(visible(f"{' / '.join(cells['metric'].unique())}: {signature}{clusters}"))
    return lines


def _notes(table: pd.DataFrame, summary: pd.DataFrame, absent: Mapping[str, str]) -> list[str]:
    """What a reader of the table must know; plain text."""
    notes = ["Brackets: 95 % interval of the mean, Student's t over whole clusters; an end may pass 0 or 1. "
             "n: answers with a value; several numbers are those of the columns. Coverage is rounded down.",
             "Coverage: share of points that a readable reply covers; † marks less than 95 % of them, or of "
             "the answers."]
    if SUPPORT & set(summary["metric"]):
        notes.append("EMS-Support: share of the checked answer points that the document supports, beside the "
                     "paper's metrics; its coverage is the share of points that could be checked. EMS-open: "
                     "precision in which a supported point earns 1, whatever the reference has. (LLM): "
                     "supported by a judge, which can check every point; else by numbers. An answer without "
                     "points has no value in these rows; EMS(LLM) counts it as 0.")
    if any(column.startswith(PAPER) for column in table):
        notes.append("paper: the printed value of the model to its left (ours minus it; in or out of our "
                     "interval).")
    if summary["ci_low"].isna().any():
        notes.append(f"No interval: fewer than {MIN_CLUSTERS} clusters with a value say too little about how "
                     "clusters vary.")
    return notes + [f"Absent: {metric} ({visible(reason)})" for metric, reason in absent.items()]


def _header(table: pd.DataFrame) -> list[str]:
    return ["paper" if column.startswith(PAPER) else column for column in table.columns]


def _markdown(table: pd.DataFrame, notes: Sequence[str], settings: Sequence[str]) -> str:
    header = [markdown_text(name) for name in _header(table)]
    rows = [[markdown_text(metric), markdown_text(part), *cells]
            for metric, part, *cells in table.itertuples(index=False)]
    lines = ["| " + " | ".join(row) + " |" for row in [header, *rows]]
    lines.insert(1, "|" + " --- |" * 2 + " ---: |" * (table.shape[1] - 2))
    lines += ["", *(f"- {markdown_text(note)}" for note in notes), "", "Settings:", ""]
    lines += [f"- `{line.replace('`', '')}`" for line in settings]
    return "\n".join(lines) + "\n"


def _latex(table: pd.DataFrame, notes: Sequence[str], settings: Sequence[str]) -> str:
    cells = [_header(table), *table.itertuples(index=False)]
    rows = [" & ".join(map(latex_text, row)) + r" \\" for row in cells]
    return "\n".join([
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}", r"\footnotesize", r"\resizebox{\textwidth}{!}{%",
        r"\begin{tabular}{ll" + "r" * (table.shape[1] - 2) + "}", r"\toprule", rows[0], r"\midrule",
        *rows[1:], r"\bottomrule", r"\end{tabular}}", "",
        *(latex_text(note) + r"\par" for note in notes), r"\end{table}",
        *("% " + line for line in settings)]) + "\n"
