"""Where things are: the project's folder, whichever folder a command or a notebook starts in, and a run's
folder.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from ..types import InputError


def project_root(start: Path | None = None) -> Path:
    """The nearest folder that holds notebooks/ and profiles/: `start` (the working directory) or above, or
    the package's.

    InputError when there is none.
    """
    start = start or Path.cwd()
    for folder in (start, *start.parents, Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "profiles").is_dir():
            return folder
    raise InputError(f"no notebooks/ and profiles/ in {start} or above; run this inside a clone of the "
                     "project")


def open_run(name: str) -> tuple[Path, Path]:
    """The project's folder, and the folder of the run `name` in it, which is made: `root, run =
    open_run(RUN)`.

    A notebook writes `root / PATH` for each path in its parameters. So it finds its files from JupyterLab,
    which starts it in notebooks/, as well as from `ems reproduce`. A path that is absolute stays as it is.
    Where notebook widgets are not installed, tqdm's warning about it is not shown: it would stand in red
    above every result.
    """
    warnings.filterwarnings("ignore", message="IProgress not found")
    root = project_root()
    run = root / name
    run.mkdir(parents=True, exist_ok=True)
    return root, run
