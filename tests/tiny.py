"""A project small enough for a test: notebooks and a profile in a folder of their own."""

from __future__ import annotations

import json
from pathlib import Path


def project(root: Path, profile: str, **notebooks: list[str]) -> Path:
    """Write notebooks (name=[parameters cell, other cells ...]) and the profile `p` under `root`; returns `root`."""
    for folder in ("notebooks", "profiles"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, sources in notebooks.items():
        cells = [{"cell_type": "code", "execution_count": None, "id": f"cell-{i}", "outputs": [], "source": source,
                  "metadata": {} if i else {"tags": ["parameters"]}} for i, source in enumerate(sources)]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        about = {"kernelspec": kernel, "language_info": {"name": "python"}, "ems": {"reads": [], "writes": []}}
        (root / "notebooks" / f"{name.lstrip('_')}.ipynb").write_text(
            json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}))
    (root / "profiles" / "p.yaml").write_text(profile)
    return root
