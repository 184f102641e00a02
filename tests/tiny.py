"""A project small enough for a test: notebooks and a profile in a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def project(root: Path, profile: str, writes: Mapping[str, Sequence[str]] | None = None,
            **notebooks: list[str]) -> Path:
    """Write notebooks (_name=[parameters cell, other cells]) and the profile `p` below `root`; return it.

    `writes` names the files of the run that a notebook makes, by notebook.
    """
    for folder in ("notebooks", "profiles"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, sources in notebooks.items():
        stem = name.lstrip("_")
        cells = [{"cell_type": "code", "execution_count": None, "id": f"cell-{i}", "outputs": [],
                  "source": source, "metadata": {} if i else {"tags": ["parameters"]}}
                 for i, source in enumerate(sources)]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        metadata = {"kernelspec": kernel, "language_info": {"name": "python"},
                    "ems": {"reads": [], "writes": list((writes or {}).get(stem, ()))}}
        notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        (root / "notebooks" / f"{stem}.ipynb").write_text(json.dumps(notebook))
    (root / "profiles" / "p.yaml").write_text(profile)
    return root
