"""Reading and writing files: texts, JSON lines and YAML."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .types import InputError

FilePath = str | Path


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_lines(path: FilePath, newline: str = "\n") -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time, without a byte order mark.

    `newline` says where a line ends, as `open` has it. InputError for what cannot be read.
    """
    try:
        with open(path, encoding="utf-8-sig", newline=newline) as file:
            yield from file
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text: save a workbook (.xlsx) as CSV UTF-8"
        ) from None


def read_text(path: FilePath) -> str:
    """The text of a UTF-8 file without a byte order mark. InputError for what cannot be read."""
    return "".join(read_lines(path))


def parse_jsonl(lines: Iterable[str], path: FilePath) -> Iterator[tuple[int, Any]]:
    """(number, value) of every JSON line that is not blank; the first line has number 1.

    InputError for a line that is not JSON, which names `path`.
    """
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from None


def parse_yaml(text: str, where: FilePath) -> Any:
    """The value of a YAML document. InputError, which names `where`, for what is not YAML."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{where} is not YAML: {error}") from None


def write_file(path: FilePath, chunks: Iterable[str]) -> Path:
    """Write a whole UTF-8 file: readers see the old file or the new one, never a part of it.

    Folders that are missing are made. A device or a pipe is written directly. InputError when the
    file cannot be written. The old file stays when `chunks` raises an error.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if path.is_char_device() or path.is_fifo():
            with path.open("w", encoding="utf-8", newline="") as device:
                device.writelines(chunks)
            return path
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".", suffix=".part") as folder:
            part = Path(folder, "part")
            with part.open("w", encoding="utf-8", newline="") as file:
                file.writelines(chunks)
            os.replace(part, target)
    except (OSError, UnicodeEncodeError) as error:
        raise InputError(f"{path} cannot be written: {getattr(error, 'strerror', error)}") from None
    return path


def write_jsonl(path: FilePath, rows: Iterable[dict[str, Any]]) -> Path:
    """Write dictionaries as JSON lines. ValueError for nan and infinity."""
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return write_file(path, lines)
