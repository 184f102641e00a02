"""Figures: which numbers of a text another text does not have."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ems.local.figures import figure_scores, figures_of, lacking_figures
from ems.local.words import FIGURE_LOSS, NUMBER_WEIGHT, UNKNOWN_WEIGHT, word_overlap


def texts_of(figures):
    return [texts_of_point(of_point) for of_point in figures]


def texts_of_point(figures):
    return [figure.text for figure in figures]


@pytest.mark.parametrize(
    ("point", "printed"),
    [
        ("Revenue was $4.28 billion, up 7%.", ["$4.28 billion", "7%"]),
        ("It fell 3.5 % to 1,204 million.", ["3.5 %", "1,204 million"]),
        ("A spread of 50bps in FY '25", ["50", "'25"]),
        ("3M, 4Q24 and [19]", []),  # names and a citation
        ("5 and 5 again", ["5", "5"]),
    ],
)
def test_figures_are_given_as_printed_and_with_their_place(point, printed):
    (figures,) = figures_of([point])
    assert texts_of_point(figures) == printed
    assert [point[figure.start : figure.end] for figure in figures] == printed


def test_figures_of_the_question_do_not_count():
    points = ["In 2024 sales rose 5%.", "In 2024 costs fell."]
    assert texts_of(figures_of(points, "How did sales change in 2024?")) == [["5%"], []]


def test_what_the_other_side_lacks_is_named_point_by_point():
    ref = ["Revenue was $4.82 billion.", "EPS fell 7% to $1.10."]
    ans = ["Revenue was $4.28 billion.", "EPS: 1.10 dollars.", "In all, 4,820 million."]
    assert texts_of(lacking_figures(ref, ans)) == [[], ["7%"]]
    assert texts_of(lacking_figures(ans, ref)) == [["$4.28 billion"], [], []]


def test_a_document_may_stand_in_place_of_the_other_side():
    passages = ["Sales (in millions) | 4,280", "Margin 46.2%"]
    points = ["Sales of $4.28 billion at a margin of 46%.", "Costs of $3 billion."]
    assert texts_of(lacking_figures(points, passages)) == [[], ["$3 billion"]]


def test_recall_and_precision_by_hand():
    """The reference has 7 and 12; the answer has 12, 9 and 30, of which 12 is right."""
    ref = ["It fell 7%.", "It sold 12 units.", "The 12 units, again."]
    ans = ["It sold 12 units.", "It rose 9% in 30 days."]
    assert figure_scores(ref, ans) == (pytest.approx(1 / 2), pytest.approx(1 / 3))


def test_recall_and_precision_without_the_figures_of_the_question():
    """Without 2024, which the question has, one of two figures is right on either side."""
    ref, ans = ["5% and 6% in 2024."], ["5% and 7% in 2024."]
    assert figure_scores(ref, ans) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert figure_scores(ref, ans, "And in 2024?") == (pytest.approx(1 / 2), pytest.approx(1 / 2))


def test_a_side_without_figures_has_no_value():
    recall, precision = figure_scores(["Sales rose."], ["Sales rose 5%."])
    assert math.isnan(recall)
    assert precision == 0.0
    assert all(map(math.isnan, figure_scores([], [])))


def test_a_point_loses_half_the_share_of_its_figures_that_the_other_text_lacks():
    """Of the words and numbers "zeppelins", 46.2 and 12 the answer has the first two."""
    overlap = word_overlap(("zeppelins 46.2, 12",), ("zeppelins 46.2",))
    weight_in_common = (UNKNOWN_WEIGHT + NUMBER_WEIGHT) / (UNKNOWN_WEIGHT + 2 * NUMBER_WEIGHT)
    assert FIGURE_LOSS == 0.5
    assert overlap.ref_score[0] == pytest.approx(weight_in_common * (1 - 0.5 * 1 / 2))
    assert overlap.ans_score[0] == pytest.approx(1.0)


def test_a_point_does_not_lose_for_a_figure_of_the_question():
    plain, with_question = (
        word_overlap(("zeppelins 2024",), ("zeppelins",), question).ref_score[0]
        for question in ("", "In 2024?")
    )
    assert plain == pytest.approx(UNKNOWN_WEIGHT / (UNKNOWN_WEIGHT + NUMBER_WEIGHT) * 0.5)
    assert with_question == pytest.approx(UNKNOWN_WEIGHT / (UNKNOWN_WEIGHT + 0.3 * NUMBER_WEIGHT))


def test_a_wrong_figure_costs_more_than_another_wording():
    reference = ("Revenue rose 7% to $4.82 billion in the quarter.",)
    wrong = word_overlap(reference, ("Revenue rose 7% to $4.28 billion in the quarter.",))
    reworded = word_overlap(reference, ("Sales in the quarter grew by 7% to $4.82 billion.",))
    assert wrong.ref_score[0] < reworded.ref_score[0]


POINTS = st.lists(st.text(alphabet="ab 19.,%$", max_size=12), max_size=5)


@given(POINTS, POINTS, st.text(alphabet="ab 19", max_size=8))
def test_scores_say_how_many_figures_are_lacking(ref, ans, question):
    recall, precision = figure_scores(ref, ans, question)
    assert figure_scores(ans, ref, question) == pytest.approx((precision, recall), nan_ok=True)
    assert math.isnan(recall) == (not any(figures_of(ref, question)))
    if not question and not math.isnan(recall):
        assert 0 <= recall <= 1
        assert (recall == 1) == (not any(lacking_figures(ref, ans)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "1" * 10**6,
        "1 " * 500_000,
        " ".join(map(str, range(150_000))),
        " ".join(f"{i / 1000:.3f} million" for i in range(65_000)),
        "1 billion " * 50_000 + " ".join(f"{1 + i / 1e6:.6f}" for i in range(50_000)),
    ],
    ids=[
        "one number",
        "one digit",
        "whole numbers",
        "decimals with a scale word",
        "coarse and fine",
    ],
)
def test_a_megabyte_of_digits_within_seconds(text):
    began = time.process_time()
    lacking_figures([text], ["Sales rose 5%.", text[::-1]], "What rose?")
    figure_scores([text], [text[::-1]])
    assert time.process_time() - began < 10  # 3 s on a quiet machine
