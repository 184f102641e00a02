"""Files and the terminal: texts, JSON lines and tables in and out, the data sets' place, progress bars.

Every file written whole goes through `whole_file`: readers see the old file or the new one, never a fragment.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import os
import re
import secrets
import sys
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from .types import InputError

try:
    import fcntl
except ImportError:                        # Windows, where an open file cannot be removed and needs no lock
    fcntl = None                           # type: ignore[assignment]

if TYPE_CHECKING:
    import pandas as pd
    from pydantic import BaseModel, ValidationError

Row = TypeVar("Row", bound="BaseModel")
T = TypeVar("T", bound=Hashable)
# What was needed, by pydantic's type of error.
NEEDED = {"string_type": "a string", "list_type": "a list", "model_type": "an object"}
OWN_CHECK = "ems"        # type of a PydanticCustomError whose message reads on after the field's name
# How a text begins that a spreadsheet runs, or that hides such a beginning.
FORMULA = r"[=+\-@＝＋－＠\x00-\x1f]"


# --- places ---

def home() -> Path:
    """The user's data folder: EMS_HOME, or `ems` in %APPDATA% (Windows), XDG_DATA_HOME or ~/.local/share."""
    if named := os.environ.get("EMS_HOME"):
        return Path(named)
    if sys.platform == "win32" and (roaming := os.environ.get("APPDATA")):
        return Path(roaming, "ems")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share", "ems")


def data_path(name: str) -> Path:
    """A file or folder of the kit's own data, in `data/` or a wheel's `ems/datasets/`; or InputError."""
    package = Path(__file__).resolve().parent
    for folder in (package / "datasets", package.parent / "data"):
        if (path := folder / name).exists():
            return path
    raise InputError(
        f"the kit's data set has no {name}; install the kit again, or run inside a clone of the project")


# --- reading ---

def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without a byte order mark. InputError when it is not readable as that."""
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        hint = "; give a file" if isinstance(error, IsADirectoryError) else ""
        raise InputError(f"{path} cannot be read: {error.strerror or error}{hint}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        at = len(raw) - len(error.object) + error.start       # the error's bytes begin after the mark
        line = raw.count(b"\n", 0, at) + 1
        raise InputError(f"{path} is not UTF-8: byte 0x{raw[at]:02x} at offset {at} (line {line}); save it "
                         "as UTF-8") from None


def read_json(text: str) -> Any:
    """The value of a JSON text; ValueError for one in which an object has a key twice."""
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if twice := duplicates([key for key, _ in pairs]):
            raise ValueError(f"the key {twice[0]!r} stands twice in an object")
        return dict(pairs)
    return json.loads(text, object_pairs_hook=unique)


def parse_jsonl(text: str, path: str | Path) -> Iterator[tuple[int, Any]]:
    """Line number (from 1) and value of every JSON line that is not blank; `path` is named in errors.

    Lines end at newlines only: U+2028 may stand inside a string. InputError for a line that is not JSON.
    """
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, read_json(line)
        except (ValueError, RecursionError) as error:
            reason = (f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError)
                      else str(error))
            raise InputError(
                f"{path}, line {number} is not JSON: {reason}; one object per line is needed") from None


def validated(model: type[Row], value: Any, where: str) -> Row:
    """The value as a pydantic model, or InputError in one line that begins with `where`."""
    from pydantic import ValidationError

    try:
        return model.model_validate(value)
    except ValidationError as error:
        needed = [name for name, field in model.model_fields.items() if field.is_required()]
        raise InputError(f"{where}: {_problem(error, ', '.join(needed))}") from None


def _problem(error: ValidationError, needed: str) -> str:
    """What is wrong with a value, what is needed and what came: the first of pydantic's findings."""
    first, *others = error.errors(include_url=False)
    kind, value, place = first["type"], first["input"], first["loc"]
    came = f"got {type(value).__name__} {str(value)[:40]!r}"
    if not place:
        return f"an object with {needed} is needed, {came}"
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place[1:]]
    name = repr(str(place[0]) + "".join(steps))
    if kind == "missing" and len(place) == 1:
        missing = [e["loc"][0] for e in (first, *others) if e["type"] == kind and len(e["loc"]) == 1]
        return f"{some(missing)} missing; {needed} are needed, got {some(list(value))}"
    if kind == "missing":
        return f"{name} missing, got {some(list(value))}"
    if kind in NEEDED:
        return f"{name} must be {NEEDED[kind]}, {came}"
    # a check of our own says all itself; pydantic's other messages do not say what came
    return f"{name} {first['msg']}" if kind == OWN_CHECK else f"{name}: {first['msg']}, {came}"


def duplicates(items: Sequence[T]) -> list[T]:
    """The items that occur more than once, each named once, in order of first occurrence."""
    return [item for item, times in Counter(items).items() if times > 1]


def some(items: Sequence[Any], n: int = 3) -> str:
    """The first few of the items, for a message."""
    return ", ".join(repr(i) for i in items[:n]) + (", ..." if len(items) > n else "")


def meant(name: str, known: Iterable[str]) -> str:
    """The known name that a wrong one was probably meant to be, as the end of a message; "" without one."""
    spelt = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), spelt, n=1, cutoff=0.7)
    return f"; did you mean {spelt[near[0]]!r}?" if near else ""


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can hold the text: a lone half of a surrogate pair is no character."""
    return text.isascii() or not re.search("[\ud800-\udfff]", text)


# --- writing ---

@contextmanager
def whole_file(path: str | Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A binary file to fill, put in place at `path` in one step once the block has ended without an error.

    Folders are made; .gz is compressed, equal content to equal bytes; what killed processes left of the file
    is removed. A link stays one, and a device or a pipe is written as it is. InputError when `path` takes no
    file; an error within the block leaves the old file.
    """
    path, place = Path(path), Path(os.path.realpath(path))
    if path.exists() and not (path.is_file() or path.is_dir()):
        with open(path, "wb") as device:
            yield device
        return
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    with _refusing(path):
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(place)
        lock = _create_locked(part)
    try:
        with open(part, "wb") as raw:
            packed = place.suffix == ".gz"
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else nullcontext(raw) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        with _refusing(path):
            os.replace(part, place)
    finally:
        part.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


def write_file(path: str | Path, content: bytes) -> Path:
    """Write a whole file (see `whole_file`); returns the path. InputError when it cannot be written."""
    with _refusing(path), whole_file(path) as file:
        file.write(content)
    return Path(path)


def write_lines(path: str | Path, lines: Iterable[str]) -> int:
    """Write lines of text as a whole UTF-8 file; returns how many. InputError when it cannot be written."""
    count = 0
    with _refusing(path), whole_file(path) as file:
        for line in lines:
            file.write(line.encode() + b"\n")
            count += 1
    return count


def write_json(path: str | Path, data: Any) -> Path:
    """Write one JSON document for people to read. What JSON does not know is written as its `str`."""
    return write_file(path, (json.dumps(data, indent=1, ensure_ascii=False, default=str) + "\n").encode())


def write_jsonl(path: str | Path, rows: Iterable[Any]) -> Path:
    """Write records (by their `to_dict()`, if any) or mappings as JSON lines.

    An empty `context`, `others` or `points` is left out. ValueError for nan and infinity; InputError for text
    that is not Unicode or a place that takes no file.
    """
    def line(number: int, row: Any) -> str:
        record = is_dataclass(row) and not isinstance(row, type)
        plain = row.to_dict() if hasattr(row, "to_dict") else asdict(row) if record else row
        plain = {k: v for k, v in plain.items()
                 if k not in ("context", "others", "points") or v not in (None, ())}
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        if not is_encodable(text):
            raise InputError(
                f"{path}: row {number} holds half a surrogate pair, which UTF-8 cannot; mend the text")
        return text
    write_lines(path, (line(number, row) for number, row in enumerate(rows, 1)))
    return Path(path)


def csv_text(frame: pd.DataFrame) -> str:
    """A table as CSV without its index, in which a spreadsheet finds no formula to run: texts and columns'
    names that begin like one get an apostrophe, which `unguarded` takes off again.
    """
    guarded = frame.rename(columns=_guarded)
    texts = [i for i, dtype in enumerate(guarded.dtypes) if dtype.kind == "O"]
    for i in texts:
        guarded.isetitem(i, guarded.iloc[:, i].map(_guarded))
    # Some writers leave a carriage return bare, which readers take for a row's end: then quote every text.
    bare = any("\r" in cell for i in texts for cell in guarded.iloc[:, i] if isinstance(cell, str))
    return guarded.to_csv(index=False, lineterminator="\n",
                          quoting=csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL)


def write_csv(path: str | Path, frame: pd.DataFrame) -> Path:
    """Write a table as a whole CSV file (see `csv_text`). InputError when it cannot be written."""
    return write_file(path, csv_text(frame).encode())


def unguarded(cell: Any) -> Any:
    """A cell that `csv_text` wrote, as it was."""
    return cell[1:] if isinstance(cell, str) and re.match("'+" + FORMULA, cell) else cell


def _guarded(cell: Any) -> Any:
    # what begins with an apostrophe already gets another one, so that taking one off is always right
    return "'" + cell if isinstance(cell, str) and re.match("'*" + FORMULA, cell) else cell


@contextmanager
def _refusing(path: str | Path) -> Iterator[None]:
    """A refusal of the file system, in one line that names the file the user asked for."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; name another place, or make "
                         "room") from None


def _create_locked(part: Path) -> int | None:
    """Create a file; the descriptor of a lock on it that ends with this process, None without such locks."""
    if fcntl is None:
        return None
    while True:
        descriptor = os.open(part, os.O_CREAT | os.O_RDWR, 0o666)
        with suppress(OSError):            # some network file systems have no locks: go on without
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if part.exists():
            return descriptor
        os.close(descriptor)               # another process took it for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the parts of `path` that no living process holds: those of processes that were killed."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with suppress(OSError):            # held, or gone by now
            if fcntl is None:
                part.unlink()
                continue
            with open(part, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


# --- progress ---

_BARS: ContextVar[bool] = ContextVar("progress bars are drawn", default=True)


def progress_bar(text: str, total: int | None, done: int = 0, unit: str = "reply") -> Any:
    """A progress bar on stderr; an invisible one without a text, and where stderr is a file or a pipe."""
    from tqdm.auto import tqdm

    ipython = sys.modules.get("IPython")
    notebook = ipython is not None and hasattr(ipython.get_ipython(), "kernel")
    visible = bool(text) and _BARS.get() and (notebook or sys.stderr.isatty())
    return tqdm(desc=text, total=total, initial=done, unit=unit, disable=not visible)


@contextmanager
def progress_bars(drawn: bool) -> Iterator[None]:
    """Whether progress bars may be drawn within the block; a block around it can forbid them as well."""
    token = _BARS.set(drawn and _BARS.get())
    try:
        yield
    finally:
        _BARS.reset(token)
