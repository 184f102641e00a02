"""`save_report`: results as one HTML file, to read, filter and send.

The file needs no server and no network. The summaries are plain HTML; the tables of answers and of
missed points are drawn by the page's own script, from packed data. The page may load or run nothing
else: its content security policy says so. Texts from outside are cleaned here (`visible`), escaped
in the HTML, and set only as text by the script.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from ..io import FilePath, write_file
from ..support.supporter import support_table
from ..terminal import visible
from ..types import WITHOUT_JUDGE, InputError, rendered
from .frames import TABLE1_PARTS, GivenResults, by_metric, in_order, to_frame
from .stats import MIN_CLUSTERS, paired_table, summarise
from .tables import means_table, pairs_table, percent, shortened
from .view import (
    LEGEND,
    LIMITS,
    VALUE_FIELDS,
    AlignmentRow,
    ResultFields,
    alignment_rows,
    marked,
    scored_by,
    support_line,
    value_lines,
)

TEMPLATES = Path(__file__).parent / "templates"
# Per cent of K-QA's claims called covered, in part and missing that physicians found in the answer.
# The limits were chosen there and, for words, on FinanceBench's answers.
RIGHT = {"pairs": (90, 60, 7), "judge": (89, 34, 2), "words": (88, 55, 19)}
Results = Mapping[str, Sequence[Any]]


def save_report(results: GivenResults, path: FilePath, values: pd.DataFrame | None = None) -> Path:
    """Write a report of results, one, a list or by metric, to an HTML file; returns its path.

    Equal input makes an equal file. `values` is the frame of all results where `results` are only
    the worst. InputError without results, and for a model with results of several settings under
    one metric.
    """
    results = {metric: list(rows) for metric, rows in by_metric(results).items() if rows}
    if not results:
        raise InputError("there are no results to report; give those of ems evaluate")
    shown = to_frame(results)
    values = shown if values is None else values
    summary = summarise(values)
    is_value = summary["part"].isin(TABLE1_PARTS)
    style, script = _template("report.css"), _template("report.js")
    fields = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "warning": _warning(results),
        "summary": _means(summary[is_value], ["clusters"]),
        "shares": _means(summary[~is_value], ["clusters", "n", "scored"]),
        "differences": _differences(values),
        "support": _support(results),
        "clusters": summary["clusters"].max(),
        "least": MIN_CLUSTERS,
        "words": _words(results),
        "legend": LEGEND,
        "settings": _settings(results),
        "data": base64.b64encode(_packed(results)).decode(),
    }
    # The parts of the page that are hidden where there is nothing to show.
    parts = {
        "warning": fields["warning"],
        "shares": not is_value.all(),
        "differences": fields["differences"],
        "support": fields["support"],
        "rest": len(shown) < len(values),
        "points": fields["words"],
    }
    for name, content in parts.items():
        fields[f"no_{name}"] = "" if content else "hidden"
    return write_file(path, [Template(_template("report.html")).substitute(fields)])


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """The name of a style or a script in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _table(table: pd.DataFrame) -> str:
    """A table whose cells are texts, escaped and without a style of its own."""
    page = table.to_html(index=False, border=0).replace(' style="text-align: right;"', "")
    return f'<div class="wide">{page}</div>'


def _warning(results: Results) -> str:
    """The warning of values without a judge, and which metrics it is said of."""
    metrics = []
    for metric, rows in results.items():
        if any("judge" not in result.signature for result in rows):
            metrics.append(html.escape(shortened(metric)))
    return f"{WITHOUT_JUDGE} This is said of {', '.join(metrics)}." if metrics else ""


def _means(summary: pd.DataFrame, left_out: Sequence[str]) -> str:
    return _table(means_table(summary).drop(columns=left_out, errors="ignore"))


def _differences(values: pd.DataFrame) -> str:
    """The models two by two, as texts; "" for one model alone, and for more than five."""
    if not 2 <= values["model"].nunique() <= 5:
        return ""
    is_shown = values["part"].isin([*TABLE1_PARTS, "Contradicted"])
    pairs = pairs_table(paired_table(values[is_shown]))
    return _table(pairs[["a", "b", "metric", "part", "difference", "higher", "p_holm"]])


def _words(results: Results) -> str:
    """From which scores on a point is called covered or missing, and how often that is right."""
    notes = ""
    for metric, rows in results.items():
        if hasattr(rows[0], "ref_points"):
            kind = scored_by(rows[0].to_dict())
            least, most = LIMITS[kind]
            covered, in_part, missing = RIGHT[kind]
            notes += (
                f"<p>{html.escape(shortened(metric))}: covered from {least:g} on ({covered} %), "
                f"in part between ({in_part} %), missing up to {most:g} ({missing} %).</p>"
            )
    return notes


def _support(results: Results) -> str:
    """What the documents say of the answers' points, a row per metric and model.

    "" where no document was consulted.
    """
    tables = []
    for metric, rows in results.items():
        checked = [result for result in rows if getattr(result, "support", ())]
        if checked:
            tables.append(support_table(checked).assign(metric=metric))
    if not tables:
        return ""
    table = in_order(pd.concat(tables)).set_index(["model", "metric"])
    table = table.astype(object).fillna(float("nan")).map(_count_or_share)
    return _table(table.rename(index=shortened).reset_index())


def _count_or_share(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else percent(value)


def _settings(results: Results) -> str:
    """The signatures of each metric, a paragraph each."""
    lines: dict[str, None] = {}  # a set that keeps the order
    for metric, rows in results.items():
        for result in rows:
            lines[f"{metric}: {rendered(result.signature)}"] = None
    return "".join(f"<p>{html.escape(visible(line))}</p>" for line in lines)


# --- the part that the script draws ---


def _packed(results: Results) -> bytes:
    """What report.js reads, compressed: a line of JSON per answer, then one of names and texts.

    A text that several answers have stands there once, and answers give its place in the list.
    """
    models: dict[str, int] = {}
    questions: dict[tuple[str, str, str], int] = {}
    texts: dict[str, int] = {}
    lines = []
    for number, rows in enumerate(results.values()):
        for result in rows:
            name, group = shortened(result.triplet_id), visible(result.group, 200)
            answer = {
                "metric": number,
                "model": _place(models, shortened(result.model)),
                "question": _place(questions, (name, group, visible(result.question))),
                **_drawn(marked(result.to_dict()), texts),
            }
            lines.append(json.dumps(answer, ensure_ascii=False))
    names = {
        "metrics": [shortened(metric) for metric in results],
        "parts": [_value_fields(vars(rows[0])) for rows in results.values()],
        "models": list(models),
        "questions": list(questions),
        "texts": list(texts),
    }
    lines.append(json.dumps(names, ensure_ascii=False))
    return gzip.compress("\n".join(lines).encode(), mtime=0)  # no date: equal files are equal


def _drawn(result: ResultFields, texts: dict[str, int]) -> dict[str, Any]:
    """What the script draws of one answer."""
    support = []
    for j, check in enumerate(result.get("support", ())):
        support.append([check["label"] or "", _place(texts, support_line(result, j))])
    return {
        "values": {name: result[name] for name in _value_fields(result)},
        "unscored": result["unscored"],
        "lines": value_lines(result),
        "rows": [_rounded(row) for row in alignment_rows(result)],
        "ref": [_place(texts, visible(point)) for point in result.get("ref_points", ())],
        "ans": [_place(texts, visible(point)) for point in result.get("ans_points", ())],
        "support": support,
    }


def _value_fields(result: ResultFields) -> list[str]:
    return [name for name in VALUE_FIELDS if name in result]


def _rounded(row: AlignmentRow) -> AlignmentRow:
    score = row.score and round(row.score, 3)
    return row._replace(score=score, weight=round(row.weight, 3))


def _place(table: dict[Any, int], value: Any) -> int:
    """The place of a value in a table of distinct values, to which a new one is added."""
    return table.setdefault(value, len(table))
