"""Figures of means: systems in rows, a panel for each metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from ..means import main_rows
from .panels import GREY, WIDTH, colour_of, grid, interval_dots, system_label

_COLUMNS = 4  # of panels


def means_figure(summary: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """Each system's mean by each metric, F1 or Score, with its interval: a panel for each metric.

    `summary` is a table of `ems.summarise`. `names` has the models from the top, with short names.
    Every panel has a scale of its own.
    """
    rows = main_rows(summary)
    metrics = list(dict.fromkeys(rows["metric"]))
    columns = min(_COLUMNS, len(metrics))
    title = "Mean of each system, F1 where a metric has it, with the 95 % interval over groups"
    figure, axes = grid(len(metrics), columns, 0.8 + 0.3 * len(names), title)
    for place, (ax, metric) in enumerate(zip(axes, metrics, strict=True)):
        of_metric = rows[rows["metric"] == metric].set_index("model").reindex(list(names))
        _draw_means(ax, of_metric, metric)
        ax.set_title(metric)
        labels = [system_label(name) for name in names.values()]
        ax.set_yticks(range(len(names)), labels if place % columns == 0 else [])
    figure.supxlabel("mean over answers, 0 to 1; each panel has a scale of its own")
    return figure


def paper_figure(summary: pd.DataFrame, paper: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """The paper's means above ours, a column for each metric of the paper.

    The two panels of a column have one scale. `summary` is a table of `ems.summarise`, `paper` has
    the columns metric, part, model, value, and no intervals; `names` has the models of both, with
    short names.
    """
    theirs = main_rows(paper)
    ours = main_rows(summary)
    metrics = list(dict.fromkeys(theirs["metric"]))
    of_paper = list(dict.fromkeys(theirs["model"]))
    of_run = [model for model in names if model in set(ours["model"])]
    blocks = [("the paper", theirs, of_paper), ("this run", ours, of_run)]
    figure, axes = plt.subplots(
        2,
        len(metrics),
        figsize=(WIDTH, 1.4 + 0.34 * (len(of_paper) + len(of_run))),
        sharex="col",
        squeeze=False,
        height_ratios=[len(of_paper) + 0.4, len(of_run) + 0.4],
        layout="constrained",
    )
    for row, (source, table, models) in zip(axes, blocks, strict=True):
        for ax, metric in zip(row, metrics, strict=True):
            of_metric = table[table["metric"] == metric].set_index("model").reindex(models)
            _draw_means(ax, of_metric.reindex(columns=["value", "ci_low", "ci_high"]), metric)
            ax.set_yticks(range(len(models)), [])
        row[0].set_yticklabels([system_label(names[model]) for model in models])
        row[0].set_ylabel(source, fontweight="bold")
    for ax, metric in zip(axes[0], metrics, strict=True):
        ax.set_title(metric)
    figure.supxlabel(
        "mean over answers, 0 to 1: F1 or the metric's only value, 95 % interval where there is one"
    )
    return figure


def _draw_means(ax: Any, rows: pd.DataFrame, metric: str) -> None:
    """Dots with intervals, joined by a thin line, and each value above its dot."""
    mark = {"color": colour_of(metric), "marker": "o"}
    ax.plot(rows["value"], range(len(rows)), color=GREY, linewidth=0.6, zorder=1)
    interval_dots(ax, rows, [mark] * len(rows))
    for y, value in enumerate(rows["value"]):
        if not math.isnan(value):
            ax.annotate(
                f"{value:.2f}",
                (value, y),
                (0, 4),
                textcoords="offset points",
                ha="center",
                zorder=1.5,  # above the line and below the dots
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
            )
    ax.margins(x=0.25)
