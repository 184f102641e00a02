"""What keeps the house thin: sums of lines and names, imports that go one way, notebooks without logic."""

import ast
import importlib
import json
import re
import warnings
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
    "distributed cli __main__ adapters.*",
]
ADAPTERS = ROOT / "tests" / "test_adapters.py"


def python_files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def package_files():
    """Those of ems/ without the adapters, which have sums of their own."""
    return [path for path in python_files("ems") if path.parent.name != "adapters"]


def lines(*paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def code_cells(path):
    return [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


# --- sums ---


def classes():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in package_files()]
    return sum(isinstance(node, ast.ClassDef) for tree in trees for node in ast.walk(tree))


def words():
    pages = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def notebook_lines():
    sources = ["".join(cell["source"]) for path in notebooks() for cell in code_cells(path)]
    return sum(1 for source in sources for line in source.splitlines() if line.strip())


@pytest.mark.parametrize(
    ("what", "count", "aim", "most"),
    [
        ("lines of ems/", lambda: lines(*package_files()), 4800, 5200),
        ("files of ems/", lambda: len(package_files()), 37, 39),
        ("lines of ems/adapters/", lambda: lines(*python_files("ems/adapters")), 120, 120),
        ("files of ems/adapters/", lambda: len(python_files("ems/adapters")), 4, 4),
        ("classes of ems/", classes, 45, 45),
        ("public names", lambda: len(importlib.import_module("ems").__all__), 20, 20),
        ("lines of notebooks/study/", lambda: lines(*python_files("notebooks/study")), 2400, 2800),
        ("lines of tests/", lambda: lines(*python_files("tests")) - lines(ADAPTERS), 7000, 7000),
        ("lines of tests/test_adapters.py", lambda: lines(ADAPTERS), 150, 150),
        ("lines of bench/", lambda: lines(*python_files("bench")), 300, 300),
        ("words of README.md, docs/ and data/README.md", words, 6500, 6500),
        ("lines of code in notebooks", notebook_lines, 400, 450),
    ],
)
def test_the_house_stays_thin(what, count, aim, most):
    n = count()
    print(f"{what}: {n}")
    if n > aim:
        warnings.warn(f"{what}: {n}, and {aim} are the aim", stacklevel=1)
    assert n <= most, f"{n} {what}, of {most} allowed: what does not fit wants a simpler idea"


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
