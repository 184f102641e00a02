"""Does an endpoint still offer the model? Asked once for a model at an address, before its first question.

Models are retired. A run over several models should say so before the first of them costs anything.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ..asking import Request
from .wire import OPTIONAL, Failed, JudgeUnavailable

if TYPE_CHECKING:
    from .calls import Calls

LISTING = 20.0           # seconds to wait for the list of models, and for the one word of a model not in it
NAMED = 3                # other models to name
SHOWN = 80               # characters of a name in a message
PROBE = Request("probe", "Reply with one word: yes", 16)
NO_MODEL = re.compile(r"\bmodel\b", re.IGNORECASE)
WAY_ON = ('no question was sent to it. Another model gives other values: docs/running.md, "When a judge is '
          'gone", says how to compare the two on the same points')
log = logging.getLogger("ems")


async def check_offered(calls: Calls) -> None:
    """JudgeUnavailable, with near names, when the endpoint does not offer the judge's model.

    The endpoint's list (GET /models) is not enough to refuse a model: without listing them, servers answer to
    deployments, to aliases and, where they serve one model, to any name. So a model that is not listed is
    asked for one word, and is missing only if the endpoint refuses that. Two things are logged as warnings: a
    model that answers and is not listed, and a date of deprecation in the list.
    """
    judge, endpoint = calls.judge, calls.judge.endpoint
    seconds = min(LISTING, judge.timeout)
    listed = await endpoint.listed_models(seconds)
    entry = find(judge.model, listed)
    if entry is not None:
        if isinstance(date := entry.get("deprecation"), str):
            log.warning("%r at %s: deprecated from %r on, says its endpoint", judge.model, endpoint.where,
                        date[:SHOWN])
    elif listed:
        others = _others(judge.model, listed)
        if refusal := await _refusal(calls, seconds):
            raise JudgeUnavailable(f"{judge.model} at {endpoint.where}: no such model there ({refusal}); "
                                   f"{others}; {WAY_ON}")
        log.warning("%r at %s: not in the endpoint's list of models (%s), but it answers; its replies are "
                    "saved under this name", judge.model, endpoint.where, others)


def find(model: str, listed: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The entry of a list of models that a name means, None when there is none.

    Names are read as services write them: aliases, `models/NAME`, `NAME:latest`, patterns (`openai/*`), and a
    name with a variant that is not in the list (`NAME:free`). Capitals do not count.
    """
    asked = {model.casefold(), model.rpartition(":")[0].casefold()} - {""}
    for entry in listed:
        aliases = entry.get("aliases")
        names = [entry["id"], *(aliases if isinstance(aliases, list) else ())]
        shown = [str(name).casefold().removeprefix("models/").removesuffix(":latest") for name in names]
        if any(fnmatchcase(name, pattern) for name in asked for pattern in shown):
            return entry
    return None


def _others(model: str, listed: Iterable[Mapping[str, Any]]) -> str:
    """The names in a list that are nearest to one, or its first, for people."""
    names = sorted(entry["id"][:SHOWN] for entry in listed)
    near = get_close_matches(model, names, n=NAMED)
    return ("near names: " if near else "it lists ") + ", ".join(map(repr, near or names[:NAMED]))


async def _refusal(calls: Calls, seconds: float) -> str:
    """Why the endpoint refuses this model, in its words; "" when it answers, or fails for another reason."""
    judge = calls.judge
    try:
        async with asyncio.timeout(seconds), calls.within_limit(PROBE, asyncio.Event()):
            judge.account.call(PROBE.task)
            body = judge.endpoint.body(PROBE.prompt, max_tokens=PROBE.max_tokens)
            judge.count_call(PROBE, await judge.endpoint.post(body))
    except TimeoutError:
        pass
    except Failed as failed:
        parameter = any(name in failed.message for name in OPTIONAL)
        model = failed.reason in ("http 400", "http 422") and NO_MODEL.search(failed.message)
        if failed.reason == "http 404" or (model and not parameter):
            return f"{failed.reason}: {failed.message or 'no message'}"
    return ""
