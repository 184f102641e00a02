"""What all tests share."""

import os
import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Whoever runs the tests in the background ignores Ctrl-C, and the programs that tests start would do so, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path[:0] = [
    str(ROOT / "notebooks"),
    str(ROOT / "tests"),
]  # `import study`, as notebooks do; test doubles


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    """No test finds the key or the address of whoever runs it."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """Public data sets, where EMS_DATA_MIRROR names them; tests that need them are skipped without."""
    folder = os.environ.get("EMS_DATA_MIRROR")
    if not folder:
        pytest.skip("EMS_DATA_MIRROR names no folder with the public data sets")
    return Path(folder)
