"""Figures of notebooks 03 and 04: metrics against model size, heat map, extraction, alignment; and the look of them all.

They load matplotlib when they are called. Text from outside is made safe to show by `report.visible`.
"""

from __future__ import annotations

import math
import os
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io import write_file
from ..report import _arithmetic, visible
from ..types import EMSResult, InputError

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
MOST = 4.0                     # times the first model's value: where one rises further, all are drawn on a logarithmic scale
MAX_BOXES = 14                 # points per side of a figure


def save(fig: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, 100 dots per inch, without date or version: equal input gives equal bytes."""
    import io

    buffer = io.BytesIO()
    with _pyplot().rc_context(STYLE):
        fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return write_file(Path(path), buffer.getvalue())


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError("figures need matplotlib and seaborn: pip install matplotlib seaborn") from error
    return plt


def scaling_figure(
    summary: pd.DataFrame, sizes: Mapping[str, float | str], parts: Mapping[str, str] | None = None,
    paired: pd.DataFrame | None = None,
) -> Figure:
    """Who notices model size: one panel per metric, its value relative to the first model's, the others in grey.

    `sizes` maps models to billions of parameters (a logarithmic axis) or, in order, to labels (an ordinal one, when
    the models are no size family). `parts` picks a part per metric; left out, F1, else Score. Bars are the 95 %
    intervals divided by the first model's value; numbers at the points are the values themselves; the line under a
    title gives the ratio last to first, and from `paired` (`stats.paired_table`) Holm's p of their difference over the
    triplets both have a value for; left out, it says whether their two intervals touch. Where a value is over four times
    the first, ratios are drawn on a logarithmic scale; a filled arrow at its foot is a value of 0. An open arrow at an edge
    is a bar that was cut there. Where the first value is 0 there is nothing to divide by: the values stand in the panel as
    numbers.
    """
    plt = _pyplot()
    from matplotlib.patheffects import withStroke

    from ..stats import METRICS

    have = summary.set_index(["metric", "part", "model"])
    if not sizes or any(m not in set(summary["model"]) for m in sizes):
        raise InputError(f"sizes must name models of the summary, {sorted(set(summary['model']))}; got {list(sizes)}")
    billions = all(isinstance(size, Real) for size in sizes.values())
    models = sorted(sizes, key=sizes.__getitem__) if billions else list(sizes)
    labels = [f"{sizes[m]:g}" if billions else str(sizes[m]) for m in models]
    x = [float(sizes[m]) for m in models] if billions else list(range(len(models)))
    known = [m for m in METRICS if m in set(summary["metric"])] + sorted(set(summary["metric"]) - set(METRICS))
    lines, tested = {}, {}
    for metric in known:
        offered = set(summary.loc[summary["metric"] == metric, "part"])
        part = (parts or {}).get(metric, "F1" if "F1" in offered else "Score")
        if part not in offered:
            raise InputError(f"{metric} has no part {part!r} in the summary; it has {', '.join(sorted(offered))}")
        cells = [have.loc[(metric, part, m)] if (metric, part, m) in have.index else None for m in models]
        name = metric if part == "Score" else f"{metric} {part}"
        if paired is not None:
            row = paired[(paired["metric"] == metric) & (paired["part"] == part)
                         & paired["a"].isin([models[0], models[-1]]) & paired["b"].isin([models[0], models[-1]])]
            tested[name] = float(row["p_holm"].iloc[0]) if len(row) else math.nan
        lines[name] = [
            (math.nan,) * 3 if c is None else tuple(map(float, c[["value", "ci_low", "ci_high"]])) for c in cells]
    relative = {name: [[v / line[0][0] for v in point] for point in line]
                for name, line in lines.items() if line[0][0] > 0}
    centres = [p[0] for line in relative.values() for p in line if math.isfinite(p[0])] or [1.0]
    ends = [end for line in relative.values() for p in line for end in p if math.isfinite(end)] or [1.0]
    steep = max(centres) > MOST
    # a very wide interval is cut rather than flatten the rest
    if steep:
        bottom = max(min(*centres, *ends), min(c for c in centres if c > 0) / MOST)
        top = min(max(*centres, *ends), max(centres) * MOST)
    else:
        span = max(max(centres) - min(centres), 0.2)
        bottom, top = max(min(ends), min(centres) - span), min(max(ends), max(centres) + span)
    columns, cut, zero = min(4, len(lines)), False, False
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
            ax.text(0, 1.02, _verdict(line, tested.get(name)), transform=ax.transAxes, fontsize=11, va="bottom")
            if name not in relative:
                values = [f"{label}: {p[0]:.3f}".replace("nan", "–") for label, p in zip(labels, line, strict=True)]
                ax.text(0.5, 0.5, "\n".join(values), transform=ax.transAxes, ha="center", va="center", color=colour, zorder=4,
                        fontsize=11, linespacing=1.6, path_effects=[withStroke(linewidth=3, foreground="white")])
            for k, (at, value, mine) in enumerate(zip(x, line, relative.get(name, []), strict=False)):
                low, high = max(mine[1], bottom), min(mine[2], top)
                beyond = mine[0] < bottom                      # 0 on a logarithmic scale: an arrow at its foot
                here = bottom if beyond else mine[0]
                bars = None if math.isnan(mine[1]) else [[max(0, here - low)], [max(0, high - here)]]
                ax.errorbar(at, here, yerr=bars, color=colour, marker="v" if beyond else "o", capsize=4, linewidth=1.8, zorder=3)
                for edge, mark, past in ((top, "^", mine[2] > top), (bottom, "v", mine[1] < bottom and not beyond)):
                    if past:
                        ax.plot(at, edge, mark, color=colour, markerfacecolor="white", markersize=9, zorder=3)
                        cut = True
                zero |= beyond
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
        if steep:
            axes[0, 0].set_yscale("log", base=4)
            axes[0, 0].yaxis.set_major_formatter("{x:g}")
            axes[0, 0].set_ylim(bottom / 1.3, top * 1.2)
        else:
            axes[0, 0].set_ylim(bottom - 0.08 * span, top + 0.05 * span)
        first = f"the {labels[0]} B model" if billions else labels[0]
        fig.suptitle(f"Which metric tells the models apart? Value relative to {first}, 95 % intervals; "
                     "the other metrics in grey", x=0.01, ha="left", fontsize=14)
        edge = ("; ▼ value of 0" if zero else "") + ("; △ ▽ interval beyond the edge" if cut else "")
        fig.supxlabel(f"{'model size, billions of parameters (log scale)' if billions else 'model'}{edge}")
        fig.supylabel(f"value ÷ value of the first model{' (log scale)' if steep else ''}")
    plt.close(fig)
    return fig


def _verdict(line: list[tuple[float, float, float]], p: float | None = None) -> str:
    first, last = line[0], line[-1]
    if math.isnan(first[0]) or math.isnan(last[0]):
        return "nothing to compare with"
    if first[0] <= 0:
        return f"{first[0]:.3f} → {last[0]:.3f}: no ratio to 0"
    ratio = f"{first[0]:.3f} → {last[0]:.3f}, ×{last[0] / first[0]:.2f}"
    if p is not None:
        return f"{ratio}; no paired test" if math.isnan(p) else f"{ratio}; paired p {'< 0.001' if p < 0.001 else f'= {p:.2g}'}"
    if math.isnan(first[1]) or math.isnan(last[1]):
        return f"{ratio}; no interval"
    return f"{ratio}; intervals {'apart' if last[1] > first[2] or last[2] < first[1] else 'overlap'}"


def heatmap(
    values: pd.DataFrame, metric: str, part: str | None = None, models: Sequence[str] | None = None, *,
    rows: str = "group", columns: str | None = None,
) -> Figure:
    """Mean value by company (`rows`) and question (`columns`), one panel per model on one scale from 0 to 1.

    `part`, left out, is F1, else Score. `models` names the panels in order; left out, it is all models by size. `columns`
    names a column of the values frame; left out, it is the end of the triplet id after the last "-". A side with over 40
    levels cannot be read and is drawn as one, "all 45": name a coarser column to see more. A cell without a scored answer
    is hatched. Numbers are printed while they fit: 48 columns over all panels.
    Raises InputError for a metric, part, model or column that the values do not have.
    """
    plt = _pyplot()
    import seaborn as sns

    from ..stats import by_size, natural

    cell = values[values["metric"] == metric]
    part = part or ("F1" if "F1" in set(cell["part"]) else "Score")
    cell = cell[cell["part"] == part]
    known = sorted(cell["model"].unique(), key=by_size)
    models = known if models is None else list(models)
    if strange := [m for m in models if m not in known]:
        raise InputError(f"no values of {metric} {part} for {strange[0]} to draw; there are {', '.join(known) or 'none'}")
    cell = cell[cell["model"].isin(models)]
    if cell.empty:
        raise InputError(f"no values of {metric} {part} to draw; "
                         f"there are {', '.join(values['metric'].unique())}")
    if absent := [c for c in (rows, columns) if c is not None and c not in cell]:
        raise InputError(f"no column {absent[0]!r} among the values; there are {list(cell.columns)}")
    cell = cell.assign(row=cell[rows].astype(str), column=(
        cell["triplet_id"].astype(str).str.rsplit("-", n=1).str[-1] if columns is None else cell[columns].astype(str)))
    for name in ("row", "column"):
        if (levels := cell[name].nunique()) > MAX_LEVELS:
            cell = cell.assign(**{name: f"all {levels}"})
    sides = {name: sorted(cell[name].unique(), key=natural) for name in ("row", "column")}
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
    for i, (point, j, s) in enumerate(zip(result.ref_points, result.match, result.score, strict=True)):
        tag = "?" if j is None else "-1" if j == -1 else "?" if s is None else f"{s:.2f}"
        edge = GREY if tag == "?" else RED if tag == "-1" else shade(s or 0)
        left.append((f"{i}  {visible(point, 260)}", edge, ":" if tag == "?" else "--" if tag == "-1" else "-", tag))
        if j is not None and j >= 0:
            used.add(j)
            links.append((i, j, edge, 1.2 + 2.2 * (s or 0)))
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
        heads = [_wrap(title, 5.95, 15.5) for title in titles]       # bold is wider
        top = 0.85 + 0.26 * (max(map(len, heads)) - 1)
        boxes, bottoms = [], []
        for column, shown, x, tag_x in sides:
            y, middles = top, {}
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
        for (_, _, x, _), head, (y, rest, middles) in zip(sides, heads, bottoms, strict=True):
            ax.text(x, top - 0.22, "\n".join(head), fontsize=14, fontweight="bold", va="bottom", linespacing=1.2)
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
