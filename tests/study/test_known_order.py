"""Mixtures replace more and more points of an answer, and metrics are compared with that order."""

import itertools

import pytest
from study import known_order

from ems.local.sentences import SentenceExtractor
from ems.results import EMSResult
from ems.types import Answer, Triplet


def test_mixtures_replace_more_and_more_points_and_metrics_are_compared_with_that_order():
    reference = "Sales rose. Costs fell. Debt fell. Cash rose."
    triplets = [Triplet(id_, id_[0], "q", reference) for id_ in ("g1", "g2", "h1", "h2")]
    good = ("Sales rose.", "Costs fell.", "Debt fell.", "Cash rose.")
    bad = ("It rained.", "It snowed.")
    results = [EMSResult(t.id, known_order.BEST, (), good, ()) for t in triplets]
    results += [EMSResult(t.id, known_order.WORST, (), bad, ()) for t in triplets]
    drawn, answers = known_order.mixtures(triplets, results)
    assert sorted(t.group for t in drawn) == ["g", "h"]  # one question a group
    lines = {a.model: a.answer.split("\n") for a in answers if a.triplet_id == drawn[0].id}
    assert list(lines) == ["0%", "25%", "50%", "75%", "100%"]
    kept = [set(good) & set(points) for points in lines.values()]
    assert [len(points) for points in kept] == [4, 3, 2, 1, 0]
    assert all(more > fewer for more, fewer in itertools.pairwise(kept))
    # The points of the other question follow.
    assert sorted(lines["100%"]) == sorted([*bad, *bad])
    kept = known_order.order_kept(known_order.values(drawn, answers))
    row = kept.loc["Coverage(local)"]
    assert (row["steps"], row["n"]) == (1, 2)
    assert row["0%"] == pytest.approx(1)


def test_lines_of_mixed_answers_are_points_and_other_texts_go_to_the_extractor():
    mixed = "Sales rose. Twice.\nCosts fell."
    extract = known_order.Lines(SentenceExtractor(), [Answer("t", "0%", mixed)])
    assert extract(["Cash rose. Debt fell.", mixed]) == [
        ("Cash rose.", "Debt fell."),
        ("Sales rose. Twice.", "Costs fell."),
    ]
