"""A plot of means as HTML: a dot on an axis from 0 to 1, and a line for its 95 % interval.

It needs neither script nor style of its own, so that it stands in any page and in print. The
drawings are for the eye; the numbers beside them are text.
"""

from __future__ import annotations

import html
from typing import Any

import pandas as pd

from .frames import HIGHER_IS_WORSE, TABLE1_PARTS
from .tables import bounded, shortened

_PARTS = (*TABLE1_PARTS, "Contradicted")
_AXIS = '<span class="axis"><span>0</span><span>0.5</span><span>1</span></span>'


def dot_plot(summary: pd.DataFrame) -> str:
    """A row per model and a column per part of one metric's rows of `stats.summarise`.

    Only Table 1's parts and contradicted points are drawn.
    """
    parts = [part for part in _PARTS if part in set(summary["part"])]
    heads = ['<th scope="col">Model</th>']
    for part in parts:
        note = " (fewer is better)" if part in HIGHER_IS_WORSE else ""
        heads.append(f'<th scope="col">{part}{note}{_AXIS}</th>')
    body = ""
    for model, means in bounded(summary).groupby("model", sort=False):
        cells = [f'<th scope="row">{html.escape(shortened(model))}</th>']
        by_part = means.set_index("part")
        for part in parts:
            mean = by_part.loc[part] if part in by_part.index else None
            cells.append(f"<td>{_dot(mean)}</td>")
        body += f"<tr>{''.join(cells)}</tr>"
    head = f"<thead><tr>{''.join(heads)}</tr></thead>"
    return f'<table class="dots">{head}<tbody>{body}</tbody></table>'


def _dot(mean: Any) -> str:
    """A mean as a number and as a drawing in which an axis of 100 stands for 1; "–" without one."""
    if mean is None or mean["value"] != mean["value"]:  # nan
        return "–"
    line = ""
    if mean["ci_low"] == mean["ci_low"]:
        low, high = 100 * mean["ci_low"], 100 * mean["ci_high"]
        line = f'<path class="interval" d="M{low:.1f} 5H{high:.1f}"/>'
    kind = "dot bad" if mean.name in HIGHER_IS_WORSE else "dot"
    return (
        f'<span>{mean["value"]:z.3f}</span><svg class="{kind}" viewBox="0 0 100 10" '
        'preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="line" d="M0 5H100M0 2V8M50 2V8M100 2V8"/>{line}'
        f'<path class="mean" d="M{100 * mean["value"]:.1f} 5h0"/></svg>'
    )
