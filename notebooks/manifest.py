"""The manifest of a run: what it is made of, what each notebook ran with, and hashes of results."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import ems
from ems.io import read_text, write_file
from ems.judge.store import utc

# Suffixes of the files that are results.
PRODUCTS = (".jsonl", ".csv", ".md", ".tex", ".png", ".pdf", ".html")


class Manifest:
    """The file manifest.json of a run's folder. It keeps the notes on notebooks that do not run."""

    def __init__(self, folder: Path, profile: str, root: Path):
        self.folder = folder
        self.path = folder / "manifest.json"
        self.earlier = read_text(self.path) if self.path.exists() else ""
        self.results = _results(folder)
        earlier = json.loads(self.earlier or "{}")
        study = root / "notebooks" / "study"
        self.content = {
            "profile": profile,
            "changed": earlier.get("changed", {}),
            "ems": ems.__version__,
            "python": sys.version,
            "packages": {d.name: d.version for d in metadata.distributions()},
            "sources_sha256": _hash(Path(ems.__file__).parent, study, root / "data"),
            "notebooks": earlier.get("notebooks", {}),
        }

    def begin(self, notebooks: Iterable[str], changed: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the notes on these notebooks by their changed parameters, which tables name."""
        for name in notebooks:
            self.content["notebooks"].pop(name, None)
            self.content["changed"].pop(name, None)
            if name in changed:
                self.content["changed"][name] = changed[name]
        self.write()

    def note(self, notebook: Path, values: Mapping[str, Any], seconds: int) -> None:
        """Note that a notebook ran with these parameters, and how long."""
        self.content["notebooks"][notebook.stem] = {
            "parameters": values,
            "sha256": _hash(notebook),
            "seconds": seconds,
            "finished": utc(),
        }

    def write(self) -> None:
        """Write the file, with the hash of every result that the folder has now."""
        content = {**self.content, "files_sha256": _results(self.folder)}
        write_file(self.path, [json.dumps(content, indent=1, ensure_ascii=False) + "\n"])

    def write_failed(self) -> None:
        """Write the file of a run that failed: the earlier one, where no result has changed."""
        if self.earlier and _results(self.folder) == self.results:
            write_file(self.path, [self.earlier])
        else:
            self.write()


def _results(folder: Path) -> dict[str, str]:
    """The hash of each result in a run's folder, by its name. The site, html/, is made of them."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix in PRODUCTS and name.parts[0] != "html":
            hashes[str(name)] = _hash(path)
    return hashes


def _hash(*places: Path) -> str:
    """One hash over files, and over the files of folders with their names; "" for no files."""
    hashes = []
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                hashes.append((file.name, hashlib.sha256(file.read_bytes()).hexdigest()))
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest() if hashes else ""
