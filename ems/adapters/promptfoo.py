"""An assertion for promptfoo with a component for each reference point, which its table shows."""

from typing import Any

from ..analysis.view import COVERED, alignment_rows
from ..types import WITHOUT_JUDGE, InputError
from . import METRIC_PARTS, evaluator


def get_assert(output: str, context: dict[str, Any]) -> dict[str, Any]:
    """The grade of an output against the test's variable `reference`.

    By a judge it is recall, and passes from the threshold on (default 0.5). Without one it is the
    share of the output's figures that the reference has, and the default threshold is 1. Other
    settings are those of `adapters.evaluator`. An output that has no grade fails.
    """
    config = dict(context.get("config") or {})
    variables = context["vars"]
    if "reference" not in variables:
        raise InputError(f"the test's vars need a 'reference', got {', '.join(variables)}")
    question = variables.get("question", "")
    threshold = config.pop("threshold", None)
    result = evaluator(**config).score(variables["reference"], output, question).to_dict()
    if "judge" in result["signature"]:
        default = 0.5
        grade, reason = _by_judge(result)
    else:
        default = 1.0
        grade, reason = _by_figures(result)
    return {
        "pass": grade is not None and grade >= (default if threshold is None else threshold),
        "score": grade or 0.0,
        "reason": reason,
        "namedScores": {part: result[part] for part in METRIC_PARTS if result[part] is not None},
        "componentResults": _components(result),
    }


def _by_judge(result: dict[str, Any]) -> tuple[float | None, str]:
    """Recall, None where it is unscored, and a text that says so."""
    recall = result["recall"]
    if recall is None:
        return None, f"unscored: {result['reason']}"
    return recall, f"recall {recall:.2f}"


def _by_figures(result: dict[str, Any]) -> tuple[float | None, str]:
    """The share of the output's figures that the reference has, None without figures; as above."""
    figures = result["figures"]["ans"]
    if not figures["count"]:
        return None, f"unscored: the output has no figure. {WITHOUT_JUDGE}"
    text = f"{figures['shared']} of {figures['count']} figures are in the reference"
    return figures["shared"] / figures["count"], f"{text}. {WITHOUT_JUDGE}"


def _components(result: dict[str, Any]) -> list[dict[str, Any]]:
    """A grade for each reference point."""
    components = []
    for row in alignment_rows(result):
        if row.ref is None:
            continue
        reason = f"{row.word}: {result['ref_points'][row.ref]}"
        if row.ans is not None:
            reason += f" | {result['ans_points'][row.ans]}"
        passes = row.word == COVERED
        components.append({"pass": passes, "score": row.score or 0.0, "reason": reason})
    return components
