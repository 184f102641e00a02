"""Figures of values: means by system, choices of points, losses of edited texts, and support."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from ems.types import InputError

from .panels import (
    BLUE,
    GREEN,
    RED,
    colour_of,
    dotted_line,
    grid,
    interval_dots,
    system_label,
)


def _main_part(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of F1 or, for a metric without parts, of Score."""
    return table[table["part"].isin(["F1", "Score"])]


def _title(metric: str, part: str) -> str:
    return f"{metric} {part}".removesuffix(" Score")


def heatmap(values: pd.DataFrame, metric: str, names: Mapping[str, str]) -> Figure:
    """Mean F1 or Score by group (rows) and question (columns): a panel per model, on one scale.

    The question is the last part of a triplet's id. `names` has the models with short names; one
    whose mean rounds to 0.00 is not drawn, and the title says so. InputError without a value of the
    metric.
    """
    cells = _main_part(values[values["metric"] == metric])
    if cells.empty:
        raise InputError(
            f"no values of {metric} to draw as a heat map; run notebook 3 first, or name another "
            "metric in HEATMAP"
        )
    cells = cells.assign(question=cells["triplet_id"].str.rsplit("-", n=1).str[-1])
    means = cells.pivot_table(index=["model", "group"], columns="question", values="value")
    groups = sorted(cells["group"].unique())
    name = _title(metric, cells["part"].iloc[0])
    title = f"{name} by company or document and question, 0 to 1"
    is_high = cells.groupby("model")["value"].mean() >= 0.005
    models = [model for model in names if is_high[model]] or list(names)
    low = [names[model] for model in names if model not in models]
    if low:
        title += f" (not drawn, with a mean of 0.00: {', '.join(low)})"
    figure, axes = grid(len(models), len(models), 1 + 0.26 * len(groups), title)
    for ax, model in zip(axes, models, strict=True):
        sns.heatmap(
            means.loc[model].reindex(groups),
            ax=ax,
            vmin=0,
            vmax=1,
            cmap="viridis",
            annot=True,
            fmt=".2f",
            linewidths=1,
            cbar=ax is axes[-1],
            cbar_kws={"label": name},
            yticklabels=ax is axes[0],
        )
        ax.set_title(system_label(names[model]))
        ax.set_ylabel("")
        ax.tick_params(axis="y", rotation=0)
    axes[0].set_ylabel("company or document")
    return figure


def choices_figure(choices: pd.DataFrame, last: str, first: str) -> Figure:
    """What changing one choice does: agreement with people, and the difference of two systems.

    `choices`: index "form: choice"; columns spearman, change, change_low, change_high, clear
    (empty for the baseline), gap, gap_low, gap_high. A choice without labels has no change. `gap`
    is of the system `last` minus `first`.
    """
    title = "One choice changed at a time, 95 % intervals (diamond: the baseline)"
    figure, (left, right) = grid(2, 2, 0.26 * len(choices) + 0.7, title)
    marks, changes = [], []
    for name, clear in choices["clear"].items():
        mark = {"color": colour_of(name.partition(": ")[0]), "marker": "o" if clear else "D"}
        marks.append(mark)
        changes.append({**mark, "markerfacecolor": "white"} if clear == "no" else mark)
    interval_dots(left, choices, changes, ("change", "change_low", "change_high"))
    for y, change in enumerate(choices["change"]):
        if math.isnan(change):
            left.text(0, y, " no labels for it", va="center")
    dotted_line(left, 0)
    left.set_yticks(range(len(choices)), choices.index)
    left.set_xlabel("change of Spearman with people's preference (hollow: not clear)")
    interval_dots(right, choices, marks, ("gap", "gap_low", "gap_high"))
    dotted_line(right, 0)
    right.set_yticks(range(len(choices)), [])
    right.set_xlabel(f"F1 of {last} minus that of {first}")
    return figure


def losses_figure(losses: pd.DataFrame) -> Figure:
    """Mean loss by metric and variant of a text, from the table of `sensitivity.losses`.

    A line stands before the variants at which nothing may fall.
    """
    order = {"index": losses["metric"].unique(), "columns": losses["variant"].unique()}
    cells = losses.pivot(index="metric", columns="variant")
    loss = cells["loss"].reindex(**order)
    title = (
        "Points of 100 that a metric loses against the unedited text, "
        "± half the 95 % interval over companies"
    )
    figure, (ax,) = grid(1, 1, 1.2 + 0.4 * len(loss), title)
    sns.heatmap(
        loss,
        ax=ax,
        annot=cells["text"].reindex(**order),
        fmt="",
        cmap="Blues",
        vmin=0,
        vmax=100,
        linewidths=1,
        cbar_kws={"label": "mean loss, points of 100"},
    )
    should = losses.drop_duplicates("variant").set_index("variant")["should"]
    names = []
    for name in loss:
        two_lines = [*textwrap.wrap(name, 16), ""][:2]  # so that what should happen is aligned
        names.append("\n".join([*two_lines, "", *textwrap.wrap(should[name], 16)]))
    ax.set_xticks([i + 0.5 for i in range(len(names))], names, rotation=0)
    ax.tick_params(axis="y", rotation=0)
    n_that_fall = sum(~should.str.contains("nothing may fall"))
    ax.axvline(n_that_fall, color="black", linewidth=2)
    ax.set(xlabel="variant of the text, and what a good metric does", ylabel="")
    return figure


def support_figure(summary: pd.DataFrame, points: pd.DataFrame, names: Mapping[str, str]) -> Figure:
    """Left: share of supported points, mean over answers. Right: labels of each system's points.

    `names` has the systems from the top, with short names.
    """
    labels = [system_label(name) for name in names.values()]
    summary = summary.set_index("model").reindex(list(names))
    title = "What the document says of the answers' points, by the judge"
    figure, (left, right) = grid(2, 2, 1 + 0.45 * len(labels), title)
    mark = {"color": "black", "marker": "o"}  # no colour of the bars: these have other meanings
    interval_dots(left, summary, [mark] * len(labels))
    left.set_yticks(range(len(labels)), labels)
    left.set(xlim=(0, 1), xlabel="share of points supported, mean over answers, 95 % interval")
    _draw_shares(right, points.set_index("model").reindex(list(names)))
    right.set(ylim=left.get_ylim(), xlim=(0, 1), yticks=[])
    right.set_xlabel("share of all points with a label")
    figure.legend(loc="outside lower right", ncols=4)
    return figure


def _draw_shares(ax: Any, shares: pd.DataFrame) -> None:
    unmatched = shares["supported but unmatched"]
    bars = {
        "supported, matched": (shares["supported"] - unmatched, BLUE),
        "supported, not matched": (unmatched, GREEN),
        "silent": (shares["silent"], "#D0D0D0"),
        "contradicted": (shares["contradicted"], RED),
    }
    start = pd.Series(0.0, index=shares.index)
    for name, (share, colour) in bars.items():
        ax.barh(range(len(shares)), share, left=start, color=colour, label=name)
        start = start + share
