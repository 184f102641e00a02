"""Results beside labels: how well metrics agree with people."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..data import Rows, iter_results, records
from ..io import FilePath
from ..terminal import first_few
from ..types import WITHOUT_JUDGE, InputError
from .frames import TABLE1_PARTS, ValueRow, basis_of, in_order, of_rows, value_rows
from .stats import Estimate, auc, bootstrap, pearson, spearman
from .tables import table_text

_ANSWER = ["triplet_id", "model"]  # what a label and a value of the same answer have in common


@dataclass(frozen=True)
class Label:
    """What a person says of one answer."""

    triplet_id: str
    model: str
    label: float = math.nan  # 0 or 1, or a grade; nan = the person says nothing


def read_labels(source: Rows) -> pd.DataFrame:
    """Labels `{triplet_id, model, label}` from a file, dictionaries or a frame.

    They are read as `load_answers` reads answers. Rows with an empty label are left out. InputError
    for a label that is no number, for an answer that has two labels, and for labels that are all
    equal: nothing can agree with these.
    """
    table = pd.DataFrame(map(asdict, records(source, Label))).dropna(subset="label")
    if table["label"].nunique() < 2 or not np.isfinite(table["label"]).all():
        raise InputError(
            "'label' must hold two or more different numbers, got "
            f"{first_few(table['label'].unique().tolist()) or 'none'}; correct them or label more"
        )
    return table


def agreement(values: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
    """How well each metric and part agrees with the labels of the same answers.

    Values and labels are joined by triplet and model. The measures are Spearman's and Pearson's
    correlation, and the area under the ROC curve where all labels are 0 or 1. Columns metric, part,
    measure, value, ci_low, ci_high (over groups), n, clusters, left_out (without a value).
    InputError for a label of an answer without values.
    """
    answers = set(values[_ANSWER].itertuples(index=False, name=None))
    labelled = set(labels[_ANSWER].itertuples(index=False, name=None))
    unknown = sorted(labelled - answers)
    if unknown:
        raise InputError(
            f"{len(unknown)} labelled answers are not among the results: {first_few(unknown)}"
        )
    measures: list[Callable[..., float]] = [spearman, pearson]
    if set(labels["label"]) <= {0.0, 1.0}:
        measures.append(auc)
    rows = []
    for (metric, part), cell in values.merge(labels, on=_ANSWER).groupby(["metric", "part"]):
        for measure in measures:
            columns = cell["value"], cell["label"]
            estimate = bootstrap(measure, columns, cell["group"])
            rows.append((metric, part, measure.__name__, *estimate))
    return in_order(pd.DataFrame(rows, columns=["metric", "part", "measure", *Estimate._fields]))


def agreement_text(results: Sequence[FilePath], labels: FilePath) -> str:
    """What `ems agree` prints of Table 1's parts; of several files metrics have the file's name."""
    rows: list[ValueRow] = []
    for path in results:
        for metric, result in iter_results(path):
            for row in value_rows(result, metric):
                if len(results) > 1:
                    row = row._replace(metric=f"{Path(path).stem}: {row.metric}")
                if row.part in TABLE1_PARTS:
                    rows.append(row)
    values = of_rows(rows)
    lines = ["Agreement of values and labels:"]
    lines.append(table_text(agreement(values, read_labels(labels))))
    signatures = values.groupby("metric")["signature"]
    if "meaning" not in [basis_of(metric, cell) for metric, cell in signatures]:
        lines.append(WITHOUT_JUDGE)
    return "\n".join(lines)
