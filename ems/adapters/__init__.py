"""EMS inside inspect_ai, mlflow and promptfoo. A module imports its tool; `import ems` imports none."""

from functools import cache
from importlib import import_module
from typing import Any

from ..evaluators import build
from ..judge.client import LLMJudge
from ..types import InputError

PARTS = "recall", "precision", "f1"


def tool(name: str) -> Any:
    """The module of this tool; InputError with the line that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(f"this adapter needs {name}: pip install '.[{name}]' ({error})") from error


@cache
def evaluator(
    judge: Any = None, scorer: str | None = None, joint: bool = False, **unknown: object
) -> Any:
    """As `ems.build`, made once for the same settings; a judge may be a model's name."""
    if unknown or scorer == "judge":
        raise InputError(
            f"settings: judge, joint, a scorer other than 'judge'; got {scorer!r}, {[*unknown]}"
        )
    return build(LLMJudge(judge) if isinstance(judge, str) else judge, scorer, joint=joint)
