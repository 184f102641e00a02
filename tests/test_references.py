"""Our fifty references: shape and length always; every number against its call where the transcripts are
present.
"""

import os
from pathlib import Path

import pytest

from ems.study.dataset.calls import build_triplets, find_transcript, load_companies

ROOT = Path(__file__).parent.parent
MIRROR = Path(os.environ.get("EMS_DATA_MIRROR") or ROOT.parent / "shared" / "data")
COMPANIES = load_companies(ROOT / "data" / "companies.csv")
TICKERS = [c["ticker"] for c in COMPANIES]
DATA = ROOT / "data"
TRIPLETS = build_triplets(COMPANIES, DATA / "questions.yaml", DATA / "q3-2024" / "references")


def test_ten_companies_and_five_questions_each():
    assert len(TICKERS) == 10
    assert len(TRIPLETS) == 50
    assert len({t.id for t in TRIPLETS}) == 50


@pytest.mark.parametrize("triplet", TRIPLETS, ids=lambda t: t.id)
def test_references_are_made_for_matching(triplet):
    assert 350 <= len(triplet.reference.split()) <= 600
    lines = triplet.reference.splitlines()
    assert not [line for line in lines if line.rstrip().endswith(":")]              # no lone headings
    told = ("transcript", "the call", "this call", "analyst asked", "kept apart", "Taken together")
    assert not [words for words in told if words.lower() in triplet.reference.lower()]


def test_questions_do_not_repeat_one_another():
    assert len({t.question for t in TRIPLETS}) == 50        # each names its call


@pytest.mark.parametrize("ticker", TICKERS)
def test_every_number_of_a_reference_occurs_in_its_call(ticker):
    from presence import missing_quantities

    folder = MIRROR / "transcripts"
    if not folder.is_dir():
        pytest.skip("the transcripts are not here: set EMS_DATA_MIRROR to a folder that has transcripts/")
    company = next(c for c in COMPANIES if c["ticker"] == ticker)
    call = find_transcript(company, folder).text
    lost = {t.id: found for t in TRIPLETS if t.group == ticker
            and (found := [str(q) for q in missing_quantities(t.reference, call)])}
    assert not lost
