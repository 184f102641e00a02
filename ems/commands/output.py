"""What a command says, and what it may not overwrite."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..results.display import visible
from ..types import InputError

if TYPE_CHECKING:
    import pandas as pd


def say(message: object) -> None:
    """One line on stderr, in which nothing that came from outside can move the cursor or set a colour."""
    print(f"ems: {visible(str(message))}", file=sys.stderr)


def keep(out: Path, *read: str | None) -> None:
    """InputError when one of the files that a command reads is the one it would write."""
    if any(os.path.realpath(path) == os.path.realpath(out)
           or (out.exists() and Path(path).exists() and out.samefile(path)) for path in read if path):
        raise InputError(f"-o {out} is also read by this command and would be lost; give another file to "
                         "write")


def as_text(table: pd.DataFrame) -> str:
    """The table with texts that are safe to show, and "–" where there is nothing."""
    safe = table.map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
    return safe.to_string(index=False, na_rep="–")
