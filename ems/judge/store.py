"""The store of judge replies, and of the requests that wait for a reply.

A reply costs money and time, so it is committed as soon as it arrives, in an SQLite file that
survives a killed process. The same replies travel as recordings: JSON lines that a repository can
keep.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import finalize

from ..io import FilePath, encodable, parse_jsonl, read_lines, write_jsonl
from ..types import InputError
from . import Record
from .endpoint import read_completion

SAVED = tuple(f.name for f in fields(Record) if f.name != "failure")
REPLY_KEY = re.compile(r"[0-9a-f]{64}")
FREE_BYTES = 8 * 2**20  # that a disk must have before a call: replies on their way need room
TABLES = """
CREATE TABLE IF NOT EXISTS replies
    (key TEXT PRIMARY KEY, model TEXT, task TEXT, data BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending (key TEXT PRIMARY KEY, task TEXT, label TEXT, body BLOB);
SELECT data FROM replies LIMIT 0;
"""


class Replies:
    """Saved replies by key: an SQLite file, and recorded JSON-lines files (`.jsonl`) behind it.

    `path` None keeps everything in memory. Threads and processes may share an SQLite file on a
    local disk: all use the reply that was saved first.
    """

    def __init__(self, path: FilePath | None = None, recorded: Sequence[FilePath] = ()):
        self.path = None if path is None else Path(path)
        self._recorded: dict[str, Record] = {}
        for file in recorded:
            for place, line in _lines(file):
                record = _record_of_line(line, place)
                first = self._recorded.setdefault(record.key, record)
                if first.text != record.text:
                    raise InputError(
                        f"{place}: a second, different reply for {record.key[:12]}; keep one"
                    )
        self._lock = threading.RLock()
        self._db = _opened(self.path or ":memory:")
        finalize(self, self._db.close)  # at exit as well: it empties the write-ahead log

    def get(self, keys: Iterable[str]) -> dict[str, Record]:
        """Those of the keys that have a saved reply. The SQLite file goes before the recordings."""
        records = {}
        keys = list(keys)
        for key in keys:
            if key in self._recorded:
                records[key] = self._recorded[key]
        query = "SELECT key, data FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        with self._transaction("read"):
            rows = self._db.execute(query, [json.dumps(keys)]).fetchall()
        for key, data in rows:
            try:
                records[key] = Record(**json.loads(zlib.decompress(data)))
            except (ValueError, TypeError, zlib.error) as error:
                raise InputError(
                    f"{self.path}: the reply {key} is damaged ({error}); delete this row, and the "
                    "next run asks for it again"
                ) from None
        return records

    def put(self, record: Record) -> Record:
        """Save one reply and commit it. The first to a key stays: returns what is saved now.

        A reply without a date gets the present one.
        """
        values = {name: getattr(record, name) for name in SAVED}
        values["date"] = record.date or datetime.now(UTC).isoformat(timespec="seconds")
        # Half a surrogate pair, which a server may send, cannot be written: it becomes "?".
        data = json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")
        row = [record.key, record.model, record.task, zlib.compress(data)]
        with self._transaction():
            self._db.execute("INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?)", row)
            self._db.execute("DELETE FROM pending WHERE key = ?", [record.key])
            return self.get([record.key])[record.key]

    def records(self) -> list[Record]:
        """Every saved reply, by model, task and key."""
        with self._transaction("read"):
            rows = self._db.execute("SELECT key FROM replies").fetchall()
        records = self.get([*self._recorded, *(key for (key,) in rows)])
        return sorted(records.values(), key=lambda r: (r.model, r.task, r.key))

    def check_writable(self) -> None:
        """InputError when a reply could not be saved: on a nearly full disk, in a file for reading.

        It takes microseconds, and is asked before every call.
        """
        if self.path is None:
            return
        if shutil.disk_usage(self.path.parent).free < FREE_BYTES:
            raise self._unusable("written", f"less than {FREE_BYTES >> 20} MB are free")
        # SQLite refuses a write to such a file, but not the beginning of one.
        with self._transaction():
            self._db.execute("DELETE FROM pending WHERE key = ''")

    def export(self, path: FilePath) -> int:
        """Write the replies without prompts as JSON lines in a fixed order; returns how many.

        The file holds all of them or is not written.
        """
        names = [name for name in SAVED if name != "prompt"]
        rows = []
        for record in self.records():
            rows.append({name: getattr(record, name) for name in names})
        write_jsonl(path, rows)
        return len(rows)

    def import_file(self, path: FilePath) -> dict[str, int]:
        """Read a recording or a batch endpoint's result file, all or nothing.

        Returns the number of lines by kind: "imported" is new, "duplicate" was saved before,
        "unused" is a batch result that failed, or for which nobody waits. InputError for any other
        line, and when another reply is saved under a key.
        """
        counts = {"imported": 0, "duplicate": 0, "unused": 0}
        with self._transaction():
            for place, line in _lines(path):
                if isinstance(line, dict) and "custom_id" in line:
                    record = self._record_of_result(line)
                else:
                    record = _record_of_line(line, place)
                if record is None:
                    counts["unused"] += 1
                    continue
                is_saved = record.key in self.get([record.key])
                counts["duplicate" if is_saved else "imported"] += 1
                if self.put(record).text != record.text:
                    raise InputError(
                        f"{place}: another reply is saved for {record.key[:12]} ({record.task}, "
                        f"{record.model}); import into a fresh store to keep both"
                    )
        return counts

    def add_pending(self, requests: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
        """Note requests that wait for a reply: (key, task, label, body of the chat completion)."""
        rows = []
        for key, task, label, body in requests:
            data = zlib.compress(json.dumps(body).encode())
            rows.append((key, encodable(task), encodable(label), data))
        with self._transaction():
            self._db.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?)", rows)

    def export_pending(self, path: FilePath) -> int:
        """Write the waiting requests as an OpenAI Batch API input file; returns how many.

        `vllm run-batch` takes the same file.
        """
        query = "SELECT key, body FROM pending ORDER BY task, label, key"
        with self._transaction("read"):
            rows = self._db.execute(query).fetchall()
        lines = []
        for key, data in rows:
            lines.append(
                {
                    "custom_id": key,
                    "method": "POST",
                    "url": "/v1/chat/completions",
                    "body": json.loads(zlib.decompress(data)),
                }
            )
        write_jsonl(path, lines)
        return len(lines)

    def _record_of_result(self, result: Mapping[str, Any]) -> Record | None:
        """The reply in a line of a batch result; None if it failed or nobody waits for it."""
        key = str(result["custom_id"])
        query = "SELECT task, label, body FROM pending WHERE key = ?"
        waiting = self._db.execute(query, [key]).fetchone()
        if waiting is None:
            return None
        task, label, data = waiting
        request = json.loads(zlib.decompress(data))
        try:
            answer = result["response"]["body"]
        except (KeyError, TypeError):
            return None
        record = Record(
            key=key,
            task=task,
            model=request["model"],
            **read_completion(answer),
            label=label,
            prompt=request["messages"][-1]["content"],
            sent={"batch": True},
        )
        return None if record.failure else record

    @contextmanager
    def _transaction(self, use: str = "written") -> Iterator[None]:
        """One transaction, all or nothing; inside another one, a part of it.

        A store that is only "read" may be written by other processes meanwhile.
        """
        with self._lock:
            if self._db.in_transaction:
                yield
                return
            try:
                with self._db:  # commits, or rolls back after an error
                    self._db.execute("BEGIN IMMEDIATE" if use == "written" else "BEGIN")
                    yield
            except sqlite3.Error as error:
                raise self._unusable(use, error) from None

    def _unusable(self, use: str, why: object) -> InputError:
        message = f"{self.path}: the reply store cannot be {use} ({why})"
        if use == "written":
            message += "; what was saved before is intact: make room and run the same command again"
        return InputError(message)


def _opened(path: Path | str) -> sqlite3.Connection:
    """The database, made if there is none. A write that is committed survives a killed process."""
    try:
        if isinstance(path, Path):
            path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        for _ in range(100):  # SQLite refuses it while another process does the same
            with suppress(sqlite3.OperationalError):
                db.execute("PRAGMA journal_mode=WAL")
                break
            time.sleep(0.05)
        db.execute("PRAGMA synchronous=NORMAL")  # a power cut loses seconds
        db.executescript(TABLES)
        return db
    except (sqlite3.Error, OSError) as error:
        raise InputError(
            f"{path}: cannot be opened as a reply store ({error}); name a writable .sqlite "
            "file; a .jsonl recording is named as recorded"
        ) from None


def _lines(path: FilePath) -> Iterator[tuple[str, Any]]:
    """The values of a JSON-lines file, each with the file and line where it stands."""
    for number, value in parse_jsonl(read_lines(path), path):
        yield f"{path}, line {number}", value


def _record_of_line(line: Any, place: str) -> Record:
    """A line of a recording. InputError when it is none."""
    try:
        record = Record(**line)
        if not (REPLY_KEY.fullmatch(record.key) and isinstance(record.text, str)):
            raise TypeError("its key is 64 hexadecimal digits, its text a text")
        return record
    except TypeError as error:
        raise InputError(
            f"{place}: not a saved reply ({error}); export the replies again"
        ) from None
