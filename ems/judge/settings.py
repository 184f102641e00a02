"""The settings of a judge: their checks, and how a profile names them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..terminal import did_you_mean
from ..types import InputError
from .store import Replies

MODES = ("replay", "live", "plan")
LOWER_LIMITS = {"workers": 1, "timeout": 0.001}  # other numbers are 0 or more


def check_settings(mode: str, **numbers: float) -> None:
    """InputError for a mode that is none of MODES, or a number that is none or too small."""
    if mode not in MODES:
        raise InputError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    for name, value in numbers.items():
        least = LOWER_LIMITS.get(name, 0)
        if not (isinstance(value, (int, float)) and value >= least):
            raise InputError(f"{name} must be a number, at least {least}, got {value!r}")


def judge_arguments(
    settings: Mapping[str, Any], folder: Path, root: Path, parameters: Collection[str]
) -> dict[str, Any] | None:
    """Arguments for the `parameters` of LLMJudge, from a profile's JUDGE mapping.

    None when it names no model. See `LLMJudge.of`.
    """
    names = {*parameters, "recorded", "key_env"} - {"api_key"}
    for name in settings:
        if name not in names:
            raise InputError(
                f"JUDGE has no {name!r}{did_you_mean(name, names)}. A key is never given: key_env "
                "names its variable"
            )
    arguments: dict[str, Any] = {"mode": "replay"}
    for name, value in settings.items():
        if value not in ("", [], {}):
            arguments[name] = value
    if "model" not in arguments:
        return None
    variable = str(arguments.pop("key_env", ""))
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|none|", variable):
        raise InputError("JUDGE.key_env must name an environment variable, such as MISTRAL_API_KEY")
    key = variable if variable == "none" else os.environ.get(variable, "").strip()
    if variable and not key and arguments["mode"] == "live":
        # The key of another service must not be sent to this address instead.
        raise InputError(
            f"no key in {variable} for {arguments['model']}; set that environment variable"
        )
    path = folder / "replies.sqlite"
    if "store" in arguments:
        path = root / arguments["store"]
    leaves_no_file = arguments["mode"] == "plan" and not path.exists()
    recorded = [root / file for file in arguments.pop("recorded", ())]
    store = Replies(None if leaves_no_file else path, recorded)
    return {**arguments, "store": store, "api_key": key}
