"""Which answer is drawn, what a wrong name is told, and texts side by side."""

import sys
from types import SimpleNamespace

import pytest
from doubles import Tags, refused
from study.examples import browse, example_result, rows_of_example, side_by_side

from ems.results import EMSResult
from ems.types import Answer, Triplet

BOOK = "Qwen2.5-Coder-1.5B-Instruct (closed book)"


def result(triplet_id, model, f1):
    return EMSResult(triplet_id, model, ("r",), ("a",), (0,), (f1,), f1=f1)


RESULTS = [
    result("t1", "good", 0.9),
    result("t2", "good", 0.5),
    result("t3", "good", 0.7),
    result("t1", BOOK, 0.1),
    result("t2", BOOK, float("nan")),
]


def drawn(*names):
    example = example_result(RESULTS, names)
    return example.triplet_id, example.model


def test_the_answer_that_is_asked_for_is_drawn():
    assert drawn() == ("t3", "good")  # the median of the best model
    assert drawn("t1") == ("t1", "good")
    assert drawn("t2", BOOK) == ("t2", BOOK)
    assert drawn("t2", "Qwen2.5 1.5B (no call)") == ("t2", BOOK)
    assert drawn("", BOOK) == ("t1", BOOK)


def test_an_unknown_answer_is_refused_with_those_that_there_are():
    with refused("EXAMPLE: no answer to 't11'; did you mean 't1'?; there are t1, t2, t3"):
        drawn("t11")
    with refused("EXAMPLE: no answer to 't3'", "; there are t1, t2"):
        drawn("t3", BOOK)
    with refused(
        "EXAMPLE: no answers of 'goood'; did you mean 'good'?; there are good, Qwen2.5 1.5B (no"
    ):
        drawn("t1", "goood")
    with refused("EXAMPLE must be [triplet, model], got 3 items"):
        drawn("t1", "good", "t2")


def test_an_example_is_looked_for_among_answers_before_they_have_scores():
    answers = [Answer(r.triplet_id, r.model, "text") for r in RESULTS]
    (found,) = rows_of_example(answers, ["t2", "Qwen2.5 1.5B (no call)"])
    assert (found.triplet_id, found.model) == ("t2", BOOK)
    with refused("EXAMPLE: no answer to 't3'"):
        rows_of_example(answers, ["t3", BOOK])


def test_the_model_is_the_best_of_those_with_an_answer_to_the_triplet():
    alone = example_result([*RESULTS, result("t4", BOOK, 0.2)], ["t4"])
    assert (alone.triplet_id, alone.model) == ("t4", BOOK)


def test_without_widgets_the_choices_are_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)  # its import fails
    text = browse(RESULTS).data
    assert "triplets are t1, t2, t3," in text
    assert "models are good; Qwen2.5 1.5B (no call)." in text


def test_a_selector_shows_any_answer(monkeypatch):
    shown = []
    widgets = SimpleNamespace(
        Dropdown=lambda options: options, interactive=lambda show, **boxes: (show, boxes)
    )
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    monkeypatch.setattr("study.examples.display", shown.append)
    show, boxes = browse(RESULTS)
    assert boxes["triplet"] == ["t1", "t2", "t3"]
    assert boxes["model"] == [("good", "good"), ("Qwen2.5 1.5B (no call)", BOOK)]
    show("t1", BOOK)
    show("t3", BOOK)
    assert shown == [RESULTS[3], "This model has no answer to it."]


def test_texts_stand_side_by_side_cut_and_harmless():
    triplet = Triplet("t1", "g", "Why?", "Because. " * 100)
    answers = [
        Answer("t2", "b", "of another question"),
        Answer("t1", "a", "<script>x</script> two"),
        Answer("t1", "c", "three"),
    ]
    names = {"c": "C", "b": "B", "a": "A<i>"}
    page = side_by_side(triplet, answers, names).to_html()
    assert set(Tags(page).tags) <= {"style", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.index("C: 1 words") < page.index("A&lt;i&gt;: 2 words")
    assert "B: " not in page
    assert "of another question" not in page
    assert "reference: 100 words" in page
    assert "Because. …" in page
    assert 60 < page.count("Because.") < 100


@pytest.mark.parametrize("count", [0, 3, 7])
def test_four_answers_are_shown_at_most(count):
    models = [f"m{i}" for i in range(count)]
    answers = [Answer("t", model, "text") for model in models]
    page = side_by_side(
        Triplet("t", "g", "q", "r"), answers, dict(zip(models, models, strict=True))
    )
    assert page.to_html().count("<td") == 1 + min(count, 4)
