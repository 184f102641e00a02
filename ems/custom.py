"""Stages and metrics of your own: functions or import paths, signed by their source.

They are called with many inputs at once (`_CALLS`) and return an entry for each; None means
unscored.
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

# By kind: what a function is called with, and what it returns for each.
_CALLS = {
    "extractor": ("a list of texts", "a list of texts"),
    "matcher": ("a list of pairs of point lists", "an index or -1 for each reference point"),
    "scorer": ("a list of pairs of points", "a number in [0, 1]"),
    "metric": ("a list of references and one of answers", "a number in [0, 1]"),
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
    """An extractor, matcher, scorer or metric from a function or its import path.

    It is signed with the function's name and a hash of its source. An object that has a `signature`
    comes back as it is.
    """
    stage = load(given) if isinstance(given, str) else given
    if not callable(stage) or isinstance(stage, type):
        raise InputError(f"the {kind} is a function or an import path to one, got {given!r:.60}")
    if hasattr(stage, "signature"):
        return stage
    source = stage if hasattr(stage, "__qualname__") else type(stage)
    name = f"{source.__module__}.{source.__qualname__}"
    try:
        digest = hashlib.sha256(inspect.getsource(source).encode()).hexdigest()[:8]
    except (OSError, TypeError):  # typed into a console, or not written in Python
        digest = "source unknown"
    call: Any = partial(_checked_call, stage, kind, name)
    call.signature = f"{name}:{digest}"
    if kind == "scorer":
        return PairScorer(call.signature, lambda *sides: call(list(zip(*sides, strict=True))))
    return call


def _checked_call(function: Any, kind: str, name: str, *inputs: Sequence[Any]) -> list[Any]:
    """What a function returns, an entry for each input.

    InputError for anything else, and for a function that takes one input, not a list of them. The
    function's own errors pass through.
    """
    takes, gives = _CALLS[kind]
    n = len(inputs[0])
    contract = f"{name} takes {takes}, {n} here, and must return {gives}, or None, for each"
    try:
        returned = function(*inputs)
    except (AttributeError, TypeError) as error:
        if "'list'" not in str(error):
            raise
        raise InputError(f"{contract}; it does not take a list: {error}") from error
    try:
        entries = [_entry(kind, entry) for entry in returned]
    except (TypeError, ValueError):
        raise InputError(f"{contract}; got {returned!r:.80}") from None
    if len(entries) != n:
        raise InputError(f"{contract}; got {len(entries)}")
    return entries


def _entry(kind: str, entry: Any) -> Any:
    """An entry as the kit keeps it; TypeError or ValueError for one of another kind."""
    if entry is None or entry != entry:  # nan, which is not equal to itself, is unscored
        return None
    if kind == "matcher":
        return tuple(None if i is None else index(i) for i in entry)
    if kind == "extractor":
        if isinstance(entry, str) or not all(isinstance(text, str) for text in entry):
            raise TypeError
        return tuple(entry)
    number = float(entry)
    if not 0 <= number <= 1:
        raise ValueError
    return number
