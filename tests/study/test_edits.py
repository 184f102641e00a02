"""Edits: each does what its name says, a larger dose holds the smaller one, and losses are counted by hand."""

import itertools
import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from study import edits, values_frame

from ems.local.sentences import SentenceExtractor
from ems.results import EMSResult
from ems.types import Answer, InputError, Triplet

TEXT = (
    "Overview of the quarter:\n\nRevenue was $94.9 billion, up 6% on the year. Services reached $25 billion in India.\n\n"
    "- Gross margin: 46.2% for Apple, against 36.3% for Mac.\n- Management expects costs to rise by 250 million in December.\n"
    "Tim Cook said that demand in China is strong. Paragraph 93 shows this.\n"
)
OTHER = "Capital spending was $2.9 billion. Buybacks came to $25 billion. The dividend is $0.25 a share."


SENTENCES = SentenceExtractor(keep_summaries=True)([TEXT])[0]


def edited(name, text=TEXT, dose=1.0, other=OTHER):
    return edits.edited(name, text, other, dose, "t1")


def test_what_each_edit_does():
    before, after = (re.findall(r"\d[\d.]*", text) for text in (TEXT, edited("change numbers")))
    assert len(before) == len(after) == 7
    assert all(
        a[0] != b[0] and a[1:] == b[1:] for a, b in zip(before, after, strict=True)
    )  # beyond rounding
    negated = edited("negate")
    assert all(
        changed in negated
        for changed in (
            "Revenue was not $94.9",
            "Management never expects",
            "China is not",
            "93 never shows",
        )
    )
    assert (
        negated.count(" not ") + negated.count("never ") == 4
    )  # two sentences have no verb of the list
    assert edited("negate", "They can't say. They can’t sell it. We can.").endswith("We can not.")
    assert len(edited("delete points", dose=0.01).split("\n\n")) == 5  # of six: one change at least
    assert edited("delete points") == ""
    assert edited("pad with other facts").count("Buybacks came to $25 billion.") == 1
    shuffled = edited("shuffle sentences").split("\n\n")
    assert (sorted(shuffled), shuffled != list(SENTENCES)) == (sorted(SENTENCES), True)
    assert (
        edited("pad with other facts", other="")
        is edited("change numbers", "No number here.")
        is None
    )


@pytest.mark.parametrize("name", ["delete points", "change numbers", "negate"])
def test_a_larger_dose_holds_the_smaller(name):
    changed = [
        {s for s in SENTENCES if s not in edited(name, dose=dose)} for dose in (0.25, 0.5, 1.0)
    ]
    assert changed[0] < changed[1] < changed[2]
    with pytest.raises(InputError, match="share"):
        edited(name, dose=1.1)


@given(st.text(), st.sampled_from(list(edits.EDITS)), st.sampled_from(edits.DOSES))
def test_any_text_can_be_edited_and_equal_arguments_give_equal_texts(text, name, dose):
    assert edited(name, text, dose) == edited(name, text, dose)


def test_losses_by_hand():
    triplets = [
        Triplet(f"t{i}", f"g{i}", "q", "Revenue was 5 million. Costs rose. Debt fell.")
        for i in range(8)
    ]
    answers = edits.edited_answers(triplets, doses=[0.5, 1.0])
    kept = [a for a in answers if a.model in (edits.UNEDITED, "negate@1", "pad with other facts@1")]
    parts = {
        "F1": {"negate@1": 0.5, "pad with other facts@1": 0.9},
        "Precision": {"negate@1": 0.2, "pad with other facts@1": 0.6},
    }
    values = pd.concat(
        [
            values_frame(kept, [of.get(a.model, 1.0) for a in kept], "M", part, {}, triplets)
            for part, of in parts.items()
        ]
    )
    lost = edits.losses(values).set_index("edit")
    assert lost["part"].to_dict() == {
        "negate": "F1",
        "pad with other facts": "Precision",
    }  # what should notice it
    assert (
        lost["loss"].to_dict()
        == lost["ci_low"].to_dict()
        == pytest.approx({"negate": 0.5, "pad with other facts": 0.4})
    )


def test_mixtures_replace_more_and_more_points_and_metrics_are_held_against_that_order():
    best, worst = edits.BEST, edits.WORST
    triplets = [
        Triplet(f"{g}{n}", g, "q", "Sales rose. Costs fell. Debt fell. Cash rose.")
        for g in "gh"
        for n in "12"
    ]
    good, bad = (
        ("Sales rose.", "Costs fell.", "Debt fell.", "Cash rose."),
        ("It rained.", "It snowed."),
    )
    results = [
        EMSResult(t.id, model, (), points, ())
        for t in triplets
        for model, points in ((best, good), (worst, bad))
    ]
    drawn, answers = edits.mixtures(triplets, results)
    assert sorted(t.group for t in drawn) == ["g", "h"]  # one question a group
    lines = {a.model: a.answer.split("\n") for a in answers if a.triplet_id == drawn[0].id}
    assert list(lines) == ["0%", "25%", "50%", "75%", "100%"]
    kept = [set(good) & set(points) for points in lines.values()]
    assert [len(points) for points in kept] == [4, 3, 2, 1, 0]
    assert all(
        a > b for a, b in itertools.pairwise(kept)
    )  # what a small share loses a larger one does, too
    assert sorted(lines["100%"]) == sorted([*bad, *bad])  # those of the other question as well
    table = edits.rises(edits.values(drawn, answers))
    assert table.loc["Coverage(local)", ["steps", "spearman", "n"]].to_list() == [
        1,
        pytest.approx(1),
        2,
    ]
    assert table.loc["Coverage(local)", "0%"] == pytest.approx(1)


def test_lines_of_mixed_answers_are_points_and_other_texts_go_to_the_extractor():
    extract = edits.Lines(
        SentenceExtractor(), [Answer("t", "0%", "Sales rose. Twice.\nCosts fell.")]
    )
    assert extract(["Cash rose. Debt fell.", "Sales rose. Twice.\nCosts fell."]) == [
        ("Cash rose.", "Debt fell."),
        ("Sales rose. Twice.", "Costs fell."),
    ]
