"""The house rules a machine can check: imports go one way, notebooks hold no logic, no key is committed."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Each imports those before it; io, ngrams, parsing/, prompt_set, batches and asking are what the paper's files stand on.
CHAIN = ["types", "io", "ngrams", "parsing.blocks", "parsing.reply_text", "parsing.json_in_text", "parsing.lists", "parsing.stated_number", "batches", "asking",
         "sanitise", "prompt_set", "prompting", "reading", "metrics", "extract", "match", "score", "pipeline", "baselines"]
# What the modules of each room may import, anywhere in them: earlier modules of the chain, and these rooms.
MAY = {
    "chain": set(),
    "judge": {"chain"},
    "local": {"chain"},
    "support": {"chain", "local"},
    "variants": {"chain"},
    # presets, data, stats, report
    "tools": {"chain", "judge", "local", "support", "variants", "results", "tools"},
    "results": {"chain", "judge", "local", "support", "variants", "tools"},
    "study": {"chain", "judge", "local", "support", "variants", "results", "tools"},
    "commands": {"chain", "judge", "local", "support", "variants", "results", "tools", "study", "package"},
}
# A result shows itself in a notebook; the version enters every signature. A pipeline may hold answers against
# several references, and check points against the document, around the paper's stages.
ALLOWED = {("types", "results.alignment"), ("pipeline", "__init__"), ("study.run.runner", "__init__"),
           ("pipeline", "variants.references"), ("pipeline", "support.stage")}
ROOMS = {"presets": "tools", "data": "tools", "stats": "tools", "report": "tools", "cli": "commands",
         "__init__": "package", "__main__": "commands"}


def modules():
    return sorted(p for p in (ROOT / "ems").rglob("*.py") if p.parent.name == "ems" or p.stem != "__init__")


def name_of(path):
    return ".".join(path.relative_to(ROOT / "ems").with_suffix("").parts)


def room_of(name):
    top = name.split(".")[0]
    return "chain" if name in CHAIN else top if "." in name else ROOMS.get(top)


def imported(path):
    """Names of our own modules that a module imports, anywhere in it."""
    here = ["ems", *path.relative_to(ROOT / "ems").parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[:len(here) - node.level + 1][1:] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                full = ROOT.joinpath("ems", *base, alias.name)
                whole = [*base, alias.name] if full.with_suffix(".py").is_file() or full.is_dir() else base
                yield ".".join(whole) or "__init__"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_one_way(path):
    name = name_of(path)
    room = room_of(name)
    assert room, f"{path.name} has no place in the house"
    for other in imported(path):
        if room == "chain" and room_of(other) == "chain":
            assert CHAIN.index(other) < CHAIN.index(name), f"{name} imports {other}, which comes after it"
        elif (name, other) not in ALLOWED:
            assert room_of(other) in MAY[room] | {room}, f"{name} imports {other}"


def test_every_exception_is_needed():
    assert ALLOWED <= {(name_of(path), other) for path in modules() for other in imported(path)}


def notebooks():
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_the_notebooks_are_numbered():
    assert [p.stem[:2] for p in notebooks()] == ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11"]


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
        definitions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        assert not definitions, "defines a function"
        assert cell in tagged or len("".join(cell["source"]).splitlines()) <= 25, "a long cell"
    prose = [c for c in cells if c["cell_type"] == "markdown"]
    assert len(prose) >= len(code) / 2, "too little prose"


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_parameters_are_explained(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    source = next("".join(c["source"]) for c in cells if "parameters" in c["metadata"].get("tags", ()))
    assert all(" # " in line for line in source.splitlines() if "=" in line)


def committed():
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_data_stays_small():
    size = sum(p.stat().st_size for p in committed() if p.is_relative_to(ROOT / "data"))
    assert size < 25_000_000


def test_no_key_is_committed():
    key = re.compile(r"\bsk-(?!planted)[A-Za-z0-9_-]{20,}")     # what tests plant says so
    for path in committed():
        if path.suffix in (".py", ".md", ".yaml", ".yml", ".jsonl", ".ipynb", ".toml", ".json", ".csv"):
            assert not key.search(path.read_text(encoding="utf-8")), path
