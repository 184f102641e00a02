"""promptfoo: an assertion with one component for each reference point, which its table shows."""

from typing import Any

from ..analysis.view import COVERED, alignment_rows
from ..types import InputError
from . import PARTS, evaluator


def get_assert(output: str, context: dict[str, Any]) -> dict[str, Any]:
    """Passes when recall against the variable `reference` is at least the threshold (0.5); unscored fails."""
    config, given = {"threshold": 0.5, **(context.get("config") or {})}, context["vars"]
    if "reference" not in given:
        raise InputError(f"the test's vars need a 'reference', got {', '.join(given)}")
    threshold = config.pop("threshold")
    result = (
        evaluator(**config).score(given["reference"], output, given.get("question", "")).to_dict()
    )
    recall, components = result["recall"], []
    for row in (row for row in alignment_rows(result) if row.ref is not None):
        beside = "" if row.ans is None else f" | {result['ans_points'][row.ans]}"
        components.append(
            {
                "pass": row.word == COVERED,
                "score": row.score or 0.0,
                "reason": f"{row.word}: {result['ref_points'][row.ref]}{beside}",
            }
        )
    return {
        "pass": recall is not None and recall >= threshold,
        "score": recall or 0.0,
        "reason": f"unscored: {result['reason']}" if recall is None else f"recall {recall:.2f}",
        "namedScores": {part: result[part] for part in PARTS if result[part] is not None},
        "componentResults": components,
    }
