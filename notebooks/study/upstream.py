"""Files of public repositories, pinned to one commit: from a mirror, from the cache, or fetched."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import warnings
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from ems.io import parse_jsonl, read_text, write_file
from ems.terminal import first_few
from ems.types import InputError

from . import ROOT

CODE_HOST = "https://raw.githubusercontent.com"  # <this>/<repository>/<commit>/<path>


@dataclass(frozen=True, slots=True)
class Pin:
    """A file of an upstream repository at one commit: a row of data/upstream.csv."""

    repository: str  # owner/name at the code host
    commit: str
    path: str  # in the repository
    size: int  # in bytes
    sha256: str

    def matches(self, content: bytes) -> bool:
        """Whether the content is what upstream has at this commit."""
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256


@cache
def pins() -> dict[str, Pin]:
    """The pinned files by name, `<data set>/<path>`."""
    pin_of = {}
    for row in csv.DictReader(read_text(ROOT / "data" / "upstream.csv").splitlines()):
        pin_of[f"{row['dataset']}/{row['path']}"] = Pin(
            row["repository"], row["commit"], row["path"], int(row["bytes"]), row["sha256"]
        )
    return pin_of


def pinned(folder: str) -> list[str]:
    """The names of the pinned files in a folder, in the order of data/upstream.csv."""
    return [name for name in pins() if name.startswith(f"{folder}/")]


def source(name: str) -> Path:
    """The path of a pinned file: in the mirror, or else in the cache, into which it is fetched.

    The mirror is the folder EMS_DATA_MIRROR. A file of the mirror is taken as it is; a warning
    names one that is not upstream's, such as one that holds half of the rows. The cache is
    EMS_CACHE, by default `~/.cache/ems`; the host is EMS_UPSTREAM_URL, by default GitHub's.
    InputError when the name is not pinned, or no place has the file.
    """
    pin = pins().get(name)
    if pin is None:
        raise InputError(
            f"{name} is not pinned in data/upstream.csv; there are {first_few(sorted(pins()))}"
        )
    mirror = os.environ.get("EMS_DATA_MIRROR")
    if mirror:
        if not Path(mirror).is_dir():
            raise InputError(
                f"EMS_DATA_MIRROR is {mirror!r}, which is no folder; correct it or unset it"
            )
        mirrored = Path(mirror, name)
        if mirrored.is_file():
            if not pin.matches(mirrored.read_bytes()):
                warnings.warn(
                    f"{mirrored} is not the whole file of {pin.repository} at commit "
                    f"{pin.commit[:12]}; it is read as it is",
                    stacklevel=2,
                )
            return mirrored
    cache_folder = os.environ.get("EMS_CACHE") or Path.home() / ".cache" / "ems"
    cached = Path(cache_folder, pin.repository, pin.commit, pin.path)
    if not (cached.is_file() and pin.matches(cached.read_bytes())):
        write_file(cached, [_download(name, pin).decode("utf-8")])
    return cached


def pinned_rows(name: str) -> Any:
    """The JSON of a pinned file; of JSON lines, the list. InputError when it is not JSON."""
    path = source(name)
    text = read_text(path)
    if path.suffix == ".jsonl":
        return [row for _, row in parse_jsonl(text.split("\n"), path)]
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(
            f"{path} is not JSON ({error}); fetch it from {pins()[name].repository}"
        ) from None


def _download(name: str, pin: Pin) -> bytes:
    """The content of a pinned file, given only when its size and hash are upstream's."""
    host = os.environ.get("EMS_UPSTREAM_URL") or CODE_HOST
    url = f"{host.rstrip('/')}/{pin.repository}/{pin.commit}/{pin.path}"
    try:
        with urlopen(url, timeout=30) as reply:
            content: bytes = reply.read(pin.size + 1)  # one byte more shows a file that has grown
    except (OSError, HTTPException, ValueError) as error:
        raise InputError(
            f"{name} is in no mirror and no cache, and fetching {url} failed ({error}); set "
            "EMS_DATA_MIRROR to a folder that has it, or run once with network access"
        ) from None
    if not pin.matches(content):
        raise InputError(
            f"{url} is not the file pinned in data/upstream.csv: {len(content)} bytes were "
            f"read, {pin.size} with SHA-256 {pin.sha256[:12]} are pinned; nothing was kept"
        )
    return content
