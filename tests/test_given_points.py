"""Reference points that come with the triplet: weights, points that should not be said, nuggets, rubrics."""

import json

import pytest
from doubles import ScriptedJudge
from scripted import judged

from ems import GivenPoint, InputError, Triplet, build, load_answers, load_triplets
from ems.cli import main
from ems.io import data_path, write_jsonl
from ems.metrics import ems_scores
from ems.results.pooling import tally
from ems.results.saved import load_results
from ems.types import Answer, EMSResult

GIVEN = (GivenPoint("Revenue rose 6% to $94.9 billion.", 2.0, "vital"), GivenPoint("The board raised the dividend."),
         GivenPoint("Guidance for the year was withdrawn.", -1.0, "wrong"))
ASKED = [Triplet("t", "apple", "How did Apple do?", "", points=GIVEN)]


def test_weights_count_in_recall_by_hand():
    scores = ems_scores([0, -1, 1], [1.0, 0.0, 0.5], 3, ref_weights=[2.0, 1.0, -1.0])
    assert scores.recall == (2 * 1.0 + 1 * 0.0 - 1 * 0.5) / (2 + 1)
    assert scores.precision == 1 / 3                      # the point that should not be said supports nothing
    assert ems_scores([-1, 0], [0.0, 1.0], 1, ref_weights=[1.0, -3.0]).recall == 0.0


def test_points_of_no_weight_leave_recall_undefined():
    scores = ems_scores([0], [1.0], 1, ref_weights=[-1.0])
    assert scores.recall != scores.recall
    assert scores.reason == "no point weighs more than 0"


def test_local_scores_of_given_points():
    said = [Answer("t", "good", "Revenue rose 6% to $94.9 billion. The board raised the dividend."),
            Answer("t", "half", "Revenue rose 6% to $94.9 billion."),
            Answer("t", "wrong", "Revenue rose 6% to $94.9 billion. Guidance for the year was withdrawn."),
            Answer("t", "empty", "")]
    good, half, wrong, empty = build().evaluate(ASKED, said)
    assert good.ref_points == tuple(p.text for p in GIVEN)
    assert good.given == ("vital", "", "wrong")
    assert good.recall > 0.95
    assert half.recall == pytest.approx(2 / 3, abs=0.1)
    assert wrong.recall < half.recall - 0.2
    assert wrong.precision < half.precision - 0.2
    assert empty.recall == empty.f1 == 0.0
    assert tally(empty).ref_n == tally(good).ref_n == 3.0
    assert EMSResult.from_dict(json.loads(json.dumps(good.to_dict()))) == good
    pair = build(None, "local-pair").evaluate(ASKED, said[:1])[0]
    assert pair.ref_weights == (2.0, 1.0, -1.0)
    assert pair.recall == pytest.approx((2 * pair.score[0] + pair.score[1] - pair.score[2]) / 3)


def test_a_judge_is_not_asked_for_points_that_are_given():
    judge = ScriptedJudge(lambda request: judged({"messages": [{"content": request.prompt}]}))
    build(judge, "llm").evaluate(ASKED, [Answer("t", "m", "Revenue rose 6%. The dividend was raised.")])
    extracted = [r for r in judge.requests if r.task == "extract"]
    assert extracted
    assert not any(GIVEN[0].text in r.prompt for r in extracted)


def read(tmp_path, row):
    path = tmp_path / "triplets.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return load_triplets(path)[0]


@pytest.mark.parametrize(("row", "points"), [
    ({"id": "1", "question": "q", "points": [{"text": "a"}, {"text": "b", "weight": -2, "kind": "harm"}]},
     [("a", 1.0, ""), ("b", -2.0, "harm")]),
    ({"qid": "1", "query": "q", "nuggets": [{"text": "a", "importance": "vital"}, {"text": "b", "importance": "okay"}]},
     [("a", 1.0, "vital"), ("b", 0.5, "okay")]),
    ({"prompt_id": "1", "prompt": [{"role": "user", "content": "q"}],
      "rubrics": [{"criterion": "a", "points": 7, "tags": []}, {"criterion": "b", "points": -3}]},
     [("a", 7.0, ""), ("b", -3.0, "")]),
])
def test_points_are_read_as_their_communities_write_them(tmp_path, row, points):
    triplet = read(tmp_path, row)
    assert (triplet.id, triplet.group, triplet.question, triplet.reference) == ("1", "1", "q", "")
    assert [(p.text, p.weight, p.kind) for p in triplet.points] == points
    assert load_triplets(write_jsonl(tmp_path / "again.jsonl", [triplet])) == [triplet]


@pytest.mark.parametrize(("points", "said"), [
    ([], "weight above 0"), ([{"text": "a", "weight": -1}], "weight above 0"), ([{"text": " "}], "empty"),
    ([{"text": "a", "weight": "much"}], "weight"), ([{"text": "a", "weight": 1e308}], "weight"), ("a", "list"), ([{"weight": 1}], "missing"),
])
def test_bad_points_get_one_clear_line(tmp_path, points, said):
    with pytest.raises(InputError, match=said) as error:
        read(tmp_path, {"id": "1", "question": "q", "points": points})
    assert "line 1" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_kits_own_given_points_on_its_answers():
    """Real answers: vital facts rank the systems, and a wrong statement takes off recall where it was made."""
    triplets = load_triplets(data_path("q3-2024/given_points.jsonl"))
    ids = {t.id for t in triplets}
    answers = [a for a in load_answers(data_path("q3-2024/answers.jsonl")) if a.triplet_id in ids]
    results = {(r.triplet_id, r.model): r for r in build().evaluate(triplets, answers)}
    for triplet in triplets:
        large = results[triplet.id, "Large LLM (closed weights)"]
        guessed = results[triplet.id, "Qwen2.5-Coder-1.5B-Instruct (closed book)"]
        assert large.recall > results[triplet.id, "Qwen2.5-Coder-1.5B-Instruct"].recall > guessed.recall
        wrong = triplet.points[-1]
        assert (wrong.weight, wrong.kind) == (-2, "wrong")
        assert guessed.score[-1] > 0.9 > large.score[-1]
        wanted = sum(w * s for w, s in zip(guessed.ref_weights[:-1], guessed.score[:-1], strict=True))
        total = sum(w for w in guessed.ref_weights if w > 0)
        assert guessed.recall == pytest.approx(max(0, wanted - 2 * guessed.score[-1]) / total)


def test_results_with_a_point_that_should_not_be_said_are_read_back(tmp_path):
    path = write_jsonl(tmp_path / "results.jsonl", build().evaluate(ASKED, [Answer("t", "m", "Revenue rose 6%.")]))
    (result,), = load_results(path).values()
    assert result.ref_weights == (2.0, 1.0, -1.0)
    assert main(["report", str(path), "-o", str(tmp_path / "report.html")]) == 0
