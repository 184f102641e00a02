"""What a command says: lines and tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..results.display import visible

if TYPE_CHECKING:
    import pandas as pd


def say(message: object) -> None:
    """One line on stderr, in which nothing that came from outside can move the cursor or set a colour."""
    print(f"ems: {visible(str(message))}", file=sys.stderr)


def as_text(table: pd.DataFrame | list[dict[str, Any]], na_rep: str = "–", **settings: Any) -> str:
    """The table, or its rows, with texts that are safe to show; the settings are pandas' `to_string`'s."""
    import pandas as pd

    safe = pd.DataFrame(table).map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
    return safe.to_string(index=False, na_rep=na_rep, **settings)
