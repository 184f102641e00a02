"""How far the results of two files, or of the models of one file, differ, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..data import result_rows
from ..io import FilePath
from ..terminal import did_you_mean, first_few, notify, visible
from ..types import WITHOUT_JUDGE, InputError
from .findings import MOST_MODELS, NOT_MEANING, series, verdict
from .frames import FIGURES_METRIC, basis_of, in_order, of_rows
from .stats import DIFFERENCE_COLUMNS, paired_table, with_verdicts
from .tables import bold, in_markdown, markdown_table, pairs_table, table_text

_CELL = ["metric", "model", "part"]
_SIGN = "Differences are a minus b: above 0, a is higher; below 0, b is higher."


def compare_results(
    a: FilePath,
    b: FilePath | None = None,
    *,
    metrics: Sequence[str] = (),
    cluster: str = "group",
) -> dict[str, Any]:
    """Compare two files of results of `ems evaluate`: a minus b.

    All metrics that both have are compared, or those that `metrics` names. Answers are joined by
    triplet and model; where `a` has one model only, it is compared with every model of `b`, and
    `model` names both. A notice on stderr names a model that one file lacks.

    `verdict` has sentences of `findings.verdict` on the answers that both have, for up to five
    models, and of figures that `metrics` leave out. `parts` has a row per metric, model and part.
    `answers` has F1 (or Score) of each answer, the largest difference first. `warning` may be "".

    Without `b` the models of `a` are compared. InputError where nothing can be joined, and for a
    metric that a file lacks.
    """
    of_a = _values(a, metrics)
    asked = metrics or of_a["metric"].unique()
    if b is None:
        return _models_compared(of_a[of_a["metric"].isin(asked)], cluster)
    of_b = _values(b, metrics)
    if of_a["model"].nunique() == 1:
        model = of_a["model"].iloc[0]
        of_b.loc[of_b["model"] != model, "model"] = f"{model} (a), " + of_b["model"] + " (b)"
        of_a = of_a.drop(columns="model").merge(of_b["model"].drop_duplicates(), how="cross")
    both = of_a.merge(of_b, on=[*_CELL, "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    answers = both[both["metric"].isin(asked)]
    if answers.empty:
        raise InputError(
            "nothing to compare: the files need a metric and triplets in common, and models unless "
            f"the first file has only one; {_contents(a, of_a)}; {_contents(b, of_b)}"
        )
    sides = pd.concat([of_a.assign(side="a"), of_b.assign(side="b")])
    means = both.groupby(_CELL)[["a", "b"]].mean()
    parts = with_verdicts(sides_compared(of_a, of_b, cluster).join(means, on=_CELL, how="inner"))
    is_asked = parts["metric"].isin(asked)
    not_compared = _clear_differences(parts[~is_asked])
    parts = parts[is_asked]
    sides = sides.merge(answers[[*_CELL, "triplet_id"]])
    return {
        "verdict": _verdict(sides, parts.assign(a="a", b="b")) + not_compared,
        "parts": in_order(parts[[*_CELL, "a", "b", *DIFFERENCE_COLUMNS]]),
        "answers": _answers_compared(answers),
        "warning": _warning(parts, {a: of_a, b: of_b}),
    }


def _clear_differences(parts: pd.DataFrame) -> list[str]:
    """A sentence for each clear difference in what was not asked for."""
    sentences = []
    for row in parts[parts["clear"]].itertuples():
        sentences.append(
            f"Not compared: {row.metric} {row.part} of “{visible(row.model)}”, which differs "
            f"clearly ({row.a:.3f} minus {row.b:.3f})."
        )
    return sentences


def _contents(path: FilePath, values: pd.DataFrame) -> str:
    """What a file has of each thing by which answers are joined, for a message."""
    names = ["metric", "model", "triplet_id"]
    return f"{path} has {series([f'{name} {first_few(values[name].unique())}' for name in names])}"


def _models_compared(values: pd.DataFrame, cluster: str) -> dict[str, Any]:
    """Every model minus every earlier one, over the triplets that both answered."""
    n_models = values["model"].nunique()
    if n_models < 2:
        raise InputError(
            "nothing to compare: one file needs two models with a metric in common, and has "
            f"{n_models}; name a second file"
        )
    pairs = paired_table(values, cluster=cluster)
    return {
        "verdict": verdict(values, pairs, pairs),
        "parts": pairs,
        "warning": _warning(pairs, {}),
    }


def _warning(parts: pd.DataFrame, files: Mapping[FilePath, pd.DataFrame]) -> str:
    """What must be said where no judged metric is compared; "" where one is."""
    if "meaning" in set(parts["compares"]):
        return ""
    judged = []
    for path, values in files.items():
        for metric, signatures in values.groupby("metric")["signature"]:
            if basis_of(metric, signatures) == "meaning":
                judged.append(f"{path} has {metric}")
    if not judged:
        return WITHOUT_JUDGE
    compared = series(parts["metric"].unique())
    return f"The files share no judged metric: {series(judged)}. Only {compared} can be compared."


def sides_compared(of_a: pd.DataFrame, of_b: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """For each model its values in `of_a` minus its values in `of_b`, by metric and part."""
    sides = pd.concat([of_a.assign(side="a"), of_b.assign(side="b")])
    tables = []
    for model, rows in sides.groupby("model", sort=False):
        if rows["side"].nunique() == 1:
            notify(f"ems: {model} is in file {rows['side'].iloc[0]} only, and is not compared")
            continue
        # Of the sides that `paired_table` is given, the later one minus the earlier one.
        table = paired_table(rows.assign(model=rows["side"]), models=["b", "a"], cluster=cluster)
        tables.append(table.drop(columns=["a", "b"]).assign(model=model))
    return pd.concat(tables)


def _verdict(sides: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """Which side is clearly better, for each model; nothing for more models than five."""
    sentences = []
    models = pairs.groupby("model", sort=False)
    if len(models) > MOST_MODELS:
        return []
    for model, tested in models:
        of_model = sides[sides["model"] == model]
        for sentence in verdict(of_model.assign(model=of_model["side"]), tested, tested):
            if len(models) > 1 and sentence != NOT_MEANING:
                sentence = f"{visible(model)}: {sentence}"
            sentences.append(sentence)
    return list(dict.fromkeys(sentences))  # what is said of all models is said once


def _answers_compared(both: pd.DataFrame) -> pd.DataFrame:
    """F1 (or Score) of each answer on both sides and a minus b, the largest difference first."""
    is_told = both["part"].isin(["F1", "Score"])
    answers = both.loc[is_told, ["metric", "model", "triplet_id", "a", "b"]]
    answers = answers.assign(difference=answers["a"] - answers["b"])
    return answers.sort_values("difference", key=abs, ascending=False, ignore_index=True)


def comparison_text(
    tables: Mapping[str, Any], a: str, b: str | None = None, *, markdown: bool = False
) -> str:
    """What `compare_results` found, for a terminal or in Markdown: warning, verdict and table.

    `a` and `b` are the files that were compared. The column `higher` names one of them, or a model,
    where a difference is clear. In Markdown the verdict names the files, and the table has ten
    rows, those with a clear difference first. In a terminal the five answers that differ most
    follow.
    """
    parts = tables["parts"]
    files = [] if b is None else [visible(a), visible(b)]
    sentences = " ".join(tables["verdict"])
    sides = "a is {}, b is {}.".format(*files) if files else ""
    show = table_text
    if markdown:
        show = markdown_table
        for side, file in zip("ab", files, strict=False):  # without files the names are of models
            sentences = sentences.replace(f"“{side}”", f"“{file}”")
        sentences, sides = bold(sentences), in_markdown(sides)
        parts = parts.sort_values("clear", ascending=False, kind="stable")
    blocks = [visible(tables["warning"]), sides, sentences, _SIGN, show(pairs_table(parts, *files))]
    if files and not markdown:
        answers = tables["answers"].head(5)
        differ = answers[answers["difference"].abs() >= 0.0005]  # else the table shows 0.000
        if len(differ):
            blocks.append(f"Answers that differ most:\n{show(differ)}")
    return "\n\n".join(filter(None, blocks))


def _values(path: FilePath, metrics: Sequence[str]) -> pd.DataFrame:
    """The frame of values of a file; of some metrics, and of figures, if `metrics` names them."""
    values = of_rows(list(result_rows(path)))
    there = values["metric"].unique()
    for metric in metrics:
        if metric not in there:
            raise InputError(
                f"{path} has no metric {metric!r}; it has {first_few(there, 12)}"
                f"{did_you_mean(metric, there)}"
            )
    wanted = [*metrics, FIGURES_METRIC] if metrics else there
    return values[values["metric"].isin(wanted)]
