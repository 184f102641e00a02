"""What one change does to the means of the systems: a table, and sentences about several tables."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import pandas as pd

from ems.analysis.compare import sides_compared
from ems.analysis.findings import series
from ems.analysis.frames import FIGURES_METRIC
from ems.analysis.stats import with_verdicts
from ems.terminal import notify
from ems.types import InputError

from .means import main_rows

CHANGE_COLUMNS = ["before", "after", "difference", "ci_low", "ci_high", "clear", "n", "of"]


def change_table(
    before: pd.DataFrame,
    after: pd.DataFrame,
    names: Mapping[str, str],
    cluster: str = "group",
    *,
    paired: bool = True,
) -> pd.DataFrame:
    """Means before and after a change, and their difference with its interval, by model.

    The two are frames of values of one metric. F1 or Score counts, or the only part that a frame
    has. `names` has the models, with short names. All numbers are over the `n` answers that have a
    value in both frames; `of` counts the answers of `before`. `difference` is after minus before;
    `clear` is as in `ems.paired_table`, with Holm's correction over the models. A model of one
    frame only is left out, and one without a common answer has nan. InputError where no model is in
    both.

    `paired=False` is for a change that leaves answers out, and keeps the values of all others:
    `before` is then over all `of` answers, and `difference` is that of the two means, without an
    interval, and never clear.
    """
    before, after = _of_one_part(before), _of_one_part(after)
    models = set(names).intersection(before["model"], after["model"])
    if not models:
        raise InputError(
            "no model has values before and after the change; notebook 12 evaluates other models"
        )
    left_out = [name for model, name in names.items() if model not in models]
    if left_out:
        notify(f"left out, without values before or after the change: {series(left_out)}")
    before = before[before["model"].isin(models)]
    after = after[after["model"].isin(models)]
    table = with_verdicts(sides_compared(after, before, cluster)).set_index("model")
    both = before.merge(after, on=["model", "triplet_id"]).dropna(subset=["value_x", "value_y"])
    table[["before", "after"]] = both.groupby("model")[["value_x", "value_y"]].mean()
    of_before = before.groupby("model")["value"]
    table["of"] = of_before.size()
    if not paired:
        table["before"] = of_before.mean()
        table["difference"] = table["after"] - table["before"]
        table[["ci_low", "ci_high", "clear"]] = nan, nan, False
    return table.reindex([m for m in names if m in models]).rename(index=names)[CHANGE_COLUMNS]


def _of_one_part(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are compared, with the same names on both sides."""
    frame = frame[frame["metric"] != FIGURES_METRIC]
    rows = frame if frame["part"].nunique() == 1 else main_rows(frame)
    return rows.assign(metric="", part="")


def change_findings(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Sentences about tables of `change_table`, by the name of the change.

    They say for each change which means move clearly, and how far, or that none does and how far
    one moves at most; without an interval, which mean moves most. They say for which systems not
    all questions count. The last one says in how many changes the order of the means stays the
    same; a table of one system has no order and is not counted.
    """
    sentences = []
    for change, table in tables.items():
        changed = table["difference"]
        moved = [f"{name} ({by:+.3f})" for name, by in changed[table["clear"]].items()]
        if moved:
            sentences.append(f"{change}: the mean changes clearly for {series(moved)}.")
        elif table["ci_low"].notna().any():
            sentences.append(
                f"{change}: no mean changes clearly, and none by more than "
                f"{changed.abs().max():.3f}."
            )
        elif changed.notna().any():
            name = changed.abs().idxmax()
            sentences.append(
                f"{change}: the mean of {name} changes most ({changed[name]:+.3f}), without an "
                "interval."
            )
        for (n, of), rows in table[table["n"] < table["of"]].groupby(["n", "of"], sort=False):
            sentences.append(f"{change}: {n} of {of} questions count for {series(rows.index)}.")
    kept = [
        table["before"].rank().equals(table["after"].rank())
        for table in tables.values()
        if len(table) > 1
    ]
    if kept:
        sentences.append(
            f"The order of the systems' means stays the same in {sum(kept)} of the {len(kept)} "
            "changes with more than one system."
        )
    return sentences
