"""Table 1 as files: CSV, Markdown and LaTeX. Names from outside are harmless in each."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import ems
from ems.analysis.frames import TABLE1_PARTS
from ems.analysis.stats import MIN_CLUSTERS
from ems.io import write_file
from ems.terminal import visible

from . import run_notes, write_csv
from .names import short_names, with_short_names

CSV_COLUMNS = [
    "metric",
    "part",
    "model",
    "value",
    "ci_low",
    "ci_high",
    "n",
    "unscored",
    "signature",
]
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "†": r"$^{\dagger}$",
        "–": "--",
        "…": r"\ldots{}",
        **{character: "\\" + character for character in "&%$#_{}"},
    }
)
# What is said under the table, each where its sign stands in a cell; the first note always.
NOTES = {
    "": "n: answers with a value. Scored: share of points that were scored, rounded down. Both are "
    "the least of the row.",
    "[": "Brackets: 95 % interval of the mean, Student's t over whole clusters, of which an end "
    f"may pass 0 or 1; none with fewer than {MIN_CLUSTERS} clusters.",
    " to ": "Parentheses: the mean if unscored points scored 0, or 1.",
    "†": "† marks under 95 % of the points, or of the answers.",
    "; paper": "Paper: its value (ours minus the paper's).",
}
CAPTION = "Mean of each metric over the answers, by system."


def save_table1(
    summary: pd.DataFrame,
    folder: Path,
    paper: pd.DataFrame | None = None,
    *,
    models: Sequence[str] = (),
    absent: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write table1.csv (tidy, six decimals), table1.md, table1.tex and table1_signatures.csv.

    They go into `folder`. `summary` and `models` are those of `ems.table1`; in Markdown and LaTeX
    (booktabs) the models have short names. With the paper's values (columns metric, part, model,
    value) see `beside_paper`. `absent` maps a metric without rows to the reason, which is listed
    under the table. The last file has the settings of each metric.
    """
    table = ems.table1(summary, models)
    if paper is not None:
        table = beside_paper(table, summary, paper)
    shown = summary[summary["part"].isin(TABLE1_PARTS)].copy()
    shown["signature"] += "|pool:macro|interval:t over " + shown["cluster"]
    signatures = shown[["metric", "signature"]].drop_duplicates()
    notes = _notes(table, absent or {}) + run_notes(folder, shown)
    notes = [visible(note) for note in notes]
    table = with_short_names(table, short_names(shown["model"].unique()))
    for row in shown.itertuples():
        counts = f"|n:{row.n}|unscored:{row.unscored}|clusters:{row.clusters}"
        shown.loc[row.Index, "signature"] += counts
    return [
        write_csv(folder / "table1.csv", shown[CSV_COLUMNS].round(6).map(_not_a_formula)),
        write_file(folder / "table1.md", [_markdown(table, notes)]),
        write_file(folder / "table1.tex", [_latex(table, notes)]),
        write_csv(folder / "table1_signatures.csv", signatures.map(_not_a_formula)),
    ]


def _notes(table: pd.DataFrame, absent: Mapping[str, str]) -> list[str]:
    """What is said under the table: only of signs that stand in its cells."""
    cells = "\n".join(table.drop(columns=["metric", "part", "n"]).to_numpy().ravel())
    notes = [note for sign, note in NOTES.items() if sign in cells]
    notes += [f"Absent: {metric} ({reason})" for metric, reason in absent.items()]
    return notes


def beside_paper(table: pd.DataFrame, summary: pd.DataFrame, paper: pd.DataFrame) -> pd.DataFrame:
    """Table 1 with the paper's value, and ours minus the paper's, in each cell that both have."""
    table = table.copy()
    cell = ["metric", "part", "model"]
    both = summary.merge(paper[[*cell, "value"]], on=cell, suffixes=("", "_of_paper"))
    for row in both[both["model"].isin(list(table))].dropna(subset="value").itertuples():
        is_row = (table["metric"] == row.metric) & (table["part"] == row.part)
        difference = row.value - row.value_of_paper
        table.loc[is_row, row.model] += f"; paper {row.value_of_paper:.2f} ({difference:+z.3f})"
    return table


def _not_a_formula(cell: Any) -> Any:
    """A text with an apostrophe before what a spreadsheet would run; any other cell as it was."""
    return re.sub("^(?=[=+@-])", "'", visible(cell)) if isinstance(cell, str) else cell


def _markdown(table: pd.DataFrame, notes: Sequence[str]) -> str:
    texts = table.rename(columns=_markdown_text).map(_markdown_text)
    rule = ["---"] * 2 + ["---:"] * (table.shape[1] - 2)
    lines = [f"| {' | '.join(row)} |" for row in (texts.columns, rule, *texts.to_numpy())]
    lines.append("")
    lines += [f"- {_markdown_text(note)}" for note in notes]
    return "\n".join(lines) + "\n"


def _markdown_text(text: str) -> str:
    """The text as Markdown that shows it: no HTML, link, emphasis, formula or end of a cell."""
    return re.sub(r"([\\`*_|~$]|\](?=[(\[]))", r"\\\1", html.escape(text, quote=False))


def _latex(table: pd.DataFrame, notes: Sequence[str]) -> str:
    texts = table.rename(columns=_latex_text).map(_latex_text)
    header, *rows = (" & ".join(row) + r" \\" for row in (texts.columns, *texts.to_numpy()))
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\caption{" + CAPTION + "}",
        r"\label{tab:ems}",
        r"\footnotesize",
        r"\resizebox{\textwidth}{!}{%",
        r"\begin{tabular}{ll" + "r" * (table.shape[1] - 2) + "}",
        r"\toprule",
        header,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}}",
        "",
        *(_latex_text(note) + r"\par" for note in notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_text(text: str) -> str:
    return text.translate(LATEX)
