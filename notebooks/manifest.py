"""The manifest of a run: what it is made of, what each notebook ran with, and hashes of results."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import ems
from ems.io import read_text, write_file

# Suffixes of the files that are results.
PRODUCTS = (".jsonl", ".csv", ".md", ".tex", ".png", ".pdf", ".html")


class Manifest:
    """The file manifest.json of a run's folder. It keeps the notes on notebooks that do not run."""

    def __init__(self, folder: Path, profile: str, root: Path):
        self.folder = folder
        self.path = folder / "manifest.json"
        self.earlier = read_text(self.path) if self.path.exists() else ""
        self.results = _results(folder)
        code = [*Path(ems.__file__).parent.rglob("*.py"), *root.glob("notebooks/**/*.py")]
        self.content = {
            "changed": {},
            "notebooks": {},
            "profile": profile,
            **json.loads(self.earlier or "{}"),
            "ems": ems.__version__,
            "python": sys.version,
            "packages": {d.name: d.version for d in metadata.distributions()},
            "sources_sha256": _hash(sorted(code)),
        }

    def made_with(self, notebook: str) -> dict[str, Any] | None:
        """The profile and the changed parameters of the results of a notebook; None without any."""
        if notebook not in self.content["notebooks"]:
            return None
        return {"--profile": self.content["profile"], **self.content["changed"].get(notebook, {})}

    def begin(self, notebooks: Iterable[str], changed: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace the notes on these notebooks by their changed parameters, which tables name."""
        for name in notebooks:
            self.content["notebooks"].pop(name, None)
            self.content["changed"].pop(name, None)
            if changed[name]:
                self.content["changed"][name] = changed[name]
        self.write()

    def note(self, notebook: Path, values: Mapping[str, Any]) -> None:
        """Note that a notebook ran with these parameters."""
        self.content["notebooks"][notebook.stem] = {
            "parameters": values,
            "sha256": _hash([notebook]),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def write(self) -> None:
        """Write the file, with the hash of every result that the folder has now."""
        self.content["files_sha256"] = _results(self.folder)
        text = json.dumps(self.content, indent=1, ensure_ascii=False)
        write_file(self.path, [text, "\n"])

    def keep_earlier(self) -> None:
        """Write the earlier file again, where no result has changed; else as `write`."""
        self.write()
        if self.content["files_sha256"] == self.results and self.earlier:
            write_file(self.path, [self.earlier])


def _results(folder: Path) -> dict[str, str]:
    """The hash of each result in a run's folder, by its name. The site, html/, is made of them."""
    hashes = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix in PRODUCTS and name.parts[0] != "html":
            hashes[str(name)] = _hash([path])
    return hashes


def _hash(files: Iterable[Path]) -> str:
    """The SHA-256 of the bytes of the files, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
