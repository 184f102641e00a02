"""An assertion for promptfoo with a component for each reference point, which its table shows."""

from math import isnan
from typing import Any

from ..analysis.view import COVERED, alignment_rows, asks_what_is_contradicted
from ..types import WITHOUT_JUDGE, InputError
from . import METRIC_PARTS, evaluator


def get_assert(output: str, context: dict[str, Any]) -> dict[str, Any]:
    """The grade of an output against the test's variable `reference`.

    By a judge it is recall, and passes from the threshold on (default 0.5) where no more reference
    points are contradicted than `contradicted` allows (default 0); only the scorer "coverage" names
    such points. Without a judge it is the share of the output's figures that the reference has, and
    the default threshold is 1. Other settings are those of `adapters.evaluator`. An output that has
    no grade fails.
    """
    config = dict(context.get("config") or {})
    allowed = config.pop("contradicted", None)
    variables = context["vars"]
    if "reference" not in variables:
        raise InputError(f"the test's vars need a 'reference', got {', '.join(variables)}")
    threshold = config.pop("threshold", None)
    result = evaluator(**config).score(
        variables["reference"], output, variables.get("question", "")
    )
    default, grade, name = 0.5, result.recall, "recall"
    if "judge" not in result.signature:
        default, grade = 1.0, result.figures.ans.share
        name = f"{WITHOUT_JUDGE} The share of the output's figures that the reference has:"
    reasons = [f"{name} {grade:.2f}"]
    passes = grade >= (default if threshold is None else threshold)
    if asks_what_is_contradicted(result.signature):
        contradicted = len(result.contradicted)
        if contradicted:
            reasons.append(f"reference points contradicted: {contradicted}")
        passes = passes and contradicted <= (allowed or 0)
    elif allowed is not None:
        raise InputError("'contradicted' needs a judge and the scorer 'coverage'; leave it out")
    if result.reason:
        reasons.append(result.reason)
    fields = result.to_dict()
    return {
        "pass": passes,
        "score": 0.0 if isnan(grade) else grade,
        "reason": "; ".join(reasons),
        "namedScores": {part: fields[part] for part in METRIC_PARTS if fields[part] is not None},
        "componentResults": _components(fields),
    }


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
