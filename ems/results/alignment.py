"""One answer's alignment, and the sums behind its metrics, as HTML or as text for a terminal.

Text from outside is never trusted: it is escaped, stripped of control characters and cut to length.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from ..io import duplicates
from ..metrics import scores_of
from ..support.scores import support_scores
from ..types import EMSResult, Support
from .display import visible
from .pooling import tally

IN_DOCUMENT = "in document"    # an answer point that earns nothing, and that the document supports


@dataclass(frozen=True, slots=True)
class AlignmentRow:
    """One row of an alignment view: a point, its score, and a point of the other side beside it."""

    ref: int | None               # index of the reference point, None for none
    ans: int | None               # index of the answer point, None for none
    # "" for a matched pair, "no match", "unscored", "covered" by the whole other side; "in document" for an
    # answer point that earns nothing and that the document supports
    label: str
    score: float | None           # in [0, 1], as it enters the metric; None = unscored
    weight: float | None = None   # the scored point's weight in the mean; None where all weigh the same
    hint: str = ""                # side ("reference", "answer") whose point is only the nearest one
    support: Support | None = None        # what the document says of the answer point, if that was asked

    @property
    def tag(self) -> str:
        """The score in words: "0.85", "covered 0.85", "no match", "unscored", "in document"."""
        worded = self.score is None or self.label in ("no match", IN_DOCUMENT)
        return self.label if worded else f"{self.label} {self.score:.2f}".strip()


def alignment_rows(result: EMSResult) -> list[AlignmentRow]:
    """What made the number of an answer, row by row; every alignment view shows these rows.

    Pairs (eq. 5): every reference point with its match, then the answer points that no reference point chose.
    Whole sides: every point of both, beside the nearest one of the other side, a hint that made no score.
    """
    covered = _side(len(result.ref_points), result.match, scores_of(result), result.ref_weights)
    if result.whole_sides:
        answers = _side(len(result.ans_points), result.ans_match, result.ans_score, result.ans_weights)
        rows = [AlignmentRow(i, j, "covered", s, weight, "answer") for i, j, s, weight in covered]
        rows += [AlignmentRow(i, j, "covered", s, weight, "reference") for j, i, s, weight in answers]
    else:
        rows = [AlignmentRow(i, j, "no match" if j is None else "", s, weight) for i, j, s, weight in covered]
        unknown = result.lost or (result.match and set(result.match) == {None})
        rows += [AlignmentRow(None, j, "no match", None if unknown else 0.0)
                 for j in range(len(result.ans_points)) if j not in result.match]
    return [_labelled(row, result) for row in rows]


def _labelled(row: AlignmentRow, result: EMSResult) -> AlignmentRow:
    """The row as "unscored" without a score, and with what the document says of its answer point."""
    label = "unscored" if row.score is None else row.label
    if row.ans is None or row.hint == "answer" or not result.support:
        return replace(row, label=label)
    support = result.support[row.ans]
    scored_itself = row.ref is None or result.whole_sides         # otherwise the row's score is the pair's
    found = scored_itself and row.score == 0 and support.checked and support.label == "supported"
    return replace(row, support=support, label=IN_DOCUMENT if found else label)


def _side(n: int, match: Sequence[int | None], scores: Sequence[float | None],
          weights: Sequence[float]) -> Iterator[tuple[int, int | None, float | None, float | None]]:
    """Index, nearest point, score and weight (None where all weigh the same) of each point of a side."""
    unknown = (None,) * n
    nearest = [None if j == -1 else j for j in match or unknown]
    shown = weights if len(set(weights)) > 1 else unknown
    return zip(range(n), nearest, scores or unknown, shown, strict=True)


def arithmetic(result: EMSResult) -> list[str]:
    """The three metrics, a line each, with their division (eq. 6, 8 and 9); then what is unscored."""
    sums, r, p = tally(result), result.recall, result.precision
    lines = [_division("EMS-Recall", r, scores_of(result), sums.ref_sum, sums.ref_n),
             _division("EMS-Precision", p, result.ans_score, sums.ans_sum, sums.ans_n),
             f"EMS-F1 = 2 × {p:.3f} × {r:.3f} / ({p:.3f} + {r:.3f}) = {result.f1:.3f}" if p + r > 0
             else _valued("EMS-F1", result.f1)]
    if result.support:
        s = support_scores(result)
        found = (f" = {s.support:.3f} ({s.unchecked} of {s.points} points not checked), blind spot "
                 f"{s.blind_spot:.3f}, unsupported {s.unsupported:.3f}, open precision {s.open_precision:.3f}"
                 if s.points > s.unchecked else f": no value ({s.points} of {s.points} points not checked)")
        lines.append(f"Beside them, against the document: EMS-Support{found}")
    if result.unscored or result.reason:
        whose = "points" if result.whole_sides else "reference points"
        lines.append(f"unscored {whose}: {result.unscored}. {visible(result.reason, 200)}".strip())
    return lines


def _valued(name: str, value: float) -> str:
    return f"{name}: no value" if math.isnan(value) else f"{name} = {value:.3f}"


def _division(name: str, value: float, scores: Sequence[float | None], top: float, below: float) -> str:
    """A metric as the division that gives it: of a sum over its scores, unless these are weighted."""
    if not below:
        return f"{_valued(name, value)} (no scored points to divide by)"
    kept = [s for s in scores if s is not None]
    terms = " + ".join(f"{s:.2f}" for s in kept[:8]) + (" + …" if len(kept) > 8 else "")
    plain = len(kept) == below and math.isclose(math.fsum(kept), top, abs_tol=1e-9)
    fraction = (f"({terms}) / {below:g} = {top:.2f} / {below:g}" if plain
                else f"{top:.2f} / {below:.2f} (weighted)")
    return f"{name} = {fraction}{', cut at 0' * (top < 0)} = {value:.3f}"


WHOLE_SIDES = ("covered: how far the other side as a whole contains this point. Nearest: the most similar "
               "point there, a hint only; it did not make the score.")


def _shown(result: EMSResult, limit: int) -> tuple[list[AlignmentRow], list[str], list[list[str]]]:
    """The first rows, a line on how many more there are, and the points of both sides as they are shown:
    those that occur more than once end with "[repeated]".
    """
    rows, sides = alignment_rows(result), []
    for points in (result.ref_points, result.ans_points):
        again = set(duplicates(points))
        sides.append([visible(p, 600) + " [repeated]" * (p in again) for p in points])
    return rows[:limit], [f"… and {len(rows) - limit} more rows"] * (len(rows) > limit), sides


def alignment_html(result: EMSResult, limit: int = 200) -> str:
    """One answer's alignment (`alignment_rows`, at most `limit` of them) as HTML without script or link.

    Blue: scored, the darker the higher. Double orange edge: nothing matches or covers it. Green: nothing
    matches it, but the document supports it. Dashed grey: unscored. Small, pale and in italics: only the
    nearest point, or what the document says. Okabe and Ito's colours, translucent: for every colour vision,
    in light and dark themes.
    """
    rows, more, sides = _shown(result, limit)
    body = [_html_row(row, sides) for row in rows]
    body += [f'<tr><td colspan="3">{line}</td></tr>' for line in more]
    titles = f"reference: {len(sides[0])} points", "score", f"answer: {len(sides[1])} points"
    head = f"{html.escape(visible(result.model, 200))} on {html.escape(visible(result.triplet_id, 200))}"
    lines = arithmetic(result) + [WHOLE_SIDES] * result.whole_sides
    columns = "".join(f'<th style="text-align:left">{title}</th>' for title in titles)
    widths = "".join(f'<col style="width:{width}">' for width in ("auto", "8em", "auto"))
    return (f'<div style="max-width:1100px;color:inherit"><p><b>{head}</b><br>'
            f'{"<br>".join(map(html.escape, lines))}</p>'
            f'<table style="width:100%;table-layout:fixed;border-collapse:separate;border-spacing:0 4px">'
            f"<colgroup>{widths}</colgroup><thead><tr>{columns}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table>"
            f"<p><small>{html.escape(visible(result.signature))}</small></p></div>")


def _html_row(row: AlignmentRow, sides: Sequence[Sequence[str]]) -> str:
    paint = _paint(row)
    tag = f"<b>{row.tag}</b>" + ("" if row.weight is None else f"<br><small>weight {row.weight:.1f}</small>")
    document = "" if row.support is None else (
        f'<br><small style="opacity:.75;font-style:italic">{html.escape(support_text(row.support))}</small>')
    return ("<tr>" + _html_point(row.ref, sides[0], paint, row.hint == "reference") + _html_cell(tag, paint)
            + _html_point(row.ans, sides[1], paint, row.hint == "answer", document) + "</tr>")


def _html_point(index: int | None, points: Sequence[str], paint: str, hint: bool, below: str = "") -> str:
    style = "padding-left:1em;opacity:.65;font-style:italic;font-size:85%" if hint else paint
    if index is None:
        return _html_cell("–", style)
    text = html.escape(visible(points[index], 160) if hint else points[index])
    text = f"<small>{index}</small> {text.replace('[repeated]', '<b>[repeated]</b>')}{below}"
    return _html_cell("nearest: " * hint + text, style)


def _html_cell(text: str, style: str) -> str:
    layout = "text-align:left;vertical-align:top;white-space:normal;overflow-wrap:anywhere"
    return f'<td style="{layout};{style}">{text}</td>'


def support_text(support: Support) -> str:
    """What the document says of a point, in one line: the label, the numbers that decided, the passage."""
    facts = {"not checked": support.reason, "not found": ", ".join(support.missing),
             "follows": "; ".join(support.derived)}
    parts = [support.label or "unscored", *(f"{name}: {fact}" for name, fact in facts.items() if fact)]
    if support.passage is not None and not support.reason:
        parts.append(f"passage {support.passage}" + (f": {support.quote}" if support.quote else ""))
    return visible("document: " + "; ".join(parts), 400)


def _paint(row: AlignmentRow) -> str:
    """Edge and background of a row's scored cells."""
    if row.score is None:
        return "border-left:4px dashed #888;background:transparent;font-style:italic"
    if row.label == IN_DOCUMENT:
        return "border-left:5px solid #009E73;background:rgba(0,158,115,.14)"
    if row.label and row.score == 0:           # no match, or nothing of the other side covers it
        return "border-left:5px double #D55E00;background:rgba(213,94,0,.10)"
    return f"border-left:4px solid #0072B2;background:rgba(0,114,178,{0.06 + 0.34 * row.score:.2f})"


def alignment_text(result: EMSResult, limit: int = 60) -> str:
    """One answer's alignment (`alignment_rows`, at most `limit` of them) for a terminal of 100 columns, then
    the sums and the signature. A point that is only the nearest one stands in brackets; below an answer's
    point stands what the document says of it.
    """
    widths = (36, 14, 36) if result.whole_sides else (40, 8, 38)
    rows, more, sides = _shown(result, limit)
    lines = [f"{visible(result.model, 45)} on {visible(result.triplet_id, 45)}", "",
             f"     {f'reference: {len(sides[0])} points':<{widths[0]}}  {'score':^{widths[1]}}       "
             f"answer: {len(sides[1])} points", bar := "-" * 100]
    for row in rows:
        lines += _text_row(row, sides, widths)
    notes = [*arithmetic(result), *[WHOLE_SIDES] * result.whole_sides, visible(result.signature)]
    wrapped = (piece for note in notes for piece in textwrap.wrap(note, 100))
    return "\n".join([*lines, *more, bar, *wrapped]) + "\n"


def _text_row(row: AlignmentRow, sides: Sequence[Sequence[str]], widths: tuple[int, int, int]) -> list[str]:
    left = _text_point(row.ref, sides[0], row.hint == "reference", widths[0])
    tags = [row.tag] if row.weight is None else [row.tag, f"weight {row.weight:.1f}"]
    right = _text_point(row.ans, sides[1], row.hint == "answer", widths[2])
    if row.support:
        right += textwrap.wrap(support_text(row.support), widths[2])
    lines = []
    for number, (ref, tag, ans) in enumerate(zip_longest(left, tags, right, fillvalue="")):
        i, j = ("" if number or index is None else index for index in (row.ref, row.ans))
        lines.append(f"{i:>3}  {ref:<{widths[0]}}  {tag:^{widths[1]}}  {j:>3}  {ans}".rstrip())
    return lines


def _text_point(index: int | None, points: Sequence[str], hint: bool, width: int) -> list[str]:
    if index is None:
        return ["–"]
    text = f"({visible(points[index], 2 * width - 6)})" if hint else points[index]
    return textwrap.wrap(text, width) or ["–"]
