"""Sentences made from tables of values and tests: right for any run, else silent.

They are plain text, in which names are `shortened`: a page escapes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import pandas as pd

from .frames import HIGHER_IS_WORSE, basis_of
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
# The parts that are spoken of, by what their values compare.
_PARTS = {
    "meaning": ("Contradicted", "F1", "Score"),
    "figures": ("Precision",),
    "words": ("F1", "Score"),
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
    make of it. By each metric with a judge, or else by each metric, they say which model is clearly
    better than which, in contradicted points first and then in F1 or score; of one model alone, how
    much of the reference it states. Without pairs models are only put in order.
    """
    cells = _told(values)
    n_metrics = len({cell.metric for cell in cells if cell.basis != "figures"})
    sentences = []
    for cell in cells:
        if values["model"].nunique() == 1:
            sentence = _alone(cell, summary[summary["metric"] == cell.metric])
        else:
            sentence = _difference(cell, _tested(cell, pairs))
        if n_metrics > 1:
            sentence = f"{shortened(cell.metric)}: {sentence}"
        sentences.append(sentence)
    if any(cell.basis != "meaning" for cell in cells):
        sentences.insert(0, "Only words and figures were compared, not meaning.")
    return sentences


class _Cell(NamedTuple):
    metric: str
    part: str
    basis: str  # what the values compare, as `basis_of` has it
    rows: pd.DataFrame  # of the frame of values

    def level(self, model: str) -> str:
        """The value of a model: a mean, or how many of the points are contradicted."""
        rows = self.rows[self.rows["model"] == model]
        if self.part == "Contradicted":
            return f"{rows['num'].sum():.0f} of {rows['den'].sum():.0f} points"
        return f"{rows['value'].mean():.3f}"

    def levels(self, models: Sequence[str]) -> str:
        return series([f"{_name(model)} {self.level(model)}" for model in models])


def _told(values: pd.DataFrame) -> list[_Cell]:
    """What is spoken of: metrics with a judge where there are any, else figures before words."""
    cells = []
    for metric, rows in values.groupby("metric", sort=False):
        basis = basis_of(metric, rows["signature"].unique())
        for part in _PARTS[basis]:
            cell = rows[(rows["part"] == part) & rows["value"].notna()]
            if len(cell):
                cells.append(_Cell(metric, part, basis, cell))
    judged = [cell for cell in cells if cell.basis == "meaning"]
    return judged or sorted(cells, key=attrgetter("basis"))


def _tested(cell: _Cell, pairs: pd.DataFrame) -> pd.DataFrame:
    return pairs[(pairs["metric"] == cell.metric) & (pairs["part"] == cell.part)]


def _name(model: str) -> str:
    return f"“{shortened(model)}”"


def _alone(cell: _Cell, summary: pd.DataFrame) -> str:
    """What is said of a single model."""
    model = cell.rows["model"].iloc[0]
    name, level = _name(model), cell.level(model)
    if cell.part == "Contradicted":
        return f"{name} contradicts {level} of the references."
    side = "Recall" if cell.part == "F1" else cell.part
    (row,) = bounded(summary[summary["part"] == side]).itertuples(index=False)
    interval = ""
    if row.ci_low == row.ci_low:  # not nan
        interval = f", 95 % interval {row.ci_low:.3f} to {row.ci_high:.3f}"
    share = f"{100 * row.value:.0f} %"
    if cell.basis == "figures":
        return f"The references have {share} of the figures of {name}{interval}."
    if cell.part == "Score":
        return f"{name} has {level} on a scale from 0 to 1{interval}."
    stated = f"states {share} of what the references say"
    if cell.basis == "words":
        stated = f"has {share} of the references’ words, by their weight"
    return f"{name} {stated} (recall {row.value:.3f}{interval}); its F1 is {level}."


def _difference(cell: _Cell, pairs: pd.DataFrame) -> str:
    """Which model is clearly better than all others, or else which differences are clear."""
    is_falling = cell.part in HIGHER_IS_WORSE
    means = cell.rows.groupby("model")["value"].mean()
    models = list(means.sort_values(ascending=is_falling, kind="stable").index)
    clear, unclear = pairs[pairs["clear"]], pairs[~pairs["clear"]]
    wins = clear["a"].where((clear["difference"] > 0) != is_falling, clear["b"]).value_counts()
    if len(wins) and wins.max() == len(models) - 1:
        best = wins.idxmax()
        models.remove(best)
        others = f"all others ({cell.level(best)} against {cell.levels(models)})"
        if len(models) == 1:
            others = f"{_name(models[0])} ({cell.level(best)} against {cell.level(models[0])})"
        return f"{_name(best)} {_BETTER[cell.basis, cell.part]} {others}."
    sentence = f"{_TITLES[cell.part]}: {cell.levels(models[:MOST_MODELS])}"
    if pairs.empty:
        return f"{sentence}; the {len(models)} models were not tested two by two."
    if clear.empty:
        return f"{sentence}; no difference is clear over {pairs['clusters'].max()} groups."
    if unclear.empty:
        return f"{sentence}; all differences are clear."
    if len(unclear) <= min(2, len(clear)):
        return f"{sentence}; all differences are clear, except {_between(unclear)}."
    if len(clear) <= 2:
        return f"{sentence}; no difference is clear, except {_between(clear)}."
    return f"{sentence}; {len(clear)} of {len(pairs)} differences are clear."


def _between(pairs: pd.DataFrame) -> str:
    """The names of the models of each pair."""
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
            f"{_name(model)} has results for {count} of {n_questions} questions. Its values are "
            "over these; two models are compared on the questions that both have."
        )
    flagged = summary[summary["flagged"] & summary["part"].isin(["F1", "Score"])]
    for row in flagged.itertuples(index=False):
        sentences.append(
            f"{shortened(row.metric)} of {_name(row.model)} speaks for a part only: under "
            f"{100 * MIN_SCORED:.0f} % of the points, or of the answers, have a score."
        )
    sizes = []
    for cell in _told(values):
        tested = _tested(cell, pairs)
        obstacle = _obstacle(tested)
        if obstacle and obstacle not in sentences:
            sentences.append(obstacle)
        if len(tested) and not obstacle and cell.part in ("F1", "Score"):
            half_width = (tested["ci_high"] - tested["ci_low"]).median() / 2
            sizes.append(f"{half_width:.3f} for {shortened(cell.metric)} {cell.part}")
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
