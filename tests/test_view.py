"""One answer's alignment as text and as HTML: every point and what its score says.

Texts from outside command nothing.
"""

import math
import re
import time
from dataclasses import replace

import pytest
from doubles import Tags
from hypothesis import given
from hypothesis import strategies as st

from ems.analysis.view import alignment_rows, as_html, as_text, marked, value_lines
from ems.metrics import coverage_scores, ems_scores
from ems.results import CoverageResult, EMSResult, Figures, ScoreResult, SideFigures, Support
from ems.terminal import visible
from ems.types import WITHOUT_JUDGE

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
        (1, None, "not covered", 0.0),
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
        ("words#1", ["in part", "in part", "not covered"]),
        ("llm:kit#1,max=10", ["covered", "in part", "not covered"]),
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


# --- figures that the other text lacks ---

SALES = ("Sales were $4.82 billion,\n up 7%.", "Fine.", "Cash.")


def with_figures(result, ref=(), ans=(), not_in_document=None):
    figures = Figures(SideFigures(4, 3, ref), SideFigures(5, 2, ans), not_in_document)
    return replace(result, figures=figures)


@pytest.mark.parametrize("score", [0.9, 0.4])
def test_a_point_held_by_words_with_a_figure_that_the_other_side_lacks_is_not_called_covered(score):
    result = with_figures(covered((score, 0.1, 0.9), (score, 0.0)), [(0, 0, 2)], [(0, 0, 2)])
    assert [word for _, _, word, _ in rows(result)] == [
        "figure not in the answer",
        "not covered",
        "covered",
        "figure not in the reference",
        "not in the reference",
    ]


@pytest.mark.parametrize(
    ("places", "word"),
    [
        ({"ref": [(0, 0, 2)]}, "figure not in the answer"),
        ({"ans": [(0, 0, 2)]}, "figure not in the reference"),
        ({"ref": [(0, 0, 2)], "ans": [(0, 0, 2)]}, "figure not in the answer"),
    ],
)
def test_so_is_a_pair_matched_by_words_whichever_of_its_sides_has_the_figure(places, word):
    result = with_figures(paired(signature={"match": "words#1,threshold=0.25"}), **places)
    words = [word for _, _, word, _ in rows(result)]
    assert words[0] == word
    assert words[1:3] == ["not covered", "unscored"]


def test_what_a_judge_says_of_a_point_stands_whatever_its_figures():
    places = [(0, 0, 2)], [(0, 0, 2)]
    judged = covered(coverage="llm:kit#1,max=10")
    judged = replace(judged, signature=judged.signature | {"judge": "j"})
    matched = paired(signature={"match": "llm:kit#1", "judge": "j"})
    for result in (judged, matched):
        assert rows(with_figures(result, *places)) == rows(result)


def test_figures_are_marked_in_the_text_with_the_text_that_lacks_them():
    result = replace(covered(), ref_points=SALES, ans_points=("It fell 7% to 4.", "Fine."))
    result = with_figures(result, [(0, 11, 24)], [(0, 8, 10)], [(0, 8, 10), (0, 14, 15)])
    result = result.to_dict()
    text = " ".join(as_text(result).split())
    assert "Sales were [$4.82 billion: not in the" in text
    page = as_html(result)
    assert 'title="$4.82 billion is not in the answer">$4.82 billion</span>, up 7%.' in page
    assert 'title="7% is not in the reference or the document">7%</span> to' in page
    assert 'title="4 is not in the document">4</span>.' in page
    assert (page.count("underline wavy"), page.count("outline:2px dotted")) == (3, 2)
    for view in (text, page):
        assert "does not say that the texts contradict each other" in view
    assert "figure not in" not in as_text(covered().to_dict())


def test_a_figure_that_is_not_shown_is_not_marked():
    points = ("\n\n a \t 12  b", "x " * 400 + "34", "c")
    result = with_figures(replace(covered(), ref_points=points), [(0, 7, 9), (1, 800, 802)])
    page = as_html(result.to_dict())
    assert page.count("<span") == 1
    assert '0: a <span style="text-decoration:underline wavy #D55E00"' in page


def test_marks_of_a_hostile_text_are_only_text():
    figure = '"><script>4'
    result = replace(covered(), ref_points=(figure, "b", "c"))
    page = as_html(with_figures(result, [(0, 0, len(figure))]).to_dict())
    seen = Tags(page)
    assert seen.tags == {"div", "p", "br", "table", "col", "tbody", "tr", "td", "span"}
    assert seen.attributes == {"style", "class", "title"}


def test_marks_of_a_long_text_are_made_at_once():
    point = "1 " * 500_000
    places = [(0, start, start + 1) for start in range(0, len(point), 2)]
    result = with_figures(replace(covered(), ref_points=(point, "b", "c")), places).to_dict()
    start = time.perf_counter()
    assert marked(result)["ref_points"][0].count("[1: not in the answer]") == 5000
    assert time.perf_counter() - start < 10


# --- the warning ---


def test_where_no_judge_was_asked_the_warning_is_read_first():
    local = covered().to_dict()
    assert " ".join(as_text(local).split()).startswith(WITHOUT_JUDGE)
    assert as_html(local).index(WITHOUT_JUDGE) < as_html(local).index("recall")
    for view in (as_text, as_html):
        assert "No judge was asked" not in view(paired().to_dict())


# --- the values ---


def test_values_figures_and_what_is_unscored_have_a_line_each():
    assert value_lines(paired().to_dict()) == [
        "recall = 0.433",
        "precision = 0.300",
        "f1 = 0.355",
        "unscored: 1. 1 of 4 points unscored",
    ]
    assert value_lines(with_figures(covered()).to_dict())[2:-1] == [
        "f1 = 0.422",
        "figures: 3 of 4 of the reference are in the answer",
        "figures: 2 of 5 of the answer are in the reference",
    ]
    assert value_lines(covered().to_dict())[:2] == ["recall = 0.662", "precision = 0.310"]


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
