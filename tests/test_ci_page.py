"""docs/ci.md: its commands, its workflow and its test do what the page says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import ems
from ems.cli import _parser
from ems.io import write_jsonl

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")


def blocks_of(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_commands_of_the_page_are_understood():
    commands = re.findall(r"^ *(ems (?:.*\\\n)*.*)", PAGE, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        words = shlex.split(command.replace("\\\n", " "), comments=True)
        words = words[1 : words.index(">>") if ">>" in words else None]
        assert _parser().parse_args(words).command in ("evaluate", "compare")


def test_the_workflow_of_the_page_passes_the_linters_of_workflows(tmp_path):
    (workflow,) = blocks_of("yaml")
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    runs = " ".join(step.get("run", "") for step in job["steps"])
    for part in ("ems evaluate", "--fail-under", "ems compare", "--fail-on-regression", "pytest"):
        assert part in runs
    file = tmp_path / ".github" / "workflows" / "answers.yml"
    file.parent.mkdir(parents=True)
    file.write_text(workflow, encoding="utf-8")
    folder = Path(sys.executable).parent
    for command in (
        [folder / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", file],
        [folder / "zizmor", "--offline", "--quiet", file.parent],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_test_of_the_page_runs_in_pytest_and_fails_where_the_answers_are_wrong(tmp_path):
    (test,) = [block for block in blocks_of("python") if "def test_" in block]
    (tmp_path / "test_answers.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_answers.py"]
    data = ROOT / "data" / "versions"
    (tmp_path / "triplets.jsonl").write_bytes((data / "triplets.jsonl").read_bytes())
    answers = ems.load_answers(data / "answers.jsonl")
    for model, status in (("reworded", 0), ("wrong figures", 1)):
        rows = [
            {"triplet_id": answer.triplet_id, "model": answer.model, "answer": answer.answer}
            for answer in answers
            if answer.model == model
        ]
        write_jsonl(tmp_path / "answers.jsonl", rows)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout
        line = "wrong figures: Figures Precision 0.739 [0.728, 0.751] is under the threshold 0.95"
        assert (line in done.stdout) == (status == 1)
