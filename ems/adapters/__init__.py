"""EMS inside inspect_ai, mlflow and promptfoo: a module for each.

`import ems` imports none of these tools.
"""

from functools import cache
from importlib import import_module
from typing import Any

from ..evaluators import build
from ..types import InputError

METRIC_PARTS = ("recall", "precision", "f1")


def tool(name: str) -> Any:
    """The module of this tool. InputError, with the line that installs it, when it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        extra = name.replace("_", "-")  # old versions of pip find no other spelling
        raise InputError(
            f"this adapter needs {name}: pip install '.[{extra}]' ({error})"
        ) from error


@cache
def evaluator(
    judge: Any = None, scorer: str | None = None, joint: bool = False, **unknown: object
) -> Any:
    """The evaluator that `ems.build` makes, kept for the next call with the same settings.

    `judge` may be the name of a model. InputError for a setting that an adapter does not have, and
    for the scorer "judge", which has no recall.
    """
    if unknown or scorer == "judge":
        raise InputError(
            f"settings: judge, joint, a scorer other than 'judge'; got {scorer!r}, {[*unknown]}"
        )
    return build(judge, scorer, joint=joint)
