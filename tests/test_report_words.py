"""The words of the report: from which scores on they are said, and how often each is right."""

import re

import pytest
from doubles import recorded
from study import datasets

from ems import CoverageResult
from ems.analysis.report import save_report
from ems.analysis.view import LIMITS, alignment_rows
from ems.coverage import Coverage
from ems.local.sentences import SentenceExtractor
from ems.results import ScoreResult

UNTESTED_WORDS = "contradicted", "figure not in the answer"  # the page gives no percentage for them
NAMES = {
    "pairs": "EMS, by pairs of points",
    "judge": "Coverage by a judge",
    "words": "Coverage by words",
}


@pytest.fixture
def percentages(tmp_path):
    """The per cent of right words by word, in the page's sentence on a kind."""
    scored = CoverageResult("t", "m", ("a",), ("b",), (1.0,), (1.0,), recall=1, precision=1, f1=1)
    page = save_report(scored, tmp_path / "report.html").read_text(encoding="utf-8")
    page = page.replace("&nbsp;", " ")

    def found(kind):
        covered, not_covered = LIMITS[kind]
        limit = f"up to {not_covered:g}" if not_covered else "at 0"
        sentence = re.search(
            f"<p >{NAMES[kind]}: covered from {covered:g} on .(.+) %., in part between .(.+) %., "
            f"not covered {limit} .(.+) %..</p>",
            page,
        )
        return [int(per_cent) for per_cent in sentence.groups()]

    return found


def test_the_page_says_from_which_scores_on_its_words_are_said(percentages, tmp_path):
    assert percentages("pairs") == [90, 60, 7]
    assert percentages("judge")
    assert percentages("words")
    alone = save_report(ScoreResult("t", "m", value=0.5), tmp_path / "alone.html")
    assert alone.read_text(encoding="utf-8").count("<p hidden>") >= len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "judge"])
def test_the_page_says_how_often_its_words_are_right(percentages, mirror, monkeypatch, kind):
    monkeypatch.setenv("EMS_DATA_MIRROR", str(mirror))
    triplets, answers, labels = datasets.SETS["kqa"].load()
    label_of = labels.set_index(["triplet_id", "model", "unit"])["label"]
    labels_by_word = {word: [] for word in ("covered", "in part", "not covered", *UNTESTED_WORDS)}
    judge = recorded("human/label_replies.jsonl") if kind == "judge" else None
    for scored in Coverage(SentenceExtractor(), judge).evaluate(triplets, answers):
        for row in alignment_rows(scored.to_dict()):
            if row.ref is not None:
                label = label_of[scored.triplet_id, scored.model, row.ref]
                labels_by_word[row.word].append(label)
    assert sum(map(len, labels_by_word.values())) == 399
    contradicted = labels_by_word.pop("contradicted")
    counts = len(contradicted), contradicted.count("Contradiction")
    assert counts == ((16, 8) if judge else (0, 0))
    assert len(labels_by_word.pop("figure not in the answer")) == (0 if judge else 2)
    right = []
    for listed in labels_by_word.values():
        right.append(round(100 * listed.count("Entailment") / len(listed)))
    assert right == pytest.approx(percentages(kind), abs=0 if judge else 2)
