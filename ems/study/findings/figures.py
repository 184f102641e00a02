"""Figures of a run's values: metrics against model size, heat map; and how all figures look.

They load matplotlib when they are called. Text from outside is made safe to show by `report.visible`.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
         "figure.facecolor": "white", "text.hinting": "no_hinting"}


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

Point = tuple[float, float, float]     # value and the ends of its 95 % interval; nan where there is none
NO_POINT: Point = (math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class _ModelAxis:
    """The models of a scaling figure from left to right."""

    models: list[str]
    labels: list[str]
    x: list[float]
    by_size: bool              # x is billions of parameters, on a logarithmic axis; else it counts models


@dataclass(frozen=True, slots=True)
class _Panel:
    """One metric in a scaling figure: a value per model, in the order of the axis."""

    name: str
    points: list[Point]
    tested: bool               # a table of paired tests was given
    p: float                   # Holm's p of last against first model; nan = not tested
    colour: str

    @property
    def comparison(self) -> str:
        """The last model against the first, in words."""
        first, last = self.points[0], self.points[-1]
        if math.isnan(first[0]) or math.isnan(last[0]):
            return "nothing to compare with"
        change = f"{first[0]:.3f} → {last[0]:.3f}"
        if first[0] > 0 and not first[1] <= 0:      # a ratio to what may be 0 says nothing
            ratio = last[0] / first[0]
            change += f", ×{ratio:.0f}" if ratio >= 10 else f", ×{ratio:.2f}"
        if self.tested:
            evidence = ("no paired test" if math.isnan(self.p)
                        else "p (Holm) < 0.001" if self.p < 0.001 else f"p (Holm) = {self.p:.2g}")
        elif math.isnan(first[1]) or math.isnan(last[1]):
            evidence = "no interval"
        else:
            evidence = f"intervals {'apart' if last[1] > first[2] or last[2] < first[1] else 'overlap'}"
        return f"{change}; {evidence}"


def scaling_figure(summary: pd.DataFrame, sizes: Mapping[str, float | str],
                   parts: Mapping[str, str] | None = None, paired: pd.DataFrame | None = None) -> Figure:
    """A panel per metric: each model's value and 95 % interval, on a scale of the panel's own from 0.

    `sizes` maps models to billions of parameters (logarithmic axis) or, in order, to labels. `parts` picks a
    part per metric; left out, F1, else Score. `paired` is `stats.paired_table`'s frame. InputError for a
    model or a part that the summary does not have.
    """
    plt = pyplot()
    axis = _model_axis(summary, sizes)
    present = set(summary["metric"])
    metrics = [m for m in METRICS if m in present] + sorted(present - set(METRICS))
    panels = [_panel(summary, metric, axis.models, parts or {}, paired) for metric in metrics]
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    with plt.rc_context(STYLE):
        fig, grid = plt.subplots(rows, columns, figsize=(16, 1.4 + 3.4 * rows), sharex=True, squeeze=False,
                                 layout="constrained")
        for ax, panel in zip(grid.flat, panels, strict=False):
            _draw_panel(ax, axis, panel)
        for ax in grid.flat[len(panels):]:
            ax.set_visible(False)
        fig.get_layout_engine().set(h_pad=0.1)               # inches: between title and panels, and rows
        fig.suptitle("Which metrics distinguish the systems? Mean and 95 % interval; each panel has its own "
                     "scale, from 0", x=0.01, ha="left", fontsize=14)
        fig.supxlabel("model size, billions of parameters (log scale)" if axis.by_size else "system")
        fig.supylabel("value of the metric")
    plt.close(fig)
    return fig


def _model_axis(summary: pd.DataFrame, sizes: Mapping[str, float | str]) -> _ModelAxis:
    known = set(summary["model"])
    if not sizes or any(model not in known for model in sizes):
        raise InputError(f"sizes must name models of the summary, {sorted(known)}; got {list(sizes)}")
    if all(isinstance(size, Real) for size in sizes.values()):
        models = sorted(sizes, key=sizes.__getitem__)
        return _ModelAxis(models, [f"{sizes[m]:g}" for m in models], [float(sizes[m]) for m in models], True)
    return _ModelAxis(list(sizes), [str(label) for label in sizes.values()], list(range(len(sizes))), False)


def _panel(summary: pd.DataFrame, metric: str, models: Sequence[str], parts: Mapping[str, str],
           paired: pd.DataFrame | None) -> _Panel:
    cell = summary[summary["metric"] == metric]
    offered = set(cell["part"])
    part = parts.get(metric, "F1" if "F1" in offered else "Score")
    if part not in offered:
        raise InputError(f"{metric} has no part {part!r} in the summary; it has {', '.join(sorted(offered))}")
    values = cell[cell["part"] == part].set_index("model")[["value", "ci_low", "ci_high"]].astype(float)
    points = [tuple(values.loc[m]) if m in values.index else NO_POINT for m in models]
    name, p = metric if part == "Score" else f"{metric} {part}", math.nan
    if paired is not None:
        ends = [models[0], models[-1]]
        row = paired[(paired["metric"] == metric) & (paired["part"] == part)
                     & paired["a"].isin(ends) & paired["b"].isin(ends)]
        p = float(row["p_holm"].iloc[0]) if len(row) else math.nan
    judged = summary["metric"].eq("EMS(LLM)").any()
    return _Panel(name, points, paired is not None, p, colour_of(metric, judged))


def _draw_panel(ax: Axes, axis: _ModelAxis, panel: _Panel) -> None:
    """Values with their intervals; title, comparison under it, and the models along the bottom."""
    from matplotlib.patheffects import withStroke

    for x, (value, low, high) in zip(axis.x, panel.points, strict=True):
        if math.isnan(value):
            continue
        bars = None if math.isnan(low) else [[max(0, value - low)], [max(0, high - value)]]
        ax.errorbar(x, value, yerr=bars, color=panel.colour, marker="o", capsize=4, linewidth=1.8, zorder=3,
                    clip_on=False)             # a value of 0 is on the edge
        ax.annotate(f"{value:.3f}", (x, value), xytext=(8, 3), textcoords="offset points", fontsize=11,
                    zorder=4, path_effects=[withStroke(linewidth=3, foreground="white")])    # read over lines
    if axis.by_size:
        ax.plot(axis.x, [value for value, _, _ in panel.points], color=panel.colour, linewidth=2, zorder=2)
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(axis.x, axis.labels, fontsize=12)
    else:
        width = max(8, 60 // len(axis.x))
        ax.set_xticks(axis.x, [textwrap.fill(label, width) for label in axis.labels], fontsize=10)
    ends = [end for point in panel.points for end in point if math.isfinite(end)]
    ax.set_ylim(0, 1.12 * max(ends) if ends and max(ends) > 0 else 1)
    ax.set_title(panel.name, color=panel.colour, fontsize=14, pad=24)
    ax.text(0, 1.02, panel.comparison, transform=ax.transAxes, fontsize=11, va="bottom")
    ax.tick_params(axis="x", labelbottom=True)
    ax.margins(x=0.22)


# --- heat map ---

MAX_LEVELS = 40                # rows or columns of a heat map that can still be read
COLOUR_STEP = 0.05             # the ends of the colour scale are multiples of it


def heatmap(values: pd.DataFrame, metric: str, part: str | None = None, models: Collection[str] | None = None,
            *, rows: str = "group", columns: str | None = None) -> Figure:
    """Mean value by company (`rows`) and question (`columns`), one panel per model, all on one colour scale.

    Left out, `part` is F1, else Score; `models` all, by size; `columns` the end of the triplet id after the
    last "-". `models` may be `scaling_figure`'s sizes: then their labels are the titles. A side with over 40
    levels is drawn as one, "all 45". A cell without a scored answer is hatched. InputError for a metric,
    part, model or column that the values do not have.
    """
    plt = pyplot()
    import seaborn as sns

    titles = models if isinstance(models, Mapping) else {}
    part = part or ("F1" if "F1" in set(values.loc[values["metric"] == metric, "part"]) else "Score")
    models, cell = _heatmap_rows(values, metric, part, models)
    if absent := [c for c in (rows, columns) if c is not None and c not in cell]:
        raise InputError(f"no column {absent[0]!r} among the values; there are {list(cell.columns)}")
    grids = _grids(cell, models, rows, columns)
    low, high = _colour_range(grids)
    height, width = grids[0].shape
    across = width * len(models)
    with plt.rc_context({**STYLE, "hatch.color": "#B0B0B0"}):
        fig, axes = plt.subplots(1, len(models), figsize=(16, 2.2 + 0.42 * height), sharey=True,
                                 squeeze=False, layout="constrained")
        for ax, model, grid in zip(axes.flat, models, grids, strict=True):
            sns.heatmap(grid, ax=ax, vmin=low, vmax=high, cmap="viridis", fmt=".2f", linewidths=1,
                        annot=across <= 48, annot_kws={"fontsize": 11 if across <= 24 else 9},
                        cbar=ax is axes.flat[-1],
                        cbar_kws={"label": f"{metric} {part}, colours from {low:.2f} to {high:.2f}"})
            ax.patch.set(hatch="///", facecolor="#F2F2F2")
            title = label if isinstance(label := titles.get(model), str) else model
            ax.set_title(textwrap.fill(visible(title, 200), 120 // len(models)), fontsize=13)
            ax.set_ylabel({"group": "company or document"}.get(rows, rows) if ax is axes.flat[0] else "")
            ax.set_xlabel("question" if columns is None else columns)
            ax.tick_params(axis="y", rotation=0, length=0)
    plt.close(fig)
    return fig


def _heatmap_rows(values: pd.DataFrame, metric: str, part: str, models: Collection[str] | None
                  ) -> tuple[list[str], pd.DataFrame]:
    """The models to draw, in order, and the rows of one metric and part about them."""
    cell = values[(values["metric"] == metric) & (values["part"] == part)]
    known = sorted(cell["model"].unique(), key=by_size)
    chosen = known if models is None else list(models)
    if strange := [m for m in chosen if m not in known]:
        raise InputError(f"no values of {metric} {part} for {strange[0]} to draw; "
                         f"there are {', '.join(known) or 'none'}")
    if not chosen:
        raise InputError(f"no values of {metric} {part} to draw; "
                         f"there are {', '.join(values['metric'].unique())}")
    return chosen, cell[cell["model"].isin(chosen)]


def _grids(cell: pd.DataFrame, models: Sequence[str], rows: str, columns: str | None) -> list[pd.DataFrame]:
    """Mean values by row and column, a frame per model, all of one shape; nan where nothing was scored."""
    header = cell["triplet_id"].str.rsplit("-", n=1).str[-1] if columns is None else cell[columns]
    cell = cell.assign(row=cell[rows].astype(str), column=header.astype(str))
    for side in ("row", "column"):
        if (levels := cell[side].nunique()) > MAX_LEVELS:
            cell = cell.assign(**{side: f"all {levels}"})
    index, header = (sorted(cell[side].unique(), key=natural) for side in ("row", "column"))
    return [cell[cell["model"] == model].pivot_table("value", "row", "column", aggfunc="mean")
            .reindex(index=index, columns=header) for model in models]


def _colour_range(grids: Sequence[pd.DataFrame]) -> tuple[float, float]:
    """Ends of the colour scale: the least and greatest mean, rounded outwards; 0 to 1 where there is none."""
    means = [mean for grid in grids for mean in grid.to_numpy().ravel() if math.isfinite(mean)]
    if not means:
        return 0.0, 1.0
    # rounded first: 0.3 / 0.05 is a little less than 6
    low = math.floor(round(min(means) / COLOUR_STEP, 9)) * COLOUR_STEP
    high = math.ceil(round(max(means) / COLOUR_STEP, 9)) * COLOUR_STEP
    return low, max(high, low + COLOUR_STEP)
