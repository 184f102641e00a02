"""Figures of steps between models: families by their accuracy, and the systems of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .panels import (
    BLUE,
    GREEN,
    ORANGE,
    colour_of,
    dotted_line,
    error_bars,
    grid,
    interval_dots,
)

# Of families of models, in order.
_LOOKS = (
    {"color": BLUE, "marker": "o"},
    {"color": ORANGE, "marker": "s"},
    {"color": GREEN, "marker": "^"},
)


def families_figure(means: pd.DataFrame, steps: pd.DataFrame, metrics: Sequence[str]) -> Figure:
    """Models of each family, joined from small to large: a panel for each of the `metrics`.

    The tables are those of `systems.families`. The first metric is accuracy; the others are drawn
    over it, so that a metric that follows accuracy rises from left to right. A line is solid where
    the step between two models is clear.
    """
    means = means.sort_values(["family", "size", "model"])
    look_of = dict(zip(means["family"].unique(), _LOOKS, strict=False))
    tables = {}
    for metric in metrics:
        tables[metric] = means[means["metric"] == metric].set_index("model")
    accuracy, *others = metrics
    places = tables[accuracy]["value"]
    figure, axes = grid(len(metrics) + 1, 3, 2.5, "")
    _draw_accuracy(axes[0], tables[accuracy], look_of)
    _draw_steps(axes[0], places, range(len(places)), steps[steps["metric"] == accuracy], look_of)
    for ax, metric in zip(axes[1:], others, strict=False):
        rows = tables[metric].reindex(places.index)
        _draw_values(ax, places, rows, look_of)
        _draw_steps(ax, places, rows["value"], steps[steps["metric"] == metric], look_of)
        ax.set_ylabel("mean, 0 to 1")
    for ax, metric in zip(axes, metrics, strict=False):
        ax.set_title(metric)
        ax.set_xlabel(f"{accuracy}, 0 to 1")
    _draw_legend(axes[len(metrics)], look_of)
    return figure


def contrast_figure(steps: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """Hedges' g of each step between two systems, by metric, with its interval: a panel a step.

    `steps` is a table of `systems.effect_sizes`, one row a metric and step; `names` has short names
    of the systems. Every panel has a scale of its own.
    """
    metrics = list(dict.fromkeys(steps["metric"]))
    marks = [{"color": colour_of(metric), "marker": "o"} for metric in metrics]
    of_step = list(steps.groupby(["a", "b"], sort=False))
    columns = min(3, len(of_step))
    figure, axes = grid(len(of_step), columns, 0.8 + 0.22 * len(metrics), "")
    for place, (ax, ((a, b), rows)) in enumerate(zip(axes, of_step, strict=True)):
        rows = rows.set_index("metric").reindex(metrics)
        interval_dots(ax, rows, marks, ("g", "g_low", "g_high"))
        dotted_line(ax, 0)
        ax.set_title(f"{names[a]}\nminus {names[b]}")
        ax.set_yticks(range(len(metrics)), metrics if place % columns == 0 else [])
    figure.supxlabel("Hedges' g over groups, 95 % interval (dotted: 0, no difference)")
    return figure


def _draw_accuracy(ax: Any, rows: pd.DataFrame, look_of: Mapping[str, Any]) -> None:
    interval_dots(ax, rows, [look_of[family] for family in rows["family"]])
    ax.set_yticks(range(len(rows)), rows.index)


def _draw_values(
    ax: Any, places: pd.Series, rows: pd.DataFrame, look_of: Mapping[str, Any]
) -> None:
    """Draw each model's value over its place."""
    for family, models in rows.groupby("family"):
        ax.errorbar(
            places[models.index],
            models["value"],
            yerr=error_bars(models),
            linestyle="none",
            elinewidth=0.8,
            **look_of[family],
        )


def _draw_steps(
    ax: Any, x: pd.Series, y: Sequence[float], steps: pd.DataFrame, look_of: Mapping[str, Any]
) -> None:
    """Join the two models of each step; `x` and `y` are the models' places."""
    points = pd.DataFrame({"x": x, "y": y})
    for step in steps.itertuples():
        ends = points.loc[[step.b, step.a]]
        style = "-" if step.clear else ":"
        ax.plot(ends["x"], ends["y"], color=look_of[step.family]["color"], linestyle=style)


def _draw_legend(ax: Any, look_of: Mapping[str, Any]) -> None:
    """Fill a panel with what markers and lines mean."""
    handles = [Line2D([], [], linestyle="none", label=name, **look_of[name]) for name in look_of]
    handles.append(Line2D([], [], color="black", label="the step is clear"))
    handles.append(Line2D([], [], color="black", linestyle=":", label="the step is not clear"))
    ax.axis("off")
    ax.legend(handles=handles, loc="center left", title="95 % intervals over filings")
