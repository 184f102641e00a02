"""What a reader sees: Table 1, the figures, and one answer's alignment as HTML or plain text.

`alignment_html` and `alignment_text` need the standard library alone; tables load pandas and figures matplotlib when
they are called. Text from outside is never trusted: it is escaped, stripped of control characters and cut to length.
"""

from __future__ import annotations

import html
import math
import os
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .types import EMSResult, InputError, duplicates

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100                      # figures are 16 inches wide: 1600 pixels
# Okabe and Ito's palette, told apart with any colour vision
BLUE, GREEN, ORANGE, RED, PINK, GREY = "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#767676"
COLOURS = {"BLEU": ORANGE, "ROUGE": ORANGE, "BERTScore": ORANGE, "RAGChecker": PINK, "EMS(local)": GREEN}   # else BLUE
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 12, "text.parse_math": False, "axes.spines.top": False,
    "axes.spines.right": False, "axes.titlelocation": "left", "axes.titleweight": "bold", "figure.facecolor": "white",
    "text.hinting": "no_hinting",
}
MAX_LEVELS = 40                # rows or columns of a heat map that can still be read
MOST = 4.0                     # times the first model's value: what rises further is an arrow at the edge
MAX_BOXES = 14                 # points per side of a figure
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def visible(text: str, limit: int = 10_000) -> str:
    """One line that is safe to show: runs of white space become one space; controls and text-direction marks U+FFFD."""
    line = UNSAFE.sub("\ufffd", re.sub(r"\s+", " ", text[: 2 * limit])).strip()
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1].rstrip() + "…"


# --- tables

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
    folder.mkdir(parents=True, exist_ok=True)
    csv = ordered[list(COLUMNS)].to_csv(index=False, lineterminator="\n")
    files = {"table1.csv": csv, "table1.md": "\n".join(lines) + "\n", "table1.tex": "\n".join(tex) + "\n"}
    for name, text in files.items():
        _replace(folder / name, text.encode("utf-8"))
    return [folder / name for name in files]


def _tex(text: str) -> str:
    """Text with everything that LaTeX reads as a command made literal."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$^{\dagger}$",
               "–": "--", "…": r"\ldots{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in visible(text))


def _replace(path: Path, content: bytes) -> None:
    """Write a file beside `path` and move it into place, so that nobody sees half of it."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_bytes(content)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


# --- figures

def save(fig: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, 100 dots per inch, without date or version: equal input gives equal bytes."""
    import io

    buffer = io.BytesIO()
    with _pyplot().rc_context(STYLE):
        fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, buffer.getvalue())
    return path


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError("figures need matplotlib and seaborn: pip install matplotlib seaborn") from error
    return plt


def scaling_figure(
    summary: pd.DataFrame, sizes: Mapping[str, float | str], parts: Mapping[str, str] | None = None
) -> Figure:
    """Who notices model size: one panel per metric, its value relative to the first model's, the others in grey.

    `sizes` maps models to billions of parameters (a logarithmic axis) or, in order, to labels (an ordinal one, when
    the models are no size family). `parts` picks a part per metric; left out, F1, else Score. Bars are the 95 %
    intervals divided by the first model's value; numbers at the points are the values themselves; the line under a
    title gives the ratio last to first and whether their two intervals touch. An arrow is a value beyond four times.
    """
    plt = _pyplot()
    from matplotlib.patheffects import withStroke

    from .stats import METRICS

    have = summary.set_index(["metric", "part", "model"])
    if not sizes or any(m not in set(summary["model"]) for m in sizes):
        raise InputError(f"sizes must name models of the summary, {sorted(set(summary['model']))}; got {list(sizes)}")
    billions = all(isinstance(size, Real) for size in sizes.values())
    models = sorted(sizes, key=sizes.__getitem__) if billions else list(sizes)
    labels = [f"{sizes[m]:g}" if billions else str(sizes[m]) for m in models]
    x = [float(sizes[m]) for m in models] if billions else list(range(len(models)))
    known = [m for m in METRICS if m in set(summary["metric"])] + sorted(set(summary["metric"]) - set(METRICS))
    lines = {}
    for metric in known:
        offered = set(summary.loc[summary["metric"] == metric, "part"])
        part = (parts or {}).get(metric, "F1" if "F1" in offered else "Score")
        if part not in offered:
            raise InputError(f"{metric} has no part {part!r} in the summary; it has {', '.join(sorted(offered))}")
        cells = [have.loc[(metric, part, m)] if (metric, part, m) in have.index else None for m in models]
        lines[metric if part == "Score" else f"{metric} {part}"] = [
            (math.nan,) * 3 if c is None else tuple(map(float, c[["value", "ci_low", "ci_high"]])) for c in cells]
    relative = {name: [[v / line[0][0] for v in point] for point in line]
                for name, line in lines.items() if line[0][0] > 0}
    centres = [p[0] for line in relative.values() for p in line if math.isfinite(p[0])] or [1.0]
    ends = [end for line in relative.values() for p in line for end in p if math.isfinite(end)] or [1.0]
    span = max(max(centres) - min(centres), 0.2)           # a very wide interval is cut rather than flatten the rest
    bottom, top = max(min(ends), min(centres) - span), min(max(ends), max(centres) + span, MOST)
    span = min(span, MOST)
    columns = min(4, len(lines))
    with plt.rc_context(STYLE):
        rows = math.ceil(len(lines) / columns)
        fig, axes = plt.subplots(rows, columns, figsize=(16, 1.8 + 3.6 * rows), sharex=True, sharey=True, squeeze=False,
                                 layout="constrained")
        for ax, (name, line) in zip(axes.flat, lines.items(), strict=False):
            colour = COLOURS.get(name.split(" ", 1)[0], BLUE)
            ax.axhline(1, color="black", linewidth=0.8, linestyle=":")
            for other, points in relative.items():
                mine = other == name
                look = {"color": colour, "linewidth": 2.4, "zorder": 2} if mine else {"color": "#D0D0D0", "zorder": 1}
                ax.plot(x, [p[0] for p in points], **look, linestyle="-" if billions else "",
                        marker="" if billions or mine else "_")
            ax.set_title(name, color=colour, fontsize=14, pad=24)
            ax.text(0, 1.02, _verdict(line), transform=ax.transAxes, fontsize=11, va="bottom")
            for k, (at, value, mine) in enumerate(zip(x, line, relative.get(name, []), strict=False)):
                bars = None if math.isnan(mine[1]) else [[max(0, mine[0] - mine[1])], [max(0, mine[2] - mine[0])]]
                beyond = mine[0] > top                         # off the scale: an arrow at the edge, its value beside it
                here = top if beyond else mine[0]
                ax.errorbar(at, here, yerr=None if beyond else bars, color=colour, marker="^" if beyond else "o", capsize=4,
                            linewidth=1.8, zorder=3)
                falls = k + 1 < len(x) and not relative[name][k + 1][0] >= mine[0]     # put the number where no line is
                ax.annotate(f"{value[0]:.3f}", (at, here), xytext=(8, 6 if falls else -13), fontsize=11, zorder=4,
                            textcoords="offset points", path_effects=[withStroke(linewidth=3, foreground="white")])
            if billions:
                ax.set_xscale("log")
                ax.minorticks_off()
            ax.set_xticks(x, labels if billions else [textwrap.fill(label, max(8, 40 // len(x))) for label in labels],
                          fontsize=12 if billions else 9)
            ax.tick_params(axis="x", labelbottom=True)
            ax.margins(x=0.22)
        for ax in list(axes.flat)[len(lines):]:
            ax.set_visible(False)
        axes[0, 0].set_ylim(bottom - 0.08 * span, top + 0.05 * span)
        first = f"the {labels[0]} B model" if billions else labels[0]
        fig.suptitle(f"Which metric tells the models apart? Value relative to {first}, 95 % intervals; "
                     "the other metrics in grey", x=0.01, ha="left", fontsize=14)
        fig.supxlabel("model size, billions of parameters (log scale)" if billions else "model")
        fig.supylabel("value ÷ value of the first model")
    plt.close(fig)
    return fig


def _verdict(line: list[tuple[float, float, float]]) -> str:
    first, last = line[0], line[-1]
    if math.isnan(first[0]) or math.isnan(last[0]) or first[0] <= 0:
        return "nothing to compare with"
    ratio = f"{first[0]:.3f} → {last[0]:.3f}, ×{last[0] / first[0]:.2f}"
    if math.isnan(first[1]) or math.isnan(last[1]):
        return f"{ratio}; no interval"
    return f"{ratio}; intervals {'apart' if last[1] > first[2] or last[2] < first[1] else 'overlap'}"


def heatmap(
    values: pd.DataFrame, metric: str, part: str | None = None, model: str | None = None, *,
    rows: str = "group", columns: str | None = None,
) -> Figure:
    """Mean value by company (`rows`) and question (`columns`), one panel per model on one scale from 0 to 1.

    `part`, left out, is F1, else Score. `columns` names a column of the values frame; left out, it is the end of the triplet
    id after the last "-". A side with over 40 levels cannot be read and is drawn as one, "all 45": name a coarser column to
    see more. A cell without a scored answer is hatched. Numbers are printed while they fit: 48 columns over all panels.
    Raises InputError for a metric, part, model or column that the values do not have.
    """
    plt = _pyplot()
    import seaborn as sns

    from .stats import by_size, natural

    cell = values[values["metric"] == metric]
    part = part or ("F1" if "F1" in set(cell["part"]) else "Score")
    cell = cell[(cell["part"] == part) & (cell["model"] == model if model else True)]
    if cell.empty:
        raise InputError(f"no values of {metric} {part}{f' for {model}' if model else ''} to draw; "
                         f"there are {', '.join(values['metric'].unique())}")
    if absent := [c for c in (rows, columns) if c is not None and c not in cell]:
        raise InputError(f"no column {absent[0]!r} among the values; there are {list(cell.columns)}")
    cell = cell.assign(row=cell[rows].astype(str), column=(
        cell["triplet_id"].astype(str).str.rsplit("-", n=1).str[-1] if columns is None else cell[columns].astype(str)))
    for name in ("row", "column"):
        if (levels := cell[name].nunique()) > MAX_LEVELS:
            cell = cell.assign(**{name: f"all {levels}"})
    sides = {name: sorted(cell[name].unique(), key=natural) for name in ("row", "column")}
    models = sorted(cell["model"].unique(), key=by_size)
    with plt.rc_context({**STYLE, "hatch.color": "#B0B0B0"}):
        fig, axes = plt.subplots(1, len(models), figsize=(16, 2.2 + 0.42 * len(sides["row"])), sharey=True,
                                 squeeze=False, layout="constrained")
        for ax, name in zip(axes.flat, models, strict=True):
            grid = cell[cell["model"] == name].pivot_table("value", "row", "column", aggfunc="mean")
            grid = grid.reindex(index=sides["row"], columns=sides["column"])
            across = len(sides["column"]) * len(models)
            sns.heatmap(grid, ax=ax, vmin=0, vmax=1, cmap="viridis", fmt=".2f", linewidths=1, annot=across <= 48,
                        annot_kws={"fontsize": 11 if across <= 24 else 8}, cbar=ax is axes.flat[-1],
                        cbar_kws={"label": f"{metric} {part}, 0 to 1"})
            ax.patch.set(hatch="///", facecolor="#F2F2F2")
            ax.set_title(textwrap.fill(name, 100 // len(models)), fontsize=13)
            ax.set_ylabel({"group": "company or document"}.get(rows, rows) if ax is axes.flat[0] else "")
            ax.set_xlabel("question" if columns is None else columns)
            ax.tick_params(axis="y", rotation=0, length=0)
    plt.close(fig)
    return fig


def extraction_figure(text: str, points: Sequence[str]) -> Figure:
    """A long answer on the left, its saliency points on the right (the paper's figure 1).

    A line leads from each point to the passage that shares most of its words; a passage that no point leads to (a
    heading, a removed summary) is grey. Passages are paragraphs, or sentences when there is only one paragraph.
    """
    passages = [p for p in re.split(r"\s*\n\s*", text) if p.strip()]
    passages = re.split(r"(?<=[.!?])\s+(?=[A-Z])", passages[0]) if len(passages) == 1 else passages
    words = [set(re.findall(r"\w+", p.casefold())) for p in passages]
    origin, taken = [], Counter()
    for point in points:
        own = set(re.findall(r"\w+", point.casefold()))
        shared = [len(own & w) for w in words]
        # of equally good passages the one that this point has not come from yet: repeated points have several
        best = [k for k, count in enumerate(shared) if count and count == max(shared)]
        origin.append(min(best, key=lambda k: taken[k, point]) if best else None)
        taken[origin[-1], point] += 1
    left = [(visible(p, 900), "black" if i in origin else GREY, "-" if i in origin else ":", "")
            for i, p in enumerate(passages)]
    right = [(f"{j}  {visible(p, 260)}", BLUE, "-", "") for j, p in enumerate(points)]
    links = [(i, j, BLUE, 1.4) for j, i in enumerate(origin) if i is not None]
    titles = f"The answer: {len(text.split())} words", f"Its saliency points: {len(points)}"
    note = "Dotted: no point comes from this passage (a heading, a removed summary, or left out by the judge)."
    return _columns_figure(titles, left, right, links, [note])


def alignment_figure(result: EMSResult) -> Figure:
    """Reference points left, answer points right, a line per match coloured by its score (the paper's figure 2).

    The tag of a reference point is s_i (eq. 5): -1 when nothing matched, "?" when unscored; that of an answer point
    is s_j (eq. 7). The three metrics stand below with their arithmetic. Long lists are cut, with a count.
    """
    plt = _pyplot()
    scale = plt.get_cmap("viridis_r")

    def shade(score: float) -> Any:
        return scale(0.25 + 0.7 * score)
    left, links, used = [], [], set()
    for m, point in zip(result.matches, result.ref_points, strict=True):
        tag = "?" if m.answer is None else "-1" if m.answer == -1 else "?" if m.score is None else f"{m.score:.2f}"
        edge = GREY if tag == "?" else RED if tag == "-1" else shade(m.score)
        left.append((f"{m.ref}  {visible(point, 260)}", edge, ":" if tag == "?" else "--" if tag == "-1" else "-", tag))
        if m.answer is not None and m.answer >= 0:
            used.add(m.answer)
            links.append((m.ref, m.answer, edge, 1.2 + 2.2 * (m.score or 0)))
    right = []
    for j, point in enumerate(result.ans_points):
        score = result.ans_score[j] if result.ans_score else None
        edge = RED if j not in used else GREY if score is None else shade(score)
        tag = "?" if score is None else f"{score:.2f}"
        right.append((f"{j}  {visible(point, 260)}", edge, "-" if j in used else "--", tag))
    notes = [*_arithmetic(result), "Dashed: no match. Dotted, ?: unscored. Darker and thicker: higher score."]
    titles = f"Reference: {len(left)} points", f"Answer of {visible(result.model, 60)}: {len(right)} points"
    return _columns_figure(titles, left, right, links, notes)


def _columns_figure(
    titles: tuple[str, str], left: Sequence[tuple], right: Sequence[tuple], links: Sequence[tuple], notes: list[str]
) -> Figure:
    """Two columns of boxes (text, edge colour, line style, tag) joined by links (left, right, colour, width)."""
    plt = _pyplot()
    from matplotlib.patches import FancyBboxPatch

    shown_left = list(range(min(len(left), MAX_BOXES)))
    linked = sorted({j for i, j, *_ in links if i in shown_left})[:MAX_BOXES]
    spare = [j for j in range(len(right)) if j not in linked][: MAX_BOXES - len(linked)]
    sides = [(left, shown_left, 0.3, 6.35), (right, sorted(linked + spare), 9.65, 9.65)]
    with plt.rc_context(STYLE):
        boxes, bottoms = [], []
        for column, shown, x, tag_x in sides:
            y, middles = 0.85, {}
            for i in shown:
                lines = _wrap(column[i][0], 5.75)
                height = 0.2 * len(lines) + 0.2
                boxes.append((x, y, height, lines, column[i], tag_x))
                middles[i] = y + height / 2
                y += height + 0.14
            bottoms.append((y, len(column) - len(shown), middles))
        foot = max(y + (0.3 if rest else 0) for y, rest, _ in bottoms) + 0.2
        notes = [line for note in notes for line in _wrap(note, 15.2, 12)]
        height = foot + 0.24 * len(notes) + 0.2
        fig = plt.figure(figsize=(16, height))
        ax: Axes = fig.add_axes((0, 0, 1, 1), xlim=(0, 16), ylim=(height, 0))
        ax.axis("off")
        for (_, _, x, _), title, (y, rest, middles) in zip(sides, titles, bottoms, strict=True):
            ax.text(x, 0.5, title, fontsize=14, fontweight="bold", va="center")
            if rest or not middles:
                left_out = f"… and {rest} more, not drawn" if rest else "no points"
                ax.text(x, y + 0.05, left_out, style="italic", va="center")
        for x, y, tall, lines, (_, edge, style, tag), tag_x in boxes:
            ax.add_patch(FancyBboxPatch(
                (x + 0.05, y), 5.95, tall, boxstyle="round,pad=0,rounding_size=0.08", linewidth=1.8, linestyle=style,
                edgecolor=edge, facecolor="white", zorder=2))
            ax.text(x + 0.15, y + tall / 2, "\n".join(lines), fontsize=11, va="center", linespacing=1.2, zorder=3,
                    color=GREY if edge == GREY else "black")
            if tag:
                ax.text(tag_x, y + tall / 2, tag, fontsize=12, fontweight="bold", va="center", zorder=4,
                        ha="left" if tag_x < 8 else "right", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
        for i, j, colour, width in links:
            if i in bottoms[0][2] and j in bottoms[1][2]:
                ends = (6.9, 9.1) if left[i][3] else (6.35, 9.65)
                ax.plot(ends, [bottoms[0][2][i], bottoms[1][2][j]], color=colour, linewidth=width, zorder=1)
        for k, line in enumerate(notes):
            ax.text(0.35, foot + 0.24 * k, line, fontsize=12, va="center")
    plt.close(fig)
    return fig


def _wrap(text: str, inches: float, size: float = 11) -> list[str]:
    """Lines that are at most so wide when drawn: the longest character count that fits."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(family="DejaVu Sans")))
    font.set_size(size, 72)

    def wide(line: str) -> float:
        font.set_text(line)
        return font.get_width_height()[0] / 64 / 72
    guess = int(1.1 * inches * len(text) / max(wide(text), 0.1))           # a little more than fits on average
    for count in range(max(guess, 9), 8, -2):
        lines = textwrap.wrap(text, count) or [""]
        if max(map(wide, lines)) <= inches:
            break
    return lines


# --- one answer's alignment

def _arithmetic(result: EMSResult) -> list[str]:
    """The three metrics, each with what it was divided from (eq. 6, 8 and 9)."""
    t, said = result.tally, []
    s_ref = [0.0 if a == -1 else s if a is not None else None for a, s in zip(result.match, result.score, strict=True)]
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
    for m, point in zip(result.matches, ref, strict=True):
        matched = m.answer is not None and m.answer >= 0
        tag = "no match" if m.answer == -1 else "unscored" if m.answer is None or m.score is None else f"{m.score:.2f}"
        rows.append((m.ref, point, tag, m.answer if matched else None, ans[m.answer] if matched else ""))
    chosen = {m.answer for m in result.matches}
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
