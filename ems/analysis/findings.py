"""Sentences made from tables of values and tests: right for any run, else silent.

They are plain text, in which names are `shortened`: a page escapes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from .frames import FIGURES_METRIC, HIGHER_IS_WORSE, basis_of
from .stats import MIN_CLUSTERS, MIN_SCORED
from .tables import bounded, shortened, with_interval

FEW_SHARED, ENOUGH_FIGURES = 0.9, 20  # a lower share, of as many figures, puts the judge in doubt
NOT_MEANING = "Only words and figures were compared, not meaning."
MOST_MODELS = 5  # more models than these are not compared two by two in sentences or on a page
# What is said of a model that is clearly better than another, by what was compared and by the part.
# Of other parts nothing is said, nor of words: who shares more of them with the references need not
# be better. Recall of figures is told only where it alone has a clear difference.
_BETTER = {
    "meaning": {
        "Contradicted": "contradicts the references clearly less often than",
        "F1": "has a clearly higher F1 than",
        "Score": "has a clearly higher score than",
    },
    "figures": {
        "Precision": "has clearly more of its figures in the references than",
        "Recall": "has a clearly higher Figures Recall than",
    },
    "words": {},
}
# How values are called in a list of all models.
_TITLES = {
    "Contradicted": "Contradicted reference points, fewest first",
    "Precision": "Share of an answer’s figures that its reference has, highest first",
    "Recall": "Figures Recall, highest first",
    "F1": "F1, highest first",
    "Score": "Score, highest first",
}
# What is said of a model alone. The share is that of the part, whose interval is in brackets. In
# place of F1 recall is told, or recall uncontradicted where that is lower.
_ALONE = {
    "Contradicted": "{name} contradicts {level} of the references.",
    "Recall": (
        "{name} states {share} of what the references say (recall {value}); its F1 is {level}."
    ),
    "Recall uncontradicted": (
        "{name} states {share} of what the references say, contradicted points not counted (recall "
        "uncontradicted {value}); its F1, which counts them, is {level}."
    ),
    "Score": "{name} has, on a scale from 0 to 1, {value}.",
    "Precision": "The references have {share} of the figures of {name} ({value}).",
}


def series(names: Sequence[str] | pd.Index[str]) -> str:
    """Names in one phrase: "a", "a and b", "a, b and c"; "" for no name."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def verdict(values: pd.DataFrame, summary: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What a run found: sentences, the most important one first.

    `values` is a frame of values, `summary` and `pairs` are what `summarise` and `paired_table`
    make of it. By each metric with a judge, or else by figures, they say which model is clearly
    better than which, in contradicted points first and then in F1 or score; of figures, in
    Precision, and where no difference in it is clear, in Recall; of one model alone, how much of
    the reference it states. F1 comes first where one model is clearly better in it than all
    others, and none of these contradicts clearly less: a model that says nothing contradicts
    nothing. Without pairs models are only put in order. Models that are not `_ranked` are left out.

    It is said at once, by each metric, where the references have clearly fewer of a model's figures
    than of those of a model further down, or, where no difference is clear, few of those of the
    first model (`few_figures`), and where a judge named no contradicted point although many figures
    differ.
    """
    values, pairs = _ranked(values, pairs)
    cells = _told(values, summary, pairs)
    figures = _cell(values, pairs, FIGURES_METRIC, "Precision", "figures")
    few = few_figures(values)
    n_metrics = len({cell.metric for cell in cells})
    sentences = []
    told: dict[str, str] = {}  # the doubt, by metric
    if {cell.basis for cell in cells} != {"meaning"} and set(summary["metric"]) != {FIGURES_METRIC}:
        sentences.append(NOT_MEANING)
    for cell in cells:
        means = cell.means()
        sentence = _difference(cell)
        if len(means) == 1:
            sentence = _alone(cell, summary[summary["metric"] == cell.metric])
        doubt = _doubt(means.index, figures)
        if not cell.pairs["clear"].any():
            doubt = few.get(means.index[0], doubt)
        if n_metrics > 1:
            sentence = f"{shortened(cell.metric)}: {sentence}"
        sentence += cell.addition
        if cell.basis == "meaning" and doubt not in ("", told.get(cell.metric)):
            sentence += f" {doubt}"
            told[cell.metric] = doubt
        sentences.append(sentence)
    return sentences


def _ranked(values: pd.DataFrame, pairs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The values and the pairs of models that share enough groups with another for an interval.

    All, where no two models do.
    """
    enough = pairs[pairs["clusters"] >= MIN_CLUSTERS]
    if enough.empty:
        return values, pairs
    ranked = [*enough["a"], *enough["b"]]
    is_ranked = pairs["a"].isin(ranked) & pairs["b"].isin(ranked)
    return values[values["model"].isin(ranked)], pairs[is_ranked]


class _Cell(NamedTuple):
    """A part of a metric that is spoken of."""

    metric: str
    part: str
    basis: str  # what the values compare, as `basis_of` has it
    rows: pd.DataFrame  # of the frame of values
    pairs: pd.DataFrame  # the models two by two
    addition: str = ""  # a sentence that is said after that of the cell

    def level(self, model: str) -> str:
        """The value of a model: a mean, or how many of the points are contradicted.

        Where another model has over twice as many answers, their number is added.
        """
        rows = self.rows[self.rows["model"] == model]
        level = f"{rows['value'].mean():.3f}"
        if self.part == "Contradicted":
            level = f"{rows['num'].sum():.0f} of {rows['den'].sum():.0f} points"
        if 2 * len(rows) < self.rows["model"].value_counts().max():
            level += f" from {len(rows)} answers"
        return level

    def means(self) -> pd.Series:
        """The mean of each model, the best one first."""
        means = self.rows.groupby("model")["value"].mean()
        return means.sort_values(ascending=self.part in HIGHER_IS_WORSE, kind="stable")

    def best(self) -> str:
        """The model that is clearly better than all others; "" for none."""
        wins = clear_wins(self.pairs)["better"].value_counts()
        others = self.rows["model"].nunique() - 1
        return wins.idxmax() if wins.max() == others else ""


def _told(values: pd.DataFrame, summary: pd.DataFrame, pairs: pd.DataFrame) -> list[_Cell]:
    """What is spoken of, in the summary's order: metrics with a judge, or else figures."""
    cells = []
    for metric in summary["metric"].unique():
        rows = values[values["metric"] == metric]
        basis = basis_of(metric, rows["signature"].unique())
        of_metric = [_cell(values, pairs, metric, part, basis) for part in _BETTER[basis]]
        of_metric = [cell for cell in of_metric if len(cell.rows)]
        clear_parts = [cell.part for cell in of_metric if cell.pairs["clear"].any()]
        if clear_parts != ["Recall"]:
            of_metric = [cell for cell in of_metric if cell.part != "Recall"]
        cells += _most_important_first(of_metric, values)
    return [cell for cell in cells if cell.basis == "meaning"] or cells


def _cell(values: pd.DataFrame, pairs: pd.DataFrame, metric: str, part: str, basis: str) -> _Cell:
    """A part of a metric, of the answers with a value; without rows where none has one."""
    rows, tested = [
        table[(table["metric"] == metric) & (table["part"] == part)] for table in (values, pairs)
    ]
    return _Cell(metric, part, basis, rows.dropna(subset="value"), tested)


def _doubt(models: pd.Index[str], figures: _Cell) -> str:
    """That the references have clearly more of the figures of a model that stands further down.

    `models` are in order, the best one first; of several in doubt the first is named. "" for none.
    """
    wins = clear_wins(figures.pairs)
    for place, model in enumerate(models):
        is_below = wins["better"].isin(models[place:])
        others = wins.loc[is_below & (wins["worse"] == model), "better"]
        if len(others):
            other = max(others, key=figures.level)
            levels = f"{figures.level(model)} against {figures.level(other)}"
            return (
                f"But {_name(model)} has clearly fewer of its figures in the references than "
                f"{_name(other)} (Figures Precision {levels}): look at its figures first."
            )
    return ""


def few_figures(values: pd.DataFrame) -> dict[str, str]:
    """A sentence by model, where the references have under 90 % of its 20 or more figures.

    `values` is a frame of values, or its summary.
    """
    is_told = (values["metric"] == FIGURES_METRIC) & (values["part"] == "Precision")
    sentences = {}
    for model, rows in values[is_told].groupby("model", sort=False):
        share = rows["value"].mean()
        if share < FEW_SHARED and rows["units"].sum() >= ENOUGH_FIGURES:
            sentences[model] = (
                f"Only {share:.3f} of the figures of {_name(model)} are in the references: look at "
                "its figures first."
            )
    return sentences


def _most_important_first(cells: list[_Cell], values: pd.DataFrame) -> list[_Cell]:
    """The cells of a metric; F1 before contradicted points where `verdict` says so.

    F1 alone where there is no contradicted point although many figures of a model differ.
    """
    if [cell.part for cell in cells] != ["Contradicted", "F1"]:
        return cells
    contradicted, f1 = cells
    if few_figures(values) and not contradicted.rows["num"].any():
        return [f1._replace(addition=" The judge named no contradicted point.")]
    best = f1.best()
    if not best or best in clear_wins(contradicted.pairs)["worse"].values:
        return cells
    addition = " No other model contradicts the references clearly less often."
    if not contradicted.means()[best]:
        addition = " It contradicts none of the reference points."
    return [f1._replace(addition=addition), contradicted]


def clear_wins(pairs: pd.DataFrame) -> pd.DataFrame:
    """The clear differences of `paired_table`, with the columns `better` and `worse`.

    These hold what the columns a and b hold: names, or means.
    """
    clear = pairs[pairs["clear"]]
    a_is_better = (clear["difference"] > 0) != clear["part"].isin(HIGHER_IS_WORSE)
    better = clear["a"].where(a_is_better, clear["b"])
    return clear.assign(better=better, worse=clear["b"].where(a_is_better, clear["a"]))


def _name(model: str) -> str:
    return f"“{shortened(model)}”"


def _alone(cell: _Cell, summary: pd.DataFrame) -> str:
    """What is said of a single model."""
    model = cell.rows["model"].iloc[0]
    means = bounded(summary[summary["model"] == model]).set_index("part")
    part = cell.part
    if part == "F1":
        part = means["value"].filter(["Recall", "Recall uncontradicted"]).idxmin()
    value = with_interval(*means.loc[part, ["value", "ci_low", "ci_high"]])
    share = f"{100 * means.loc[part, 'value']:.0f} %"
    return _ALONE[part].format(name=_name(model), level=cell.level(model), share=share, value=value)


def _difference(cell: _Cell) -> str:
    """Which model is clearly better than each other one, or else how many differences are clear."""
    means = cell.means()
    if best := cell.best():
        others = means.index.drop(best)
        names, means_of = series(others.map(_name)), series(others.map(cell.level))
        better = _BETTER[cell.basis][cell.part]
        return f"{_name(best)} {better} {names} ({cell.level(best)} against {means_of})."
    levels = [f"{_name(model)} {cell.level(model)}" for model in means.index[:MOST_MODELS]]
    sentence = f"{_TITLES[cell.part]}: {series(levels)}"
    n_clear, n_pairs = cell.pairs["clear"].sum(), len(cell.pairs)
    if not n_pairs:
        return f"{sentence}; the {len(means)} models were not tested two by two."
    if not n_clear:
        of_what = " in Figures Precision" if cell.basis == "figures" else ""
        groups = cell.pairs["clusters"].max()
        return f"{sentence}; no difference{of_what} is clear over {groups} groups."
    return f"{sentence}; {n_clear} of {n_pairs} differences are clear."


# --- what the sentences rest on ---


def limits(values: pd.DataFrame, summary: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """What a run cannot show: sentences; none where nothing has to be said.

    They name models with fewer questions, values with too few scored points, the least p that the
    groups allow, and how large a difference in F1, or score, must be to be clear.
    """
    sentences = []
    questions = values.groupby("model", sort=False)["triplet_id"].nunique()
    n_questions = values["triplet_id"].nunique()
    values, pairs = _ranked(values, pairs)
    for model, count in questions[questions < n_questions].items():
        sentences.append(
            f"{_name(model)} has results for {count} of {n_questions} questions. Its values are "
            "over these; two models are compared on the questions that both have, and ranked "
            f"where these are of {MIN_CLUSTERS} groups or more."
        )
    flagged = summary[summary["flagged"] & summary["part"].isin(["F1", "Score"])]
    for row in flagged.itertuples(index=False):
        sentences.append(
            f"{shortened(row.metric)} of {_name(row.model)} speaks for a part only: under "
            f"{100 * MIN_SCORED:.0f} % of the points, or of the answers, have a score."
        )
    sizes = []
    for cell in _told(values, summary, pairs):
        if not cell.pairs["clusters"].any():
            continue  # no two models have it
        reason = why_none_can_be_clear(cell.pairs)
        if reason and reason not in sentences:
            sentences.append(reason)
        if not reason and cell.part in ("F1", "Score"):
            half_width = (cell.pairs["ci_high"] - cell.pairs["ci_low"]).median() / 2
            if half_width >= 0.0005:  # a smaller one would be shown as 0.000
                sizes.append(f"{half_width:.3f} for {shortened(cell.metric)} {cell.part}")
    if sizes:
        sentences.append(
            f"With these questions a difference must be larger than about {series(sizes)} to be "
            "clear."
        )
    return sentences


def why_none_can_be_clear(pairs: pd.DataFrame) -> str:
    """Why no difference of a metric and part can be clear with these groups.

    "" where one can, and without pairs.
    """
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
