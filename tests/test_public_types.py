"""What editors and type checkers see of the public names, and of the Python on the pages."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import typing
from pathlib import Path

import pytest

import ems
from ems import evaluators

ROOT = Path(__file__).parent.parent
SCRIPTS = sysconfig.get_path("scripts")
PYRIGHT = shutil.which("basedpyright", path=f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}")
# Names that a block of a page takes from the reader or from another tool. The tools are not
# installed here, and their names can be anything.
STAND_INS = """\
from typing import Any
import ems
SampleLevelComputation: Any = None
BaseMetric: Any = None
numeric_metric: Any = None
MetricResult: Any = None
mlflow: Any = None
samples: Any = None
row: dict[str, Any] = {}
question = reference = answer = ""
judge = ems.LLMJudge("m")
triplets: list[ems.Triplet] = []
answers: list[ems.Answer] = []

def my_scorer(pairs: list[tuple[str, str]]) -> list[float]: return []
def my_extractor(texts: list[str]) -> list[list[str]]: return []
"""
# Errors: the type of an argument, a field that a result does not have, rows that are none, a
# misspelt keyword, and a method that loaded results do not have.
WRONG = """\
import ems
ems.score_answer(1, "")
ems.score_answer("", "").nothing
ems.evaluate("triplets.csv", 3)
ems.build(scorers="judge")
ems.load_results("results.jsonl").sumary()
"""


@pytest.fixture
def snippets(tmp_path):
    """A folder with a file for each block of Python in the README and in docs/usage.md."""
    for page in ("README.md", "docs/usage.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert blocks
        for number, block in enumerate(blocks):
            name = f"{Path(page).stem}_{number}.py"
            (tmp_path / name).write_text(STAND_INS + block, encoding="utf-8")
    return tmp_path


def mypy(folder):
    """mypy's complaints, with the defaults that a user has, about the files of a folder."""
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports"]
    done = subprocess.run(
        [*command, "--config-file=", *sorted(path.name for path in folder.glob("*.py"))],
        cwd=folder,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if ": error:" in line]


def pyright(folder):
    """The complaints of basedpyright, which is pyright with its own node, set as pyright is."""
    settings = {
        "typeCheckingMode": "standard",
        "reportMissingImports": False,
        "reportMissingModuleSource": False,
        "extraPaths": [str(ROOT)],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in diagnostics
    ]


@pytest.mark.slow
def test_mypy_has_no_complaint_about_the_python_of_the_pages(snippets):
    assert mypy(snippets) == []
    (snippets / "wrong.py").write_text(WRONG)
    assert {line.split(":")[1] for line in mypy(snippets)} == {"2", "3", "4", "5", "6"}


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason="needs pip install basedpyright")
def test_pyright_has_no_complaint_about_the_python_of_the_pages(snippets):
    assert pyright(snippets) == []
    (snippets / "wrong.py").write_text(WRONG)
    assert {line.split(":")[1] for line in pyright(snippets)} == {"2", "3", "4", "5", "6"}


def test_an_editor_completes_the_public_names():
    jedi = pytest.importorskip("jedi", reason="comes with ipykernel")
    project = jedi.Project(ROOT)
    names = {name.name for name in jedi.Script("import ems\nems.", project=project).complete()}
    assert set(ems.__all__) <= names
    line = "import ems\nems.EMS(None, None, None).score('', '')."
    parts = {name.name for name in jedi.Script(line, project=project).complete()}
    assert {"recall", "precision", "f1", "match"} <= parts


def test_the_stub_names_what_the_package_has():
    for name in ems.__all__:
        assert getattr(ems, name).__doc__


def test_the_type_of_a_scorers_name_lists_all_scorers():
    assert set(typing.get_args(evaluators.ScorerName)) == set(evaluators.SCORERS)
