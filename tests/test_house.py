"""The house: imports that go one way, notebooks without logic. test_shape.py has its measures."""

import ast
import json
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A module imports from the layers above it in this list, and from its own layer where that makes
# no circle. CONTRIBUTING.md draws the list.
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
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


# --- imports ---


def name_of(path):
    """The name of a module below `ems`: "judge.client", "judge" for its `__init__.py`."""
    parts = path.relative_to(ROOT / "ems").with_suffix("").parts
    if len(parts) > 1 and parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


MODULES = {name_of(path): path for path in python_files("ems")}


def imports_of(path):
    """The modules of `ems` that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            source = absolute(node, path)
            if source[0] == "ems":
                names |= {module_of(source[1:], alias.name) for alias in node.names}
    return names


def absolute(node, path):
    """The parts of the module's name in `from <module> import`, relative dots resolved."""
    named = node.module.split(".") if node.module else []
    if not node.level:
        return named
    package = ["ems", *path.relative_to(ROOT / "ems").parts[:-1]]
    return package[: len(package) - node.level + 1] + named


def module_of(package, name):
    """The module that `from package import name` imports: of this name, or the package itself."""
    submodule = ".".join([*package, name])
    if submodule in MODULES:
        return submodule
    return ".".join(package) or "__init__"


GRAPH = {name: imports_of(path) for name, path in MODULES.items()}
LAYER_OF = {}
for number, names in enumerate(LAYERS):
    LAYER_OF |= dict.fromkeys(names.split(), number)


def layer(name):
    if name in LAYER_OF:
        return LAYER_OF[name]
    folder = name.split(".")[0] + ".*"
    assert folder in LAYER_OF, f"{name} stands in no layer"
    return LAYER_OF[folder]


@pytest.mark.parametrize("name", GRAPH)
def test_imports_go_one_way(name):
    for other in GRAPH[name]:
        assert layer(other) <= layer(name), f"{name} imports {other}, of a later layer"


def test_imports_make_no_circle():
    graph = {name: others - {name} for name, others in GRAPH.items()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_the_package_knows_nothing_of_the_study():
    study = re.compile(r"^\s*(from|import) study\b", re.MULTILINE)
    for path in python_files("ems"):
        assert not study.search(path.read_text(encoding="utf-8")), path


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
