"""`save_report`: results as one HTML file that needs no server and no network, to read, filter and send.

The summaries are plain HTML; the tables of answers and of missed points are drawn by a script in the page,
from packed data (JSON, gzip, base64). The page may load nothing and run nothing but its own script: its
content security policy says so. Texts from outside are cleaned here (`visible`), escaped in the HTML, and set
only as text by the script.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from .frames import to_frame
from .io import write_file
from .stats import MIN_CLUSTERS, summarise
from .support.supporter import support_table
from .tables import percent, shortened, with_interval
from .types import InputError, Triplet, rendered
from .view import LIMITS, alignment_rows, arithmetic, scored_by, support_line, visible

TEMPLATES = Path(__file__).parent / "templates"
PARTS = {"Recall": "recall", "Precision": "precision", "F1": "f1", "Score": "value"}
# Per cent of K-QA's claims called covered, in part and missing that physicians found in the answer. The
# limits were chosen there and, for words, on FinanceBench's answers, where these are 88, 47 and 14.
RIGHT = {"pairs": (90, 60, 7), "judge": (90, 22, 3), "words": (88, 51, 19)}
Results = Mapping[str, Sequence[Any]]


def save_report(results: Results, path: str | Path, triplets: Sequence[Triplet] | None = None) -> Path:
    """Write a report of results, by metric, to an HTML file; returns its path.

    Questions and groups are the results' own, or those of `triplets`. Equal input makes an equal file.
    InputError without results, and for a model with results of several settings under one metric.
    """
    known = {triplet.id: triplet for triplet in triplets or ()}
    results = {metric: [_with_question(result, known) for result in rows]
               for metric, rows in results.items() if rows}
    if not results:
        raise InputError("there are no results to report; give those of ems evaluate")
    summary = summarise(to_frame(results))
    data = gzip.compress(json.dumps(_payload(results), ensure_ascii=False).encode(), mtime=0)
    page, style, script = ((TEMPLATES / name).read_text(encoding="utf-8")
                           for name in ("report.html", "report.css", "report.js"))
    return write_file(path, [Template(page).substitute(
        style=style, style_hash=_hash(style), script=script, script_hash=_hash(script),
        lead=_lead(results), summary=_summary(summary), clusters=summary["clusters"].max(),
        least=MIN_CLUSTERS, words=_words(results), support=_support(results), settings=_settings(results),
        data=base64.b64encode(data).decode())])


def _with_question(result: Any, known: Mapping[str, Triplet]) -> Any:
    triplet = known.get(result.triplet_id)
    return replace(result, question=triplet.question, group=triplet.group) if triplet else result


def _hash(source: str) -> str:
    """What a content security policy calls a style or a script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


# --- the part that is plain HTML ---

def _lead(results: Results) -> str:
    every = {(result.triplet_id, result.model) for rows in results.values() for result in rows}
    questions, models = (len(set(names)) for names in zip(*every, strict=True))
    return f"answers: {len(every):,} · models: {models:,} · questions: {questions:,}"


def _table(titles: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table from rows of a model, a metric, and cells that are HTML."""
    head = "".join(f"<th>{title}</th>" for title in ["Model", *titles])
    body = ""
    for model, metric, *cells in rows:
        model, metric = (html.escape(shortened(name)) for name in (model, metric))
        values = "".join(f"<td>{cell}</td>" for cell in cells)
        body += f'<tr><th scope="row">{model}<small>{metric}</small></th>{values}</tr>'
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _summary(summary: pd.DataFrame) -> str:
    """A row a metric and model: each value with its interval."""
    parts = [part for part in PARTS if part in set(summary["part"])]
    rows = []
    for (metric, model), own in summary.groupby(["metric", "model"], sort=False):
        cells = {cell.part: cell for cell in own.itertuples(index=False)}
        judged = percent(own["coverage"].min()) + (" †" if own["flagged"].any() else "")
        values = [with_interval(cells.get(part)) for part in parts]
        rows.append([model, metric, *values, str(own["n"].min()), judged])
    return _table([*parts, "n", "Judged"], rows)


def _words(results: Results) -> str:
    """From which scores on a point is called covered or missing, and how often that is right."""
    notes = []
    for metric, rows in results.items():
        if hasattr(rows[0], "ref_points"):
            kind = scored_by(rows[0].to_dict())
            (covered, missing), right = LIMITS[kind], RIGHT[kind]
            notes.append(f"{shortened(metric)}: covered from {covered:g} on ({right[0]} %), in part between "
                         f"({right[1]} %), missing up to {missing:g} ({right[2]} %).")
    return "".join(f"<p>{html.escape(note)}</p>" for note in notes)


def _support(results: Results) -> str:
    """What the documents say of the answers' points, a row a metric and model; "" where none was asked."""
    checked = {metric: [r for r in rows if getattr(r, "support", ())] for metric, rows in results.items()}
    tables = [support_table(rows).assign(metric=metric) for metric, rows in checked.items() if rows]
    if not tables:
        return ""
    table = pd.concat(tables).set_index(["model", "metric"]).astype(object)
    rows = []
    for names, row in zip(table.index, table.fillna(math.nan).to_numpy(), strict=True):
        rows.append([*names, *(f"{value:,}" if isinstance(value, int) else percent(value) for value in row)])
    return f"<section><h2>The answers’ points in the documents</h2>{_table(table.columns, rows)}</section>"


def _settings(results: Results) -> str:
    lines = dict.fromkeys((metric, rendered(r.signature)) for metric, rows in results.items() for r in rows)
    return "".join(f"<p>{html.escape(visible(f'{metric}: {signature}'))}</p>" for metric, signature in lines)


# --- the part that the script draws ---

def _payload(results: Results) -> dict[str, Any]:
    """What report.js reads: each text and each list of points once, by its place, and each answer's rows."""
    texts: dict[str, int] = {}
    lists: dict[tuple[int, ...], int] = {}
    models: dict[str, int] = {}
    questions: dict[tuple[str, str, str], int] = {}
    answers = []
    for metric, rows in enumerate(results.values()):
        for result in rows:
            drawn = result.to_dict()
            sides = [tuple(_place(texts, point) for point in drawn.get(side, ()))
                     for side in ("ref_points", "ans_points")]
            answers.append({
                "metric": metric, "model": _place(models, shortened(result.model)),
                "question": _place(questions, (shortened(result.triplet_id), visible(result.group, 200),
                                               visible(result.question, 2000))),
                "values": {name: drawn[name] for name in PARTS.values() if name in drawn},
                "unscored": result.unscored, "sums": arithmetic(drawn), "rows": _rows(drawn),
                "ref": _place(lists, sides[0]), "ans": _place(lists, sides[1]),
                "support": [[support["label"], _place(texts, support_line(drawn, j))]
                            for j, support in enumerate(drawn.get("support", ()))]})
    parts = [[name for name in PARTS.values() if hasattr(rows[0], name)] for rows in results.values()]
    return {"metrics": [shortened(metric) for metric in results], "parts": parts, "models": list(models),
            "questions": list(questions), "texts": [visible(text) for text in texts], "lists": list(lists),
            "answers": answers}


def _place(table: dict[Any, int], value: Any) -> int:
    return table.setdefault(value, len(table))


def _rows(drawn: Mapping[str, Any]) -> list[list[Any]]:
    return [[row.ref, row.ans, row.word, None if row.score is None else round(row.score, 3),
             round(row.weight, 3), row.is_hint] for row in alignment_rows(drawn)]
