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
from .figures import BLUE, GREY, RED, STYLE, pyplot

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
    taken: Counter[tuple[int, str]] = Counter()
    for point in points:
        of_point = set(re.findall(r"\w+", point.casefold()))
        shared = [len(of_point & w) for w in words]
        best = [(taken[k, point], k) for k, count in enumerate(shared) if count and count == max(shared)]
        origin = min(best)[1] if best else None
        if origin is not None:
            taken[origin, point] += 1
        origins.append(origin)
    return origins


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
    joined = [(row, row.ref, row.ans) for row in rows if row.ref is not None and row.ans is not None]
    notes = arithmetic(result)
    left_title, right_title = sides or ("Reference", f"Answer of {visible(result.model, 60)}")
    if result.whole_sides:
        right = [_row_box(row, row.ans, result.ans_points) for row in rows
                 if row.ans is not None and row.hint == "reference"]
        links = [_Link(i, j, "#9A9A9A", 0.9, ":") for i, j in sorted({(i, j) for _, i, j in joined})]
        counts = f"{len(left)} points, how far covered", f"{len(right)} points, how far covered"
        notes += [WHOLE_SIDES, "Dashed: nothing covers it. Dotted box, ?: unscored. Darker: higher score. "
                               "Dotted lines: nearest point."]
    else:
        right = _answer_boxes(result, {j for _, _, j in joined})
        links = [_Link(i, j, _edge(row), 1.2 + 2.2 * (row.score or 0)) for row, i, j in joined]
        counts = f"{len(left)} points", f"{len(right)} points"
        notes += ["Dashed, 0.00: no match. Dotted, ?: unscored. Darker and thicker: higher score. Without a "
                  "line, but with a score: the partner is not drawn. Several lines: the highest counts."]
    titles = f"{left_title}: {counts[0]}", f"{right_title}: {counts[1]}"
    return _columns_figure(titles, left, right, links, notes, boxes)


def _shade(score: float) -> Any:
    return pyplot().get_cmap("viridis_r")(0.25 + 0.7 * score)


def _edge(row: AlignmentRow) -> Any:
    """Colour of a row's point: grey unscored, red unmatched or uncovered, else darker for a higher score."""
    return GREY if row.score is None else RED if row.label and row.score == 0 else _shade(row.score)


def _row_box(row: AlignmentRow, index: int, points: Sequence[str]) -> _Box:
    edge = _edge(row)
    tag = "?" if row.score is None else f"{row.score:.2f}"
    style = ":" if edge == GREY else "--" if edge == RED else "-"
    weight = "" if row.weight is None else f"weight {row.weight:.1f}"
    return _Box(f"{index}  {visible(points[index], 260)}", edge, style, tag, weight)


def _answer_boxes(result: EMSResult, chosen: set[int]) -> list[_Box]:
    """Answer points of a scorer of pairs with s_j (eq. 7); a reference point matched those in `chosen`."""
    boxes = []
    for j, point in enumerate(result.ans_points):
        score = result.ans_score[j] if result.ans_score else None
        edge = GREY if score is None else RED if j not in chosen else _shade(score)
        style = ":" if score is None else "-" if j in chosen else "--"
        tag = "?" if score is None else f"{score:.2f}"
        boxes.append(_Box(f"{j}  {visible(point, 260)}", edge, style, tag))
    return boxes


# --- how it is drawn ---


@dataclass(frozen=True, slots=True)
class _Placed:
    """A box on the page, in inches from its top."""

    box: _Box
    lines: list[str]
    top: float
    height: float

    @property
    def middle(self) -> float:
        return self.top + self.height / 2


@dataclass(frozen=True, slots=True)
class _Column:
    """One side of a figure, in inches from the top left of the page."""

    heading: list[str]         # lines
    x: float                   # left end of the boxes
    tag_x: float               # where tags start (left side) or end (right side)
    link_x: float              # where links end
    top: float                 # of the first box
    placed: dict[int, _Placed]     # the boxes that are drawn, by index
    left_out: int

    @property
    def foot(self) -> float:
        """Under the last box, or under the heading without one."""
        return max((b.top + b.height + GAP for b in self.placed.values()), default=self.top)


GAP = 0.14                     # inches between boxes


def _columns_figure(titles: Sequence[str], left: Sequence[_Box], right: Sequence[_Box],
                    links: Sequence[_Link], notes: Sequence[str], boxes: int = MAX_BOXES) -> Figure:
    """Two columns of boxes joined by links, notes below; at most `boxes` a side, linked ones first."""
    plt = pyplot()
    shown = list(range(min(len(left), boxes)))
    linked = sorted({link.right for link in links if link.left in shown})[:boxes]
    spare = [j for j in range(len(right)) if j not in linked][: boxes - len(linked)]
    # for tags, between the boxes and the links
    room = 0.75 if any(box.below for box in left) else 0.55 if any(box.tag for box in left) else 0.0
    with plt.rc_context(STYLE):
        headings = [_wrap(title, 5.95, 15.5) for title in titles]       # bold is wider
        top = 0.85 + 0.26 * (max(map(len, headings)) - 1)
        columns = (_column(headings[0], 0.3, 6.35, 6.35 + room, top, left, shown),
                   _column(headings[1], 9.65, 9.65, 9.65 - room, top, right, sorted(linked + spare)))
        lines = [line for note in notes for line in _wrap(note, 15.2, 12)]
        foot = max(column.foot + 0.3 * bool(column.left_out) for column in columns) + 0.2
        height = foot + 0.24 * len(lines) + 0.2
        fig = plt.figure(figsize=(16, height))
        ax: Axes = fig.add_axes((0, 0, 1, 1), xlim=(0, 16), ylim=(height, 0))
        ax.axis("off")
        for column in columns:
            _draw_column(ax, column)
        for link in links:
            if link.left in columns[0].placed and link.right in columns[1].placed:
                heights = columns[0].placed[link.left].middle, columns[1].placed[link.right].middle
                ax.plot((columns[0].link_x, columns[1].link_x), heights, color=link.colour,
                        linewidth=link.width, linestyle=link.style, zorder=1)
        for k, line in enumerate(lines):
            ax.text(0.35, foot + 0.24 * k, line, fontsize=12, va="center")
    plt.close(fig)
    return fig


def _column(heading: list[str], x: float, tag_x: float, link_x: float, top: float, boxes: Sequence[_Box],
            shown: Sequence[int]) -> _Column:
    """The boxes to show, one below the other from `top` on."""
    placed, y = {}, top
    for index in shown:
        lines = _wrap(boxes[index].text, 5.75)
        placed[index] = _Placed(boxes[index], lines, y, 0.2 * len(lines) + 0.2)
        y += placed[index].height + GAP
    return _Column(heading, x, tag_x, link_x, top, placed, len(boxes) - len(shown))


def _draw_column(ax: Axes, column: _Column) -> None:
    ax.text(column.x, column.top - 0.22, "\n".join(column.heading), fontsize=14, fontweight="bold",
            va="bottom", linespacing=1.2)
    if column.left_out or not column.placed:
        words = f"… and {column.left_out} more, not drawn" if column.left_out else "no points"
        ax.text(column.x, column.foot + 0.05, words, style="italic", va="center")
    for placed in column.placed.values():
        _draw_box(ax, column, placed)


def _draw_box(ax: Axes, column: _Column, placed: _Placed) -> None:
    from matplotlib.patches import FancyBboxPatch

    box = placed.box
    ax.add_patch(FancyBboxPatch(
        (column.x + 0.05, placed.top), 5.95, placed.height, boxstyle="round,pad=0,rounding_size=0.08",
        linewidth=1.8, linestyle=box.style, edgecolor=box.edge, facecolor="white", zorder=2))
    ax.text(column.x + 0.15, placed.middle, "\n".join(placed.lines), fontsize=11, va="center",
            linespacing=1.2, zorder=3, color=GREY if box.edge == GREY else "black")
    side = "left" if column.tag_x > column.x else "right"
    if box.tag:
        ax.text(column.tag_x, placed.middle - 0.08 * bool(box.below), box.tag, fontsize=12, fontweight="bold",
                va="center", zorder=4, ha=side, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    if box.below:
        ax.text(column.tag_x, placed.middle + 0.1, box.below, fontsize=9.5, va="center", zorder=4, ha=side,
                color="#505050")


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
