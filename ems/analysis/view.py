"""One answer's values and alignment, as text for a terminal or as HTML.

It is drawn from `Result.to_dict()`. Text from outside is never trusted: it is cut to length, and
what could steer a terminal or a browser is replaced or escaped.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from ..metrics import answer_scores, reference_scores
from ..terminal import visible
from ..types import Scores, rendered, warning_of

VALUE_FIELDS = ("recall", "precision", "f1", "value")
ResultFields = Mapping[str, Any]  # what `Result.to_dict` gives
# What a score says of a point. "not covered" is said of a reference point only, "not in the
# reference" of an answer point only. The words for figures are said in place of "covered" and "in
# part" where words alone hold a point and the other text lacks one of its figures, or of its
# partner's.
COVERED, IN_PART, NOT_COVERED, CONTRADICTED = "covered", "in part", "not covered", "contradicted"
EXTRA, UNSCORED = "not in the reference", "unscored"
FIGURE_WORDS = "figure not in the answer", "figure not in the reference"
WORDS = (
    COVERED,
    IN_PART,
    *FIGURE_WORDS,
    NOT_COVERED,
    CONTRADICTED,
    UNSCORED,
)  # of reference points
LEGEND = (
    "figure not in the answer, figure not in the reference: words of the point are in the other "
    "text, and the figure is not. A marked figure is a fact about numbers: it does not say that "
    "the texts contradict each other. "
    "In HTML a dotted frame says that the document lacks the figure."
)
# A mark as `marked` writes it: a figure, and which texts lack it.
_MARK = re.compile(r"\[([^][]+): (not in the (?:answer|reference|document)(?: or the document)?)\]")
_MARKED = 10_000  # characters of a point in which figures are marked
# By what made the scores: from which score on a point is "covered", and up to which "not covered".
LIMITS = {"pairs": (0.5, 0.0), "judge": (0.5, 0.2), "words": (0.6, 0.2)}
# The edge of each word's cells, in Okabe and Ito's colours, which every colour vision tells apart.
_EDGES = {
    COVERED: "4px solid #0072B2",
    IN_PART: "4px dashed #0072B2",
    **dict.fromkeys(FIGURE_WORDS, "6px double #E69F00"),
    NOT_COVERED: "5px double #D55E00",
    CONTRADICTED: "8px solid #D55E00",
    EXTRA: "5px dotted #CC79A7",
    UNSCORED: "4px dashed #888888",
}
_CELL_STYLE = "text-align:left;vertical-align:top;overflow-wrap:anywhere;padding:2px 8px"
_WARNING_STYLE = "border:3px solid #D55E00;padding:6px 10px;font-weight:bold"
_WIDTH = 100  # characters of a terminal's line


class AlignmentRow(NamedTuple):
    """A scored point, and what stands beside it on the other side."""

    ref: int | None  # index of the reference point; None for none
    ans: int | None  # index of the answer point; None for none
    word: str  # what the score says: one of the words above
    score: float | None  # in [0, 1], as it enters the metric; None = unscored
    is_hint: bool = False  # the answer point is only the most similar one: it made no score


def side_scores(result: ResultFields) -> tuple[Scores, Scores]:
    """The score of each reference point and of each answer point; (), () without points."""
    if "match" not in result:
        return result.get("ref_score", ()), result.get("ans_score", ())
    ref_score = reference_scores(result["match"], result["score"])
    return ref_score, answer_scores(result["match"], ref_score, len(result["ans_points"]))


def marked(result: ResultFields) -> ResultFields:
    """The result, with marks in its points at the figures that another text lacks.

    A mark states a fact: "[7%: not in the reference]".
    """
    figures = result.get("figures")
    if not figures or "ref_points" not in result:
        return result
    ref_facts = dict.fromkeys(figures["ref"]["lacking"], "not in the answer")
    extra, undocumented = figures["ans"]["lacking"], figures["not_in_document"] or ()
    ans_facts = dict.fromkeys(extra, EXTRA) | dict.fromkeys(undocumented, "not in the document")
    ans_facts |= dict.fromkeys(set(extra).intersection(undocumented), f"{EXTRA} or the document")
    return {
        **result,
        "ref_points": _with_facts(result["ref_points"], ref_facts),
        "ans_points": _with_facts(result["ans_points"], ans_facts),
    }


def _with_facts(points: Iterable[str], facts: Mapping[tuple[int, int, int], str]) -> list[str]:
    """The points with the facts, written from the last one on so that the places stay right."""
    with_facts = list(points)
    for (i, start, end), fact in sorted(facts.items(), reverse=True):
        if end <= _MARKED:
            point = with_facts[i]
            with_facts[i] = f"{point[:start]}[{point[start:end]}: {fact}]{point[end:]}"
    return with_facts


def alignment_rows(result: ResultFields) -> Iterator[AlignmentRow]:
    """Every reference point, then answer points: each with its score and what the score says.

    Of an EMSResult the answer points are those that no reference point matched, of a CoverageResult
    all. A result without points has no rows.
    """
    ref_score, ans_score = side_scores(result)
    ref_others, ans_others = _other_figures(result)
    is_paired = "match" in result
    partners = result.get("match") or result.get("nearest") or [-1] * len(ref_score)
    for i, partner in enumerate(partners):
        ans = None if partner == -1 else partner
        is_contradicted = i in result.get("contradicted", ())
        of_figures = ref_others.get(i)
        if is_paired and ans is not None:
            of_figures = of_figures or ans_others.get(ans)
        word = _word(result, ref_score[i], is_contradicted, of_figures, NOT_COVERED)
        yield AlignmentRow(i, ans, word, ref_score[i], not is_paired and ans is not None)
    for j, score in enumerate(ans_score):
        if is_paired and j in partners:
            continue
        is_contradicted = j in result.get("ans_contradicted", ())
        word = _word(result, score, is_contradicted, ans_others.get(j), EXTRA)
        yield AlignmentRow(None, j, word, score)


def asks_what_is_contradicted(signature: Mapping[str, str]) -> bool:
    """Whether a judge is asked which points the other text contradicts: in Coverage(LLM) alone."""
    return signature.get("coverage", "").startswith("llm:")


def _word(
    result: ResultFields,
    score: float | None,
    is_contradicted: bool,
    of_figures: str | None,
    if_absent: str,
) -> str:
    """What a point's score says; `if_absent` is the word for a point that the other side lacks.

    `of_figures` is the word for a point with a figure that the other side lacks; None for others.
    """
    if is_contradicted:
        return CONTRADICTED
    if score is None:
        return UNSCORED
    scored_by = "words"
    if "match" in result:
        scored_by = "pairs"
    elif asks_what_is_contradicted(result["signature"]):
        scored_by = "judge"
    covered, not_covered = LIMITS[scored_by]
    if score <= not_covered:
        return if_absent
    if of_figures:
        return of_figures
    return COVERED if score >= covered else IN_PART


def _other_figures(result: ResultFields) -> tuple[dict[int, str], dict[int, str]]:
    """The points of each side that have a figure which the other side lacks, and what is said.

    None where a judge was asked: it has read the figures.
    """
    figures = result.get("figures")
    if not figures or "judge" in result["signature"]:
        return {}, {}
    ref, ans = figures["ref"]["lacking"], figures["ans"]["lacking"]
    in_ref, in_ans = FIGURE_WORDS
    return {i: in_ref for i, _, _ in ref}, {j: in_ans for j, _, _ in ans}


def support_line(result: ResultFields, point: int | None) -> str:
    """What the document says of an answer point, in one line; "" where nothing is known."""
    if point is None or not result.get("support"):
        return ""
    support = result["support"][point]
    line = support["label"] or support["reason"]
    if not line:
        return ""
    if support["quote"]:
        line += f"; passage {support['passage']}: {support['quote']}"
    return visible(f"document: {line}", 250)


def value_lines(result: ResultFields) -> list[str]:
    """The values of an answer, a line each, and how many figures are shared; what is unscored."""
    lines = []
    for name in VALUE_FIELDS:
        if name in result:
            value = "no value" if result[name] is None else f"{result[name]:.3f}"
            lines.append(f"{name} = {value}")
    if figures := result.get("figures"):
        in_answer = "figures: {shared} of {count} of the reference are in the answer"
        in_reference = "figures: {shared} of {count} of the answer are in the reference"
        lines.append(in_answer.format(**figures["ref"]))
        lines.append(in_reference.format(**figures["ans"]))
    if result["unscored"] or result["reason"]:
        lines.append(f"unscored: {result['unscored']}. {visible(result['reason'], 200)}".strip())
    return lines


def _head(result: ResultFields) -> str:
    """The lines above the rows: whose answer it is, its values and how they were made."""
    name = f"{visible(result['model'], 45)} on {visible(result['triplet_id'], 45)}"
    question = visible(result["question"], 300)
    signature = visible(rendered(result["signature"]))
    lines = [name, question, *value_lines(result), signature]
    if result.get("figures") and "ref_points" in result:
        lines.append(LEGEND)
    return "\n".join(lines)


def _cells(result: ResultFields, row: AlignmentRow) -> tuple[str, str, str]:
    """The three texts of a row: reference point, score, answer point."""
    reference = _point(result["ref_points"], row.ref)
    answer = _point(result["ans_points"], row.ans)
    if row.is_hint:
        answer = f"(nearest: {visible(answer, 150)})"
    else:
        answer = f"{answer}\n{support_line(result, row.ans)}".strip()
    score = row.word
    if row.score and row.score >= 0.005:
        score += f" {row.score:.2f}"
    return reference, score, answer


def _point(points: Sequence[str], index: int | None) -> str:
    return "–" if index is None else f"{index}: {visible(points[index], 600)}"


def as_text(result: ResultFields) -> str:
    """One answer's values and its alignment for a terminal of 100 columns."""
    result = marked(result)
    lines = _wrapped(f"{warning_of(result['signature'])}\n{_head(result)}", _WIDTH)
    lines.append("-" * _WIDTH)
    lines += _columns("reference", "score", "answer")
    for row in alignment_rows(result):
        lines += _columns(*_cells(result, row))
    return "\n".join(lines) + "\n"


def _columns(reference: str, score: str, answer: str) -> Iterator[str]:
    """Three texts side by side, in as many lines as the longest of them takes."""
    columns = _wrapped(reference, 41), _wrapped(score, 14), _wrapped(answer, 41)
    for left, middle, right in zip_longest(*columns, fillvalue=""):
        yield f"{left:<43}{middle:<16}{right}".rstrip()


def _wrapped(text: str, width: int) -> list[str]:
    lines = []
    for line in text.split("\n"):
        lines += textwrap.wrap(line, width)
    return lines


def as_html(result: ResultFields) -> str:
    """The same as HTML without script or link, for light and dark themes.

    In a notebook no "$" of a text begins a formula.
    """
    result = marked(result)
    rows = ""
    for row in alignment_rows(result):
        edge = _EDGES[row.word]
        style = f"{_CELL_STYLE};border-left:{edge};background:{edge[-7:]}30"
        cells = [f'<td style="{style}">{_escaped(cell)}</td>' for cell in _cells(result, row)]
        rows += f"<tr>{''.join(cells)}</tr>"
    warning = warning_of(result["signature"])
    if warning:
        warning = f'<p style="{_WARNING_STYLE}">{warning}</p>'
    return (
        f'<div class="mathjax_ignore" style="max-width:1100px">{warning}'
        f"<p>{_escaped(_head(result))}</p>"
        '<table style="width:100%;table-layout:fixed;border-collapse:separate;'
        'border-spacing:0 4px">'
        f'<col><col style="width:9em"><col><tbody>{rows}</tbody></table></div>'
    )


def _escaped(text: str) -> str:
    return _MARK.sub(_underlined, html.escape(text)).replace("\n", "<br>")


def _underlined(mark: re.Match[str]) -> str:
    figure, fact = mark.groups()
    style = "text-decoration:underline wavy #D55E00"
    if fact.endswith("document"):
        style += ";outline:2px dotted #CC79A7"
    return f'<span style="{style}" title="{figure} is {fact}">{figure}</span>'
