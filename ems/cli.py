"""The command line: what each command does. `cli_parser` says which there are, with their options and help.

Exit 0 done, 2 bad input, 3 coverage too low; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import math
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from .cli_parser import JUDGE_OPTIONS, parse
from .report import alignment_text, percent, visible
from .types import Answer, EMSResult, InputError, Triplet

if TYPE_CHECKING:
    import pandas as pd

    from .judge.client import LLMJudge
    from .judge.store import Replies
    from .pipeline import EMS

ENOUGH = 3               # checked points of which a document that fits supports one
COVERAGE = 0.95          # share of points, and of answers, that must be scored for exit status 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. One line on stderr says what was wrong with the input."""
    from . import __version__

    if isinstance(sys.stdout, io.TextIOWrapper):       # not every terminal has a dash or an arrow
        sys.stdout.reconfigure(errors="replace")
    commands = (score, evaluate, report, compare, agree, triplets, reproduce, prompts, replies)
    args = parse({command.__name__: command for command in commands}, __version__, argv)
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
    return _status([result], pipeline.judges, pipeline.unread)


def evaluate(args: argparse.Namespace) -> int:
    """Many answers: a line per answer into OUT, a table per model onto the screen."""
    from .data import check_join, load_answers, support_frame, to_frame
    from .io import whole_file

    _check_judge_options(args)
    several = args.repeats != 1 or bool(args.panel)
    beside = args.support != "none" or args.rubrics or args.scheduler
    if several and (beside or (args.panel and args.dry_run)):
        raise InputError("--repeats and --panel ask judges about matches and scores alone, and a dry run "
                         "counts one judge; leave out --support, --rubrics and --scheduler, and count a "
                         "panel judge by judge")
    if args.support != "none" and args.scheduler:
        raise InputError("--support is not computed on a cluster; leave out --scheduler, or --support")
    triplets, answers = _triplets(args.triplets), load_answers(args.answers)
    for model, missing in check_join(triplets, answers).items():
        _say(f"{model} left {len(missing)} of {len(triplets)} triplets unanswered, e.g. {missing[0]}")
    _check_output(args)
    if args.dry_run:
        return _plan(args, triplets, answers)
    if several:
        return _evaluate_several(args, triplets, answers)
    pipeline, results = _pipeline(args), []
    with whole_file(args.output) as file:          # opened before a judge is asked for anything
        rated, lines = _rated(args, pipeline, triplets, answers)
        for result in _results(args, pipeline, triplets, answers):
            line = result.to_dict() | lines.get((result.triplet_id, result.model), {})
            file.write((json.dumps(line, ensure_ascii=False) + "\n").encode())
            results.append(_slim(result))
    _say_usage(pipeline.judges)
    import pandas as pd  # late, and scipy with it: a refusal need not wait for them

    from .stats import summarise

    frames = [to_frame(results, "EMS", triplets)]
    if args.support != "none":
        frames.append(support_frame(results, triplets))
        _doubt_documents(results)
    frames += rated
    summary = summarise(pd.concat(frames, ignore_index=True), cluster=args.cluster)
    if args.json:
        print(summary.to_json(orient="records"))
    else:
        print(_shown(summary))
        print(f"{len(results)} results in {args.output}")
    return _status(results, pipeline.judges, pipeline.unread)


def _evaluate_several(args: argparse.Namespace, triplets: Sequence[Triplet],
                      answers: Sequence[Answer]) -> int:
    """Judges and repetitions on the same points: their mean, how far they agree, and each one's results."""
    import pandas as pd

    from .data import to_frame
    from .io import write_jsonl
    from .stats import summarise
    from .study import reliability

    first = _judge(args)
    judges = [first, *(_judge(args, name, first.store) for name in args.panel or ())]
    by_rater = reliability.raters(first, triplets, answers, repeats=args.repeats, judges=judges[1:],
                                  **_stage_settings(args))
    write_jsonl(args.output, ({"metric": name, **result.to_dict()}
                              for name, results in by_rater.items() for result in results))
    _say_usage(judges)
    mean = summarise(reliability.panel(by_rater, triplets, "EMS"), cluster=args.cluster)
    each = summarise(pd.concat([to_frame(results, name, triplets) for name, results in by_rater.items()]),
                     cluster=args.cluster)
    agreement = reliability.reliability(by_rater)
    if args.json:
        tables = {"panel": mean, "judgements": each, "agreement": agreement}
        print(json.dumps({name: json.loads(rows.to_json(orient="records")) for name, rows in tables.items()}))
    else:
        f1 = each[each["part"] == "F1"].pivot(index="metric", columns="model", values="value").round(3)
        print(f"Mean of {len(by_rater)} judgements:\n{_shown(mean)}\n\nMean F1 by judgement:")
        print(_as_text(f1.rename_axis("judgement").reset_index().rename(columns=visible)))
        print(f"\nAgreement of the judgements:\n{_as_text(agreement.round(3))}")
        print(f"{sum(map(len, by_rater.values()))} results in {args.output}")
    return _status([result for results in by_rater.values() for result in results], judges)


def _say_usage(judges: Sequence[Any]) -> None:
    """What the judges were asked and cost, as a table on stderr; nothing without a judge."""
    from .data import judge_usage
    from .judge.budget import table

    if judges:
        used = {visible(model): tasks for model, tasks in judge_usage(*judges).items()}
        print(table(used).to_string(index=False, float_format=lambda v: f"{v:,.2f}", na_rep="unknown"),
              file=sys.stderr)


def _check_output(args: argparse.Namespace) -> None:
    """InputError when OUT is a folder, or a file that this command reads."""
    out = Path(args.output)
    if out.is_dir():
        raise InputError(f"{out} is a directory; give a file to write, such as {out / 'results.jsonl'}")
    _keep(out, args.triplets, args.answers, args.store, *(args.recorded or ()))


def _keep(out: Path, *read: str | None) -> None:
    """InputError when one of the files that a command reads is the one it would write."""
    if any(os.path.realpath(path) == os.path.realpath(out)
           or (out.exists() and Path(path).exists() and out.samefile(path)) for path in read if path):
        raise InputError(f"-o {out} is also read by this command and would be lost; give another file to "
                         "write")


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


def _doubt_documents(results: Sequence[EMSResult]) -> None:
    """One line about documents that support nothing although much was checked: cut ones, or wrong ones."""
    checked: Counter[str] = Counter()
    supported: Counter[str] = Counter()
    for result in results:
        labels = [s.label for s in result.support if s.checked]
        checked[result.triplet_id] += len(labels)
        supported[result.triplet_id] += labels.count("supported")
    if doubtful := [id_ for id_, n in checked.items() if n >= ENOUGH and not supported[id_]]:
        _say(f"the documents of {len(doubtful)} of {len(checked)} triplets support none of the points that "
             f"could be checked, e.g. of {doubtful[0]!r}: are they whole, and those the questions are about?")


def _rated(args: argparse.Namespace, pipeline: EMS, triplets: Sequence[Triplet], answers: Sequence[Answer]
           ) -> tuple[list[pd.DataFrame], dict[tuple[str, str], dict[str, Any]]]:
    """The judge's ratings by --rubrics: frames of values, none without, and what each answer's line gains."""
    if args.rubrics is None:
        return [], {}
    from .prompting import Prompts
    from .support.rubrics import RubricJudge, rating_frame

    judge = RubricJudge(pipeline.judges[0], Prompts.named(args.prompts), rubrics=args.rubrics)
    ratings = judge.rate(triplets, answers)
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for r in ratings:
        line = lines.setdefault((r.triplet_id, r.model), {"rubrics": []})
        line["rubrics"].append({"rubric": r.rubric, "value": r.value, "reason": r.reason})
    if lost := ", ".join(f"{what} {n}" for what, n in judge.unread.most_common()):
        _say(f"ratings without a usable reply: {lost}")
    return [rating_frame(ratings, judge.signature, triplets)], lines


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
        if args.repeats != 1:
            from .study.reliability import raters

            raters(planner, triplets, answers, repeats=args.repeats, **_stage_settings(args, counted=True))
        else:
            pipeline = _pipeline(args, planner)
            for _ in pipeline.stream(triplets, answers):
                pass
            _rated(args, pipeline, triplets, answers)
    print(plan_text({}, {}) if args.judge == "none" else plan(work, _judge(args)))
    return 0


def report(args: argparse.Namespace) -> int:
    """Results as one HTML file."""
    from .judge.store import Replies
    from .judge.unread import unread_replies
    from .report_html import save_report
    from .results import load_results

    out = Path(args.output)
    _keep(out, args.results, args.triplets, args.store)
    results = load_results(args.results)
    unread: list[tuple[str, str]] = []
    if args.store:
        _check_store(args.store)
        unread = unread_replies(Replies(args.store))
    triplets = _triplets(args.triplets) if args.triplets else None
    save_report(results, out, triplets=triplets, title=args.title, unread=unread)
    count, size = sum(map(len, results.values())), out.stat().st_size
    print(json.dumps({"report": str(out), "results": count, "bytes": size}) if args.json else
          f"{count} results in {visible(str(out))} ({size / 1000:,.0f} kB)")
    return 0


def compare(args: argparse.Namespace) -> int:
    """Two files of results: paired differences, and the answers and points that changed most."""
    from .comparison import compare as compare_results
    from .results import load_results, of_metric

    a, b = (of_metric(load_results(path), args.metric, path) for path in (args.a, args.b))
    triplets = _triplets(args.triplets) if args.triplets else None
    found = compare_results(a, b, triplets=triplets, cluster=args.cluster, seed=args.seed)
    print(found.to_json() if args.json else found.text(args.top))
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


def replies(args: argparse.Namespace) -> int:
    """Export, import, count and show saved replies and the requests that wait for one."""
    from .judge.store import Replies

    if args.action != "import":
        _check_store(args.store)
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
    elif args.action == "show":
        _show_replies(store, args)
    elif args.json:
        print(json.dumps({"replies": store.stats(), "pending": store.pending()}))
    else:
        import pandas as pd

        rows = pd.DataFrame(store.stats())
        print("no replies" if rows.empty else _as_text(rows))
        print(f"pending: {store.pending() or 'none'}")
    return 0


def _show_replies(store: Any, args: argparse.Namespace) -> None:
    """A line a reply: the beginnings of its key and its text, task, model, and what is wrong with it."""
    from dataclasses import asdict

    from .judge.unread import unread_reason

    for record in store.records():
        reason = unread_reason(record)
        if (args.unread and not reason) or (args.task and record.task != args.task):
            continue
        if args.json:
            print(json.dumps({**asdict(record), "unread": reason}))
        else:
            print(f"{record.key[:12]}  {record.task:<8} {visible(record.model, 30)}  {reason or 'read'}: "
                  f"{visible(record.text, 80) or '(empty)'}")


def _check_store(path: str) -> None:
    if not Path(path).exists():
        raise InputError(f"{path}: no such store of replies; --store names one, as made by a run with a "
                         "judge")


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
    from .presets import build

    if args.judge == "none":
        return build(None, args.scorer or "local", encoder=args.encoder, variant=args.variant,
                     support=args.support)
    settings = _stage_settings(args, counted=planner is not None)
    return build(planner or _judge(args), **settings, support=args.support)


def _stage_settings(args: argparse.Namespace, counted: bool = False) -> dict[str, Any]:
    """How a judge is to judge, as `presets.build` takes it; `counted`, for a dry run."""
    from .prompting import Prompts

    scorer = args.scorer or "llm"
    if scorer == "llm-sampled" and args.temperature == 0:
        raise InputError("llm-sampled is the mean of several replies, which hardly differ at temperature 0; "
                         "give --temperature 1, or --scorer llm")
    if counted and scorer in ("rouge", "bleu", "bertscore"):
        scorer = "local-pair"                # scores matches without a call as well, and loads nothing
    return {"scorer": scorer, "encoder": args.encoder, "prompts": Prompts.named(args.prompts),
            "variant": args.variant, "max_score": args.max_score}


def _check_judge_options(args: argparse.Namespace) -> None:
    """InputError when there is no judge for the options that are about one."""
    given = [name for name, default in JUDGE_OPTIONS.items() if getattr(args, name) != default]
    if args.judge == "none" and given:
        named = ", ".join("--" + name.replace("_", "-") for name in given)
        raise InputError(f"without a judge there is nothing that {named} could change; name one with --judge "
                         "MODEL, or leave the option out")


def _judge(args: argparse.Namespace, model: str = "", store: Replies | None = None) -> LLMJudge:
    """The judge that the options name, or another `model` with the same options, on its store or a given one.

    Without --key-env its key is the official client's business.
    """
    from .judge.client import LLMJudge
    from .judge.store import Replies

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
                    temperature=args.temperature, prices=prices, spend_limit=args.spend_limit)


def _status(results: Sequence[EMSResult], judges: Sequence[Any], unread: Counter[str] | None = None) -> int:
    """The exit status, and where it is not 0 one line: what is unscored, why, the server's last message."""
    units = sum(max(len(r.match), r.unscored) for r in results)
    unscored = sum(r.unscored for r in results)
    lost = sum(r.unscored > 0 and math.isnan(r.f1) for r in results)
    if results and not units:
        _say(f"nothing could be scored: {results[0].reason or 'no points'}")
        return 3
    if not units or min(1 - unscored / units, 1 - lost / len(results)) >= COVERAGE:
        return 0
    reasons = ", ".join(f"{reason} {n}" for reason, n in (unread or Counter()).most_common())
    messages = [text for judge in judges for text in getattr(judge, "complaints", {}).values()]
    message = f" ({messages[-1]})" if messages else ""
    why = f". Without a usable reply: {reasons}{message}" if reasons else message
    whole = f", {lost} of {len(results)} answers altogether" if lost else ""
    _say(f"{unscored} of {units} points are unscored{whole}; the values speak for the rest only{why}")
    return 3


def _slim(result: EMSResult) -> EMSResult:
    """The result without its texts, which the output file has: what is kept of 10,000 answers stays small."""
    from dataclasses import replace

    kept = result.ans_score if result.support else ()          # which the measures of support need
    return replace(result, ref_points=(), ans_points=(), score=(), ans_score=kept,
                   support=tuple(replace(s, quote="") for s in result.support))


def _shown(summary: pd.DataFrame) -> str:
    """A row a model: recall, precision and F1, and other metrics' values; intervals over enough clusters, and
    "–" for what has no value.
    """
    import pandas as pd

    from .stats import MIN_CLUSTERS

    def cell(row: Any) -> str:
        interval = "" if math.isnan(row.ci_low) else f" [{row.ci_low:z.3f}, {row.ci_high:z.3f}]"
        return "–" if math.isnan(row.value) else f"{row.value:z.3f}{interval}"
    rows = []
    for model, parts in summary.groupby("model", sort=False):
        # EMS-Support and EMS-open have one part each, and stand under the metric's name
        cells = {row.part if row.metric == "EMS" else row.metric: row
                 for row in parts.itertuples(index=False)}
        f1, shown = cells["F1"], dict.fromkeys(("Recall", "Precision", "F1", *cells))
        rows.append({"model": model, **{name: cell(cells[name]) for name in shown}, "n": f1.n,
                     "clusters": f1.clusters, "coverage": percent(f1.coverage)})
    note = (f"\nNo interval with fewer than {MIN_CLUSTERS} clusters: too few to say how they vary."
            if summary["ci_low"].isna().any() else "")
    if "EMS-Support" in set(summary.loc[summary["value"].isna(), "metric"]):
        note += "\nEMS-Support –: no point could be checked; without a judge, a point needs a number for it."
    return _as_text(pd.DataFrame(rows)) + note


def _as_text(table: pd.DataFrame) -> str:
    """The table with texts that are safe to show, and "–" where there is nothing."""
    safe = table.map(lambda cell: visible(cell) if isinstance(cell, str) else cell)
    return safe.to_string(index=False, na_rep="–")


if __name__ == "__main__":
    sys.exit(main())
