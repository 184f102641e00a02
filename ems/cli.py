"""The command line: `ems score | evaluate | agree | triplets | reproduce | prompts | replies`.

Exit 0 done, 2 bad input, 3 coverage too low; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from .report import alignment_text, visible
from .types import Answer, EMSResult, InputError, Triplet

if TYPE_CHECKING:
    import pandas as pd

    from .judge.client import LLMJudge
    from .pipeline import EMS

STORE = "ems-replies.sqlite"
DRY_RUN = "count calls, tokens and cost without a single call"
COVERAGE = 0.95          # share of points that must be scored for exit status 0
# Options of `score` and `evaluate` that mean nothing without a judge, with their defaults.
JUDGE_OPTIONS: dict[str, Any] = {
    "base_url": None, "key_env": None, "mode": "live", "recorded": None, "weights": None, "seed": 7,
    "temperature": 0.0, "timeout": 600.0, "max_score": None, "prices": None, "spend_limit": None,
    "prompts": "kit",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. One line on stderr says what was wrong with the input."""
    args = _parser().parse_args(argv)
    stopped: list[int] = []
    try:
        with _terminable(stopped):
            return args.run(args)
    except InputError as error:
        _say(error)
        return 2
    except KeyboardInterrupt as stop:
        _say(stop.args[0] if stop.args else "stopped")
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    except BrokenPipeError:      # `ems ... | head` has read enough
        sys.stdout = open(os.devnull, "w")
        return 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _say("the disk is full; make room and give the same command again: no saved reply is lost")
        elif error.filename is None:
            raise
        else:
            _say(f"{error.filename} cannot be written or read ({error.strerror}); name another place")
        return 2


@contextmanager
def _terminable(stopped: list[int]) -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, with replies on their way saved; `stopped` gets its number."""
    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():      # where alone signals can be handled
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(message: object) -> None:
    """One line on stderr, in which nothing that came from outside can move the cursor or set a colour."""
    print(f"ems: {visible(str(message))}", file=sys.stderr)


def score(args: argparse.Namespace) -> int:
    """One answer against one reference."""
    from .io import read_text

    _check_judge_options(args)
    reference, answer = read_text(args.reference), read_text(args.answer)
    if not reference.strip():
        raise InputError(f"{args.reference} is empty; nothing can be scored against it")
    pipeline = _pipeline(args)
    result = pipeline.score(reference, answer)
    print(json.dumps(result.to_dict()) if args.json else alignment_text(result))
    return _status([result], pipeline)


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a line per answer into OUT, a table per model onto the screen."""
    from .data import check_join, judge_usage, load_answers, to_frame
    from .io import whole_file
    from .judge.budget import table

    _check_judge_options(args)
    triplets, answers = _triplets(args.triplets), load_answers(args.answers)
    for model, missing in check_join(triplets, answers).items():
        _say(f"{model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}")
    _check_output(args)
    if args.dry_run:
        return _plan(args, triplets, answers)
    pipeline, results = _pipeline(args), []
    with whole_file(args.output) as file:          # opened before a judge is asked for anything
        for result in _results(args, pipeline, triplets, answers):
            file.write((json.dumps(result.to_dict(), ensure_ascii=False) + "\n").encode())
            results.append(_slim(result))
    if pipeline.judges:
        used = {visible(model): tasks for model, tasks in judge_usage(*pipeline.judges).items()}
        print(table(used).to_string(index=False, float_format=lambda v: f"{v:,.2f}", na_rep="unknown"),
              file=sys.stderr)
    from .stats import summarise  # late: a refusal need not wait for scipy

    summary = summarise(to_frame(results, "EMS", triplets))
    if args.json:
        print(summary.to_json(orient="records"))
    else:
        print(_shown(summary))
        print(f"{len(results)} results in {args.output}")
    return _status(results, pipeline)


def _check_output(args: argparse.Namespace) -> None:
    """InputError when OUT is a folder, or a file that this command reads."""
    out = Path(args.output)
    if out.is_dir():
        raise InputError(f"{out} is a directory; give a file to write, such as {out / 'results.jsonl'}")
    for read in (args.triplets, args.answers, args.store, *(args.recorded or ())):
        if out.exists() and Path(read).exists() and out.samefile(read):
            raise InputError(
                f"-o {out} is also read by this command and would be lost; give another file to write")


def _results(args: argparse.Namespace, pipeline: EMS, triplets: Sequence[Triplet],
             answers: Sequence[Answer]) -> Iterator[EMSResult]:
    if not args.scheduler:
        return pipeline.stream(triplets, answers, progress=True)
    if pipeline.judges:
        raise InputError("--scheduler is for evaluation without a judge; a judge scales by its endpoint: "
                         "more --workers, several servers behind one --base-url, or batch files (--mode "
                         "replay, ems replies export)")
    from .study.distributed_run import stream

    return stream(args.scheduler, triplets, answers, args.scorer or "local", encoder=args.encoder)


def triplets(args: argparse.Namespace) -> int:
    """Write the kit's own questions and references to a file, for a system of one's own to answer."""
    from .io import write_jsonl
    from .study.calls import own_triplets

    own = own_triplets(args.transcripts)
    write_jsonl(args.file, own)
    print(f"{len(own)} triplets{' with their calls' if args.transcripts else ''} written to {args.file}")
    return 0


def _triplets(source: str) -> list[Triplet]:
    """Those of a file, or by its name the kit's own set."""
    from .data import load_triplets
    from .study.calls import OWN, own_triplets

    return own_triplets() if source == OWN and not Path(source).exists() else load_triplets(source)


def _plan(args: argparse.Namespace, triplets: Sequence[Triplet], answers: Sequence[Answer]) -> int:
    """Say what an evaluation would ask and cost, without asking."""
    from .judge.budget import plan, plan_text

    def work(planner: Any) -> None:
        for _ in _pipeline(args, planner).stream(triplets, answers):
            pass
    print(plan_text({}, {}) if args.judge == "none" else plan(work, _judge(args)))
    return 0


def reproduce(args: argparse.Namespace) -> int:
    """Run the notebooks of a profile, or with --dry-run say what their judges would ask and cost."""
    import yaml

    from .study import runner

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


def agree(args: argparse.Namespace) -> int:
    """Results beside a user's own labels: agreement by metric, mean labels corrected by the metric."""
    from .study import own_labels

    results, labels = own_labels.own_results(args.results), own_labels.read_labels(args.labels)
    print("\n\n".join(own_labels.as_text(results, labels)))
    return 0


def _add_agree(commands: Any) -> None:
    """`ems agree`."""
    own = commands.add_parser("agree", help="results beside your own labels of the same answers")
    own.set_defaults(run=agree)
    own.add_argument("results", nargs="+", metavar="RESULTS", help="of ems evaluate; several are compared")
    own.add_argument("labels", metavar="LABELS", help="CSV: triplet_id, model, label (or triplet_id, "
                     "model_a, model_b, preference), and if there are any rater, group")


def replies(args: argparse.Namespace) -> int:
    """Export, import and count saved replies and the requests that wait for one."""
    from .judge.store import Replies

    if args.action != "import" and not Path(args.store).exists():
        raise InputError(
            f"{args.store}: no such store of replies; --store names one, as made by a run with a judge")
    if args.action == "export" and Path(args.file).exists() and Path(args.file).samefile(args.store):
        raise InputError(f"{args.file} is the store itself and would be lost; give another file to write")
    store = Replies(args.store)
    if args.action == "export":
        if args.pending:
            print(f"{store.export_pending(args.file)} pending requests written to {args.file}")
        else:
            print(f"{store.export(args.file, prompts=args.prompts)} replies written to {args.file}")
    elif args.action == "import":
        print(", ".join(f"{n} {what}" for what, n in _imported(store, args.file).items()))
    else:
        import pandas as pd

        rows = pd.DataFrame(store.stats())
        print("no replies" if rows.empty else _safe(rows).to_string(index=False))
        print(f"pending: {store.pending() or 'none'}")
    return 0


def prompts(args: argparse.Namespace) -> int:
    """Make the prompt set `paper` from a copy of the paper."""
    from .study.paper_prompts import import_prompts

    readings = [reading.partition("=")[::2] for reading in args.reading or ()]
    chosen = {name.strip(): choice.strip() for name, choice in readings}
    folder, differing = import_prompts(args.source, chosen)
    print(f"prompt set paper: 5 questions and 5 prompts in {folder}; its README.md says how the paper was "
          "read")
    if differing:
        _say(f"other words than expected in {', '.join(differing)}; look them over there")
    return 0


def _imported(store: Any, path: str) -> dict[str, int]:
    """Read a file of replies, or a batch endpoint's results: each says by its first line which it is."""
    from .io import read_text

    # a batch endpoint's results are never compressed
    lines = [] if path.endswith(".gz") else read_text(path).splitlines()
    first = next((line for line in lines if line.strip()), "")
    return store.import_batch(path) if '"custom_id"' in first else {"imported": store.import_(path)}


def _pipeline(args: argparse.Namespace, planner: Any = None) -> EMS:
    """The stages that the options name, with the judge that they name or the planner of a dry run."""
    from .pipeline import build

    if args.judge == "none":
        return build(None, args.scorer or "local", encoder=args.encoder, variant=args.variant)
    from .prompting import Prompts

    scorer = args.scorer or "llm"
    if planner is not None and not scorer.startswith("llm"):
        scorer = "local-pair"                # costs no call either, and loads nothing
    return build(planner or _judge(args), scorer, encoder=args.encoder, prompts=Prompts.named(args.prompts),
                 variant=args.variant, max_score=args.max_score)


def _check_judge_options(args: argparse.Namespace) -> None:
    """InputError when there is no judge for the options that are about one."""
    given = [name for name, default in JUDGE_OPTIONS.items() if getattr(args, name) != default]
    if args.judge == "none" and given:
        named = ", ".join("--" + name.replace("_", "-") for name in given)
        raise InputError(f"without a judge there is nothing that {named} could change; name one with --judge "
                         "MODEL, or leave the option out")


def _judge(args: argparse.Namespace) -> LLMJudge:
    """The judge that the options name; without --key-env its key is the official client's business."""
    from .judge.client import LLMJudge
    from .judge.store import Replies

    key = None if args.key_env is None else os.environ.get(args.key_env)
    if args.key_env is not None and not key:
        raise InputError(f"--key-env {args.key_env}: there is no such environment variable, or it is empty; "
                         "it must hold the judge's key, and --key-env its name")
    absent = getattr(args, "dry_run", False) and not Path(args.store).exists()       # a dry run makes no file
    store = Replies(None if absent else args.store, recorded=args.recorded or ())
    prices = dict(zip(("prompt", "completion", "cached"), args.prices or (), strict=False))
    return LLMJudge(args.judge, store=store, mode=args.mode, base_url=args.base_url, api_key=key,
                    workers=args.workers, timeout=args.timeout, seed=args.seed, weights=args.weights,
                    temperature=args.temperature, prices=prices, spend_limit=args.spend_limit)


def _seed(text: str) -> int | None:
    if text != "none" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number or none is needed, got {text!r}")
    return None if text == "none" else int(text)


def _temperature(text: str) -> float | None:
    try:
        value = None if text == "none" else float(text)
    except ValueError:
        value = -1.0
    if value is not None and not 0 <= value <= 2:
        raise argparse.ArgumentTypeError(f"a number from 0 to 2 or none is needed, got {text!r}")
    return value


def _score_limit(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 100):
        raise argparse.ArgumentTypeError(f"a whole number from 1 to 100 is needed, got {text!r}")
    return int(text)


def _prices(text: str) -> list[float]:
    numbers = [float(part) for part in text.split(",")]
    if len(numbers) not in (2, 3):
        raise argparse.ArgumentTypeError(f"two or three numbers with commas between are needed, got {text!r}")
    return numbers


def _status(results: Sequence[EMSResult], pipeline: EMS) -> int:
    """The exit status, and where it is not 0 one line: what is unscored, why, the server's last message."""
    units = sum(max(len(r.match), r.unscored) for r in results)
    unscored = sum(r.unscored for r in results)
    if results and not units:
        _say(f"nothing could be scored: {results[0].reason or 'no points'}")
        return 3
    if not units or 1 - unscored / units >= COVERAGE:
        return 0
    reasons = ", ".join(f"{reason} {n}" for reason, n in pipeline.unread.most_common())
    messages = [text for judge in pipeline.judges for text in getattr(judge, "complaints", {}).values()]
    message = f" ({messages[-1]})" if messages else ""
    why = f". Without a usable reply: {reasons}{message}" if reasons else ""
    _say(f"{unscored} of {units} points are unscored; the values speak for the rest only{why}")
    return 3


def _slim(result: EMSResult) -> EMSResult:
    """The result without its texts, which the output file has: what is kept of 10,000 answers stays small."""
    from dataclasses import replace

    return replace(result, ref_points=(), ans_points=(), score=(), ans_score=())


def _shown(summary: pd.DataFrame) -> str:
    intervals = zip(summary.ci_low, summary.ci_high, strict=True)
    shown = summary.assign(interval=[f"[{low:.3f}, {high:.3f}]" for low, high in intervals])
    columns = ["model", "part", "value", "interval", "n", "coverage"]
    return _safe(shown[columns]).to_string(index=False, float_format=lambda v: f"{v:.3f}")


def _safe(table: pd.DataFrame) -> pd.DataFrame:
    """The table with texts that are safe to show."""
    return table.map(lambda cell: visible(cell) if isinstance(cell, str) else cell)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ems", description="Extract, match, and score: judge long answers.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_evaluation(commands)
    _add_agree(commands)
    _add_study(commands)
    _add_replies(commands)
    return parser


def _add_evaluation(commands: Any) -> None:
    """`ems score`, `ems evaluate` and `ems triplets`."""
    one = commands.add_parser("score", help="one answer against one reference")
    one.set_defaults(run=score)
    one.add_argument("--reference", required=True, metavar="FILE")
    one.add_argument("--answer", required=True, metavar="FILE")

    many = commands.add_parser("evaluate", help="many answers: JSON lines in, JSON lines out")
    many.set_defaults(run=evaluate)
    add = many.add_argument
    add("triplets", metavar="TRIPLETS", help="{id, group, question, reference} a line, or RAGChecker's JSON, "
        "or q3-2024: the kit's own fifty")
    add("answers", metavar="ANSWERS", help="{triplet_id, model, answer} a line, or RAGChecker's JSON")
    add("-o", "--output", required=True, metavar="OUT.jsonl")
    add("--dry-run", action="store_true", help=DRY_RUN)
    add("--scheduler", metavar="ADDRESS", help="of a Dask cluster, for local and BERTScore evaluation")

    own = commands.add_parser("triplets", help="write the kit's own fifty questions and references to a file")
    own.set_defaults(run=triplets)
    own.add_argument("file", metavar="OUT.jsonl")
    own.add_argument("--transcripts", metavar="DIR",
                     help="folder or parquet file with the calls: each goes in as context")

    for command in (one, many):
        add = command.add_argument
        add("--judge", default="none", metavar="none|MODEL", help="default none: no key, no network")
        add("--scorer", metavar="rouge|bleu|bertscore|llm|llm-expected|local|local-pair",
            help="default local, with a judge llm")
        add("--encoder", metavar="NAME", help="model for bertscore; default roberta-large")
        add("--json", action="store_true", help="JSON on standard output")
        _add_judge(command.add_argument_group("the judge"))


def _add_judge(group: Any) -> None:
    """The options that only a judge needs; `JUDGE_OPTIONS` has their defaults."""
    add = group.add_argument
    add("--base-url", metavar="URL", help="address of the endpoint; default OPENAI_BASE_URL")
    add("--key-env", metavar="NAME", help="environment variable with the key; default OPENAI_API_KEY")
    add("--workers", type=int, default=32, metavar="N", help="questions under way at once; default 32")
    add("--timeout", type=float, metavar="SECONDS", help="for one reply with its retries; default 600")
    add("--store", default=STORE, metavar="FILE", help=f"the judge's replies; default {STORE}")
    add("--recorded", action="append", metavar="FILE", help="recorded replies to use as well")
    add("--mode", choices=("live", "replay", "refresh"))
    add("--weights", metavar="REVISION", help="of the model: a reply belongs to the weights it was made with")
    add("--seed", type=_seed, metavar="N|none", help="sent with every question; default 7")
    add("--temperature", type=_temperature, metavar="T|none", help="sent with every question; default 0")
    add("--max-score", type=_score_limit, metavar="N", help="the best score of a pair; default 10")
    add("--variant", default="faithful", metavar="shared|all|reasoned",
        help="another way to ask for matches than the paper's")
    add("--prompts", metavar="SET", help="kit, paper (see ems prompts import) or a folder; default kit")
    add("--prices", type=_prices, metavar="PROMPT,REPLY[,CACHED]",
        help="money for a million tokens, such as 2.5,10,1.25")
    add("--spend-limit", type=float, metavar="MONEY", help="stop before the judge costs more")
    group.set_defaults(**JUDGE_OPTIONS)


def _add_study(commands: Any) -> None:
    """`ems reproduce` and `ems prompts`."""
    rerun = commands.add_parser("reproduce", help="run the notebooks of a profile")
    rerun.set_defaults(run=reproduce)
    add = rerun.add_argument
    add("--profile", default="default", metavar="P", help="a name in profiles/ or a .yaml file")
    add("--only", action="append", metavar="03", help="only the notebooks that begin so")
    add("-p", dest="parameter", nargs=2, action="append", metavar=("NAME", "VALUE"))
    add("--dry-run", action="store_true", help=DRY_RUN)

    words = commands.add_parser("prompts", help="the paper's own questions and prompts, from your copy of it")
    words.set_defaults(run=prompts)
    actions = words.add_subparsers(required=True, metavar="import")
    make = actions.add_parser("import", help="make the prompt set paper")
    make.add_argument("source", metavar="SOURCE", help="arXiv 2503.16575 as PDF, HTML or text")
    make.add_argument("--reading", action="append", metavar="NAME=CHOICE", help="where the paper says two "
                      "things: index=1, list=everywhere|plain, versions=counted, answer=bare")


def _add_replies(commands: Any) -> None:
    """`ems replies`."""
    saved = commands.add_parser("replies", help="export, import and count saved replies")
    saved.set_defaults(run=replies)
    actions = saved.add_subparsers(required=True, dest="action", metavar="export|import|stats")
    out = actions.add_parser(
        "export", help="write replies, or with --pending the requests that wait, as JSON lines")
    out.add_argument("file", metavar="FILE")
    out.add_argument("--pending", action="store_true", help="as input of a batch endpoint or vllm run-batch")
    out.add_argument("--prompts", action="store_true", help="with the prompts")
    into = actions.add_parser("import", help="read replies, or a batch endpoint's results")
    into.add_argument("file", metavar="FILE")
    count = actions.add_parser("stats", help="replies and tokens by model and task")
    for action in (out, into, count):
        action.add_argument("--store", default=STORE, metavar="FILE", help=f"default {STORE}")


if __name__ == "__main__":
    sys.exit(main())
