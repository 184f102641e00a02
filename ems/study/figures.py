"""Figures of a run's values: metrics against model size, heat map; and how all figures look.

They load matplotlib when they are called. Text from outside is made safe to show by `report.visible`.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io import write_file
from ..report import visible
from ..stats import METRICS, by_size, natural
from ..types import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 100                      # figures are 16 inches wide: 1600 pixels
# Okabe and Ito's palette, told apart with any colour vision
BLUE, GREEN, ORANGE, RED, PINK, GREY = "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#767676"
COLOURS = {                    # of metrics, else BLUE
    "BLEU": ORANGE, "ROUGE": ORANGE, "BERTScore": ORANGE, "RAGChecker": PINK, "EMS(local)": GREEN}
STYLE = {"font.family": "DejaVu Sans", "font.size": 12, "text.parse_math": False, "axes.spines.top": False,
         "axes.spines.right": False, "axes.titlelocation": "left", "axes.titleweight": "bold",
         "figure.facecolor": "white", "text.hinting": "no_hinting"}


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
        fig.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return write_file(Path(path), buffer.getvalue())


# --- metrics against model size ---

STEEP = 4.0                    # times the first model's value: above it the scale is logarithmic
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

    @property
    def relative(self) -> list[Point]:
        """The points divided by the first model's value; none where that is 0 or missing."""
        first = self.points[0][0]
        return [(v / first, low / first, high / first) for v, low, high in self.points] if first > 0 else []

    @property
    def colour(self) -> str:
        return COLOURS.get(self.name.split(" ", 1)[0], BLUE)

    @property
    def comparison(self) -> str:
        """The last model against the first, in words."""
        first, last = self.points[0], self.points[-1]
        if math.isnan(first[0]) or math.isnan(last[0]):
            return "nothing to compare with"
        change = f"{first[0]:.3f} → {last[0]:.3f}"
        if first[0] <= 0:
            return f"{change}: no ratio to 0"
        if self.tested:
            evidence = ("no paired test" if math.isnan(self.p)
                        else "paired p < 0.001" if self.p < 0.001 else f"paired p = {self.p:.2g}")
        elif math.isnan(first[1]) or math.isnan(last[1]):
            evidence = "no interval"
        else:
            evidence = f"intervals {'apart' if last[1] > first[2] or last[2] < first[1] else 'overlap'}"
        return f"{change}, ×{last[0] / first[0]:.2f}; {evidence}"


@dataclass(frozen=True, slots=True)
class _RatioAxis:
    """The common vertical axis: what it shows, and where longer intervals are cut."""

    bottom: float
    top: float
    steep: bool                # logarithmic
    span: float = 0.0          # of the values; what a margin is measured by on a linear axis


def scaling_figure(summary: pd.DataFrame, sizes: Mapping[str, float | str],
                   parts: Mapping[str, str] | None = None, paired: pd.DataFrame | None = None) -> Figure:
    """A panel per metric, values and 95 % intervals relative to the first model; the other metrics in grey.

    `sizes` maps models to billions of parameters (logarithmic axis) or, in order, to labels. `parts` picks a
    part per metric; left out, F1, else Score. `paired` is `stats.paired_table`'s frame. A metric whose first
    value is 0 stands as numbers. InputError for a model or a part that the summary does not have.
    """
    plt = pyplot()
    axis = _model_axis(summary, sizes)
    present = set(summary["metric"])
    metrics = [m for m in METRICS if m in present] + sorted(present - set(METRICS))
    panels = [_panel(summary, metric, axis.models, parts or {}, paired) for metric in metrics]
    ratios = _ratio_axis([panel.relative for panel in panels])
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    with plt.rc_context(STYLE):
        fig, grid = plt.subplots(rows, columns, figsize=(16, 1.8 + 3.6 * rows), sharex=True, sharey=True,
                                 squeeze=False, layout="constrained")
        marks: set[str] = set()
        for ax, panel in zip(grid.flat, panels, strict=False):
            _draw_all_metrics(ax, axis, panels, panel)
            for k in range(len(panel.relative)):
                marks |= _draw_point(ax, axis.x[k], panel, k, ratios)
            if not panel.relative:
                _write_values(ax, axis, panel)
            _finish_panel(ax, axis, panel)
        for ax in grid.flat[len(panels):]:
            ax.set_visible(False)
        _finish_figure(fig, grid[0, 0], axis, ratios, marks)
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
    return _Panel(name, points, paired is not None, p)


def _ratio_axis(lines: Sequence[Sequence[Point]]) -> _RatioAxis:
    """An axis that shows every value; a very wide interval is cut rather than flatten the rest."""
    points = [point for line in lines for point in line]
    values = [value for value, _, _ in points if math.isfinite(value)] or [1.0]
    ends = [end for point in points for end in point if math.isfinite(end)] or [1.0]
    if max(values) > STEEP:
        bottom = max(min(ends), min(v for v in values if v > 0) / STEEP)
        return _RatioAxis(bottom, min(max(ends), max(values) * STEEP), True)
    span = max(max(values) - min(values), 0.2)
    return _RatioAxis(max(min(ends), min(values) - span), min(max(ends), max(values) + span), False, span)


def _draw_all_metrics(ax: Axes, axis: _ModelAxis, panels: Sequence[_Panel], panel: _Panel) -> None:
    """This panel's line in colour, the others in grey behind it; dashes, not lines, without sizes."""
    ax.axhline(1, color="black", linewidth=0.8, linestyle=":")
    for other in panels:
        look: dict[str, Any] = {"color": "#D0D0D0", "zorder": 1, "marker": "" if axis.by_size else "_"}
        if other is panel:
            look = {"color": panel.colour, "zorder": 2, "linewidth": 2.4}
        if other.relative:
            ax.plot(axis.x, [value for value, _, _ in other.relative], **look,
                    linestyle="-" if axis.by_size else "")


def _draw_point(ax: Axes, x: float, panel: _Panel, k: int, ratios: _RatioAxis) -> set[str]:
    """Model k's ratio with its interval and value; returns the marks needed, of "zero" and "cut"."""
    ratio, low, high = panel.relative[k]
    if math.isnan(ratio):
        return set()
    beyond = ratio < ratios.bottom                     # 0 on a logarithmic scale: an arrow at its foot
    y = ratios.bottom if beyond else ratio
    bars = None
    if not math.isnan(low):
        bars = [[max(0, y - max(low, ratios.bottom))], [max(0, min(high, ratios.top) - y)]]
    ax.errorbar(x, y, yerr=bars, color=panel.colour, marker="v" if beyond else "o", capsize=4, linewidth=1.8,
                zorder=3)
    cut = ([(ratios.top, "^")] * (high > ratios.top)
           + [(ratios.bottom, "v")] * (low < ratios.bottom and not beyond))
    for edge, arrow in cut:
        ax.plot(x, edge, arrow, color=panel.colour, markerfacecolor="white", markersize=9, zorder=3)
    # the number stands where no line is
    falls = k + 1 < len(panel.relative) and not panel.relative[k + 1][0] >= ratio
    ax.annotate(f"{panel.points[k][0]:.3f}", (x, y), xytext=(8, 6 if falls else -13), fontsize=11, zorder=4,
                textcoords="offset points", path_effects=_halo())
    return ({"zero"} if beyond else set()) | ({"cut"} if cut else set())


def _write_values(ax: Axes, axis: _ModelAxis, panel: _Panel) -> None:
    """The values as numbers, for a metric that has no ratio to its first one."""
    values = [f"{label}: {value:.3f}".replace("nan", "–")
              for label, (value, _, _) in zip(axis.labels, panel.points, strict=True)]
    ax.text(0.5, 0.5, "\n".join(values), transform=ax.transAxes, ha="center", va="center", color=panel.colour,
            zorder=4, fontsize=11, linespacing=1.6, path_effects=_halo())


def _halo() -> list[Any]:
    """A white rim, so that text can be read over lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground="white")]


def _finish_panel(ax: Axes, axis: _ModelAxis, panel: _Panel) -> None:
    """Title, comparison under it, and the models along the bottom."""
    ax.set_title(panel.name, color=panel.colour, fontsize=14, pad=24)
    ax.text(0, 1.02, panel.comparison, transform=ax.transAxes, fontsize=11, va="bottom")
    if axis.by_size:
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(axis.x, axis.labels, fontsize=12)
    else:
        width = max(8, 40 // len(axis.x))
        ax.set_xticks(axis.x, [textwrap.fill(label, width) for label in axis.labels], fontsize=9)
    ax.tick_params(axis="x", labelbottom=True)
    ax.margins(x=0.22)


def _finish_figure(fig: Figure, ax: Axes, axis: _ModelAxis, ratios: _RatioAxis, marks: set[str]) -> None:
    """The common vertical axis and the words around the panels."""
    if ratios.steep:
        ax.set_yscale("log", base=4)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.set_ylim(ratios.bottom / 1.3, ratios.top * 1.2)
    else:
        ax.set_ylim(ratios.bottom - 0.08 * ratios.span, ratios.top + 0.05 * ratios.span)
    first = f"the {axis.labels[0]} B model" if axis.by_size else axis.labels[0]
    fig.suptitle(f"Which metrics distinguish the models? Value relative to {first}, 95 % intervals; "
                 "the other metrics in grey", x=0.01, ha="left", fontsize=14)
    legend = "; ▼ value of 0" * ("zero" in marks) + "; △ ▽ interval beyond the edge" * ("cut" in marks)
    fig.supxlabel(f"{'model size, billions of parameters (log scale)' if axis.by_size else 'model'}{legend}")
    fig.supylabel(f"value ÷ value of the first model{' (log scale)' if ratios.steep else ''}")


# --- heat map ---

MAX_LEVELS = 40                # rows or columns of a heat map that can still be read
COLOUR_STEP = 0.05             # the ends of the colour scale are multiples of it


def heatmap(values: pd.DataFrame, metric: str, part: str | None = None, models: Sequence[str] | None = None,
            *, rows: str = "group", columns: str | None = None) -> Figure:
    """Mean value by company (`rows`) and question (`columns`), one panel per model, all on one colour scale.

    Left out, `part` is F1, else Score; `models` all, by size; `columns` the end of the triplet id after the
    last "-". A side with over 40 levels is drawn as one, "all 45". A cell without a scored answer is hatched.
    InputError for a metric, part, model or column that the values do not have.
    """
    plt = pyplot()
    import seaborn as sns

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
                        annot=across <= 48, annot_kws={"fontsize": 11 if across <= 24 else 8},
                        cbar=ax is axes.flat[-1],
                        cbar_kws={"label": f"{metric} {part}, colours from {low:.2f} to {high:.2f}"})
            ax.patch.set(hatch="///", facecolor="#F2F2F2")
            ax.set_title(textwrap.fill(visible(model, 200), 100 // len(models)), fontsize=13)
            ax.set_ylabel({"group": "company or document"}.get(rows, rows) if ax is axes.flat[0] else "")
            ax.set_xlabel("question" if columns is None else columns)
            ax.tick_params(axis="y", rotation=0, length=0)
    plt.close(fig)
    return fig


def _heatmap_rows(values: pd.DataFrame, metric: str, part: str, models: Sequence[str] | None
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
