"""Figures of a run's values: metrics against model size, heat map; and how all figures look.

They load matplotlib when they are called. Text from outside is made safe to show (`results.display.visible`).
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from io import BytesIO
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

from ...io import write_file
from ...results.display import visible
from ...stats import METRICS, by_size, natural
from ...types import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100                      # figures are 16 inches wide: 1600 pixels
# Okabe and Ito's palette and two of Tol's, told apart with any colour vision. One meaning a colour:
#          of metrics (`colour_of`)             of points
# BLUE     EMS with a judge                     in the reference and in the answer
# GREEN    EMS without a judge                  in the answer and in its document, not in the reference
# ORANGE   whole texts compared                 -
# PINK     RAGChecker                           -
# RED      -                                    without a match, or without support
# GREY     no metric: length, an annotator      unscored
# SERIES are what a figure's legend says.
BLUE, GREEN, ORANGE, RED, PINK, GREY = "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#767676"
DARK_GREEN = "#004D38"         # of two forms of EMS without a judge, the one of single points
SERIES = (("black", "o"), ("#999933", "s"), ("#882255", "^"), ("#AA4499", "D"))          # colour, marker
STYLE = {"font.family": "DejaVu Sans", "font.size": 12, "text.parse_math": False, "axes.spines.top": False,
         "axes.spines.right": False, "axes.titlelocation": "left", "axes.titleweight": "bold",
         "figure.facecolor": "white", "hatch.color": "#B0B0B0", "text.hinting": "no_hinting"}
P = ParamSpec("P")


def colour_of(metric: str, judged: bool = False) -> str:
    """The colour of a metric; `judged`: EMS with a scorer by name, as EMS(ROUGE), has a judge's points."""
    if metric.startswith("EMS"):
        by_judge = "(LLM" in metric or judged and not metric.startswith(("EMS(local", "EMS-"))
        return BLUE if by_judge else GREEN
    return PINK if metric == "RAGChecker" else ORANGE


def pyplot() -> Any:
    """matplotlib.pyplot; InputError when it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError("figures need matplotlib and seaborn: pip install matplotlib seaborn") from error
    return plt


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a function draw its figure in `STYLE`; the figure is the caller's, pyplot keeps no hold of it."""
    @wraps(draw)
    def drawn(*args: P.args, **settings: P.kwargs) -> Figure:
        plt = pyplot()
        with plt.rc_context(STYLE):
            fig = draw(*args, **settings)
        plt.close(fig)
        return fig
    return drawn


def panels(columns: int, height: float, title: str = "", *, width: float = 16, **shared: Any
           ) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches with so many panels a row; `shared` is of `pyplot.subplots`."""
    fig, axes = pyplot().subplots(ncols=columns, figsize=(width, height), squeeze=False, layout="constrained",
                                  **shared)
    fig.suptitle(title, x=0.01, ha="left", fontsize=14)
    return fig, list(axes.flat)


def save(fig: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as PNG, 100 dots per inch; equal input gives equal bytes."""
    buffer = BytesIO()
    with pyplot().rc_context(STYLE):
        if (layout := fig.get_layout_engine()) is not None:
            layout.execute(fig)                    # here, since savefig would draw everything twice for it
            fig.set_layout_engine(None)
        fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return write_file(Path(path), buffer.getvalue())


# --- metrics against model size ---

@styled
def scaling_figure(summary: pd.DataFrame, sizes: Mapping[str, float | str],
                   paired: pd.DataFrame | None = None) -> Figure:
    """A panel per metric: each model's F1 or Score and 95 % interval, on a scale of the panel's own from 0.

    `sizes` maps models to billions of parameters (logarithmic axis) or, in order, to labels. `paired` is
    `stats.paired_table`'s frame. InputError for a model that the summary does not have.
    """
    known = set(summary["model"])
    if not sizes or any(model not in known for model in sizes):
        raise InputError(f"sizes must name models of the summary, {sorted(known)}; got {list(sizes)}")
    numbers = all(isinstance(size, Real) for size in sizes.values())
    if numbers:
        sizes = dict(sorted(sizes.items(), key=lambda item: item[1]))
    present = set(summary["metric"])
    metrics = [m for m in METRICS if m in present] + sorted(present - set(METRICS))
    columns = min(3, len(metrics))
    rows = math.ceil(len(metrics) / columns)
    fig, axes = panels(columns, 1.4 + 3.4 * rows, "Which metrics distinguish the systems? Mean and 95 % "
                       "interval; each panel has its own scale, from 0", nrows=rows, sharex=True)
    for ax, metric in zip(axes, metrics, strict=False):
        part, cell = _main_part(summary, metric)
        values = cell.set_index("model")[["value", "ci_low", "ci_high"]].astype(float).reindex(list(sizes))
        colour = colour_of(metric, "EMS(LLM)" in present)
        ax.set_title(metric if part == "Score" else f"{metric} {part}", color=colour, fontsize=14, pad=24)
        ax.text(0, 1.02, _comparison(values, _p_of_ends(paired, metric, part, list(sizes))),
                transform=ax.transAxes, fontsize=11, va="bottom")
        _draw_values(ax, values, list(sizes.values()), colour, numbers)
    for ax in axes[len(metrics):]:
        ax.set_visible(False)
    fig.set_layout_engine("constrained", h_pad=0.1)      # inches: between title and panels, and rows
    fig.supxlabel("model size, billions of parameters (log scale)" if numbers else "system")
    fig.supylabel("value of the metric")
    return fig


def _main_part(frame: pd.DataFrame, metric: str) -> tuple[str, pd.DataFrame]:
    """The part of a metric that figures show, F1 or else Score, and its rows."""
    rows = frame[frame["metric"] == metric]
    part = "F1" if "F1" in set(rows["part"]) else "Score"
    return part, rows[rows["part"] == part]


def _p_of_ends(paired: pd.DataFrame | None, metric: str, part: str, models: Sequence[str]) -> float | None:
    """Holm's p of the last against the first model; nan where they were not tested, None without a table."""
    if paired is None:
        return None
    ends = [models[0], models[-1]]
    row = paired[(paired["metric"] == metric) & (paired["part"] == part)
                 & paired["a"].isin(ends) & paired["b"].isin(ends)]
    return float(row["p_holm"].iloc[0]) if len(row) else math.nan


def _comparison(values: pd.DataFrame, p: float | None) -> str:
    """The last model against the first, in words; `p` as of `_p_of_ends`."""
    first, last = (values.iloc[end] for end in (0, -1))
    if math.isnan(first["value"] + last["value"]):
        return "nothing to compare with"
    change = f"{first['value']:.3f} → {last['value']:.3f}"
    if first["value"] > 0 and not first["ci_low"] <= 0:      # a ratio to what may be 0 says nothing
        ratio = last["value"] / first["value"]
        change += f", ×{ratio:.0f}" if ratio >= 10 else f", ×{ratio:.2f}"
    if p is not None:
        evidence = ("no paired test" if math.isnan(p)
                    else "p (Holm) < 0.001" if p < 0.001 else f"p (Holm) = {p:.2g}")
    elif math.isnan(first["ci_low"] + last["ci_low"]):
        evidence = "no interval"
    else:
        apart = last["ci_low"] > first["ci_high"] or last["ci_high"] < first["ci_low"]
        evidence = f"intervals {'apart' if apart else 'overlap'}"
    return f"{change}; {evidence}"


def _draw_values(ax: Axes, values: pd.DataFrame, sizes: Sequence[Any], colour: str, numbers: bool) -> None:
    """Values with their intervals, and the models along the bottom: by size if sizes are `numbers`."""
    from matplotlib.patheffects import withStroke

    places = [float(size) for size in sizes] if numbers else range(len(sizes))
    for x, (value, low, high) in zip(places, values.to_numpy(), strict=True):
        if math.isnan(value):
            continue
        bars = None if math.isnan(low) else [[max(0, value - low)], [max(0, high - value)]]
        ax.errorbar(x, value, yerr=bars, color=colour, marker="o", capsize=4, linewidth=1.8, zorder=3,
                    clip_on=False)             # a value of 0 is on the edge
        ax.annotate(f"{value:.3f}", (x, value), xytext=(8, 3), textcoords="offset points", fontsize=11,
                    zorder=4, path_effects=[withStroke(linewidth=3, foreground="white")])    # read over lines
    if numbers:
        ax.plot(places, values["value"], color=colour, linewidth=2, zorder=2)
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(places, [f"{size:g}" for size in sizes], fontsize=12)
    else:
        width = max(8, 60 // len(sizes))
        ax.set_xticks(places, [textwrap.fill(str(label), width) for label in sizes], fontsize=10)
    highest = values.max(axis=None)
    ax.set_ylim(0, 1.12 * highest if highest > 0 else 1)
    ax.tick_params(axis="x", labelbottom=True)
    ax.margins(x=0.22)


# --- heat map ---

MAX_LEVELS = 40                # rows or columns of a heat map that can still be read
COLOUR_STEP = 0.05             # the ends of the colour scale are multiples of it


@styled
def heatmap(values: pd.DataFrame, metric: str, models: Collection[str] | None = None, *,
            rows: str = "group", columns: str | None = None) -> Figure:
    """Mean F1, or else Score, by company (`rows`) and question (`columns`); a panel per model, one scale.

    Left out, `models` are all, by size; `columns` is the end of the triplet id after the last "-". `models`
    may be `scaling_figure`'s sizes: then their labels are the titles. A side with over 40 levels is drawn as
    one, "all 45". A cell without a scored answer is hatched. InputError for a metric, model or column that
    the values do not have.
    """
    import seaborn as sns

    titles = models if isinstance(models, Mapping) else {}
    part, cell = _main_part(values, metric)
    known = sorted(cell["model"].unique(), key=by_size)
    models = known if models is None else list(models)
    if strange := [m for m in models if m not in known]:
        raise InputError(f"no values of {metric} {part} for {strange[0]} to draw; "
                         f"there are {', '.join(known) or 'none'}")
    if not models:
        raise InputError(f"no values of {metric} {part} to draw; "
                         f"there are {', '.join(values['metric'].unique())}")
    if absent := [c for c in (rows, columns) if c is not None and c not in cell]:
        raise InputError(f"no column {absent[0]!r} among the values; there are {list(cell.columns)}")
    grid = _means(cell[cell["model"].isin(models)], models, rows, columns)
    low, high = _colour_range(grid)
    fig, axes = panels(len(models), 2.2 + 0.42 * len(grid), sharey=True)
    across = grid.shape[1]
    for ax, model in zip(axes, models, strict=True):
        sns.heatmap(grid[model], ax=ax, vmin=low, vmax=high, cmap="viridis", fmt=".2f", linewidths=1,
                    annot=across <= 48, annot_kws={"fontsize": 11 if across <= 24 else 9},
                    cbar=ax is axes[-1],
                    cbar_kws={"label": f"{metric} {part}, colours from {low:.2f} to {high:.2f}"})
        ax.patch.set(hatch="///", facecolor="#F2F2F2")
        title = label if isinstance(label := titles.get(model), str) else model
        ax.set_title(textwrap.fill(visible(title, 200), 120 // len(models)), fontsize=13)
        ax.set_ylabel({"group": "company or document"}.get(rows, rows) if ax is axes[0] else "")
        ax.set_xlabel("question" if columns is None else columns)
        ax.tick_params(axis="y", rotation=0, length=0)
    return fig


def _means(cell: pd.DataFrame, models: Sequence[str], rows: str, columns: str | None) -> pd.DataFrame:
    """Mean values by row, and by model and column; nan where nothing was scored."""
    header = cell["triplet_id"].str.rsplit("-", n=1).str[-1] if columns is None else cell[columns]
    cell = cell.assign(row=cell[rows].astype(str), column=header.astype(str))
    for side in ("row", "column"):
        if (levels := cell[side].nunique()) > MAX_LEVELS:
            cell[side] = f"all {levels}"
    index, header = (sorted(cell[side].unique(), key=natural) for side in ("row", "column"))
    means = cell.groupby(["row", "model", "column"])["value"].mean().unstack(["model", "column"])
    return means.reindex(index=index).reindex(columns=[(m, h) for m in models for h in header])


def _colour_range(means: pd.DataFrame) -> tuple[float, float]:
    """Ends of the colour scale: the least and greatest mean, rounded outwards; 0 to 1 where there is none."""
    least, greatest = means.min(axis=None), means.max(axis=None)
    if math.isnan(least):
        return 0.0, 1.0
    # rounded first: 0.3 / 0.05 is a little less than 6
    low = math.floor(round(least / COLOUR_STEP, 9)) * COLOUR_STEP
    high = math.ceil(round(greatest / COLOUR_STEP, 9)) * COLOUR_STEP
    return low, max(high, low + COLOUR_STEP)
