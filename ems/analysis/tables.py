"""Tables for people to read: cells as texts, safe to show whatever names come from outside."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from ..terminal import visible
from ..types import InputError
from .frames import HIGHER_IS_WORSE, PART_ORDER, TABLE1_PARTS
from .stats import MIN_CLUSTERS

NAME_LIMIT = 48  # letters of a name in a table; a longer one loses its middle
MARKDOWN_ROWS = 10  # of a table for a pull request
_MARKDOWN_SIGNS = re.compile(r"([\\`*_{}\[\]<>#|~&@!])")
_MISSING = (
    "Missing, in EMS: reference points without a partner in the answer; they are left out, or "
    "stated with other figures (see Figures)."
)
_AXIS = '<span class="axis"><span>0</span><span>0.5</span><span>1</span></span>'


def percent(share: float) -> str:
    """A share as text, rounded down, so that only what is complete is 100 %; "–" for nan."""
    return "–" if math.isnan(share) else f"{math.floor(share * 1000) / 10:g} %"


def with_interval(value: float, ci_low: float, ci_high: float) -> str:
    """A value with its interval, "0.412 [0.371, 0.455]"; "–" for nan, no brackets for nan ends."""
    if math.isnan(value):
        return "–"
    if math.isnan(ci_low):
        return f"{value:z.3f}"
    return f"{value:z.3f} [{ci_low:z.3f}, {ci_high:z.3f}]"


def shortened(name: str) -> str:
    """A name as one safe line; of a long one the beginning and the end."""
    line = visible(name)
    if len(line) <= NAME_LIMIT:
        return line
    half = NAME_LIMIT // 2
    return f"{line[:half]}…{line[len(line) - half + 1 :]}"


def in_texts(table: pd.DataFrame) -> pd.DataFrame:
    """The table with safe texts as cells.

    Texts are `shortened`, numbers have three decimals, and an empty cell is "–".
    """
    return table.map(_cell_text).rename(columns=shortened)


def _cell_text(cell: Any) -> str:
    if pd.isna(cell):
        return "–"
    return f"{cell:z.3f}" if isinstance(cell, float) else shortened(str(cell))


def table_text(table: pd.DataFrame) -> str:
    """A table for a terminal, `in_texts`. A note below it says why an interval is absent."""
    return "\n".join([in_texts(table).to_string(index=False), *_notes(table)])


class Summary(pd.DataFrame):
    """A frame of `stats.summarise`, printed as `table_text`: pandas would hide values behind "...".

    The columns of settings, and those of the bounds, are not printed.
    """

    def __repr__(self) -> str:
        shown = [
            "metric",
            "part",
            "model",
            "value",
            "ci_low",
            "ci_high",
            "n",
            "clusters",
            "unscored",
        ]
        return table_text(self.filter(shown))


def _notes(table: pd.DataFrame) -> list[str]:
    notes = []
    if "clusters" in table and table["clusters"].min() < MIN_CLUSTERS:
        notes.append(f"No interval over fewer than {MIN_CLUSTERS} clusters.")
    if "Missing" in {*table, *table.get("part", ())} and "EMS(LLM)" in set(table["metric"]):
        notes.append(_MISSING)
    return notes


def in_markdown(text: str) -> str:
    """A text in which no sign means anything in Markdown, as one safe line."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", visible(text))


def bold(text: str) -> str:
    """A text in bold type in Markdown; "" for none."""
    return f"**{in_markdown(text)}**" if text else ""


def markdown_table(table: pd.DataFrame) -> str:
    """The first ten rows of a table in GitHub's Markdown, `in_texts`.

    Notes below say how many rows are left out, and why an interval is absent.
    """
    texts = in_texts(table.head(MARKDOWN_ROWS)).map(in_markdown)
    rows = [texts.columns, ["---"] * len(texts.columns), *texts.to_numpy()]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    notes = _notes(table)
    if len(table) > MARKDOWN_ROWS:
        notes.append(f"{len(table) - MARKDOWN_ROWS} more rows are not shown.")
    return "\n".join([*lines, "", *notes]).rstrip()


def bounded(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of `stats.summarise` with intervals cut to [0, 1], where all values lie."""
    return summary.assign(
        ci_low=summary["ci_low"].clip(lower=0), ci_high=summary["ci_high"].clip(upper=1)
    )


def means_table(summary: pd.DataFrame) -> pd.DataFrame:
    """A row per metric and model of `stats.summarise`, as texts.

    Only Table 1's parts have intervals, within 0 and 1. n and scored are the least of the metric's
    parts; † marks a row with a flagged part.
    """
    rows = []
    for (metric, model), parts in bounded(summary).groupby(["metric", "model"], sort=False):
        row = {"model": shortened(model), "metric": shortened(metric)}
        for part in parts.itertuples(index=False):
            ends = part.ci_low, part.ci_high
            if part.part not in TABLE1_PARTS:
                ends = math.nan, math.nan
            row[part.part] = with_interval(part.value, *ends)
        row["n"] = parts["n"].min()
        row["clusters"] = parts["clusters"].min()
        row["scored"] = percent(parts["scored"].min())
        if parts["flagged"].any():
            row["scored"] += " †"
        rows.append(row)
    columns = ["model", "metric", *PART_ORDER, "n", "clusters", "scored"]
    return pd.DataFrame(rows, columns=columns).dropna(axis=1, how="all").fillna("–")


def pairs_table(pairs: pd.DataFrame, a: str = "", b: str = "") -> pd.DataFrame:
    """Differences as texts: a minus b with its interval, p by Holm, and which side is higher.

    The rows are those of `stats.paired_table`, where the columns a and b hold names of models.
    Where they hold means, `a` and `b` name the sides. `higher` is a name where the difference is
    clear, else "not clear". It says where higher is worse, and what is higher if not the meaning:
    "new.jsonl (worse), in words".
    """
    rows = []
    for pair in pairs.to_dict("records"):
        higher = "not clear"
        if pair["clear"]:
            higher = a or pair["a"]
            if pair["difference"] < 0:
                higher = b or pair["b"]
            if pair["part"] in HIGHER_IS_WORSE:
                higher += " (worse)"
            if pair["compares"] != "meaning":
                higher += f", in {pair['compares']}"
        difference = with_interval(pair["difference"], pair["ci_low"], pair["ci_high"])
        p_holm = "<0.001" if pair["p_holm"] < 0.001 else f"{pair['p_holm']:.3f}"
        rows.append({**pair, "difference": difference, "p_holm": p_holm, "higher": higher})
    columns = [
        "metric",
        "model",
        "part",
        "a",
        "b",
        "difference",
        "p_holm",
        "higher",
        "n",
        "clusters",
    ]
    return pd.DataFrame(rows).filter(columns)


def dot_plot(summary: pd.DataFrame) -> str:
    """A plot of means as HTML: a row per model, a column per part of one metric.

    `summary` has the metric's rows of `stats.summarise`, of which Table 1's parts and contradicted
    points are drawn, and recall in which these count 0 where there are any. A model with less than
    half of another's answers has their number beside it. A dot stands on an axis from 0 to 1, a
    line is its 95 % interval. The plot needs neither script nor style of its own, so that it stands
    in any page and in print.
    """
    drawn = [*TABLE1_PARTS, "Contradicted"]
    if summary["value"][summary["part"] == "Contradicted"].any():
        drawn.insert(3, "Recall uncontradicted")
    parts = [part for part in drawn if part in set(summary["part"])]
    heads = ['<th scope="col">Model</th>']
    for part in parts:
        note = " (fewer is better)" if part in HIGHER_IS_WORSE else ""
        heads.append(f'<th scope="col">{part}{note}{_AXIS}</th>')
    body = ""
    for model, means in bounded(summary).groupby("model", sort=False):
        name, answers = shortened(model), means["n"].max()
        if 2 * answers < summary["n"].max():
            name += f" ({answers} answers)"
        cells = [f'<th scope="row">{html.escape(name)}</th>']
        for _, mean in means.set_index("part").reindex(parts).iterrows():
            cells.append(f"<td>{_dot(mean)}</td>")
        body += f"<tr>{''.join(cells)}</tr>"
    head = f"<thead><tr>{''.join(heads)}</tr></thead>"
    return f'<table class="dots">{head}<tbody>{body}</tbody></table>'


def _dot(mean: Any) -> str:
    """A mean as a number and as a drawing in which an axis of 100 stands for 1; "–" without one."""
    if math.isnan(mean["value"]):
        return "–"
    line = ""
    if not math.isnan(mean["ci_low"]):
        low, high = 100 * mean["ci_low"], 100 * mean["ci_high"]
        line = f'<path class="interval" d="M{low:.1f} 5H{high:.1f}"/>'
    kind = "dot bad" if mean.name in HIGHER_IS_WORSE else "dot"
    return (
        f'<span>{mean["value"]:z.3f}</span><svg class="{kind}" viewBox="0 0 100 10" '
        'preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="line" d="M0 5H100M0 2V8M50 2V8M100 2V8"/>{line}'
        f'<path class="mean" d="M{100 * mean["value"]:.1f} 5h0"/></svg>'
    )


def table1(summary: pd.DataFrame, models: Sequence[str] = ()) -> pd.DataFrame:
    """Table 1 from `stats.summarise`: a row per metric and part, in its order, a column per model.

    A cell has the value and its 95 % interval; with unscored points also the mean if these scored
    0, or 1; and † where under 95 % of the points or of the answers have a score. `models` are the
    columns, by default all, as they come.
    """
    if "ci_low" not in summary:
        raise InputError("a frame of ems.summarise is needed, and this one has no column 'ci_low'")
    models = list(models) or list(summary["model"].unique())
    is_shown = summary["model"].isin(models) & summary["part"].isin(TABLE1_PARTS)
    rows = []
    for (metric, part), row in summary[is_shown].groupby(["metric", "part"], sort=False):
        cells = {cell.model: _cell(cell) for cell in row.itertuples(index=False)}
        values = [cells.get(model, "–") for model in models]
        counts = [str(row["n"].min()), percent(row["scored"].min())]
        rows.append([shortened(metric), shortened(part), *values, *counts])
    return pd.DataFrame(rows, columns=["metric", "part", *map(shortened, models), "n", "scored"])


def _cell(row: Any) -> str:
    text = with_interval(row.value, row.ci_low, row.ci_high)
    if math.isnan(row.value):
        return text
    if row.unscored:
        text += f" ({row.low:.2f} to {row.high:.2f})"
    if row.flagged:
        text += " †"
    return text
