"""Reading and writing files: texts, JSON lines and YAML."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from .terminal import notify
from .types import InputError

FilePath = str | Path
# Files that cannot be read, by what their first bytes match: what they are, and what to do.
_NO_TEXT = {
    rb"[^\0]\0|\0[^\0]": "seems to be UTF-16 without a byte order mark: save it as UTF-8",
    b"PK\x03\x04": "is a workbook or an archive: save a workbook (.xlsx) as CSV UTF-8",
    b"PAR1": "is a parquet file: read it with pandas and pass the frame to ems.evaluate, or save "
    "it as CSV",
    b"\x1f\x8b": "is compressed: unpack it with gunzip",
}
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_noticed: set[str] = set()  # files that are not UTF-8: each is named once


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def read_lines(path: FilePath, newline: str = "\n", any_encoding: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time, without a byte order mark.

    With `any_encoding` a file that begins with UTF-16's mark is read as UTF-16, and a line that is
    not UTF-8 as Windows-1252; a notice on stderr says so. `newline` says where a line ends, as
    `open` has it. InputError for what cannot be read.
    """
    checked_path(path)
    try:
        with open(path, "rb") as file:
            beginning = file.peek(4)
            for mark, what in _NO_TEXT.items():
                if re.match(mark, beginning):
                    raise InputError(f"{path} {what}")
            encoding, errors = "utf-8-sig", "strict"
            if any_encoding and beginning.startswith(_UTF_16_MARKS):
                encoding = "utf-16"
                _notice(path, "UTF-16")
            elif any_encoding:
                errors = "surrogateescape"
            for line in TextIOWrapper(file, encoding, errors, newline):
                yield _whole(line, path)
    except OSError as error:
        raise InputError(f"{path!s:.300} cannot be read: {error.strerror or error}") from None
    except UnicodeError:
        raise InputError(
            f"{path} is not UTF-8 text: save a workbook (.xlsx) as CSV UTF-8"
        ) from None


def checked_path(path: FilePath) -> Path:
    """The path itself. InputError for what names no file, such as None or a number."""
    if not isinstance(path, FilePath):
        raise InputError(f"a file is named by a text or a Path, got {type(path).__name__}")
    return Path(path)


def _whole(line: str, path: FilePath) -> str:
    """The line itself, or as Windows-1252 where bytes of it are not UTF-8 (lone surrogates)."""
    try:
        line.encode()
    except UnicodeEncodeError:
        line = line.encode(errors="surrogateescape").decode("cp1252")
        letters = re.findall(r"\S{0,15}[^\x00-\x7f]\S{0,15}", line)
        _notice(path, f"Windows-1252, for example {letters[0]!r}")
    return line


def _notice(path: FilePath, encoding: str) -> None:
    if str(path) not in _noticed:
        _noticed.add(str(path))
        notify(f"ems: {path} is not UTF-8; it is read as {encoding}")


def read_text(path: FilePath, any_encoding: bool = False) -> str:
    """The text of a file, as `read_lines` reads it. InputError for what cannot be read."""
    return "".join(read_lines(path, any_encoding=any_encoding))


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
    path = checked_path(path)
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
