"""Figures of values: means by system, choice of points and edit, and support by documents."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .panels import (
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    RED,
    colour_of,
    dotted_line,
    error_bars,
    grid,
    interval_dots,
    system_label,
)

# Of families of models, in order: colour and marker.
_LOOKS = ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D"))


def scaling_figure(summary: pd.DataFrame, sizes: Mapping[str, Any], paired: pd.DataFrame) -> Figure:
    """A panel per metric: each system's F1 or Score with its 95 % interval, on a scale from 0.

    `sizes` maps models, in order, to labels or to billions of parameters (a logarithmic axis).
    `paired` has p after Holm's correction, of the last system against the first.
    """
    summary, paired = _main_part(summary), _main_part(paired)
    ends = [list(sizes)[0], list(sizes)[-1]]
    p = paired[paired["a"].isin(ends) & paired["b"].isin(ends)].set_index("metric")["p_holm"]
    metrics = list(summary["metric"].unique())
    title = "Mean and 95 % interval by system; each panel has a scale of its own, from 0"
    figure, axes = grid(len(metrics), 3, 2.3, title)
    for ax, metric in zip(axes, metrics, strict=True):
        rows = summary[summary["metric"] == metric].set_index("model").reindex(list(sizes))
        _draw_values(ax, rows, list(sizes.values()), colour_of(metric))
        ax.set_title(_title(metric, rows["part"].dropna().iloc[0]))
        if metric in p:
            ax.set_xlabel(f"last against first: p (Holm) = {p[metric]:.2g}")
    figure.supylabel("value of the metric, 0 to 1")
    return figure


def _main_part(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of F1 or, for a metric without parts, of Score."""
    return table[table["part"].isin(["F1", "Score"])]


def _title(metric: str, part: str) -> str:
    return f"{metric} {part}".removesuffix(" Score")


def _draw_values(ax: Any, rows: pd.DataFrame, sizes: Sequence[Any], colour: str) -> None:
    if all(isinstance(size, int | float) for size in sizes):
        places, ticks = sizes, [f"{size:g} B" for size in sizes]
        line, offset, side = "-", (-4, 3), "right"  # numbers stand left of a line that rises
        ax.set_xscale("log")
        ax.minorticks_off()
    else:
        places, ticks = range(len(sizes)), [system_label(str(size), 8) for size in sizes]
        line, offset, side = "none", (4, 2), "left"
    ax.errorbar(
        places,
        rows["value"],
        yerr=error_bars(rows),
        color=colour,
        marker="o",
        clip_on=False,
        linestyle=line,
    )
    for x, value in zip(places, rows["value"], strict=True):
        ax.annotate(f"{value:.3f}", (x, value), xytext=offset, textcoords="offset points", ha=side)
    ax.set_xticks(places, ticks)
    ax.set_ylim(0, 1.12 * rows[["value", "ci_high"]].max().max() or 1)
    ax.margins(x=0.2)


def families_figure(means: pd.DataFrame) -> Figure:
    """A panel per metric, on a scale from 0: the models of each family, from small to large.

    `means`: metric, model, family, size (billions of parameters), value, ci_low, ci_high. All
    panels have one axis of models; a panel without values of a family says so.
    """
    models = means.drop_duplicates("model").sort_values(["family", "size", "model"])
    families = list(models["family"].unique())
    metrics = list(means["metric"].unique())
    # One place a model, and a gap before the next family.
    places = [i + 0.6 * families.index(family) for i, family in enumerate(models["family"])]
    names = models["model"] + models["size"].map(" ({:g})".format)
    title = (
        "Mean and 95 % interval by size within a family; each panel has a scale of its own, from 0"
    )
    figure, axes = grid(len(metrics), 4, 2.1, title)
    for ax, metric in zip(axes, metrics, strict=True):
        rows = means[means["metric"] == metric].set_index("model").reindex(models["model"])
        _draw_families(ax, rows.assign(place=places), families)
        ax.set_title(textwrap.fill(metric, 28))
        ax.set_xticks(places, names if ax in axes[-4:] else [], rotation=90)
        ax.set_xlim(-0.5, places[-1] + 0.5)
        ax.set_ylim(0, 1.1 * rows[["value", "ci_high"]].max().max())
    legend = axes[0].get_legend_handles_labels()
    figure.legend(*legend, loc="outside upper right", ncols=len(families))
    figure.supxlabel("model (billions of parameters)")
    figure.supylabel("mean, 0 to 1")
    return figure


def _draw_families(ax: Any, rows: pd.DataFrame, families: Sequence[str]) -> None:
    computed = []
    for number, family in enumerate(families):
        models = rows[rows["family"] == family]
        if models.empty:
            continue
        computed.append(family)
        colour, marker = _LOOKS[number]
        ax.errorbar(
            models["place"],
            models["value"],
            yerr=error_bars(models),
            color=colour,
            marker=marker,
            label=family,
        )
    if len(computed) < len(families):
        note = f"computed for {' and '.join(computed)} only"
        ax.text(1, 0.05, note, transform=ax.transAxes, ha="right")


def heatmap(values: pd.DataFrame, metric: str, models: Mapping[str, Any]) -> Figure:
    """Mean F1 or Score by group (rows) and question (columns): a panel per model, on one scale.

    The question is the last part of a triplet's id. A model whose value in `models` is a number
    is shown under its own name.
    """
    cells = _main_part(values[values["metric"] == metric])
    cells = cells.assign(question=cells["triplet_id"].str.rsplit("-", n=1).str[-1])
    means = cells.pivot_table(index=["model", "group"], columns="question", values="value")
    groups = sorted(cells["group"].unique())
    name = _title(metric, cells["part"].iloc[0])
    title = f"{name} by company or document and question, 0 to 1"
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
        label = models[model]
        ax.set_title(system_label(label if isinstance(label, str) else model))
        ax.set_ylabel("")
        ax.tick_params(axis="y", rotation=0)
    axes[0].set_ylabel("company or document")
    return figure


def choices_figure(choices: pd.DataFrame) -> Figure:
    """What changing one choice does: agreement with people, and the difference of two systems.

    `choices`: index "form: choice"; columns spearman, change, change_low, change_high, clear
    (empty for the baseline), gap, gap_low, gap_high.
    """
    title = "One choice changed at a time, 95 % intervals (diamond: the baseline)"
    figure, (left, right) = grid(2, 2, 0.26 * len(choices) + 0.7, title)
    marks, changes = [], []
    for name, clear in choices["clear"].items():
        mark = {"color": colour_of(name.partition(": ")[0]), "marker": "o" if clear else "D"}
        marks.append(mark)
        changes.append({**mark, "markerfacecolor": "white"} if clear == "no" else mark)
    interval_dots(left, choices, changes, ("change", "change_low", "change_high"))
    dotted_line(left, 0)
    left.set_yticks(range(len(choices)), choices.index)
    left.set_xlabel("change of Spearman with people's preference (hollow: not clear)")
    interval_dots(right, choices, marks, ("gap", "gap_low", "gap_high"))
    dotted_line(right, 0)
    right.set_yticks(range(len(choices)), [])
    right.set_xlabel("F1 of the last system less that of the first")
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
    names = [f"{textwrap.fill(name, 16)}\n\n{textwrap.fill(should[name], 16)}" for name in loss]
    ax.set_xticks([i + 0.5 for i in range(len(names))], names, rotation=0)
    ax.tick_params(axis="y", rotation=0)
    n_that_fall = sum(~should.str.contains("nothing may fall"))
    ax.axvline(n_that_fall, color="black", linewidth=2)
    ax.set(xlabel="variant of the text, and what a good metric does", ylabel="")
    return figure


def support_figure(summary: pd.DataFrame, points: pd.DataFrame) -> Figure:
    """Left: share of supported points, mean over answers. Right: labels of each system's points.

    Systems stand in the order of `points`.
    """
    labels = [system_label(model) for model in points["model"]]
    summary = summary.set_index("model").reindex(points["model"])
    title = "What the document says of the answers' points, by the judge"
    figure, (left, right) = grid(2, 2, 1 + 0.45 * len(labels), title)
    mark = {"color": BLUE, "marker": "o"}
    interval_dots(left, summary, [mark] * len(labels))
    left.set_yticks(range(len(labels)), labels)
    left.set(xlim=(0, 1), xlabel="share of points supported, mean over answers, 95 % interval")
    _draw_shares(right, points)
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
