"""Matching and scoring in one call, and points of one to three sentences."""

import json
from math import isnan

import pytest
from doubles import ScriptedJudge

from ems.asking import Reply
from ems.data import load_answers
from ems.io import data_path
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.judge.unread import is_readable
from ems.local.sentences import SentenceExtractor
from ems.prompting import Prompts
from ems.study.ablations import one_call
from ems.study.dataset.calls import own_triplets
from ems.types import Answer, Triplet
from ems.variants.joint import read_pairs

TRIPLETS = [Triplet("q", "g", "?", "Revenue was $5 billion. Margin was 20%. No dividend is paid.")]
ANSWERS = [Answer("q", "m", "Margin came to 20%. Sales were 5 billion dollars.")]


def judged(*replies):
    judge = ScriptedJudge(*replies)
    return one_call.MatchAndScore(SentenceExtractor(), judge), judge


def test_one_call_by_hand():
    pipeline, judge = judged('{"pairs": [[1, 8], [0, 10], [-1, 0]]}')
    result, = pipeline.evaluate(TRIPLETS, ANSWERS)
    assert (result.match, result.score) == ((1, 0, -1), (0.8, 1.0, 0.0))
    assert result.recall == (0.8 + 1.0) / 3
    assert result.precision == (1.0 + 0.8) / 2
    assert len(judge.seen) == 1
    assert ",one call,max=10|judge:" in result.signature


@pytest.mark.parametrize(("reply", "pairs"), [
    ('{"pairs": [[1, 8], [-1, 0]]}', [(1, 0.8), (-1, 0.0)]),
    ("[[1, 8], [-1, 0]]", [(1, 0.8), (-1, 0.0)]),
    ('```json\n{"pairs": [["1", 8], [-1, 0]]}\n```', [(1, 0.8), (-1, 0.0)]),
    ('{"pairs": [[2, 8], [0, 11]]}', [(None, 0.8), (0, None)]),        # off the menu of two, off the scale
    ('{"pairs": [[1, 8], [0]]}', [(1, 0.8), (None, None)]),
    ('{"pairs": [[1, 8], 0]}', [(1, 0.8), (None, None)]),
    ('{"pairs": [[1, true], [0, 7.5]]}', [(1, None), (0, None)]),
    ('{"pairs": [[1, 8]]}', None),                                     # which one is missing nobody knows
    ('{"pairs": [1, 8, -1, 0]}', None),
    ('[[1, 8], [0, 0]] or [[0, 8], [0, 0]]', None),
    ('{"pairs": [[1, 8], [-1', None),
    ("I cannot.", None),
])
def test_pairs_are_read_or_left_unscored(reply, pairs):
    assert read_pairs(reply, "pairs", count=2, n_points=2, max_score=10) == pairs


def test_what_cannot_be_read_is_unscored():
    for reply in ("no", Reply(None, "length")):
        result, = judged(reply)[0].evaluate(TRIPLETS, ANSWERS)
        assert result.unscored == 3
        assert isnan(result.f1)
    result, = judged('{"pairs": [[1, 8], [9, 10], [0, 99]]}')[0].evaluate(TRIPLETS, ANSWERS)
    assert result.unscored == 2
    assert result.recall == 0.8


def test_an_answer_without_points_costs_no_call_and_scores_0():
    pipeline, judge = judged()
    result, = pipeline.evaluate(TRIPLETS, [Answer("q", "m", "")])
    assert (result.recall, result.f1, result.match) == (0.0, 0.0, (-1, -1, -1))
    assert judge.seen == []


def test_the_prompt_asks_what_the_two_separate_ones_ask():
    joint, match, score = (Prompts().template(name).template for name in ("match_and_score", "match_all", "score_all"))
    for words, other in (("12% more revenue and 12% of the staff share a number and nothing else", match),
                         ("about $middle if they share half of their information", score),
                         ("whether it goes into the same depth", score)):
        assert words in joint
        assert words in other
    example = joint.partition("JSON, if the scale went from 0 to 10: ")[2].splitlines()[0]
    assert read_pairs(example, "pairs", 2, 2, 10) == [(1, 0.8), (-1, 0.0)]
    assert is_readable("match and score", example)
    assert not is_readable("match and score", "I cannot.")


@pytest.mark.parametrize(("size", "points"), [
    (1, ("One a.", "Two b.", "Three c.")), (2, ("One a. Two b.", "Three c.")), (3, ("One a. Two b. Three c.",))])
def test_sentences_are_grouped_across_list_entries(size, points):
    assert one_call.SentenceGroups(size)(["- One a.\n- Two b.\n\nThree c.", ""]) == [points, ()]


def test_one_triplet_a_group_whatever_the_order():
    triplets = [Triplet(f"{g}{i}", g, "?", "r") for g in "abcd" for i in range(3)]
    drawn = one_call.one_a_group(triplets, 3)
    assert len({t.group for t in drawn}) == 3
    assert one_call.one_a_group(triplets[::-1], 3) == drawn


def test_choices_by_kind_by_hand():
    triplets = [TRIPLETS[0], Triplet("empty", "g", "?", TRIPLETS[0].reference)]
    answers = [ANSWERS[0], Answer("empty", "m", "")]
    first = judged('{"pairs": [[1, 8], [0, 6], [-1, 0]]}')[0].evaluate(triplets, answers)
    other = judged('{"pairs": [[1, 10], [1, 4], [0, 1]]}')[0].evaluate(triplets, answers)
    table = one_call.choices(first, other)
    same, another, only_first, only_other, none = one_call.KINDS
    assert dict(table.points) == {same: 1, another: 1, only_first: 0, only_other: 1, none: 0}
    assert (table.loc[same, "first"], table.loc[same, "other"], table.loc[only_other, "other"]) == (0.8, 1.0, 0.1)
    assert one_call.choices(first, []).points.sum() == 0


@pytest.fixture(scope="module")
def recorded():
    judge = LLMJudge("large-llm-2026-11", mode="replay", temperature=None, seed=None, store=Replies(
        recorded=[data_path(f"q3-2024/{name}.jsonl") for name in ("replies", "joint_replies")]))
    triplets = own_triplets()
    return *one_call.by_form(judge, triplets, load_answers(data_path("q3-2024/answers.jsonl")), groups=1), triplets


def test_the_recorded_replies_of_one_company(recorded):
    """One question, four answers: what is committed is read, and matched a second time by other code."""
    results, costs, triplets = recorded
    assert dict(costs["answers"]) == {"two calls": 4, "one call": 4, **dict.fromkeys(one_call.GRAINS, 3)}
    assert sum(r.unscored for rows in results.values() for r in rows) == 0
    two, one = results["two calls"], results["one call"]
    alike = [a == b for r, s in zip(two, one, strict=True) if r.ans_points for a, b in zip(r.match, s.match, strict=True)]
    points = one_call.choices(two, one)["points"]
    assert len(alike) == points.sum()
    assert sum(alike) == points[one_call.KINDS[0]] + points[one_call.KINDS[4]]
    assert costs.loc["one call", "calls"] < costs.loc["two calls", "calls"]


def test_findings_say_what_is_recorded_and_what_is_not(recorded):
    results, costs, triplets = recorded
    said = one_call.findings(results, costs, triplets)
    assert "4 answers" in said
    assert "1, 2 and 3 sentences" in said
    assert "nan" not in said
    assert "[" not in said                        # one company: no interval
    nothing = one_call.findings({form: [] for form in results}, costs, triplets)
    assert nothing.endswith("no replies are recorded for it.")
    assert one_call.findings({}, costs, triplets) == nothing          # without a judge
    assert one_call.f1_by_model({}, triplets).empty
    assert list(one_call.f1_by_model(results, triplets).index) == list(results)


def test_forms_are_compared_over_the_answers_that_all_have():
    triplets = [Triplet(f"q{i}", f"g{i}", "?", TRIPLETS[0].reference) for i in range(7)]
    answers = [Answer(t.id, "m", ANSWERS[0].answer) for t in triplets]
    pairs = json.dumps({"pairs": [[1, 10], [0, 10], [-1, 0]]})
    less = json.dumps({"pairs": [[1, 10], [-1, 0], [-1, 0]]})
    first = judged(*[pairs] * 7)[0].evaluate(triplets, answers)
    other = judged(*[less] * 6)[0].evaluate(triplets, answers[:6])
    table = one_call.beside({"a": first, "b": other, "c": []}, "a", triplets)
    assert list(table.index) == ["a", "b"]
    assert list(table["answers"]) == [6, 6]
    f1 = 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)
    assert table.loc["b", "less a"] == pytest.approx(f1 - 0.8)
    assert table.loc["a", ["less a", "low", "high"]].isna().all()
    assert table.loc["b", "high"] - table.loc["b", "low"] == pytest.approx(0, abs=1e-12)
    assert one_call.beside({"a": [], "b": other}, "a", triplets).empty
    unread = judged(*["no list"] * 7)[0].evaluate(triplets, answers)
    assert "Not tried" in one_call.findings({"two calls": first, "one call": unread}, None, triplets)
    lost = judged(*[pairs] * 6, "no list")[0].evaluate(triplets, answers)             # the last has no value
    higher = judged(*[less] * 6, pairs)[0].evaluate(triplets, answers)
    table = one_call.beside({"a": lost, "b": higher}, "a", triplets)
    assert list(table["answers"]) == [6, 6]
    assert table.loc["b", "F1"] == pytest.approx(f1)
