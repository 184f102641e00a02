"""What one change does to the means of the systems: a table, and sentences about several tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ems.analysis.compare import sides_compared
from ems.analysis.findings import series
from ems.analysis.frames import FIGURES_METRIC
from ems.analysis.stats import with_verdicts
from ems.terminal import first_few
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
        of_before, of_after = list(before["model"].unique()), list(after["model"].unique())
        raise InputError(
            f"no model is in both: {first_few(of_before)} before, {first_few(of_after)} after; "
            "notebook 12 evaluates models without a before"
        )
    table = with_verdicts(sides_compared(after, before, cluster)).set_index("model")
    table["before"] = before.groupby("model")["value"].mean()
    table["after"] = after.groupby("model")["value"].mean()
    same = (table["only_a"] == 0) & (table["only_b"] == 0)
    table["difference"] = table["difference"].where(same, table["after"] - table["before"])
    table[["ci_low", "ci_high"]] = table[["ci_low", "ci_high"]].where(same)
    table["clear"] &= same
    table = table.reindex([model for model in names if model in models]).rename(index=names)
    return table[["before", "after", "difference", "ci_low", "ci_high", "clear"]]


def _of_one_part(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are compared, with the same names on both sides."""
    frame = frame[frame["metric"] != FIGURES_METRIC]
    rows = frame if frame["part"].nunique() == 1 else main_rows(frame)
    return rows.assign(metric="", part="")


def change_findings(tables: Mapping[str, pd.DataFrame]) -> list[str]:
    """Sentences about tables of `change_table`, by the name of the change.

    For each change they say which means rise or fall clearly, and how far. The last sentence is
    about the order of the means.
    """
    sentences = []
    reordered = []
    for change, table in tables.items():
        for verb, sign in (("falls", -1), ("rises", 1)):
            moved = table[table["clear"] & (table["difference"] * sign > 0)]
            if len(moved):
                sizes = moved["difference"].abs()
                steps = dict.fromkeys([f"{sizes.min():.3f}", f"{sizes.max():.3f}"])
                systems = series(list(moved.index))
                sentences.append(
                    f"{change}: the mean {verb} clearly for {systems}, by {' to '.join(steps)}."
                )
        if _order(table["before"]) != _order(table["after"]):
            reordered.append(change)
    if reordered:
        sentences.append(f"The order of the systems' means changes with: {'; '.join(reordered)}.")
    elif tables:
        sentences.append(f"The means keep their order in all {len(tables)} changes.")
    return sentences


def _order(means: pd.Series) -> list[str]:
    return list(means.sort_values(kind="stable").index)
