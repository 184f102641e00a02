"""The house rules that a machine can check: imports go one way, notebooks hold no logic, nothing private is committed."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each module may import those of the rows above it, and its neighbours in its own row that come before it.
ROWS = [
    ["types"],
    ["metrics", "cost", "prompting", "reading", "replies", "endpoint", "quantities", "encoder"],
    ["judge", "similarity"],
    ["extract", "match", "score", "baselines", "answering", "edits"],
    ["evaluate"],
    ["datasets", "paper_prompts", "transcripts", "stats", "frames", "agreement", "ablation", "report", "figures", "plots",
     "cluster"],
    ["runner"],
    ["cli"],
]
ORDER = [name for row in ROWS for name in row]


def modules():
    return sorted(p for p in (ROOT / "ems").glob("*.py") if p.stem not in ("__init__", "__main__"))


def imported(path):
    """Names of our own modules that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.stem)
def test_imports_go_one_way(path):
    assert path.stem in ORDER, f"{path.name} has no place in the house: add it to ROWS"
    wrong = [n for n in imported(path) if n in ORDER and ORDER.index(n) >= ORDER.index(path.stem)]
    assert not wrong, f"{path.stem} imports {wrong}, which come after it"


def notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_seven_notebooks():
    assert [p.stem[:2] for p in notebooks()] == ["01", "02", "03", "04", "05", "06", "07"]


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_notebooks_are_clean(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert not any(c["outputs"] or c["execution_count"] for c in code), "stored with outputs"
    tagged = [c for c in code if "parameters" in c["metadata"].get("tags", ())]
    assert len(tagged) == 1
    for node in ast.parse("".join(tagged[0]["source"])).body:
        ast.literal_eval(node.value)                     # plain literals only
    for cell in code:
        tree = ast.parse("".join(cell["source"]))
        assert not any(isinstance(n, (ast.FunctionDef, ast.ClassDef)) for n in ast.walk(tree)), "defines a function"
        assert len("".join(cell["source"]).splitlines()) <= 25, "a long cell"
    prose = [c for c in cells if c["cell_type"] == "markdown"]
    assert len(prose) >= len(code) / 2, "too little prose"


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_parameters_are_explained(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    source = next("".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", ()))
    assert all(" # " in line for line in source.splitlines() if "=" in line)


def committed():
    try:
        out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in out.split("\0") if name and (ROOT / name).is_file()]


def test_data_stays_small():
    size = sum(p.stat().st_size for p in committed() if p.is_relative_to(ROOT / "data"))
    assert size < 25_000_000


def test_no_key_is_committed():
    key = re.compile(r"\bsk-(?!planted)[A-Za-z0-9_-]{20,}")     # what tests plant says so
    for path in committed():
        if path.suffix in (".py", ".md", ".yaml", ".yml", ".jsonl", ".ipynb", ".toml", ".json", ".csv"):
            assert not key.search(path.read_text(encoding="utf-8")), path
