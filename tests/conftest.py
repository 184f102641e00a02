"""What all tests share."""

import os
import signal
import sys
from pathlib import Path

import pytest
import tqdm  # noqa: F401  A run of notebooks switches off the bars of what imports it later.

ROOT = Path(__file__).resolve().parent.parent
# A shell starts programs in the background with Ctrl-C ignored, and the programs that the tests
# start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# For `import study`, as notebooks do, and for test doubles.
sys.path[:0] = [str(ROOT / "notebooks"), str(ROOT / "tests")]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    """No test finds the key or the address of the person who runs it."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of public data sets that EMS_DATA_MIRROR names; without it a test is skipped."""
    folder = os.environ.get("EMS_DATA_MIRROR")
    if not folder:
        pytest.skip("EMS_DATA_MIRROR names no folder with the public data sets")
    return Path(folder)


@pytest.fixture
def score_command(tmp_path):
    """A command that scores an answer against a reference."""
    from command_line import ANSWER, REFERENCE

    reference = tmp_path / "ref.txt"
    answer = tmp_path / "ans.txt"
    reference.write_text(REFERENCE)
    answer.write_text(ANSWER)
    return ["score", "--reference", str(reference), "--answer", str(answer)]


@pytest.fixture
def evaluate_command(tmp_path, monkeypatch):
    """A command that evaluates eight answers to questions of four groups, into out.jsonl."""
    from command_line import ANSWER, REFERENCE

    from ems.io import write_jsonl

    # Tests that run notebooks import ipykernel, and then progress bars are drawn in this process.
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    triplets = []
    answers = []
    for i in range(8):
        triplet = {"id": f"t{i}", "group": f"g{i // 2}", "question": f"q{i}"}
        context = f"{REFERENCE} Costs fell 3%."
        triplets.append({**triplet, "reference": REFERENCE, "context": context})
        answers.append({"triplet_id": f"t{i}", "model": "m", "answer": ANSWER})
    files = [tmp_path / name for name in ("t.jsonl", "a.jsonl", "out.jsonl")]
    write_jsonl(files[0], triplets)
    write_jsonl(files[1], answers)
    return ["evaluate", str(files[0]), str(files[1]), "-o", str(files[2])]
