"""Judges that agree with themselves and with one another, on tables small enough to work out by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from doubles import ScriptedJudge
from loopback import Loopback
from scripted import judgeable
from scripted import judged as judged_as

from ems.asking import Request
from ems.cli import main
from ems.data import load_answers
from ems.io import data_path, write_jsonl
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.local.scorers import SimilarityMatcher
from ems.local.sentences import SentenceExtractor
from ems.pipeline import EMS
from ems.presets import build
from ems.results.saved import load_results
from ems.score import LLMScorer
from ems.study.ablations.reliability import (
    RepeatedJudge,
    drawn,
    judged_again,
    krippendorff_alpha,
    means_by_model,
    panel,
    raters,
    reliability,
    second_opinions,
    widest,
)
from ems.study.dataset.calls import own_triplets
from ems.types import Answer, EMSResult, InputError, Triplet
from ems.variants.finer import SampledLLMScorer


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
    assert row["no partner"] == pytest.approx(1 / 5)
    assert row["one place"] == pytest.approx(3 / 4)         # 1 of 0, 1, 1 and 1
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


# --- judges repeated and several, from the command line and on the kit's own recording ---

def wavering(body):
    """The counting judge, but its second repetition, and the model "mild", score a pair lower by 2 of 10."""
    said = judged_as(body)
    lower = body["seed"] == 8 or body["model"] == "mild"
    return str(max(0, int(said) - 2)) if lower and said.isdecimal() and "Point 2:" in str(body["messages"]) else said


@pytest.fixture
def evaluated(tmp_path):
    """Arguments of `ems evaluate` on three answers, with a judge m and another at one address."""
    triplets, answers = judgeable(3, 6)
    files = [str(write_jsonl(tmp_path / name, rows)) for name, rows in (("t.jsonl", triplets), ("a.jsonl", answers))]
    with Loopback(wavering) as server:
        yield ["evaluate", *files, "-o", str(tmp_path / "o.jsonl"), "--judge", "m", "--base-url", server.url,
               "--store", str(tmp_path / "s.sqlite")]


def test_repeats_and_a_panel_on_the_command_line(evaluated, tmp_path, capsys):
    pytest.importorskip("krippendorff")
    assert main([*evaluated, "--repeats", "2", "--panel", "mild", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    results = load_results(tmp_path / "o.jsonl")
    assert list(results) == ["m", "m #2", "mild", "mild #2"]
    assert {r.ref_points for r in results["m"]} == {r.ref_points for r in results["mild"]}    # m's points in both
    f1 = {name: [r.f1 for r in rows] for name, rows in results.items()}
    assert f1["m"] != f1["m #2"] == f1["mild"]
    mean, = [row["value"] for row in said["panel"] if row["part"] == "F1"]
    assert mean == pytest.approx(np.mean(list(f1.values())))
    agreement = {row["level"]: row for row in said["agreement"]}
    assert agreement["match index"]["alpha"] == 1.0
    assert agreement["point score"]["alpha"] < 1
    extracted = [r for r in Replies(tmp_path / "s.sqlite").records() if r.task == "extract"]
    assert {r.model for r in extracted} == {"m"}


def test_repeats_as_a_table_and_in_a_dry_run(evaluated, capsys):
    pytest.importorskip("krippendorff")
    assert main([*evaluated, "--repeats", "2", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert main([*evaluated, "--repeats", "2"]) == 0
    said = capsys.readouterr().out
    assert "Mean of 2 judgements" in said
    assert "m #2" in said
    assert "match index" in said
    assert "NaN" not in said
    assert main([*evaluated, "--repeats", "2", "--dry-run"]) == 0
    assert "unknown" in planned
    assert capsys.readouterr().out.splitlines()[-1].split()[3] == "0"        # all is stored: no call is left


@pytest.mark.parametrize(("options", "words"), [
    (["--repeats", "0"], "a judge is asked once or more"),
    (["--panel", "m"], "judge m is named twice"),
    (["--repeats", "2", "--support", "local"], "leave out --support"),
    (["--panel", "mild", "--dry-run"], "count a panel judge by judge"),
    (["--repeats", "2", "--scorer", "llm-sampled", "--temperature", "1"], "with llm-sampled once"),
    (["--scorer", "llm-sampled"], "give --temperature 1"),
])
def test_bad_panels_are_one_line(evaluated, capsys, options, words):
    assert main([*evaluated, *options]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error
    assert "\n" not in error


def test_repeats_without_a_judge_are_refused(tmp_path, capsys):
    assert main(["evaluate", "t", "a", "-o", str(tmp_path / "o.jsonl"), "--repeats", "2", "--panel", "m"]) == 2
    assert "--repeats, --panel could change" in capsys.readouterr().err


def test_what_a_replay_lacks_of_several_judges_is_said_once(evaluated, tmp_path, capsys):
    assert main(evaluated) == 0
    capsys.readouterr()
    assert main([*evaluated, "--mode", "replay", "--repeats", "2", "--panel", "mild"]) == 2
    pending = Replies(tmp_path / "s.sqlite").pending()
    assert set(pending) == {"match"}
    assert pending["match"] == 3 * len(load_results(tmp_path / "o.jsonl")["EMS"][0].ref_points) * 3


def test_the_mean_of_sampled_replies_by_hand():
    judge = ScriptedJudge("8", "6", "none", "1", "no", "never")
    scorer = SampledLLMScorer(judge, samples=3)
    assert scorer([("a", "b"), ("c", "d")]) == [pytest.approx((0.8 + 0.6) / 2), None]    # of the other one in three
    assert [r.sample for r in judge.requests] == [0, 1, 2] * 2
    assert scorer.signature.endswith("max=10,mean of 3 replies")
    assert scorer.unread == {"score: unreadable": 3}
    with pytest.raises(InputError, match="samples must be 1 or more, got 0"):
        SampledLLMScorer(judge, samples=0)


def test_the_kits_own_recording_judged_twice_and_by_two():
    """Ten answers of each system asked again; three companies' answers by a small judge as well."""
    pytest.importorskip("krippendorff")
    store = Replies(recorded=[data_path("q3-2024/replies.jsonl")])
    large = LLMJudge("large-llm-2026-11", store=store, mode="replay", temperature=None, seed=None)
    small = LLMJudge("Qwen2.5-Coder-1.5B-Instruct", store=store, mode="replay",
                     weights="sha256:cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046")
    few = drawn([a for a in load_answers(data_path("q3-2024/answers.jsonl")) if "Large" in a.model], 3)
    found = raters(large, own_triplets(), few, repeats=2, judges=[small], incomplete=True, variant="all")
    assert list(found)[:2] == [large.name, f"{large.name} #2"]
    twice = {name: found[name] for name in list(found)[:2]}
    agreement = reliability(twice).set_index("level")
    assert agreement.n["f1"] == 3
    assert agreement.alpha["match index"] > 0.9
    values = panel(twice)
    assert values[values.part == "F1"].value.between(0.3, 0.8).all()
    asked = [a for a in load_answers(data_path("q3-2024/answers.jsonl")) if a.triplet_id == "AAPL-Q1"]
    two = {large.name: build(large, "llm", variant="all").evaluate(own_triplets(), asked),
           **judged_again(large, own_triplets(), asked, other=small, other_variants=["shared"], variant="all")}
    assert reliability(two).set_index("level").alpha["match index"] < 0.5           # the small one is no judge
