"""From options to a judge and its pipeline; what the judge cost and left unread; the exit status."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..judge.client import LLMJudge
from ..judge.store import Replies
from ..pipeline import EMS
from ..presets import build
from ..prompting import Prompts
from ..types import EMSResult, InputError
from .output import as_text, say
from .parser import JUDGE_OPTIONS

COVERAGE = 0.95          # share of points, and of answers, that must be scored for exit status 0


def pipeline_of(args: argparse.Namespace, planner: Any = None) -> EMS:
    """The stages that the options name, with the judge that they name or the planner of a dry run."""
    judge = None if args.judge == "none" else planner or judge_of(args)
    return build(judge, **stage_settings(args, counted=planner is not None), support=args.support)


def stage_settings(args: argparse.Namespace, counted: bool = False) -> dict[str, Any]:
    """What `presets.build` takes beside a judge; `counted`, for a dry run."""
    scorer = args.scorer or ("local" if args.judge == "none" else "llm")
    if scorer == "llm-sampled" and args.judge != "none" and args.temperature == 0:
        raise InputError("llm-sampled is the mean of several replies, which hardly differ at temperature 0; "
                         "give --temperature 1, or --scorer llm")
    if counted and scorer in ("rouge", "bleu", "bertscore"):
        scorer = "local-pair"                # scores matches without a call as well, and loads nothing
    return {"scorer": scorer, "encoder": args.encoder, "prompts": Prompts.named(args.prompts),
            "variant": args.variant, "max_score": args.max_score}


def check_judge_options(args: argparse.Namespace) -> None:
    """InputError when there is no judge for the options that are about one."""
    given = [name for name, default in JUDGE_OPTIONS.items() if getattr(args, name) != default]
    if args.judge == "none" and given:
        named = ", ".join("--" + name.replace("_", "-") for name in given)
        raise InputError(f"without a judge there is nothing that {named} could change; name one with --judge "
                         "MODEL, or leave the option out")


def judge_of(args: argparse.Namespace, model: str = "", store: Replies | None = None) -> LLMJudge:
    """The judge that the options name, or another `model` with the same options, on its store or a given one.

    Without --key-env its key is the official client's business.
    """
    key = None if args.key_env is None else os.environ.get(args.key_env)
    if args.key_env is not None and not key:
        raise InputError(f"--key-env {args.key_env}: there is no such environment variable, or it is empty; "
                         "it must hold the judge's key, and --key-env its name")
    if store is None:
        absent = getattr(args, "dry_run", False) and not Path(args.store).exists()   # a dry run makes no file
        store = Replies(None if absent else args.store, recorded=args.recorded or ())
    prices = dict(zip(("prompt", "completion", "cached"), args.prices or (), strict=False))
    return LLMJudge(model or args.judge, store=store, mode=args.mode, base_url=args.base_url, api_key=key,
                    workers=args.workers, timeout=args.timeout, seed=args.seed, weights=args.weights,
                    temperature=args.temperature, thinking_tokens=args.thinking_tokens, prices=prices,
                    spend_limit=args.spend_limit)


def status(results: Sequence[EMSResult], judges: Sequence[Any], unread: Counter[str] | None = None) -> int:
    """The exit status, and where it is not 0 one line: what is unscored, why, the server's last message."""
    units = sum(max(len(r.match), r.unscored) for r in results)
    unscored = sum(r.unscored for r in results)
    lost = sum(r.unscored > 0 and math.isnan(r.f1) for r in results)
    if results and not units:
        say(f"nothing could be scored: {results[0].reason or 'no points'}")
        return 3
    if not units or min(1 - unscored / units, 1 - lost / len(results)) >= COVERAGE:
        return 0
    reasons = ", ".join(f"{reason} {n}" for reason, n in (unread or Counter()).most_common())
    messages = [text for judge in judges for text in getattr(judge, "complaints", {}).values()]
    message = f" ({messages[-1]})" if messages else ""
    why = f". Without a usable reply: {reasons}{message}" if reasons else message
    if any(reason.endswith(": length") for reason in unread or ()):
        why += "; a reply cut by its length may be one of a model that thinks first: give --thinking-tokens"
    whole = f", {lost} of {len(results)} answers altogether" if lost else ""
    say(f"{unscored} of {units} points are unscored{whole}; the values speak for the rest only{why}")
    return 3


def say_usage(judges: Sequence[Any]) -> None:
    """What the judges were asked and cost, as a table on stderr; nothing without a judge."""
    if judges:
        from ..data import judge_usage  # late: it loads pydantic
        from ..judge.budget import table

        used = table(judge_usage(*judges))
        print(as_text(used, "unknown", float_format=lambda v: f"{v:,.2f}"), file=sys.stderr)
