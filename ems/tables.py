"""Table 1 for display, as CSV, Markdown and LaTeX. Names from outside are harmless in each."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from .frames import by_size, in_order
from .io import some, write_csv, write_file
from .stats import MIN_CLUSTERS
from .types import InputError
from .view import visible

CSV = ["metric", "part", "model", "value", "ci_low", "ci_high", "n", "unscored", "signature"]
NAME_LIMIT = 48                # letters of a name in a table; a longer one loses its middle
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
         "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "†": r"$^{\dagger}$", "–": "--",
         "…": r"\ldots{}", **{character: "\\" + character for character in "&%$#_{}"}}

NOTES = (
    "Brackets: 95 % interval of the mean, Student's t over whole clusters, of which an end may pass 0 or 1; "
    f"none with fewer than {MIN_CLUSTERS} clusters.",
    "n: answers with a value. Coverage: share of points that were scored, rounded down; † marks under 95 % "
    "of them, or of the answers. Parentheses: the mean if all unscored points scored 0, or 1.")
PAPER = "paper: the printed value of the model to its left (ours minus it; in or out of our interval)."


def percent(share: float) -> str:
    """A share as text, rounded down, so that only what is complete reads 100 %; "–" for nan."""
    return "–" if math.isnan(share) else f"{math.floor(share * 1000) / 10:g} %"


def with_interval(row: Any) -> str:
    """A row's value and its interval, if it has one: "0.412 [0.371, 0.455]"; "–" without a value."""
    if row is None or math.isnan(row.value):
        return "–"
    interval = "" if math.isnan(row.ci_low) else f" [{row.ci_low:z.3f}, {row.ci_high:z.3f}]"
    return f"{row.value:z.3f}{interval}"


def shortened(name: str, limit: int = NAME_LIMIT) -> str:
    """A name as one safe line; of a long one the beginning and the end."""
    line = visible(name)
    return line if len(line) <= limit else f"{line[:limit // 2]}…{line[len(line) - limit // 2 + 1:]}"


def as_text(table: pd.DataFrame, limit: int = NAME_LIMIT) -> str:
    """A table for a terminal: safe texts of at most `limit` letters, three decimals, "–" for nothing."""
    def number(value: float) -> str:
        return f"{value:z.3f}" if abs(value) >= 0.0005 or value == 0 else f"{value:.1g}"

    safe = table.map(lambda cell: shortened(cell, limit) if isinstance(cell, str) else cell)
    return safe.rename(columns=shortened).to_string(index=False, na_rep="–", float_format=number)


def table1(summary: pd.DataFrame, paper: pd.DataFrame | None = None, models: Sequence[str] | None = None
           ) -> pd.DataFrame:
    """Table 1 from `stats.summarise`: a row per metric and part, a column per model.

    A cell reads "0.412 [0.371, 0.455] †": value, 95 % interval, and a mark where under 95 % of the points or
    answers were scored. With unscored points follows "(0.39 to 0.43)": the mean if these scored 0, or 1.
    A model that `paper` has (columns metric, part, model, value) gets a second column: the paper's value, our
    gap to it, and whether it lies in our interval. `models` are the columns, by default all, small to large;
    InputError for one that the summary does not have.
    """
    known = sorted(summary["model"].unique(), key=by_size)
    models = list(models or known)
    if strange := [model for model in models if model not in known]:
        raise InputError(f"no model {strange[0]!r} in the summary; there are {some(known, 12)}")
    cells = {(row.metric, row.part, row.model): row for row in summary.itertuples(index=False)}
    printed = {} if paper is None else paper.set_index(["metric", "part", "model"])["value"].to_dict()
    in_paper = {model for _, _, model in printed}
    columns, rows = ["metric", "part"], []
    for model in models:
        columns += [shortened(model), "paper"] if model in in_paper else [shortened(model)]
    for metric, part in in_order(summary[["metric", "part"]].drop_duplicates()).itertuples(index=False):
        ours = [cells.get((metric, part, model)) for model in models]
        row = [shortened(metric), shortened(part)]
        for model, cell in zip(models, ours, strict=True):
            row.append(_cell(cell))
            if model in in_paper:
                row.append(_paper_cell(cell, printed.get((metric, part, model))))
        for entries in ([str(cell.n) if cell else "–" for cell in ours],
                        [percent(cell.coverage) if cell else "–" for cell in ours]):
            row.append(entries[0] if len(set(entries)) == 1 else " / ".join(entries))
        rows.append(row)
    return pd.DataFrame(rows, columns=[*columns, "n", "coverage"])


def _cell(cell: Any) -> str:
    shown = with_interval(cell)
    if shown != "–" and cell.unscored:
        shown += f" ({cell.low:.2f} to {cell.high:.2f})"
    return shown + " †" if shown != "–" and cell.flagged else shown


def _paper_cell(cell: Any, printed: float | None) -> str:
    if cell is None or printed is None or math.isnan(cell.value):
        return "–" if printed is None else f"{printed:.2f}"
    verdict = "in" if cell.ci_low <= printed <= cell.ci_high else "out"
    verdict = "no interval" if math.isnan(cell.ci_low) else verdict
    return f"{printed:.2f} ({cell.value - printed:+z.3f}, {verdict})"


def save_table1(summary: pd.DataFrame, folder: str | Path, paper: pd.DataFrame | None = None, *,
                models: Sequence[str] | None = None, absent: Mapping[str, str] | None = None) -> list[Path]:
    """Write table1.csv (tidy, six decimals), table1.md and table1.tex (booktabs) into `folder`.

    `absent` maps a metric without rows to the reason, which is listed under the table.
    """
    table, ordered = table1(summary, paper, models), in_order(summary)
    settings = ordered["signature"] + "|pool:" + ordered["pool"] + "|interval:t over " + ordered["cluster"]
    counts = [f"|n:{row.n}|unscored:{row.unscored}|clusters:{row.clusters}" for row in ordered.itertuples()]
    tidy = ordered.assign(signature=settings + counts)[CSV].round(6)
    tidy = tidy.map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
    notes = [*NOTES, PAPER] if "paper" in table else list(NOTES)
    notes += [f"Absent: {metric} ({reason})" for metric, reason in (absent or {}).items()]
    for text, rows in ordered.groupby(settings, sort=False):
        notes.append(f"Settings of {', '.join(rows['metric'].unique())}: {text}")
    return [write_csv(Path(folder, "table1.csv"), tidy),
            write_file(Path(folder, "table1.md"), [_markdown(table, notes)]),
            write_file(Path(folder, "table1.tex"), [_latex(table, notes)])]


def _markdown(table: pd.DataFrame, notes: Sequence[str]) -> str:
    def literal(text: str) -> str:
        """The text as Markdown that shows it: no HTML, link, emphasis, formula or end of a cell."""
        return re.sub(r"([\\`*_|~$]|\](?=[(\[]))", r"\\\1", html.escape(visible(text), quote=False))

    header, *rows = (list(map(literal, row)) for row in (table.columns, *table.to_numpy()))
    rows = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"- {literal(note)}" for note in notes), ""])


def _latex(table: pd.DataFrame, notes: Sequence[str]) -> str:
    def literal(text: str) -> str:
        return "".join(LATEX.get(character, character) for character in visible(text))

    header, *rows = (" & ".join(map(literal, row)) + r" \\" for row in (table.columns, *table.to_numpy()))
    return "\n".join([
        r"% needs \usepackage{booktabs,graphicx}", r"\begin{table}", r"\footnotesize",
        r"\resizebox{\textwidth}{!}{%", r"\begin{tabular}{ll" + "r" * (table.shape[1] - 2) + "}", r"\toprule",
        header, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}}", "",
        *(literal(note) + r"\par" for note in notes), r"\end{table}", ""])
