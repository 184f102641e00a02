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
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd

from ..io import FilePath, write_file
from ..support.supporter import support_table
from ..terminal import visible
from ..types import WITHOUT_JUDGE, Answer, InputError, Triplet, clear_arguments
from .findings import MOST_MODELS, limits, series, verdict
from .frames import TABLE1_PARTS, GivenResults, by_metric, in_order, to_frame
from .stats import MIN_CLUSTERS, paired_table, summarise
from .tables import dot_plot, in_texts, means_table, pairs_table, shortened
from .view import (
    LEGEND,
    VALUE_FIELDS,
    WORDS,
    ResultFields,
    alignment_rows,
    marked,
    support_line,
    value_lines,
)

_DIFFERENCES = ["a", "b", "metric", "part", "higher", "difference", "p_holm"]
MOST_ROWS_SHOWN = 10  # a longer table of counts is folded
TEMPLATES = Path(__file__).parent / "templates"
Results = Mapping[str, Sequence[Any]]
WholeTexts = dict[tuple[str, str], tuple[str, str]]


@clear_arguments
def save_report(
    results: GivenResults,
    path: FilePath,
    values: pd.DataFrame | None = None,
    *,
    title: str = "",
    sources: Sequence[str] = (),
    answers_file: FilePath = "",
    triplets: Iterable[Triplet] = (),
    answers: Iterable[Answer] = (),
) -> Path:
    """Write a report of results, one, a list or by metric, to an HTML file; returns its path.

    Equal input makes an equal file. `values` is the frame of all results where `results` are only
    the worst. Without a title the models make one. `sources` are files, which the page names. It
    gives the day of the newest reply of a judge (`Result.date`); without one the day of the last
    change of `answers_file`, or else of each source. Results keep points, not texts: `triplets` and
    `answers` bring the whole texts. The page holds all of them. InputError without results, and for
    a model with results of several settings under one metric.
    """
    results = {metric: list(rows) for metric, rows in by_metric(results).items() if rows}
    if not results:
        raise InputError("there are no results to report; give those of ems evaluate")
    # First what a judge scored, and not only prepared for another scorer.
    results = dict(sorted(results.items(), key=lambda item: not _is_scored_by_judge(item[1][0])))
    shown = to_frame(results)
    values = shown if values is None else values
    data = _packed(results, whole_texts(results, triplets, answers))
    settings = (values["metric"] + ": " + values["signature"]).unique()
    fields = {
        "title": html.escape(visible(title, 200) or _title(values)),
        "about": html.escape(_about(results, values, sources, answers_file)),
        "warning": _warning(results),
        **_numbers(results, values),
        "support": _support(results),
        "least": MIN_CLUSTERS,
        "legend": LEGEND,
        "settings": _paragraphs(map(visible, settings)),
        "data": base64.b64encode(data).decode(),
        "rest": len(shown) < len(values),
        "words": any(hasattr(rows[0], "ref_points") for rows in results.values()),
    }
    # The parts of the page that are hidden where there is nothing to show.
    for name in ("rest", "words", "warning", "differences", "support"):
        fields[f"no_{name}"] = "" if fields[name] else "hidden"
    return write_page(path, "report", ["report.js", "grid.js"], fields)


def write_page(
    path: FilePath, name: str, scripts: Sequence[str], fields: Mapping[str, Any]
) -> Path:
    """Write a page from its template, style and scripts; it may load and run nothing else.

    The fields are those of the template, as HTML.
    """
    style, script = _template(f"{name}.css"), "".join(map(_template, scripts))
    page = Template(_template(f"{name}.html")).substitute(
        fields,
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
    )
    return write_file(path, [page])


def _numbers(results: Results, values: pd.DataFrame) -> dict[str, Any]:
    """The fields of the page that are made from the values: sentences, plots and tables.

    Metrics stand in the order of the results.
    """
    places = {metric: place for place, metric in enumerate(results)}
    summary, pairs = summarise(values), _pairs(values)
    # Figures have no place, and are the last.
    summary = summary.sort_values("metric", key=lambda names: names.map(places), kind="stable")
    return {
        "verdict": _paragraphs(verdict(values, summary, pairs)),
        "limits": _paragraphs(limits(values, summary, pairs)),
        "metrics": _metrics(summary, results, values),
        "summary": _table(means_table(summary).drop(columns="clusters")),
        "differences": _table(pairs_table(pairs)[_DIFFERENCES]) if len(pairs) else "",
        "clusters": summary["clusters"].max(),
    }


def _title(values: pd.DataFrame) -> str:
    models = [shortened(model) for model in values["model"].unique()]
    named = series(models) if len(models) <= 3 else f"{len(models)} models"
    return f"EMS report: {named}"


def _about(
    results: Results, values: pd.DataFrame, sources: Sequence[str], answers_file: FilePath
) -> str:
    """How much was evaluated, by which judges, on which day, and from which files, in one line."""
    shown = list(chain.from_iterable(results.values()))
    judges = dict.fromkeys(result.signature.get("judge", "") for result in shown)
    counts = values[["model", "triplet_id", "group"]].nunique()
    about = (
        f"answers: {len(values.drop_duplicates(['model', 'triplet_id'])):,} · "
        f"models: {counts['model']} · questions: {counts['triplet_id']:,} · "
        f"groups: {counts['group']:,} · "
        f"judge: {series([visible(judge, 100) for judge in judges if judge]) or 'none'}"
    )
    named = shortened
    if newest := max(result.date for result in shown):
        about += f" · replies of {date.fromisoformat(newest):%d %B %Y}"
    elif answers_file:
        about += f" · answers in {_dated(str(answers_file))}"
    else:
        named = _dated  # the last choice: results that are made again get the day of that
    if sources:
        about += f" · from {series([named(str(source)) for source in sources])}"
    return about


def _dated(name: str) -> str:
    """The name of a file, with the day of its last change in UTC where there is such a file."""
    if not Path(name).is_file():
        return shortened(name)
    changed = datetime.fromtimestamp(Path(name).stat().st_mtime, UTC)
    return f"{shortened(name)} (written on {changed:%d %B %Y})"


def _metrics(summary: pd.DataFrame, results: Results, values: pd.DataFrame) -> str:
    """For each metric its name, the plot of its means and, where it has points, their counts."""
    page = ""
    for metric, means in summary.groupby("metric", sort=False):
        page += f"<h3>{html.escape(shortened(metric))}</h3>{dot_plot(means)}"
        counts = _counts(results.get(metric, ()), values[values["metric"] == metric])
        table = _table(counts) if len(counts) else ""
        if len(counts) > MOST_ROWS_SHOWN:
            table = f'<details class="rows"><summary>Counts of points</summary>{table}</details>'
        page += table
    return page


def _counts(results: Sequence[Any], values: pd.DataFrame) -> pd.DataFrame:
    """How many answers each model has and refused, and what is said of the reference's points.

    The points are counted where `results` are all of which there are `values`. No rows for a metric
    without points.
    """
    refusals = in_order(values[values["part"] == "Refused"]).groupby("model", sort=False)["value"]
    counts = refusals.agg(answers="size", refused="sum").astype("Int64")
    if len(results) == counts["answers"].sum():
        said: Counter[tuple[str, str]] = Counter()
        for result in results:
            rows = alignment_rows(result.to_dict())
            said.update((result.model, row.word) for row in rows if row.ref is not None)
        for word in WORDS:
            counts[word] = [said[model, word] for model in counts.index]
    return counts.loc[:, (counts != 0).any()].reset_index()


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """The name of a style or a script in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _table(table: pd.DataFrame) -> str:
    """A table `in_texts`, escaped and without a style of its own; columns of "–" are left out."""
    texts = in_texts(table)
    texts = texts.loc[:, (texts != "–").any()]
    page = texts.to_html(index=False, border=0).replace(' style="text-align: right;"', "")
    return f'<div class="wide">{page}</div>'


def _is_scored_by_judge(result: Any) -> bool:
    scorer = result.signature.get("score", "llm")
    return "judge" in result.signature and scorer.startswith("llm")


def _warning(results: Results) -> str:
    """The warning of values without a judge, and which metrics it is said of."""
    metrics = []
    for metric, rows in results.items():
        if any("judge" not in result.signature for result in rows):
            metrics.append(html.escape(shortened(metric)))
    return f"{WITHOUT_JUDGE} This is said of {', '.join(metrics)}." if metrics else ""


def _paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def _pairs(values: pd.DataFrame) -> pd.DataFrame:
    """The models two by two; no rows for more models than a page can show."""
    shown = values[values["part"].isin([*TABLE1_PARTS, "Contradicted"])]
    models = shown["model"].unique()
    if len(models) > MOST_MODELS:
        return paired_table(shown, models=models[:1])  # a model alone has no pair
    return paired_table(shown)


def _support(results: Results) -> str:
    """What the documents say of the answers' points, a row per metric and model.

    "" where no document was consulted.
    """
    tables = []
    for metric, rows in results.items():
        checked = [result for result in rows if getattr(result, "support", ())]
        if checked:
            tables.append(support_table(checked).assign(metric=metric))
    return _table(in_order(pd.concat(tables))) if tables else ""


# --- the part that the script draws ---


def whole_texts(
    results: Results, triplets: Iterable[Triplet], answers: Iterable[Answer]
) -> WholeTexts:
    """Reference and answer of results, by triplet and model, line by line safe to show."""
    shown = chain.from_iterable(results.values())
    wanted = {(result.triplet_id, result.model) for result in shown}
    references = {triplet.id: triplet.reference_text for triplet in triplets}
    whole = {}
    for answer in answers:
        key = answer.triplet_id, answer.model
        if key in wanted and answer.triplet_id in references:
            whole[key] = _lines(references[answer.triplet_id]), _lines(answer.answer)
    return whole


def _lines(text: str) -> str:
    return "\n".join(map(visible, text.splitlines()))


def _packed(results: Results, whole: WholeTexts) -> bytes:
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
            pair = whole.get((result.triplet_id, result.model), ())
            answer["whole"] = [_place(texts, text) for text in pair]
            lines.append(json.dumps(answer, ensure_ascii=False))
    names = {
        "metrics": [shortened(metric) for metric in results],
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
    figures = result.get("figures")
    return {
        "judged": "judge" in result["signature"],
        "figures": figures and [figures["ans"][name] for name in ("shared", "count")],
        "values": {name: result[name] for name in VALUE_FIELDS if name in result},
        "unscored": result["unscored"],
        "lines": value_lines(result),
        "rows": list(alignment_rows(result)),
        "ref": [_place(texts, visible(point)) for point in result.get("ref_points", ())],
        "ans": [_place(texts, visible(point)) for point in result.get("ans_points", ())],
        "support": support,
    }


def _place(table: dict[Any, int], value: Any) -> int:
    """The place of a value in a table of distinct values, to which a new one is added."""
    return table.setdefault(value, len(table))
