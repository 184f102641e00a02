"""Each edit does what its name says, a larger dose holds a smaller one; losses by hand."""

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

TEXT = """Overview of the quarter:

Revenue was $94.9 billion, up 6% on the year. Services reached $25 billion in India.

- Gross margin: 46.2% for Apple, against 36.3% for Mac.
- Management expects costs to rise by 250 million in December.
Tim Cook said that demand in China is strong. Paragraph 93 shows this.
"""
OTHER = "Capital spending was $2.9 billion. Buybacks came to $25 billion. The dividend is $0.25."
SENTENCES = SentenceExtractor(keep_summaries=True)([TEXT])[0]


def edited(name, text=TEXT, dose=1.0, other=OTHER):
    return edits.edit_text(name, text, other, dose, "t1")


def numbers_in(text):
    return re.findall(r"\d[\d.]*", text)


def test_the_first_digit_of_every_number_changes():
    before, after = numbers_in(TEXT), numbers_in(edited("change numbers"))
    assert len(before) == len(after) == 7
    for old, new in zip(before, after, strict=True):
        assert old[0] != new[0]
        assert old[1:] == new[1:]
    assert edited("change numbers", "No number here.") is None


def test_a_negated_sentence_has_one_not_or_never():
    negated = edited("negate")
    assert "Revenue was not $94.9" in negated
    assert "Management never expects" in negated
    assert "China is not" in negated
    assert "93 never shows" in negated
    # The other two sentences have no verb of the list.
    assert negated.count(" not ") + negated.count("never ") == 4
    assert edited("negate", "They can't say. They can’t sell it. We can.").endswith("We can not.")


def test_points_are_deleted_padded_and_shuffled():
    # At the smallest dose one of the six sentences is deleted.
    assert len(edited("delete points", dose=0.01).split("\n\n")) == 5
    assert edited("delete points") == ""
    assert edited("pad with other facts").count("Buybacks came to $25 billion.") == 1
    assert edited("pad with other facts", other="") is None
    shuffled = edited("shuffle sentences").split("\n\n")
    assert sorted(shuffled) == sorted(SENTENCES)
    assert shuffled != list(SENTENCES)


@pytest.mark.parametrize("name", ["delete points", "change numbers", "negate"])
def test_a_larger_dose_holds_the_smaller(name):
    def changed(dose):
        text = edited(name, dose=dose)
        return {sentence for sentence in SENTENCES if sentence not in text}

    assert changed(0.25) < changed(0.5) < changed(1.0)
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
    answers = [
        a for a in answers if a.model in (edits.UNEDITED, "negate@1", "pad with other facts@1")
    ]
    f1 = {edits.UNEDITED: 1.0, "negate@1": 0.5, "pad with other facts@1": 0.9}
    precision = {edits.UNEDITED: 1.0, "negate@1": 0.2, "pad with other facts@1": 0.6}
    frames = []
    for part, by_model in (("F1", f1), ("Precision", precision)):
        values = [by_model[a.model] for a in answers]
        frames.append(values_frame(answers, values, "M", part, {}, triplets))
    losses = edits.losses(pd.concat(frames)).set_index("edit")
    # The part that should notice the edit.
    assert losses["part"].to_dict() == {"negate": "F1", "pad with other facts": "Precision"}
    by_hand = pytest.approx({"negate": 0.5, "pad with other facts": 0.4})
    assert losses["loss"].to_dict() == by_hand
    assert losses["ci_low"].to_dict() == by_hand


def test_a_changed_number_shows_in_the_recall_of_figures_and_an_added_one_in_their_precision():
    triplets = [
        Triplet("t1", "g1", "q", "Revenue was 514 million. Costs rose by 37%."),
        Triplet("t2", "g2", "q", "Debt is 12 million."),
    ]
    losses = edits.losses(edits.values(triplets, edits.edited_answers(triplets, doses=[1.0])))
    found = losses[losses["metric"] == "Figures"].set_index("edit")
    assert found.loc["change numbers", ["part", "loss"]].tolist() == ["Recall", 1]
    assert found.loc[edits.PADDED, "part"] == "Precision"
    assert found.loc[edits.PADDED, "loss"] > 0
    assert found.loc[edits.SHUFFLED, "loss"] == 0


def test_mixtures_replace_more_and_more_points_and_metrics_are_compared_with_that_order():
    reference = "Sales rose. Costs fell. Debt fell. Cash rose."
    triplets = [Triplet(id_, id_[0], "q", reference) for id_ in ("g1", "g2", "h1", "h2")]
    good = ("Sales rose.", "Costs fell.", "Debt fell.", "Cash rose.")
    bad = ("It rained.", "It snowed.")
    results = [EMSResult(t.id, edits.BEST, (), good, ()) for t in triplets]
    results += [EMSResult(t.id, edits.WORST, (), bad, ()) for t in triplets]
    drawn, answers = edits.mixtures(triplets, results)
    assert sorted(t.group for t in drawn) == ["g", "h"]  # one question a group
    lines = {a.model: a.answer.split("\n") for a in answers if a.triplet_id == drawn[0].id}
    assert list(lines) == ["0%", "25%", "50%", "75%", "100%"]
    kept = [set(good) & set(points) for points in lines.values()]
    assert [len(points) for points in kept] == [4, 3, 2, 1, 0]
    assert all(more > fewer for more, fewer in itertools.pairwise(kept))
    # The points of the other question follow.
    assert sorted(lines["100%"]) == sorted([*bad, *bad])
    row = edits.order_kept(edits.values(drawn, answers)).loc["Coverage(local)"]
    assert (row["steps"], row["n"]) == (1, 2)
    assert row["spearman"] == pytest.approx(1)
    assert row["0%"] == pytest.approx(1)


def test_lines_of_mixed_answers_are_points_and_other_texts_go_to_the_extractor():
    mixed = "Sales rose. Twice.\nCosts fell."
    extract = edits.Lines(SentenceExtractor(), [Answer("t", "0%", mixed)])
    assert extract(["Cash rose. Debt fell.", mixed]) == [
        ("Cash rose.", "Debt fell."),
        ("Sales rose. Twice.", "Costs fell."),
    ]
