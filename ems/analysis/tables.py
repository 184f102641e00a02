"""Table 1 for display, as CSV, Markdown and LaTeX. Names from outside are harmless in each."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..io import write_csv, write_file
from ..terminal import visible
from .frames import PARTS, by_size, in_order
from .stats import MIN_CLUSTERS

CSV = ["metric", "part", "model", "value", "ci_low", "ci_high", "n", "unscored", "signature"]
NAME_LIMIT = 48  # letters of a name in a table; a longer one loses its middle
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
BY_WORDS = (
    "Coverage(local) compares words and numbers: rewording can cost more than a wrong number."
)
NOTES = (
    "Brackets: 95 % interval of the mean, Student's t over whole clusters, of which an end may pass 0 or 1; "
    f"none with fewer than {MIN_CLUSTERS} clusters. Parentheses: the mean if unscored points scored 0, or 1.",
    "n: answers with a value. Scored: share of points that were scored, rounded down. Both are the least "
    "of the row; † marks under 95 % of the points, or of the answers. Paper: its value (ours less it).",
)


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
    return (
        line if len(line) <= limit else f"{line[: limit // 2]}…{line[len(line) - limit // 2 + 1 :]}"
    )


def as_text(table: pd.DataFrame, limit: int = NAME_LIMIT) -> str:
    """A table for a terminal: texts cut to `limit`, three decimals, "–" for nothing; why an interval is."""
    safe = table.map(lambda cell: shortened(cell, limit) if isinstance(cell, str) else cell)
    shown = safe.rename(columns=shortened).to_string(
        index=False, na_rep="–", float_format="{:z.3f}".format
    )
    few = "clusters" in table and table["clusters"].min() < MIN_CLUSTERS
    by_words = "metric" in table and "Coverage(local)" in set(table["metric"])
    notes = [f"No interval over fewer than {MIN_CLUSTERS} clusters."] * bool(few) + [
        BY_WORDS
    ] * by_words
    return "\n".join([shown, *notes])


def means_table(summary: pd.DataFrame) -> pd.DataFrame:
    """A row per metric and model of `stats.summarise`, as texts; n and scored are the least; †: flagged."""
    rows = []
    for (metric, model), own in summary.groupby(["metric", "model"], sort=False):
        values = {row.part: with_interval(row) for row in own.itertuples(index=False)}
        scored = percent(own["scored"].min()) + " †" * bool(own["flagged"].any())
        rows.append(
            {
                "model": shortened(model),
                "metric": shortened(metric),
                **values,
                "n": own["n"].min(),
                "clusters": own["clusters"].min(),
                "scored": scored,
            }
        )
    return (
        pd.DataFrame(rows, columns=["model", "metric", *PARTS, "n", "clusters", "scored"])
        .dropna(axis=1, how="all")
        .fillna("–")
    )


def pairs_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `stats.paired_table` as texts: differences with their intervals, p by Holm, the verdict."""
    rows = pairs.rename(columns={"difference": "value"}).itertuples(index=False)
    texts = pairs.map(lambda cell: shortened(cell) if isinstance(cell, str) else cell).assign(
        difference=list(map(with_interval, rows)),
        clear=pairs["clear"].map({True: "yes", False: "no"}),
        p_holm=pairs["p_holm"].map(lambda p: "<0.001" if p < 0.001 else f"{p:.3f}"),
    )
    return texts.filter(
        ["metric", "model", "part", "a", "b", "difference", "p_holm", "clear", "n", "clusters"]
    )


def table1(
    summary: pd.DataFrame, paper: pd.DataFrame | None = None, models: Sequence[str] = ()
) -> pd.DataFrame:
    """Table 1 from `stats.summarise`: a row per metric and part, a column per model.

    A cell has the value, its 95 % interval, † where under 95 % of the points or answers were scored, with
    unscored points the mean if these scored 0, or 1, and where `paper` (columns metric, part, model, value)
    has the cell, its value and the gap to it. `models` are the columns, by default all, small to large.
    """
    models = list(models) or sorted(summary["model"].unique(), key=by_size)
    shown = in_order(summary[summary["model"].isin(models)])
    printed = (
        {} if paper is None else paper.set_index(["metric", "part", "model"])["value"].to_dict()
    )
    rows = []
    for (metric, part), row in shown.groupby(["metric", "part"], sort=False):
        cells = {cell.model: _cell(cell, printed) for cell in row.itertuples(index=False)}
        rows.append(
            [
                shortened(metric),
                shortened(part),
                *(cells.get(model, "–") for model in models),
                str(row["n"].min()),
                percent(row["scored"].min()),
            ]
        )
    return pd.DataFrame(rows, columns=["metric", "part", *map(shortened, models), "n", "scored"])


def _cell(row: Any, printed: Mapping[Any, float]) -> str:
    shown = with_interval(row)
    if shown == "–":
        return shown
    if row.unscored:
        shown += f" ({row.low:.2f} to {row.high:.2f})"
    if row.flagged:
        shown += " †"
    value = printed.get((row.metric, row.part, row.model))
    return shown if value is None else f"{shown}; paper {value:.2f} ({row.value - value:+z.3f})"


def save_table1(
    summary: pd.DataFrame,
    folder: str | Path,
    paper: pd.DataFrame | None = None,
    *,
    models: Sequence[str] = (),
    absent: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write table1.csv (tidy, six decimals), table1.md and table1.tex (booktabs) into `folder`.

    `absent` maps a metric without rows to the reason, which is listed under the table.
    """
    table, ordered = table1(summary, paper, models), in_order(summary)
    settings = ordered["signature"] + "|pool:macro|interval:t over " + ordered["cluster"]
    counts = [
        f"|n:{row.n}|unscored:{row.unscored}|clusters:{row.clusters}"
        for row in ordered.itertuples()
    ]
    tidy = ordered.assign(signature=settings + counts)[CSV].round(6)
    # An apostrophe goes before what a spreadsheet would run.
    tidy = tidy.map(
        lambda cell: re.sub("^(?=[=+@-])", "'", visible(cell)) if isinstance(cell, str) else cell
    )
    notes = [*NOTES, *(f"Absent: {metric} ({reason})" for metric, reason in (absent or {}).items())]
    for text, rows in ordered.groupby(settings, sort=False):
        notes.append(f"Settings of {', '.join(rows['metric'].unique())}: {text}")
    notes = list(map(visible, notes))
    return [
        write_csv(Path(folder, "table1.csv"), tidy),
        write_file(Path(folder, "table1.md"), [_markdown(table, notes)]),
        write_file(Path(folder, "table1.tex"), [_latex(table, notes)]),
    ]


def _markdown(table: pd.DataFrame, notes: Sequence[str]) -> str:
    def literal(text: str) -> str:
        """The text as Markdown that shows it: no HTML, link, emphasis, formula or end of a cell."""
        return re.sub(r"([\\`*_|~$]|\](?=[(\[]))", r"\\\1", html.escape(text, quote=False))

    texts = table.rename(columns=literal).map(literal)
    rule = ["---"] * 2 + ["---:"] * (table.shape[1] - 2)
    lines = [f"| {' | '.join(row)} |" for row in (texts.columns, rule, *texts.to_numpy())]
    return "\n".join([*lines, "", *(f"- {literal(note)}" for note in notes), ""])


def _latex(table: pd.DataFrame, notes: Sequence[str]) -> str:
    texts = table.rename(columns=lambda name: name.translate(LATEX)).map(
        lambda text: text.translate(LATEX)
    )
    header, *rows = (" & ".join(row) + r" \\" for row in (texts.columns, *texts.to_numpy()))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table}",
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
            *(note.translate(LATEX) + r"\par" for note in notes),
            r"\end{table}",
            "",
        ]
    )
