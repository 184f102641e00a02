"""The store of judge replies: record, replay, export, import; and the requests still waiting for a reply.

A reply costs money and time, so it is committed as soon as it arrives, in an SQLite file (WAL mode) that
survives a killed process, several processes at once and a full disk. Its key is a hash of everything that can
change it. The same replies travel as JSON lines that a person can read and a repository can keep.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from ..asking import Record
from ..io import write_lines
from ..types import InputError

COLUMNS = tuple(f.name for f in fields(Record))
_SUMS = ("prompt_tokens", "completion_tokens", "cached_tokens", "seconds")
# Of a record's fields; the others are text.
_TYPES: dict[str, tuple[type, ...]] = {**dict.fromkeys(_SUMS, (int, float)), "sent": (dict,),
                                       "prompt": (str, type(None))}
_BROKEN = ("error", "abort", "insufficient_system_resource")
# How servers say that a reply ended otherwise than by itself; whatever is not named here is a whole reply.
_ENDINGS = {
    # OpenAI; Mistral; Gemini
    **dict.fromkeys(("length", "model_length", "max_tokens"), "length"),
    **dict.fromkeys(("refusal", "content_filter", "safety", "prohibited_content", "blocklist"), "refusal"),
    # Mistral; vLLM; DeepSeek
    **dict.fromkeys(_BROKEN, "broken off"),
    "no text": "no text",
}
FINAL = ("length", "refusal", "no text")  # what is a reply, however useless: saved, and not asked again
_KEY = re.compile(r"[0-9a-f]{64}")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, task TEXT, model TEXT, text TEXT,
    finish_reason TEXT, prompt_tokens INTEGER, completion_tokens INTEGER, cached_tokens INTEGER, seconds REAL,
    date TEXT, sent TEXT, label TEXT, prompt TEXT);
CREATE TABLE IF NOT EXISTS pending (key TEXT PRIMARY KEY, task TEXT, label TEXT, body TEXT);
"""


class StoreError(InputError):
    """The store cannot be read or written. `record` is the reply that could not be saved, if there is one."""

    def __init__(self, message: str, record: Record | None = None):
        super().__init__(message)
        self.record = record


def reply_key(**settings: Any) -> str:
    """SHA-256 of all that can change a reply. In a schema the order of fields can: it is left as it is."""
    return sha256(json.dumps(dict(sorted(settings.items())), allow_nan=False).encode()).hexdigest()


class BrokenOff(ValueError):
    """A chat completion that the server gave up on halfway: no reply, and worth another try."""


def ending(finish_reason: str) -> str:
    """What a finish reason means: "length" (cut), "refusal", "broken off", "no text", or "" for whole."""
    return _ENDINGS.get(finish_reason.lower(), "")


def read_choice(body: Any) -> dict[str, Any]:
    """Text, finish reason and token counts out of a chat completion; ValueError when it has not that shape.

    A message without text is a reply when the server says why it ended, and its finish reason "no text" when
    that reason is none of `ending`. BrokenOff when the server reports an error within the reply.
    """
    try:
        choice = body["choices"][0]
        message, finish_reason = choice["message"], choice.get("finish_reason")
        text, refusal, error = message.get("content"), message.get("refusal"), choice.get("error")
    except (TypeError, KeyError, IndexError, AttributeError):
        raise ValueError("no choices[0].message") from None
    finish = finish_reason or "stop"
    if isinstance(text, list):           # some servers send a list of parts
        text = "".join(part["text"] for part in text
                       if isinstance(part, dict) and isinstance(part.get("text"), str))
    if refusal and not text:
        text, finish = str(refusal), "refusal"
    if error or (isinstance(finish, str) and ending(finish) == "broken off"):
        raise BrokenOff("an error within choices[0]")
    if text is None and finish_reason and isinstance(finish_reason, str):
        text, finish = "", finish if ending(finish) else "no text"
    if not isinstance(text, str) or not isinstance(finish, str):
        raise ValueError("no text in choices[0].message.content")
    return {"text": encodable(text), "finish_reason": finish, **read_usage(body)}


def read_usage(body: Any) -> dict[str, int]:
    """Token counts of a chat completion, each 0 when the server does not say, or says what is no count."""
    usage = body.get("usage") if isinstance(body, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    prompt, completion, total = (_count(usage.get(f"{name}_tokens"))
                                 for name in ("prompt", "completion", "total"))
    # Some servers count a model's reasoning in the total alone: it is paid for.
    return {"prompt_tokens": prompt,
            "completion_tokens": max(completion, total - prompt) if prompt else completion,
            "cached_tokens": min(prompt, _count(details.get("cached_tokens")))}


def _count(n: Any) -> int:
    return n if type(n) is int and 0 <= n < 2**53 else 0


def read_chances(body: Any) -> dict[str, float]:
    """Probability in [0, 1] of each likely first token of a chat completion; empty when none is given."""
    try:
        likely = body["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {encodable(t["token"]): round(math.exp(t["logprob"]), 6) for t in likely}
    except (TypeError, KeyError, IndexError, AttributeError, OverflowError):
        return {}


def encodable(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot carry, replaced by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


class Replies:
    """Saved replies by key: an SQLite file, with recorded JSON-lines files (`.jsonl`, `.jsonl.gz`) behind it.

    `path` None keeps everything in memory. A JSON-lines `path` opens that recording alone, read-only; so does
    an SQLite file where it cannot be written. Threads, and processes on one local disk, may share it: of two
    replies to one question, all use the one saved first.
    """

    def __init__(self, path: str | os.PathLike | None = None, recorded: Sequence[str | os.PathLike] = ()):
        self.path = None if path is None else Path(path)
        self.read_only = self.path is not None and self.path.name.endswith((".jsonl", ".jsonl.gz"))
        self._recorded = [Path(p) for p in recorded]
        if self.path is not None and self.read_only:
            self._recorded.append(self.path)
        self._lines: dict[str, bytes] = {}
        for file in self._recorded:
            self._index(file)
        self._lock = threading.RLock()
        self._db = self._open()

    def __repr__(self) -> str:
        return f"Replies({str(self.path)!r}, recorded={[str(p) for p in self._recorded]})"

    def __len__(self) -> int:
        return len(self._lines.keys() | {key for key, in self._read("SELECT key FROM replies")})

    # --- single replies ---

    def get(self, key: str) -> Record | None:
        """The saved reply, or None."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, Record]:
        """Those of the keys that have a saved reply. The SQLite file goes before the recordings."""
        keys = list(keys)
        query = "SELECT * FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        records = {row[0]: self._from_row(row) for row in self._read(query, [json.dumps(keys)])}
        records.update((k, _from_line(self._lines[k])) for k in keys if k not in records and k in self._lines)
        return records

    def put(self, record: Record, *, replace: bool = False) -> Record:
        """Save one reply and commit it; the first to a key stays unless `replace`. Returns what stays.

        StoreError, which carries the record, when it cannot be written (a full disk, a read-only file).
        """
        if self.read_only:
            raise StoreError(f"{self.path} is read-only; name a writable .sqlite file to save replies",
                             record)
        columns = ",".join("?" * len(COLUMNS))
        insert = f"INSERT OR {'REPLACE' if replace else 'IGNORE'} INTO replies VALUES ({columns})"
        try:
            with self._writing():
                # What a server broke off is no reply, and makes room for one.
                self._db.execute(
                    f"DELETE FROM replies WHERE key = ? AND lower(finish_reason) IN {_BROKEN}", [record.key])
                new = self._db.execute(insert, _row(record)).rowcount
                self._db.execute("DELETE FROM pending WHERE key = ?", [record.key])
                return record if new else self.get_many([record.key])[record.key]
        except StoreError as error:
            error.record = record
            raise

    # --- files ---

    def records(self) -> Iterator[Record]:
        """Every saved reply, by model, task, label and key; one in memory at a time."""
        order = {row[-1]: row for row in self._read("SELECT model, task, label, key FROM replies")}
        for key in self._lines.keys() - order.keys():
            record = _from_line(self._lines[key])
            order[key] = (record.model, record.task, record.label, key)
        for *_, key in sorted(order.values()):
            if saved := self.get(key):
                yield saved

    def export(self, path: str | Path, *, prompts: bool = False) -> int:
        """Write the replies as JSON lines (gzip for .gz), the whole file or nothing; returns how many.

        The order is fixed: the same replies make the same file. Prompts stay out unless asked for.
        """
        def line(record: Record) -> str:
            plain = asdict(record)
            if not prompts or record.prompt is None:
                del plain["prompt"]
            return json.dumps(plain, ensure_ascii=False)
        return write_lines(path, map(line, self.records()))

    def import_(self, path: str | Path) -> int:
        """Read replies written by `export`, all or nothing; returns how many were new.

        InputError for a malformed line, and when another reply is saved under a key.
        """
        new = 0
        with self._writing():
            for number, line in _lines(path):
                record = _parse(line, path, number)
                old = self.get(record.key)
                if old and (old.text, old.finish_reason) != (record.text, record.finish_reason):
                    raise InputError(f"{path}, line {number}: another reply is saved for {record.key[:12]} "
                                     f"({record.task}, {record.model}); import into a fresh store to keep "
                                     "both")
                if not old:
                    new += 1
                    self.put(record)
        return new

    def stats(self) -> list[dict[str, Any]]:
        """Replies, tokens, seconds and first and last date for each model and task, in that order."""
        rows = []
        for (model, task), records in groupby(self.records(), attrgetter("model", "task")):
            dates, *sums = zip(*map(attrgetter("date", *_SUMS), records), strict=True)
            rows.append({"model": model, "task": task, "replies": len(dates),
                         **dict(zip(_SUMS, map(sum, sums), strict=True)),
                         "first": min(dates), "last": max(dates)})
        return rows

    # --- requests that wait for a reply: the way to a batch endpoint ---

    def add_pending(self, wanted: Iterable[tuple[str, str, str, Mapping[str, Any]]]) -> None:
        """Note requests without a reply: (key, task, label, body of the chat completion)."""
        with self._writing():
            self._db.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?)", (
                (key, encodable(task), encodable(label), json.dumps(body))
                for key, task, label, body in wanted))

    def pending(self) -> dict[str, int]:
        """How many requests wait for a reply, by task."""
        return dict(self._read("SELECT task, count(*) FROM pending GROUP BY task ORDER BY task"))

    def export_pending(self, path: str | Path) -> int:
        """Write the waiting requests as an OpenAI Batch API input file (`vllm run-batch` takes the same)."""
        rows = self._read("SELECT key, body FROM pending ORDER BY task, label, key")
        fixed = {"method": "POST", "url": "/v1/chat/completions"}
        return write_lines(path, (json.dumps({"custom_id": key, **fixed, "body": json.loads(body)},
                                             ensure_ascii=False) for key, body in rows))

    def import_batch(self, path: str | os.PathLike) -> dict[str, int]:
        """Read a batch output or error file, all or nothing; how many of each kind.

        What failed, expired or has the wrong shape stays pending; an id asked by nobody is unknown.
        InputError for a line that is no batch result.
        """
        count = dict.fromkeys(("imported", "duplicate", "failed", "unknown"), 0)
        with self._writing():
            for number, line in _lines(path):
                try:
                    result = json.loads(line)
                    key, response = result["custom_id"], result.get("response")
                except (ValueError, TypeError, KeyError, AttributeError):
                    raise InputError(f"{path}, line {number}: not a batch result (an object with custom_id "
                                     f"and response), got {line[:60]!r}") from None
                waiting = self._read("SELECT task, label, body FROM pending WHERE key = ?", [str(key)])
                if not waiting:
                    count["duplicate" if self.get(str(key)) else "unknown"] += 1
                    continue
                try:
                    if result.get("error") or response.get("status_code", 200) != 200:
                        raise ValueError("failed")
                    choice = read_choice(response["body"])
                except (ValueError, AttributeError, KeyError):
                    count["failed"] += 1
                    continue
                (task, label, body), = waiting
                asked = json.loads(body)
                created = response["body"].get("created")
                sent = {"format": asked.get("response_format", {}).get("type", "text"), "batch": True}
                if "logprobs" in asked:
                    sent["chances"] = read_chances(response["body"])
                self.put(Record(key=key, task=task, label=label, model=asked["model"], date=utc(created),
                                sent=sent, prompt=asked["messages"][-1]["content"], **choice))
                count["imported"] += 1
        return {**count, "pending": sum(self.pending().values())}

    # --- underneath ---

    def _open(self) -> sqlite3.Connection:
        """The database, made if there is none; read-only where the file is there and cannot be written."""
        try:
            if self.path is None or self.read_only:
                return _writable(":memory:")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                return _writable(self.path)
            except sqlite3.OperationalError as error:
                protected = error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))
                if not (protected and self.path.is_file()):
                    raise
            self.read_only = True
            return _read_only(self.path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{self.path}: cannot be opened as a reply store ({error}); name a writable "
                             ".sqlite file, or a .jsonl recording to replay") from None

    def _index(self, file: Path) -> None:
        """Keep a recording's lines by key, unparsed: 100,000 replies open in a fraction of a second."""
        for number, line in _lines(file):
            key = line[9:73].decode("ascii", "replace") if line.startswith(b'{"key": "') else ""
            if not (_KEY.fullmatch(key) and line.endswith(b"}")):
                key = _parse(line, file, number).key
            old = self._lines.setdefault(key, line)
            if old is not line and old != line and _parse(line, file, number).text != _from_line(old).text:
                raise InputError(f"{file}, line {number}: a second, different reply for {key[:12]}; keep one "
                                 "of them")

    def _from_row(self, row: tuple) -> Record:
        plain = dict(zip(COLUMNS, row, strict=True))
        try:
            return Record(**{**plain, "sent": {**json.loads(plain["sent"])}})
        except (ValueError, TypeError) as error:
            raise StoreError(f"{self.path}: the reply {plain['key']} is damaged (its column sent is not a "
                             f"JSON object: {error}); delete this row, and the next run asks for it again"
                             ) from None

    def _read(self, query: str, values: Sequence = ()) -> list[tuple]:
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: the reply store cannot be read ({error})") from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, all or nothing; inside another one, a part of it."""
        with self._lock:
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


def _row(record: Record) -> list[Any]:
    return [json.dumps(v) if isinstance(v, dict) else encodable(v) if isinstance(v, str) else v
            for v in (getattr(record, name) for name in COLUMNS)]


def _writable(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    # Refused at once, without SQLite's usual wait, while another process does the same.
    for attempt in range(200):
        try:
            db.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == 199:
                raise
            time.sleep(0.05)
    db.execute("PRAGMA synchronous=NORMAL")        # a killed process loses nothing; a power cut, seconds
    db.executescript(_SCHEMA)
    db.execute("DELETE FROM pending WHERE key = ''")    # changes nothing, raises for what is read-only
    return db


def _read_only(path: Path) -> sqlite3.Connection:
    """A database in a folder that cannot be written."""
    # "immutable" spares SQLite the files it would make beside it, but hides what a write-ahead log holds.
    log = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None,
                         check_same_thread=False)
    db.execute("SELECT count(*) FROM replies")     # raises for a file that is no store
    return db


def _from_line(line: bytes) -> Record:
    try:
        return Record(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise StoreError(f"a recorded reply is damaged ({error}): {line[:80]!r}") from None


def _parse(line: bytes, path: str | os.PathLike, number: int) -> Record:
    """One exported line as a Record; InputError naming the line and what is wrong with it."""
    try:
        plain = json.loads(line)
    except ValueError as error:
        raise InputError(f"{path}, line {number}: not JSON ({error}); export the replies again") from None
    if not isinstance(plain, dict) or not {"key", "task", "model", "text"} <= plain.keys() <= set(COLUMNS):
        wrong = f"it must be an object with key, task, model and text, and nothing but {', '.join(COLUMNS)}"
    elif bad := [name for name, value in plain.items() if not isinstance(value, _TYPES.get(name, (str,)))
                 or (name in _SUMS and not 0 <= plain[name] < 2**53)]:
        wrong = f"{bad[0]} cannot be {plain[bad[0]]!r:.60}"
    elif not _KEY.fullmatch(plain["key"]):
        wrong = f"key must be 64 hexadecimal digits, got {plain['key']!r:.80}"
    else:
        return Record(**plain)
    raise InputError(f"{path}, line {number}: not a saved reply: {wrong}")


def _lines(path: str | os.PathLike) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSON-lines file that are not blank, with their numbers from 1."""
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line := line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read as JSON lines ({why})") from None


def utc(seconds: Any = None) -> str:
    """Seconds or milliseconds since 1970 as an ISO 8601 date in UTC; the present when they are none."""
    when = seconds if type(seconds) in (int, float) and 0 <= seconds < 1e14 else time.time()
    return datetime.fromtimestamp(when / 1000 if when > 1e11 else when, UTC).isoformat(timespec="seconds")
