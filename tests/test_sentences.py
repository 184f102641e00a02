"""Points cut out by rules."""

import pytest

from ems.local.sentences import SentenceExtractor, remove_summaries


def points(text, unit="sentence"):
    return SentenceExtractor(unit, keep_summaries=True)([text])[0]


@pytest.mark.parametrize(("text", "expected"), [
    ("Sales rose 5.2% in the U.S. market. Costs fell.", ("Sales rose 5.2% in the U.S. market.", "Costs fell.")),
    ("Mr. Cook spoke. J. P. Morgan listened.", ("Mr. Cook spoke.", "J. P. Morgan listened.")),
    ("- Sales rose\n- Costs fell", ("Sales rose", "Costs fell")),
    ("1. Sales rose.\n2. Costs fell.", ("Sales rose.", "Costs fell.")),
    ("## Results\n\nSales rose.", ("Sales rose.",)),
    ("It rose.[19][15] It fell.", ("It rose.[19][15]", "It fell.")),
    ("[19][15]", ()),
    ("销售增长。成本下降。", ("销售增长。", "成本下降。")),
    ("| | 2023 | 2024 |\n|---|---|---|\n| Sales | 5 | 6 |", ("Sales, 2023 5, 2024 6",)),
    ("...", ()),
    ("Sales rose. Sales rose.", ("Sales rose.", "Sales rose.")),     # repetitions stay
])
def test_sentences(text, expected):
    assert points(text) == expected


def test_paragraphs_and_what_is_refused():
    assert points("One is here. Two is here.\n\nThree.", "paragraph") == ("One is here. Two is here.", "Three.")
    with pytest.raises(ValueError, match="unit must be"):
        SentenceExtractor("word")


BODY = "Sales rose 5% to $3 billion in the quarter.\n\nCosts fell 2% as freight became cheaper for all goods."


@pytest.mark.parametrize(("text", "kept"), [
    (f"Overview: a good quarter.\n\n{BODY}", BODY),
    (f"{BODY}\n\nIn summary, it was a good quarter.", BODY),
    (f"{BODY}\n\nIn summary, guidance is 7%.", f"{BODY}\n\nIn summary, guidance is 7%."),     # a number of its own
    (BODY, BODY),
])
def test_summaries_at_the_ends_go(text, kept):
    assert remove_summaries(text) == kept
