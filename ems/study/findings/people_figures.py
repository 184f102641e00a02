"""Figures about metrics: which agree with people, which choices of the paper help, which notice an edit."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...stats import MIN_CLUSTERS
from ..people.agreement import ASKED, DEVELOPED, PEOPLE
from .figures import BLUE, DARK_GREEN, GREEN, GREY, ORANGE, PINK, STYLE, colour_of, pyplot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# --- agreement with people ---

LENGTH = "length"              # stands beside the metrics, and is none
MEANINGS = {GREEN: "green: EMS without a judge", BLUE: "blue: EMS with a judge", PINK: "pink: RAGChecker",
            ORANGE: "orange: whole texts compared"}


def _meanings(metrics: Sequence[str]) -> str:
    """What the colours of these metrics say."""
    drawn = {colour_of(metric) for metric in metrics if metric != LENGTH}
    return ", ".join(words for colour, words in MEANINGS.items() if colour in drawn)


def forest_figure(agreement: pd.DataFrame, measure: str = "spearman") -> Figure:
    """Correlation of every metric with the annotators, with 95 % intervals, one panel per question asked.

    `agreement` is `agreement.human_agreement`'s frame; the grey band is one annotator against the other, a
    star a metric that was developed on these pairs.
    """
    plt = pyplot()
    table = agreement[agreement["measure"] == measure]
    first = table[(table["asked"] == next(iter(ASKED))) & (table["metric"] != PEOPLE)]
    order = list(first.sort_values("value")["metric"])
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(ASKED), figsize=(16, 1.9 + 0.42 * len(order)), sharey=True,
                                 layout="constrained")
        for ax, (ask, part) in zip(axes, ASKED.items(), strict=True):
            cell = table[table["asked"] == ask].set_index("metric")
            people, top = cell.loc[PEOPLE], len(order) - 0.4
            ax.fill_between([people["ci_low"], people["ci_high"]], -0.6, top, color="#E4E4E4", linewidth=0,
                            zorder=0)
            ax.plot([people["value"]] * 2, [-0.6, top], color=GREY, linewidth=1.5, zorder=1)
            ax.text(people["value"], top + 0.1, "one annotator\nagainst the other", ha="center", va="bottom",
                    fontsize=11, color="#505050")
            _dots(ax, cell, order)
            ax.set_title(f"{ask}  (metric: {part})", fontsize=13)
            ax.set_xlim(min(-0.02, table["ci_low"].min() - 0.04), 1)
        axes[0].set_yticks(range(len(order)), [f"{m} *" if m in DEVELOPED else m for m in order])
        axes[0].set_ylim(-0.6, len(order) + 0.75)
        fig.supxlabel(f"{measure.capitalize()} correlation with the annotators' preference, "
                      "95 % interval over pairs (* developed on these pairs: its best case)\n"
                      f"({_meanings(order)})")
        fig.suptitle("Which metric prefers what people prefer?\n", x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


def auc_figure(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """AUC of every metric with its interval; a panel per title, of `label_agreement`'s rows of one subset."""
    plt = pyplot()
    cells = {name: frame[frame["measure"] == "AUC"].set_index("metric") for name, frame in panels.items()}
    ranked = [cell.sort_values("value").index for cell in cells.values()]
    order = list(dict.fromkeys(metric for metrics in ranked for metric in metrics))
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(cells), figsize=(16, 2.0 + 0.42 * len(order)), sharey=True,
                                 sharex=True, squeeze=False, layout="constrained")
        for ax, (name, cell) in zip(axes.flat, cells.items(), strict=True):
            ax.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
            _dots(ax, cell, order)
            ax.set_title(f"{name}, n = {int(cell['n'].max()):,}", fontsize=13)
        axes[0, 0].set_xticks([0.4, 0.6, 0.8])            # without the ends, which would touch between panels
        axes[0, 0].set_yticks(range(len(order)), [f"{m} *" if m in DEVELOPED else m for m in order])
        axes[0, 0].set_ylim(-0.6, len(order) - 0.3)
        fig.supxlabel("AUC: chance that a right answer outscores a wrong one (dotted: guessing), 95 % "
                      f"interval (* settings chosen on these sets: its best case)\n({_meanings(order)})")
        fig.suptitle("Which metric tells right answers from wrong ones?\n", x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


def _dots(ax: Axes, cell: pd.DataFrame, order: Sequence[str]) -> None:
    """A dot, its interval and its number for every metric of `order`; words where the cell has none."""
    for y, metric in enumerate(order):
        if metric not in cell.index:
            ax.text(0.98, y, "not computed here", transform=ax.get_yaxis_transform(), ha="right", va="center",
                    fontsize=11, style="italic", color=GREY)
            continue
        row, colour = cell.loc[metric], GREY if metric == LENGTH else colour_of(metric)
        ax.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=2, zorder=2)
        ax.plot(row["value"], y, "o", color=colour, markersize=7, zorder=3)
        ax.annotate(f"{row['value']:.2f}", (row["value"], y), xytext=(0, 6), textcoords="offset points",
                    fontsize=11, ha="center", zorder=2.5,          # over the annotators' line, under the dot
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    ax.grid(axis="y", color="#EFEFEF", zorder=0)
    ax.set_axisbelow(True)


# --- the paper's choices, one changed at a time ---

FORMS = {"pair": "one point to one point, the paper's form (EMS(local-pair))",
         "local": "whole sides (EMS(local))"}
FORM_LOOKS = ((DARK_GREEN, "o"), (GREEN, "s"))     # colour and marker of the first form, of the second


def choices_figure(choices: pd.DataFrame) -> Figure:
    """What changing one choice does to agreement with people, and to gap and order of the models.

    `choices` is `ablation.compare`'s frame. Rows are choices, colours forms of the evaluator, dotted lines
    the paper's choices; a hollow mark is no clear difference.
    """
    plt = pyplot()
    first, last = (textwrap.shorten(choices[end].iloc[0], 44, placeholder="…") for end in ("first", "last"))
    between = f"{last}\nless {first}, in standard deviations" if first != last else "one model alone: no gap"
    panels = {"change": ("Agrees better or worse with people",
                         "change of Spearman with RAGChecker's annotators\n(bold: the value that changes)"),
              "gap": ("Distinguishes the models", between),
              "order_kept": ("Gives the same order again",
                             "share of resamples with the same order of models")}
    order = list(dict.fromkeys(choices["choice"]))[::-1]
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(panels), figsize=(16, 2.2 + 0.55 * len(order)), sharey=True,
                                 layout="constrained")
        for ax, (column, (title, label)) in zip(axes, panels.items(), strict=True):
            for k, form in enumerate(dict.fromkeys(choices["form"])):
                _draw_choices(ax, column, choices[choices["form"] == form], order, k)
            ax.set_title(title, fontsize=13)
            ax.set_xlabel(label, fontsize=11)
            ax.grid(axis="y", color="#EFEFEF", zorder=0)
        axes[2].set_xlim(-0.04, 1.04)
        if choices["order_kept"].isna().all():
            axes[2].text(0.5, 0.5, "one model or one group alone:\nno order to resample", ha="center",
                         color=GREY, transform=axes[2].transAxes)
        axes[0].set_yticks(range(len(order)), order)
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        fig.suptitle("Which of the paper's choices help? One changed at a time; dotted: none changed; "
                     "bars: 95 % intervals; hollow: no clear difference\n", x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


def _draw_choices(ax: Axes, column: str, rows: pd.DataFrame, order: Sequence[str], k: int) -> None:
    """The choices of form number k in one panel; the first row is the form with no choice changed."""
    (colour, marker), base = FORM_LOOKS[k], rows.iloc[0]
    unchanged = 0 if column == "change" else base[column]
    ax.axvline(unchanged, color=colour, linewidth=1.2, linestyle=":", zorder=1)
    for row in rows.to_dict("records"):
        y = order.index(row["choice"]) + 0.14 - 0.28 * k
        if column == "change" and row["choice"] == base["choice"]:
            ax.text(0, y, f" {row['agreement']:.2f}", color=colour, va="center", fontsize=11,
                    fontweight="bold")
            continue
        if f"{column}_low" in row:
            ax.plot([row[f"{column}_low"], row[f"{column}_high"]], [y, y], color=colour, linewidth=2,
                    zorder=2)
        clear = column != "change" or row["verdict"] != "no clear difference"
        ax.plot(row[column], y, marker, color=colour, markersize=8, zorder=3,
                markerfacecolor=colour if clear else "white")
    ax.plot([], [], marker, color=colour, markersize=8, label=FORMS[base["form"]])


# --- edits ---

HARMS = {"worse": "content lost or falsified:\nshould cost", "excess": "text added:\nshould cost precision",
         "none": "content unchanged:\nshould cost little", "control": "control:\nlittle"}
MARKS = {True: "", False: " ✗"}        # a verdict's; else it is missing


def notice_figure(verdicts: pd.DataFrame, metrics: Sequence[str] = ()) -> Figure:
    """Mean loss by metric and edit at the largest dose, in points of 100, ± half its 95 % interval.

    ✗ is a failure, ? a cell without a verdict; beside a metric its passes of all its verdicts.
    `verdicts` is `ablation.verdicts`' frame; `metrics` names the rows, by default all, most passes first.
    """
    plt = pyplot()
    edits = [e for harm in HARMS for e in dict.fromkeys(verdicts.loc[verdicts["harm"] == harm, "edit"])]
    harms = dict(zip(verdicts["edit"], verdicts["harm"], strict=True))
    cells = verdicts.set_index(["metric", "edit"])
    by_metric = verdicts.groupby("metric")["passes"]
    passed, judged = by_metric.sum(), by_metric.count()
    metrics = metrics or list(passed.sort_values(ascending=False, kind="stable").index)
    loss = [[100 * cells["loss"].get((m, e), math.nan) for e in edits] for m in metrics]
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(16, 3.2 + 0.56 * len(metrics)), layout="constrained")
        ax.imshow(loss, cmap="Blues", vmin=0, vmax=60, aspect="auto")
        for i, metric in enumerate(metrics):
            for j, edit in enumerate(edits):
                if (metric, edit) in cells.index:
                    _draw_loss(ax, j, i, cells.loc[(metric, edit)])
        ax.set_xticks(range(len(edits)), [textwrap.fill(e, 11) for e in edits], fontsize=11)
        ax.set_yticks(range(len(metrics)), [f"{m}   {passed[m]}/{judged[m]}" for m in metrics])
        ax.tick_params(length=0)
        _group_edits(ax, [harms[e] for e in edits])
        fig.supxlabel(_sample(verdicts), fontsize=12)
        fig.suptitle("Which metric notices which edit? Points of 100 lost at the largest dose; "
                     "✗ = wrong direction or out of proportion", x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


def _draw_loss(ax: Axes, x: int, y: int, row: pd.Series) -> None:
    """A mean loss with the verdict's mark and, under it, half its interval if it has one."""
    mark = MARKS.get(row["passes"], " ?")
    failed, known = mark == MARKS[False], math.isfinite(row["ci_low"])
    colour = "white" if row["loss"] > 0.35 else "#B00000" if failed else "black"
    ax.text(x, y, f"{100 * row['loss']:.1f}{mark}", ha="center", va="bottom" if known else "center",
            color=colour, fontsize=13, fontweight="bold" if failed else "normal")
    if known:
        ax.text(x, y + 0.06, f"± {50 * (row['ci_high'] - row['ci_low']):.1f}", ha="center", va="top",
                color=colour, fontsize=11)


def _sample(verdicts: pd.DataFrame) -> str:
    """How many texts the means are over, what their intervals are, and what ? is if there is one."""
    texts, clusters = ("–".join(str(n) for n in dict.fromkeys((verdicts[c].min(), verdicts[c].max())))
                       for c in ("n", "clusters"))
    interval = ("±: half the 95 % interval, Student's t over groups" if verdicts["ci_low"].notna().any()
                else f"no interval under {MIN_CLUSTERS} groups")
    unknown = "; ?: no verdict" if verdicts["passes"].isna().any() else ""
    return (f"mean over n = {texts} edited texts of {clusters} groups (companies, documents or texts); "
            f"{interval}{unknown}")


def _group_edits(ax: Axes, harms: Sequence[str]) -> None:
    """A heading over each run of edits that do the same harm, and a gap between the runs."""
    starts = [j for j, harm in enumerate(harms) if not j or harm != harms[j - 1]]
    for start, end in zip(starts, [*starts[1:], len(harms)], strict=True):
        ax.axvline(start - 0.5, color="white", linewidth=6)
        ax.text((start + end - 1) / 2, -0.62, HARMS[harms[start]], ha="center", va="bottom", fontsize=11.5,
                fontweight="bold")
    for side in ax.spines.values():
        side.set_visible(False)
