"""Profiles: which parameters each notebook is run with.

A profile (profiles/NAME.yaml) holds parameters: `common`, for every notebook that has them, and
blocks by a notebook's name. `NAME: value` sets a parameter, `NAME.key: value` one key of a mapping.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ems import InputError
from ems.io import parse_yaml, read_text
from ems.terminal import did_you_mean

Parameters = Mapping[str, Any]


def load_profile(root: Path, name: str) -> dict[str, dict[str, Any]]:
    """Parameters by notebook (and `common`) of a profile. InputError when there is no such one."""
    path = root / "profiles" / f"{name}.yaml"
    check_names([name], [p.stem for p in path.parent.glob("*.yaml")], "no profile")
    profile = parse_yaml(read_text(path), path) or {}
    blocks = profile.values() if isinstance(profile, dict) else [None]
    if not all(isinstance(block, dict) for block in blocks):
        raise InputError(f"{path} must map notebook names (and common) to parameters")
    return profile


def declared(notebook: Path) -> dict[str, Any]:
    """The parameters of a notebook with their defaults: the literals of its tagged cell."""
    cells = json.loads(read_text(notebook))["cells"]
    cell = next(c for c in cells if "parameters" in c["metadata"].get("tags", ()))
    lines: Any = ast.parse("".join(cell["source"])).body
    return {line.targets[0].id: ast.literal_eval(line.value) for line in lines}


def parameters_of(
    root: Path, profile: Mapping[str, Parameters], given: Parameters
) -> dict[Path, dict[str, Any]]:
    """What each notebook would be run with: its defaults, `common`, its block, `given`.

    The later one wins. InputError for a notebook or a parameter that does not exist, and for a
    value of another type than the default's (None may become anything).
    """
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    parameters = {path: declared(path) for path in paths}
    _check_blocks({**profile, "-p": given}, {path.stem: parameters[path] for path in paths})
    for path, values in parameters.items():
        for block in (profile.get("common", {}), profile.get(path.stem, {}), given):
            _update(values, block, path.stem)
    return parameters


def _check_blocks(blocks: Mapping[str, Parameters], notebooks: Mapping[str, Parameters]) -> None:
    """InputError for a block of no notebook, and for a parameter that its notebook does not have.

    The blocks `common` and `-p` may name the parameters of all notebooks.
    """
    of_all: set[str] = set()
    of_all.update(*notebooks.values())
    allowed = {"common": of_all, "-p": of_all, **notebooks}
    for block_name, block in blocks.items():
        check_names([block_name], allowed, "no notebook")
        names = [dotted.partition(".")[0] for dotted in block]
        check_names(names, allowed[block_name], f"{block_name}: no parameter")


def check_names(names: Sequence[str], known: Collection[str], message: str) -> None:
    """InputError, which begins with `message`, for the first name that is not known."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(f"{message} {name!r}{hint}; there are {', '.join(sorted(known))}")


def _update(values: dict[str, Any], block: Parameters, stem: str) -> None:
    """Set those parameters of a block, or single keys of them, that this notebook has."""
    for dotted, value in block.items():
        name, _, key = dotted.partition(".")
        if name not in values:
            continue
        default = values[name]
        if key:
            value = {**default, key: value} if isinstance(default, dict) else {key: value}
        if type(value) is not type(default) and default is not None:
            expected = type(default).__name__
            raise InputError(f"{stem}.ipynb: {name} must be {expected}, got {value!r:.60}")
        values[name] = value


def differing(given: Parameters, values: Parameters, unchanged: Parameters) -> dict[str, Any]:
    """Those given parameters by which the values of a notebook differ from the profile's."""
    differs = {}
    for dotted, value in given.items():
        name = dotted.partition(".")[0]
        if name in values and values[name] != unchanged[name]:
            differs[dotted] = value
    return differs


def ask_at(address: str, values: Parameters) -> bool:
    """Ask all models of a notebook that are not replayed at one address; whether it has any.

    Their prices are left out, since those of another address are not known.
    """
    asked = [m for m in mappings(values) if m.get("model") and m.get("mode") != "replay"]
    for settings in asked:
        settings |= {"base_url": address, "key_env": "none", "prices": {}, "spend_limit": 0}
    return bool(asked)


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """The mappings that a parameter is or holds, at any depth."""
    entries: Any = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
        entries = value.values()
    for entry in entries:
        yield from mappings(entry)
