"""Figures of the ladder of information, and of grains against people's labels."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from .panels import GREY, colour_of, dotted_line, error_bars, grid, interval_dots


def ladder_figure(means: pd.DataFrame, steps: pd.DataFrame) -> Figure:
    """Means by the share of the call that was read: a panel for each metric, with its own scale.

    The tables are those of `ladder.ladder_steps`. A line is solid where the step is clear; g stands
    beside it.
    """
    title = (
        "Mean by the share of the call that was read, 95 % intervals over companies. "
        "Number: g of a step; dotted: not clear"
    )
    figure, axes = grid(means["metric"].nunique(), 4, 2.1, title)
    for ax, (metric, rows) in zip(axes, means.groupby("metric", sort=False), strict=True):
        colour = colour_of(str(metric))
        ax.errorbar(rows["size"], rows["value"], error_bars(rows), fmt="o", color=colour)
        ax.set_title(metric)
        ax.set_xticks(rows["size"], rows["model"].str.replace(" ", "\n"))
        ax.set_ylabel("mean, 0 to 1")
        ax.margins(0.15)
        places = rows.set_index("model")[["size", "value"]]
        for step in steps[steps["metric"] == metric].itertuples():
            ends = places.loc[[step.b, step.a]]
            ax.plot(*ends.T.to_numpy(), "-" if step.clear else ":", color=colour)
            number = f"{step.g:.1f} "  # on the left of the line: above it, or below where it falls
            ax.text(
                *ends.mean(),
                f"{number}\n" if step.g > 0 else f"\n{number}",
                ha="right",
                va="center",
            )
    return figure


def grain_figure(table: pd.DataFrame) -> Figure:
    """Left: agreement with people. Right: its difference to sentences.

    `table` is that of `grain.grain_agreement`. Rows with points are grains.
    """
    marks = []
    for points in table["points"]:
        marks.append({"color": colour_of("EMS") if points > 0 else GREY, "marker": "o"})
    title = "EMS(LLM) F1 by the grain of points (grey: other metrics), 95 % intervals over pairs"
    figure, (left, right) = grid(2, 2, 0.26 * len(table) + 0.7, title)
    interval_dots(left, table, marks, ("spearman", "ci_low", "ci_high"))
    left.set_yticks(range(len(table)), table.index)
    left.set_xlabel("Spearman with people's preference")
    interval_dots(right, table, marks, ("difference", "difference_low", "difference_high"))
    dotted_line(right, 0)
    right.set_yticks(range(len(table)), [])
    right.set_xlabel("difference to sentences")
    return figure
