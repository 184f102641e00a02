"""A user's own metrics, scorers, extractor and matcher, which parameters name by import path.

    METRICS = {"Jaccard": "mymodule:jaccard"}     # metric(references, answers): a value an answer, or
                                                  # (precision, recall, f1)
    SCORERS = {"EMS(words)": "mymodule:words"}    # scorer(pairs of points): a score a pair
    EXTRACTOR = "mymodule:lines"                  # extractor(texts): a tuple of points a text
    MATCHER = "mymodule:first"                    # matcher(pairs of point lists): indices, a tuple a pair

Each is called with everything at once, and says None (or nan, for a metric) for what it cannot score. A
module lies in the project's folder, or is installed. Signatures hold a hash of its source, and a notebook
runs again when that changes. Objects with a `signature` of their own (`score.Scorer` and the like) keep it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data import values_frame
from ..io import meant, some
from ..pipeline import EMS, rescored
from ..types import Answer, EMSResult, InputError, Triplet
from .run.project import project_root

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("Precision", "Recall", "F1")


class Stage:
    """A function as a stage of the pipeline: with a name and a signature, its output checked."""

    def __init__(self, path: str, function: Callable[[Sequence[Any]], Sequence[Any]],
                 check: Callable[..., Any]):
        self.name, self.function, self._check = path, function, check
        self.signature = signature_of(path)

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        found = _entries(self.name, self.function(items), len(items), "inputs")
        return [self._check(self.name, item, entry) for item, entry in zip(items, found, strict=True)]


def load(path: str) -> Any:
    """What an import path "module:name" names. InputError says which part is wrong, and what there is."""
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise InputError(f"an import path must read module:name, such as mymodule:jaccard, got {path!r}")
    with _project_first():
        importlib.invalidate_caches()
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name.split(".")[0] and error.name != module_name:
                raise InputError(f"{path}: {module_name} needs a module {error.name!r}, which is not "
                                 "installed") from None
            raise InputError(f"{path}: no module {module_name!r}; put {module_name}.py into "
                             f"{project_root()}, or install it") from None
    if not hasattr(module, name):
        public = [one for one in vars(module) if not one.startswith("_")]
        raise InputError(f"{path}: {module_name} has no {name!r}{meant(name, public)}; it has "
                         f"{some(public, 8)}")
    return getattr(module, name)


def source_of(path: str) -> Path | None:
    """The file that an import path's module is read from; None for a text that names no module."""
    module_name, colon, name = path.partition(":")
    if not (colon and name.isidentifier() and module_name.replace(".", "").isidentifier()):
        return None
    with _project_first():
        try:
            found = importlib.util.find_spec(module_name)
        except (ImportError, ValueError):
            return None
    return Path(found.origin) if found and found.origin and Path(found.origin).is_file() else None


def signature_of(path: str) -> str:
    """The import path and the beginning of a hash of its module's source."""
    file = source_of(path)
    return f"own:{path}#{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}" if file else f"own:{path}"


# --- metrics on whole answers ---

def texts_of(triplets: Sequence[Triplet], answers: Sequence[Answer]) -> tuple[list[str], list[str]]:
    """The reference and the text of every answer."""
    reference = {t.id: t.reference for t in triplets}
    return [reference[a.triplet_id] for a in answers], [a.answer for a in answers]


def metric_values(metrics: Mapping[str, str], triplets: Sequence[Triplet],
                  answers: Sequence[Answer]) -> dict[str, list[tuple[float, ...]]]:
    """What every metric says of each answer: (score,) or (precision, recall, f1); nan where unscored.

    InputError for a metric that returns no entry an answer, or what is no number in [0, 1].
    """
    texts, found = texts_of(triplets, answers), {}
    for name, path in metrics.items():
        entries = _entries(path, load(path)(*texts), len(answers), "answers")
        known = next((entry for entry in entries if entry is not None), None)
        parts = len(PARTS) if isinstance(known, (tuple, list)) else 1
        found[name] = [_numbers(path, entry, parts) for entry in entries]
    return found


def by_part(scores: Sequence[Any]) -> dict[str, list[float]]:
    """A metric's values by part: "Score" of numbers, `PARTS` of (precision, recall, f1) or of results."""
    rows = [score if isinstance(score, tuple)
            else (score.precision, score.recall, score.f1) if hasattr(score, "f1") else (score,)
            for score in scores]
    parts = PARTS if rows and len(rows[0]) > 1 else ("Score",)
    return {part: [row[i] for row in rows] for i, part in enumerate(parts)}


def metric_frames(metrics: Mapping[str, str], triplets: Sequence[Triplet],
                  answers: Sequence[Answer]) -> list[pd.DataFrame]:
    """The values of every metric as frames of values (`data.values_frame`), for Table 1 and the figures."""
    return [values_frame(answers, column, name, part, signature_of(metrics[name]), triplets)
            for name, scores in metric_values(metrics, triplets, answers).items()
            for part, column in by_part(scores).items()]


def values(triplets: Sequence[Triplet], answers: Sequence[Answer], metrics: Mapping[str, str],
           scorers: Mapping[str, str]) -> dict[str, Sequence[Any]]:
    """What own metrics say of every answer, and the results of own scorers on local points and matches."""
    from ..presets import build

    pair = build(None, "local-pair")
    aligned = pair.evaluate(triplets, answers) if scorers else []
    return {**metric_values(metrics, triplets, answers), **rescored_by(scorers, aligned, pair)}


# --- stages ---

def pipeline_with(pipeline: EMS, extractor: str = "", matcher: str = "") -> EMS:
    """The pipeline with an own extractor and an own matcher in place of its own; "" keeps the one it has."""
    return EMS(stage(extractor, "extractor") if extractor else pipeline.extractor,
               stage(matcher, "matcher") if matcher else pipeline.matcher, pipeline.scorer)


def rescored_by(scorers: Mapping[str, str], results: Sequence[EMSResult],
                pipeline: EMS) -> dict[str, list[EMSResult]]:
    """The same points and matches under every own scorer, by metric."""
    return {name: rescored(results, stage(path, "scorer"), pipeline) for name, path in scorers.items()}


def stage(path: str, kind: str) -> Any:
    """The extractor, matcher or scorer at an import path: an object with a signature as it is, a class made
    without arguments, or a function wrapped.
    """
    found = load(path)
    if inspect.isclass(found):
        found = found()
    if hasattr(found, "signature"):
        return found
    if not callable(found):
        raise InputError(f"{path} must be a {kind}: a function, or an object with a signature; got "
                         f"{type(found).__name__}")
    return Stage(path, found, {"extractor": _points, "matcher": _indices, "scorer": _score}[kind])


# --- what they return, checked ---

def _entries(path: str, found: Sequence[Any], wanted: int, of: str) -> list[Any]:
    entries = list(found)
    if len(entries) != wanted:
        raise InputError(f"{path} must return an entry for each of {wanted} {of}, got {len(entries)}")
    return entries


def _numbers(path: str, entry: Any, parts: int) -> tuple[float, ...]:
    several = parts > 1 and isinstance(entry, (tuple, list))
    values = entry if several else [None] * parts if entry is None else [entry]
    if len(values) != parts:
        raise InputError(f"{path} must return {parts} values for every answer as for the first, got "
                         f"{entry!r:.60}")
    return tuple(math.nan if value is None else _share(path, value) for value in values)


def _share(path: str, value: Any) -> float:
    try:
        valid = math.isnan(value) or 0 <= value <= 1          # isnan refuses a text
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InputError(f"{path} must return numbers in [0, 1], or None for what cannot be scored; got "
                         f"{value!r:.60}")
    return float(value)


def _score(path: str, _: Any, entry: Any) -> float | None:
    number = math.nan if entry is None else _share(path, entry)
    return None if math.isnan(number) else number


def _points(path: str, _: Any, entry: Any) -> tuple[str, ...] | None:
    if entry is None:
        return None
    if isinstance(entry, str) or not all(isinstance(point, str) for point in entry):
        raise InputError(f"{path} must return a list of texts for each text, or None; got {entry!r:.60}")
    return tuple(entry)


def _indices(path: str, sides: tuple[Sequence[str], Sequence[str]], entry: Any) -> tuple[int | None, ...]:
    reference, answer = sides
    indices = tuple(entry)
    if len(indices) != len(reference) or not all(i is None or (isinstance(i, int) and -1 <= i < len(answer))
                                                 for i in indices):
        raise InputError(f"{path} must return an index from -1 to {len(answer) - 1}, or None, for each of "
                         f"{len(reference)} reference points; got {entry!r:.60}")
    return indices


@contextmanager
def _project_first() -> Iterator[None]:
    """The project's folder before other places that modules come from, within a block."""
    folder = str(project_root())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
