"""Controlled edits: each does what its name says, and a larger dose holds the smaller one."""

import random

import pytest

from ems.local.quantities import find_quantities, same
from ems.study.ablations import edits
from ems.study.ablations.edits import EDITS, apply, draw, edited_answers, sentence_spans
from ems.types import InputError, Triplet

TEXT = """Overview of the quarter:

Revenue was $94.9 billion, up 6% from the third quarter of 2023. Services reached $25 billion in India.

- Gross margin: 46.2% for Apple, against 36.3% for Mac.
- Management expects costs to rise by 250 million in December.
1. Tim Cook said that demand in China is strong. Paragraph 93 shows this.
"""
OTHER = "Capital spending was $2.9 billion. Buybacks came to $25 billion. The dividend is $0.25 a share."
BY_NAME = {e.name: e for e in EDITS}


def edited(name, text=TEXT, dose=1.0, other=OTHER, **options):
    return apply(BY_NAME[name], text, dose, other=other, **options)


def test_sentences_keep_their_list_marks_and_headings_are_none():
    found = [TEXT[a:b] for a, b in sentence_spans(TEXT)]
    assert found == [
        "Revenue was $94.9 billion, up 6% from the third quarter of 2023.",
        "Services reached $25 billion in India.",
        "- Gross margin: 46.2% for Apple, against 36.3% for Mac.",
        "- Management expects costs to rise by 250 million in December.",
        "1. Tim Cook said that demand in China is strong.",
        "Paragraph 93 shows this.",
    ]


def test_a_sentence_may_run_over_lines():
    text = "The first line\ngoes on here. Second one.\n- A list entry\n  that goes on."
    assert [text[a:b] for a, b in sentence_spans(text)] == [
        "The first line\ngoes on here.", "Second one.", "- A list entry\n  that goes on."]


def test_deleting_everything_leaves_the_heading():
    assert edited("delete points").text.split() == ["Overview", "of", "the", "quarter:"]
    assert edited("delete points").offered == 6


def test_half_of_six_sentences_is_three():
    done = edited("delete points", dose=0.5)
    assert done.changes == 3
    assert len(sentence_spans(done.text)) == 3


def test_changed_numbers_are_no_rounding_forms():
    before, after = find_quantities(TEXT), find_quantities(edited("change numbers").text)
    changed = [(a, b) for a, b in zip(before, after, strict=True) if not same(a, b)]
    assert [TEXT[a.start : a.end] for a, _ in changed] == ["$94.9 billion", "6%", "$25 billion", "46.2%",
                                                           "36.3%", "250 million"]
    assert "the third quarter of 2023" in edited("change numbers").text      # dates are another edit


def test_units_and_periods():
    text = edited("change units, periods").text
    assert "€94.9 million, up 6 basis points from the first quarter of 2022" in text
    assert "250 billion in March" in text


def test_negation_is_put_after_the_auxiliary_or_before_the_verb():
    text = edited("negate").text
    assert "Revenue was not $94.9 billion" in text
    assert "demand in China is not strong" in text
    assert "Management never expects" in text
    assert "Paragraph 93 never shows this" in text
    assert text.count(" not") + text.count("never ") == 4        # two sentences have no verb of the list


def test_what_is_negated_already_is_left_alone():
    assert edited("negate", "They can't say. They can’t sell it. We can.").text == (
        "They can't say. They can’t sell it. We can not.")


def test_a_month_is_no_name():
    assert edited("swap names", "Sales in India grew in August and fell in May.").offered == 0


def test_names_give_way_to_other_names_of_the_text():
    before, after = TEXT.split(), edited("swap names").text.split()
    changed = {a.strip(".,"): b.strip(".,") for a, b in zip(before, after, strict=True) if a != b}
    assert changed.keys() == {"India", "Apple", "Mac", "Cook", "China"}
    assert set(changed.values()) <= changed.keys()


def test_one_name_alone_cannot_be_swapped():
    assert edited("swap names", "Sales in India grew. Costs in India fell.").offered == 0


def test_repeats_stand_beside_their_originals_without_list_mark():
    text = edited("repeat points", "- Costs were flat.\n- Sales rose much.").text
    assert text == "- Costs were flat. Costs were flat.\n- Sales rose much. Sales rose much."


def test_padding_comes_from_the_other_text():
    other = "1. Tax fell again. Cash was high. Debt rose."
    text = edited("pad with other facts", "Costs were flat. Sales rose much.", other=other).text
    assert text == "Costs were flat. Tax fell again. Sales rose much. Cash was high."


def test_nothing_to_pad_with_is_no_edit():
    assert edited("pad with other facts", other="").offered == 0


def test_an_empty_summary_holds_no_number_and_stands_at_the_end():
    done = edited("add an empty summary", dose=0.5)
    assert done.text.startswith(TEXT)
    assert done.text[len(TEXT):].count("\n\n") == 2
    assert not find_quantities(done.text[len(TEXT):])


def test_shuffling_keeps_every_word():
    done = edited("shuffle sentences")
    assert done.text != TEXT
    assert sorted(done.text.split()) == sorted(TEXT.split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Sales of $94.9 billion.", "Sales of $94,900 million."),
        ("A loss of 250 million.", "A loss of 0.250 billion."),
        ("Up 6% on the year.", "Up 6 percent on the year."),
        ("Up 6 percent on the year.", "Up 6% on the year."),
        ("Down 1,250 million again.", "Down 1.250 billion again."),
        ("Sales of 1.23456 billion.", "Sales of 1,234.56 million."),
        ("Between $45-48 billion and 3 million.", "Between $45-48 billion and 0.003 billion."),   # 45 of what?
        ("From 2.5 to $3 billion, up 5-6%.", "From 2.5 to $3 billion, up 5-6 percent."),
    ],
)
def test_restated_numbers_are_the_same_amounts(before, after):
    assert edited("restate numbers", before).text == after
    assert all(same(a, b) for a, b in zip(find_quantities(before), find_quantities(after), strict=True))


def test_paraphrase_changes_no_number_and_no_name():
    text = edited("paraphrase lightly").text
    assert "leadership anticipates expenses" in text.lower().replace("management", "leadership")
    assert [q.value for q in find_quantities(text)] == [q.value for q in find_quantities(TEXT)]


def test_stop_words_become_other_stop_words():
    before, after = TEXT.split(), edited("change stop words").text.split()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) == edited("change stop words").offered == 11
    assert all(a in edits._STOP_WORDS and b in edits._STOP_WORDS for a, b in changed)


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: e.name)
def test_a_larger_dose_holds_the_smaller(edit):
    counts = [apply(edit, TEXT, dose, other=OTHER).changes for dose in (0.1, 0.25, 0.5, 0.75, 1.0)]
    touched = [apply(edit, TEXT, dose, other=OTHER).touched for dose in (0.1, 0.25, 0.5, 0.75, 1.0)]
    assert counts == sorted(counts)
    assert touched == sorted(touched)
    assert counts[0] >= 1
    assert apply(edit, TEXT, 1.0, other=OTHER).text != TEXT


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: e.name)
def test_equal_arguments_give_equal_texts_whatever_was_drawn_before(edit):
    first = apply(edit, TEXT, 0.5, other=OTHER, seed=3, key="a")
    random.seed(1)
    assert apply(edit, TEXT, 0.5, other=OTHER, seed=3, key="a") == first


def test_touched_is_a_share_of_words():
    text = "Sales rose. Costs were flat. Tax fell by half."       # 9 words; 2, 3 and 4 in the sentences
    done = apply(BY_NAME["delete points"], text, 1.0)
    assert done.touched == (2 + 3 + 4) / 9 == 1.0
    assert apply(BY_NAME["repeat points"], text, 1.0).touched == 9 / 9


def test_texts_are_drawn_from_different_groups_first():
    triplets = [Triplet(f"{group}{i}", group, "?", TEXT) for group in "AAAAB" for i in range(20)]
    for seed in range(5):
        drawn = draw(triplets, 4, seed=seed)
        assert {t.group for t in drawn[:2]} == {t.group for t in drawn[2:]} == {"A", "B"}
        assert drawn == draw(triplets, 4, seed=seed)
    assert len(draw(triplets, 0)) == len(draw(triplets, 200)) == 100


def test_no_dose_is_refused():
    with pytest.raises(InputError, match="DOSES must hold shares"):
        edited_answers([Triplet("t", "g", "?", TEXT)], [])


@pytest.mark.parametrize("dose", [0, -0.1, 1.01])
def test_a_dose_is_a_share(dose):
    with pytest.raises(ValueError, match="dose must be"):
        apply(EDITS[0], TEXT, dose)


@pytest.mark.parametrize("text", ["", "   \n\n", "word", "3.5%", "。。。", "\x00\n- \n- ", "a" * 5000])
def test_any_text_survives(text):
    for edit in EDITS:
        assert isinstance(apply(edit, text, 0.5, other=text).text, str)


def test_edited_answers_are_joined_to_what_was_done():
    triplets = [Triplet("A-1", "A", "q", TEXT), Triplet("A-2", "A", "q", OTHER),
                Triplet("B-1", "B", "q", "Nothing here")]
    answers, about = edited_answers(triplets, (0.25, 1.0))
    assert [(a.triplet_id, a.model) for a in answers] == [(b["triplet_id"], b["model"]) for b in about]
    assert len({(a.triplet_id, a.model) for a in answers}) == len(answers)
    whole = {a.triplet_id: a.answer for a in answers if a.model == "unedited"}
    assert whole == {t.id: t.reference for t in triplets}
    assert not any(
        b["edit"] == "change numbers" for b in about if b["triplet_id"] == "B-1"
    )  # nothing to change


def test_padding_prefers_the_same_group():
    one, near, far = (Triplet(i, g, "q", r) for i, g, r in (
        ("1", "A", "Sales rose much."), ("2", "B", "Far away it rained."), ("3", "A", "Near by it snowed.")))
    padded = next(
        a.answer for a in edited_answers([one, near, far], (1.0,))[0] if a.model == "pad with other facts@1"
    )
    assert padded == "Sales rose much. Near by it snowed."
