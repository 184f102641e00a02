"""Text from outside and tables, safe to show: in a terminal, in HTML, in Markdown, in LaTeX."""

from __future__ import annotations

import html
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Control characters, marks of text direction, invisible characters, half surrogate pairs
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
                    "\U000e0000-\U000e007f]")


def visible(text: str, limit: int = 10_000) -> str:
    """One line that is safe to show: one space for a run of white space, U+FFFD for control characters."""
    line = UNSAFE.sub("\ufffd", re.sub(r"\s+", " ", text[: 2 * limit])).strip()
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1].rstrip() + "…"


def markdown_text(text: str) -> str:
    """The text as one line of Markdown that shows it literally: no HTML, link, image, emphasis or formula."""
    line = html.escape(visible(text), quote=False).replace("\\", "&#92;").replace("$", "&#36;")
    line = re.sub(r"([`*\[\]|~])", r"\\\1", line)
    line = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line)      # within a word it is no emphasis
    line = re.sub(r":(?=//)", "&#58;", line)
    line = re.sub(r"\bwww\.", "www&#46;", line, flags=re.I)
    return re.sub(r"^([#+=-]|\d+(?=[.)]))", lambda start: f"&#{ord(start[0][0])};{start[0][1:]}", line)


def latex_text(text: str) -> str:
    """Text with everything that LaTeX reads as a command made literal."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
               "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
               "†": r"$^{\dagger}$", "–": "--", "…": r"\ldots{}"}
    return "".join(special.get(c, "\\" + c if c in "&%$#_{}" else c) for c in visible(text))


def percent(share: float) -> str:
    """Rounded down, so that only what is complete reads 100 %."""
    return "–" if math.isnan(share) else "100 %" if share == 1 else f"{math.floor(share * 1000) / 10:.1f} %"


def with_interval(row: Any, digits: int = 3) -> str:
    """A row's value and its interval [ci_low, ci_high], if it has one; "–" without a row or a value."""
    if row is None or math.isnan(row.value):
        return "–"
    interval = "" if math.isnan(row.ci_low) else f" [{row.ci_low:z.{digits}f}, {row.ci_high:z.{digits}f}]"
    return f"{row.value:z.{digits}f}{interval}"


def table_html(frame: pd.DataFrame) -> str:
    """A table as a notebook shows it, with "–" in a cell where there is nothing to show; text is escaped.

    Long tables are cut as pandas' display options say. `study.run.project.open_run` makes notebooks use this.
    """
    import pandas as pd

    def filled(column: pd.Series) -> pd.Series:       # pandas writes <NA> in these, whatever it was asked
        missing = pd.api.types.is_extension_array_dtype(column.dtype)
        return column.astype(object).where(column.notna(), "–") if missing else column
    return frame.apply(filled).to_html(
        na_rep="–", notebook=True, max_rows=pd.get_option("display.max_rows"),
        max_cols=pd.get_option("display.max_columns"),
        show_dimensions=pd.get_option("display.show_dimensions"))
