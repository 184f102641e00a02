"""How far the results of two files, or of the models of one file, differ, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from ..data import iter_results
from ..io import FilePath
from ..terminal import did_you_mean, visible
from ..types import WITHOUT_JUDGE, InputError
from .findings import series
from .frames import ValueRow, in_order, of_rows, value_rows
from .gate import is_worse, outcome_text
from .stats import DIFFERENCE_COLUMNS, paired_table, with_verdicts
from .tables import in_markdown, markdown_table, means_table, pairs_table, table_text

_CELL = ["metric", "model", "part"]
_SIGN = "Differences are a minus b: above 0, a is higher; below 0, b is higher."
_MOST_NAMES = 6  # in a sentence


def compare_results(
    a: FilePath,
    b: FilePath | None = None,
    *,
    metrics: Sequence[str] = (),
    cluster: str = "group",
) -> dict[str, pd.DataFrame]:
    """Compare two files of results of `ems evaluate`: a minus b.

    All metrics that both have are compared, or those that `metrics` names. Answers are joined by
    triplet and model; where `a` has one model only, it is compared with every model of `b`.

    `parts` has a row per metric, model (that of `b`) and part: the means of both, `a` and `b`, and
    the differences of `stats.paired_table`, where p_holm is adjusted over the models of a metric
    and part. `answers` has F1 (or Score) of every answer that has a value in both, the largest
    difference first.

    Without `b` the models of `a` are compared two by two: `parts` is then their
    `stats.paired_table`. InputError where nothing can be joined, and for a metric that a file does
    not have.
    """
    of_a = _values(a, metrics)
    if b is None:
        return {"parts": _models_compared(of_a, cluster)}
    of_b = _values(b, metrics)
    if of_a["model"].nunique() == 1:
        of_a = of_a.drop(columns="model").merge(of_b["model"].drop_duplicates(), how="cross")
    both = of_a.merge(of_b, on=[*_CELL, "triplet_id"], suffixes=("_a", "_b"))
    both = both.rename(columns={"value_a": "a", "value_b": "b"}).dropna(subset=["a", "b"])
    if both.empty:
        raise InputError(
            "nothing to compare: the files need a metric and triplets in common, and models unless "
            f"the first file has only one; {_contents(a, of_a)}; {_contents(b, of_b)}"
        )
    differences = sides_compared(of_a, of_b, cluster)
    means = both.groupby(_CELL)[["a", "b"]].mean()
    parts = with_verdicts(differences.join(means, on=_CELL, how="inner"))
    return {
        "parts": in_order(parts[[*_CELL, "a", "b", *DIFFERENCE_COLUMNS]]),
        "answers": _answers_compared(both),
    }


def _contents(path: FilePath, values: pd.DataFrame) -> str:
    """What a file has of each thing by which answers are joined, for a message."""
    found = [f"{column} {_few(values[column].unique())}" for column in [*_CELL[:2], "triplet_id"]]
    return f"{path} has {series(found)}"


def _few(names: Sequence[str]) -> str:
    """The names in one phrase, and beyond six only how many more there are."""
    shown = [visible(name, 100) for name in names[:_MOST_NAMES]]
    left_out = len(names) - len(shown)
    return series([*shown, f"{left_out} more"] if left_out else shown)


def _models_compared(values: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """Every model minus every smaller one, over the triplets that both answered."""
    n_models = values["model"].nunique()
    if n_models < 2:
        raise InputError(
            "nothing to compare: one file needs two models with a metric in common, and has "
            f"{n_models}; name a second file"
        )
    return paired_table(values, cluster=cluster)


def sides_compared(of_a: pd.DataFrame, of_b: pd.DataFrame, cluster: str) -> pd.DataFrame:
    """For each model its values in `of_a` minus its values in `of_b`, by metric and part."""
    sides = pd.concat([of_a.assign(side="a"), of_b.assign(side="b")])
    tables = []
    for model, rows in sides.groupby("model"):
        if rows["side"].nunique() == 1:
            continue  # a model of one file only has no difference
        # Of the sides that `paired_table` is given, the later one minus the earlier one.
        table = paired_table(rows.assign(model=rows["side"]), models=["b", "a"], cluster=cluster)
        tables.append(table.drop(columns=["a", "b"]).assign(model=model))
    return pd.concat(tables)


def _answers_compared(both: pd.DataFrame) -> pd.DataFrame:
    """F1 (or Score) of each answer on both sides and a minus b, the largest difference first."""
    answers = both[both["part"].isin(["F1", "Score"])]
    answers = answers[["metric", "model", "triplet_id", "a", "b"]]
    answers = answers.assign(difference=answers["a"] - answers["b"])
    return answers.sort_values("difference", key=abs, ascending=False, ignore_index=True)


def comparison_text(tables: Mapping[str, pd.DataFrame], a: str, b: str | None = None) -> str:
    """The tables of `compare_results` for a terminal, with the five answers that differ most.

    `a` and `b` are the files that were compared. The column `higher` names one of them, or a model,
    where a difference is clear. The last line warns of values without a judge.
    """
    lines = [_SIGN]
    if b is None:
        lines.append(table_text(pairs_table(tables["parts"])))
    else:
        lines = [f"a: {visible(a)}", f"b: {visible(b)}", *lines]
        lines.append(table_text(pairs_table(tables["parts"], a, b)))
        answers = tables["answers"].head(5)
        differ = answers[answers["difference"].abs() >= 0.0005]  # else the table shows 0.000
        if len(differ):
            lines += ["", "Answers that differ most:", table_text(differ)]
    if warning := warning_of(tables):
        lines.append(warning)
    return "\n".join(lines)


def comparison_markdown(
    tables: Mapping[str, pd.DataFrame],
    a: str,
    b: str | None = None,
    failed: Sequence[str] | None = None,
) -> str:
    """A comparison in Markdown: warning, verdict, ten rows at most, and what failed in a gate.

    The rows whose difference is clear stand first. `failed` is None where there is no gate.
    """
    parts = tables["parts"].sort_values("clear", ascending=False, kind="stable")
    files: tuple[str, ...] = ()
    sign = _SIGN
    if b is not None:
        files = a, b
        sign = f"a is {in_markdown(a)}, b is {in_markdown(b)}. {_SIGN}"
    table = markdown_table(pairs_table(parts, *files))
    outcome = "" if failed is None else outcome_text(failed)
    blocks = [warning_of(tables), _bold(compared_verdict(parts, *files)), sign, table, outcome]
    return "\n\n".join(filter(None, blocks))


def means_markdown(
    summary: pd.DataFrame, values: pd.DataFrame, cluster: str, warning: str = ""
) -> str:
    """Means in Markdown: the warning, a verdict, ten rows at most.

    The verdict is on `values`, which are those of F1 and Score.
    """
    sentences = _bold(compared_verdict(paired_table(values, cluster=cluster)))
    return "\n\n".join(filter(None, [warning, sentences, markdown_table(means_table(summary))]))


def _bold(text: str) -> str:
    return f"**{in_markdown(text)}**" if text else ""


def compared_verdict(parts: pd.DataFrame, a: str = "", b: str = "") -> str:
    """Sentences: which side is clearly better, and in what.

    `parts` are those of `compare_results` of the files `a` and `b`; without them, pairs of models.
    What compares words decides nothing and is left out; "" where nothing else is compared.
    """
    parts = parts[parts["compares"] != "words"]
    if parts.empty:
        return ""
    names = parts["metric"] + " " + parts["part"]
    if b:
        names += " of " + parts["model"]
        parts = parts.assign(a=a, b=b)
    b_is_worse = is_worse(parts)
    better = parts["a"].where(b_is_worse, parts["b"])
    worse = parts["b"].where(b_is_worse, parts["a"])
    is_clear = parts["clear"]
    sentences = []
    for sides, of_sides in names[is_clear].groupby([better[is_clear], worse[is_clear]], sort=False):
        sentences.append(f"{sides[0]} is clearly better than {sides[1]} in {_few(list(of_sides))}.")
    if not sentences:
        return f"No difference is clear, over {parts['n'].max()} questions."
    left_out = len(sentences) - _MOST_NAMES
    if left_out > 0:
        sentences[_MOST_NAMES:] = [f"{left_out} more pairs differ clearly."]
    return " ".join(sentences)


def warning_of(tables: Mapping[str, pd.DataFrame]) -> str:
    """What must be said of a comparison of `compare_results` without a judge; "" with one."""
    return "" if "meaning" in set(tables["parts"]["compares"]) else WITHOUT_JUDGE


def _values(path: FilePath, metrics: Sequence[str]) -> pd.DataFrame:
    """The frame of values of a file; of some metrics if `metrics` names them."""
    rows: list[ValueRow] = []
    there = set()
    for name, result in iter_results(path):
        for row in value_rows(result, name):
            there.add(row.metric)
            if not metrics or row.metric in metrics:
                rows.append(row)
    for metric in metrics:
        if metric not in there:
            raise InputError(
                f"{path} has no metric {metric!r}; it has {_few(sorted(there))}"
                f"{did_you_mean(metric, there)}"
            )
    return of_rows(rows)
