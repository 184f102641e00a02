"""The local evaluator: points cut out by rules, words weighted by rarity, numbers as printed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ems.local.figures import printed_numbers, word_stem
from ems.local.sentences import SentenceExtractor, remove_summaries
from ems.local.words import (
    QUESTION_SHARE,
    UNKNOWN_WEIGHT,
    WordMatcher,
    _rarity,
    foreign_language,
    word_overlap,
)

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
        ("# Results\n\n## Costs", ("Results", "Costs")),  # headings, where there is nothing else
        (
            "Sales, which had fallen for\nthree years, rose.",
            ("Sales, which had fallen for three years, rose.",),
        ),
    ],
)
def test_sentences(text, expected):
    assert points(text) == expected


def test_paragraphs_are_points_and_another_unit_is_refused():
    assert points("One is here. Two is here.\n\nThree.", "paragraph") == (
        "One is here. Two is here.",
        "Three.",
    )
    with pytest.raises(ValueError, match="unit must be"):
        SentenceExtractor("word")


BODY = (
    "Sales rose 5% to $3 billion in the quarter.\n\n"
    "Costs fell 2% as freight became cheaper for all goods."
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"Overview: a good quarter.\n\n{BODY}", BODY),
        (f"{BODY}\n\nIn summary, it was a good quarter.", BODY),
        # A summary with a number that the body does not have stays.
        (f"{BODY}\n\nIn summary, guidance is 7%.", f"{BODY}\n\nIn summary, guidance is 7%."),
        (BODY, BODY),
    ],
)
def test_summaries_at_the_ends_are_removed(text, kept):
    assert remove_summaries(text) == kept


# --- words and numbers ---


def weight(word):
    return _rarity().get(word_stem(word), UNKNOWN_WEIGHT)


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
        # a unit without a space
        ("2.5mg, 10 mg, 50bps, 16GB, 0.24x and 5.2V", [2.5, 10, 50, 16, 0.24, 5.2]),
        ("4Q24, the 3rd, 20th and 5G", []),
        ("Q3'24 and FY '99; '25.5 is no year", [2024, 1999, 25.5]),
    ],
)
def test_numbers_as_they_are_printed(text, values):
    assert [number.value for *_, number in printed_numbers(text)] == pytest.approx(values)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("$94.9 billion", "$94,930 million", True),  # within the other's printed rounding
        ("$94.9 billion", "94.9", True),  # a table in billions
        ("$94.9 billion", "$95.3 billion", False),
        ("6%", "6.04%", True),
        ("6.0%", "6.2%", False),
        ("6%", "$6 billion", False),
        ("$6.2 billion", "6%", False),
        ("6%", "6,000", False),
        ("6%", "6", True),  # a table with the sign in its header
        ("12", "120", False),
        ("10mg", "10 mg", True),
        ("fiscal '25", "fiscal 2025", True),
    ],
)
def test_which_numbers_are_the_same(one, other, same):
    score = word_overlap((one,), (other,)).ref_score[0]
    if same:
        assert score == pytest.approx(1.0)
    else:
        assert score <= 0.35  # of a scale word or a name beside the number


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("margins", "margin"),
        ("planned", "plan"),
        ("selling", "sell"),
        ("bus", "bus"),
        ("glass", "glass"),
        ("operations", "oper"),
    ],
)
def test_stems(word, stem):
    assert word_stem(word) == stem


def test_a_text_in_another_script_is_foreign():
    assert foreign_language("Revenue rose. Α") == ""  # one Greek letter
    assert foreign_language("Выручка выросла на 5%") == "CYRILLIC"
    assert foreign_language("") == ""


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            "German",
            "Der Umsatz stieg um 7 % auf 4,82 Milliarden Dollar, und das operative Ergebnis lag mit "
            "1,1 Milliarden über dem des Vorjahres.",
        ),
        (
            "French",
            "Le chiffre d'affaires a progressé de 7 % pour atteindre 4,82 milliards de dollars, et "
            "les ventes du segment dans la région ont reculé sur le trimestre.",
        ),
        (
            "Spanish",
            "Los ingresos del trimestre crecieron un 7 % y las ventas por región se mantuvieron, "
            "según el informe de la empresa, con una subida para el margen.",
        ),
        (
            "Italian",
            "I ricavi del trimestre sono cresciuti del 7 % per gli ordini di una regione, e il "
            "margine è salito con la domanda che non si è fermata.",
        ),
        (
            "Portuguese",
            "A receita do trimestre cresceu 7 % em dólares e o lucro foi de 1,1 bilhão, com uma "
            "alta da margem para os produtos, que não caíram.",
        ),
        (
            "Dutch",
            "De omzet van het bedrijf steeg met 7 % en de winst kwam op 1,1 miljard, een stijging "
            "voor het kwartaal die niet door de analisten was verwacht.",
        ),
        ("", "Revenue rose 7 % to $4.82 billion, and the operating margin was above last year's."),
        ("", "Revenue 4,820; cost of sales 2,310; gross margin 52 %; EPS 1.10 (EST); capex 120."),
        ("", "Der Umsatz stieg um 7 %."),  # too short to be sure
        (
            "",
            "The fund Las Vegas Los Altos del Mar y Sol por el Valle of the bank is in the report.",
        ),
        ("", ""),
    ],
)
def test_a_language_other_than_english_is_named_only_where_it_is_sure(language, text):
    assert foreign_language(text) == language


def test_a_points_score_by_hand():
    """Of a reference of three terms, an answer has two: their weights by the weight of all."""
    weights = {"margin": weight("margin"), "46.2": UNKNOWN_WEIGHT, "zeppelins": UNKNOWN_WEIGHT}
    overlap = word_overlap(("zeppelins margin 46.2",), ("The margin: 46.2",))
    expected = (weights["margin"] + weights["46.2"]) / sum(weights.values())
    assert overlap.ref_score[0] == pytest.approx(expected)
    assert overlap.nearest == (0,)


def test_points_with_the_same_word_share_its_weight():
    overlap = word_overlap(("zeppelins", "zeppelins margin"), ())
    half = UNKNOWN_WEIGHT / 2
    assert overlap.ref_weights == pytest.approx((half, half + weight("margin")))


def test_what_the_question_says_weighs_less():
    without, with_question = (
        word_overlap(("zeppelins margin",), ("margin",), question)
        for question in ("", "Which margin?")
    )
    assert with_question.ref_score[0] < without.ref_score[0]
    assert with_question.ref_weights[0] == pytest.approx(
        weight("zeppelins") + QUESTION_SHARE * weight("margin")
    )


POINTS = st.lists(st.text(alphabet="ab 19.,%$", max_size=12), max_size=5).map(tuple)


@given(POINTS, POINTS, st.text(alphabet="ab 19", max_size=8))
def test_scores_are_shares_and_sides_can_be_exchanged(ref, ans, question):
    overlap, reverse = word_overlap(ref, ans, question), word_overlap(ans, ref, question)
    assert all(0 <= score <= 1 for score in (*overlap.ref_score, *overlap.ans_score))
    assert all(value > 0 for value in (*overlap.ref_weights, *overlap.ans_weights))
    assert overlap.ref_score == pytest.approx(reverse.ans_score)


def test_the_matcher_takes_the_best_point_or_none():
    ref = ("Gross margin was 46.2%.", "The board met in Boston.")
    ans = ("Sales fell.", "Margin, gross: 46.2%.")
    assert WordMatcher()([(ref, ans), (ref, ())]) == [(1, -1), (-1, -1)]


def test_a_term_of_many_points_does_not_choose_the_nearest():
    many = tuple("margin" for _ in range(51))
    assert word_overlap(("margin zeppelins",), (*many, "zeppelins")).nearest == (51,)
    assert word_overlap(("margin",), many).nearest == (-1,)
    assert word_overlap(("margin",), many[1:]).nearest == (0,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [".", "-1", "1", " ", "word ", "word. ", "[1", "1,111", "中", "x\n", "| a | b |\n"]
)
def test_a_megabyte_of_anything_within_seconds(unit):
    began = time.process_time()
    points = SentenceExtractor()([unit * (10**6 // len(unit))])[0]
    word_overlap(("Sales rose 5%.",), points, "What rose?")
    assert time.process_time() - began < 10  # 3 s on a quiet machine; it was 38 s for "-1"
