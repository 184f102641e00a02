"""`ems report`, `ems compare` and `ems agree`: what is done with results."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..judge.unread import unread_replies
from ..results.display import visible
from ..results.saved import load_results, of_metric
from .files import keep, named_triplets, saved_replies


def report(args: argparse.Namespace) -> int:
    """Results as one HTML file."""
    out = Path(args.output)
    keep(out, args.results, args.triplets, args.store)
    results = load_results(args.results)
    unread = unread_replies(saved_replies(args.store)) if args.store else []
    triplets = named_triplets(args.triplets) if args.triplets else None
    from ..results.page import save_report  # late: a refusal need not wait for pandas

    save_report(results, out, triplets=triplets, title=args.title, unread=unread)
    count, size = sum(map(len, results.values())), out.stat().st_size
    print(json.dumps({"report": str(out), "results": count, "bytes": size}) if args.json else
          f"{count} results in {visible(str(out))} ({size / 1000:,.0f} kB)")
    return 0


def compare(args: argparse.Namespace) -> int:
    """Two files of results: paired differences, and the answers and points that changed most."""
    from ..results.comparison import compare as compare_results

    a, b = (of_metric(load_results(path), args.metric, path) for path in (args.a, args.b))
    triplets = named_triplets(args.triplets) if args.triplets else None
    found = compare_results(a, b, triplets=triplets, cluster=args.cluster, seed=args.seed)
    print(found.to_json() if args.json else found.text(args.top))
    return 0


def agree(args: argparse.Namespace) -> int:
    """Results beside a user's own labels: agreement by metric, mean labels corrected by the metric."""
    from ..study.people import own_labels

    results, labels = own_labels.own_results(args.results), own_labels.read_labels(args.labels)
    print("\n\n".join(own_labels.as_text(results, labels)))
    return 0
