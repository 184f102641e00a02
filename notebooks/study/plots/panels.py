"""What several figures share: colours, panels, labels, intervals, and writing them to files."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from ems.terminal import visible

BLUE = "#0072B2"
GREEN = "#009E73"
ORANGE = "#E69F00"
RED = "#D55E00"
PINK = "#CC79A7"
GREY = "#767676"
WIDTH = 10  # of a figure in inches, which fits a page in landscape; no text is below 8 points

plt.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "text.parse_math": False,
        "text.hinting": "no_hinting",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.facecolor": "white",
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.titlesize": 9,
        "figure.labelsize": 9,
        "lines.linewidth": 1.3,
        "lines.markersize": 4.5,
        "errorbar.capsize": 2.5,
        "legend.frameon": False,
        "legend.columnspacing": 1.2,
        "legend.handletextpad": 0.4,
        "pdf.fonttype": 42,  # letters as TrueType, which publishers ask for
    }
)


def colour_of(metric: str) -> str:
    """The colour of a metric's family.

    The families are RAGChecker, coverage by words, metrics of points or of a judge (EMS, coverage
    by a judge, the judge alone), and metrics that compare whole texts.
    """
    if metric.startswith("RAGChecker"):
        return PINK
    if metric == "Coverage(local)":
        return GREEN
    return BLUE if metric.startswith(("EMS", "Coverage", "Judge")) else ORANGE


def system_label(name: str, width: int = 24) -> str:
    """A system's name on lines of at most `width` characters; a bracket begins a new line."""
    lines = visible(name).replace(" (", "\n(").split("\n")
    return "\n".join(textwrap.fill(line, width) for line in lines)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG with 160 dots per inch, and beside it as PDF; returns the PNG's path.

    Equal figures give equal bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Software": None})
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
    plt.close(figure)
    return path


def grid(panels: int, columns: int, height: float, title: str) -> tuple[Figure, list[Any]]:
    """A figure with so many panels, each row `height` inches high; spare panels are hidden."""
    rows = math.ceil(panels / columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(WIDTH, height * rows + 0.5),
        squeeze=False,
        layout="constrained",
    )
    figure.suptitle(title, x=0.01, ha="left")
    for ax in axes.flat[panels:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:panels])


def error_bars(rows: pd.DataFrame) -> list[pd.Series]:
    """How far each interval reaches below and above its value, as matplotlib wants it."""
    return [rows["value"] - rows["ci_low"], rows["ci_high"] - rows["value"]]


def interval_dots(
    ax: Any,
    rows: pd.DataFrame,
    marks: Sequence[Mapping[str, Any]],
    columns: Sequence[str] = ("value", "ci_low", "ci_high"),
) -> None:
    """Draw the value of each row with its interval, from the top.

    A mark has the properties of a row's dot; `columns` are those of the value, the low and the high
    end of the interval.
    """
    value, low, high = columns
    for y, (row, mark) in enumerate(zip(rows.to_dict("records"), marks, strict=True)):
        ax.plot([row[low], row[high]], [y, y], color=mark["color"])
        ax.plot(row[value], y, **mark)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", color="#EFEFEF")


def dotted_line(ax: Any, x: float, zorder: int = 2) -> None:
    """Mark the value that means no difference, or guessing."""
    ax.axvline(x, color="black", linewidth=0.8, linestyle=":", zorder=zorder)
