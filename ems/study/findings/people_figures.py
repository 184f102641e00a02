"""Figures about metrics: which agree with people, which choices of the paper help, which notice an edit."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...stats import MIN_CLUSTERS
from ..people.agreement import ASKED, DEVELOPED, PEOPLE
from .figures import BLUE, DARK_GREEN, GREEN, GREY, ORANGE, PINK, colour_of, panels, styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# --- agreement with people ---

LENGTH = "length"              # stands beside the metrics, and is none
MEANINGS = {GREEN: "green: EMS without a judge", BLUE: "blue: EMS with a judge", PINK: "pink: RAGChecker",
            ORANGE: "orange: whole texts compared"}


@styled
def forest_figure(agreement: pd.DataFrame) -> Figure:
    """Spearman correlation of every metric with the annotators, with 95 % intervals, a panel a question.

    `agreement` is `agreement.human_agreement`'s frame; the grey band is one annotator against the other, a
    star a metric that was developed on these pairs.
    """
    table = agreement[agreement["measure"] == "spearman"]
    cells = {ask: table[table["asked"] == ask].set_index("metric") for ask in ASKED}
    order = cells[next(iter(ASKED))].drop(PEOPLE).sort_values("value").index
    fig, axes = _forest(cells.values(), order, 1.9, "Which metric prefers what people prefer?",
                        "Spearman correlation with the annotators' preference, 95 % interval over pairs "
                        "(* developed on these pairs: its best case)")
    for ax, (ask, cell) in zip(axes, cells.items(), strict=True):
        people, top = cell.loc[PEOPLE], len(order) - 0.4
        ax.fill_between([people["ci_low"], people["ci_high"]], -0.6, top, color="#E4E4E4", linewidth=0,
                        zorder=0)
        ax.plot([people["value"]] * 2, [-0.6, top], color=GREY, linewidth=1.5, zorder=1)
        ax.text(people["value"], top + 0.1, "one annotator\nagainst the other", ha="center", va="bottom",
                fontsize=11, color="#505050")
        ax.set_title(f"{ask}  (metric: {ASKED[ask]})", fontsize=13)
        ax.set_xlim(min(-0.02, table["ci_low"].min() - 0.04), 1)
    axes[0].set_ylim(-0.6, len(order) + 0.75)
    return fig


@styled
def auc_figure(sets: Mapping[str, pd.DataFrame]) -> Figure:
    """AUC of every metric with its interval; a panel per title, of `label_agreement`'s rows of one subset."""
    cells = {name: frame[frame["measure"] == "AUC"].set_index("metric") for name, frame in sets.items()}
    ranked = [cell.sort_values("value").index for cell in cells.values()]
    order = list(dict.fromkeys(chain.from_iterable(ranked)))
    fig, axes = _forest(cells.values(), order, 2.0, "Which metric tells right answers from wrong ones?",
                        "AUC: chance that a right answer outscores a wrong one (dotted: guessing), 95 % "
                        "interval (* settings chosen on these sets: its best case)", sharex=True)
    for ax, (name, cell) in zip(axes, cells.items(), strict=True):
        ax.axvline(0.5, color="black", linewidth=0.8, linestyle=":", zorder=1)
        ax.set_title(f"{name}, n = {int(cell['n'].max()):,}", fontsize=13)
    axes[0].set_xticks([0.4, 0.6, 0.8])            # without the ends, which would touch between panels
    axes[0].set_ylim(-0.6, len(order) - 0.3)
    return fig


def _forest(cells: Collection[pd.DataFrame], order: Sequence[str], height: float, title: str, label: str,
            **shared: Any) -> tuple[Figure, list[Axes]]:
    """A panel for each of `cells` with the metrics in one order, and what their colours say."""
    fig, axes = panels(len(cells), height + 0.42 * len(order), f"{title}\n", sharey=True, **shared)
    for ax, cell in zip(axes, cells, strict=True):
        _dots(ax, cell, order)
    axes[0].set_yticks(range(len(order)), [f"{m} *" if m in DEVELOPED else m for m in order])
    drawn = {colour_of(metric) for metric in order if metric != LENGTH}
    fig.supxlabel(f"{label}\n({', '.join(said for colour, said in MEANINGS.items() if colour in drawn)})")
    return fig, axes


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


@styled
def choices_figure(choices: pd.DataFrame) -> Figure:
    """What changing one choice does to agreement with people, and to gap and order of the models.

    `choices` is `ablation.compare`'s frame. Rows are choices, colours forms of the evaluator, dotted lines
    the paper's choices; a hollow mark is no clear difference.
    """
    first, last = (textwrap.shorten(choices[end].iloc[0], 44, placeholder="…") for end in ("first", "last"))
    between = f"{last}\nless {first}, in standard deviations" if first != last else "one model alone: no gap"
    shown = {"change": ("Agrees better or worse with people",
                        "change of Spearman with RAGChecker's annotators\n(bold: the value that changes)"),
             "gap": ("Distinguishes the models", between),
             "order_kept": ("Gives the same order again",
                            "share of resamples with the same order of models")}
    order = list(dict.fromkeys(choices["choice"]))[::-1]
    fig, axes = panels(len(shown), 2.2 + 0.55 * len(order),
                       "Which of the paper's choices help? One changed at a time; dotted: none changed; "
                       "bars: 95 % intervals; hollow: no clear difference\n", sharey=True)
    for ax, (column, (title, label)) in zip(axes, shown.items(), strict=True):
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


@styled
def notice_figure(verdicts: pd.DataFrame) -> Figure:
    """Mean loss by metric and edit at the largest dose, in points of 100, ± half its 95 % interval.

    ✗ is a failure, ? a cell without a verdict; beside a metric its passes of all its verdicts, most first.
    `verdicts` is `ablation.verdicts`' frame.
    """
    harm_of = dict(zip(verdicts["edit"], verdicts["harm"], strict=True))
    edits = sorted(harm_of, key=lambda edit: list(HARMS).index(harm_of[edit]))
    cells = verdicts.set_index(["metric", "edit"])
    passes = verdicts.groupby("metric")["passes"].agg(["sum", "count"])
    passes = passes.sort_values("sum", ascending=False, kind="stable")
    loss = cells["loss"].unstack().reindex(index=passes.index, columns=edits) * 100
    fig, (ax,) = panels(1, 3.2 + 0.56 * len(passes),
                        "Which metric notices which edit? Points of 100 lost at the largest dose; "
                        "✗ = wrong direction or out of proportion")
    ax.imshow(loss, cmap="Blues", vmin=0, vmax=60, aspect="auto")
    for (metric, edit), cell in cells.iterrows():
        _draw_loss(ax, edits.index(edit), passes.index.get_loc(metric), cell)
    ax.set_xticks(range(len(edits)), [textwrap.fill(e, 11) for e in edits], fontsize=11)
    ax.set_yticks(range(len(passes)), [f"{m}   {row['sum']}/{row['count']}" for m, row in passes.iterrows()])
    ax.tick_params(length=0)
    _group_edits(ax, [harm_of[e] for e in edits])
    fig.supxlabel(_sample(verdicts), fontsize=12)
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
