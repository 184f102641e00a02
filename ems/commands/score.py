"""`ems score`: one answer. It loads nothing of what many answers need, and so ends soonest."""

from __future__ import annotations

import argparse
import json

from ..io import read_text
from ..results.alignment import alignment_text
from ..types import InputError
from .judging import check_judge_options, pipeline_of, status


def score(args: argparse.Namespace) -> int:
    """One answer against one reference."""
    check_judge_options(args)
    reference, answer = read_text(args.reference), read_text(args.answer)
    if not reference.strip():
        raise InputError(f"{args.reference} is empty; nothing can be scored against it")
    pipeline = pipeline_of(args)
    result = pipeline.score(reference, answer)
    print(json.dumps(result.to_dict()) if args.json else alignment_text(result))
    return status([result], pipeline.judges, pipeline.unread)
