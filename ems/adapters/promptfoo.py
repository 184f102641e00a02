"""An assertion for promptfoo with a component for each reference point, which its table shows."""

from typing import Any

from ..analysis.view import COVERED, alignment_rows
from ..types import InputError
from . import METRIC_PARTS, evaluator


def get_assert(output: str, context: dict[str, Any]) -> dict[str, Any]:
    """The grade of an output: it passes when its recall is at least the threshold.

    The test's variable `reference` is what the output is evaluated against. Settings are
    `threshold` (default 0.5) and those of `adapters.evaluator`. An unscored output fails.
    """
    config = {"threshold": 0.5, **(context.get("config") or {})}
    variables = context["vars"]
    if "reference" not in variables:
        raise InputError(f"the test's vars need a 'reference', got {', '.join(variables)}")
    threshold = config.pop("threshold")
    question = variables.get("question", "")
    result = evaluator(**config).score(variables["reference"], output, question).to_dict()
    recall = result["recall"]
    return {
        "pass": recall is not None and recall >= threshold,
        "score": recall or 0.0,
        "reason": f"unscored: {result['reason']}" if recall is None else f"recall {recall:.2f}",
        "namedScores": {part: result[part] for part in METRIC_PARTS if result[part] is not None},
        "componentResults": _components(result),
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
