"""Measures of plainness: how much the code says, and no shape that is hard to read.

CONTRIBUTING.md has the limits in a table.
"""

import ast
import json
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
import shape
import ways

import ems

ROOT = Path(__file__).parent.parent
CODE = ["ems", "notebooks", "tests", "bench"]


def words_of(*pages):
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def documentation():
    pages = sorted((ROOT / "docs").glob("*.md"))
    return [ROOT / "README.md", ROOT / "data" / "README.md", *pages]


def nodes_of(folder):
    return shape.shape_of(ROOT / folder).nodes


@pytest.mark.parametrize(
    ("what", "count", "aim", "ceiling"),
    [
        ("syntax nodes of ems/", lambda: nodes_of("ems"), 31_000, 40_500),
        ("syntax nodes of notebooks/", lambda: nodes_of("notebooks"), 21_000, 31_500),
        ("files of ems/", lambda: len(list((ROOT / "ems").rglob("*.py"))), 46, 49),
        ("public names", lambda: len(ems.__all__), 26, 26),
        ("words of README.md", lambda: words_of(ROOT / "README.md"), 800, 800),
        ("words of the documentation", lambda: words_of(*documentation()), 8_500, 8_700),
    ],
)
def test_the_kit_says_no_more_than_it_must(what, count, aim, ceiling):
    n = count()
    print(f"{what}: {n}")
    if n > aim:
        warnings.warn(f"{what}: {n}, and {aim} are the aim", stacklevel=1)
    assert n <= ceiling, f"{n} {what}, of {ceiling} allowed: it wants a simpler idea, not packing"


@pytest.mark.parametrize(
    ("follow", "aim", "ceiling", "passes"),
    [
        (ways.request_way, 40, 40, {"EMS.batch", "LLMJudge.ask", "Endpoint.post", "read_rows"}),
        (ways.cell_way, 15, 15, {"read_values", "summarise", "save_table1", "write_csv"}),
    ],
    ids=["one question to a judge", "one cell of table1.csv"],
)
def test_what_a_reader_follows_passes_few_functions(follow, aim, ceiling, passes):
    """`python tests/ways.py` lists them. A ceiling may only fall."""
    names = []
    for of_file in follow().by_file().values():
        names += of_file
    assert passes <= set(names)
    if len(names) > aim:
        warnings.warn(f"{len(names)} functions, and {aim} are the aim", stacklevel=1)
    assert len(names) <= ceiling, names


def test_a_way_counts_every_kind_of_function(monkeypatch):
    """Nested ones, lambdas and properties count once; comprehensions and what is apart do not."""
    monkeypatch.setattr(ways, "COUNTED", __file__)

    class Point:
        @property
        def square(self):
            return (lambda x: x * x)(3)

    def apart():
        return Point().square

    def outer():
        return [Point().square for _ in range(2)]

    with ways.Way(apart=("apart",)) as way:
        apart()
        nothing = len(way.functions)
        outer()
    names = [name.rpartition("<locals>.")[2] for name in next(iter(way.by_file().values()))]
    assert nothing == 0
    assert names == ["outer", "Point.square", "<lambda>"]


@pytest.mark.parametrize("folder", CODE)
def test_code_is_written_one_thing_a_line(folder):
    total = shape.shape_of(ROOT / folder)
    assert total.tokens_a_line <= 10
    assert total.longest_file <= 450
    assert total.longest_function <= 50


@pytest.mark.parametrize("folder", CODE)
def test_no_shape_is_hard_to_read(folder):
    total = shape.shape_of(ROOT / folder)
    assert total.nested == []
    assert total.conditionals == []
    assert total.products == []


@pytest.mark.parametrize("folder", ["ems", "notebooks", "bench"])
def test_no_line_is_wider_than_a_hundred_columns(folder):
    assert shape.shape_of(ROOT / folder).wide == []


def test_a_name_means_one_thing():
    files = defaultdict(list)
    for path in [*(ROOT / "ems").rglob("*.py"), *(ROOT / "notebooks").rglob("*.py")]:
        for name in set(shape.names_of(ast.parse(path.read_text(encoding="utf-8")))):
            files[name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in files.items() if len(paths) > 1 and name != "main"}
    assert twice == {}


def code_lines(source):
    """Lines of code in a cell of a notebook, imports left out."""
    lines = set()
    for statement in ast.parse(source).body:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            lines.update(range(statement.lineno, statement.end_lineno + 1))
    written = source.splitlines()
    return sum(1 for number in lines if written[number - 1].strip())


@pytest.mark.parametrize(
    "path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_a_cell_of_a_notebook_is_short(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        assert all(len(line) <= shape.WIDTH for line in source.splitlines()), source
        if "parameters" not in cell["metadata"].get("tags", ()):
            assert code_lines(source) <= 12, source


def test_the_measures_see_what_they_count(tmp_path):
    """The counters themselves, on a file whose shapes are known."""
    path = tmp_path / "sample.py"
    path.write_text(
        '"""A docstring is not code."""\n'
        "TWO, _HIDDEN = 1, 2  # a comment neither\n"
        "def f(x):\n"
        "    return [a for b in x for a in b] if x else (1 if TWO else 2) * (x > 1)\n" + "#" * 101
    )
    found = shape.shape_of(path)
    assert found.nested == ["sample.py:4"]
    assert found.conditionals == ["sample.py:4"]
    assert found.products == ["sample.py:4"]
    assert found.wide == ["sample.py:5"]
    assert (found.lines, found.longest_function, found.longest_file) == (3, 2, 5)
    assert found.tokens == 7 + 6 + 28
    assert shape.names_of(ast.parse(path.read_text())) == ["TWO", "f"]
