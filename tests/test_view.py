"""One answer's alignment as text and as HTML: every point and what its score says.

Texts from outside command nothing.
"""

import math
import re

import pytest
from doubles import Tags
from hypothesis import given
from hypothesis import strategies as st

from ems.analysis.view import alignment_rows, arithmetic, as_html, as_text
from ems.metrics import coverage_scores, ems_scores
from ems.results import CoverageResult, EMSResult, ScoreResult, Support
from ems.terminal import visible

HOSTILE = "<script>alert('x')</script> & \"$5\" \x1b[31mred\x00 \u202eevil \ud800 | end\r\nnext"


def paired(
    match=(0, -1, None, 0),
    score=(0.9, 0.0, None, 0.4),
    ref=("r0", "r1", "r2", "r3"),
    ans=("a0", "a1", "a2"),
    **more,
):
    m = ems_scores(match, score, len(ans), more.get("ref_weights", ()))
    fields = {
        "triplet_id": "T-Q1",
        "model": "m",
        "signature": {"judge": "j"},
        "reason": m.reason,
        "question": "Why?",
    } | more
    return EMSResult(
        ref_points=tuple(ref),
        ans_points=tuple(ans),
        match=tuple(match),
        score=tuple(score),
        recall=m.recall,
        precision=m.precision,
        f1=m.f1,
        unscored=m.unscored,
        **fields,
    )


def covered(ref_score=(0.85, 0.1, None), ans_score=(0.62, 0.0), coverage="words#1", **more):
    weights = {"ref_weights": (3.0, 1.0, 2.0), "ans_weights": (1.0, 1.0)} | more
    m = coverage_scores(ref_score, ans_score, weights["ref_weights"], weights["ans_weights"])
    return CoverageResult(
        "T",
        "m",
        ("r0", "r1", "r2")[: len(ref_score)],
        ("a0", "a1")[: len(ans_score)],
        ref_score,
        ans_score,
        recall=m.recall,
        precision=m.precision,
        f1=m.f1,
        unscored=m.unscored,
        reason=m.reason,
        signature={"coverage": coverage},
        **weights,
    )


def rows(result):
    return [(row.ref, row.ans, row.word, row.score) for row in alignment_rows(result.to_dict())]


# --- the rows ---


def test_pairs_are_the_reference_points_and_then_what_nothing_matched():
    assert rows(paired()) == [
        (0, 0, "covered", 0.9),
        (1, None, "missing", 0.0),
        (2, None, "unscored", None),
        (3, 0, "in part", 0.4),
        (None, 1, "not in the reference", 0.0),
        (None, 2, "not in the reference", 0.0),
    ]


def test_coverage_shows_every_point_of_both_sides_and_the_nearest_one_as_a_hint():
    result = covered(nearest=(1, -1, 0), contradicted=(1,), ans_contradicted=(1,))
    assert rows(result) == [
        (0, 1, "covered", 0.85),
        (1, None, "contradicted", 0.1),
        (2, 0, "unscored", None),
        (None, 0, "covered", 0.62),
        (None, 1, "contradicted", 0.0),
    ]
    assert rows(covered())[-1] == (None, 1, "not in the reference", 0.0)
    hints = [row.ref for row in alignment_rows(result.to_dict()) if row.is_hint]
    assert hints == [0, 2]
    assert "(nearest: 1: a1)" in as_text(result.to_dict())


@pytest.mark.parametrize(
    ("coverage", "words"),
    [
        ("words#1", ["in part", "in part", "missing"]),
        ("llm:kit#1,max=10", ["covered", "in part", "missing"]),
    ],
)
def test_the_words_of_a_coverage_depend_on_who_scored(coverage, words):
    result = covered((0.55, 0.3, 0.2), coverage=coverage)
    assert [word for ref, _, word, _ in rows(result) if ref is not None] == words


@given(
    st.lists(
        st.tuples(st.sampled_from([None, -1, 0, 1, 2]), st.none() | st.floats(0, 1)), max_size=8
    )
)
def test_rows_hold_every_point_once_and_give_the_metrics(pairs):
    match = [index for index, _ in pairs]
    score = [0.0 if index == -1 else value for index, value in pairs]
    result = paired(match, score, ref=[f"r{i}" for i in range(len(pairs))])
    shown = list(alignment_rows(result.to_dict()))
    assert [row.ref for row in shown if row.ref is not None] == list(range(len(pairs)))
    assert {row.ans for row in shown} >= {0, 1, 2}
    scored = [row.score for row in shown if row.ref is not None and row.score is not None]
    if scored:
        assert math.fsum(scored) / len(scored) == pytest.approx(result.recall)
    assert len(as_text(result.to_dict())) > 0 < len(as_html(result.to_dict()))


# --- the sums ---


def test_arithmetic_by_hand():
    assert arithmetic(paired().to_dict()) == [
        "recall = 1.30 / 3 = 0.433",
        "precision = 0.90 / 3 = 0.300",
        "f1 = 0.355",
        "unscored: 1. 1 of 4 points unscored",
    ]
    assert arithmetic(covered().to_dict())[:2] == [
        "recall = 2.65 / 4 = 0.662",
        "precision = 0.62 / 2 = 0.310",
    ]


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (paired([-1] * 4, [0.0] * 4, ans=()), ["precision = 0.000", "f1 = 0.000"]),
        (paired([], [], ref=()), ["recall = no value", "the reference has no points"]),
        (
            paired([None] * 4, [None] * 4),
            ["f1 = no value", "unscored: 4. no point could be scored"],
        ),
        (ScoreResult("T", "m", value=0.7), ["m on T", "value = 0.700"]),
        (
            ScoreResult("T", "m", value=math.nan, unscored=1, reason="timeout"),
            ["value = no value", "unscored: 1. timeout"],
        ),
    ],
)
def test_empty_cases_and_results_without_points_say_why(result, says):
    for view in (as_text(result.to_dict()), as_html(result.to_dict())):
        assert all(part in view for part in says)


# --- what the document says ---


def test_support_stands_below_the_point_and_its_quote_is_only_text():
    support = (
        Support("contradicted", 3, "<b>$94.9</b> billion"),
        Support(None, reason="no label: timeout"),
        Support(None),
    )
    given = paired(support=support).to_dict()
    text = " ".join(as_text(given).split())
    # a0 is shown with both of its matches.
    assert text.count("document: contradicted; passage 3:") == 2
    assert "document: no label: timeout" in text
    assert "passage 3: &lt;b&gt;$94.9&lt;/b&gt; billion" in as_html(given)


# --- text from outside ---


def hostile():
    return paired(
        ref=[HOSTILE] * 4,
        ans=[HOSTILE, "word " * 90, HOSTILE * 20],
        model=HOSTILE,
        triplet_id=HOSTILE,
        signature={HOSTILE: HOSTILE},
        reason=HOSTILE,
        question=HOSTILE,
        support=(
            Support("silent", 0, HOSTILE),
            Support(None, reason=HOSTILE),
            Support("supported"),
        ),
    )


def test_html_of_hostile_texts_is_only_text():
    page = as_html(hostile().to_dict())
    seen = Tags(page)
    assert seen.tags == {"div", "p", "br", "table", "col", "tbody", "tr", "td"}
    assert seen.attributes == {"style", "class"}
    assert page.startswith('<div class="mathjax_ignore"')  # a "$" begins no formula in JupyterLab
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp;" in page
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", page)
    page.encode("utf-8")  # half a surrogate pair would not encode


def test_text_fits_a_terminal_and_cannot_command_it():
    lines = as_text(hostile().to_dict()).splitlines()
    assert max(map(len, lines)) == 100
    assert not any(re.search("[\x00-\x1f\x7f\u202e]", line) for line in lines)


def test_long_texts_are_cut():
    assert len(as_html(paired(ref=["r" * 10_000] * 4).to_dict())) < 10_000
    assert visible("a  b\n\tc") == "a b c"
    assert visible("abcdef", 4) == "abc…"
    assert visible("\x1b[0m") == "\ufffd[0m"
