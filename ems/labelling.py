"""What `ems label` and `ems agree` do, as `commands` has it for the other commands."""

from __future__ import annotations

from argparse import Namespace

from .commands import check_output, whole_files


def write_sheet(args: Namespace) -> int:
    """Draw points, or pairs of answers, and write one HTML page on which a person labels them.

    The page is offline and shows neither models nor scores. It saves a file for ems agree.
    """
    from .analysis.report import whole_texts
    from .analysis.sheet import save_sheet
    from .data import load_results

    triplets, answers = whole_files(args)
    check_output(args.output, args.results, args.triplets, args.answers)
    results = load_results(args.results)
    whole = whole_texts(results, triplets, answers)
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
    from .analysis.labels import agreement_text, is_sheet, sheets_text

    sheets = [path for path in [*args.results, args.labels] if is_sheet(path)]
    if sheets:
        print(sheets_text([path for path in args.results if path not in sheets], sheets))
    else:
        print(agreement_text(args.results, args.labels))
    return 0
