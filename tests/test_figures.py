"""Figures: which numbers of a text another text does not have."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ems.local.figures import Number, compare_figures, numbers_alone, printed_numbers, read_terms
from ems.local.words import FIGURE_LOSS, word_overlap
from ems.types import GivenPoint, Triplet


def compared(ref, ans, question="", context=None):
    """The figures of texts whose points are given, one a line."""
    triplet = Triplet("t", "g", question, "\n".join(ref), context)
    return compare_figures(triplet, "\n".join(ans), tuple(ref), tuple(ans))


def numbers_in(text):
    return [number for *_, number in printed_numbers(text)]


def marked(points, places):
    """Per point the texts of its places."""
    texts = [[] for _ in points]
    for i, start, end in places:
        texts[i].append(points[i][start:end])
    return texts


def shares(ref, ans, question=""):
    figures = compared(ref, ans, question)
    return figures.ref.share, figures.ans.share


@pytest.mark.parametrize(
    ("point", "printed"),
    [
        ("Revenue was $4.28 billion, up 7%.", ["$4.28 billion", "7%"]),
        ("It fell 3.5 % to 1,204 million.", ["3.5 %", "1,204 million"]),
        ("A spread of 50bps in FY '25", ["50bps", "'25"]),
        ("It rose 4 percent and 25 basis points.", ["4 percent", "25 basis points"]),
        (r"A share of 46.2\% or 12％", [r"46.2\%", "12％"]),
        ("Sales of 12\nPercent", ["12"]),  # a unit stands in the line of its number
        ("3M, 4Q24 and [19]", []),  # names and a citation
        ("5 and 5 again", ["5", "5"]),
    ],
)
def test_figures_are_marked_as_printed(point, printed):
    assert marked([point], compared([point], [""]).ref.lacking) == [printed]


def test_figures_of_the_question_do_not_count():
    points = ["In 2024 sales rose 5%.", "In 2024 costs fell."]
    figures = compared(points, [""], "How did sales change in 2024?")
    assert marked(points, figures.ref.lacking) == [["5%"], []]
    assert (figures.ref.count, figures.ref.shared) == (1, 0)


def test_what_the_other_side_lacks_is_marked_point_by_point():
    ref = ["Revenue was $4.82 billion.", "EPS fell 7% to $1.10."]
    ans = ["Revenue was $4.28 billion.", "EPS: 1.10 dollars.", "In all, 4,820 million."]
    figures = compared(ref, ans)
    assert marked(ref, figures.ref.lacking) == [[], ["7%"]]
    assert marked(ans, figures.ans.lacking) == [["$4.28 billion"], [], []]
    assert (figures.ref.count, figures.ref.shared) == (3, 2)
    assert (figures.ans.count, figures.ans.shared) == (3, 2)
    assert figures.not_in_document is None


def test_points_are_compared_with_the_whole_other_text_and_counts_are_those_of_the_texts():
    """Points that leave out a part of their text change no count and no mark of the other side."""
    triplet = Triplet("t", "g", "", "Sales of 7 and 12.")
    figures = compare_figures(triplet, "Sales of 7, 12 and 9.", ("Sales of 7.",), ("7", "and 9"))
    assert (figures.ref.count, figures.ref.lacking) == (2, ())
    assert (figures.ans.count, figures.ans.shared, figures.ans.lacking) == (3, 2, ((1, 4, 5),))


PERCENTAGES = ["4%", "4 %", r"4\%", "4.2 percent", "4 per cent", "4-percentage-point", "4 bps"]


@pytest.mark.parametrize("percentage", PERCENTAGES)
@pytest.mark.parametrize("amount", ["$4.2 billion", "4 million", "$4.2", "€4", "4k"])
def test_a_percentage_is_no_amount(percentage, amount):
    assert shares([f"It was {percentage}."], [f"It was {amount}."]) == (0, 0)
    assert shares([f"It was {amount}."], [f"It was {percentage}."]) == (0, 0)
    context = f"The filing says {amount} and no percentage."
    (place,) = compared(["x"], [percentage], context=context).not_in_document
    assert place == (0, 0, len(percentage))


@pytest.mark.parametrize("percentage", PERCENTAGES)
@pytest.mark.parametrize(
    ("number", "same"),
    [("4", True), ("4.2%", True), ("4,000", False), ("0.004", False), ("4,000,000", False)],
)
def test_a_percentage_is_compared_with_a_bare_number_as_it_is_printed(percentage, number, same):
    """A table may have the sign in its header; no factor is allowed, not even for a scale word."""
    for text in (percentage, f"3 and {percentage}"):
        ref, ans = shares([f"It was {number}."], [f"It was {text}."])
        assert (ref > 0, ans > 0) == (same, same)
    assert shares(["4 thousand percent"], [number]) == (number == "4,000",) * 2


@pytest.mark.parametrize("bare", ["4,200", "4200", "$4,200", "4.2"])
def test_an_amount_passes_for_a_number_in_a_table_of_millions(bare):
    assert shares(["Sales were $4.2 billion."], [f"| Sales | {bare} |"]) == (1, 1)
    assert shares([f"| Sales | {bare} |"], ["Sales were 4.2 billion, up 9%."]) == (1, 1 / 2)


def test_a_percentage_of_the_question_does_not_hide_an_amount():
    assert shares(["Sales were $4.2 billion."], ["?"], "Why 4%?")[0] == 0
    assert math.isnan(shares(["It rose 4 percent."], ["?"], "Why 4%?")[0])


def test_given_points_stand_in_place_of_a_reference():
    triplet = Triplet("t", "g", "", "", points=(GivenPoint("Up 7%."), GivenPoint("12 units.")))
    assert compare_figures(triplet, "Up 7%.", (), ()).ref.share == 1 / 2


DOCUMENT = """Total revenue was $94.9 billion, up 6% from a year ago.
Services revenue reached $25.0 billion, against $22.3 billion in the prior year [19].

| Segment (in millions) | 2024 | 2023 |
| Americas revenue | 41,664 | 40,115 |"""


@pytest.mark.parametrize(
    ("point", "lacking"),
    [
        ("Total revenue came to $94.9 billion.", []),
        ("Total revenue was about $95 billion.", []),  # as far as it is printed
        ("Total revenue was 94,900 million dollars.", []),
        ("Total revenue was $97.3 billion, up 6%.", ["$97.3 billion"]),
        ("Americas revenue was $41,664 million.", []),  # the table's scale stands elsewhere
        ("In 2019 it was $10,019.", ["2019", "$10,019"]),
        ("Revenue rose.", []),
    ],
)
def test_which_figures_the_document_lacks(point, lacking):
    """A document is read for its numbers alone, and these say the same as the whole."""
    for context in (DOCUMENT, numbers_alone(DOCUMENT)):
        figures = compared(["x"], [point], context=context)
        assert marked([point], figures.not_in_document) == [lacking]


def test_a_document_without_numbers_is_a_document():
    assert compared([""], ["5"], context=numbers_alone("No number.")).not_in_document == (
        (0, 0, 1),
    )


def test_recall_and_precision_by_hand():
    """The reference has 7 and 12; the answer has 12, 9 and 30, of which 12 is right."""
    ref = ["It fell 7%.", "It sold 12 units.", "The 12 units, again."]
    ans = ["It sold 12 units.", "It rose 9% in 30 days."]
    assert shares(ref, ans) == (pytest.approx(1 / 2), pytest.approx(1 / 3))


def test_recall_and_precision_without_the_figures_of_the_question():
    """Without 2024, which the question has, one of two figures is right on either side."""
    ref, ans = ["5% and 6% in 2024."], ["5% and 7% in 2024."]
    assert shares(ref, ans) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert shares(ref, ans, "And in 2024?") == (pytest.approx(1 / 2), pytest.approx(1 / 2))


def test_a_side_without_figures_has_no_value():
    recall, precision = shares(["Sales rose."], ["Sales rose 5%."])
    assert math.isnan(recall)
    assert precision == 0.0
    assert all(map(math.isnan, shares([], [])))


def test_a_point_loses_half_the_share_of_its_figures_that_the_other_text_lacks():
    """Of the words and numbers "zeppelins", 46.2 and 12 the answer has the first two."""
    overlap = word_overlap(("zeppelins 46.2, 12",), ("zeppelins 46.2",))
    weight_in_common = 2 / 3  # of three terms of equal weight
    assert FIGURE_LOSS == 0.5
    assert overlap.ref_score[0] == pytest.approx(weight_in_common * (1 - 0.5 * 1 / 2))
    assert overlap.ans_score[0] == pytest.approx(1.0)


def test_a_point_does_not_lose_for_a_figure_of_the_question():
    plain, with_question = (
        word_overlap(("zeppelins 2024",), ("zeppelins",), question).ref_score[0]
        for question in ("", "In 2024?")
    )
    assert plain == pytest.approx(1 / 2 * 0.5)
    assert with_question == pytest.approx(1 / 1.3)


def test_a_wrong_figure_costs_more_than_another_wording():
    reference = ("Revenue rose 7% to $4.82 billion in the quarter.",)
    wrong = word_overlap(reference, ("Revenue rose 7% to $4.28 billion in the quarter.",))
    reworded = word_overlap(reference, ("Sales in the quarter grew by 7% to $4.82 billion.",))
    assert wrong.ref_score[0] < reworded.ref_score[0]


POINTS = st.lists(st.text(alphabet="ab 19.,%$", max_size=12), max_size=5)


@given(POINTS, POINTS, st.text(alphabet="ab 19", max_size=8))
def test_counts_say_how_many_figures_are_lacking(ref, ans, question):
    figures, swapped = compared(ref, ans, question), compared(ans, ref, question)
    assert (figures.ref, figures.ans) == (swapped.ans, swapped.ref)
    assert 0 <= figures.ref.shared <= figures.ref.count
    assert (figures.ref.shared < figures.ref.count) == bool(figures.ref.lacking)


@given(st.text(alphabet="abKst 19.,-'’[]$€%\\Mnp\n_–売上", max_size=30))
def test_figures_are_the_numbers_of_the_local_evaluator(text):
    assert numbers_in(text) == [term for term in read_terms(text) if isinstance(term, Number)]


@given(st.text(alphabet="ab 19.,'[]$%Mn\n", max_size=30))
def test_the_numbers_of_a_document_alone_are_the_same_numbers(document):
    assert set(numbers_in(numbers_alone(document))) == set(numbers_in(document))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "1" * 10**6,
        "1 " * 500_000,
        " ".join(map(str, range(150_000))),
        " ".join(f"{i / 1000:.3f} million" for i in range(65_000)),
        "1 billion " * 50_000 + " ".join(f"{1 + i / 1e6:.6f}" for i in range(50_000)),
        " ".join(f"{i / 1000:.3f} percent" for i in range(65_000)),
    ],
    ids=[
        "one number",
        "one digit",
        "whole numbers",
        "decimals with a scale word",
        "coarse and fine",
        "percentages",
    ],
)
def test_a_megabyte_of_digits_within_seconds(text):
    began = time.process_time()
    compared(["Sales rose 5%.", text[::-1]], [text], "What rose?", numbers_alone(text))
    assert time.process_time() - began < 10  # 3 s on a quiet machine
