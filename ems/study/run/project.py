"""Where things are: the project's folder, wherever a command or a notebook starts, and a run's folder."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from ...results.display import table_html
from ...types import InputError


def project_root(start: Path | None = None) -> Path:
    """The nearest folder with notebooks/ and profiles/: `start` (the working directory), above, or the
    package's. InputError when there is none.
    """
    start = start or Path.cwd()
    for folder in (start, *start.parents, Path(__file__).resolve().parents[3]):
        if (folder / "notebooks").is_dir() and (folder / "profiles").is_dir():
            return folder
    raise InputError(f"no notebooks/ and profiles/ in {start} or above; run this inside a clone of the "
                     "project")


def open_run(name: str) -> tuple[Path, Path]:
    """The project's folder and, made, the run's: `root, run = open_run(RUN)`.

    Paths in a notebook's parameters are relative to `root`: JupyterLab starts it in notebooks/. tqdm's
    warning that notebook widgets are missing is not shown; tables show up to 120 characters of a cell, and
    "–" where there is nothing (`results.display.table_html`).
    """
    import pandas as pd

    pd.set_option("display.max_colwidth", 120)
    if (ipython := sys.modules.get("IPython")) and (shell := ipython.get_ipython()):
        shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, table_html)
    warnings.filterwarnings("ignore", message="IProgress not found")
    root = project_root()
    run = root / name
    run.mkdir(parents=True, exist_ok=True)
    return root, run
