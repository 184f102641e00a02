"""Figures of agreement with people: each metric's value with its interval, panels side by side."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from .panels import BLUE, GREEN, GREY, ORANGE, PINK, dotted_line, grid, interval_dots

# Of each family of metrics: mark and name. Markers differ, for prints without colours.
_FAMILIES = {
    "judged": ({"color": BLUE, "marker": "o"}, "by a judge's replies"),
    "local": ({"color": GREEN, "marker": "s"}, "by points, without a judge"),
    "whole": ({"color": ORANGE, "marker": "D"}, "whole texts compared"),
    "published": ({"color": PINK, "marker": "^"}, "RAGChecker, by its authors' judge"),
    "none": ({"color": GREY, "marker": "v"}, "no metric, for comparison"),
}
# Rows of a table that are no metric's.
_ANNOTATOR = "the other annotator"
_SYSTEM = "the system alone"


def people_figure(people: pd.DataFrame) -> Figure:
    """A panel per question that annotators were asked: each metric against their preference.

    `people` is the table of `agreement.pair_agreement`; the grey band is the agreement of one
    annotator with the other.
    """
    rows = people[people["measure"] == "Spearman"]
    panels = {
        ": ".join(names): table for names, table in rows.groupby(["asked", "part"], sort=False)
    }
    scale = (
        "Spearman correlation with the annotators' preference (-1 to 1), "
        "95 % interval over pairs of answers"
    )
    figure, axes = _dot_panels(panels, scale)
    for ax, table in zip(axes, panels.values(), strict=True):
        between = table.set_index("metric").loc[_ANNOTATOR]
        ax.axvspan(between["ci_low"], between["ci_high"], color="#E4E4E4", zorder=0)
        ax.vlines(between["value"], -0.6, len(table), color=GREY, zorder=1)
        name = "one annotator\nagainst the other"
        ax.text(between["value"], -0.75, name, ha="center", va="bottom")
        ax.set_ylim(top=-1.8)
    return figure


def area_figure(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """A panel per title: each metric's AUC with its interval.

    The tables are rows of one measure, of those that `agreement` makes.
    """
    scale = (
        "AUC: share of pairs of a right and a wrong answer in the right order "
        "(dotted: 0.5, guessing), 95 % interval over groups"
    )
    if any((table["metric"] == _SYSTEM).any() for table in panels.values()):
        scale += f"\n{_SYSTEM}: every answer has its system's share of right answers as its value"
    figure, axes = _dot_panels(panels, scale)
    for ax in axes:
        dotted_line(ax, 0.5, zorder=1)
    return figure


def pairs_figure(ranked: pd.DataFrame, random_labels: Mapping[str, float]) -> Figure:
    """Each metric's share of pairs of systems in the right order, the best one first.

    `ranked` is a table of `ranking.ranking`. A thick line is the interval over groups, a thin one
    the interval over systems. The grey band is the range of `ranking.random_labels`.
    """
    rows = ranked.sort_values("pairs", ascending=False)
    figure, (ax,) = grid(1, 1, 1.2 + 0.3 * len(rows), "")
    ax.axvspan(random_labels["ci_low"], random_labels["ci_high"], color="#E4E4E4", zorder=0)
    ax.vlines(random_labels["pairs"], -0.6, len(rows), color=GREY, zorder=1)
    name = "labels of as many random claims: mean, 95 % of draws"
    ax.text(random_labels["pairs"], -0.75, name, ha="center", va="bottom")
    dotted_line(ax, 0.5, zorder=1)
    families = [_family_of(metric) for metric in rows.index]
    marks = [_FAMILIES[family][0] for family in families]
    interval_dots(ax, rows, marks, ("pairs", "systems_low", "systems_high"))
    for y, (low, high) in enumerate(zip(rows["ci_low"], rows["ci_high"], strict=True)):
        ax.plot([low, high], [y, y], color=marks[y]["color"], linewidth=4, alpha=0.5)
    _write_values(ax, rows["pairs"])
    ax.set_yticks(range(len(rows)), rows.index)
    ax.set_ylim(top=-1.3)
    ax.set_xlabel(
        f"share of {rows['of'].max():.0f} pairs of systems in the order of their accuracy, 0 to 1 "
        "(dotted: 0.5, guessing)\n"
        "95 % intervals: thick over filings, thin over systems"
    )
    _add_legend(figure, ax, families)
    return figure


def _dot_panels(panels: Mapping[str, pd.DataFrame], scale: str) -> tuple[Figure, list[Any]]:
    """Panels of dots with intervals on one scale.

    Metrics are ordered by the first panel; those without a value there stand below.
    """
    rows = pd.concat(panels.values())
    first = rows.groupby("metric", sort=False)["value"].first()
    of_first = next(iter(panels.values())).set_index("metric")["value"].reindex(first.index)
    ordered = of_first.sort_values(ascending=False, kind="stable")
    metrics = list(ordered.index.drop(_ANNOTATOR, errors="ignore"))
    families = [_family_of(metric) for metric in metrics]
    marks = [_FAMILIES[family][0] for family in families]
    figure, axes = grid(len(panels), len(panels), 1 + 0.3 * len(metrics), "")
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        by_metric = table.set_index("metric").reindex(metrics)
        interval_dots(ax, by_metric, marks)
        _write_values(ax, by_metric["value"])
        ax.set_yticks(range(len(metrics)), metrics if ax is axes[0] else [])
        ax.set_xlim(rows["ci_low"].min() - 0.03, rows["ci_high"].max() + 0.03)
        ax.set_title(textwrap.fill(f"{title}, {_numbers(by_metric['n'])}", 96 // len(panels)))
    _add_legend(figure, axes[0], families)
    figure.supxlabel(scale)
    return figure, axes


def _numbers(n: pd.Series) -> str:
    """How many observations the metrics of a panel have, and which ones have fewer."""
    texts = [f"n\u00a0=\u00a0{n.max():,.0f}"]
    texts += [f"{metric} {number:,.0f}" for metric, number in n[n < n.max()].items()]
    return ", ".join(texts)


def _add_legend(figure: Figure, ax: Any, families: Sequence[str]) -> None:
    """Write above the figure what the marks of these families are."""
    for family, (mark, name) in _FAMILIES.items():
        if family in families:
            ax.plot([], [], **mark, linestyle="none", label=name)
    figure.legend(loc="outside upper left", ncols=len(_FAMILIES))


def _family_of(metric: str) -> str:
    """The family of a metric on labelled sets, where EMS(ROUGE) has points without a judge.

    "RAGChecker" alone is its authors' values; with a part, "RAGChecker F1", it is our judge's.
    """
    if metric.startswith(("length", "labels", _SYSTEM)):
        return "none"
    if metric == "RAGChecker":
        return "published"
    if metric.startswith(("EMS(LLM", "Coverage(LLM", "Judge alone", "RAGChecker")):
        return "judged"
    if metric.startswith(("EMS", "Coverage", "Figures")):
        return "local"
    return "whole"


def _write_values(ax: Any, values: pd.Series) -> None:
    """Write each value above its dot."""
    for y, value in enumerate(values):
        if math.isnan(value):
            right = ax.get_yaxis_transform()  # x is a share of the panel's width
            ax.text(0.98, y, "not computed", transform=right, ha="right", va="center")
        else:
            number = f"{value:.2f}"
            ax.annotate(number, (value, y), (0, 4), textcoords="offset points", ha="center")
