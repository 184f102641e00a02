"""The house: imports that go one way, notebooks without logic. test_shape.py has its measures."""

import ast
import json
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each layer imports from those above it, and modules of its own where that makes no circle.
# `judge` is its records; `results` draws itself with `analysis.view`, which imports no record.
LAYERS = [
    "__init__ types io terminal",
    "prompts reading metrics analysis.view analysis judge",
    "results judge.*",
    "extract match score local.* support.*",
    "pipeline custom",
    "coverage baselines",
    "data analysis.*",
    "evaluators",
    "distributed commands cli __main__ adapters.*",
]


def python_files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def code_cells(path):
    return [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


# --- imports ---


def name_of(path):
    parts = path.relative_to(ROOT / "ems").with_suffix("").parts
    return ".".join(parts[:-1] or parts if parts[-1] == "__init__" else parts)


def imports(path):
    """Our own modules that a module imports, anywhere in it."""
    here = ["ems", *path.relative_to(ROOT / "ems").parts[:-1]]
    known = {name_of(p) for p in python_files("ems")}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not (
            node.level or (node.module or "").split(".")[0] == "ems"
        ):
            continue
        base = here[: len(here) - node.level + 1] if node.level else []
        base = [*base, *(node.module.split(".") if node.module else [])][1:]
        for alias in node.names:
            whole = ".".join([*base, alias.name])
            yield whole if whole in known else ".".join(base) or "__init__"


GRAPH = {name_of(path): set(imports(path)) for path in python_files("ems")}


def layer(name):
    places = {room: i for i, rooms in enumerate(LAYERS) for room in rooms.split()}
    room = name if name in places else name.split(".")[0] + ".*"
    assert room in places, f"{name} has no place in the house"
    return places[room]


@pytest.mark.parametrize("name", GRAPH)
def test_imports_go_one_way(name):
    for other in GRAPH[name]:
        assert layer(other) <= layer(name), f"{name} imports {other}, of a later layer"


def test_imports_make_no_circle():
    graph = {name: {o for o in others if o != name} for name, others in GRAPH.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_the_package_knows_nothing_of_the_study():
    for path in python_files("ems"):
        assert not re.search(
            r"^\s*(from|import) study\b", path.read_text(encoding="utf-8"), re.MULTILINE
        ), path


def test_contributing_draws_these_layers():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = re.findall(r"^ (\d+) \| (.*?) +\| ", page, re.MULTILINE)
    from_the_bottom = [names for _, names in sorted(drawn, key=lambda line: int(line[0]))]
    assert from_the_bottom == LAYERS


# --- notebooks ---


def test_notebooks_are_numbered_as_they_run():
    assert [path.stem[:2] for path in notebooks()] == [
        f"{n:02d}" for n in range(1, len(notebooks()) + 1)
    ]


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_notebook_holds_no_logic_and_no_outputs(path):
    cells = code_cells(path)
    tagged = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())]
    assert len(tagged) == 1
    parameters = ast.parse("".join(tagged[0]["source"])).body
    assert len(parameters) <= 8
    for node in parameters:
        assert isinstance(node, ast.Assign)
        assert isinstance(node.targets[0], ast.Name)
        ast.literal_eval(node.value)  # the runner reads them without running them
    for cell in cells:
        assert not cell["outputs"]
        assert cell["execution_count"] is None
        tree = ast.parse("".join(cell["source"]))
        assert not [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
