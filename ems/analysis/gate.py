"""Gates for CI: means beyond a threshold, and clear losses against earlier results.

`assert_gate` is for a test of your own (docs/ci.md); the commands `evaluate` and `compare` use the
rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ..terminal import did_you_mean, visible
from ..types import InputError, Signature, rendered
from .findings import clear_wins, series, why_none_can_be_clear
from .frames import (
    FIGURES_METRIC,
    HIGHER_IS_WORSE,
    PART_ORDER,
    GivenResults,
    basis_of,
    to_frame,
)
from .stats import summarise
from .tables import in_markdown, percent, with_interval
from .view import asks_what_is_contradicted

_OWN = "|metric:"  # in the signature of a metric of the user's own
_ROUNDING = 1e-9  # a mean that is this little beyond a threshold is equal to it


class Threshold(NamedTuple):
    """A bound for the mean of every model: an upper one for a part of HIGHER_IS_WORSE."""

    name: str  # "recall", of every metric but Figures, or "figures recall", of one; in lower case
    part: str  # one of PART_ORDER, or the name of a metric of the user's own
    value: float  # from 0 to 1


def thresholds_of(
    fail_under: Mapping[str, Any],
    fail_over: Mapping[str, Any],
    parts: Sequence[str] = PART_ORDER,
) -> list[Threshold]:
    """Thresholds from their values, by name: "recall" or "Figures Recall", in any case.

    `fail_under` is for what should be high, `fail_over` for what should be low. `parts` are the
    names that there are; a metric of the user's own has its name in place of a part. InputError for
    a part that is none or belongs to the other, and for a value that is no number from 0 to 1.
    """
    thresholds = []
    for direction, values in (("under", fail_under), ("over", fail_over)):
        for name, value in values.items():
            thresholds.append(_threshold(direction, name, value, parts))
    return thresholds


def _threshold(direction: str, name: str, value: Any, names: Sequence[str]) -> Threshold:
    words = " ".join(name.casefold().split())
    parts = [part for part in names if f" {words}".endswith(f" {part.casefold()}")]
    if not parts:
        raise InputError(
            f"a threshold reads PART=VALUE or METRIC PART=VALUE, with one of {series(names)}; "
            f"got {name!r}={value}{did_you_mean(words.capitalize(), names)}"
        )
    right = "over" if parts[0] in HIGHER_IS_WORSE else "under"
    if direction != right:
        raise InputError(f"{name}={value} bounds the wrong side: take --fail-{right} for {name}")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InputError(f"the threshold of {name} must be a number from 0 to 1, got {value!r}")
    if parts[0] not in PART_ORDER:
        words += " score"  # the only part of a metric of the user's own
    return Threshold(words, parts[0], number)


def check_thresholds(thresholds: Iterable[Threshold], signature: Signature) -> None:
    """InputError for a threshold on what an evaluator with this signature cannot give.

    That is a mean that compares words, and what is contradicted where nobody is asked about it.
    """
    for name, part, _ in thresholds:
        if not name.startswith(FIGURES_METRIC.lower()):
            _refuse_words(name, "", rendered(signature))
            if part in PART_ORDER and (part == "Score") != ("judge_alone" in signature):
                raise InputError(
                    f"this scorer gives no {name}: --scorer judge gives a score, and every other "
                    "one precision, recall and f1"
                )
        if "contradicted" in part.lower() and not asks_what_is_contradicted(signature):
            raise InputError(f"{name} needs --scorer coverage and a judge: no other finds it")


def _refuse_words(name: str, metric: str, signature: str) -> None:
    """InputError where the values of a metric compare words, unless it is the user's own."""
    if basis_of(metric, [signature]) == "words" and _OWN not in signature:
        raise InputError(
            f"{name} compares words where no judge is asked, not meaning, and no gate can rest on "
            f"that: name a judge, or take {FIGURES_METRIC}, such as 'Figures Precision'"
        )


def gate_failures(summary: pd.DataFrame, thresholds: Iterable[Threshold]) -> list[str]:
    """A line for each model and metric whose mean breaks a threshold, with its interval.

    `summary` is that of `stats.summarise`. A model that does not have the mean breaks the
    threshold, and so does a mean that `summary` flags: under 95 % is scored. InputError for a mean
    that compares words.
    """
    part = summary["part"].str.casefold()
    full_name = summary["metric"].str.casefold() + " " + part
    name = part.where(summary["metric"] != FIGURES_METRIC, full_name)
    lines = []
    for threshold in thresholds:
        means = summary[(name == threshold.name) | (full_name == threshold.name)]
        lines += [_failure(mean, threshold) for mean in means.to_dict("records")]
        for model in sorted(set(summary["model"]).difference(means["model"])):
            lines.append(f"{visible(model)}: the results have no {threshold.name}")
    return [line for line in lines if line]


def _failure(mean: Mapping[str, Any], threshold: Threshold) -> str:
    """A line on how a mean breaks a threshold; "" where it does not."""
    _refuse_words(threshold.name, mean["metric"], mean["signature"])
    room, side = mean["value"] - threshold.value, "under"
    if threshold.part in HIGHER_IS_WORSE:
        room, side = -room, "over"
    value = with_interval(mean["value"], mean["ci_low"], mean["ci_high"])
    text = f"{visible(mean['model'])}: {mean['metric']} {mean['part']} {value}"
    if not room >= -_ROUNDING:  # so that nan breaks it
        return f"{text} is {side} the threshold {threshold.value:g}"
    if mean["flagged"]:
        scored = percent(mean["scored"])
        return f"{text} rests on {mean['n']} answers and {scored} of their points; 95 % are needed"
    return ""


def assert_gate(
    results: GivenResults,
    *,
    fail_under: Mapping[str, float] | None = None,
    fail_over: Mapping[str, float] | None = None,
    cluster: str = "group",
) -> None:
    """AssertionError unless the mean of every model keeps to the thresholds, as in `ems evaluate`.

    `results` are what `to_frame` takes. Thresholds are given by name, `fail_under={"recall": 0.7,
    "Figures Precision": 0.95}, fail_over={"contradicted": 0.05}`; see `thresholds_of` and
    `gate_failures`, also for InputError.
    """
    summary = summarise(to_frame(results), cluster=cluster)
    own = summary.loc[summary["signature"].str.contains(_OWN, regex=False), "metric"]
    thresholds = thresholds_of(fail_under or {}, fail_over or {}, [*PART_ORDER, *own.unique()])
    if not thresholds:
        raise InputError("assert_gate needs a threshold, in fail_under or fail_over")
    failed = gate_failures(summary, thresholds)
    if failed:
        raise AssertionError("\n".join(failed))


def regressions(parts: pd.DataFrame) -> list[str]:
    """A line for each clear loss from `a`, the old results, to `b`, the new ones.

    Where there is one, a line for each clear gain follows. `parts` are those of
    `compare.compare_results`. InputError where words are compared, and where no difference can be
    clear: too few clusters.
    """
    for metric in parts.loc[parts["compares"] == "words", "metric"]:
        _refuse_words(metric, metric, "")
    reasons = [why_none_can_be_clear(rows) for _, rows in parts.groupby(["metric", "part"])]
    if all(reasons):
        raise InputError(f"--fail-on-regression cannot fail. {reasons[0]}")
    wins = clear_wins(parts)
    lines: dict[str, list[str]] = {"loss": [], "gain": []}
    for row in wins.to_dict("records"):
        kind = "loss" if row["better"] == row["a"] else "gain"
        difference = with_interval(row["difference"], row["ci_low"], row["ci_high"])
        lines[kind].append(
            f"{visible(row['model'])}: {row['metric']} {row['part']} was {row['a']:.3f} and is "
            f"{row['b']:.3f}, a clear {kind}: difference {difference}, p {row['p_holm']:.3g}"
        )
    return lines["loss"] and lines["loss"] + lines["gain"]


def outcome_text(failed: Sequence[str], notes: Sequence[str] = ()) -> str:
    """What a gate says in Markdown: that it is passed, or what failed, and what is to be noted."""
    outcome = "has failed" if failed else "is passed"
    lines = [f"- {in_markdown(line)}" for line in [*failed, *notes]]
    return "\n".join([f"**The gate {outcome}.**", "", *lines]).rstrip()
