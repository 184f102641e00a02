"""What each command of the command line does. `cli` has their options. Heavy libraries load late.

A command takes the parsed arguments and returns its exit status. Those of `score` and `evaluate`
have two dictionaries of what the user has given: `stage_settings` for `build`, and `judge_settings`
for `LLMJudge.of`. The docstring of a command is the description that its help shows.
"""

from __future__ import annotations

import json
import math
import runpy
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .analysis.frames import PART_ORDER, ValueRow, metric_of, of_rows, value_rows
from .evaluators import OwnMetric, build
from .io import parse_yaml, read_text, write_jsonl
from .judge.cost import plan_text, usage_table
from .prompts import Prompts
from .terminal import notify
from .types import WITHOUT_JUDGE, Answer, InputError, Triplet

if TYPE_CHECKING:
    import pandas as pd

    from .analysis.gate import Threshold
    from .judge.client import LLMJudge

MOST_ROWS = 20_000  # kept as rows of values: in a frame they take a third of the memory
SCORED_SHARE = 0.95  # of the points, and of the answers, must have a score for exit status 0


# --- score and evaluate ---


def score_texts(args: Namespace) -> int:
    """Evaluate one answer against one reference, which are two text files."""
    reference = read_text(args.reference, any_encoding=True)
    answer = read_text(args.answer, any_encoding=True)
    evaluator = build(_judge(args), args.scorer, **args.stage_settings)
    result = evaluator.score(reference, answer, args.question)
    fields = {"metric": metric_of(result), **result.to_dict(), **_warning(result)}
    print(json.dumps(fields) if args.json else result)
    *_, row = value_rows(result, metric_of(result))
    return _status([row], Counter([result.reason]), evaluator.failures)


def evaluate_files(args: Namespace) -> int:
    """Evaluate many answers: print a table of means, and write a line for each answer to a file.

    Files are JSON lines, a JSON array or CSV with a header. A triplet has id, question and
    reference (or points), and may have context and group (such as a company); an answer has
    triplet_id, model and answer.
    """
    from .analysis.gate import check_thresholds, thresholds_of
    from .analysis.tables import table_text

    recordings = args.judge_settings.get("recorded", [])
    check_output(args.output, args.triplets, args.answers, args.store, *recordings)
    judge = _judge(args)
    evaluators = _evaluators(args, judge)
    evaluator = evaluators[0]
    parts = [each.name for each in evaluators] if args.metric else PART_ORDER
    thresholds = thresholds_of(dict(args.fail_under), dict(args.fail_over), parts)
    check_thresholds(thresholds, evaluator.signature)
    results, unanswered = _results(args, judge, evaluators)
    if judge is not None and judge.mode == "plan":
        for _ in results:
            pass  # the judge counts the calls
        print(plan_text({judge.name: judge.usage()}))
        return 0
    answers: list[ValueRow] = []
    frames: list[pd.DataFrame] = []
    reasons: Counter[str] = Counter()
    write_jsonl(args.output, _lines(results, answers, frames, reasons))
    failed = _print_summary(args, frames, results, _warning(evaluator), thresholds, unanswered)
    if judge is not None:
        print(table_text(usage_table({judge.name: judge.usage()})), file=sys.stderr)
    status = _status(answers, reasons, evaluator.failures)
    gate_status = _gate_status(failed)
    return status or gate_status


def _evaluators(args: Namespace, judge: LLMJudge | None) -> list[Any]:
    """One evaluator, or one for each metric of the user."""
    if not args.metric:
        return [build(judge, args.scorer, **args.stage_settings)]
    if args.scorer or judge is not None or args.stage_settings:
        raise InputError(
            "--metric takes the place of a judge, a scorer and its stages: leave their options out"
        )
    return [OwnMetric(path) for path in dict.fromkeys(args.metric)]


def _gate_status(failed: Sequence[str]) -> int:
    """The exit status of a gate. Prints what failed, a line each."""
    for line in failed:
        notify(f"ems: {line}")
    return 4 if failed else 0


def _judge(args: Namespace) -> LLMJudge | None:
    """The judge that the options name; None for none. InputError for an option that needs one."""
    if args.judge == "none":
        for name in args.judge_settings:
            raise InputError(
                f"--{name.replace('_', '-')} needs a judge; name one with --judge MODEL, or leave "
                "the option out"
            )
        return None
    from .judge.client import LLMJudge

    settings = {"mode": "live", **args.judge_settings}
    if settings.pop("dry_run", False):
        settings["mode"] = "plan"
    if "prices" in settings:
        settings["prices"] = parse_yaml(read_text(settings["prices"]), settings["prices"])
    settings |= {"store": args.store, "model": args.judge}
    return LLMJudge.of(settings, Path(), Path())


def _results(
    args: Namespace, judge: LLMJudge | None, evaluators: Sequence[Any]
) -> tuple[Iterable[Any], list[str]]:
    """The results one after the other; a list where points are checked against the documents.

    Beside them a line for each model that left triplets unanswered.
    """
    from .data import notify_unanswered, records
    from .support.supporter import check_by_judge

    if args.support and not hasattr(evaluators[0], "extractor"):
        raise InputError(
            "--support checks points, and this scorer or metric has none; leave it out"
        )
    if args.support and judge is None:
        raise InputError("--support llm asks a judge; name one, or leave it out")
    triplets = _triplets(args)
    # A file is read first whole for its errors, without keeping a text, and again for each
    # evaluator. A pipe is kept.
    source: Any = args.answers
    if not Path(source).is_file():
        source = list(records(source, Answer))
    answers = [replace(answer, answer="") for answer in records(source, Answer)]
    unanswered = notify_unanswered(triplets, answers)
    total = len(answers)  # the list itself is let go before the first result
    if args.scheduler:
        from .distributed import stream

        if judge is not None or args.metric:
            raise InputError(
                "--scheduler spreads stages without a judge; a judge scales by its endpoint: more "
                "--workers, or a batch endpoint (ems replies export --pending)"
            )
        stages = {"scorer": args.scorer, **args.stage_settings}
        whole = list(records(source, Answer))
        return stream(args.scheduler, triplets, whole, **stages), unanswered
    results = chain.from_iterable(
        evaluator.stream(triplets, records(source, Answer), total) for evaluator in evaluators
    )
    if judge is None or not args.support:
        return results, unanswered
    contexts = {triplet.id: triplet.context or "" for triplet in triplets}
    prompts = Prompts.named(args.stage_settings.get("prompts", "kit"))
    return check_by_judge(list(results), contexts, judge, prompts), unanswered


def _triplets(args: Namespace) -> list[Triplet]:
    """The triplets; without --support only the numbers of their contexts, which may be long."""
    from .data import records
    from .local.figures import numbers_alone

    triplets = []
    for triplet in records(args.triplets, Triplet):
        if triplet.context and not args.support:
            triplet = replace(triplet, context=numbers_alone(triplet.context))
        triplets.append(triplet)
    return triplets


def _warning(made: Any) -> dict[str, str]:
    """The warning about a result, or an evaluator, without a judge, as a field; else no field."""
    return {} if "judge" in made.signature else {"warning": WITHOUT_JUDGE}


def _lines(
    results: Iterable[Any],
    answers: list[ValueRow],
    frames: list[pd.DataFrame],
    reasons: Counter[str],
) -> Iterator[dict[str, Any]]:
    """The lines of the output file.

    F1 or Score of each answer, all values in frames, and reasons are added to the other arguments.
    """
    rows: list[ValueRow] = []
    for result in results:
        rows.extend(value_rows(result, metric_of(result)))
        answers.append(rows[-1])
        reasons[result.reason] += 1
        if len(rows) > MOST_ROWS:
            frames.append(of_rows(rows))
            rows.clear()
        yield {"metric": metric_of(result), **result.to_dict()}
    frames.append(of_rows(rows))


def _print_summary(
    args: Namespace,
    frames: list[pd.DataFrame],
    results: Iterable[Any],
    warning: Mapping[str, str],
    thresholds: Sequence[Threshold],
    unanswered: Sequence[str],
) -> list[str]:
    """Print the means with intervals, and what the documents say of the points.

    A warning is the first line. In JSON each row has it as a field. In Markdown the verdict follows
    it, and what the thresholds say is the end. Returns a line for each mean that breaks one.
    """
    import pandas as pd

    from .analysis.findings import few_figures, verdict
    from .analysis.gate import gate_failures, outcome_text
    from .analysis.stats import paired_table, summarise
    from .analysis.tables import bold, markdown_table, means_table, table_text
    from .support.supporter import support_table

    values = pd.concat(frames, ignore_index=True)
    frames.clear()
    summary = summarise(values, cluster=args.cluster)
    failed = gate_failures(summary, thresholds)
    if args.json:
        print(summary.assign(**warning).to_json(orient="records"))
        return failed
    show = table_text
    blocks = [*warning.values()]
    if args.markdown:
        show = markdown_table
        pairs = paired_table(values, cluster=args.cluster)
        blocks += [bold(" ".join(verdict(values, summary, pairs))), ""]
    blocks.append(show(means_table(summary)))
    if not args.markdown and not warning and summary["model"].nunique() == 1:
        blocks += few_figures(summary).values()
    if args.support:
        blocks += ["\nThe answers' points in the documents:\n", show(support_table(list(results)))]
    if args.markdown and thresholds:
        blocks += ["", outcome_text(failed, unanswered)]
    print(*blocks, sep="\n")
    return failed


def _status(answers: Sequence[ValueRow], reasons: Counter[str], failures: Counter[str]) -> int:
    """The exit status. Prints the commonest reasons, and what is unscored where that is too much.

    answers   F1 or Score of each
    reasons   of results, "" where a result is complete
    failures  replies that could not be used, by task and reason
    """
    units = sum(answer.units for answer in answers)
    unscored = sum(answer.unscored for answer in answers)
    without_value = sum(math.isnan(answer.value) for answer in answers)
    del reasons[""]
    for reason, count in reasons.most_common(3):
        notify(f"ems: {count} of {len(answers)} answers: {reason}")
    tolerated = 1 - SCORED_SHARE
    enough_points = unscored <= tolerated * units
    enough_answers = without_value <= tolerated * len(answers)
    if enough_points and enough_answers:
        return 0
    notify(
        f"ems: {unscored} of {units} points are unscored, {without_value} of {len(answers)} "
        "answers altogether; the values are those of the rest"
    )
    for reason, count in failures.most_common():
        hint = ""
        if reason.endswith(": length"):
            hint = "; a model that thinks first needs --thinking-tokens"
        notify(
            f"ems: {count} replies could not be used, {reason}{hint}; another --store asks again"
        )
    return 3


# --- results ---


def _whole_files(args: Namespace) -> tuple[Iterable[Triplet], Iterable[Answer]]:
    """The files that were evaluated, where a page shall have the whole texts; else nothing."""
    from .data import records

    if bool(args.triplets) != bool(args.answers):
        raise InputError("whole texts need both --triplets and --answers; give the other one too")
    if not args.answers:
        return (), ()
    return records(args.triplets, Triplet), records(args.answers, Answer)


def write_report(args: Namespace) -> int:
    """Write results as one HTML page: what was found, and the points of each answer.

    Of several files each metric has a table of its own. The page holds the texts.
    """
    from .analysis.report import save_report
    from .data import read_results

    triplets, answers = _whole_files(args)
    check_output(args.output, *args.results, args.triplets, args.answers)
    results, frame = read_results(args.results)
    frame["group"] = frame[args.cluster]
    page = save_report(
        results,
        args.output,
        frame,
        title=args.title,
        sources=args.results,
        answers_file=args.answers,
        triplets=triplets,
        answers=answers,
    )
    print(page)
    if any(map(_warning, chain.from_iterable(results.values()))):
        notify(WITHOUT_JUDGE)
    return 0


def compare_files(args: Namespace) -> int:
    """Compare two files of results, or the models of one, on the same questions.

    A difference is a minus b. Answers are joined by triplet and model. The column "higher" names
    the file, or the model, with the higher mean where the difference is clear.
    """
    from .analysis.compare import compare_results, comparison_text
    from .analysis.gate import outcome_text, regressions

    if args.fail_on_regression and args.b is None:
        raise InputError(
            "--fail-on-regression needs two files; name two files, A the old one, B the new"
        )
    tables = compare_results(args.a, args.b, metrics=args.metric, cluster=args.cluster)
    failed: list[str] = []
    if args.fail_on_regression:
        failed = regressions(tables["parts"])
        if missing := tables["parts"]["only_a"].max():
            notify(f"ems: up to {missing} answers of a model are in {args.a} only")
    if args.json:
        fields = {name: tables.pop(name) for name in ("verdict", "warning")}
        for name, table in tables.items():
            fields[name] = json.loads(table.to_json(orient="records"))
        print(json.dumps(fields))
    else:
        print(comparison_text(tables, args.a, args.b, markdown=args.markdown))
        if args.markdown and args.fail_on_regression:
            print(f"\n{outcome_text(failed)}")
    return _gate_status(failed)


# --- labels ---


def write_sheet(args: Namespace) -> int:
    """Draw points, or pairs of answers, and write one HTML page on which a person labels them.

    The page is offline and shows neither models nor scores. It saves a file for ems agree.
    """
    from .analysis.report import whole_texts
    from .analysis.sheet import save_sheet
    from .data import load_results

    check_output(args.output, args.results, args.triplets, args.answers)
    results = load_results(args.results)
    whole = whole_texts(results, *_whole_files(args))
    metric, rows = next(iter(results.items()), ("results", []))
    number = save_sheet(rows, args.output, args.number, pairs=args.pairs, whole=whole)
    print(f"{args.output}: {number} {'pairs' if args.pairs else 'points'} of {metric} to label")
    return 0


def show_agreement(args: Namespace) -> int:
    """Show how well metrics agree with your labels.

    LABELS is what a page of ems label saved: then the output says how often people confirm each
    word of the metrics, and corrects recall by the labels. Or it is a file of triplet_id, model and
    label (0 or 1, or a grade).
    """
    from .analysis.labels import agreement_text

    print(agreement_text(args.results, args.labels))
    return 0


# --- replies and notebooks ---


def move_replies(args: Namespace) -> int:
    """Write saved replies to a file, or read those of a file or of a batch endpoint."""
    from .judge.store import Replies

    if args.action == "export":
        check_output(args.file, args.store)
        if not Path(args.store).exists():
            raise InputError(f"{args.store}: no such store; --store names one that a run has made")
    store = Replies(args.store)
    if args.action == "import":
        counts = store.import_file(args.file)
        print(", ".join(f"{count} {what}" for what, count in counts.items()))
    elif args.pending:
        print(f"{store.export_pending(args.file)} pending requests written to {args.file}")
    else:
        print(f"{store.export(args.file)} replies written to {args.file}")
    return 0


def run_notebooks(arguments: Sequence[str]) -> int:
    """Run the notebooks of a profile: the arguments are those of notebooks/run.py in a clone."""
    runner = Path("notebooks", "run.py")
    if not runner.is_file():
        raise InputError(f"no {runner} in {Path.cwd()}; run this in a clone of the project")
    sys.path.insert(0, str(runner.parent.resolve()))  # where it finds the file beside it
    return int(runpy.run_path(str(runner))["main"](arguments))


def check_output(output: str, *inputs: str) -> None:
    """InputError when the file to write is a folder, or one of the files that the command reads."""
    if Path(output).is_dir():
        raise InputError(f"{output} is a folder; name a file in it to write")
    if Path(output).resolve() in [Path(path).resolve() for path in inputs]:
        raise InputError(
            f"{output} is also read by this command and would be lost; name another file"
        )
