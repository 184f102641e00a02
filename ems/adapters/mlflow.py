"""A scorer for `mlflow.genai.evaluate`.

mlflow-skinny is enough beside a tracking server; a local database needs mlflow itself.
"""

from typing import Any

from ..types import InputError
from . import METRIC_PARTS, evaluator, tool

mlflow = tool("mlflow")


def mlflow_scorer(judge: Any = None, scorer: str | None = None, joint: bool = False) -> Any:
    """A scorer that gives feedbacks: recall, precision and F1 of outputs.

    The reference is the expectation `expected_response`. A feedback has an error in place of its
    value where the output is unscored. Without a judge the rationale warns that words are compared.
    """

    @mlflow.genai.scorer(name="ems")
    def score(inputs: Any, outputs: Any, expectations: Any) -> Any:
        reference = (expectations or {}).get("expected_response")
        if not isinstance(outputs, str) or not isinstance(reference, str):
            raise InputError(
                f"outputs and expected_response are texts: {outputs!r:.29}, {reference!r:.29}"
            )
        question = inputs.get("question", "")
        result = evaluator(judge, scorer, joint).score(reference, outputs, question)
        values = result.to_dict()
        return [
            mlflow.entities.Feedback(
                part,
                values[part],
                rationale=f"```text\n{result}```",
                error=values["reason"] if values[part] is None else None,
            )
            for part in METRIC_PARTS
        ]

    return score
