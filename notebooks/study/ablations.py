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

CHANGE_COLUMNS = ["before", "after", "difference", "ci_low", "ci_high", "clear", "n", "of"]


def change_table(
    before: pd.DataFrame, after: pd.DataFrame, names: Mapping[str, str], cluster: str = "group"
) -> pd.DataFrame:
    """Means before and after a change, and their difference with its interval, by model.

    The two are frames of values of one metric. F1 or Score counts, or the only part that a frame
    has. `names` has the models, with short names. All numbers are over the `n` answers that have a
    value in both frames; `of` counts the answers of `before`. `difference` is after minus before;
    `clear` is as in `ems.paired_table`, with Holm's correction over the models. A model without a
    common answer has nan. InputError where no model is in both.
    """
    before, after, models = _common(before, after, names)
    table = with_verdicts(sides_compared(after, before, cluster)).set_index("model")
    answer = ["model", "triplet_id"]
    both = before[[*answer, "value"]].merge(after[[*answer, "value"]], on=answer)
    by_model = both.dropna().groupby("model")
    table["before"] = by_model["value_x"].mean()
    table["after"] = by_model["value_y"].mean()
    table["of"] = before.groupby("model").size()
    return table.reindex(models).rename(index=names)[CHANGE_COLUMNS]


def subset_table(
    before: pd.DataFrame, after: pd.DataFrame, names: Mapping[str, str]
) -> pd.DataFrame:
    """The table of `change_table` where the change leaves answers out, and nothing else.

    What the others score stays the same, so that nothing can be paired: `before` and `after` are
    the means of either frame, over `of` and `n` answers. `difference` is that of these means,
    without an interval, and never clear. InputError where no model is in both.
    """
    before, after, models = _common(before, after, names)
    of_before, of_after = before.groupby("model")["value"], after.groupby("model")["value"]
    table = pd.DataFrame({"before": of_before.mean(), "after": of_after.mean()})
    table["difference"] = table["after"] - table["before"]
    table["n"], table["of"] = of_after.count(), of_before.size()
    table = table.assign(ci_low=nan, ci_high=nan, clear=False)
    return table.reindex(models).rename(index=names)[CHANGE_COLUMNS]


def _common(
    before: pd.DataFrame, after: pd.DataFrame, names: Mapping[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """The rows of both sides that are compared, and the models that both have, as in `names`."""
    before, after = _of_one_part(before), _of_one_part(after)
    both = {*before["model"]}.intersection(after["model"])
    models = [model for model in names if model in both]
    if not models:
        raise InputError(
            "no model has values before and after the change; notebook 12 evaluates other models"
        )
    return before, after, models


def _of_one_part(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are compared, with the same names on both sides."""
    frame = frame[frame["metric"] != FIGURES_METRIC]
    rows = frame if frame["part"].nunique() == 1 else main_rows(frame)
    return rows.assign(metric="", part="")


def change_findings(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Sentences about tables of `change_table` and `subset_table`, by the name of the change.

    They say for each change which means move clearly, and how far, and for which systems
    not all questions count. The last one says in how many changes the order of the means stays
    the same; a table of one system has no order and is not counted.
    """
    sentences = []
    for change, table in tables.items():
        clear = table["difference"][table["clear"]]
        moved = [f"{name} ({difference:+.3f})" for name, difference in clear.items()]
        if moved:
            sentences.append(f"{change}: the mean changes clearly for {series(moved)}.")
        partial = table[table["n"] < table["of"]]
        told = [f"{name} ({row.n} of {row.of} questions)" for name, row in partial.iterrows()]
        if told:
            sentences.append(f"{change}: not all questions count for {series(told)}.")
    orders = [table for table in tables.values() if len(table) > 1]
    kept = [table["before"].rank().equals(table["after"].rank()) for table in orders]
    if kept:
        sentences.append(
            f"The order of the systems' means stays the same in {sum(kept)} of {len(kept)} changes."
        )
    return sentences
