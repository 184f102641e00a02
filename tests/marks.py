"""Marks that several files of tests share."""

from importlib.util import find_spec

import pytest


def runs_notebooks(test):
    """Marks a slow test that runs notebooks; it is skipped where papermill is not installed."""
    # Looked up and not imported: that would take seconds, also where no notebook is run.
    absent = pytest.mark.skipif(
        find_spec("papermill") is None, reason="needs pip install -e '.[notebooks]'"
    )
    return pytest.mark.slow(absent(test))
