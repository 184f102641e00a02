"""What can be known to be missing before a kernel starts: files, calls, models.

A run of hours should not stop in its middle for want of a file, nor pay for answers that no judge is left to
judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...judge.endpoint import ModelEndpoint
from ...judge.store import Replies
from ...types import InputError
from ..dataset import calls
from .steps import prompt_set

Parameters = Mapping[str, Any]
LEAST = {"RESAMPLES": 1, "REPEATS": 1, "WORKERS": 1, "MAX_SCORE": 1}     # of a parameter; of every other: 0


def check_inputs(root: Path, name: str, p: Parameters) -> None:
    """InputError when a number is too small, or parameters name a prompt set, recorded replies or data that
    do not exist.
    """
    for parameter, value in p.items():
        if isinstance(value, (int, float)) and not value >= LEAST.get(parameter, 0):
            raise InputError(f"{name}: {parameter} must be {LEAST.get(parameter, 0)} or more, got {value}")
    if "PROMPTS" in p:
        prompt_set(root, p["PROMPTS"])
    files = {"REPLIES": p.get("REPLIES", []), "TRANSCRIPTS": [p.get("TRANSCRIPTS", "")]}
    if p.get("SOURCE") == "files":
        files |= {"TRIPLETS": [p["TRIPLETS"] or "."], "ANSWERS": [] if p["WRITERS"] else [p["ANSWERS"]]}
    for parameter, paths in files.items():
        for path in paths:
            if path and not (root / path).exists():
                raise InputError(f"{name}: {parameter} names {path}, which does not exist; put it there, or "
                                 "name another place")
    writers = [*p.get("WRITERS", ()), *p.get("REFERENCE_WRITERS", ())]
    readers = [model for model in writers if model.get("context_chars") != 0]
    if readers and p["SOURCE"] == "q3-2024" and not p["TRANSCRIPTS"]:
        raise InputError(f"{name}: {readers[0].get('model')} reads the calls, so TRANSCRIPTS must name the "
                         "folder that holds them; or give it context_chars: 0")


def check_transcripts(root: Path, notebooks: Iterable[Parameters]) -> None:
    """InputError that names every call of a run which TRANSCRIPTS does not have, and why.

    `notebooks` holds the parameters of the notebooks that are to run. The calls are read and checked as the
    notebooks do it (`calls.find_transcript`).
    """
    wanted: dict[tuple[str, str], Mapping[str, str]] = {}
    for p in notebooks:
        if p.get("TRANSCRIPTS") and p.get("SOURCE", calls.OWN) == calls.OWN:
            wanted |= {(p["TRANSCRIPTS"], company["ticker"]): company
                       for company in calls.load_companies(root / "data" / "companies.csv")
                       if not p.get("COMPANIES") or company["ticker"] in p["COMPANIES"]}
    refused = {}
    for (place, ticker), company in wanted.items():
        try:
            calls.find_transcript(company, root / place)
        except InputError as error:
            refused[ticker] = str(error)
    if refused:
        reasons = "; ".join(f"{ticker}: {reason}" for ticker, reason in refused.items())
        raise InputError(f"TRANSCRIPTS: of {len(wanted)} calls, {len(refused)} cannot be used. {reasons}. "
                         "Put them there, or name in COMPANIES those that you have")


def check_models(root: Path, store: Path, notebooks: Sequence[Parameters]) -> None:
    """InputError when a model that a live run would ask is not offered by its endpoint, or lacks its key.

    A model with replies in the run's store or in REPLIES is passed over, unless it is to be asked again: all
    that is wanted of it may be there already, and if not, its first question looks it up.
    """
    live = [p for p in notebooks if p.get("MODE", "replay") != "replay"]
    if not live:
        return
    recorded = {root / name for p in live for name in p.get("REPLIES", ())}
    saved = Replies(store if store.exists() else None, recorded=sorted(recorded))
    known = {row["model"] for row in saved.stats()}
    wanted = {(name, model.base_url): model for p in live for model in _models(p)
              if (name := model.served or model.model) not in known or p["MODE"] == "refresh"}
    for model in wanted.values():
        model.judge().check_offered()


def _models(p: Parameters) -> list[ModelEndpoint]:
    """The models that a notebook would ask; not those that are only read from their recording."""
    judge = {"model": p.get("JUDGE", ""), "base_url": p.get("BASE_URL", ""), "key_env": p.get("KEY_ENV", "")}
    entries = [*p.get("WRITERS", ()), *p.get("REFERENCE_WRITERS", ()), p.get("CONSOLIDATOR"),
               judge if judge["model"] else None, p.get("OTHER_JUDGE"), *p.get("JUDGES", ())]
    return [model for model in map(ModelEndpoint.of, filter(None, entries)) if not model.recorded]
