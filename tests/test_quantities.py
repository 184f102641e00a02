"""Numbers in financial prose: what is one, what it is worth, and when two are the same."""

import time

import pytest
from presence import missing_quantities

from ems.local.quantities import find_quantities, same


def read(text):
    """(value, unit) of every quantity, values rounded against binary noise."""
    return [(round(q.value, 9), q.unit) for q in find_quantities(text)]


def one(text):
    found = find_quantities(text)
    assert len(found) == 1, f"{text!r} holds {found}"
    return found[0]


@pytest.mark.parametrize(("text", "expected"), [
    ("$11.4 billion", [(11.4e9, "USD")]),
    ("USD 11.4B", [(11.4e9, "USD")]),
    ("$11.4bn", [(11.4e9, "USD")]),
    ("11,400 million", [(11_400e6, "")]),
    ("$ 296.3 M, which", [(296.3e6, "USD")]),
    ("$32,253 thousand", [(32_253e3, "USD")]),
    ("12 cents", [(0.12, "USD")]),
    ("EPS of $1.64 per share", [(1.64, "USD")]),
    ("€3.1 million", [(3.1e6, "EUR")]),
    ("2.5 hundred million", [(250e6, "")]),
    ("35%", [(35, "%")]),
    ("35 percent", [(35, "%")]),
    ("3.9 percentage points", [(3.9, "%")]),
    ("50 basis points", [(0.5, "%")]),               # 100 basis points = 1 percentage point
    ("35 people", [(35, "person")]),
    ("2 billion monthly active users", [(2e9, "user")]),
    ("35 million shares", [(35e6, "share")]),
    ("14x in six months", [(14, "x"), (6, "month")]),
    ("100-fold", [(100, "x")]),
    ("a 5-year plan", [(60, "month")]),
    ("13 weeks", [(91, "day")]),
    ("three gigawatts", [(3e9, "watt")]),
    ("twenty-five percent", [(25, "%")]),
    ("two thirds of users", [(66.666666667, "%")]),
    ("half of revenue", [(50, "%")]),
    ("a quarter of revenue", [(25, "%")]),
    ("doubled to 4 million", [(2, "x"), (4e6, "")]),
    ("-5%", [(-5, "%")]),
    ("46%–47%", [(46, "%"), (47, "%")]),             # the dash of a range is no minus
    ("46%-47%", [(46, "%"), (47, "%")]),
    ("$(5.2) million", [(-5.2e6, "USD")]),
    ("(1,234)", [(-1234, "")]),
    ("(250)", [(-250, "")]),
    ("| $ | (29) | $ | (6) |", [(-29, ""), (-6, "")]),
    ("(18)%", [(-18, "%")]),
    ("a result of (5) million", [(-5e6, "")]),
    ("twelve (12) months", [(12, "month")]),          # said twice, meant once
    ("two and a half billion dollars", [(2.5e9, "USD")]),
    ("one and a half percent", [(1.5, "%")]),
    ("USD1.5bn", [(1.5e9, "USD")]),
    ("The company notes 14 percent", [(14, "%")]),
    ("The CFO notes 2 trillion", [(2e12, "")]),
    ("hired 2000 employees", [(2000, "person")]),
    ("In 2024 customers spent 12%", [(2024_00_00, "date"), (12, "%")]),
    ("2025 the market grew 3%", [(2025_00_00, "date"), (3, "%")]),
    ("Q2 50 basis points", [(14_00, "date"), (0.5, "%")]),
    ("third quarter 42 million users", [(15_00, "date"), (42e6, "user")]),
    ("In Q1 30 new stores opened", [(13_00, "date"), (30, "store")]),
    ("In June 15 million users joined", [(15e6, "user")]),
    ("2024-2025", [(2024_00_00, "date"), (2025_00_00, "date")]),
    ("grew strongly (35%)", [(35, "%")]),             # an aside, not an accountant's minus
])
def test_value_and_unit(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("17.4 to 17.6 billion", [(17.4e9, ""), (17.6e9, "")]),
    ("between $1 and 2 billion", [(1e9, "USD"), (2e9, "USD")]),
    ("$17.4-$17.6 billion", [(17.4e9, "USD"), (17.6e9, "USD")]),
    ("5 to 6%", [(5, "%"), (6, "%")]),
    ("25 to 50 basis points", [(0.25, "%"), (0.5, "%")]),
    ("$2.05-2.10", [(2.05, "USD"), (2.1, "USD")]),
    ("three to five years", [(36, "month"), (60, "month")]),
    ("5% to $10 billion", [(5, "%"), (10e9, "USD")]),          # no range: the units differ
    ("35% to 11,400 million", [(35, "%"), (11_400e6, "")]),
    ("iPhone 16 and $5 billion", [(16, ""), (5e9, "USD")]),    # no "between"
])
def test_both_ends_of_a_range_share_scale_and_unit(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(("text", "value"), [
    ("Q3 2024", 2024_15_00), ("3Q24", 2024_15_00), ("third quarter of fiscal 2024", 2024_15_00),
    ("the third quarter", 15_00), ("H1 2025", 2025_17_00), ("the second half", 18_00),
    ("FY2025", 2025_00_00), ("(2024)", 2024_00_00), ("Q3 24 results", 2024_15_00),
    ("fiscal 2025", 2025_00_00), ("in 2025", 2025_00_00),
    ("December 31, 2023", 2023_12_31), ("31 December 2023", 2023_12_31), ("2023-12-31", 2023_12_31),
    ("October 2024", 2024_10_00), ("May 5", 5_05),
])
def test_dates_and_fiscal_periods(text, value):
    assert [(q.value, q.unit) for q in find_quantities(text)] == [(value, "date")]


@pytest.mark.parametrize(("text", "months"), [("year over year", 12), ("YoY", 12), ("sequentially", 3)])
def test_comparison_spans(text, months):
    assert read(text) == [(months, "versus")]


@pytest.mark.parametrize(
    "text",
    [
        "", "no numbers here", "[4]", "as shown [2, 3]", "1. First", "Step 3: done", "paragraph 93",
        "Table 2", "paragraphs 93, 94 and 95", "10-K", "COVID-19", "M4", "GPT-4", "first place",
        "the 1st of them", "one of the", "no one", "mid-2025", "(1) cloud, (2) pricing",
        "Table 3 and note 4", "Paragraph 116 points out", "财报", "\x00\x01",
    ],
)
def test_not_quantities(text):
    assert find_quantities(text) == []


@pytest.mark.parametrize(
    ("text", "direction"),
    [
        ("down 5%", -1), ("a decline of about 3.2 percent", -1), ("fell by roughly 5%", -1),
        ("net loss of $5 million", -1), ("a 3% year-over-year decline", -1), ("-5%", -1), ("up 5%", 1),
        ("a 5% increase", 1), ("grew 12%", 1), ("up to $5 billion", 0), ("5% of sales", 0),
        ("rose to $5 billion", 0),
    ],
)
def test_direction(text, direction):
    assert find_quantities(text)[0].direction == direction


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [
        ("$11.4 billion", 0.05e9), ("$11.35 billion", 0.005e9), ("94,930 million", 0.5e6), ("35%", 0.5),
        ("1.64", 0.005),
    ],
)
def test_tolerance_is_half_a_unit_of_the_last_printed_digit(text, tolerance):
    assert one(text).tolerance == pytest.approx(tolerance)


def test_span_points_into_the_text():
    text = "Revenue was $5 billion, up 6%."
    assert [text[q.start:q.end] for q in find_quantities(text)] == ["$5 billion", "6%"]


@pytest.mark.parametrize(("a", "b", "equal"), [
    ("$11.4 billion", "11,400 million", True),
    ("$11.4bn", "USD 11.4B", True),
    ("$11.4 billion", "$11.35 billion", True),       # 11.35 rounds to 11.4
    ("$94.9 billion", "$94,930 million", True),
    ("$11.4 billion", "$11.34 billion", False),
    ("$11.4 billion", "€11.4 billion", False),
    ("35%", "35 people", False),
    ("35%", "35.4%", True),
    ("2%", "2.4%", False),                           # within rounding, but a fifth more
    ("50 basis points", "0.5%", True),
    ("down 5%", "-5%", True),
    ("down 5%", "up 5%", False),
    ("5%", "-5%", False),
    ("down 5%", "5%", True),                         # said without direction: it may be
    ("35 million shares", "$35 million", False),
    ("2,000 stores", "2,000", True),
    ("35", "$35", False),                            # a small bare count is not money
    ("42,146", "$42,146", True),                     # a bare amount may be
    ("1577", "$1,577 million", True),                # from a table in millions
    ("$32,253", "$32,253 thousand", True),
    ("94.9", "$94.9 billion", False),                # too short a number to forgive the scale
    ("$1,577 million", "$1,577 billion", False),
    ("0.654", "65.4%", True),                        # a fraction may be a percentage
    ("6.54", "65.4%", False),
    ("14x", "14 times", True),
    ("five years", "60 months", True),
    ("Q3 2024", "third quarter", True),
    ("Q3 2024", "Q2 2024", False),
    ("Q3 2024", "2024", True),
    ("Q3 2024", "2023", False),
    ("December 31, 2023", "December 31, 2022", False),
    ("2024", "2,024", False),                        # a year is not an amount
    ("year over year", "sequentially", False),
    ("dozen", "twelve", True),
    ("0", "0.0", True),
])
def test_same(a, b, equal):
    assert same(one(a), one(b)) is equal
    assert same(one(b), one(a)) is equal


def test_missing_quantities_allows_unit_and_rounding_forms():
    source = "Revenue was $94,930 million, up 6.1% from a year ago. Gross margin came in at 46.2 percent in Q4 2024."
    text = "Sales of $94.9 billion grew about 6% in the fourth quarter; margin was 46.2%."
    assert missing_quantities(text, source) == []
    text = "Sales of $94.9 billion grew 7%."
    assert [text[q.start:q.end] for q in missing_quantities(text, source)] == ["7%"]


def test_missing_quantities_leaves_directions_aside():
    assert missing_quantities("a decline of 5%", "it moved 5% and rose 2%") == []


def test_long_text_takes_linear_time():
    text = "Revenue rose 5.5% to $94.9 billion in Q3 2024. "
    took = []
    for n in (400, 4000):
        start = time.process_time()
        assert len(find_quantities(text * n)) == 3 * n
        took.append(time.process_time() - start)
    assert took[1] < 40 * took[0] + 0.1          # ten times the text: a square would be a hundred times


@pytest.mark.parametrize(("written", "plain"), [
    ("in 3Q24.", "in 3Q24"), ("in 4Q24, too", "in 4Q24"), ("Q3'24.", "Q3 2024"), ("FY25.", "FY25"),
])
def test_a_short_year_is_read_before_a_stop_or_a_comma(written, plain):
    one, other = find_quantities(written), find_quantities(plain)
    assert len(one) == len(other) == 1
    assert same(one[0], other[0])
    assert not same(find_quantities("3Q24.")[0], find_quantities("4Q24.")[0])
