"""What a reader sees in words: Table 1, and one answer's alignment as HTML or plain text.

`alignment_html` and `alignment_text` need the standard library alone; tables load pandas when they are called. Text from
outside is never trusted: it is escaped, stripped of control characters and cut to length.
"""

from __future__ import annotations

import html
import math
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .io import csv_text, write_file
from .metrics import reference_scores, tally
from .types import EMSResult, InputError, duplicates

if TYPE_CHECKING:
    import pandas as pd




UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def visible(text: str, limit: int = 10_000) -> str:
    """One line that is safe to show: runs of white space become one space; controls and text-direction marks U+FFFD."""
    line = UNSAFE.sub("\ufffd", re.sub(r"\s+", " ", text[: 2 * limit])).strip()
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1].rstrip() + "…"


def table1(
    summary: pd.DataFrame, paper: pd.DataFrame | None = None, models: Sequence[str] | None = None
) -> pd.DataFrame:
    """Table 1 for display: a row per metric and part in the paper's order, a column per model, then n and coverage.

    A cell reads "0.412 [0.371, 0.455]": value and 95 % interval; "†" follows where coverage, or the share of answers with
    a value, is under 95 %. A model that the paper has by the same name gets a second column: the paper's value, our gap
    to it, and whether it lies inside our interval. `n` and `coverage` are given once when the models agree, else model by
    model in column order.
    `summary` is what `stats.summarise` returns; `models` sets the columns, by default `by_size`.
    """
    import pandas as pd

    from .stats import by_size, paper_order

    models = sorted(summary["model"].unique(), key=by_size) if models is None else list(models)
    if strange := [m for m in models if m not in set(summary["model"])]:
        raise InputError(f"no model {strange[0]!r} in the summary; there are {sorted(summary['model'].unique())}")
    cells = {(r.metric, r.part, r.model): r for r in summary.itertuples(index=False)}
    theirs = {} if paper is None else {(r.metric, r.part, r.model): r.value for r in paper.itertuples(index=False)}
    named = {key[2] for key in theirs}
    rows = []
    for metric, part in paper_order(summary[["metric", "part"]].drop_duplicates()).itertuples(index=False):
        row, found = {"metric": metric, "part": part}, [cells.get((metric, part, m)) for m in models]
        for model, cell in zip(models, found, strict=True):
            row[model] = _cell(cell)
            if model in named:
                row[f"paper: {model}"] = _beside(cell, theirs.get((metric, part, model)))
        row["n"] = _agreed([str(c.n) if c else "–" for c in found])
        row["coverage"] = _agreed([_percent(c.coverage) if c else "–" for c in found])
        rows.append(row)
    return pd.DataFrame(rows)


def _cell(cell: Any) -> str:
    if cell is None or math.isnan(cell.value):
        return "–"
    interval = "" if math.isnan(cell.ci_low) else f" [{cell.ci_low:.3f}, {cell.ci_high:.3f}]"
    return f"{cell.value:.3f}{interval}{' †' if cell.flagged else ''}"


def _beside(cell: Any, theirs: float | None) -> str:
    if cell is None or theirs is None or math.isnan(cell.value):
        return "–" if theirs is None else f"{theirs:.2f}"
    verdict = "no interval" if math.isnan(cell.ci_low) else "in" if cell.ci_low <= theirs <= cell.ci_high else "out"
    return f"{theirs:.2f} ({round(cell.value - theirs, 3) + 0.0:+.3f}, {verdict})"     # + 0.0: never "-0.000"


def _percent(share: float) -> str:
    """Rounded down, so that only what is complete reads 100 %."""
    return "–" if math.isnan(share) else "100 %" if share == 1 else f"{math.floor(share * 1000) / 10:.1f} %"


def _agreed(entries: list[str]) -> str:
    return entries[0] if len(set(entries)) == 1 else " / ".join(entries)


def save_table1(
    summary: pd.DataFrame, folder: str | os.PathLike[str], paper: pd.DataFrame | None = None, *,
    absent: Mapping[str, str] | None = None, models: Sequence[str] | None = None,
) -> list[Path]:
    """Write table1.csv (tidy, unrounded), table1.md and table1.tex (booktabs) into `folder`; returns the three paths.

    `absent` maps a metric that the run has no rows for to the reason, listed under the table with the signatures.
    Each file is replaced as a whole or not at all.
    """
    from .stats import COLUMNS, paper_order

    table = table1(summary, paper, models)
    notes = ["Brackets: 95 % bootstrap interval over whole clusters. n: answers with a value.",
             "Coverage: share of points that a readable reply covers; † marks less than 95 % of them, or of the answers."]
    if any(column.startswith("paper: ") for column in table):
        notes.append("paper: the printed value of the model to its left (ours minus it; in or out of our interval).")
    if summary["ci_low"].isna().any():
        notes.append("No interval: fewer than two clusters with a value.")
    notes += [f"Absent: {metric} ({visible(reason)})" for metric, reason in (absent or {}).items()]
    # n and unscored differ from cell to cell and stand in the csv: without them a metric has one line of settings
    ordered = paper_order(summary)
    common = ordered["signature"].str.replace(r"\|(n|unscored):\d+", "", regex=True)
    settings = [f"{' / '.join(metrics.unique())}: {visible(signature)}"
                for signature, metrics in ordered["metric"].groupby(common, sort=False)]
    header = ["paper" if c.startswith("paper: ") else c for c in table.columns]
    rows = [header, *table.astype(str).to_numpy().tolist()]
    md = [[visible(c).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for c in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in md]
    lines.insert(1, "|" + " --- |" * 2 + " ---: |" * (table.shape[1] - 2))
    lines += ["", *(f"- {note}" for note in notes), "", "Settings:", ""]
    lines += [f"- `{s.replace('`', '')}`" for s in settings]
    tex = [" & ".join(map(_tex, row)) + r" \\" for row in rows]
    tex = [r"% needs \usepackage{booktabs,graphicx}",
           r"\begin{table}", r"\footnotesize", r"\resizebox{\textwidth}{!}{%",
           r"\begin{tabular}{ll" + "r" * (table.shape[1] - 2) + "}", r"\toprule", tex[0], r"\midrule", *tex[1:],
           r"\bottomrule", r"\end{tabular}}", "", *(_tex(note) + r"\par" for note in notes), r"\end{table}",
           *("% " + s for s in settings)]
    folder = Path(folder)
    files = {"table1.csv": csv_text(ordered[list(COLUMNS)]), "table1.md": "\n".join(lines) + "\n", "table1.tex": "\n".join(tex) + "\n"}
    for name, text in files.items():
        write_file(folder / name, text.encode("utf-8"))
    return [folder / name for name in files]


def _tex(text: str) -> str:
    """Text with everything that LaTeX reads as a command made literal."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$^{\dagger}$",
               "–": "--", "…": r"\ldots{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in visible(text))


def _arithmetic(result: EMSResult) -> list[str]:
    """The three metrics, each with what it was divided from (eq. 6, 8 and 9)."""
    t, said = tally(result), []
    s_ref = reference_scores(result.match, result.score)
    for name, value, scores, top, below in (
        ("EMS-Recall", result.recall, s_ref, t.ref_sum, t.ref_n),
        ("EMS-Precision", result.precision, result.ans_score, t.ans_sum, t.ans_n),
    ):
        kept = [s for s in scores if s is not None]
        plain = len(kept) == below and math.isclose(math.fsum(kept), top, abs_tol=1e-9)
        terms = " + ".join(f"{s:.2f}" for s in kept[:8]) + (" + …" if len(kept) > 8 else "")
        fraction = f"({terms}) / {below:g} = {top:.2f} / {below:g}" if plain else f"{top:.2f} / {below:.2f} (weighted)"
        said.append(f"{name} = {fraction} = {value:.3f}" if below else f"{name} = {value:.3f}: no points to divide by")
    r, p = result.recall, result.precision
    said.append(f"EMS-F1 = 2 × {p:.3f} × {r:.3f} / ({p:.3f} + {r:.3f}) = {result.f1:.3f}" if p + r > 0
                else f"EMS-F1 = {result.f1:.3f}")
    if result.unscored or result.reason:
        said.append(f"unscored reference points: {result.unscored}. {visible(result.reason, 200)}".strip())
    return said


def _pairs(result: EMSResult) -> list[tuple[int | None, str, str, int | None, str]]:
    """Rows of the alignment view: reference index, its text, the tag between, answer index, its text.

    First every reference point with its match, then the answer points that no reference point chose.
    """
    ref, ans = ([visible(p, 600) for p in side] for side in (result.ref_points, result.ans_points))
    again = [{visible(p, 600) for p in duplicates(side)} for side in (result.ref_points, result.ans_points)]
    ref = [f"{p} [repeated]" if p in again[0] else p for p in ref]
    ans = [f"{p} [repeated]" if p in again[1] else p for p in ans]
    rows = []
    for i, (point, j, s) in enumerate(zip(ref, result.match, result.score, strict=True)):
        matched = j is not None and j >= 0
        tag = "no match" if j == -1 else "unscored" if j is None or s is None else f"{s:.2f}"
        rows.append((i, point, tag, j if matched else None, ans[j] if matched else ""))
    chosen = set(result.match)
    rows += [(None, "", "no match", j, point) for j, point in enumerate(ans) if j not in chosen]
    return rows


def alignment_html(result: EMSResult, limit: int = 200) -> str:
    """One answer's alignment for a notebook: matched points side by side, tinted by score; no script, nothing loaded.

    Solid blue edge: matched. Solid red: no match, on either side. Dashed grey: unscored. Repeated points say so. At
    most `limit` rows, with a count of the rest. Colours are translucent and text inherits, for light and dark themes.
    """
    rows, body = _pairs(result), []
    for i, ref, tag, j, ans in rows[:limit]:
        paint = {
            "no match": "border-left:4px solid #D55E00;background:rgba(213,94,0,.10)",
            "unscored": "border-left:4px dashed #888;background:transparent;font-style:italic",
        }.get(tag) or f"border-left:4px solid #0072B2;background:rgba(0,114,178,{0.06 + 0.34 * float(tag):.2f})"
        side = [f"<small>{k}</small> {html.escape(text)}" if k is not None else "–" for k, text in ((i, ref), (j, ans))]
        side = [s.replace("[repeated]", "<b>[repeated]</b>") for s in side]
        cells = "".join(f'<td style="text-align:left;vertical-align:top;white-space:normal;overflow-wrap:anywhere;'
                        f'width:{w};{paint}">{s}</td>'
                        for w, s in (("46%", side[0]), ("8%", f"<b>{tag}</b>"), ("46%", side[1])))
        body.append(f"<tr>{cells}</tr>")
    if len(rows) > limit:
        body.append(f'<tr><td colspan="3">… and {len(rows) - limit} more rows</td></tr>')
    head = f"{html.escape(visible(result.model, 200))} on {html.escape(visible(result.triplet_id, 200))}"
    sums = "<br>".join(map(html.escape, _arithmetic(result)))
    titles = (f"reference: {len(result.ref_points)} points", "score", f"answer: {len(result.ans_points)} points")
    columns = "".join(f'<th style="text-align:left">{title}</th>' for title in titles)
    return (f'<div style="max-width:1100px;color:inherit"><p><b>{head}</b><br>{sums}</p>'
            f'<table style="width:100%;border-collapse:separate;border-spacing:0 4px"><thead><tr>{columns}</tr></thead>'
            f'<tbody>{"".join(body)}</tbody></table>'
            f"<p><small>{html.escape(visible(result.signature))}</small></p></div>")


def alignment_text(result: EMSResult, limit: int = 60) -> str:
    """One answer's alignment for a terminal, 100 columns: matches, then unmatched answer points, then the sums."""
    def line(i: Any, ref: str, tag: str, j: Any, ans: str) -> str:
        return f"{i:>3}  {ref:<40}  {tag:^8}  {j:>3}  {ans}".rstrip()
    rows, bar = _pairs(result), "-" * 100
    lines = [f"{visible(result.model, 45)} on {visible(result.triplet_id, 45)}", ""]
    titles = (f"reference: {len(result.ref_points)} points", f"answer: {len(result.ans_points)} points")
    lines += [line("", titles[0], "score", "", titles[1]), bar]
    for i, ref, tag, j, ans in rows[:limit]:
        left, right = textwrap.wrap(ref, 40) or ["–"], textwrap.wrap(ans, 38) or ["–"]
        first = ("" if i is None else i, left[0], tag, "" if j is None else j, right[0])
        rest = [("", a, "", "", b) for a, b in zip_longest(left[1:], right[1:], fillvalue="")]
        lines += [line(*cells) for cells in (first, *rest)]
    if len(rows) > limit:
        lines.append(f"… and {len(rows) - limit} more rows")
    sums = [piece for said in (*_arithmetic(result), visible(result.signature)) for piece in textwrap.wrap(said, 100)]
    return "\n".join([*lines, bar, *sums]) + "\n"
