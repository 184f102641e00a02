"""The files that make environments agree with each other.

No file of the project names a package index, a path of a machine or a key.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ems

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ADAPTERS = [
    Requirement(text)
    for text in [*EXTRAS["inspect-ai"], *EXTRAS["mlflow"], *EXTRAS["test-adapters"]]
]
# What names a machine or a registry. This file has the patterns, and is left out.
FORBIDDEN = re.compile(
    r"pypi\.org|pythonhosted|artifactory|--(extra-)?index-url|--find-links|/work/|/home/\w|/root/"
    r"|\bsk-(?!planted)[A-Za-z0-9_-]{20,}"
)
TEXTS = set(".py .pyi .md .yaml .yml .jsonl .ipynb .toml .json .csv .txt".split()) | {""}
# What the package and all its extras ask for, without the package itself.
NEEDED = [
    requirement
    for requirement in map(Requirement, [*PROJECT["dependencies"], *chain(*EXTRAS.values())])
    if requirement.name != PROJECT["name"]
]


def pins(name):
    lines = re.findall(
        r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
    )
    return {canonicalize_name(package): version for package, version in lines}


@pytest.mark.parametrize("requirement", NEEDED, ids=str)
def test_every_requirement_is_pinned_to_a_version_that_it_allows(requirement):
    file = "requirements-adapters.txt" if requirement in ADAPTERS else "constraints.txt"
    assert requirement.specifier.contains(pins(file)[canonicalize_name(requirement.name)])


def test_the_lock_has_the_tested_versions():
    """All but torch and what only torch needs: `make lock` brings it up to date."""
    behind = pins("constraints.txt").items() - pins("requirements-lock.txt").items()
    assert {package for package, _ in behind} == {
        "torch",
        "mpmath",
        "networkx",
        "setuptools",
        "sympy",
    }


@pytest.mark.parametrize("name", ["environment.yml", "binder/environment.yml"])
def test_a_conda_file_asks_for_what_the_package_allows(name):
    listed = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["dependencies"]
    conda = [entry for entry in listed if isinstance(entry, str)]  # the others are for pip
    python = next(entry for entry in conda if entry.startswith("python=")).removeprefix("python=")
    allowed = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert allowed.contains(f"{python}.99")  # conda takes the last
    assert "pip" in conda
    torch = str(next(r for r in NEEDED if r.name == "torch").specifier)
    pytorch = {entry.removeprefix("pytorch-cpu") for entry in conda if entry.startswith("pytorch")}
    assert pytorch == ({torch} if name.startswith("binder/") else set())


@pytest.mark.parametrize("path", ["environment.yml", "binder/postBuild", "Makefile"])
def test_the_extras_that_are_installed_exist(path):
    installed = re.findall(r"-e '?\.\[([a-z,]+)\]", (ROOT / path).read_text(encoding="utf-8"))
    assert installed
    assert set(",".join(installed).split(",")) <= EXTRAS.keys()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_binders_script_runs_and_leaves_torch_alone(tmp_path):
    """Played with a pip that writes down what it is asked for."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(
        '#!/bin/sh\necho "$@" > asked.txt\nwhile [ "$1" != -c ]; do shift; done\ncp "$2" pins.txt\n'
    )
    python.chmod(0o755)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    subprocess.run(
        [ROOT / "binder" / "postBuild"],
        cwd=tmp_path,
        check=True,
        env={"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"},
    )
    assert "-e .[encoder,notebooks]" in (tmp_path / "asked.txt").read_text()
    assert "torch==" not in (tmp_path / "pins.txt").read_text()


def test_the_deposit_says_what_the_citation_and_the_package_say():
    deposit = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert [deposit[key] for key in ("title", "version", "license")] == [
        citation[key] for key in ("title", "version", "license")
    ]
    assert (deposit["creators"], deposit["version"]) == (citation["authors"], ems.__version__)
    assert (
        deposit["related_identifiers"][0]["identifier"]
        == citation["preferred-citation"]["identifiers"][0]["value"]
    )


def test_no_file_names_an_index_a_machine_or_a_key():
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    mentions = []
    for name in listing.stdout.decode().split("\0"):
        path = ROOT / name
        if not path.is_file() or path == Path(__file__).resolve() or path.suffix not in TEXTS:
            continue
        if mention := FORBIDDEN.search(path.read_text(encoding="utf-8")):
            mentions.append(f"{name}: {mention[0]}")
    assert mentions == []


@pytest.mark.slow
def test_the_wheel_scores_from_a_folder_of_its_own(tmp_path):
    """It holds the prompts, the templates and the local evaluator's table, and no data set."""
    pytest.importorskip("setuptools", minversion="77", reason="builds a wheel")
    source = tmp_path / "source"
    shutil.copytree(ROOT / "ems", source / "ems", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True, capture_output=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    shutil.rmtree(source)
    (tmp_path / "r.txt").write_text("Revenue rose 6% to $94.9 billion.")
    names = {
        str(path.relative_to(tmp_path / "installed"))
        for path in (tmp_path / "installed").rglob("*")
    }
    assert {
        "ems/py.typed",
        "ems/prompts/match.txt",
        "ems/analysis/templates/report.js",
        "ems/local/rarity.txt",
    } <= names
    done = subprocess.run(
        [sys.executable, "-m", "ems", "score", "--reference", "r.txt", "--answer", "r.txt"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "= 1.000" in done.stdout
