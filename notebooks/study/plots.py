"""Figures: colours that everyone can tell apart (Okabe and Ito's), intervals, axes with units."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ems.metrics import answer_scores
from ems.terminal import visible

BLUE, GREEN, ORANGE, RED, PINK, GREY = (
    "#0072B2",
    "#009E73",
    "#E69F00",
    "#D55E00",
    "#CC79A7",
    "#767676",
)
WIDTH = 10  # of a figure, in inches: fits a page on its side; no text is below 8 points
STYLE = {
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
}
MAX_BOXES, MAX_LINES = 12, 5  # points a side of a figure, lines of one
Box = tuple[str, str, Any, str]  # text, tag, colour, style of the line
Link = tuple[int, int, Any]  # indices of a box on the left and on the right, colour
MARKUP = re.compile(r"^#+\s+|\*\*")

plt.rcParams.update(STYLE)


def colour_of(metric: str) -> str:
    """By family: points (EMS, coverage, the judge), coverage by words, whole texts compared, RAGChecker."""
    if metric.startswith("RAGChecker"):
        return PINK
    if metric == "Coverage(local)":
        return GREEN
    return BLUE if metric.startswith(("EMS", "Coverage", "Judge")) else ORANGE


def label(name: Any, width: int = 24) -> str:
    """A system's label on lines of `width` characters: what stands in brackets begins a new one."""
    lines = visible(str(name)).replace(" (", "\n(").split("\n")
    return "\n".join(textwrap.fill(line, width) for line in lines)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG, 160 dots per inch; equal input gives equal bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Software": None})
    plt.close(figure)
    return path


def grid(panels: int, columns: int, height: float, title: str) -> tuple[Figure, list[Any]]:
    """A figure with so many panels, each row `height` inches high; spare panels are hidden."""
    rows = math.ceil(panels / columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(WIDTH, height * rows + 0.5), squeeze=False, layout="constrained"
    )
    figure.suptitle(title, x=0.01, ha="left")
    for ax in axes.flat[panels:]:
        ax.set_visible(False)
    return figure, list(axes.flat[:panels])


# --- values by system ---


def scaling_figure(summary: pd.DataFrame, sizes: Mapping[str, Any], paired: pd.DataFrame) -> Figure:
    """A panel per metric: each system's F1 or Score with its 95 % interval, on a scale of its own from 0.

    `sizes` maps models, in order, to labels or to billions of parameters (a logarithmic axis). `paired` gives
    Holm's p of the last system against the first.
    """
    summary, paired = (table[table["part"].isin(["F1", "Score"])] for table in (summary, paired))
    ends = [list(sizes)[0], list(sizes)[-1]]
    p = paired[paired["a"].isin(ends) & paired["b"].isin(ends)].set_index("metric")["p_holm"]
    metrics = list(summary["metric"].unique())
    title = "Mean and 95 % interval by system; each panel has a scale of its own, from 0"
    figure, axes = grid(len(metrics), 3, 2.3, title)
    for ax, metric in zip(axes, metrics, strict=True):
        rows = summary[summary["metric"] == metric].set_index("model").reindex(list(sizes))
        _draw_values(ax, rows, list(sizes.values()), colour_of(metric))
        ax.set_title(f"{metric} {rows['part'].dropna().iloc[0]}".removesuffix(" Score"))
        if metric in p:
            ax.set_xlabel(f"last against first: p (Holm) = {p[metric]:.2g}")
    figure.supylabel("value of the metric, 0 to 1")
    return figure


def _draw_values(ax: Any, rows: pd.DataFrame, sizes: Sequence[Any], colour: str) -> None:
    numbers = all(isinstance(size, int | float) for size in sizes)
    places = [float(size) for size in sizes] if numbers else list(range(len(sizes)))
    ends = [rows["value"] - rows["ci_low"], rows["ci_high"] - rows["value"]]
    ax.errorbar(
        places,
        rows["value"],
        yerr=ends,
        color=colour,
        marker="o",
        clip_on=False,
        linestyle="-" if numbers else "none",
    )
    for x, value in zip(places, rows["value"], strict=True):
        beside, side = ((-4, 3), "right") if numbers else ((4, 2), "left")  # off a line that rises
        ax.annotate(f"{value:.3f}", (x, value), xytext=beside, textcoords="offset points", ha=side)
    if numbers:
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(places, [f"{size:g} B" for size in sizes])
    else:
        ax.set_xticks(places, [label(size, 8) for size in sizes])
    ax.set_ylim(0, 1.12 * rows[["value", "ci_high"]].max().max() or 1)
    ax.margins(x=0.2)


def families_figure(means: pd.DataFrame) -> Figure:
    """A panel per metric, on a scale of its own from 0: the models of each family, from small to large.

    `means`: metric, model, family, size (billions of parameters), value, ci_low, ci_high. All panels have one
    axis of models; one without values of a family says so.
    """
    models = means.drop_duplicates("model").sort_values(["family", "size", "model"])
    families, metrics = list(models["family"].unique()), list(means["metric"].unique())
    looks = dict(
        zip(families, [(BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (PINK, "D")], strict=False)
    )
    places = [i + 0.6 * families.index(family) for i, family in enumerate(models["family"])]
    names = models["model"] + models["size"].map(" ({:g})".format)
    title = (
        "Mean and 95 % interval by size within a family; each panel has a scale of its own, from 0"
    )
    figure, axes = grid(len(metrics), 4, 2.1, title)
    for ax, metric in zip(axes, metrics, strict=True):
        rows = means[means["metric"] == metric].set_index("model").reindex(models["model"])
        for family, of in rows.assign(place=places).groupby("family"):
            ends = [of["value"] - of["ci_low"], of["ci_high"] - of["value"]]
            colour, marker = looks[family]
            ax.errorbar(
                of["place"], of["value"], yerr=ends, color=colour, marker=marker, label=family
            )
        if len(shown := rows["family"].dropna().unique()) < len(families):
            ax.text(
                1,
                0.05,
                f"computed for {' and '.join(shown)} only",
                transform=ax.transAxes,
                ha="right",
            )
        ax.set_title(textwrap.fill(metric, 28))
        ax.set_xticks(places, names if ax in axes[-4:] else [], rotation=90)
        ax.set(
            xlim=(-0.5, places[-1] + 0.5), ylim=(0, 1.1 * rows[["value", "ci_high"]].max().max())
        )
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(looks))
    figure.supxlabel("model (billions of parameters)")
    figure.supylabel("mean, 0 to 1")
    return figure


def heatmap(values: pd.DataFrame, metric: str, models: Mapping[str, Any]) -> Figure:
    """Mean F1 or Score by group (rows) and question (the id's last part), a panel per model, one scale."""
    cell = values[(values["metric"] == metric) & values["part"].isin(["F1", "Score"])]
    cell = cell.assign(question=cell["triplet_id"].str.rsplit("-", n=1).str[-1])
    means = cell.pivot_table(index=["model", "group"], columns="question", values="value")
    groups, what = (
        sorted(cell["group"].unique()),
        f"{metric} {cell['part'].iloc[0]}".removesuffix(" Score"),
    )
    title = f"{what} by company or document and question, 0 to 1"
    figure, axes = grid(len(models), len(models), 1 + 0.26 * len(groups), title)
    for ax, (model, name) in zip(axes, models.items(), strict=True):
        first, last = ax is axes[0], ax is axes[-1]
        sns.heatmap(
            means.loc[model].reindex(groups),
            ax=ax,
            vmin=0,
            vmax=1,
            cmap="viridis",
            annot=True,
            fmt=".2f",
            linewidths=1,
            cbar=last,
            cbar_kws={"label": what},
            yticklabels=first,
        )
        ax.set_title(label(name if isinstance(name, str) else model))
        ax.set_ylabel("company or document" if first else "")
        ax.tick_params(axis="y", rotation=0)
    return figure


# --- points (the paper's figures 1 and 2) ---


def extraction_figure(text: str, points: Sequence[str]) -> Figure:
    """A long answer left, its points right, each joined to the passage with most of its words."""
    passages = [MARKUP.sub("", p) for p in re.split(r"\s*\n\s*", text) if p.strip()]
    words, said = (
        [set(re.findall(r"\w+", t.casefold())) for t in texts] for texts in (passages, points)
    )
    shared = [[len(point & passage) for passage in words] for point in said]
    origins = [counts.index(max(counts)) for counts in shared]
    links = [(i, j, BLUE) for j, i in enumerate(origins)]
    left = [
        (p, "", "black", "-") if i in origins else (p, "", GREY, ":")
        for i, p in enumerate(passages)
    ]
    right = [(f"{j}: {p}", "", BLUE, "-") for j, p in enumerate(points)]
    titles = (f"The answer: {len(text.split())} words", f"Its points: {len(points)}")
    note = (
        "A point is joined to the passage with which it shares most words. Dotted: no point of it."
    )
    return two_columns(titles, left, right, links, note)


def alignment_figure(result: Mapping[str, Any]) -> Figure:
    """Reference points left, answer points right, matches coloured by score; of `EMSResult.to_dict()`."""
    match, score = result["match"], result["score"]
    s_ans = answer_scores(match, score, len(result["ans_points"]))
    scores = [0.0 if j == -1 else s for j, s in zip(match, score, strict=True)]
    left, right = (
        [_scored_box(i, *box) for i, box in enumerate(zip(result[side], values, strict=True))]
        for side, values in (("ref_points", scores), ("ans_points", s_ans))
    )
    links = [(i, j, left[i][2]) for i, j in enumerate(match) if j is not None and j >= 0]
    titles = (
        f"Reference: {len(left)} points",
        f"Answer of {visible(result['model'])}: {len(right)} points",
    )
    metrics = [
        f"{name.capitalize()} {'–' if result[name] is None else format(result[name], '.3f')}"
        for name in ("recall", "precision", "f1")
    ]
    note = (
        ", ".join(metrics) + ". Dashed, 0.00: no match, or a score of 0. Dotted, ?: unscored. "
        "Darker: higher score. Several lines: the highest counts."
    )
    return two_columns(titles, left, right, links, note)


def _scored_box(index: int, point: str, score: float | None) -> Box:
    """A point's text, its tag, colour and line: red and dashed without a match, grey and dotted unscored."""
    if score is None:
        return f"{index}: {point}", "?", GREY, ":"
    if score == 0:
        return f"{index}: {point}", "0.00", RED, "--"
    return f"{index}: {point}", f"{score:.2f}", plt.get_cmap("viridis_r")(0.25 + 0.7 * score), "-"


def two_columns(
    titles: Sequence[str],
    left: Sequence[Box],
    right: Sequence[Box],
    links: Sequence[Link],
    note: str,
) -> Figure:
    """Two columns of boxes joined by links.

    At most `MAX_BOXES` a side are drawn, on the right those first that are linked to one on the left. Where
    others are left out, a line says how many, and links between them and drawn ones end at it.
    """
    drawn = range(min(len(left), MAX_BOXES))
    linked = {j for i, j, _ in links if i in drawn}
    chosen = sorted(range(len(right)), key=lambda j: j not in linked)[:MAX_BOXES]
    figure = plt.figure()
    ax = figure.add_axes((0, 0, 1, 1))
    ax.axis("off")
    lefts, left_foot = _draw_column(ax, titles[0], 0.15, 4.05, left, drawn)
    rights, right_foot = _draw_column(ax, titles[1], 6.05, 5.95, right, chosen)
    ends = (4.4, 5.6) if any(tag for _, tag, _, _ in left) else (3.95, 6.05)  # room for tags
    for i, j, colour in links:
        if i in drawn or j in chosen:
            ax.plot(ends, (lefts[i], rights[j]), color=colour, zorder=1)
    foot = max(left_foot, right_foot)
    ax.text(0.15, foot + 0.15, note, va="center")
    figure.set_size_inches(WIDTH, foot + 0.3)
    ax.set(xlim=(0, WIDTH), ylim=(foot + 0.3, 0))
    return figure


def _draw_column(
    ax: Any, title: str, x: float, tag_x: float, boxes: Sequence[Box], shown: Sequence[int]
) -> tuple[dict[int, float], float]:
    """Draw boxes one below the other, in inches from the top: the middles of all by index, and the foot."""
    title = textwrap.fill(title, 42, max_lines=2)
    ax.text(x, 0.42, title, fontsize=10, fontweight="bold", va="bottom")
    middles, top = dict[int, float](), 0.5
    inner_x, inner, outer = (x + 3.8, "right", "left") if x < tag_x else (x, "left", "right")
    for index, (text, tag, colour, style) in enumerate(boxes):
        if index not in shown:
            middles[index] = top + 0.05
            if index + 1 in (*shown, len(boxes)):
                rest = f"… {list(middles.values()).count(middles[index])} more, not drawn"
                ax.text(inner_x, middles[index], rest, style="italic", va="center", ha=inner)
                top += 0.2
            continue
        lines = textwrap.wrap(visible(text), 58, max_lines=MAX_LINES, placeholder=" …") or [""]
        height = 0.135 * len(lines) + 0.13
        middles[index] = top + height / 2
        look = {
            "linewidth": 1.2,
            "linestyle": style,
            "edgecolor": colour,
            "facecolor": "white",
            "zorder": 2,
        }
        ax.add_patch(
            FancyBboxPatch((x, top), 3.8, height, boxstyle="round,pad=0,rounding_size=0.05", **look)
        )
        ax.text(x + 0.07, middles[index], "\n".join(lines), va="center", linespacing=1.2, zorder=3)
        ax.text(tag_x, middles[index], tag, fontweight="bold", va="center", ha=outer)
        top += height + 0.09
    return middles, top


# --- choices, edits, documents ---


def interval_dots(
    ax: Any, rows: pd.DataFrame, columns: Sequence[str], marks: Sequence[Any]
) -> None:
    """A mark (properties of its line) with its interval per row, from the top; of value, low and high."""
    value, low, high = columns
    for y, (row, mark) in enumerate(zip(rows.to_dict("records"), marks, strict=True)):
        ax.plot([row[low], row[high]], [y, y], color=mark["color"])
        ax.plot(row[value], y, **mark)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.grid(axis="y", color="#EFEFEF")


def choices_figure(choices: pd.DataFrame) -> Figure:
    """What changing one choice does: agreement with people, and the gap between two systems.

    `choices`: index "form: choice"; columns spearman, change, change_low, change_high, clear (empty for the
    baseline), gap, gap_low, gap_high.
    """
    title = "One choice changed at a time, 95 % intervals (diamond: the baseline)"
    figure, (left, right) = grid(2, 2, 0.26 * len(choices) + 0.7, title)
    marks = [
        {"color": colour_of(name.partition(": ")[0]), "marker": "o" if clear else "D"}
        for name, clear in choices["clear"].items()
    ]
    changes = [
        mark | {"markerfacecolor": "white"} if clear == "no" else mark
        for mark, clear in zip(marks, choices["clear"], strict=True)
    ]
    interval_dots(left, choices, ("change", "change_low", "change_high"), changes)
    left.axvline(0, color="black", linewidth=0.8, linestyle=":")
    left.set_yticks(range(len(choices)), choices.index)
    left.set_xlabel("change of Spearman with people's preference (hollow: not clear)")
    interval_dots(right, choices, ("gap", "gap_low", "gap_high"), marks)
    right.axvline(0, color="black", linewidth=0.8, linestyle=":")
    right.set(
        yticks=left.get_yticks(),
        yticklabels=[],
        xlabel="F1 of the last system less that of the first",
    )
    return figure


def losses_figure(losses: pd.DataFrame) -> Figure:
    """Mean loss by metric and edit at the largest dose, in points of 100, ± half its 95 % interval if any."""
    largest = losses[losses["dose"] == losses["dose"].max()]
    largest = largest.assign(half=(largest["ci_high"] - largest["ci_low"]) / 2)
    order = {"index": losses["metric"].unique(), "columns": losses["edit"].unique()}
    loss, half = (
        100 * largest.pivot(index="metric", columns="edit", values=what).reindex(**order)
        for what in ("loss", "half")
    )
    text = loss.map("{:.1f}".format) + half.map(
        lambda width: "" if math.isnan(width) else f"\n± {width:.1f}"
    )
    title = "Points of 100 lost at the largest dose, ± half the 95 % interval over groups (none under six)"
    figure, (ax,) = grid(1, 1, 0.8 + 0.45 * len(loss), title)
    sns.heatmap(
        loss,
        ax=ax,
        annot=text,
        fmt="",
        cmap="Blues",
        vmin=0,
        vmax=100,
        linewidths=1,
        cbar_kws={"label": "mean loss, points of 100"},
    )
    should = losses.drop_duplicates("edit").set_index("edit")["should"]
    names = [f"{edit}\n{textwrap.fill(should[edit], 24)}" for edit in loss]
    ax.set_xticks([i + 0.5 for i in range(len(names))], names)
    ax.tick_params(axis="y", rotation=0)
    ax.set(xlabel="edit (what should happen); loss of precision if padded, else of F1", ylabel="")
    return figure


def support_figure(
    summary: pd.DataFrame, points: pd.DataFrame, sizes: Mapping[str, Any] | None = None
) -> Figure:
    """Left: share of supported points, mean over answers. Right: labels of all points of each system.

    `sizes`: as in `scaling_figure`; without it, systems stand as in `points`, under their own names.
    """
    sizes = sizes or {model: model for model in points["model"]}
    labels = [label(name if isinstance(name, str) else model) for model, name in sizes.items()]
    summary, shares = (table.set_index("model").reindex(list(sizes)) for table in (summary, points))
    title = "What the document says of the answers' points, by the judge"
    figure, (left, right) = grid(2, 2, 1 + 0.45 * len(labels), title)
    interval_dots(
        left, summary, ("value", "ci_low", "ci_high"), [FAMILIES["judged"][0]] * len(labels)
    )
    left.set_yticks(range(len(labels)), labels)
    left.set(xlim=(0, 1), xlabel="share of points supported, mean over answers, 95 % interval")
    start = pd.Series(0.0, index=shares.index)
    parts = {
        "supported, matched": (shares["supported"] - shares["supported but unmatched"], BLUE),
        "supported, not matched": (shares["supported but unmatched"], GREEN),
        "silent": (shares["silent"], "#D0D0D0"),
        "contradicted": (shares["contradicted"], RED),
    }
    for name, (share, colour) in parts.items():
        right.barh(range(len(shares)), share, left=start, color=colour, label=name)
        start = start + share
    right.set(
        ylim=left.get_ylim(), xlim=(0, 1), yticks=[], xlabel="share of all points with a label"
    )
    figure.legend(loc="outside lower right", ncols=len(parts))
    return figure


# --- agreement with people ---

# Of each family of metrics: mark, name. The marker tells them apart in print without colours.
FAMILIES = {
    "judged": ({"color": BLUE, "marker": "o"}, "by a judge's replies"),
    "local": ({"color": GREEN, "marker": "s"}, "by points, without a judge"),
    "whole": ({"color": ORANGE, "marker": "D"}, "whole texts compared"),
    "published": ({"color": PINK, "marker": "^"}, "RAGChecker, by its authors' judge"),
    "none": ({"color": GREY, "marker": "v"}, "no metric: length, or the system alone"),
}


def family_of(metric: str) -> str:
    """The family of a metric on labelled sets, where EMS(ROUGE) has points without a judge."""
    if metric in ("length", "the system alone"):
        return "none"
    if metric.startswith(("EMS", "Coverage", "Judge")):
        return "judged" if "(LLM" in metric or metric == "Judge alone" else "local"
    return "published" if metric == "RAGChecker" else "whole"


def people_figure(people: pd.DataFrame, measure: str = "Spearman") -> Figure:
    """A panel per question that annotators were asked: each metric's correlation with their preference.

    `people` is `agreement.pair_agreement`'s table; the grey band is one annotator against the other.
    """
    rows = people[people["measure"] == measure]
    panels = {
        ": ".join(named): table for named, table in rows.groupby(["asked", "part"], sort=False)
    }
    figure, axes = _dot_panels(
        panels,
        f"{measure} correlation with the annotators' preference (-1 to 1), "
        "95 % interval over pairs of answers",
    )
    for ax, table in zip(axes, panels.values(), strict=True):
        between = table.set_index("metric").loc["the other annotator"]
        ax.axvspan(between["ci_low"], between["ci_high"], color="#E4E4E4", zorder=0)
        ax.vlines(between["value"], -0.6, len(table), color=GREY, zorder=1)
        ax.text(
            between["value"], -0.75, "one annotator\nagainst the other", ha="center", va="bottom"
        )
        ax.set_ylim(top=-1.8)
    return figure


def area_figure(panels: Mapping[str, pd.DataFrame]) -> Figure:
    """A panel per title: each metric's AUC with its interval, from `agreement`'s rows of one measure."""
    figure, axes = _dot_panels(
        panels,
        "AUC: share of pairs of a right and a wrong answer in the right order "
        "(dotted: 0.5, guessing), 95 % interval over groups",
    )
    for ax in axes:
        ax.axvline(0.5, color="black", linewidth=0.8, linestyle=":", zorder=1)
    return figure


def _dot_panels(panels: Mapping[str, pd.DataFrame], label: str) -> tuple[Figure, list[Any]]:
    """Panels of dots with intervals, side by side, on one scale; the metrics in one order, by their mean."""
    rows = pd.concat(panels.values())
    ranked = rows.groupby("metric")["value"].mean().sort_values(ascending=False)
    order = [metric for metric in ranked.index if metric != "the other annotator"]
    families = [FAMILIES[family_of(metric)] for metric in order]
    figure, axes = grid(len(panels), len(panels), 1 + 0.3 * len(order), "")
    for ax, (title, table) in zip(axes, panels.items(), strict=True):
        shown = table.set_index("metric").reindex(order)
        interval_dots(ax, shown, ("value", "ci_low", "ci_high"), [mark for mark, _ in families])
        for y, value in enumerate(shown["value"]):
            if math.isnan(value):
                ax.text(
                    0.98,
                    y,
                    "not computed",
                    transform=ax.get_yaxis_transform(),
                    ha="right",
                    va="center",
                )
            else:
                ax.annotate(
                    f"{value:.2f}", (value, y), (0, 4), textcoords="offset points", ha="center"
                )
        ax.set_yticks(range(len(order)), order if ax is axes[0] else [])
        ax.set_xlim(rows["ci_low"].min() - 0.03, rows["ci_high"].max() + 0.03)
        ax.set_title(
            textwrap.fill(f"{title}, n\u00a0=\u00a0{table['n'].max():,.0f}", 96 // len(panels))
        )
    for mark, name in [of for of in FAMILIES.values() if of in families]:
        axes[0].plot([], [], **mark, linestyle="none", label=name)
    figure.legend(loc="outside upper left", ncols=len(FAMILIES))
    figure.supxlabel(label)
    return figure, axes
