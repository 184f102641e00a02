"""`ems report`: results as one HTML file that needs no server and no network, to read, sort, filter and send.

The summary and the settings are plain HTML; the table of answers is drawn by a script in the page from data
that are packed (JSON, gzip, base64). The page may load nothing and run nothing but its own script: its
content security policy says so. Texts from outside are stripped of control characters here and only ever set
as text there.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from ..data import to_frame
from ..io import write_file
from ..stats import MIN_CLUSTERS, summarise
from ..types import EMSResult, InputError, Triplet
from .alignment import WHOLE_SIDES, AlignmentRow, alignment_rows, arithmetic
from .display import percent, visible

TEMPLATES = Path(__file__).parents[1] / "templates"
PARTS = ("Recall", "Precision", "F1")
Results = Mapping[str, Sequence[EMSResult]]


def save_report(results: Results | Sequence[EMSResult], path: str | Path, *,
                triplets: Sequence[Triplet] | None = None, title: str = "EMS report",
                unread: Sequence[tuple[str, str]] = ()) -> Path:
    """Write a report of results (of one metric, or by metric) to an HTML file; returns its path.

    `triplets` give the questions and the groups that intervals are over; without them ids stand for the
    questions and each is a group of its own. `unread` are replies that gave nothing usable, (what was asked
    and why it is of no use, text). Equal input makes an equal file. InputError without results, for a result
    of an unknown triplet, and for a model with results of several settings.
    """
    return write_file(path, report_html(results, triplets=triplets, title=title, unread=unread).encode())


def report_html(results: Results | Sequence[EMSResult], *, triplets: Sequence[Triplet] | None = None,
                title: str = "EMS report", unread: Sequence[tuple[str, str]] = ()) -> str:
    """The page that `save_report` writes."""
    by_metric = dict(results) if isinstance(results, Mapping) else {"EMS": list(results)}
    if not any(by_metric.values()):
        raise InputError("there are no results to report; give those of ems evaluate")
    frames = [to_frame(rows, metric, triplets) for metric, rows in by_metric.items() if rows]
    summary = summarise(pd.concat(frames))
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    packed = gzip.compress(json.dumps(_payload(by_metric, triplets), ensure_ascii=False).encode(), mtime=0)
    return Template((TEMPLATES / "report.html").read_text(encoding="utf-8")).substitute(
        title=_text(title, 200), style=style, style_hash=_hash(style), script=script,
        script_hash=_hash(script), lead=_lead(by_metric), summary=_summary_table(summary),
        notes="".join(f"<p>{note}</p>" for note in _notes(by_metric, summary, triplets)),
        unread=_unread(unread), settings=_settings(by_metric), data=base64.b64encode(packed).decode())


def _text(text: str, limit: int = 1000) -> str:
    return html.escape(visible(text, limit))


def _hash(source: str) -> str:
    """What a content security policy calls a style or script by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


# --- the part that is plain HTML ---

def _lead(results: Results) -> str:
    every = [r for rows in results.values() for r in rows]
    models, questions = {r.model for r in every}, {r.triplet_id for r in every}
    counts = [(len({(r.triplet_id, r.model) for r in every}), "answer"), (len(models), "model"),
              (len(questions), "question"), (len(results), "metric")]
    return " · ".join(f"{n} {noun}{'s' * (n != 1)}" for n, noun in counts)


def _summary_table(summary: pd.DataFrame) -> str:
    """A row a metric and model: recall, precision and F1 with their intervals on an axis from 0 to 1."""
    cells = {(row.metric, row.model, row.part): row for row in summary.itertuples(index=False)}
    several = summary["metric"].nunique() > 1
    axis = '<div class="axis"><span>0</span><span>0.5</span><span>1</span></div>'
    head = "".join(f"<th>{part}{axis}</th>" for part in PARTS)
    rows = []
    for metric, model in dict.fromkeys((metric, model) for metric, model, _ in cells):
        last = cells[metric, model, "F1"]
        name = _text(model, 200) + (f"<small>{_text(metric, 100)}</small>" if several else "")
        values = "".join(_value_cell(cells[metric, model, part]) for part in PARTS)
        rows.append(f'<tr><th scope="row">{name}</th>{values}<td class="number">{last.n}</td>'
                    f'<td class="number">{percent(last.coverage)}{" †" * bool(last.flagged)}</td></tr>')
    return (f'<table class="summary"><thead><tr><th>Model</th>{head}<th class="number">n</th>'
            f'<th class="number">Coverage</th></tr></thead><tbody>{"".join(rows)}</tbody></table>')


def _value_cell(cell: Any) -> str:
    if math.isnan(cell.value):
        return '<td class="value">–</td>'
    interval = drawn = ""
    if not math.isnan(cell.ci_low):
        interval = f"<small>[{cell.ci_low:.3f}, {cell.ci_high:.3f}]</small>"
        low, high = (100 * min(max(end, 0), 1) for end in (cell.ci_low, cell.ci_high))
        drawn = f'<line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="7" y2="7"/>'
    at = f"{100 * cell.value:.1f}"
    ticks = "".join(f'<line x1="{x}" x2="{x}" y1="3" y2="11"/>' for x in (0, 50, 100))
    return (f'<td class="value"><b>{cell.value:.3f}</b>{interval}'
            f'<svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">'
            f'<line x1="0" x2="100" y1="7" y2="7"/>{ticks}{drawn}'
            f'<line class="mean" x1="{at}" x2="{at}" y1="2" y2="12"/></svg></td>')


def _notes(results: Results, summary: pd.DataFrame, triplets: Sequence[Triplet] | None) -> list[str]:
    clusters = sorted(set(summary["clusters"]))
    many = f"{clusters[0]}" if len(clusters) == 1 else f"{clusters[0]} to {clusters[-1]}"
    alone = "questions, each for itself, since no triplets with groups were given"
    what = alone if triplets is None else "groups"
    notes = [f"Means over answers; brackets and bars: 95 % intervals, Student’s t over {many} {what}. n: "
             "answers with a value. Coverage: share of points that a readable reply covers."]
    if summary["ci_low"].isna().any():
        notes.append(f"No interval where there are fewer than {MIN_CLUSTERS} of them: too few to say how "
                     "they vary.")
    if summary["flagged"].any():
        notes.append("† Under 95 % of the points, or of the answers, have a score: the value speaks for the "
                     "rest only.")
    if any(r.whole_sides for rows in results.values() for r in rows):
        notes.append(_text(WHOLE_SIDES[0].upper() + WHOLE_SIDES[1:]))
    return notes


def _settings(results: Results) -> str:
    lines = [f"<li><b>{_text(metric, 100)}</b> {_text(signature)}</li>" for metric, rows in results.items()
             for signature in dict.fromkeys(r.signature for r in rows)]
    return f'<ul class="settings">{"".join(lines)}</ul>'


def _unread(replies: Sequence[tuple[str, str]], limit: int = 50) -> str:
    """The section of replies that gave nothing usable; "" without any."""
    if not replies:
        return ""
    quotes = "".join(
        f"<p><small>{_text(why, 200)}</small></p><blockquote>{_text(text, 400) or '(empty)'}</blockquote>"
        for why, text in replies[:limit])
    rest = f"<p>… and {len(replies) - limit} more.</p>" if len(replies) > limit else ""
    return f"<section><h2>Replies that could not be read: {len(replies)}</h2>{quotes}{rest}</section>"


# --- the part that the script draws ---

def _payload(results: Results, triplets: Sequence[Triplet] | None) -> dict[str, Any]:
    """What report.js reads: every text and every list of points once, and per answer its rows and sums."""
    every = [(metric, r) for metric, rows in results.items() for r in rows]
    texts, lists, models = _Table(), _Table(), _Table()
    known = {t.id: t for t in triplets or ()}
    answered = dict.fromkeys(r.triplet_id for _, r in every)
    questions = [name for name in known or answered if name in answered]
    place, metrics = ({name: i for i, name in enumerate(names)} for names in (questions, results))
    answers = [{"metric": metrics[metric], "model": models[visible(r.model, 200)],
                "question": place[r.triplet_id],
                **{name: None if math.isnan(value := getattr(r, name)) else round(value, 4)
                   for name in ("recall", "precision", "f1")},
                "unscored": r.unscored, "sums": arithmetic(r),
                "ref": lists[tuple(texts[visible(point)] for point in r.ref_points)],
                "ans": lists[tuple(texts[visible(point)] for point in r.ans_points)],
                "rows": [_row(row) for row in alignment_rows(r)]}
               for metric, r in sorted(every, key=lambda one: place[one[1].triplet_id])]
    return {"metrics": [visible(metric, 100) for metric in results], "models": list(models),
            "answers": answers,
            "questions": [_question(name, known.get(name)) for name in questions],
            "texts": list(texts), "lists": list(lists)}


class _Table(dict[Any, int]):
    """Each value once, by its place: `table[value]` gives the place, and makes one for a new value."""

    def __missing__(self, value: Any) -> int:
        self[value] = len(self)
        return self[value]


def _question(name: str, triplet: Triplet | None) -> dict[str, str]:
    group, question = (triplet.group, triplet.question) if triplet else ("", "")
    return {"id": visible(name, 200), "group": visible(group, 2000), "text": visible(question, 2000)}


def _row(row: AlignmentRow) -> list[Any]:
    score = None if row.score is None else round(row.score, 3)
    return [kind_of(row), row.ref, row.ans, score, row.hint, row.weight]


def kind_of(row: AlignmentRow) -> str:
    """What a row of an alignment says, one of KINDS in report.js: "covered" (a score of 0.5 or more),
    "partly" (less), "missing" (a reference point that scores 0), "unmatched" (an answer point that does) or
    "unscored".
    """
    if row.score is None:
        return "unscored"
    if row.score > 0:
        return "covered" if row.score >= 0.5 else "partly"
    return "unmatched" if row.ref is None or row.hint == "reference" else "missing"

