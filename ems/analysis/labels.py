"""Results beside labels: how well metrics agree with people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data import Rows, iter_results, records
from ..terminal import first_few
from ..types import InputError
from .frames import in_order, of_rows, values_of
from .stats import Estimate, auc, bootstrap, pearson, spearman
from .tables import as_text

KEY = ["triplet_id", "model"]
# What a person said of one answer: 0 or 1, or a grade; nan = nothing.
Label: Any = make_dataclass(
    "Label", [("triplet_id", str), ("model", str), ("label", float, math.nan)]
)


def read_labels(source: Rows) -> pd.DataFrame:
    """Labels `{triplet_id, model, label}` from a file, dictionaries or a frame, as `load_answers` reads them.

    Rows with an empty label are left out. InputError for a label that is no number, for an answer that is
    there twice, and for labels that are all the same: nothing can agree with these.
    """
    table = pd.DataFrame(map(asdict, records(source, Label))).dropna(subset="label")
    if table["label"].nunique() < 2 or not np.isfinite(table["label"]).all():
        raise InputError(
            "'label' must hold two or more different numbers, got "
            f"{first_few(table['label'].unique().tolist()) or 'none'}; correct them or label more"
        )
    return table


def agreement(values: pd.DataFrame, labels: pd.DataFrame, **settings: int) -> pd.DataFrame:
    """How well each metric and part agrees with the labels of the same answers, joined by triplet and model.

    Measures: spearman and pearson; auc where all labels are 0 or 1. Columns metric, part, measure, value,
    ci_low, ci_high (over groups), n, clusters, left_out (without a value). `settings` are those of
    `stats.bootstrap`. InputError for a label of an answer without values.
    """
    known, labelled = (
        set(table[KEY].itertuples(index=False, name=None)) for table in (values, labels)
    )
    if unknown := sorted(labelled - known):
        raise InputError(
            f"{len(unknown)} labelled answers are not among the results: {first_few(unknown)}"
        )
    measures = [spearman, pearson, *[auc] * (set(labels["label"]) <= {0.0, 1.0})]
    cells = values.merge(labels, on=KEY).groupby(["metric", "part"])
    rows = [
        (
            metric,
            part,
            measure.__name__,
            *bootstrap(measure, (cell["value"], cell["label"]), cell["group"], **settings),
        )
        for (metric, part), cell in cells
        for measure in measures
    ]
    return in_order(pd.DataFrame(rows, columns=["metric", "part", "measure", *Estimate._fields]))


def agreement_text(results: Sequence[str | Path], labels: str | Path) -> str:
    """What `ems agree` prints; of several files a metric has its file's name in front."""
    values = of_rows(
        [
            row
            for path in results
            for metric, result in iter_results(path)
            for row in values_of(
                result, f"{Path(path).stem}: {metric}" if len(results) > 1 else metric
            )
        ]
    )
    return f"Agreement of values and labels:\n{as_text(agreement(values, read_labels(labels)))}"
