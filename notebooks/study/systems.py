"""Means by system: the models of a run, and families of released systems from small to large.

Scores are wide: a row per answer (triplet_id, model, group), a column per metric and part.
`ranking` asks which metric orders systems as people do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan, sqrt
from typing import Any

import numpy as np
import pandas as pd

from ems.analysis.findings import series
from ems.analysis.stats import MIN_CLUSTERS, auc, paired_table, summarise, with_verdicts
from ems.terminal import first_few, notify

from .names import short_names


def labelled(labels: Mapping[str, Any], models: Iterable[str]) -> dict[str, str]:
    """The models of a run that `labels` names, in its order, with its labels or short names.

    A label that is no text is replaced by the model's short name. If `labels` names no model of the
    run: all models, in the order in which they first come.
    """
    present = list(dict.fromkeys(models))
    named = {model: label for model, label in labels.items() if model in present}
    absent = [model for model in labels if model not in present]
    if named and absent:
        notify(f"no answers of {first_few(absent)} in this run; there are {first_few(present, 9)}")
    names = short_names(named or present)
    texts = {model: label for model, label in named.items() if isinstance(label, str)}
    return {**names, **texts}


# --- families of systems ---


def families(
    scores: pd.DataFrame,
    metrics: Mapping[str, str],
    systems: Mapping[str, tuple[str, str, float]],
    cluster: str = "group",
    seed: int = 7,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means by system, and steps: each system minus the next smaller one of its family.

    The tables are those of `ems.summarise` and `effect_sizes`, with the columns family and size
    (billions of parameters). `systems` maps a name to (file, family, size); systems without a
    family are left out. Holm's correction is over all steps of a metric.
    """
    family_of = {name: family for name, (_, family, _) in systems.items() if family}
    values = as_values(scores[scores["model"].isin(list(family_of))], metrics)
    values = values.dropna(subset="value")
    steps = []
    for family in dict.fromkeys(family_of.values()):
        names = [name for name in family_of if family_of[name] == family]
        of_family = values[values["model"].isin(names)]
        pairs = paired_table(of_family, models=names, cluster=cluster, seed=seed)
        is_step = pairs["a"].map(names.index) - pairs["b"].map(names.index) == 1
        steps.append(effect_sizes(of_family, pairs[is_step], cluster))
    means = summarise(values, cluster=cluster)
    tables = means, with_verdicts(pd.concat(steps, ignore_index=True))
    for table, column in zip(tables, ("model", "a"), strict=True):
        table["family"] = table[column].map(family_of)
        table["size"] = [systems[name][2] for name in table[column]]
    return tables


def step_findings(steps: pd.DataFrame, accuracy: str, metrics: Iterable[str]) -> list[str]:
    """A sentence: which metrics rise clearly in exactly the steps in which accuracy clearly does.

    `steps` is the second table of `families`, in which `accuracy` names the accuracy over all
    claims. There is no sentence where it rises clearly in no step.
    """
    is_rise = steps["clear"] & (steps["difference"] > 0)
    rising = steps[is_rise].groupby("metric")["a"].agg(set)
    if accuracy not in rising:
        return []
    alike = [name for name in metrics if rising.get(name) == rising[accuracy]]
    return [
        f"Accuracy over all claims rises clearly in {len(rising[accuracy])} of "
        f"{(steps['metric'] == accuracy).sum()} steps to a larger model of the same family. In "
        f"exactly these steps rise clearly: {series(alike) or 'no metric'}."
    ]


def as_values(scores: pd.DataFrame, metrics: Mapping[str, str]) -> pd.DataFrame:
    """Columns of `scores` as a frame of values (`ems.analysis.frames.COLUMNS`).

    `metrics` maps each metric's name to its column; the part is Score.
    """
    answers = scores[["model", "triplet_id", "group"]]
    frames = []
    for name, column in metrics.items():
        frames.append(answers.assign(metric=name, value=scores[column].astype(float)))
    table = pd.concat(frames, ignore_index=True)
    return table.assign(part="Score", num=nan, den=nan, units=1, unscored=0, signature="")


def effect_sizes(values: pd.DataFrame, pairs: pd.DataFrame, cluster: str = "group") -> pd.DataFrame:
    """A table of `ems.paired_table` from these values, with the sizes of its differences.

    g              Hedges' g of the clusters' mean differences; nan for fewer clusters than an
                   interval needs, and where all differences are equal
    g_low, g_high  its 95 % interval, by the normal approximation (Borenstein et al., 2009)
    ordered        share of triplets on which `a` scores higher; a tie counts half
    """
    rows = values.assign(cluster=values[cluster].astype(str))
    cell = ["metric", "part", "triplet_id", "cluster"]
    by_model = rows.pivot(index=cell, columns="model", values="value")
    g, ordered = [], []
    for pair in pairs.itertuples():
        of_cell = by_model.loc[pair.metric, pair.part]
        differences = (of_cell[pair.a] - of_cell[pair.b]).dropna()
        g.append(_hedges_g(differences.groupby(level="cluster").mean()))
        ordered.append(((np.sign(differences) + 1) / 2).mean())
    sizes = pd.DataFrame(g, columns=["g", "g_low", "g_high"], index=pairs.index)
    return pairs.join(sizes).assign(ordered=ordered)


def _hedges_g(means: pd.Series) -> tuple[float, float, float]:
    """Hedges' g of the clusters' mean differences, and the ends of its interval.

    nan where the clusters are few or their differences all equal.
    """
    n = len(means)
    if n < MIN_CLUSTERS or means.std() == 0:
        return nan, nan, nan
    small_sample = 1 - 3 / (4 * (n - 1) - 1)
    g = small_sample * means.mean() / means.std()
    reach = 1.96 * sqrt((small_sample**2 + g**2 / 2) / n)
    return g, g - reach, g + reach


def areas(values: pd.DataFrame, pairs: pd.DataFrame) -> list[float]:
    """The chance that an answer of `a` has a higher value than one of `b`; a tie counts half.

    `pairs` is a table of `ems.paired_table`; the list has a number in [0, 1] for each of its rows.
    """
    scored = values.dropna(subset="value")
    values_of = dict(list(scored.groupby(["metric", "part", "model"])["value"]))
    chances = []
    for row in pairs.itertuples():
        a = values_of[row.metric, row.part, row.a]
        b = values_of[row.metric, row.part, row.b]
        chances.append(auc([*a, *b], [1] * len(a) + [0] * len(b)))
    return chances
