"""`save_report`: results as one HTML file that needs no server and no network, to read, filter and send.

The summaries are plain HTML; the tables of answers and of missed points are drawn by the page's own script,
from packed data. The page may load or run nothing else: its content security policy says so. Texts from
outside are cleaned here (`visible`), escaped in the HTML, and set only as text by the script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from ..io import write_file
from ..support.supporter import support_table
from ..terminal import visible
from ..types import InputError, rendered
from .frames import in_order, to_frame
from .stats import MIN_CLUSTERS, paired_table, summarise
from .tables import means_table, pairs_table, percent, shortened
from .view import LIMITS, alignment_rows, arithmetic, scored_by, support_line

TEMPLATES = Path(__file__).parent / "templates"
PARTS = {"Recall": "recall", "Precision": "precision", "F1": "f1", "Score": "value"}
# Per cent of K-QA's claims called covered, in part and missing that physicians found in the answer. The
# limits were chosen there and, for words, on FinanceBench's answers, where these are 88, 47 and 14.
RIGHT = {"pairs": (90, 60, 7), "judge": (89, 34, 2), "words": (88, 51, 19)}
Results = Mapping[str, Sequence[Any]]


def save_report(results: Results, path: str | Path, values: pd.DataFrame | None = None) -> Path:
    """Write a report of results, by metric, to an HTML file; returns its path.

    Equal input makes an equal file. `values` is the frame of all where `results` are only the worst.
    InputError without results, and for a model with results of several settings under one metric.
    """
    results = {metric: rows for metric, rows in results.items() if rows}
    if not results:
        raise InputError("there are no results to report; give those of ems evaluate")
    shown = to_frame(results)
    of_all = shown if values is None else values
    summary, differences, support = summarise(of_all), _differences(of_all), _support(results)
    points = _words(results)
    parts = {
        "differences": differences,
        "support": support,
        "rest": len(shown) < len(of_all),
        "points": points,
        "words": "Coverage(local)" in results,
    }
    page, style, script = (
        (TEMPLATES / name).read_text(encoding="utf-8")
        for name in ("report.html", "report.css", "report.js")
    )
    return write_file(
        path,
        [
            Template(page).substitute(
                style=style,
                style_hash=_hash(style),
                script=script,
                script_hash=_hash(script),
                summary=_table(means_table(summary)),
                differences=differences,
                support=support,
                clusters=summary["clusters"].max(),
                least=MIN_CLUSTERS,
                words=points,
                settings=_settings(results),
                data=base64.b64encode(_packed(results)).decode(),
                **{f"no_{name}": "" if has else "hidden" for name, has in parts.items()},
            )
        ],
    )


def _hash(source: str) -> str:
    """What a content security policy calls a style or a script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _table(table: pd.DataFrame) -> str:
    """A table whose cells are texts, escaped and without a style of its own."""
    page = table.to_html(index=False, border=0).replace(' style="text-align: right;"', "")
    return f'<div class="wide">{page}</div>'


def _differences(values: pd.DataFrame) -> str:
    """The models two by two, as texts; "" for one model alone, and for more than five."""
    if not 2 <= values["model"].nunique() <= 5:
        return ""
    pairs = pairs_table(paired_table(values).query("part != 'Precision'"))
    return _table(pairs[["a", "b", "metric", "part", "difference", "p_holm", "clear"]])


def _words(results: Results) -> str:
    """From which scores on a point is called covered or missing, and how often that is right."""
    notes = ""
    for metric, rows in results.items():
        if hasattr(rows[0], "ref_points"):
            kind = scored_by(rows[0].to_dict())
            (least, most), (covered, in_part, missing) = LIMITS[kind], RIGHT[kind]
            notes += (
                f"<p>{html.escape(shortened(metric))}: covered from {least:g} on ({covered} %), "
                f"in part between ({in_part} %), missing up to {most:g} ({missing} %).</p>"
            )
    return notes


def _support(results: Results) -> str:
    """What the documents say of the answers' points, a row a metric and model; "" where none was asked."""
    checked = {
        metric: [r for r in rows if getattr(r, "support", ())] for metric, rows in results.items()
    }
    tables = [support_table(rows).assign(metric=metric) for metric, rows in checked.items() if rows]
    if not tables:
        return ""
    table = (
        in_order(pd.concat(tables))
        .set_index(["model", "metric"])
        .astype(object)
        .fillna(float("nan"))
    )
    shown = table.map(lambda value: f"{value:,}" if isinstance(value, int) else percent(value))
    return _table(shown.rename(index=shortened).reset_index())


def _settings(results: Results) -> str:
    lines = dict.fromkeys(
        (metric, rendered(r.signature)) for metric, rows in results.items() for r in rows
    )
    return "".join(
        f"<p>{html.escape(visible(f'{metric}: {signature}'))}</p>" for metric, signature in lines
    )


# --- the part that the script draws ---


def _packed(results: Results) -> bytes:
    """What report.js reads: each answer with its rows, packed one by one; then names and texts, once each."""
    texts: dict[str, int] = {}
    models: dict[str, int] = {}
    questions: dict[tuple[str, str, str], int] = {}
    answers = [(metric, result) for metric, rows in enumerate(results.values()) for result in rows]
    packer = zlib.compressobj(9, wbits=31)  # gzip's format, without a date
    packed = packer.compress(b'{"answers": [')
    for i, (metric, result) in enumerate(answers):
        drawn = result.to_dict()
        question = (
            shortened(result.triplet_id),
            visible(result.group, 200),
            visible(result.question),
        )
        answer = {
            "metric": metric,
            "model": _place(models, shortened(result.model)),
            "question": _place(questions, question),
            "values": {name: drawn[name] for name in PARTS.values() if name in drawn},
            "unscored": result.unscored,
            "sums": arithmetic(drawn),
            "rows": [
                row._replace(score=row.score and round(row.score, 3), weight=round(row.weight, 3))
                for row in alignment_rows(drawn)
            ],
            "ref": [_place(texts, visible(point)) for point in drawn.get("ref_points", ())],
            "ans": [_place(texts, visible(point)) for point in drawn.get("ans_points", ())],
            "support": [
                [
                    support["label"] or "numbers missing" * bool(support["missing"]),
                    _place(texts, support_line(drawn, j)),
                ]
                for j, support in enumerate(drawn.get("support", ()))
            ],
        }
        packed += packer.compress(
            (", " * (i > 0) + json.dumps(answer, ensure_ascii=False)).encode()
        )
    parts = [
        [name for name in PARTS.values() if hasattr(rows[0], name)] for rows in results.values()
    ]
    names = {
        "metrics": [shortened(metric) for metric in results],
        "parts": parts,
        "models": list(models),
        "questions": list(questions),
        "texts": list(texts),
    }
    end = "], " + json.dumps(names, ensure_ascii=False).removeprefix("{")
    return packed + packer.compress(end.encode()) + packer.flush()


def _place(table: dict[Any, int], value: Any) -> int:
    return table.setdefault(value, len(table))
