"""The files that make environments agree with pyproject.toml, and name no package index.

The conda files are not solved here: a solver needs the channel.
"""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CONDA = ["environment.yml", "binder/environment.yml"]


def conda(name):
    """The requirements of a conda file: those for conda, and those for pip."""
    listed = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["dependencies"]
    return [d for d in listed if isinstance(d, str)], [line for d in listed if isinstance(d, dict) for line in d["pip"]]


def pins():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def needed():
    """What the package and all its extras ask for, without the package itself."""
    lists = [PROJECT["dependencies"], *EXTRAS.values()]
    return [r for requirements in lists for r in map(Requirement, requirements) if r.name != PROJECT["name"]]


def canonical(name):
    return re.sub("[-_.]+", "-", name).lower()


@pytest.mark.parametrize("requirement", needed(), ids=str)
def test_every_requirement_is_pinned_to_a_version_that_it_allows(requirement):
    pinned = {canonical(pin.name): str(pin.specifier).removeprefix("==") for pin in pins()}
    assert requirement.specifier.contains(pinned[canonical(requirement.name)])


@pytest.mark.parametrize("name", CONDA)
def test_a_conda_file_asks_for_a_python_that_the_package_allows(name):
    python = next(d for d in conda(name)[0] if d.startswith("python="))
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python.removeprefix("python=") + ".0")
    assert "pip" in conda(name)[0]


def test_binder_takes_the_torch_that_the_package_asks_for():
    torch = next(d for d in conda("binder/environment.yml")[0] if d.startswith("pytorch-cpu"))
    assert torch.removeprefix("pytorch-cpu") == str(next(r for r in needed() if r.name == "torch").specifier)


@pytest.mark.parametrize("path", ["environment.yml", "binder/postBuild", "Makefile"])
def test_the_extras_that_are_installed_exist(path):
    installed = re.findall(r"-e '?\.\[([a-z,]+)\]", (ROOT / path).read_text(encoding="utf-8"))
    assert installed
    assert all(extra in EXTRAS for extras in installed for extra in extras.split(","))


def test_the_slim_environment_has_all_that_the_notebooks_import():
    extras = re.search(r"\.\[([a-z,]+)\]", (ROOT / "binder" / "postBuild").read_text(encoding="utf-8"))[1].split(",")
    assert set(extras) >= {"encoder", "notebooks", "agreement"}       # transcripts: for models that read the calls


@pytest.mark.parametrize("path", [*CONDA, "binder/postBuild", "constraints.txt", "Makefile", "pyproject.toml"])
def test_no_package_index_is_named(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_binders_script_runs_and_leaves_torch_alone(tmp_path):
    """Played with a pip that writes down what it is asked for."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/sh\necho "$@" > asked.txt\nwhile [ "$1" != -c ]; do shift; done\ncp "$2" pins.txt\n')
    python.chmod(0o755)
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    subprocess.run([ROOT / "binder" / "postBuild"], cwd=tmp_path, check=True,
                   env={"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"})
    assert "-e .[encoder,notebooks,agreement]" in (tmp_path / "asked.txt").read_text()
    kept = (tmp_path / "pins.txt").read_text().splitlines()
    assert [line for line in kept if line.startswith("torch")] == []
    assert len(kept) == len((ROOT / "constraints.txt").read_text().splitlines()) - 1
