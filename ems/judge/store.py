"""The store of judge replies: record, replay, export, import; and the requests that wait for a reply.

A reply costs money and time, so it is committed as soon as it arrives, in an SQLite file that survives a
killed process and several processes at once. Its key is a hash of everything that can change it. The same
replies travel as recordings, JSON lines that a person can read and a repository can keep.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sqlite3
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import finalize

from ..io import parse_jsonl, write_jsonl
from ..types import InputError
from . import Record, encodable, read_choice

SAVED = tuple(f.name for f in fields(Record) if f.name != "failure")       # of a reply
KEY = re.compile(r"[0-9a-f]{64}")
ROOM = 8 * 2**20         # bytes that a disk must have free before a call: replies on their way need some
SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, model TEXT, task TEXT, data BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending (key TEXT PRIMARY KEY, task TEXT, label TEXT, body BLOB);
SELECT data FROM replies LIMIT 0;
DELETE FROM pending WHERE key = '';
"""


class StoreError(InputError):
    """The store cannot be read or written."""


def reply_key(**settings: Any) -> str:
    """SHA-256 of all that can change a reply. In a schema the order of fields can: it is left as it is."""
    return sha256(json.dumps(dict(sorted(settings.items())), allow_nan=False).encode()).hexdigest()


class Replies:
    """Saved replies by key: an SQLite file, with recorded JSON-lines files (`.jsonl`, `.jsonl.gz`) behind it.

    `path` None keeps everything in memory. A JSON-lines `path` opens that recording alone, read-only; so does
    an SQLite file where it cannot be written. Threads, and processes on one local disk, may share it: of two
    replies to one question, all use the one saved first.
    """

    def __init__(self, path: str | Path | None = None, recorded: Sequence[str | Path] = ()):
        self.path = None if path is None else Path(path)
        self.read_only = self.path is not None and self.path.name.endswith((".jsonl", ".jsonl.gz"))
        self._files = [Path(file) for file in recorded]
        if self.path is not None and self.read_only:
            self._files.append(self.path)
        self._recorded: dict[str, Record] = {}
        for file in self._files:
            self._read_recording(file)
        self._lock = threading.RLock()
        self._db = self._open()
        finalize(self, self._db.close)              # at exit as well: it empties the write-ahead log

    def __repr__(self) -> str:
        return f"Replies({str(self.path)!r}, recorded={[str(file) for file in self._files]})"

    def __len__(self) -> int:
        return len(self._recorded.keys() | {key for key, in self._read("SELECT key FROM replies")})

    # --- single replies ---

    def get(self, key: str) -> Record | None:
        """The saved reply, or None."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        """Those of the keys that have a saved reply. The SQLite file goes before the recordings."""
        keys = list(keys)
        query = "SELECT key, data FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        found = {key: self._unpacked(key, data) for key, data in self._read(query, [json.dumps(keys)])}
        return {key: self._recorded[key] for key in keys if key in self._recorded} | found

    def put(self, record: Record, *, replace: bool = False) -> Record:
        """Save one reply and commit it; the first to a key stays unless `replace`. Returns what stays.

        StoreError when it cannot be written (a full disk, a read-only file).
        """
        data = encodable(json.dumps({name: getattr(record, name) for name in SAVED}, ensure_ascii=False))
        insert = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO replies VALUES (?, ?, ?, ?)"
        with self._writing():
            self._db.execute(insert, [record.key, record.model, record.task, zlib.compress(data.encode())])
            self._db.execute("DELETE FROM pending WHERE key = ?", [record.key])
            return self.get_many([record.key])[record.key]

    def records(self) -> Iterator[Record]:
        """Every saved reply, by model, task and key; one in memory at a time."""
        rows = self._read("SELECT model, task, key FROM replies")
        rows += [(record.model, record.task, key) for key, record in self._recorded.items()]
        for *_, key in sorted(set(rows)):
            yield self.get_many([key])[key]

    # --- the disk ---

    def check_room(self) -> None:
        """StoreError when the disk is nearly full. It takes microseconds: asked before every call."""
        if self.path is not None and shutil.disk_usage(self.path.parent).free < ROOM:
            raise StoreError(f"{self.path}: less than {ROOM >> 20} MB are free on its disk, and replies on "
                             "their way might be lost; make room and run the same command again")

    def check_writable(self) -> None:
        """StoreError when a small write fails (beyond a quota, say), or the disk is nearly full."""
        self.check_room()
        for change in ("INSERT INTO pending VALUES ('', '', '', zeroblob(65536))",
                       "DELETE FROM pending WHERE key = ''"):
            with self._writing():
                self._db.execute(change)

    def checkpoint(self) -> None:
        """Move all from the write-ahead log into the main file, so that a copy of it alone is whole."""
        with self._lock, suppress(sqlite3.Error):       # on a full disk the log keeps it
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- files ---

    def export(self, path: str | Path, *, prompts: bool = False) -> int:
        """Write the replies as JSON lines, the whole file or nothing; returns how many.

        The order is fixed: the same replies make the same file. Prompts stay out unless asked for.
        """
        names = [name for name in SAVED if prompts or name != "prompt"]
        if str(path).endswith(".gz"):
            raise InputError(f"{path}: name a .jsonl file, and compress it with gzip afterwards")
        rows = [{name: getattr(record, name) for name in names} for record in self.records()]
        write_jsonl(path, rows)
        return len(rows)

    def import_file(self, path: str | Path) -> dict[str, int]:
        """Read a recording or a batch endpoint's result file, all or nothing; counts of its lines by kind.

        "imported" is new, "duplicate" was saved before; "unused" is a batch result that failed, or for which
        nobody waits. InputError for any other line, and when another reply is saved under a key.
        """
        counts = Counter(imported=0, duplicate=0, unused=0)
        with self._writing():
            for place, line in _lines(path):
                result = isinstance(line, dict) and "custom_id" in line
                record = self._of_batch(line) if result else _record(line, place)
                saved = self.get(record.key) if record else None
                if record is None:
                    counts["unused"] += 1
                elif saved is None:
                    self.put(record)
                    counts["imported"] += 1
                elif saved.text == record.text:
                    counts["duplicate"] += 1
                else:
                    raise InputError(f"{place}: another reply is saved for {record.key[:12]} ({record.task}, "
                                     f"{record.model}); import into a fresh store to keep both")
        return dict(counts)

    def _of_batch(self, result: Mapping[str, Any]) -> Record | None:
        """The reply in a line of a batch result; None when the request failed, or nobody waits for it."""
        key = str(result["custom_id"])
        for task, label, body in self._read("SELECT task, label, body FROM pending WHERE key = ?", [key]):
            asked = json.loads(zlib.decompress(body))
            with suppress(ValueError, KeyError, TypeError):
                choice = read_choice(result["response"]["body"])
                return Record(key, task, asked["model"], label=label, prompt=asked["messages"][-1]["content"],
                              date=utc(), sent={"batch": True}, **choice)
        return None

    # --- requests that wait for a reply: the way to a batch endpoint ---

    def add_pending(self, wanted: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
        """Note requests without a reply: (key, task, label, body of the chat completion)."""
        with self._writing():
            self._db.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?)", (
                (key, encodable(task), encodable(label), zlib.compress(json.dumps(body).encode()))
                for key, task, label, body in wanted))

    def export_pending(self, path: str | Path) -> int:
        """Write the waiting requests as an OpenAI Batch API input file (`vllm run-batch` takes the same)."""
        fixed = {"method": "POST", "url": "/v1/chat/completions"}
        rows = self._read("SELECT key, body FROM pending ORDER BY task, label, key")
        write_jsonl(path, ({"custom_id": key, **fixed, "body": json.loads(zlib.decompress(body))}
                           for key, body in rows))
        return len(rows)

    # --- underneath ---

    def _open(self) -> sqlite3.Connection:
        """The database, made if there is none; read-only where the file is there and cannot be written."""
        try:
            if self.path is None or self.read_only:
                return _writable(":memory:")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _writable(self.path)
        except (sqlite3.Error, OSError) as error:
            name = getattr(error, "sqlite_errorname", "")
            if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) and self.path and self.path.is_file():
                self.read_only = True
                return _read_only(self.path)
            raise StoreError(f"{self.path}: cannot be opened as a reply store ({error}); name a writable "
                             ".sqlite file, or a .jsonl recording to replay") from None

    def _read_recording(self, file: Path) -> None:
        for place, line in _lines(file):
            record = _record(line, place)
            if self._recorded.setdefault(record.key, record).text != record.text:
                raise InputError(f"{place}: a second, different reply for {record.key[:12]}; keep one")

    def _unpacked(self, key: str, data: bytes) -> Record:
        try:
            return Record(**json.loads(zlib.decompress(data)))
        except (ValueError, TypeError, zlib.error) as error:
            raise StoreError(f"{self.path}: the reply {key} is damaged ({error}); delete this row, and the "
                             "next run asks for it again") from None

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: the reply store cannot be read ({error})") from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, all or nothing; inside another one, a part of it."""
        with self._lock:
            if self.read_only:
                raise StoreError(f"{self.path} is read-only; to save replies name a .sqlite file that can be "
                                 "written, with this one as recorded")
            if self._db.in_transaction:
                yield
                return
            try:
                with self._db:                          # commits, or rolls back after an error
                    self._db.execute("BEGIN IMMEDIATE")
                    yield
            except sqlite3.Error as error:
                raise StoreError(f"{self.path}: cannot be written ({error}); the replies saved before are "
                                 "intact: make room and run the same command again") from None


def _writable(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    for attempt in range(200):          # refused at once, without a wait, while another process does the same
        try:
            db.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == 199:
                raise
            time.sleep(0.05)
    db.execute("PRAGMA synchronous=NORMAL")        # a killed process loses nothing; a power cut, seconds
    db.executescript(SCHEMA)
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    """A database in a folder that cannot be written."""
    # "immutable" spares SQLite the files it would make beside it, but hides what a write-ahead log holds.
    log = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None,
                           check_same_thread=False)


def _lines(path: str | Path) -> Iterator[tuple[str, Any]]:
    """The values of a JSON-lines file, plain or gzipped, and where each stands."""
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt", encoding="utf-8-sig") as file:
            for number, value in parse_jsonl(file, path):
                yield f"{path}, line {number}", value
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as JSON lines ({error})") from None


def _record(line: Any, place: str) -> Record:
    """A line of a recording. InputError when it is none."""
    try:
        record = Record(**line)
        good = all(isinstance(text, str) for text in (record.key, record.task, record.model, record.text))
        if not (good and KEY.fullmatch(record.key)):
            raise TypeError("key is 64 hexadecimal digits; task, model and text are texts")
        return record
    except TypeError as error:
        raise InputError(f"{place}: not a saved reply ({error}); export the replies again") from None


def utc() -> str:
    """The present as an ISO 8601 date."""
    return datetime.now(UTC).isoformat(timespec="seconds")
