"""Stages and metrics of your own: functions or import paths, signed by their source.

An extractor is called with texts, a matcher with pairs of point lists, a scorer with pairs of points, a
metric with references and answers: many at once. It returns a list of points, a list of indices or a number
in [0, 1] for each; None means unscored.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from .types import InputError


def load(path: str) -> Any:
    """The object at an import path "module:name"; the working folder is searched first."""
    sys.path.insert(0, os.getcwd())
    try:
        return pkgutil.resolve_name(path)
    except (ValueError, ImportError, AttributeError) as error:
        raise InputError(f"{path!r} leads nowhere ({error}); an import path reads module:name") from error
    finally:
        sys.path.remove(os.getcwd())


def as_stage(given: Any, kind: str) -> Any:
    """An extractor, matcher, scorer or metric: what has a `signature` as it is, a function with one given."""
    stage = load(given) if isinstance(given, str) else given
    if hasattr(stage, "signature"):
        return stage
    if not callable(stage):
        raise InputError(f"a {kind} is a function or an import path to one, got {given!r:.60}")
    source = stage if hasattr(stage, "__qualname__") else type(stage)
    name = f"{source.__module__}.{source.__qualname__}"
    try:
        digest = hashlib.sha256(inspect.getsource(source).encode()).hexdigest()[:8]
    except (OSError, TypeError):                  # typed into a console, or not written in Python
        digest = "source unknown"
    signed: Any = partial(_entries, stage, kind, name)
    signed.signature = f"{name}:{digest}"
    return signed


def _entries(function: Any, kind: str, name: str, items: Sequence[Any], *answers: Any) -> list[Any]:
    """What a function returns, an entry for each input. InputError for another number of entries."""
    if kind == "scorer":
        values = iter(_entries(function, "metric", name, [pair for pairs in items for pair in pairs]))
        return [[next(values) for _ in pairs] for pairs in items]
    entries = list(function(items, *answers))
    if len(entries) != len(items):
        raise InputError(f"{name} must return an entry per input, {len(items)}, got {len(entries)}")
    for i, entry in enumerate(entries):
        if entry is None or entry != entry:                            # nan is not equal to itself
            entries[i] = None
        elif kind == "metric" and not 0 <= entry <= 1:
            raise InputError(f"{name} must return numbers in [0, 1], or None; got {entry!r:.60}")
        else:
            entries[i] = float(entry) if kind == "metric" else tuple(entry)
    return entries
