"""From results to the values frame: one tidy row per metric, part, model and triplet, which all statistics read.

Columns: metric, part, model, triplet_id, group, value (nan = unscored), num and den (what a pooled value is the ratio
of; nan for an F1, which is pooled from its parts), units (points, claims or answers that should have a score),
unscored (how many have none), signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .baselines import Claims, entailed, ragchecker_scores
from .cost import merged
from .types import Answer, EMSResult, Triplet

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("metric", "part", "model", "triplet_id", "instance_id", "group", "signature")       # text, in values and labels
COLUMNS = ["metric", "part", "model", "triplet_id", "group", "value", "num", "den", "units", "unscored", "signature"]


def of_results(results: Sequence[EMSResult], metric: str, triplets: Sequence[Triplet]) -> pd.DataFrame:
    """Precision, Recall and F1 of EMS results."""
    rows = []
    for r in results:
        t, units = r.tally, max(len(r.match), r.unscored)
        known = not isnan(r.recall)
        for part, value, num, den in (("Precision", r.precision, t.ans_sum, t.ans_n),
                                      ("Recall", r.recall, t.ref_sum, t.ref_n), ("F1", r.f1, nan, nan)):
            rows.append((metric, part, r.model, r.triplet_id, value, num if known else nan, den if known else nan,
                         units, r.unscored, r.signature))
    return _frame(rows, triplets)


def of_values(metric: str, part: str, answers: Sequence[Answer], values: Sequence[float], triplets: Sequence[Triplet],
              signature: str) -> pd.DataFrame:
    """One value per answer, from a metric that looks at whole answers."""
    rows = [(metric, part, a.model, a.triplet_id, v, v, 1.0, 1, int(isnan(v)), signature)
            for a, v in zip(answers, values, strict=True)]
    return _frame(rows, triplets)


def of_claims(claims: Sequence[Claims], triplets: Sequence[Triplet], signature: str) -> pd.DataFrame:
    """RAGChecker's Precision, Recall and F1."""
    rows = []
    for c in claims:
        precision, recall, harmonic = ragchecker_scores(c)
        sides = {"Precision": (precision, *entailed(c.answer2response)), "Recall": (recall, *entailed(c.response2answer)),
                 "F1": (harmonic, nan, nan)}
        for part, (value, num, den) in sides.items():
            if isnan(value):                   # an unscored answer has no share of a pooled value either
                num = den = nan
            rows.append(("RAGChecker", part, c.model, c.triplet_id, value, num, den, c.units, c.unscored, signature))
    return _frame(rows, triplets)


def read(*paths: str | Path) -> pd.DataFrame:
    """Values frames, or a data set's labels, from csv files, one below the other.

    Names are text as they stand there, whatever they look like: "1.10", "7", "N/A" and "None" are names. An empty cell of
    any other column is nan.
    """
    import pandas as pd

    tables = []
    for path in paths:
        numbers = [column for column in pd.read_csv(path, nrows=0) if column not in NAMES]
        tables.append(pd.read_csv(path, dtype=dict.fromkeys(NAMES, str), keep_default_na=False,
                                  na_values=dict.fromkeys(numbers, "")))
    return pd.concat(tables, ignore_index=True)


def usage(*judges: Any) -> dict[str, dict[str, Any]]:
    """What judges were asked and cost, by model and task, JSON-ready; for the manifest. Judges of one name are summed."""
    from dataclasses import asdict

    return merged({j.name: {task: {**asdict(u), "failures": dict(u.failures)} for task, u in j.usage().items()}}
                  for j in judges)


def _frame(rows: Sequence[tuple], triplets: Sequence[Triplet]) -> pd.DataFrame:
    import pandas as pd

    groups: Mapping[str, str] = {t.id: t.group for t in triplets}
    return pd.DataFrame([(*row[:4], groups[row[3]], *row[4:]) for row in rows], columns=COLUMNS)
