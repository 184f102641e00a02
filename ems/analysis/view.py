"""One answer's alignment, and the sums behind its metrics, as text for a terminal or as HTML for a notebook.

Draws from `Result.to_dict()`. Text from outside is never trusted: it is cut to length, and what could steer a
terminal or a browser is replaced or escaped.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from ..metrics import answer_scores, reference_scores, weighted_sum
from ..terminal import visible
from ..types import Scores, rendered

# What a score says of a point; "missing" is said of a reference point, "not in the reference" of the others.
COVERED, IN_PART, MISSING, CONTRADICTED = "covered", "in part", "missing", "contradicted"
EXTRA, UNSCORED = "not in the reference", "unscored"
# By what made the scores: from which score on a point is "covered", and up to which "missing".
LIMITS = {"pairs": (0.5, 0.0), "judge": (0.5, 0.2), "words": (0.6, 0.2)}
# The edge of each word's cells: Okabe and Ito's colours, which every colour vision tells apart.
EDGES = {
    COVERED: "4px solid #0072B2",
    IN_PART: "4px dashed #0072B2",
    MISSING: "5px double #D55E00",
    CONTRADICTED: "8px solid #D55E00",
    EXTRA: "5px dotted #CC79A7",
    UNSCORED: "4px dashed #888888",
}
LAYOUT = "text-align:left;vertical-align:top;overflow-wrap:anywhere;padding:2px 8px"
WIDTHS = 41, 14, 41  # characters of a terminal's columns


class Row(NamedTuple):
    """A scored point, and what stands beside it on the other side."""

    ref: int | None  # index of the reference point; None for none
    ans: int | None  # index of the answer point; None for none
    word: str  # what the score says: one of the words above
    score: float | None  # in [0, 1], as it enters the metric; None = unscored
    weight: float  # of the scored point in the metric
    is_hint: bool = (
        False  # the answer point is only most like the reference point: it made no score
    )


def side_scores(result: Mapping[str, Any]) -> tuple[Scores, Scores]:
    """The score of each reference point and of each answer point; (), () for a result without points."""
    if "match" not in result:
        return result.get("ref_score", ()), result.get("ans_score", ())
    s_ref = reference_scores(result["match"], result["score"])
    return s_ref, answer_scores(result["match"], s_ref, len(result["ans_points"]))


def alignment_rows(result: Mapping[str, Any]) -> Iterator[Row]:
    """Every reference point; then the answer points: of an EMSResult those that no reference point matched,
    of a CoverageResult all. No rows for a result without points.
    """
    s_ref, s_ans = side_scores(result)
    is_paired = "match" in result
    beside = result.get("match" if is_paired else "nearest") or [-1] * len(s_ref)
    ref_weights = result.get("ref_weights") or [1.0] * len(s_ref)
    ans_weights = result.get("ans_weights") or [1.0] * len(s_ans)
    for i, j in enumerate(beside):
        word = (
            CONTRADICTED
            if i in result.get("contradicted", ())
            else _word(result, s_ref[i], MISSING)
        )
        ans = None if j == -1 else j
        yield Row(i, ans, word, s_ref[i], ref_weights[i], is_hint=not is_paired and ans is not None)
    for j, score in enumerate(s_ans):
        if not is_paired or j not in beside:
            word = (
                CONTRADICTED
                if j in result.get("ans_contradicted", ())
                else _word(result, score, EXTRA)
            )
            yield Row(None, j, word, score, ans_weights[j])


def scored_by(result: Mapping[str, Any]) -> str:
    """What made the scores: "pairs" (eq. 5), or coverage by a "judge" or by "words"."""
    if "match" in result:
        return "pairs"
    return "judge" if result["signature"].get("coverage", "").startswith("llm:") else "words"


def _word(result: Mapping[str, Any], score: float | None, nothing: str) -> str:
    if score is None:
        return UNSCORED
    covered, missing = LIMITS[scored_by(result)]
    return COVERED if score >= covered else IN_PART if score > missing else nothing


def support_line(result: Mapping[str, Any], point: int | None) -> str:
    """What the document says of an answer point, in one line; "" where nothing is to be said."""
    support = result["support"][point] if point is not None and result.get("support") else {}
    if not (said := support.get("label") or support.get("reason")):
        return ""
    missing = "; not found: " + ", ".join(support["missing"]) if support["missing"] else ""
    quote = f"; passage {support['passage']}: {support['quote']}" if support["quote"] else ""
    return visible(f"document: {said}{missing}{quote}", 250)


def arithmetic(result: Mapping[str, Any]) -> list[str]:
    """The values of an answer, a line each, with the division that gives them; then what is unscored."""
    s_ref, s_ans = side_scores(result)
    sums = {
        "recall": weighted_sum(s_ref, result.get("ref_weights") or ()),
        "precision": weighted_sum(s_ans, result.get("ans_weights") or ()),
        "f1": (0, 0),
        "value": (0, 0),
    }
    lines = []
    for name, (total, weight) in sums.items():
        if name in result:
            division = f"{total:.2f} / {weight:.4g} = " if weight else ""
            value = "no value" if result[name] is None else f"{result[name]:.3f}"
            lines.append(f"{name} = {division}{value}")
    if result["unscored"] or result["reason"]:
        lines.append(f"unscored: {result['unscored']}. {visible(result['reason'], 200)}".strip())
    return lines


def _head(result: Mapping[str, Any]) -> list[str]:
    """The lines above the rows: whose answer it is, its values and how they were made."""
    name = f"{visible(result['model'], 45)} on {visible(result['triplet_id'], 45)}"
    signature = visible(rendered(result["signature"]))
    return [name, visible(result["question"], 300), *arithmetic(result), signature]


def _cells(result: Mapping[str, Any], row: Row) -> tuple[str, str, str]:
    """The three texts of a row."""
    left, right = (
        f"{index}: {visible(result[side][index], 600)}" if index is not None else "–"
        for side, index in (("ref_points", row.ref), ("ans_points", row.ans))
    )
    score = f" {row.score:.2f}" if row.score and row.score >= 0.005 else ""
    weight = f"\nweight {row.weight:.2g}" if row.weight != 1 else ""
    right = (
        f"(nearest: {visible(right, 90)})"
        if row.is_hint
        else f"{right}\n{support_line(result, row.ans)}"
    )
    return left, row.word + score + weight, right.strip()


def as_text(result: Mapping[str, Any]) -> str:
    """One answer's values and its alignment for a terminal of 100 columns."""
    lines = [*_wrapped(_head(result)), "-" * 100]
    for cells in [
        ("reference", "score", "answer"),
        *(_cells(result, row) for row in alignment_rows(result)),
    ]:
        columns = [
            _wrapped(cell.split("\n"), width) for cell, width in zip(cells, WIDTHS, strict=True)
        ]
        lines += [
            f"{left:<43}{score:<16}{right}".rstrip()
            for left, score, right in zip_longest(*columns, fillvalue="")
        ]
    return "\n".join(lines) + "\n"


def _wrapped(lines: Iterable[str], width: int = 100) -> list[str]:
    return [piece for line in lines for piece in textwrap.wrap(line, width)]


def as_html(result: Mapping[str, Any]) -> str:
    """The same as HTML without script or link, for light and dark themes; no "$" begins a formula."""
    body = ""
    for row in alignment_rows(result):
        edge = EDGES[row.word]
        style = f"{LAYOUT};border-left:{edge};background:{edge[-7:]}30"
        columns = (f'<td style="{style}">{_escaped(cell)}</td>' for cell in _cells(result, row))
        body += f"<tr>{''.join(columns)}</tr>"
    return (
        f'<div class="mathjax_ignore" style="max-width:1100px"><p>{_escaped(*_head(result))}</p><table '
        'style="width:100%;table-layout:fixed;border-collapse:separate;border-spacing:0 4px">'
        f'<col><col style="width:9em"><col><tbody>{body}</tbody></table></div>'
    )


def _escaped(*lines: str) -> str:
    return html.escape("\n".join(lines)).replace("\n", "<br>")
