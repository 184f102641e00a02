"""mlflow: a scorer for `mlflow.genai.evaluate`."""

from typing import Any

from ..types import InputError
from . import PARTS, evaluator, tool

mlflow = tool("mlflow")


def ems_scorer(judge: Any = None, scorer: str | None = None, joint: bool = False) -> Any:
    """Feedbacks on outputs against `expected_response`; where unscored, an error in place of a value."""

    @mlflow.genai.scorer(name="ems")
    def score(inputs: Any, outputs: Any, expectations: Any) -> Any:
        reference = (expectations or {}).get("expected_response")
        if not isinstance(outputs, str) or not isinstance(reference, str):
            raise InputError(
                f"outputs and expected_response are texts: {outputs!r:.29}, {reference!r:.29}"
            )
        result = evaluator(judge, scorer, joint).score(
            reference, outputs, inputs.get("question", "")
        )
        values = result.to_dict()
        return [
            mlflow.entities.Feedback(
                part,
                values[part],
                rationale=f"```text\n{result}```",
                error=values["reason"] if values[part] is None else None,
            )
            for part in PARTS
        ]

    return score
