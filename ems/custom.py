"""Stages and metrics of your own: functions or import paths, signed by their source.

They are called with many inputs at once (`KINDS`) and return an entry for each; None means unscored.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import partial
from operator import index
from typing import Any

from .score import PairScorer
from .types import InputError

# By kind: what a function is called with, and what an entry is of what it returns.
KINDS = {
    "extractor": ("texts", "a list of texts"),
    "matcher": ("pairs of point lists", "an index or -1 for each reference point"),
    "scorer": ("pairs of points", "a number in [0, 1]"),
    "metric": ("references and answers", "a number in [0, 1]"),
}


def load(path: str) -> Any:
    """The object at an import path "module:name"; the working folder is searched first."""
    sys.path.insert(0, os.getcwd())
    try:
        return pkgutil.resolve_name(path)
    except (ValueError, ImportError, AttributeError) as error:
        raise InputError(
            f"{path!r} leads nowhere ({error}); an import path reads module:name, of a module "
            f"that is installed or lies in {os.getcwd()}"
        ) from error
    finally:
        sys.path.remove(os.getcwd())


def as_stage(given: Any, kind: str) -> Any:
    """An extractor, matcher, scorer or metric: what has a `signature` as it is, a function with one given."""
    stage = load(given) if isinstance(given, str) else given
    if hasattr(stage, "signature"):
        return stage
    if not callable(stage) or isinstance(stage, type):
        raise InputError(f"a {kind} is a function or an import path to one, got {given!r:.60}")
    source = stage if hasattr(stage, "__qualname__") else type(stage)
    name = f"{source.__module__}.{source.__qualname__}"
    try:
        digest = hashlib.sha256(inspect.getsource(source).encode()).hexdigest()[:8]
    except (OSError, TypeError):  # typed into a console, or not written in Python
        digest = "source unknown"
    call: Any = partial(_called, stage, kind, name)
    call.signature = f"{name}:{digest}"
    if kind == "scorer":
        return PairScorer(call.signature, lambda *sides: call(list(zip(*sides, strict=True))))
    return call


def _called(function: Any, kind: str, name: str, *items: Sequence[Any]) -> list[Any]:
    """What a function returns, an entry for each input. InputError for anything else; its own errors pass."""
    takes, gives = KINDS[kind]
    asked = (
        f"{name} takes {takes}, {len(items[0])} here, and must return {gives}, or None, for each"
    )
    given = function(*items)
    try:
        # nan, which is not equal to itself, is none
        entries = [
            None if entry is None or entry != entry else _read(kind, entry) for entry in given
        ]
    except (TypeError, ValueError):
        raise InputError(f"{asked}; got {given!r:.80}") from None
    if len(entries) != len(items[0]):
        raise InputError(f"{asked}; got {len(entries)}")
    return entries


def _read(kind: str, entry: Any) -> Any:
    """An entry as the kit keeps it; TypeError or ValueError for one of another kind."""
    if kind == "matcher":
        return tuple(None if i is None else index(i) for i in entry)
    if kind == "extractor":
        if isinstance(entry, str) or not all(isinstance(text, str) for text in entry):
            raise TypeError
        return tuple(entry)
    if not 0 <= (number := float(entry)) <= 1:
        raise ValueError
    return number
