"""Figures of notebooks 05 and 06: who agrees with people, what the choices cost, who notices what."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .agreement import ASKED, PEOPLE, RAGCHECKER
from .figures import BLUE, GREEN, GREY, ORANGE, PINK, STYLE, _pyplot

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure




def colour_of(metric: str) -> str:
    """Local EMS green, other EMS blue, RAGChecker pink, n-gram and embedding metrics orange, the rest grey."""
    if metric.startswith("EMS"):
        return GREEN if metric.startswith("EMS(local") else BLUE
    return PINK if metric == RAGCHECKER else GREY if metric in (PEOPLE, "length") else ORANGE


def forest_figure(found: pd.DataFrame, measure: str = "spearman") -> Figure:
    """Correlation of every metric with the annotators, one panel per question asked, with 95 % intervals.

    `found` is `agreement.human_agreement`'s frame. Rows are sorted by the first panel; the grey band is how well one
    annotator predicts the other.
    """
    plt = _pyplot()
    found = found[found["measure"] == measure]
    first = found[(found["asked"] == next(iter(ASKED))) & (found["metric"] != PEOPLE)]
    order = list(first.sort_values("value")["metric"])
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(ASKED), figsize=(16, 1.9 + 0.42 * len(order)), sharey=True, layout="constrained")
        for ax, (ask, part) in zip(axes, ASKED.items(), strict=True):
            cell = found[found["asked"] == ask].set_index("metric")
            people = cell.loc[PEOPLE]
            ax.axvspan(people["ci_low"], people["ci_high"], color="#E4E4E4", zorder=0)
            ax.axvline(people["value"], color=GREY, zorder=1)
            _dots(ax, cell, order)
            ax.set_title(f"{ask}  (metric: {part})", fontsize=13)
            ax.set_xlim(min(-0.02, found["ci_low"].min() - 0.02), 1)
            ax.text(people["value"], len(order) - 0.35, "one annotator\nfor the other", ha="center", fontsize=10, color="#505050")
        axes[0].set_yticks(range(len(order)), order)
        axes[0].set_ylim(-0.6, len(order) + 0.45)
        fig.supxlabel(f"{measure.capitalize()} correlation with the annotators' preference, 95 % interval over pairs")
        fig.suptitle("Which metric prefers what people prefer?\n", x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


def auc_figure(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """AUC of every metric with its interval, one panel per title; `panels` hold rows of `label_agreement`, one subset."""
    plt = _pyplot()
    cells = {name: frame[frame["measure"] == "AUC"].set_index("metric") for name, frame in panels.items()}
    order: list[str] = []
    for cell in cells.values():
        order += [m for m in cell.sort_values("value").index if m not in order]
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(cells), figsize=(16, 2.0 + 0.42 * len(order)), sharey=True, sharex=True,
                                 squeeze=False, layout="constrained")
        for ax, (name, cell) in zip(axes.flat, cells.items(), strict=True):
            ax.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
            _dots(ax, cell, order)
            ax.set_title(f"{name}, n = {int(cell['n'].max())}", fontsize=13)
        axes[0, 0].set_yticks(range(len(order)), order)
        axes[0, 0].set_ylim(-0.6, len(order) - 0.3)
        fig.supxlabel("AUC: chance that a right answer outscores a wrong one (dotted: a coin), 95 % interval")
        fig.suptitle("Which metric tells right answers from wrong ones?\n", x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


def _dots(ax: Axes, cell: pd.DataFrame, order: Sequence[str]) -> None:
    """A dot, its interval and its number for every metric of `order` that the cell has."""
    for y, metric in enumerate(order):
        if metric in cell.index:
            row = cell.loc[metric]
            colour = colour_of(metric)
            ax.plot([row["ci_low"], row["ci_high"]], [y, y], color=colour, linewidth=2, zorder=2)
            ax.plot(row["value"], y, "o", color=colour, markersize=7, zorder=3)
            ax.annotate(f"{row['value']:.2f}", (row["value"], y), xytext=(0, 6), textcoords="offset points", fontsize=10,
                        ha="center", zorder=4)
    ax.grid(axis="y", color="#EFEFEF", zorder=0)
    ax.set_axisbelow(True)


def choices_figure(choices: pd.DataFrame) -> Figure:
    """What changing one choice does, from `ablation.compare`: agreement with people, gap and order of the models.

    Rows are choices, colours the forms of the evaluator, dotted lines the paper's choices in each form. The first panel
    shows paired differences, whose intervals say whether a change matters: filled where they leave 0 out. The gap is that
    of the `last` model to the `first`, both named under the panel; with one model there is none.
    """
    plt = _pyplot()
    first, last = (textwrap.shorten(choices[end].iloc[0], 44, placeholder="…") for end in ("first", "last"))
    between = f"{last}\nless {first}, in standard deviations" if first != last else "one model alone: no gap"
    panels = {"change": ("Agrees better or worse with people", "change of Spearman with RAGChecker's annotators"),
              "gap": ("Tells the models apart", between),
              "order_kept": ("Gives the same order again", "share of resamples with the same order of models")}
    order = list(dict.fromkeys(choices["choice"]))[::-1]
    looks = dict(zip(dict.fromkeys(choices["form"]), ((BLUE, "o"), (GREEN, "s")), strict=False))
    with plt.rc_context(STYLE):
        fig, axes = plt.subplots(1, len(panels), figsize=(16, 2.2 + 0.55 * len(order)), sharey=True, layout="constrained")
        for ax, (column, (title, label)) in zip(axes, panels.items(), strict=True):
            for k, (form, (colour, marker)) in enumerate(looks.items()):
                cell = choices[choices["form"] == form].set_index("choice")
                ax.axvline(0 if column == "change" else cell[column].iloc[0], color=colour, linewidth=1.2, linestyle=":", zorder=1)
                for choice, row in cell.iterrows():
                    y = order.index(choice) + 0.14 - 0.28 * k
                    if column == "change" and choice == cell.index[0]:
                        ax.text(0, y, f" {row['agreement']:.2f}", color=colour, va="center", fontsize=11, fontweight="bold")
                        continue
                    if f"{column}_low" in row:
                        ax.plot([row[f"{column}_low"], row[f"{column}_high"]], [y, y], color=colour, linewidth=2, zorder=2)
                    clear = column != "change" or row["verdict"] != "no clear difference"
                    ax.plot(row[column], y, marker, color=colour, markersize=8, zorder=3, mfc=colour if clear else "white")
                ax.plot([], [], marker, color=colour, markersize=8, label=FORMS[form])
            ax.set_title(title, fontsize=13)
            ax.set_xlabel(label, fontsize=11)
            ax.grid(axis="y", color="#EFEFEF", zorder=0)
        axes[2].set_xlim(-0.04, 1.04)
        if choices["order_kept"].isna().all():
            axes[2].text(0.5, 0.5, "one model or one group alone:\nno order to draw again", ha="center", color=GREY,
                         transform=axes[2].transAxes)
        axes[0].set_yticks(range(len(order)), order)
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        fig.suptitle("Which of the paper's choices help? One changed at a time; dotted: none changed; bars: 95 % intervals\n",
                     x=0.01, ha="left", fontsize=14)
    plt.close(fig)
    return fig


FORMS = {"pair": "one point to one point, the paper's form (EMS(local-pair))", "local": "whole sides (EMS(local))"}
HARMS = {"worse": "content lost or falsified:\nshould cost", "excess": "said too much:\nshould cost precision",
         "none": "content unchanged:\nshould cost little", "control": "control:\nlittle"}


def notice_figure(verdicts: pd.DataFrame, metrics: Sequence[str] = ()) -> Figure:
    """Who notices what: the mean loss at the largest dose in points of 100, by metric and edit; a cross marks a failure, a
    question mark what has no verdict.

    `verdicts` is `ablation.verdicts`' frame. Colour is the loss, so that a good metric is dark on the left, where the
    edit does harm, and pale on the right, where it does none.
    """
    plt = _pyplot()
    edits = [e for harm in HARMS for e in dict.fromkeys(verdicts.loc[verdicts["harm"] == harm, "edit"])]
    harm_of = dict(zip(verdicts["edit"], verdicts["harm"], strict=True))
    cells = verdicts.set_index(["metric", "edit"])
    metrics = metrics or list(verdicts.groupby("metric")["passes"].sum().sort_values(ascending=False, kind="stable").index)
    loss = [[100 * cells["loss"].get((m, e), float("nan")) for e in edits] for m in metrics]
    with plt.rc_context(STYLE):
        fig, ax = plt.subplots(figsize=(16, 2.9 + 0.5 * len(metrics)), layout="constrained")
        ax.imshow(loss, cmap="Blues", vmin=0, vmax=60, aspect="auto")
        for i, metric in enumerate(metrics):
            for j, edit in enumerate(edits):
                if (metric, edit) in cells.index:
                    row = cells.loc[(metric, edit)]
                    mark = {True: "", False: " ✗"}.get(row["passes"], " ?")
                    colour = "white" if row["loss"] > 0.35 else "#B00000" if mark == " ✗" else "black"
                    ax.text(j, i, f"{100 * row['loss']:.1f}{mark}", ha="center", va="center", fontsize=12, color=colour,
                            fontweight="bold" if mark == " ✗" else "normal")
        ax.set_xticks(range(len(edits)), [textwrap.fill(e, 11) for e in edits], fontsize=11)
        passed = verdicts.groupby("metric")["passes"].sum()
        ax.set_yticks(range(len(metrics)), [f"{m}   {passed[m]}/{len(edits)}" for m in metrics])
        ax.tick_params(length=0)
        starts = [j for j, e in enumerate(edits) if not j or harm_of[e] != harm_of[edits[j - 1]]]
        for start, end in zip(starts, [*starts[1:], len(edits)], strict=True):
            ax.axvline(start - 0.5, color="white", linewidth=6)
            ax.text((start + end - 1) / 2, -0.62, HARMS[harm_of[edits[start]]], ha="center", va="bottom", fontsize=11.5,
                    fontweight="bold")
        for side in ax.spines.values():
            side.set_visible(False)
        fig.suptitle("Who notices what? Points of 100 lost at the largest dose; ✗ = wrong direction or out of proportion", x=0.01,
                     ha="left", fontsize=14)
    plt.close(fig)
    return fig
