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
Metric = Callable[[Sequence[str], Sequence[str]], Sequence[Any]]


class Stage:
    """A function as a stage of the pipeline: with a name and a signature, its output checked."""

    def __init__(self, path: str, function: Callable[[Sequence[Any]], Sequence[Any]],
                 check: Callable[..., Any]):
        self.name, self.function, self._check = path, function, check
        self.signature = signature_of(path)

    def __call__(self, items: Sequence[Any]) -> list[Any]:
        found = list(self.function(items))
        if len(found) != len(items):
            raise InputError(f"{self.name} must return an entry for each of {len(items)} inputs, got "
                             f"{len(found)}")
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

def metric_values(metrics: Mapping[str, str], triplets: Sequence[Triplet],
                  answers: Sequence[Answer]) -> dict[str, tuple[str, dict[str, list[float]]]]:
    """Signature and values of every metric: by part, "Score" for one value an answer. nan where unscored.

    InputError for a metric that returns no entry an answer, or what is no number in [0, 1].
    """
    reference = {t.id: t.reference for t in triplets}
    references, texts = [reference[a.triplet_id] for a in answers], [a.answer for a in answers]
    found = {}
    for name, path in metrics.items():
        function: Metric = load(path)
        entries = list(function(references, texts))
        if len(entries) != len(answers):
            raise InputError(f"{path} must return an entry for each of {len(answers)} answers, got "
                             f"{len(entries)}")
        known = next((entry for entry in entries if entry is not None), None)
        parts = PARTS if isinstance(known, (tuple, list)) else ("Score",)
        rows = [_numbers(path, entry, len(parts)) for entry in entries]
        found[name] = signature_of(path), {part: [row[i] for row in rows] for i, part in enumerate(parts)}
    return found


def metric_frames(metrics: Mapping[str, str], triplets: Sequence[Triplet],
                  answers: Sequence[Answer]) -> list[pd.DataFrame]:
    """The values of every metric as frames of values (`data.values_frame`), for Table 1 and the figures."""
    return [values_frame(answers, column, name, part, signature, triplets)
            for name, (signature, parts) in metric_values(metrics, triplets, answers).items()
            for part, column in parts.items()]


def score_columns(metrics: Mapping[str, str], scorers: Mapping[str, str], triplets: Sequence[Triplet],
                  answers: Sequence[Answer]) -> dict[str, list[float]]:
    """Columns of a score table ("Jaccard F1"): own metrics, and own scorers on local points and matches."""
    from ..presets import build

    values = metric_values(metrics, triplets, answers)
    columns = {f"{name} {part}": column for name, (_, parts) in values.items()
               for part, column in parts.items()}
    if scorers:
        pair = build(None, "local-pair")
        aligned = pair.evaluate(triplets, answers)
        for name, results in rescored_by(scorers, aligned, pair).items():
            columns |= {f"{name} {part}": [getattr(r, part.lower()) for r in results] for part in PARTS}
    return columns


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

def _numbers(path: str, entry: Any, parts: int) -> list[float]:
    several = parts > 1 and isinstance(entry, (tuple, list))
    values = list(entry) if several else [None] * parts if entry is None else [entry]
    if len(values) != parts:
        raise InputError(f"{path} must return {parts} values for every answer as for the first, got "
                         f"{entry!r:.60}")
    return [math.nan if value is None else _share(path, value) for value in values]


def _share(path: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
        valid = not isinstance(value, (str, bytes)) and (math.isnan(number) or 0 <= number <= 1)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise InputError(f"{path} must return numbers in [0, 1], or None for what cannot be scored; got "
                         f"{value!r:.60}")
    return number


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
