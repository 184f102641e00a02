"""Files and the terminal: reading text, writing a file whole or not at all, progress."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .types import InputError

if TYPE_CHECKING:
    pass




def home() -> Path:
    """The user's data folder: EMS_HOME, else `ems` in %APPDATA% on Windows, in XDG_DATA_HOME or ~/.local/share."""
    if named := os.environ.get("EMS_HOME"):
        return Path(named)
    if sys.platform == "win32" and (roaming := os.environ.get("APPDATA")):
        return Path(roaming, "ems")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "ems")


def progress_bar(text: str, total: int | None, done: int = 0) -> Any:
    """A progress bar; an invisible one without a text."""
    from tqdm.auto import tqdm

    return tqdm(desc=text, total=total, initial=done, unit="reply", disable=not text)


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without a byte order mark. InputError when it cannot be read or is not UTF-8."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        hint = "; give a file" if isinstance(error, IsADirectoryError) else ""
        raise InputError(f"{path} cannot be read: {error.strerror or error}{hint}") from None
    mark = 3 if raw.startswith(b"\xef\xbb\xbf") else 0
    try:
        return raw[mark:].decode()
    except UnicodeDecodeError as error:
        at = error.start + mark
        raise InputError(f"{path} is not UTF-8: byte 0x{raw[at]:02x} at offset {at} (line {raw.count(10, 0, at) + 1}); "
                         "save it as UTF-8") from None


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> Path:
    """Write records or mappings as JSON lines: UTF-8, keys in their own order, the whole file or nothing.

    A record's `to_dict()` is used where it has one; a triplet without context leaves the key out. ValueError for nan
    and infinity, which JSON cannot hold; InputError for text that is not Unicode or a place that takes no file.
    """
    lines = [json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
    if broken := [number for number, line in enumerate(lines, 1) if not is_encodable(line)]:
        raise InputError(f"{path}: row {broken[0]} holds half a surrogate pair, which UTF-8 cannot; mend the text")
    return write_file(Path(path), "".join(lines).encode())


def _plain(row: Any) -> Any:
    if hasattr(row, "to_dict"):
        return row.to_dict()
    plain = asdict(row) if is_dataclass(row) else row
    return {k: v for k, v in plain.items() if k != "context" or v is not None}


def write_file(path: Path, content: bytes) -> Path:
    """Put `content` at `path` in one step: readers see the old file or the new one, and no fragment stays behind.

    Folders are made. InputError when it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
    return path


def is_encodable(text: str) -> bool:
    return text.isascii() or not re.search("[\ud800-\udfff]", text)
