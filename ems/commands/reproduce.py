"""`ems reproduce`, `ems triplets` and `ems prompts`: the reproduction of the paper."""

from __future__ import annotations

import argparse
from typing import Any

from ..io import write_jsonl
from ..study.dataset.calls import own_triplets
from .output import say


def triplets(args: argparse.Namespace) -> int:
    """Write the kit's own questions and references to a file, for a system of one's own to answer."""
    own = own_triplets(args.transcripts)
    write_jsonl(args.file, own)
    print(f"{len(own)} triplets{' with their calls' if args.transcripts else ''} written to {args.file}")
    return 0


def reproduce(args: argparse.Namespace) -> int:
    """Run the notebooks of a profile, or with --dry-run say what their judges would ask and cost."""
    import yaml

    from ..study.run import runner

    given: dict[str, Any] = {}
    for name, value in args.parameter or ():
        try:
            given[name] = yaml.safe_load(value) if value else ""          # YAML would read nothing as null
        except yaml.YAMLError:
            given[name] = value
    if args.dry_run:
        print(runner.plan(args.profile, only=args.only or (), given=given))
        return 0
    table = runner.reproduce(args.profile, only=args.only or (), given=given) / "table1.md"
    if table.exists() and not args.only:
        print(table.read_text(encoding="utf-8"))
    return 0


def prompts(args: argparse.Namespace) -> int:
    """Make the prompt set `paper` from a copy of the paper."""
    from ..study.paper.paper_prompts import import_prompts

    readings = [reading.partition("=")[::2] for reading in args.reading or ()]
    chosen = {name.strip(): choice.strip() for name, choice in readings}
    folder, differing = import_prompts(args.source, chosen)
    print(f"prompt set paper: 5 questions and 5 prompts in {folder}; its README.md says how the paper was "
          "read")
    if differing:
        say(f"other words than expected in {', '.join(differing)}; look them over there")
    return 0
