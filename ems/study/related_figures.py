"""Figures of the related papers' tables: computed values with intervals, printed ones beside them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .figures import GREY, RED, SERIES, STYLE, pyplot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def cells_figure(cells: pd.DataFrame, titles: Mapping[str, str], unit: str, *,
                 guessing: float | None = None) -> Figure:
    """A panel for each table named in `titles`: a dot with its 95 % interval for every cell of
    `published.tables`, a cross where its paper prints another value.

    Columns are colours and markers. `unit` labels the horizontal axis, `guessing` is what guessing gives (a
    dotted line); cells without a value are left out.
    """
    plt = pyplot()
    panels = {table: cells[(cells["table"] == table) & cells["ours"].notna()] for table in titles}
    height = 1.9 + 0.55 * max(panel["row"].nunique() for panel in panels.values())
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(titles), figsize=(16, height), squeeze=False, layout="constrained")
        for ax, (table, title) in zip(axes.flat, titles.items(), strict=True):
            _draw(ax, panels[table])
            if guessing is not None:
                ax.axvline(guessing, color=GREY, linewidth=0.8, linestyle=":")
            ax.set_title(title, fontsize=13)
            dotted = "" if guessing is None else " (dotted: guessing)"
            ax.set_xlabel(f"{unit}, 95 % interval{dotted}")
    plt.close(fig)
    return fig


def _draw(ax: Axes, panel: pd.DataFrame) -> None:
    rows, columns = list(dict.fromkeys(panel["row"])), list(dict.fromkeys(panel["column"]))
    for cell in panel.to_dict("records"):
        k = columns.index(cell["column"])
        colour, marker = SERIES[k]
        y = rows.index(cell["row"]) + 0.22 * (k - (len(columns) - 1) / 2)
        ax.plot([cell["ci_low"], cell["ci_high"]], [y, y], color=colour, linewidth=2.5, alpha=0.6)
        ax.plot(cell["ours"], y, marker, color=colour, markersize=8)
        if cell["gap"] and cell["printed"] == cell["printed"]:
            ax.plot(cell["printed"], y, "x", color=RED, markersize=8, markeredgewidth=2, zorder=4)
    for (colour, marker), column in zip(SERIES, columns, strict=False):
        ax.plot([], [], marker, color=colour, label=column)
    if (panel["gap"].fillna(0) != 0).any():
        ax.plot([], [], "x", color=RED, markeredgewidth=2, label="printed, where it differs")
    ax.set_yticks(range(len(rows)), [textwrap.fill(row, 20) for row in rows])
    ax.set_xlim(-3, 103)
    ax.invert_yaxis()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=11)
