"""What a reader sees in words: one answer's alignment as HTML or text; Table 1 as CSV, Markdown and LaTeX.

Text from outside is never trusted: it is escaped, stripped of control characters and cut to length. Only
tables load pandas, when they are called.
"""

from __future__ import annotations

import html
import math
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .io import csv_text, duplicates, write_file
from .metrics import scores_of
from .pooling import tally
from .support.scores import support_scores
from .types import EMSResult, InputError, Support

if TYPE_CHECKING:
    import pandas as pd

# --- text from outside ---

# Control characters, marks of text direction, invisible characters, half surrogate pairs
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
                    "\U000e0000-\U000e007f]")


def visible(text: str, limit: int = 10_000) -> str:
    """One line that is safe to show: one space for a run of white space, U+FFFD for control characters."""
    line = UNSAFE.sub("\ufffd", re.sub(r"\s+", " ", text[: 2 * limit])).strip()
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1].rstrip() + "…"


def markdown_text(text: str) -> str:
    """The text as one line of Markdown that shows it literally: no HTML, link, image, emphasis or formula."""
    line = html.escape(visible(text), quote=False).replace("\\", "&#92;").replace("$", "&#36;")
    line = re.sub(r"([`*\[\]|~])", r"\\\1", line)
    line = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line)      # within a word it is no emphasis
    line = re.sub(r":(?=//)", "&#58;", line)
    line = re.sub(r"\bwww\.", "www&#46;", line, flags=re.I)
    return re.sub(r"^([#+=-]|\d+(?=[.)]))", lambda start: f"&#{ord(start[0][0])};{start[0][1:]}", line)


def _latex_text(text: str) -> str:
    """Text with everything that LaTeX reads as a command made literal."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
               "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
               "†": r"$^{\dagger}$", "–": "--", "…": r"\ldots{}"}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in visible(text))


# --- one answer's alignment ---

IN_DOCUMENT = "in document"    # an answer point that earns nothing, and that the document supports


@dataclass(frozen=True, slots=True)
class AlignmentRow:
    """One row of an alignment view: a point, its score, and a point of the other side beside it."""

    ref: int | None               # index of the reference point, None for none
    ans: int | None               # index of the answer point, None for none
    # "" for a matched pair, "no match", "unscored", "covered" by the whole other side; "in document" for an
    # answer point that earns nothing and that the document supports
    label: str
    score: float | None           # in [0, 1], as it enters the metric; None = unscored
    weight: float | None = None   # the scored point's weight in the mean; None where all weigh the same
    hint: str = ""                # side ("reference", "answer") whose point is only the nearest one
    support: Support | None = None        # what the document says of the answer point, if that was asked

    @property
    def tag(self) -> str:
        """The score in words: "0.85", "covered 0.85", "no match", "unscored", "in document"."""
        worded = self.score is None or self.label in ("no match", IN_DOCUMENT)
        return self.label if worded else f"{self.label} {self.score:.2f}".strip()


def alignment_rows(result: EMSResult) -> list[AlignmentRow]:
    """What made the number of an answer, row by row; every alignment view shows these rows.

    Pairs (eq. 5): every reference point with its match, then the answer points that no reference point chose.
    Whole sides: every point of both, beside the nearest one of the other side, a hint that made no score.
    """
    covered = _side(len(result.ref_points), result.match, scores_of(result), result.ref_weights)
    if result.whole_sides:
        answers = _side(len(result.ans_points), result.ans_match, result.ans_score, result.ans_weights)
        return ([AlignmentRow(i, j, "unscored" if s is None else "covered", s, weight, "answer")
                 for i, j, s, weight in covered]
                + [_with_support(AlignmentRow(i, j, "unscored" if s is None else "covered", s, weight,
                                              "reference"), result)
                   for j, i, s, weight in answers])
    rows = [AlignmentRow(i, j, "unscored" if s is None else "no match" if j is None else "", s, weight)
            for i, j, s, weight in covered]
    unknown = result.lost or (result.match and set(result.match) == {None})
    unmatched = ("unscored", None) if unknown else ("no match", 0.0)
    rest = [j for j in range(len(result.ans_points)) if j not in result.match]
    return [_with_support(row, result) for row in rows + [AlignmentRow(None, j, *unmatched) for j in rest]]


def _with_support(row: AlignmentRow, result: EMSResult) -> AlignmentRow:
    """The row with what the document says of its answer point; "in document" for one that earns nothing."""
    if row.ans is None or not result.support:
        return row
    support = result.support[row.ans]
    scored_itself = row.ref is None or result.whole_sides         # otherwise the row's score is the pair's
    found = scored_itself and row.score == 0 and support.checked and support.label == "supported"
    return replace(row, support=support, label=IN_DOCUMENT if found else row.label)


def _side(n: int, match: Sequence[int | None], scores: Sequence[float | None],
          weights: Sequence[float]) -> Iterator[tuple[int, int | None, float | None, float | None]]:
    """Index, nearest point, score and weight (None where all weigh the same) of each point of a side."""
    unknown = (None,) * n
    nearest = [None if j == -1 else j for j in match or unknown]
    shown = weights if len(set(weights)) > 1 else unknown
    return zip(range(n), nearest, scores or unknown, shown, strict=True)


def arithmetic(result: EMSResult) -> list[str]:
    """The three metrics, a line each, with their division (eq. 6, 8 and 9); then what is unscored."""
    sums, lines = tally(result), []
    for name, value, scores, top, below in (
        ("EMS-Recall", result.recall, scores_of(result), sums.ref_sum, sums.ref_n),
        ("EMS-Precision", result.precision, result.ans_score, sums.ans_sum, sums.ans_n),
    ):
        kept = [s for s in scores if s is not None]
        plain = len(kept) == below and math.isclose(math.fsum(kept), top, abs_tol=1e-9)
        terms = " + ".join(f"{s:.2f}" for s in kept[:8]) + (" + …" if len(kept) > 8 else "")
        fraction = (f"({terms}) / {below:g} = {top:.2f} / {below:g}" if plain
                    else f"{top:.2f} / {below:.2f} (weighted)")
        shown = f"{name}: no value" if math.isnan(value) else f"{name} = {value:.3f}"
        cut = ", cut at 0" * (top < 0)
        lines.append(f"{name} = {fraction}{cut} = {value:.3f}" if below
                     else f"{shown} (no scored points to divide by)")
    r, p = result.recall, result.precision
    lines.append(f"EMS-F1 = 2 × {p:.3f} × {r:.3f} / ({p:.3f} + {r:.3f}) = {result.f1:.3f}" if p + r > 0
                 else "EMS-F1: no value" if math.isnan(result.f1) else f"EMS-F1 = {result.f1:.3f}")
    if result.support:
        s = support_scores(result)
        left = f"{s.unchecked} of {s.points} points not checked"
        lines.append(f"Beside them, against the document: EMS-Support = {s.support:.3f} ({left}), blind spot "
                     f"{s.blind_spot:.3f}, unsupported {s.unsupported:.3f}, open precision "
                     f"{s.open_precision:.3f}" if s.points > s.unchecked
                     else f"Beside them, against the document: EMS-Support: no value ({left})")
    if result.unscored or result.reason:
        whose = "points" if result.whole_sides else "reference points"
        lines.append(f"unscored {whose}: {result.unscored}. {visible(result.reason, 200)}".strip())
    return lines


WHOLE_SIDES = ("covered: how far the other side as a whole contains this point. Nearest: the most similar "
               "point there, a hint only; it did not make the score.")


def _shown_points(points: Sequence[str]) -> list[str]:
    """Points as they are shown; those that occur more than once end with "[repeated]"."""
    again = set(duplicates(points))
    return [visible(p, 600) + " [repeated]" * (p in again) for p in points]


def alignment_html(result: EMSResult, limit: int = 200) -> str:
    """One answer's alignment (`alignment_rows`, at most `limit` of them) as HTML without script or link.

    Blue: scored, the darker the higher. Double orange edge: nothing matches or covers it. Green: nothing
    matches it, but the document supports it. Dashed grey: unscored. Small, pale and in italics: only the
    nearest point, or what the document says. Okabe and Ito's colours, translucent: for every colour vision,
    in light and dark themes.
    """
    rows = alignment_rows(result)
    points = _shown_points(result.ref_points), _shown_points(result.ans_points)
    titles = f"reference: {len(points[0])} points", "score", f"answer: {len(points[1])} points"
    body = [_html_row(row, *points) for row in rows[:limit]]
    if len(rows) > limit:
        body.append(f'<tr><td colspan="3">… and {len(rows) - limit} more rows</td></tr>')
    head = f"{html.escape(visible(result.model, 200))} on {html.escape(visible(result.triplet_id, 200))}"
    lines = arithmetic(result) + [WHOLE_SIDES] * result.whole_sides
    columns = "".join(f'<th style="text-align:left">{title}</th>' for title in titles)
    widths = "".join(f'<col style="width:{width}">' for width in ("auto", "8em", "auto"))
    return (f'<div style="max-width:1100px;color:inherit"><p><b>{head}</b><br>'
            f'{"<br>".join(map(html.escape, lines))}</p>'
            f'<table style="width:100%;table-layout:fixed;border-collapse:separate;border-spacing:0 4px">'
            f"<colgroup>{widths}</colgroup><thead><tr>{columns}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table>"
            f"<p><small>{html.escape(visible(result.signature))}</small></p></div>")


def _html_row(row: AlignmentRow, ref_points: Sequence[str], ans_points: Sequence[str]) -> str:
    paint = _paint(row)
    tag = f"<b>{row.tag}</b>" + ("" if row.weight is None else f"<br><small>weight {row.weight:.1f}</small>")
    cells = (_html_point(row.ref, ref_points, row.hint == "reference", paint), (tag, paint),
             _html_point(row.ans, ans_points, row.hint == "answer", paint))
    if row.support:
        cells = (*cells[:2], (cells[2][0] + _html_support(row.support), cells[2][1]))
    layout = "text-align:left;vertical-align:top;white-space:normal;overflow-wrap:anywhere"
    return "<tr>" + "".join(f'<td style="{layout};{style}">{text}</td>' for text, style in cells) + "</tr>"


def _html_point(index: int | None, points: Sequence[str], hint: bool, paint: str) -> tuple[str, str]:
    """HTML of a cell and its style."""
    pale = "padding-left:1em;opacity:.65;font-style:italic;font-size:85%"
    if index is None:
        return "–", pale if hint else paint
    text = html.escape(visible(points[index], 160) if hint else points[index])
    text = f"<small>{index}</small> {text.replace('[repeated]', '<b>[repeated]</b>')}"
    return (f"nearest: {text}", pale) if hint else (text, paint)


def _html_support(support: Support) -> str:
    text = html.escape(support_text(support))
    return f'<br><small style="opacity:.75;font-style:italic">{text}</small>'


def support_text(support: Support) -> str:
    """What the document says of a point, in one line: the label, the numbers that decided, the passage."""
    parts = ["unscored" if support.label is None else support.label]
    parts += [f"not checked: {support.reason}"] * bool(support.reason)
    parts += [f"not found: {', '.join(support.missing)}"] * bool(support.missing)
    parts += [f"follows: {'; '.join(support.derived)}"] * bool(support.derived)
    if support.passage is not None and not support.reason:
        parts.append(f"passage {support.passage}" + (f": {support.quote}" if support.quote else ""))
    return visible("document: " + "; ".join(parts), 400)


def _paint(row: AlignmentRow) -> str:
    """Edge and background of a row's scored cells."""
    if row.score is None:
        return "border-left:4px dashed #888;background:transparent;font-style:italic"
    if row.label == IN_DOCUMENT:
        return "border-left:5px solid #009E73;background:rgba(0,158,115,.14)"
    if row.label and row.score == 0:           # no match, or nothing of the other side covers it
        return "border-left:5px double #D55E00;background:rgba(213,94,0,.10)"
    return f"border-left:4px solid #0072B2;background:rgba(0,114,178,{0.06 + 0.34 * row.score:.2f})"


def alignment_text(result: EMSResult, limit: int = 60) -> str:
    """One answer's alignment (`alignment_rows`, at most `limit` of them) for a terminal of 100 columns, then
    the sums and the signature. A point that is only the nearest one stands in brackets; below an answer's
    point stands what the document says of it.
    """
    widths = (36, 14, 36) if result.whole_sides else (40, 8, 38)
    rows, bar = alignment_rows(result), "-" * 100
    points = _shown_points(result.ref_points), _shown_points(result.ans_points)
    titles = f"reference: {len(points[0])} points", "score", f"answer: {len(points[1])} points"
    lines = [f"{visible(result.model, 45)} on {visible(result.triplet_id, 45)}", "",
             f"     {titles[0]:<{widths[0]}}  {titles[1]:^{widths[1]}}       {titles[2]}", bar]
    for row in rows[:limit]:
        lines += _text_row(row, *points, widths)
    if len(rows) > limit:
        lines.append(f"… and {len(rows) - limit} more rows")
    notes = [*arithmetic(result), *[WHOLE_SIDES] * result.whole_sides, visible(result.signature)]
    return "\n".join([*lines, bar, *(piece for note in notes for piece in textwrap.wrap(note, 100))]) + "\n"


def _text_row(row: AlignmentRow, ref_points: Sequence[str], ans_points: Sequence[str],
              widths: tuple[int, int, int]) -> list[str]:
    left = _text_point(row.ref, ref_points, row.hint == "reference", widths[0])
    tags = [row.tag] if row.weight is None else [row.tag, f"weight {row.weight:.1f}"]
    right = _text_point(row.ans, ans_points, row.hint == "answer", widths[2])
    if row.support:
        right += textwrap.wrap(support_text(row.support), widths[2])
    lines = []
    for number, (ref, tag, ans) in enumerate(zip_longest(left, tags, right, fillvalue="")):
        i, j = ("" if number or index is None else index for index in (row.ref, row.ans))
        lines.append(f"{i:>3}  {ref:<{widths[0]}}  {tag:^{widths[1]}}  {j:>3}  {ans}".rstrip())
    return lines


def _text_point(index: int | None, points: Sequence[str], hint: bool, width: int) -> list[str]:
    if index is None:
        return ["–"]
    text = f"({visible(points[index], 2 * width - 6)})" if hint else points[index]
    return textwrap.wrap(text, width) or ["–"]


# --- tables ---

def table_html(frame: pd.DataFrame) -> str:
    """A table as a notebook shows it, with "–" in a cell where there is nothing to show; text is escaped.

    Long tables are cut as pandas' display options say. `study.project.open_run` makes notebooks use this.
    """
    import pandas as pd

    def filled(column: pd.Series) -> pd.Series:       # pandas writes <NA> in these, whatever it was asked
        missing = pd.api.types.is_extension_array_dtype(column.dtype)
        return column.astype(object).where(column.notna(), "–") if missing else column
    return frame.apply(filled).to_html(
        na_rep="–", notebook=True, max_rows=pd.get_option("display.max_rows"),
        max_cols=pd.get_option("display.max_columns"),
        show_dimensions=pd.get_option("display.show_dimensions"))


# --- Table 1 ---


def table1(summary: pd.DataFrame, paper: pd.DataFrame | None = None,
           models: Sequence[str] | None = None, people: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 1 for display, from `stats.summarise`: a row per metric and part, a column per model.

    A cell reads "0.412 [0.371, 0.455] †": value, 95 % interval, flagged. A model that `paper` (columns
    metric, part, model, value) has as well gets a second column: the paper's value, our gap to it, and
    whether it lies in our interval. `n` and `coverage` stand once where the models agree. `models`, by
    default `by_size`, are the columns; InputError for one that the summary does not have. `people` (columns
    metric, part, value, ci_low, ci_high) adds how far each metric agrees with people elsewhere.
    """
    import pandas as pd

    from .stats import by_size, paper_order

    models = sorted(summary["model"].unique(), key=by_size) if models is None else list(models)
    if strange := [m for m in models if m not in set(summary["model"])]:
        raise InputError(
            f"no model {strange[0]!r} in the summary; there are {sorted(summary['model'].unique())}")
    cells = {(r.metric, r.part, r.model): r for r in summary.itertuples(index=False)}
    printed = {} if paper is None else {
        (r.metric, r.part, r.model): r.value for r in paper.itertuples(index=False)}
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
            row[AGREEMENT] = _agreement_cell(agreeing.get((metric, part)))
        rows.append(row)
    return pd.DataFrame(rows)


PAPER = "paper: "              # starts the name of a column with the paper's values


# metrics that ask the document
SUPPORT = {"EMS-Support", "EMS-open", "EMS-Support(LLM)", "EMS-open(LLM)"}
AGREEMENT = "people"           # name of the column with the agreement with people


def _agreement_cell(found: Any) -> str:
    return "–" if found is None else f"{found.value:.2f} [{found.ci_low:.2f}, {found.ci_high:.2f}]"


def _cell(cell: Any) -> str:
    if cell is None or math.isnan(cell.value):
        return "–"
    interval = "" if math.isnan(cell.ci_low) else f" [{cell.ci_low:z.3f}, {cell.ci_high:z.3f}]"
    return f"{cell.value:z.3f}{interval}{' †' if cell.flagged else ''}"


def _paper_cell(cell: Any, printed: float | None) -> str:
    if cell is None or printed is None or math.isnan(cell.value):
        return "–" if printed is None else f"{printed:.2f}"
    verdict = ("no interval" if math.isnan(cell.ci_low)
               else "in" if cell.ci_low <= printed <= cell.ci_high else "out")
    gap = round(cell.value - printed, 3) + 0.0           # + 0.0: never "-0.000"
    return f"{printed:.2f} ({gap:+.3f}, {verdict})"


def percent(share: float) -> str:
    """Rounded down, so that only what is complete reads 100 %."""
    return "–" if math.isnan(share) else "100 %" if share == 1 else f"{math.floor(share * 1000) / 10:.1f} %"


def _agreed(entries: list[str]) -> str:
    return entries[0] if len(set(entries)) == 1 else " / ".join(entries)


def save_table1(summary: pd.DataFrame, folder: str | os.PathLike[str], paper: pd.DataFrame | None = None, *,
                absent: Mapping[str, str] | None = None, models: Sequence[str] | None = None,
                people: pd.DataFrame | None = None, about_people: str = "") -> list[Path]:
    """Write table1.csv (tidy, six decimals), table1.md and table1.tex (booktabs) into `folder`.

    `absent` maps a metric without rows to the reason, listed under the table; `people` is `table1`'s, for the
    last two files, and `about_people` says under the table what it is. Names are harmless in each format.
    """
    from .stats import COLUMNS, paper_order

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
    bare = signatures.str.replace(r",clusters=\d+$", "", regex=True)
    lines = []
    for signature, cells in ordered.assign(whole=signatures).groupby(bare, sort=False):
        counts = cells["whole"].str.extract(r",clusters=(\d+)$")[0].dropna().unique()
        clusters = ",clusters=" + " or ".join(sorted(counts, key=int)) if len(counts) else ""
        lines.append(visible(f"{' / '.join(cells['metric'].unique())}: {signature}{clusters}"))
    return lines


def _notes(table: pd.DataFrame, summary: pd.DataFrame, absent: Mapping[str, str]) -> list[str]:
    """What a reader of the table must know; plain text."""
    from .stats import MIN_CLUSTERS

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
    rows = [" & ".join(map(_latex_text, row)) + r" \\" for row in cells]
    return "\n".join([
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}", r"\footnotesize", r"\resizebox{\textwidth}{!}{%",
        r"\begin{tabular}{ll" + "r" * (table.shape[1] - 2) + "}", r"\toprule", rows[0], r"\midrule",
        *rows[1:], r"\bottomrule", r"\end{tabular}}", "",
        *(_latex_text(note) + r"\par" for note in notes), r"\end{table}",
        *("% " + line for line in settings)]) + "\n"
