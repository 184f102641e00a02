"""The local evaluator: points cut out by rules, words weighted by rarity, numbers as printed, and nothing else."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ems.local.sentences import SentenceExtractor, remove_summaries
from ems.local.words import ASKED, NUMBER, Number, WordMatcher, _weight, cover, read, stem

# --- points ---


def points(text, unit="sentence"):
    return SentenceExtractor(unit, keep_summaries=True)([text])[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Sales rose 5.2% in the U.S. market. Costs fell.",
            ("Sales rose 5.2% in the U.S. market.", "Costs fell."),
        ),
        ("Mr. Cook spoke. J. P. Morgan listened.", ("Mr. Cook spoke.", "J. P. Morgan listened.")),
        ("- Sales rose\n- Costs fell", ("Sales rose", "Costs fell")),
        ("1. Sales rose.\n2. Costs fell.", ("Sales rose.", "Costs fell.")),
        ("## Results\n\nSales rose.", ("Sales rose.",)),
        ("It rose.[19][15] It fell.", ("It rose.[19][15]", "It fell.")),
        ("[19][15]", ()),
        ("销售增长。成本下降。", ("销售增长。", "成本下降。")),
        ("| | 2023 | 2024 |\n|---|---|---|\n| Sales | 5 | 6 |", ("Sales, 2023 5, 2024 6",)),
        ("...", ()),
        ("Sales rose. Sales rose.", ("Sales rose.", "Sales rose.")),  # repetitions stay
    ],
)
def test_sentences(text, expected):
    assert points(text) == expected


def test_paragraphs_and_what_is_refused():
    assert points("One is here. Two is here.\n\nThree.", "paragraph") == (
        "One is here. Two is here.",
        "Three.",
    )
    with pytest.raises(ValueError, match="unit must be"):
        SentenceExtractor("word")


BODY = "Sales rose 5% to $3 billion in the quarter.\n\nCosts fell 2% as freight became cheaper for all goods."


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"Overview: a good quarter.\n\n{BODY}", BODY),
        (f"{BODY}\n\nIn summary, it was a good quarter.", BODY),
        (
            f"{BODY}\n\nIn summary, guidance is 7%.",
            f"{BODY}\n\nIn summary, guidance is 7%.",
        ),  # a number of its own
        (BODY, BODY),
    ],
)
def test_summaries_at_the_ends_go(text, kept):
    assert remove_summaries(text) == kept


# --- words and numbers ---


def weight(word):
    return _weight(stem(word))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("Revenue was $94.9 billion, up 6%.", [94.9e9, 6]),
        ("1,234.5 and 2,000,000", [1234.5, 2e6]),
        ("94,9 Mrd. Euro", [94.9]),  # a decimal comma
        ("$3M, 3.5M and 5k users", [3e6, 3.5e6, 5e3]),
        ("3M makes tape", []),  # a name, not an amount
        ("收入增长了12%", [12]),
        ("It rose 5% [19][15] and [3, 4].", [5]),  # citations are no numbers
        (
            "2.5mg, 10 mg, 50bps, 16GB, 0.24x and 5.2V",
            [2.5, 10, 50, 16, 0.24, 5.2],
        ),  # a unit may follow at once
        ("4Q24, the 3rd, 20th and 5G", []),
        ("Q3'24 and FY '99; '25.5 is no year", [2024, 1999, 25.5]),
    ],
)
def test_numbers_as_they_are_printed(text, values):
    assert [term.value for term in read(text) if isinstance(term, Number)] == pytest.approx(values)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("$94.9 billion", "$94,930 million", True),  # within the other's printed rounding
        ("$94.9 billion", "94.9", True),  # a table in billions
        ("$94.9 billion", "$95.3 billion", False),
        ("6%", "6.04%", True),
        ("6.0%", "6.2%", False),
        ("12", "120", False),
        ("10mg", "10 mg", True),
        ("fiscal '25", "fiscal 2025", True),
    ],
)
def test_which_numbers_are_the_same(one, other, same):
    assert cover((one,), (other,)).ref_score == (
        pytest.approx(1.0) if same else pytest.approx(0.0, abs=0.35),
    )


def test_a_points_score_by_hand():
    """Of a reference of three terms, an answer holds two: their weights by the weight of all."""
    held, lost = weight("margin"), weight("zeppelins")
    found = cover(("zeppelins margin 46.2",), ("The margin: 46.2",))
    assert found.ref_score[0] == pytest.approx((held + NUMBER) / (held + lost + NUMBER))
    assert found.nearest == (0,)


def test_what_the_question_says_weighs_less():
    plain, asked = (
        cover(("zeppelins margin",), ("margin",), question) for question in ("", "Which margin?")
    )
    assert asked.ref_score[0] < plain.ref_score[0]
    assert asked.ref_weights[0] == pytest.approx(weight("zeppelins") + ASKED * weight("margin"))


POINTS = st.lists(st.text(alphabet="ab 19.,%$", max_size=12), max_size=5).map(tuple)


@given(POINTS, POINTS, st.text(alphabet="ab 19", max_size=8))
def test_scores_are_shares_and_sides_can_be_exchanged(ref, ans, question):
    found, back = cover(ref, ans, question), cover(ans, ref, question)
    assert all(0 <= score <= 1 for score in (*found.ref_score, *found.ans_score))
    assert all(value > 0 for value in (*found.ref_weights, *found.ans_weights))
    assert found.ref_score == pytest.approx(back.ans_score)


def test_the_matcher_takes_the_best_point_or_none():
    ref = ("Gross margin was 46.2%.", "The board met in Boston.")
    ans = ("Sales fell.", "Margin, gross: 46.2%.")
    assert WordMatcher()([(ref, ans), (ref, ())]) == [(1, -1), (-1, -1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [".", "-1", "1", " ", "word ", "word. ", "[1", "1,111", "中", "x\n", "| a | b |\n"]
)
def test_a_megabyte_of_anything_within_seconds(unit):
    began = time.process_time()
    points = SentenceExtractor()([unit * (10**6 // len(unit))])[0]
    cover(("Sales rose 5%.",), points, "What rose?")
    assert time.process_time() - began < 10  # 3 s on a quiet machine; it was 38 s for "-1"
