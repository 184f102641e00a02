"""What one change does to the means of the systems: a table, and sentences about several tables."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import pandas as pd

from ems.analysis.compare import sides_compared
from ems.analysis.findings import series
from ems.analysis.frames import FIGURES_METRIC
from ems.analysis.stats import with_verdicts
from ems.types import InputError

from .means import main_rows


def change_table(
    before: pd.DataFrame, after: pd.DataFrame, names: Mapping[str, str], cluster: str = "group"
) -> pd.DataFrame:
    """Means before and after a change, and their difference with its interval, by model.

    The two are frames of values of one metric. F1 or Score counts, or the only part that a frame
    has. `names` has the models, with short names. `difference` is after minus before, the mean over
    the same answers; `clear` is as in `ems.paired_table`, with Holm's correction over the models.
    Where the two frames have different answers, the difference is that of the means, without an
    interval, and never clear. InputError where no model is in both.
    """
    before, after = _of_one_part(before), _of_one_part(after)
    models = set(names).intersection(before["model"], after["model"])
    if not models:
        raise InputError(
            "no model has values before and after the change; notebook 12 evaluates other models"
        )
    table = with_verdicts(sides_compared(after, before, cluster)).set_index("model")
    table["before"] = before.groupby("model")["value"].mean()
    table["after"] = after.groupby("model")["value"].mean()
    others = table["only_a"] + table["only_b"] > 0
    table.loc[others, "difference"] = table["after"] - table["before"]
    table.loc[others, ["ci_low", "ci_high", "clear"]] = nan, nan, False
    table = table.reindex([model for model in names if model in models]).rename(index=names)
    return table[["before", "after", "difference", "ci_low", "ci_high", "clear"]]


def _of_one_part(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are compared, with the same names on both sides."""
    frame = frame[frame["metric"] != FIGURES_METRIC]
    rows = frame if frame["part"].nunique() == 1 else main_rows(frame)
    return rows.assign(metric="", part="")


def change_findings(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Sentences about tables of `change_table`, by the name of the change.

    They say for each change which means move clearly, and how far, and at last in how many changes
    the order of the means stays the same.
    """
    sentences = []
    kept = 0
    for change, table in tables.items():
        clear = table["difference"][table["clear"]]
        moved = [f"{name} ({difference:+.3f})" for name, difference in clear.items()]
        if moved:
            sentences.append(f"{change}: the mean changes clearly for {series(moved)}.")
        kept += table["before"].rank().equals(table["after"].rank())
    order = f"The order of the systems' means stays the same in {kept} of {len(tables)} changes."
    return [*sentences, order]
