"""`ems replies`: saved replies, and requests that wait for one."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from ..io import read_text
from ..judge.store import Replies
from ..judge.unread import unread_reason
from ..results.display import visible
from ..types import InputError
from .files import saved_replies
from .output import as_text


def replies(args: argparse.Namespace) -> int:
    """Export, import, count and show saved replies and the requests that wait for one."""
    store = Replies(args.store) if args.action == "import" else saved_replies(args.store)
    if args.action == "export" and Path(args.file).exists() and Path(args.file).samefile(args.store):
        raise InputError(f"{args.file} is the store itself and would be lost; give another file to write")
    if args.action == "export":
        if args.pending:
            print(f"{store.export_pending(args.file)} pending requests written to {args.file}")
        else:
            print(f"{store.export(args.file, prompts=args.prompts)} replies written to {args.file}")
    elif args.action == "import":
        print(", ".join(f"{n} {what}" for what, n in _imported(store, args.file).items()))
    elif args.action == "show":
        _show_replies(store, args)
    elif args.json:
        print(json.dumps({"replies": store.stats(), "pending": store.pending()}))
    else:
        rows = store.stats()
        print(as_text(rows) if rows else "no replies")
        print(f"pending: {store.pending() or 'none'}")
    return 0


def _show_replies(store: Replies, args: argparse.Namespace) -> None:
    """A line a reply: the beginnings of its key and its text, task, model, and what is wrong with it."""
    for record in store.records():
        reason = unread_reason(record)
        if (args.unread and not reason) or (args.task and record.task != args.task):
            continue
        if args.json:
            print(json.dumps({**asdict(record), "unread": reason}))
        else:
            print(f"{record.key[:12]}  {record.task:<8} {visible(record.model, 30)}  {reason or 'read'}: "
                  f"{visible(record.text, 80) or '(empty)'}")


def _imported(store: Replies, path: str) -> dict[str, int]:
    """Read a file of replies, or a batch endpoint's results: each says by its first line which it is."""
    # a batch endpoint's results are never compressed
    lines = [] if path.endswith(".gz") else read_text(path).splitlines()
    first = next((line for line in lines if line.strip()), "")
    return store.import_batch(path) if '"custom_id"' in first else {"imported": store.import_(path)}
