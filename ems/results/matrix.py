"""Two columns of labels crossed: how often each pair of labels occurs, and how far two columns agree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..types import InputError


@dataclass(frozen=True)
class Matrix:
    """What `label_matrix` counted."""

    counts: pd.DataFrame      # a row a label of the first column, a column a label of the second
    left_out: int             # observations with an empty label in one column or both

    @property
    def n(self) -> int:
        """Observations with a label in both columns."""
        return int(self.counts.to_numpy().sum())

    @property
    def shares(self) -> pd.DataFrame:
        """The counts as shares of their row, in [0, 1]."""
        return self.counts.div(self.counts.sum(axis=1), axis=0)

    @property
    def agreement(self) -> float:
        """Share of observations in [0, 1] whose two labels are the same; nan for columns of other labels."""
        same = sum(int(self.counts.loc[label, label]) for label in self._common)
        return same / self.n if self._common else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa (1960) of the two columns as two raters: 1 full agreement, 0 that of chance.

        (agreement - chance) / (1 - chance), chance from the shares of each label in both columns. nan for
        columns that have no label in common, and where chance alone agrees always.
        """
        rows, columns = self.counts.sum(axis=1) / self.n, self.counts.sum(axis=0) / self.n
        chance = sum(rows[label] * columns[label] for label in self._common)
        return (self.agreement - chance) / (1 - chance) if chance < 1 else math.nan

    @property
    def _common(self) -> list[Any]:
        """The labels that both columns have."""
        return [label for label in self.counts.index if label in self.counts.columns]


def label_matrix(labels: pd.DataFrame, rows: str, columns: str) -> Matrix:
    """Count the pairs of labels of any two columns: question type by label, judge by judge.

    Rows and columns are in the order of their first occurrence. An observation with an empty label in either
    is left out, and counted. InputError for a column that the table does not have, or the same one twice.
    """
    if absent := [name for name in (rows, columns) if name not in labels]:
        raise InputError(f"no column {absent[0]!r} among the labels; there are {', '.join(map(str, labels))}")
    if rows == columns:
        raise InputError(f"two different columns are crossed, got {rows!r} twice")
    both = labels[[rows, columns]].dropna()
    counts = pd.crosstab(both[rows], both[columns])
    counts = counts.reindex(index=both[rows].unique(), columns=both[columns].unique())
    return Matrix(counts.rename_axis(index=rows, columns=columns), len(labels) - len(both))
