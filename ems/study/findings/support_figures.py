"""The figure of notebook 8: how much of each system's answers its document supports."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...results.display import visible
from ..checks.document_check import FLOOR, PLACES
from ..checks.judged_support import FLOOR as ELSEWHERE
from ..checks.judged_support import SUPPORT
from .figures import BLUE, GREEN, GREY, RED, SERIES, panels, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of points, as in an alignment view (`results.alignment.alignment_html`)
COLOURS = dict(zip(PLACES, (BLUE, GREEN, RED, "#DDDDDD", "white"), strict=True))


@styled
def support_figure(table: pd.DataFrame, places: Mapping[str, pd.DataFrame], models: Sequence[str]) -> Figure:
    """Left: EMS-Support of each model, by numbers and by a judge, in its own and in another company's
    document, with 95 % intervals over clusters, from `document_check.summary`. Then a panel for each of
    `places`, which has `document_check.shares` by name: where all answer points go.
    """
    fig, axes = panels(1 + len(places), 2.2 + 0.9 * len(models), sharey=True)
    _dots(axes[0], table, models)
    for ax, (name, shares) in zip(axes[1:], places.items(), strict=True):
        _bars(ax, shares, models)
        ax.set_title(name)
    axes[0].set_yticks(range(len(models)), [textwrap.fill(visible(model, 60), 28) for model in models])
    axes[0].set_ylim(len(models) - 0.5, -0.5)           # the first on top
    for ax in axes:
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False, fontsize=11,
                      handlelength=1)
    return fig


def _dots(ax: Axes, table: pd.DataFrame, models: Sequence[str]) -> None:
    cells = table.set_index(["metric", "model"])
    kinds = (("EMS-Support", "by numbers", -0.27), (SUPPORT, "by the judge", -0.09),
             (FLOOR, "by numbers, in another\ncompany's document", 0.09),
             (ELSEWHERE, "by the judge, in another\ncompany's document", 0.27))
    low, high = 0.0, 1.0
    for (metric, label, step), (colour, marker) in zip(kinds, SERIES, strict=True):
        shown = [(y + step, cells.loc[(metric, model)]) for y, model in enumerate(models)
                 if (metric, model) in cells.index]
        for place, row in shown:
            ax.plot([row["ci_low"], row["ci_high"]], [place] * 2, color=colour, linewidth=3, alpha=0.5)
            low, high = min(low, row["ci_low"]), max(high, row["ci_high"])
        if shown:
            ax.plot([row["value"] for _, row in shown], [place for place, _ in shown], marker, color=colour,
                    markersize=9, label=label)
    ax.set_xlim(low - 0.05, high + 0.05)       # an interval by Student's t may leave [0, 1]
    ax.set_xlabel("share of checked points supported, 95 % interval")
    ax.set_title("EMS-Support")


def _bars(ax: Axes, places: pd.DataFrame, models: Sequence[str]) -> None:
    shown = places.reindex(models).fillna(0.0)
    start = 0.0 * shown[PLACES[0]]
    for place in [place for place in PLACES if shown[place].any()]:
        bars = ax.barh(range(len(models)), shown[place], left=start, color=COLOURS[place], label=place,
                       height=0.6)
        for bar in bars if place == "unscored" else ():
            bar.set(hatch="///", edgecolor=GREY)
        start = start + shown[place]
    ax.set_xlim(0, 1)
    ax.set_xticks([0.2, 0.4, 0.6, 0.8])        # those at the ends would touch the next panel's
    ax.set_xlabel("share of all answer points")
