"""Sentences made from tables of values and tests: right for any run, else silent.

They are plain text, in which names are `shortened`: a page escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from .frames import FIGURES_METRIC, HIGHER_IS_WORSE, basis_of
from .stats import MIN_CLUSTERS, MIN_SCORED
from .tables import bounded, shortened

MOST_MODELS = 5  # more models than these are not compared two by two in sentences or on a page
# What is said of a model that is clearly better than another, by what was compared and by the part.
_BETTER = {
    ("meaning", "Contradicted"): "contradicts the references clearly less often than",
    ("meaning", "F1"): "has a clearly higher F1 than",
    ("meaning", "Score"): "has a clearly higher score than",
    ("figures", "Precision"): "has clearly more of its figures in the references than",
    ("words", "F1"): "shares clearly more words with the references (F1) than",
    ("words", "Score"): "has a clearly higher score, made without a judge, than",
}
# How values are called in a list of all models.
_TITLES = {
    "Contradicted": "Contradicted reference points, fewest first",
    "Precision": "Share of an answer’s figures that its reference has, highest first",
    "F1": "F1, highest first",
    "Score": "Score, highest first",
}


def series(names: Sequence[str]) -> str:
    """Names in one phrase: "a", "a and b", "a, b and c"; "" for no name."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def verdict(values: pd.DataFrame, summary: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What a run found: sentences, the most important one first.

    `values` is a frame of values, `summary` and `pairs` are what `summarise` and `paired_table`
    make of it. By each metric with a judge, or else by each metric, it says which model is clearly
    better than which, in contradicted points first and then in F1 or score; of one model alone, how
    much of the reference it states. More than five models are only put in order.
    """
    cells = list(_told(values))
    n_models = values["model"].nunique()
    is_judged = all(basis == "meaning" for _, _, basis, _ in cells)
    sentences = [] if is_judged else ["Only words and figures were compared, not meaning."]
    metrics = {metric for metric, *_ in cells if metric != FIGURES_METRIC}
    for metric, part, basis, cell in cells:
        if n_models == 1:
            sentence = _alone(summary[summary["metric"] == metric], part, basis, cell)
        elif n_models > MOST_MODELS:
            sentence = _ranking(part, cell)
        else:
            tested = pairs[(pairs["metric"] == metric) & (pairs["part"] == part)]
            sentence = _difference(tested, part, basis, cell)
        if len(metrics) > 1:
            sentence = f"{shortened(metric)}: {sentence}"
        sentences.append(sentence)
    return sentences


def _told(values: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """(metric, part, basis, values) of what the verdict speaks of, in this order.

    The metrics with a judge stand alone where there are any; otherwise figures are first, which a
    person can check.
    """
    by_metric = dict(list(values.groupby("metric", sort=False)))
    bases = {name: basis_of(name, rows["signature"].unique()) for name, rows in by_metric.items()}
    for basis in ("meaning", "figures", "words"):
        if basis != "meaning" and "meaning" in bases.values():
            return
        for metric in [name for name in bases if bases[name] == basis]:
            rows = by_metric[metric]
            for part in ("Contradicted", "Precision", "F1", "Score"):
                cell = rows[(rows["part"] == part) & rows["value"].notna()]
                if (basis, part) in _BETTER and len(cell):
                    yield metric, part, basis, cell


def _name(model: str) -> str:
    return f"“{shortened(model)}”"


def _level(cell: pd.DataFrame, model: str) -> str:
    """The value of a model: a mean, or how many of the points are contradicted."""
    rows = cell[cell["model"] == model]
    if cell["part"].iloc[0] == "Contradicted":
        return f"{rows['num'].sum():.0f} of {rows['den'].sum():.0f} points"
    return f"{rows['value'].mean():.3f}"


def _levels(cell: pd.DataFrame, models: Sequence[str]) -> str:
    return series([f"{_name(model)} {_level(cell, model)}" for model in models])


def _best_first(cell: pd.DataFrame, part: str) -> list[str]:
    means = cell.groupby("model")["value"].mean()
    return list(means.sort_values(ascending=part in HIGHER_IS_WORSE).index)


def _alone(summary: pd.DataFrame, part: str, basis: str, cell: pd.DataFrame) -> str:
    """What is said of a single model."""
    model = cell["model"].iloc[0]
    name, level = _name(model), _level(cell, model)
    if part == "Contradicted":
        return f"{name} contradicts {level} of the references."
    side = "Recall" if part == "F1" else part
    (row,) = bounded(summary[summary["part"] == side]).itertuples(index=False)
    interval = ""
    if row.ci_low == row.ci_low:  # not nan
        interval = f", 95 % interval {row.ci_low:.3f} to {row.ci_high:.3f}"
    if part == "F1":
        stated = f"states {100 * row.value:.0f} % of what the references say"
        if basis == "words":
            stated = f"has {100 * row.value:.0f} % of the references’ words, by their weight"
        return f"{name} {stated} (recall {row.value:.3f}{interval}); its F1 is {level}."
    if part == "Precision":
        return f"The references have {100 * row.value:.0f} % of the figures of {name}{interval}."
    return f"{name} has {level} on a scale from 0 to 1{interval}."


def _ranking(part: str, cell: pd.DataFrame) -> str:
    """The best of many models, without a test."""
    models = _best_first(cell, part)
    levels = _levels(cell, models[:MOST_MODELS])
    return f"{_TITLES[part]}: {levels} ({MOST_MODELS} of {len(models)} models, not tested)."


def _difference(pairs: pd.DataFrame, part: str, basis: str, cell: pd.DataFrame) -> str:
    """Which model is clearly better than all others, or else which differences are clear."""
    models = _best_first(cell, part)
    clear = pairs[pairs["clear"]]
    is_a_better = (clear["difference"] > 0) != (part in HIGHER_IS_WORSE)
    wins = clear["a"].where(is_a_better, clear["b"]).value_counts()
    if len(wins) and wins.max() == len(models) - 1:
        best = wins.idxmax()
        others = [model for model in models if model != best]
        return f"{_name(best)} {_BETTER[basis, part]} {_others(cell, best, others)}."
    sentence = f"{_TITLES[part]}: {_levels(cell, models)}"
    if clear.empty:
        return f"{sentence}; no difference is clear over {pairs['clusters'].max()} groups."
    unclear = pairs[~pairs["clear"]]
    if unclear.empty:
        return f"{sentence}; all differences are clear."
    if len(unclear) <= 2:
        return f"{sentence}; all differences are clear, except {_between(unclear)}."
    if len(clear) <= 2:
        return f"{sentence}; no difference is clear, except {_between(clear)}."
    return f"{sentence}; {len(clear)} of {len(pairs)} differences are clear."


def _others(cell: pd.DataFrame, best: str, others: Sequence[str]) -> str:
    """The other models with their values, and that of the best one."""
    if len(others) > 1:
        return f"all others ({_level(cell, best)} against {_levels(cell, others)})"
    both = cell[cell["triplet_id"].duplicated(keep=False)]  # answered by both, as in the test
    return f"{_name(others[0])} ({_level(both, best)} against {_level(both, others[0])})"


def _between(pairs: pd.DataFrame) -> str:
    """ "between b and a", for each pair."""
    named = []
    for pair in pairs.itertuples(index=False):
        named.append(f"between {_name(pair.b)} and {_name(pair.a)}")
    return series(named)


# --- what the sentences rest on ---


def limits(values: pd.DataFrame, summary: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What a run cannot show: sentences; none where nothing has to be said.

    They name models with fewer questions, values with too few scored points, the least p that the
    groups allow, and how large a difference in F1, or score, must be to be clear.
    """
    sentences = []
    questions = values.groupby("model")["triplet_id"].nunique()
    n_questions = values["triplet_id"].nunique()
    for model, count in questions[questions < n_questions].items():
        sentences.append(
            f"{_name(model)} has results for {count} of {n_questions} questions; two models are "
            "compared on the questions that both have."
        )
    flagged = summary[summary["flagged"] & summary["part"].isin(["F1", "Score"])]
    for row in flagged.itertuples(index=False):
        sentences.append(
            f"{shortened(row.metric)} of {_name(row.model)} speaks for a part only: under "
            f"{MIN_SCORED:.0%} of the points, or of the answers, have a score."
        )
    sizes = []
    for metric, part, _, _ in _told(values):
        tested = pairs[(pairs["metric"] == metric) & (pairs["part"] == part)]
        obstacle = _obstacle(tested)
        if obstacle and obstacle not in sentences:
            sentences.append(obstacle)
        if len(tested) and not obstacle and part in ("F1", "Score"):
            half_width = ((tested["ci_high"] - tested["ci_low"]) / 2).median()
            sizes.append(f"{half_width:.3f} for {shortened(metric)} {part}")
    if sizes:
        sentences.append(
            f"With these questions a difference must be larger than about {series(sizes)} to be "
            "clear."
        )
    return sentences


def _obstacle(pairs: pd.DataFrame) -> str:
    """Why no difference can be clear with these groups; "" where one can, and without pairs."""
    if pairs.empty:
        return ""
    groups = pairs["clusters"].max()
    if groups < MIN_CLUSTERS:
        return (
            f"No difference can be clear: there are {groups} groups, and an interval needs "
            f"{MIN_CLUSTERS}. With --cluster triplet_id every question is a group; intervals are "
            "then too narrow where questions share a document."
        )
    compared = pairs["p"].notna().sum()
    least = compared * 2.0 ** (1 - groups)  # of the sign-flip test, adjusted by Holm
    if least < 0.05:
        return ""
    return (
        f"No difference can be clear: with {groups} groups and {compared} comparisons p cannot be "
        f"under {least:.3f}, and it must be under 0.05. More groups are needed, or fewer models."
    )
