"""Figures of points, like figures 1 and 2 of the paper: two columns of boxes, joined by lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ems.metrics import answer_scores, reference_scores
from ems.terminal import visible

from ..names import short_names
from .panels import BLUE, GREY, RED, WIDTH

_MAX_BOXES = 12  # a column
_MAX_SAMPLE = 6  # of the reference's points in an alignment, and of the answer's without a match
_MAX_LINES = 5  # a box
_BOX_WIDTH = 3.8  # inches
_MARKUP = re.compile(r"^#+\s+|\*\*")  # of headings and bold text


@dataclass(frozen=True)
class _Box:
    text: str
    tag: str  # beside the box
    colour: Any
    line: str  # style of the frame


@dataclass(frozen=True)
class _Column:
    """Where a column stands: x in inches from the left, and on which side of x a text stands."""

    x: float  # left edge of the boxes
    inner_x: float  # edge of the boxes on the side of the other column
    inner_side: str
    tag_x: float
    tag_side: str


_LEFT = _Column(0.15, 0.15 + _BOX_WIDTH, "right", 4.05, "left")
_RIGHT = _Column(6.05, 6.05, "left", 5.95, "right")


def extraction_figure(text: str, points: Sequence[str]) -> Figure:
    """A long answer left, its points right, each joined to the passage with most of its words."""
    passages = [_MARKUP.sub("", part) for part in re.split(r"\s*\n\s*", text) if part.strip()]
    origins = [_origin(point, passages) for point in points]
    left = []
    for i, passage in enumerate(passages):
        colour, line = ("black", "-") if i in origins else (GREY, ":")
        left.append(_Box(passage, "", colour, line))
    right = [_Box(f"{j}: {point}", "", BLUE, "-") for j, point in enumerate(points)]
    links = [(i, j, BLUE) for j, i in enumerate(origins)]
    titles = (f"The answer: {len(text.split())} words", f"Its points: {len(points)}")
    note = (
        "A point is joined to the passage with which it shares most words. Dotted: no point of it."
    )
    return _two_columns(titles, left, right, links, note)


def _origin(point: str, passages: Sequence[str]) -> int:
    """The index of the passage with which a point shares most words, the first of several."""
    shared = [len(_words(point) & _words(passage)) for passage in passages]
    return shared.index(max(shared))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def alignment_figure(result: Mapping[str, Any]) -> Figure:
    """A sample of the reference's points left, their matches right, coloured by score.

    `result` is `EMSResult.to_dict()`. Up to six points of the reference are drawn, evenly spaced,
    whatever their matches. Beside them stand the answer points that they match, in that order, and
    below these a share of the answer points without any match: as large among the points drawn as
    among all, up to six. The figure says how many points on each side have no match.
    """
    match, answer_points = result["match"], result["ans_points"]
    scores = reference_scores(match, result["score"])
    left = _scored_boxes(result["ref_points"], scores)
    right = _scored_boxes(answer_points, answer_scores(match, scores, len(answer_points)))
    unmatched = [j for j in range(len(right)) if j not in match]
    rows = _evenly_spaced(range(len(left)), _MAX_SAMPLE)
    columns = _drawn_answer_points([match[i] for i in rows], len(right), unmatched)
    links = []
    for place, i in enumerate(rows):
        if match[i] in columns:
            links.append((place, columns.index(match[i]), left[i].colour))
    name = short_names([result["model"]])[result["model"]]
    titles = (
        _count_of("Reference", len(rows), len(left)),
        _count_of(f"Answer of {name}", len(columns), len(right)),
    )
    metrics = [_metric_text(name, result[name]) for name in ("recall", "precision", "f1")]
    note = (
        f"Without a match: {match.count(-1)} of {len(left)} reference points, {len(unmatched)} of "
        f"{len(right)} answer points. {', '.join(metrics)}.\n"
        "The reference's points are evenly spaced; those of the answer are their matches, and a "
        "share of the points without a match.\n"
        "Dashed, 0.00: no match, or a score of 0. Dotted, ?: unscored. Darker: higher score. An "
        "answer point has the highest score of all its matches."
    )
    drawn_left, drawn_right = [left[i] for i in rows], [right[j] for j in columns]
    return _two_columns(titles, drawn_left, drawn_right, links, note)


def _evenly_spaced(items: Sequence[int], number: int) -> list[int]:
    """At most so many of the items: the first one, the last one, and some between them."""
    if len(items) <= number:
        return list(items)
    places = np.linspace(0, len(items) - 1, number).round().astype(int)
    return [items[place] for place in places]


def _drawn_answer_points(
    partners: Sequence[int | None], number: int, unmatched: Sequence[int]
) -> list[int]:
    """Indices of answer points: the partners in their order, then some points without a match.

    `number` is how many points the answer has.
    """
    drawn = list(dict.fromkeys(j for j in partners if j is not None and j >= 0))
    n_matched = number - len(unmatched)
    n_unmatched = _MAX_SAMPLE
    if drawn:
        n_unmatched = min(_MAX_SAMPLE, round(len(drawn) * len(unmatched) / n_matched))
    return drawn + _evenly_spaced(unmatched, n_unmatched)


def _count_of(name: str, drawn: int, number: int) -> str:
    if drawn < number:
        return f"{name}: {drawn} of {number} points"
    return f"{name}: {number} points"


def _metric_text(name: str, value: float | None) -> str:
    return f"{name.capitalize()} {'–' if value is None else format(value, '.3f')}"


def _scored_boxes(points: Sequence[str], scores: Sequence[float | None]) -> list[_Box]:
    """Numbered boxes: red and dashed for a score of 0, grey and dotted for an unscored point."""
    boxes = []
    for index, (point, score) in enumerate(zip(points, scores, strict=True)):
        if score is None:
            look: tuple[str, Any, str] = ("?", GREY, ":")
        elif score == 0:
            look = ("0.00", RED, "--")
        else:
            look = (f"{score:.2f}", plt.get_cmap("viridis_r")(0.25 + 0.7 * score), "-")
        boxes.append(_Box(f"{index}: {point}", *look))
    return boxes


def _two_columns(
    titles: Sequence[str],
    left: Sequence[_Box],
    right: Sequence[_Box],
    links: Sequence[tuple[int, int, Any]],
    note: str,
) -> Figure:
    """Two columns of boxes joined by links: index on the left, index on the right, colour.

    At most `_MAX_BOXES` a side are drawn; on the right, boxes that are linked to a drawn one on the
    left come first. Where boxes are left out, a line says how many, and links between them and
    drawn boxes end at it.
    """
    drawn_left = range(min(len(left), _MAX_BOXES))
    linked = {j for i, j, _ in links if i in drawn_left}
    drawn_right = sorted(range(len(right)), key=lambda j: j not in linked)[:_MAX_BOXES]
    figure = plt.figure()
    ax = figure.add_axes((0, 0, 1, 1))
    ax.axis("off")
    left_middles, left_foot = _draw_column(ax, _LEFT, titles[0], left, drawn_left)
    right_middles, right_foot = _draw_column(ax, _RIGHT, titles[1], right, drawn_right)
    has_tags = any(box.tag for box in left)
    ends = (4.4, 5.6) if has_tags else (3.95, 6.05)
    for i, j, colour in links:
        if i in drawn_left or j in drawn_right:
            ax.plot(ends, (left_middles[i], right_middles[j]), color=colour, zorder=1)
    foot = max(left_foot, right_foot)
    bottom = foot + 0.15 + 0.16 * len(note.splitlines())
    ax.text(0.15, foot + 0.08, note, va="top", linespacing=1.3)
    figure.set_size_inches(WIDTH, bottom)
    ax.set(xlim=(0, WIDTH), ylim=(bottom, 0))
    return figure


def _draw_column(
    ax: Any, column: _Column, title: str, boxes: Sequence[_Box], drawn: Collection[int]
) -> tuple[list[float], float]:
    """Draw boxes one below the other.

    Gives the middle of every box and the foot of the column, in inches from the top. A box that is
    not drawn has its middle at the line that counts it.
    """
    title = textwrap.fill(title, 42, max_lines=2)
    ax.text(column.x, 0.42, title, fontsize=10, fontweight="bold", va="bottom")
    middles = []
    top = 0.5
    hidden = 0  # boxes left out since the last one drawn
    for index, box in enumerate(boxes):
        if index in drawn:
            height = _draw_box(ax, column, top, box)
            middles.append(top + height / 2)
            top += height + 0.09
            continue
        hidden += 1
        middles.append(top + 0.05)
        if index + 1 in drawn or index + 1 == len(boxes):
            rest = f"… {hidden} more, not drawn"
            side = column.inner_side
            ax.text(column.inner_x, top + 0.05, rest, style="italic", va="center", ha=side)
            top += 0.2
            hidden = 0
    return middles, top


def _draw_box(ax: Any, column: _Column, top: float, box: _Box) -> float:
    """Draw a box with its text and its tag; its height in inches."""
    lines = textwrap.wrap(visible(box.text), 58, max_lines=_MAX_LINES, placeholder=" …") or [""]
    height = 0.135 * len(lines) + 0.13
    middle = top + height / 2
    frame = FancyBboxPatch(
        (column.x, top),
        _BOX_WIDTH,
        height,
        boxstyle="round,pad=0,rounding_size=0.05",
        linewidth=1.2,
        linestyle=box.line,
        edgecolor=box.colour,
        facecolor="white",
        zorder=2,
    )
    ax.add_patch(frame)
    text = "\n".join(lines)
    ax.text(column.x + 0.07, middle, text, va="center", linespacing=1.2, zorder=3)
    ax.text(column.tag_x, middle, box.tag, fontweight="bold", va="center", ha=column.tag_side)
    return height
