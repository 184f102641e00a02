"""A project of played notebooks, for tests of the runner."""

import json

PARAMETERS = """RUN = "runs/lab"                        # folder
N = 1                                   # a number
JUDGE = {"model": "m", "mode": "replay"}
NAMES = []
ANYTHING = None"""


def cell(number, source):
    """A code cell of a notebook; the first one holds the parameters."""
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": f"cell-{number}",
        "outputs": [],
        "source": source,
        "metadata": {} if number else {"tags": ["parameters"]},
    }


def project(root, profile="common: {}", **notebooks):
    """A project of one profile, p, and notebooks.

    `_NAME=[...]` gives the sources of a notebook's cells, the parameters' cell first.
    """
    for folder in ("notebooks", "profiles"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for name, sources in notebooks.items():
        content = {
            "cells": [cell(number, source) for number, source in enumerate(sources)],
            "metadata": {"kernelspec": kernel},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (root / "notebooks" / f"{name[1:]}.ipynb").write_text(json.dumps(content))
    (root / "profiles" / "p.yaml").write_text(profile)
    return root
