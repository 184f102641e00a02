"""The command line: `ems score | evaluate | triplets | reproduce | prompts | replies`.

Exit 0 done, 2 bad input, 3 coverage too low.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .types import EMSResult, InputError

STORE = "ems-replies.sqlite"
COVERAGE = 0.95          # share of points that must be scored for exit status 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. One line on stderr says what was wrong with the input."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args)
    except InputError as error:
        print(f"ems: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"ems: {stop or 'stopped'}", file=sys.stderr)
        return 130
    except BrokenPipeError:      # `ems ... | head` has read enough
        sys.stdout = open(os.devnull, "w")
        return 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            print("ems: the disk is full; make room and give the same command again: no saved reply is lost", file=sys.stderr)
            return 2
        if error.filename is None:
            raise
        print(f"ems: {error.filename} cannot be written or read ({error.strerror}); name another place", file=sys.stderr)
        return 2


def score(args: argparse.Namespace) -> int:
    """One answer against one reference."""
    from .io import read_text

    reference, answer = read_text(args.reference), read_text(args.answer)
    if not reference.strip():
        raise InputError(f"{args.reference} is empty; nothing can be scored against it")
    pipeline = _pipeline(args)
    result = pipeline.score(reference, answer)
    if args.json:
        print(json.dumps(result.to_dict(), ensure_ascii=False))
    else:
        from .report import alignment_text

        print(alignment_text(result))
    return _status([result], pipeline)


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a line per answer into OUT, a table per model onto the screen."""
    from .data import check_join, load_answers

    triplets, answers = _triplets(args.triplets), load_answers(args.answers)
    for model, missing in check_join(triplets, answers).items():
        print(f"ems: {model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}", file=sys.stderr)
    out = Path(args.output)
    if out.is_dir():
        raise InputError(f"{out} is a directory; give a file to write, such as {out / 'results.jsonl'}")
    if args.dry_run:
        return _plan(args, triplets, answers)
    pipeline = _pipeline(args)
    part, results = out.with_name(f".{out.name}.{os.getpid()}.part"), []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        file = part.open("w", encoding="utf-8")      # before a judge is asked for anything
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}); give another file with -o") from None
    try:
        with file:
            for result in _results(args, pipeline, triplets, answers):
                file.write(json.dumps(result.to_dict(), ensure_ascii=False) + "\n")
                results.append(_slim(result))
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    if pipeline.judges:
        print(_used(pipeline), file=sys.stderr)
    if args.json:
        print(_summary(results, triplets).to_json(orient="records"))
    else:
        print(_shown(_summary(results, triplets)))
        print(f"{len(results)} results in {out}")
    return _status(results, pipeline)


def triplets(args: argparse.Namespace) -> int:
    """Write the kit's own questions and references to a file, for a system of one's own to answer."""
    from .io import write_jsonl
    from .study.calls import own_triplets
    from .study.runner import project_root

    own = own_triplets(project_root(), args.transcripts)
    write_jsonl(args.file, own)
    print(f"{len(own)} triplets{' with their calls' if args.transcripts else ''} written to {args.file}")
    return 0


def _triplets(source: str) -> list[Any]:
    """Those of a file, or by its name the kit's own set."""
    from .data import load_triplets
    from .study.calls import OWN, own_triplets

    if source != OWN or Path(source).exists():
        return load_triplets(source)
    from .study.runner import project_root

    return own_triplets(project_root())


def _results(args: argparse.Namespace, pipeline: Any, triplets: Sequence[Any], answers: Sequence[Any]):
    if not args.scheduler:
        return pipeline.stream(triplets, answers, progress=sys.stderr.isatty())
    if pipeline.judges:
        raise InputError("--scheduler is for evaluation without a judge; a judge scales by its endpoint: more --workers, "
                         "several servers behind one --base-url, or batch files (--mode replay, ems replies export)")
    from .study.cluster import stream

    return stream(args.scheduler, triplets, answers, args.scorer or "local", encoder=args.encoder)


def _plan(args: argparse.Namespace, triplets: Sequence[Any], answers: Sequence[Any]) -> int:
    """Say what an evaluation would ask and cost, without asking."""
    from .judge.budget import plan, plan_text

    def work(planner: Any) -> None:
        for _ in _pipeline(args, planner).stream(triplets, answers):
            pass
    print(plan_text({}, {}) if args.judge == "none" else plan(work, _judge(args)))
    return 0


def _used(pipeline: Any) -> str:
    from .data import usage
    from .judge.budget import table

    return table(usage(*pipeline.judges)).to_string(index=False, float_format=lambda v: f"{v:,.2f}", na_rep="unknown")


def reproduce(args: argparse.Namespace) -> int:
    """Run the notebooks of a profile, or with --dry-run say what their judges would ask and cost."""
    import yaml

    from .study.runner import reproduce as run

    given: dict[str, Any] = {}
    for name, value in args.parameter or ():
        try:
            given[name] = yaml.safe_load(value) if value else ""          # YAML would read nothing as null
        except yaml.YAMLError:
            given[name] = value
    if args.dry_run:
        from .study.runner import plan

        print(plan(args.profile, only=args.only or (), given=given))
        return 0
    folder = run(args.profile, only=args.only or (), given=given)
    table = folder / "table1.md"
    if table.exists() and not args.only:
        print(table.read_text(encoding="utf-8"))
    return 0


def replies(args: argparse.Namespace) -> int:
    """Export, import and count saved replies and the requests that wait for one."""
    from .judge.store import Replies

    if args.action != "import" and not Path(args.store).exists():
        raise InputError(f"{args.store}: no such store of replies; --store names one, as made by a run with a judge")
    store = Replies(args.store)
    if args.action == "export":
        count = store.export_pending(args.file) if args.pending else store.export(args.file, prompts=args.prompts)
        print(f"{count} {'pending requests' if args.pending else 'replies'} written to {args.file}")
    elif args.action == "import":
        print(", ".join(f"{n} {what}" for what, n in _imported(store, args.file).items()))
    else:
        import pandas as pd

        rows = store.stats()
        print(pd.DataFrame(rows).to_string(index=False) if rows else "no replies")
        print(f"pending: {store.pending() or 'none'}")
    return 0


def prompts(args: argparse.Namespace) -> int:
    """Make the prompt set `paper` from a copy of the paper."""
    from .study.paper_prompts import import_prompts

    readings = [reading.partition("=")[::2] for reading in args.reading or ()]
    folder, differing = import_prompts(args.source, {name.strip(): choice.strip() for name, choice in readings})
    print(f"prompt set paper: 5 questions and 5 prompts in {folder}; its README.md says how the paper was read")
    if differing:
        print(f"ems: other words than expected in {', '.join(differing)}; look them over there", file=sys.stderr)
    return 0


def _imported(store: Any, path: str) -> dict[str, int]:
    """Read a file of replies, or a batch endpoint's results: each says by its first line which it is."""
    from .io import read_text

    first = "" if path.endswith(".gz") else next((line for line in read_text(path).splitlines() if line.strip()), "")
    return store.import_batch(path) if '"custom_id"' in first else {"imported": store.import_(path)}


def _pipeline(args: argparse.Namespace, planner: Any = None):
    """The stages that the options name, with the judge that they name or the planner of a dry run."""
    from .pipeline import build

    if args.judge == "none":
        return build(None, args.scorer or "local", encoder=args.encoder, variant=args.variant)
    from .prompting import Prompts

    scorer = args.scorer or "llm"
    if planner is not None and not scorer.startswith("llm"):
        scorer = "local-pair"                # costs no call either, and loads nothing
    return build(planner or _judge(args), scorer, encoder=args.encoder, prompts=Prompts.named(args.prompts),
                 variant=args.variant)


def _judge(args: argparse.Namespace):
    from .judge.client import LLMJudge
    from .judge.store import Replies

    absent = getattr(args, "dry_run", False) and not Path(args.store).exists()       # a dry run makes no file
    store = Replies(None if absent else args.store, recorded=args.recorded or ())
    prices = dict(zip(("prompt", "completion", "cached"), args.prices or (), strict=False))
    return LLMJudge(args.judge, store=store, mode=args.mode, base_url=args.base_url, workers=args.workers,
                    prices=prices, spend_limit=args.spend_limit)


def _prices(text: str) -> list[float]:
    numbers = [float(part) for part in text.split(",")]
    if len(numbers) not in (2, 3):
        raise ValueError
    return numbers


def _status(results: Sequence[EMSResult], pipeline: Any) -> int:
    """The exit status, and one line on stderr when it is not 0: what is unscored, why, and in whose words."""
    units = sum(max(len(r.match), r.unscored) for r in results)
    unscored = sum(r.unscored for r in results)
    if results and not units:
        print(f"ems: nothing could be scored: {results[0].reason or 'no points'}", file=sys.stderr)
        return 3
    if units and 1 - unscored / units < COVERAGE:
        why = ", ".join(f"{reason} {n}" for reason, n in pipeline.unread.most_common())
        words = [f" ({said})" for judge in pipeline.judges for said in getattr(judge, "complaints", {}).values()]
        print(f"ems: {unscored} of {units} points are unscored; the values speak for the rest only"
              + (f". Without a usable reply: {why}{words[-1] if words else ''}" if why else ""), file=sys.stderr)
        return 3
    return 0


def _slim(result: EMSResult) -> EMSResult:
    """The result without its texts, which the output file has: what is kept of 10,000 answers stays small."""
    from dataclasses import replace

    return replace(result, ref_points=(), ans_points=(), score=(), ans_score=())


def _summary(results: Sequence[EMSResult], triplets: Sequence[Any]):
    from .data import of_results
    from .stats import summarise

    return summarise(of_results(results, "EMS", triplets))


def _shown(summary: Any) -> str:
    shown = summary.assign(interval=[f"[{a:.3f}, {b:.3f}]" for a, b in zip(summary.ci_low, summary.ci_high, strict=True)])
    columns = ["model", "part", "value", "interval", "n", "coverage"]
    return shown[columns].to_string(index=False, float_format=lambda v: f"{v:.3f}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ems", description="Extract, match, and score: judge long answers.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("score", help="one answer against one reference")
    one.add_argument("--reference", required=True, metavar="FILE")
    one.add_argument("--answer", required=True, metavar="FILE")
    one.set_defaults(run=score)

    many = commands.add_parser("evaluate", help="many answers: JSON lines in, JSON lines out")
    many.add_argument("triplets", metavar="TRIPLETS", help="{id, group, question, reference} a line, or RAGChecker's JSON, "
                      "or q3-2024: the kit's own fifty")
    many.add_argument("answers", metavar="ANSWERS", help="{triplet_id, model, answer} a line, or RAGChecker's JSON")
    many.add_argument("-o", "--output", required=True, metavar="OUT.jsonl")
    many.add_argument("--dry-run", action="store_true", help="count calls, tokens and cost without a single call")
    many.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask cluster, for local and BERTScore evaluation")
    many.set_defaults(run=evaluate)

    for command in (one, many):
        command.add_argument("--judge", default="none", metavar="none|MODEL", help="default none: no key, no network")
        command.add_argument("--scorer", metavar="rouge|bertscore|llm|llm-expected|local|local-pair",
                             help="default local, with a judge llm")
        command.add_argument("--encoder", metavar="NAME", help="model for bertscore; default roberta-large")
        command.add_argument("--base-url", metavar="URL", help="of the judge; default OPENAI_BASE_URL")
        command.add_argument("--workers", type=int, default=32, metavar="N", help="questions under way at once; default 32")
        command.add_argument("--store", default=STORE, metavar="FILE", help=f"the judge's replies; default {STORE}")
        command.add_argument("--recorded", action="append", metavar="FILE", help="recorded replies to use as well")
        command.add_argument("--mode", default="live", choices=("live", "replay", "refresh"))
        command.add_argument("--variant", default="faithful", metavar="shared|all|reasoned",
                             help="another way to ask for matches than the paper's")
        command.add_argument("--prices", type=_prices, metavar="PROMPT,REPLY[,CACHED]",
                             help="of the judge, money for a million tokens, such as 2.5,10,1.25")
        command.add_argument("--spend-limit", type=float, metavar="MONEY", help="stop before the judge costs more")
        command.add_argument("--prompts", default="kit", metavar="SET",
                             help="kit, paper (see ems prompts import) or a folder; default kit")
        command.add_argument("--json", action="store_true", help="JSON on standard output")

    own = commands.add_parser("triplets", help="write the kit's own fifty questions and references to a file")
    own.add_argument("file", metavar="OUT.jsonl")
    own.add_argument("--transcripts", metavar="DIR", help="folder or parquet file with the calls: each goes in as context")
    own.set_defaults(run=triplets)

    rerun = commands.add_parser("reproduce", help="run the notebooks of a profile")
    rerun.add_argument("--profile", default="default", metavar="P", help="a name in profiles/ or a .yaml file")
    rerun.add_argument("--only", action="append", metavar="03", help="only the notebooks that begin so")
    rerun.add_argument("-p", dest="parameter", nargs=2, action="append", metavar=("NAME", "VALUE"))
    rerun.add_argument("--dry-run", action="store_true", help="count calls, tokens and cost without a single call")
    rerun.set_defaults(run=reproduce)

    words = commands.add_parser("prompts", help="the paper's own questions and prompts, from your copy of it")
    words.set_defaults(run=prompts)
    words = words.add_subparsers(required=True, metavar="import").add_parser("import", help="make the prompt set paper")
    words.add_argument("source", metavar="SOURCE", help="arXiv 2503.16575 as PDF, HTML or text")
    words.add_argument("--reading", action="append", metavar="NAME=CHOICE", help="where the paper says two things: "
                       "index=1, list=everywhere|plain, versions=counted, answer=bare")

    saved = commands.add_parser("replies", help="export, import and count saved replies")
    saved.set_defaults(run=replies)
    actions = saved.add_subparsers(required=True, dest="action", metavar="export|import|stats")
    out = actions.add_parser("export", help="write replies, or with --pending the requests that wait, as JSON lines")
    out.add_argument("file", metavar="FILE")
    out.add_argument("--pending", action="store_true", help="as input of a batch endpoint or vllm run-batch")
    out.add_argument("--prompts", action="store_true", help="with the prompts")
    into = actions.add_parser("import", help="read replies, or a batch endpoint's results")
    into.add_argument("file", metavar="FILE")
    count = actions.add_parser("stats", help="replies and tokens by model and task")
    for action in (out, into, count):
        action.add_argument("--store", default=STORE, metavar="FILE", help=f"default {STORE}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
