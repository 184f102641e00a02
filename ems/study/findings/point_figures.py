"""Figures of points: those extracted from an answer; two sides aligned (the paper's figures 1 and 2)."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...results.alignment import WHOLE_SIDES, AlignmentRow, alignment_rows, arithmetic
from ...results.display import visible
from ...types import EMSResult
from .figures import BLUE, GREY, RED, pyplot, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_BOXES = 14                 # points per side of a figure
_MARKS = re.compile(r"^#+\s+|\*\*")    # Markdown's headings and bold type, which a figure does not show


@dataclass(frozen=True, slots=True)
class _Box:
    """A point in a figure of two columns."""

    text: str
    edge: Any                  # colour
    style: str = "-"           # of the edge
    tag: str = ""              # beside the box, towards the other column
    below: str = ""            # under the tag, smaller


@dataclass(frozen=True, slots=True)
class _Link:
    """A line between a box on the left and one on the right."""

    left: int
    right: int
    colour: Any
    width: float
    style: str = "-"


# --- what is drawn ---


@styled
def extraction_figure(text: str, points: Sequence[str]) -> Figure:
    """A long answer on the left, its saliency points on the right (the paper's figure 1).

    A line leads from each point to the paragraph (or sentence of a single one) with most of its words.
    """
    passages = [p for p in re.split(r"\s*\n\s*", text) if p.strip()]
    passages = re.split(r"(?<=[.!?])\s+(?=[A-Z])", passages[0]) if len(passages) == 1 else passages
    origins = _origins(points, passages)
    left = [_Box(visible(_MARKS.sub("", p), 900), *(("black", "-") if i in origins else (GREY, ":")))
            for i, p in enumerate(passages)]
    right = [_Box(f"{j}  {visible(p, 260)}", BLUE) for j, p in enumerate(points)]
    links = [_Link(i, j, BLUE, 1.4) for j, i in enumerate(origins) if i is not None]
    titles = f"The answer: {len(text.split())} words", f"Its saliency points: {len(points)}"
    note = "Dotted: no point comes from this passage (a heading, a removed summary, or left out)."
    return _columns_figure(titles, left, right, links, [note])


def _origins(points: Sequence[str], passages: Sequence[str]) -> list[int | None]:
    """For each point the passage with most of its words, or None; equals in turn for a repeated point."""
    words = [set(re.findall(r"\w+", p.casefold())) for p in passages]
    origins: list[int | None] = []
    taken: Counter[tuple[int | None, str]] = Counter()
    for point in points:
        of_point = set(re.findall(r"\w+", point.casefold()))
        shared = [len(of_point & w) for w in words]
        best = [k for k, count in enumerate(shared) if count == max(shared) > 0]
        origins.append(min(best, key=lambda k: taken[k, point], default=None))
        taken[origins[-1], point] += 1
    return origins


@styled
def alignment_figure(result: EMSResult, sides: tuple[str, str] | None = None,
                     boxes: int = MAX_BOXES) -> Figure:
    """Reference points left, answer points right, matches coloured by score (the paper's figure 2).

    `sides` are the headings, by default "Reference" and the model's name; at most `boxes` points a side
    are drawn, the rest is counted. Tags are s_i (eq. 5) and s_j (eq. 7), 0 without a match, "?" unscored; or,
    for scores of whole sides, how far the other side covers a point, and its weight.
    """
    rows = alignment_rows(result)
    left = [_row_box(row, row.ref, result.ref_points) for row in rows
            if row.ref is not None and row.hint != "reference"]
    joined = [(row.ref, row.ans, row.score) for row in rows if row.ref is not None and row.ans is not None]
    notes = arithmetic(result)
    left_title, right_title = sides or ("Reference", f"Answer of {visible(result.model, 60)}")
    if result.whole_sides:
        right = [_row_box(row, row.ans, result.ans_points) for row in rows
                 if row.ans is not None and row.hint == "reference"]
        links = [_Link(i, j, "#9A9A9A", 0.9, ":") for i, j in sorted({(i, j) for i, j, _ in joined})]
        covered = ", how far covered"
        notes += [WHOLE_SIDES, "Dashed: nothing covers it. Dotted box, ?: unscored. Darker: higher score. "
                               "Dotted lines: nearest point."]
    else:
        chosen, scores = {j for _, j, _ in joined}, result.ans_score or [None] * len(result.ans_points)
        right = [_scored_box(f"{j}  {visible(point, 260)}", score, j in chosen)
                 for j, (point, score) in enumerate(zip(result.ans_points, scores, strict=True))]
        links = [_Link(i, j, left[i].edge, 1.2 + 2.2 * (score or 0)) for i, j, score in joined]
        covered = ""
        notes += ["Dashed, 0.00: no match. Dotted, ?: unscored. Darker and thicker: higher score. Without a "
                  "line, but with a score: the partner is not drawn. Several lines: the highest counts."]
    titles = (f"{left_title}: {len(left)} points{covered}", f"{right_title}: {len(right)} points{covered}")
    return _columns_figure(titles, left, right, links, notes, boxes)


def _row_box(row: AlignmentRow, index: int, points: Sequence[str]) -> _Box:
    return _scored_box(f"{index}  {visible(points[index], 260)}", row.score, not row.label or row.score != 0,
                       "" if row.weight is None else f"weight {row.weight:.1f}")


def _scored_box(text: str, score: float | None, held: bool, below: str = "") -> _Box:
    """A point: darker for a higher score, grey and dotted unscored, red and dashed where nothing holds it."""
    if score is None:
        return _Box(text, GREY, ":", "?", below)
    shade = pyplot().get_cmap("viridis_r")(0.25 + 0.7 * score)
    edge, style = (shade, "-") if held else (RED, "--")
    return _Box(text, edge, style, f"{score:.2f}", below)


# --- how it is drawn: in inches from the top left of the page ---

GAP = 0.14                     # between boxes


def _columns_figure(titles: Sequence[str], left: Sequence[_Box], right: Sequence[_Box],
                    links: Sequence[_Link], notes: Sequence[str], boxes: int = MAX_BOXES) -> Figure:
    """Two columns of boxes joined by links, notes below; at most `boxes` a side, linked ones first."""
    shown = range(min(len(left), boxes))
    linked = sorted({link.right for link in links if link.left in shown})[:boxes]
    spare = [j for j in range(len(right)) if j not in linked][: boxes - len(linked)]
    # for tags, between the boxes and the links
    room = 0.75 if any(box.below for box in left) else 0.55 if any(box.tag for box in left) else 0.0
    fig = pyplot().figure()
    ax: Axes = fig.add_axes((0, 0, 1, 1))
    ax.axis("off")
    headings = [_wrap(title, 5.95, 15.5) for title in titles]       # bold is wider
    top = 0.85 + 0.26 * (max(map(len, headings)) - 1)
    lefts, left_foot = _draw_column(ax, headings[0], 0.3, 6.35, top, left, shown)
    rights, right_foot = _draw_column(ax, headings[1], 9.65, 9.65, top, right, sorted(linked + spare))
    for link in links:
        if link.left in lefts and link.right in rights:
            ax.plot((6.35 + room, 9.65 - room), (lefts[link.left], rights[link.right]), color=link.colour,
                    linewidth=link.width, linestyle=link.style, zorder=1)
    lines = [line for note in notes for line in _wrap(note, 15.2, 12)]
    foot = max(left_foot, right_foot) + 0.2
    for k, line in enumerate(lines):
        ax.text(0.35, foot + 0.24 * k, line, fontsize=12, va="center")
    height = foot + 0.24 * len(lines) + 0.2
    fig.set_size_inches(16, height)
    ax.set(xlim=(0, 16), ylim=(height, 0))
    return fig


def _draw_column(ax: Axes, heading: Sequence[str], x: float, tag_x: float, top: float,
                 boxes: Sequence[_Box], shown: Sequence[int]) -> tuple[dict[int, float], float]:
    """Draw the boxes to show one below the other; the height of each one's middle, by index, and the foot."""
    ax.text(x, top - 0.22, "\n".join(heading), fontsize=14, fontweight="bold", va="bottom", linespacing=1.2)
    middles, y = {}, top
    for index in shown:
        height = _draw_box(ax, boxes[index], x, tag_x, y)
        middles[index] = y + height / 2
        y += height + GAP
    left_out = len(boxes) - len(shown)
    if left_out or not shown:
        words = f"… and {left_out} more, not drawn" if left_out else "no points"
        ax.text(x, y + 0.05, words, style="italic", va="center")
    return middles, y + 0.3 * bool(left_out)


def _draw_box(ax: Axes, box: _Box, x: float, tag_x: float, top: float) -> float:
    """Draw a box with its tag, left of the tag's place or right of it; its height."""
    from matplotlib.patches import FancyBboxPatch

    lines = _wrap(box.text, 5.75)
    height = 0.2 * len(lines) + 0.2
    middle = top + height / 2
    ax.add_patch(FancyBboxPatch(
        (x + 0.05, top), 5.95, height, boxstyle="round,pad=0,rounding_size=0.08",
        linewidth=1.8, linestyle=box.style, edgecolor=box.edge, facecolor="white", zorder=2))
    ax.text(x + 0.15, middle, "\n".join(lines), fontsize=11, va="center", linespacing=1.2, zorder=3,
            color=GREY if box.edge == GREY else "black")
    side = "left" if tag_x > x else "right"
    if box.tag:
        ax.text(tag_x, middle - 0.08 * bool(box.below), box.tag, fontsize=12, fontweight="bold", va="center",
                zorder=4, ha=side, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    if box.below:
        ax.text(tag_x, middle + 0.1, box.below, fontsize=9.5, va="center", zorder=4, ha=side, color="#505050")
    return height


def _wrap(text: str, inches: float, size: float = 11) -> list[str]:
    """Lines that are at most so wide when drawn: the longest character count that fits."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties(family="DejaVu Sans")))
    font.set_size(size, 72)

    def width(line: str) -> float:
        font.set_text(line)
        return font.get_width_height()[0] / 64 / 72
    guess = int(1.1 * inches * len(text) / max(width(text), 0.1))     # a little more than fits on average
    for count in range(max(guess, 9), 8, -2):
        lines = textwrap.wrap(text, count) or [""]
        if all(width(line) <= inches for line in lines):
            break
    return lines
