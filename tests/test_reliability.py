"""Judges that agree with themselves and with one another, on tables small enough to work out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from doubles import ScriptedJudge
from loopback import Loopback
from scripted import judgeable
from scripted import judged as judged_as

from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.local.scorers import SimilarityMatcher
from ems.local.sentences import SentenceExtractor
from ems.pipeline import EMS, build
from ems.score import LLMScorer
from ems.study.reliability import (
    RepeatedJudge,
    drawn,
    judged_again,
    krippendorff_alpha,
    means_by_model,
    panel,
    reliability,
    second_opinions,
    widest,
)
from ems.types import Answer, EMSResult, InputError, Request, Triplet


def test_alpha_by_hand():
    pytest.importorskip("krippendorff")
    # Two raters, four units, nominal: one unit of four disagrees. Values: a 5 times, b 3 times of n = 8.
    # Observed 1/4; expected (8 * 8 - 5 * 5 - 3 * 3) / (8 * 7) = 30 / 56. alpha = 1 - (1/4) / (30/56) = 8/15
    table = np.array([[0, 0], [0, 0], [1, 1], [0, 1]])
    assert (
        krippendorff_alpha(table, "nominal")
        == pytest.approx(1 - (1 / 4) / (30 / 56))
        == pytest.approx(8 / 15)
    )
    assert math.isnan(krippendorff_alpha(np.zeros((3, 2))))


def test_alpha_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "krippendorff", None)
    with pytest.raises(InputError, match="pip install"):
        krippendorff_alpha(np.array([[1, 2], [2, 2]]))


def test_a_unit_that_one_rater_rated_does_not_count():
    pytest.importorskip("krippendorff")
    table = np.array([[0, 0, np.nan], [0, 1, np.nan], [1, 1, 1]])
    lonely = np.vstack([table, [[2, np.nan, np.nan]]])
    assert krippendorff_alpha(lonely, "nominal") == krippendorff_alpha(table, "nominal")
    # Only the first unit was rated twice, and alike: without variation alpha is unknown.
    assert math.isnan(krippendorff_alpha(np.array([[1, 1], [2, np.nan]])))
    assert math.isnan(krippendorff_alpha(np.ones((0, 2))))


def test_alpha_of_the_published_example():
    """Krippendorff (2011), Computing Krippendorff's Alpha-Reliability, section C."""
    pytest.importorskip("krippendorff")
    nan = np.nan
    raters = [[1, 2, 3, 3, 2, 1, 4, 1, 2, nan, nan, nan], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, nan, 3],
              [nan, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, nan], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, nan]]
    table = np.array(raters).T
    assert round(krippendorff_alpha(table, "nominal"), 3) == 0.743
    assert round(krippendorff_alpha(table), 3) == 0.849


def test_one_rater_and_an_answer_twice_are_refused():
    with pytest.raises(InputError, match="two raters or more, got 1"):
        reliability({"only": [result("1", 0.2)]})
    with pytest.raises(InputError, match="rater b has x on 1 more than once"):
        reliability({"a": [result("1", 0.2)], "b": [result("1", 0.2), result("1", 0.3)]})


def result(triplet, f1, match=(0, 1), score=(1.0, 0.5), model="x", points=("a", "b")):
    return EMSResult(triplet, model, points, ("c", "d"), match, score, f1, f1, f1, 0, "sig")


def test_reliability_per_answer_and_per_point():
    pytest.importorskip("krippendorff")
    raters = {
        "first": [result("1", 0.2), result("2", 0.4), result("3", 0.9)],
        "second": [result("2", 0.4), result("1", 0.3, match=(0, -1), score=(1.0, 0.0)), result("3", 0.9)],
    }
    found = reliability(raters).set_index("level")
    assert found.n["f1"] == 3
    assert set(found.raters) == {2}
    assert found.n["match index"] == found.n["point score"] == 6
    # standard deviations within the three answers: |0.2 - 0.3| / sqrt(2), 0, 0
    assert found.spread["f1"] == pytest.approx(0.1 / math.sqrt(2) / 3)
    assert found.largest["f1"] == pytest.approx(0.1)
    # indices: 0 0, 1 -1, 0 0, 1 1, 0 0, 1 1. Observed 1/6; values 0 six times, 1 five times, -1 once of 12
    assert found.alpha["match index"] == pytest.approx(1 - (1 / 6) / ((144 - 36 - 25 - 1) / (12 * 11)))
    assert math.isnan(found.spread["match index"])


def test_points_that_differ_between_raters_are_not_compared():
    pytest.importorskip("krippendorff")
    raters = {"first": [result("1", 0.2)], "second": [result("1", 0.3, points=("a", "other"))]}
    found = reliability(raters).set_index("level")
    assert found.n["match index"] == 0
    assert found.n["f1"] == 1


def test_an_answer_only_one_rater_has_is_no_unit():
    pytest.importorskip("krippendorff")
    raters = {
        "first": [result("1", 0.2), result("2", 0.5)],
        "second": [result("1", 0.2), result("2", math.nan)],
    }
    assert reliability(raters).set_index("level").n["f1"] == 1


def test_a_repeated_judge_keeps_its_replies_apart():
    judge = ScriptedJudge(lambda request: f"sample {request.sample}")
    again = RepeatedJudge(judge, 3)
    assert again.ask([Request("score", "p", 8)])[0].text == "sample 3"
    assert again.signature != judge.signature
    assert judge.requests[0].prompt == "p"


def test_a_judge_that_wavers_is_seen_to_waver():
    """Three repetitions of a scripted judge: the second answer gets 8, 8 and 6 of 10."""
    pytest.importorskip("krippendorff")

    def play(request):
        return "10" if "zebra" in request.prompt else "6" if request.sample == 2 else "8"

    triplets = [Triplet("1", "a", "q", "zebra"), Triplet("2", "b", "q", "giraffe")]
    answers = [Answer(t.id, "x", t.reference) for t in triplets]
    raters = {}
    for k in range(3):
        scorer = LLMScorer(RepeatedJudge(ScriptedJudge(play), k))
        raters[str(k)] = EMS(SentenceExtractor(), SimilarityMatcher(), scorer).evaluate(triplets, answers)
    found = reliability(raters).set_index("level")
    assert found.largest["point score"] == pytest.approx(0.2)
    assert found.spread["point score"] == pytest.approx((np.std([0.8, 0.8, 0.6], ddof=1) + 0) / 2)
    assert found.alpha["match index"] != found.alpha["match index"]  # every index is 0: nothing to agree on


def judged(model: str, match, score, f1: float = 0.5) -> EMSResult:
    """An answer of two points judged against a reference of len(match)."""
    points = tuple(f"point {i}" for i in range(len(match)))
    return EMSResult("1", model, points, ("a", "b"), match=match, score=score, ans_score=(0.0, 0.0),
                     recall=f1, precision=f1, f1=f1, unscored=0, signature="s")


def test_second_opinions_by_hand():
    first = [judged("x", (0, 0, 1, -1), (0.5, 1.0, 0.2, 0.0), 0.5), judged("y", (1, 1), (0.4, 0.6), 0.7)]
    other = [judged("y", (1, None), (0.5, None), 0.6), judged("x", (0, 1, 1, -1), (0.7, 0.1, 0.2, 0.0), 0.3)]
    row = second_opinions(first, {"again": other}).loc["again"]
    assert (row["answers"], row["points"], row["scored"]) == (2, 5, pytest.approx(5 / 6))
    assert row["same choice"] == pytest.approx(4 / 5)
    # By chance: x (2 * 1 + 1 * 2 + 1 * 1) / 4 points, y 1 of 1: (5 / 4 + 1) / 5 points
    assert row["kappa"] == pytest.approx((0.8 - 0.45) / 0.55)
    # chosen alike and scored by both: x 0.5 -> 0.7 and 0.2 -> 0.2, y 0.4 -> 0.5
    assert row["score difference"] == pytest.approx(0.1)
    assert row["score correlation"] == pytest.approx(1)
    assert row["F1 difference"] == pytest.approx(-0.15)
    assert row["F1 correlation"] == pytest.approx(1)
    assert row["F1 spread"] == pytest.approx((0.2 + 0.1) / 2 / math.sqrt(2))


def test_two_judges_means_by_model_and_their_widest_gap():
    first = [judged("x", (0,), (0.5,), 0.5), judged("y", (1,), (0.4,), 0.7)]
    other = [judged("y", (-1,), (0.0,), 0.6), judged("x", (0,), (0.7,), 0.2)]
    table = means_by_model(first, {"small": other})
    assert table.to_dict("records") == [
        {"judged again": "small", "model": "x", "answers": 1, "first": 0.5, "other": 0.2},
        {"judged again": "small", "model": "y", "answers": 1, "first": 0.7, "other": 0.6}]
    assert widest(first, other) is other[0]         # y: the one match that differs
    with pytest.raises(InputError, match="no answer in common"):
        widest(first, [judged("z", (0,), (1.0,), 1.0)])
    assert means_by_model(first, {"none": []}).empty


def test_an_answer_without_points_says_nothing_about_two_judges():
    empty = replace(judged("x", (-1, -1), (0.0, 0.0), 0.0), ans_points=(), ans_score=())
    row = second_opinions([empty], {"small": [empty]}).loc["small"]
    assert row["answers"] == row["points"] == 0
    assert math.isnan(row["scored"])
    assert means_by_model([empty], {"small": [empty]}).empty


def test_second_opinions_without_anything_in_common_are_nan_and_other_points_are_refused():
    row = second_opinions([judged("x", (0,), (1.0,))], {"none": []}).loc["none"]
    assert row["answers"] == row["points"] == 0
    assert row.drop(["answers", "points"]).isna().all()
    with pytest.raises(InputError, match="again has other points than the first judge for x on 1"):
        second_opinions([judged("x", (0,), (1.0,))], {"again": [judged("x", (0, 1), (1.0, 1.0))]})


def test_the_answers_drawn_stay_when_a_model_joins():
    answers = [Answer(str(i), model, "text") for model in ("a", "b") for i in range(20)]
    few = drawn(answers, 3)
    assert [a.model for a in few] == ["a"] * 3 + ["b"] * 3
    assert drawn([*reversed(answers), *(Answer(str(i), "c", "text") for i in range(20))], 3)[:6] == few


def test_a_replay_leaves_out_the_answers_whose_second_judgement_is_not_stored(tmp_path):
    triplets, answers = judgeable(3, 6)
    with Loopback(judged_as) as server:
        live = LLMJudge("m", base_url=server.url, store=Replies(tmp_path / "r.sqlite"))
        first = build(live, "llm").evaluate(triplets, answers)
        judged_again(live, triplets, answers[:1], again=1)
    replay = LLMJudge("m", store=live.store, mode="replay")
    again = judged_again(replay, triplets, answers, again=3)["again"]
    assert [r.triplet_id for r in again] == [answers[0].triplet_id]
    assert second_opinions(first, {"again": again}).loc["again", "answers"] == 1


def test_another_judge_is_asked_in_each_form_and_on_the_first_one_s_points(tmp_path):
    triplets, answers = judgeable(1, 2)
    with Loopback(judged_as) as server:
        live = LLMJudge("m", base_url=server.url, store=Replies(tmp_path / "r.sqlite"))
        other = LLMJudge("small", base_url=server.url, store=live.store)
        first = build(live, "llm").evaluate(triplets, answers)
        rows = judged_again(live, triplets, answers, other=other, other_variants=["shared", "faithful"])
        assert judged_again(live, triplets, answers, other=other).keys() == {"small"}
    assert [(name, "variant=shared" in results[0].signature) for name, results in rows.items()] == [
        ("small, shared", True), ("small", False)]
    assert set(second_opinions(first, rows)["answers"]) == {len(answers)}
    assert {task for _, task in ((r["model"], r["task"]) for r in live.store.stats() if r["model"] == "small")} == {
        "match", "score"}


def valued(triplet, f1, signature):
    return EMSResult(triplet, "m", ("r",), ("a",), (0,), (f1,), f1, f1, f1, int(f1 != f1), signature)


def test_a_panel_is_the_mean_of_its_raters_over_answers_that_all_judged():
    one = [valued("a", 0.2, "one"), valued("b", 0.4, "one"), valued("c", 1.0, "one")]
    two = [valued("b", math.nan, "two"), valued("a", 0.6, "two")]
    values = panel({"one": one, "two": two})
    f1 = values[values.part == "F1"].set_index("triplet_id")
    assert dict(f1.value) == {"a": (0.2 + 0.6) / 2, "b": 0.4}          # two gave b no value; c is one's alone
    assert dict(f1.unscored) == {"a": 0, "b": 1}
    assert set(values.signature) == {"panel:one + two"}


def test_a_panel_needs_two_raters_with_an_answer_in_common():
    with pytest.raises(InputError, match="two raters or more, got 1"):
        panel({"one": [valued("a", 0.2, "one")]})
    with pytest.raises(InputError, match="no answer in common"):
        panel({"one": [valued("a", 0.2, "one")], "two": [valued("b", 0.2, "two")]})
