"""Files that commands read and write: which may not be overwritten, and what stands for the kit's own set."""

from __future__ import annotations

import os
from pathlib import Path

from ..data import load_triplets
from ..judge.store import Replies
from ..study.dataset.calls import OWN, own_triplets
from ..types import InputError, Triplet


def keep(out: Path, *read: str | None) -> None:
    """InputError when what a command would write is a folder, or one of the files that it reads."""
    if out.is_dir():
        raise InputError(f"{out} is a directory; name a file in it to write")
    if any(os.path.realpath(path) == os.path.realpath(out)
           or (out.exists() and Path(path).exists() and out.samefile(path)) for path in read if path):
        raise InputError(f"-o {out} is also read by this command and would be lost; give another file to "
                         "write")


def named_triplets(source: str) -> list[Triplet]:
    """Those of a file, or by its name the kit's own set."""
    return own_triplets() if source == OWN and not Path(source).exists() else load_triplets(source)


def saved_replies(path: str) -> Replies:
    """A store of replies that is there; InputError without one."""
    if not Path(path).exists():
        raise InputError(f"{path}: no such store of replies; --store names one, as made by a run with a "
                         "judge")
    return Replies(path)
