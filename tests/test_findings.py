"""Sentences that are made from tables of values and tests: each says no more than a test does."""

import pandas as pd
import pytest

from ems.analysis.findings import MOST_MODELS, limits, series, verdict
from ems.analysis.frames import COLUMNS
from ems.analysis.stats import paired_table, summarise

JUDGED, WORDS = "match:llm|judge:j", "coverage:words"


def rows_of(model, values, *, metric="EMS(LLM)", part="F1", signature=JUDGED, den=10, **more):
    """A row for each value, each of a question and a group of its own."""
    rows = []
    for i, value in enumerate(values):
        names = metric, part, model, f"t{i}", more.get("group", f"g{i}")
        sums = value * den, den
        rows.append((*names, value, *sums, den, more.get("unscored", 0), signature))
    return rows


def said(*rows):
    """The verdict and the limits of a frame with these lists of rows."""
    frame = pd.DataFrame(sum(rows, []), columns=COLUMNS)
    is_compared = frame["model"].nunique() <= MOST_MODELS
    summary, pairs = summarise(frame), paired_table(frame, models=() if is_compared else ["m1"])
    return verdict(frame, summary, pairs), limits(frame, summary, pairs)


def around(mean, n=8):
    """Values that lie around a mean, not all alike."""
    return [mean + 0.01 * (-1) ** i for i in range(n)]


@pytest.mark.parametrize(
    ("names", "phrase"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")]
)
def test_names_are_joined_in_one_phrase(names, phrase):
    assert series(names) == phrase


# --- what was found ---


def test_of_two_models_the_first_sentence_names_the_one_that_contradicts_less():
    contradicted = {"part": "Contradicted", "metric": "Coverage(LLM)"}
    a = rows_of("A", [0.0] * 8, **contradicted) + rows_of("A", around(0.78), metric="Coverage(LLM)")
    b = rows_of("B", [0.6, 0.5] * 4, **contradicted)
    f1 = [0.9, 0.6, 0.9, 0.7, 0.9, 0.6, 0.8, 0.7]
    sentences, _ = said(a, b, rows_of("B", f1, metric="Coverage(LLM)"))
    assert sentences == [
        "“A” contradicts the references clearly less often than “B” (0 of 80 points against 44 of "
        "80 points).",
        "F1, highest first: “A” 0.780 and “B” 0.762; no difference is clear over 8 groups.",
    ]


def test_a_model_that_is_clearly_better_than_all_others_is_named_with_all_values():
    scores = {"metric": "Judge alone", "part": "Score"}
    models = [rows_of(f"m{i}", around(0.2 * i), **scores) for i in (1, 2, 3)]
    assert said(*models)[0] == [
        "“m3” has a clearly higher score than “m2” and “m1” (0.600 against 0.400 and 0.200)."
    ]


def test_where_none_is_better_than_all_others_the_clear_differences_are_told():
    near = [rows_of("low", around(0.2)), rows_of("a", around(0.5)), rows_of("b", around(0.5))]
    assert said(*near)[0] == [
        "F1, highest first: “a” 0.500, “b” 0.500 and “low” 0.200; 2 of 3 differences are clear."
    ]


def judged_coverage(model, f1, contradicted):
    """The F1 and the contradicted points of a model."""
    f1_rows = rows_of(model, f1, metric="Coverage(LLM)")
    return f1_rows + rows_of(model, contradicted, metric="Coverage(LLM)", part="Contradicted")


def test_a_model_that_says_nothing_is_not_praised_first_for_contradicting_nothing():
    best = judged_coverage("X", around(0.8), [0.1, 0.0] * 4)
    silent = judged_coverage("silent", [0.0] * 8, [0.0] * 8)
    wrong = judged_coverage("wrong", around(0.5), [0.5, 0.6] * 4)
    assert said(best, silent, wrong)[0] == [
        "“X” has a clearly higher F1 than “wrong” and “silent” (0.800 against 0.500 and 0.000). "
        "No other model contradicts the references clearly less often.",
        "Contradicted reference points, fewest first: “silent” 0 of 80 points, “X” 4 of 80 points "
        "and “wrong” 44 of 80 points; 2 of 3 differences are clear.",
    ]
    flawless = judged_coverage("X", around(0.8), [0.0] * 8)
    assert said(flawless, silent, wrong)[0][0].endswith(
        "0.500 and 0.000). It contradicts none of the reference points."
    )
    careless = judged_coverage("X", around(0.8), [0.4, 0.3] * 4)
    first, second = said(careless, silent)[0]
    assert first.startswith("“silent” contradicts the references clearly less often than “X”")
    assert second == "“X” has a clearly higher F1 than “silent” (0.800 against 0.000)."


def test_a_model_with_fewer_questions_is_named():
    sentences, notes = said(rows_of("A", [*around(0.6), 0.15]), rows_of("B", around(0.5)))
    assert sentences == ["“A” has a clearly higher F1 than “B” (0.550 against 0.500)."]
    assert notes[0] == (
        "“B” has results for 8 of 9 questions. Its values are over these; two models are compared "
        "on the questions that both have, and ranked where these are of 6 groups or more."
    )


def test_a_model_with_few_answers_is_named_so_and_under_six_groups_it_is_not_ranked():
    a, b = rows_of("A", around(0.6, 20)), rows_of("B", around(0.5, 20))
    assert said(a, b, rows_of("few", around(0.9, 5)))[0] == [
        "“A” has a clearly higher F1 than “B” (0.600 against 0.500)."
    ]
    assert said(a, b, rows_of("few", around(0.9, 8)))[0] == [
        "“few” has a clearly higher F1 than “A” and “B” (0.900 from 8 answers against 0.600 and "
        "0.500)."
    ]
    # Where none has enough groups all are named.
    assert said(rows_of("A", around(0.6, 5)), rows_of("few", around(0.9, 2)))[0] == [
        "F1, highest first: “few” 0.900 from 2 answers and “A” 0.602; no difference is clear over "
        "2 groups."
    ]


def test_without_a_judge_it_speaks_of_figures_and_never_of_words():
    local = {"metric": "Coverage(local)", "signature": WORDS}
    figures = {"metric": "Figures", "part": "Precision", "signature": "figures:1"}
    sentences, _ = said(
        rows_of("A", around(0.4), **local),
        rows_of("B", around(0.8), **local),
        rows_of("A", [1.0] * 8, **figures),
        rows_of("B", around(0.75), **figures),
    )
    assert sentences == [
        "Only words and figures were compared, not meaning.",
        "“A” has clearly more of its figures in the references than “B” (1.000 against 0.750).",
    ]
    assert said(rows_of("A", around(0.4), **local), rows_of("B", around(0.8), **local))[0] == [
        "Only words and figures were compared, not meaning."
    ]


@pytest.mark.parametrize(
    ("recall_of_b", "told"),
    [
        (0.366, ["“A” has a clearly higher Figures Recall than “B” (1.000 against 0.366)."]),
        (1.0, []),
    ],
)
def test_figures_that_a_model_leaves_out_are_told_where_what_it_has_is_right(recall_of_b, told):
    models = precision_of_figures("A", [1.0] * 8) + precision_of_figures("B", [1.0] * 8)
    recall = {"metric": "Figures", "part": "Recall", "signature": "figures:1"}
    models += rows_of("A", [1.0] * 8, **recall) + rows_of("B", [recall_of_b] * 8, **recall)
    assert said(models)[0] == [
        "Share of an answer’s figures that its reference has, highest first: “A” 1.000 and “B” "
        "1.000; no difference in Figures Precision is clear over 8 groups.",
        *told,
    ]
    # Where a difference in precision is clear, recall is not spoken of.
    wrong = precision_of_figures("A", [1.0] * 8) + precision_of_figures("B", around(0.7))
    both = wrong + models[16:]
    assert said(both)[0] == said(wrong)[0]


def test_clear_differences_in_recall_of_figures_are_counted_where_no_model_has_more_than_all():
    recall = {"metric": "Figures", "part": "Recall", "signature": "figures:1"}
    models = []
    for name, share in (("A", 0.9), ("B", 0.9), ("C", 0.3)):
        models += rows_of(name, around(share), **recall)
    # An answer without figures has no precision.
    assert said(models)[0] == [
        "Figures Recall, highest first: “A” 0.900, “B” 0.900 and “C” 0.300; 2 of 3 differences "
        "are clear."
    ]
    assert said(models[:16])[0] == []  # neither words nor meaning


def test_where_a_judge_was_asked_words_and_figures_have_no_say():
    both = [rows_of("A", around(0.6)), rows_of("B", around(0.5))]
    local = rows_of("B", around(0.9), metric="Coverage(local)", signature=WORDS)
    assert said(*both, local)[0] == said(*both)[0]


def precision_of_figures(model, values, den=10):
    fields = {"metric": "Figures", "part": "Precision", "signature": "figures:1"}
    return rows_of(model, values, den=den, **fields)


@pytest.mark.parametrize("of_a", [1.0, 0.69, 0.5])
def test_a_best_model_with_clearly_fewer_right_figures_is_doubted_at_once(of_a):
    a = judged_coverage("A", around(0.5), [0.3, 0.2] * 4) + precision_of_figures("A", [of_a] * 8)
    b = judged_coverage("B", around(0.9), [0.0] * 8) + precision_of_figures("B", around(0.69))
    doubt = (
        " But “B” has clearly fewer of its figures in the references than “A” (Figures Precision "
        "0.690 against 1.000): look at its figures first."
    )
    better, f1 = said(a, b)[0]
    f1_of_both = "“B” has a clearly higher F1 than “A” (0.900 against 0.500)."
    contradicted = "“B” contradicts the references clearly less often than “A”"
    assert better.startswith(f1_of_both)
    assert f1.startswith(contradicted)
    assert better.endswith(doubt) == (of_a == 1)
    assert "figures" not in f1  # it is said once


def test_a_later_model_is_doubted_where_one_below_it_has_clearly_more_right_figures():
    models = rows_of("right", around(0.9)) + precision_of_figures("right", [1.0] * 8)
    for name, f1, shared in (("wrong", 0.5, 0.7), ("short", 0.4, 1.0)):
        models += rows_of(name, around(f1)) + precision_of_figures(name, around(shared - 0.01))
    (sentence,) = said(models)[0]
    assert sentence == (
        "“right” has a clearly higher F1 than “wrong” and “short” (0.900 against 0.500 and 0.400). "
        "But “wrong” has clearly fewer of its figures in the references than “short” (Figures "
        "Precision 0.690 against 0.990): look at its figures first."
    )
    in_order = [row for row in models if row[0] == "Figures" or row[2] != "wrong"]
    last = rows_of("wrong", around(0.3))
    assert "But" not in said(in_order, last)[0][0]


def test_every_metric_says_that_its_best_model_has_clearly_fewer_right_figures():
    models = []
    for name, score, shared in (("A", 0.5, 1.0), ("B", 0.9, 0.6)):
        models += judged_coverage(name, around(score), [0.3 - score / 4] * 8)
        models += rows_of(name, around(score), part="Score", metric="Judge alone")
        models += precision_of_figures(name, around(shared))
    sentences = said(models)[0]
    doubted = [sentence for sentence in sentences if "look at its figures first." in sentence]
    assert [sentence.partition(": ")[0] for sentence in doubted] == ["Judge alone", "Coverage(LLM)"]
    assert len(sentences) == 3  # of contradicted points it is not said again


@pytest.mark.parametrize(
    ("shared", "den", "is_said"), [(0.67, 3, True), (0.67, 2, False), (0.95, 3, False)]
)
def test_a_model_alone_with_few_right_figures_is_not_praised_without_a_word(shared, den, is_said):
    judged = rows_of("A", around(0.9)) + rows_of("A", around(0.9), part="Recall")
    (sentence,) = said(judged, precision_of_figures("A", [shared] * 8, den))[0]
    words = " Only 0.670 of the figures of “A” are in the references: look at its figures first."
    assert sentence.endswith("its F1 is 0.900." + (words if is_said else ""))


@pytest.mark.parametrize(("values", "is_said"), [(around(0.5), True), (around(0.2), False)])
def test_the_first_model_is_doubted_too_where_no_difference_is_clear(values, is_said):
    """Where one is clear, but no model is the best, differences in figures are what is told."""
    models = rows_of("A", around(0.5)) + rows_of("B", [0.54, 0.48] * 4) + rows_of("C", values)
    figures = precision_of_figures("B", [0.67] * 8, 3) + precision_of_figures("A", [1.0] * 8, 3)
    (sentence,) = said(models, figures)[0]
    assert sentence.startswith("F1, highest first: “B” 0.510")
    words = " Only 0.670 of the figures of “B” are in the references: look at its figures first."
    assert sentence.endswith(words) == is_said


def test_of_several_models_with_more_right_figures_the_one_with_the_most_is_named():
    models = []
    for name, f1, shared in (("A", 0.5, 0.9), ("B", 0.9, 0.6), ("C", 0.4, 0.95)):
        models += rows_of(name, around(f1)) + precision_of_figures(name, around(shared))
    assert said(models)[0][0].endswith(
        " But “B” has clearly fewer of its figures in the references than “C” (Figures Precision "
        "0.600 against 0.950): look at its figures first."
    )


@pytest.mark.parametrize(
    ("shared", "den", "is_doubted"), [(0.8, 3, True), (0.8, 2, False), (0.95, 3, False)]
)
def test_a_judge_that_named_no_contradicted_point_is_not_quoted_where_figures_differ(
    shared, den, is_doubted
):
    a = judged_coverage("A", around(0.5), [0.0] * 8)
    b = judged_coverage("B", around(0.9), [0.0] * 8)
    figures = precision_of_figures("A", around(shared), den)
    f1 = "“B” has a clearly higher F1 than “A” (0.900 against 0.500)."
    note = "The judge named no contradicted point."
    if is_doubted:
        assert said(a, b, figures)[0] == [f"{f1} {note}"]
        recall = rows_of("A", around(0.7), metric="Coverage(LLM)", part="Recall")
        assert said(a, recall, figures)[0][0].endswith(
            f"; its F1 is 0.500. {note} Only 0.800 of the figures of “A” are in the references: "
            "look at its figures first."
        )
    else:
        assert said(a, b, figures)[0] == said(a, b)[0]
        assert note not in said(a, b)[0][0]
    contradicting = judged_coverage("B", around(0.9), [0.1, *[0.0] * 7])
    assert note not in " ".join(said(a, contradicting, figures)[0])


def test_with_several_metrics_each_sentence_names_its_own():
    alone = rows_of("A", around(0.6), metric="Judge alone", part="Score")
    recall = rows_of("A", around(0.7), part="Recall")
    sentences, _ = said(rows_of("A", around(0.5)), recall, alone)
    assert [sentence.partition(": ")[0] for sentence in sentences] == ["EMS(LLM)", "Judge alone"]


def test_a_model_alone_is_measured_by_the_references():
    contradicted = rows_of("A", [0.0] * 8, part="Contradicted")
    recall, f1 = rows_of("A", around(0.7), part="Recall"), rows_of("A", around(0.5))
    assert said(contradicted, recall, f1)[0] == [
        "“A” contradicts 0 of 80 points of the references.",
        "“A” states 70 % of what the references say (recall 0.700 [0.691, 0.709]); its F1 is "
        "0.500.",
    ]
    score = rows_of("A", [1.0] * 7 + [0.6], part="Score", metric="Judge alone")
    assert said(score)[0] == ["“A” has, on a scale from 0 to 1, 0.950 [0.832, 1.000]."]
    figures = {"metric": "Figures", "part": "Precision", "signature": "figures:1"}
    assert said(rows_of("A", around(0.7), **figures))[0][0] == (
        "The references have 70 % of the figures of “A” (0.700 [0.691, 0.709])."
    )


def test_a_model_alone_is_not_said_to_state_what_it_contradicts():
    contradicted = rows_of("A", [0.6] * 8, part="Contradicted")
    recall, f1 = rows_of("A", around(0.7), part="Recall"), rows_of("A", around(0.5))
    uncontradicted = rows_of("A", around(0.39), part="Recall uncontradicted")
    assert said(contradicted, uncontradicted, recall, f1)[0] == [
        "“A” contradicts 48 of 80 points of the references.",
        "“A” states 39 % of what the references say, contradicted points not counted (recall "
        "uncontradicted 0.390 [0.381, 0.399]); its F1, which counts them, is 0.500.",
    ]


def test_more_than_five_models_are_put_in_order_and_not_tested():
    models = [rows_of(f"m{i}", around(0.1 * i)) for i in range(1, 7)]
    assert said(*models)[0] == [
        "F1, highest first: “m6” 0.600, “m5” 0.500, “m4” 0.400, “m3” 0.300 and “m2” 0.200; "
        "the 6 models were not tested two by two."
    ]


# --- what cannot be found ---


def test_it_says_how_large_a_difference_must_be():
    # The differences are 0.1 plus or minus 0.02: the jackknife's error is 0.02 / sqrt(7), and t
    # with 7 degrees of freedom 2.365.
    a, b = around(0.61), [0.5 - 0.01 * (-1) ** i for i in range(8)]
    assert said(rows_of("A", a), rows_of("B", b))[1] == [
        "With these questions a difference must be larger than about 0.018 for EMS(LLM) F1 to be "
        "clear."
    ]


def test_a_size_that_would_be_shown_as_zero_is_not_named():
    a, b = around(0.61), [value - 0.1 for value in around(0.61)]
    assert said(rows_of("A", a), rows_of("B", b))[1] == []


def test_a_metric_that_one_model_alone_has_is_told_of_it_alone():
    score = rows_of("A", around(0.5), metric="Judge alone", part="Score")
    sentences, notes = said(rows_of("A", around(0.6)), rows_of("B", around(0.5)), score)
    assert sentences[1].startswith("Judge alone: “A” has, on a scale from 0 to 1, 0.500 [")
    assert notes == []
    unscored = rows_of("B", [float("nan")] * 8, metric="Judge alone", part="Score", unscored=1)
    assert (
        said(rows_of("A", around(0.6)), rows_of("B", around(0.5)), score, unscored)[0] == sentences
    )


@pytest.mark.parametrize(
    ("models", "groups", "least"), [("AB", 5, ""), ("ABC", 6, "0.094"), ("ABCD", 7, "0.094")]
)
def test_it_says_where_the_groups_are_too_few_for_any_clear_difference(models, groups, least):
    rows = [rows_of(model, around(0.1 * i + 0.1, groups)) for i, model in enumerate(models)]
    sentences, (note,) = said(*rows)
    assert f"no difference is clear over {groups} groups." in sentences[0]
    if least:
        pairs = len(models) * (len(models) - 1) // 2
        assert f"{groups} groups and {pairs} comparisons p cannot be under {least}" in note
    else:
        assert "there are 5 groups, and an interval needs 6. With --cluster triplet_id" in note


def test_it_says_where_too_few_points_have_a_score():
    _, notes = said(rows_of("A", around(0.7), part="Recall"), rows_of("A", [0.5] * 8, unscored=1))
    assert notes == [
        "EMS(LLM) of “A” speaks for a part only: under 95 % of the points, or of the answers, have "
        "a score."
    ]


def test_a_long_or_hostile_name_is_safe_to_print():
    (sentence,), _ = said(rows_of("A\x1b[31m" + "x" * 500, around(0.6)), rows_of("B", around(0.5)))
    assert "\x1b" not in sentence
    assert len(sentence) < 200
