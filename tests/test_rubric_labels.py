"""Notebook 6's rubrics beside people: which answers are drawn, what was recorded of them, how they are compared."""

import os
from pathlib import Path

import pandas as pd
import pytest

from ems.io import data_path
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.study.people import agreement, human, judged_labels

HUMAN = data_path("human")
RATED, _ = judged_labels.ratings(HUMAN)


def recorded(path=None):
    store = Replies(recorded=[path] if path else [])
    return LLMJudge("large-llm-2026-11", store=store, mode="replay", temperature=None, seed=None)


def needs_texts():
    mirror = Path(os.environ.get("EMS_DATA_MIRROR") or "nowhere")
    if not all((mirror / name).is_dir() for name in ("ragchecker", "financebench")):
        pytest.skip("the texts are not here: set EMS_DATA_MIRROR to a folder with ragchecker/ and financebench/")


def test_what_is_drawn_does_not_hang_on_the_order_of_the_labels():
    labels = human.stored(HUMAN, "ragchecker").labels
    drawn = judged_labels.pair_sample(labels)
    of_sets = labels.drop_duplicates("instance_id").set_index("instance_id").loc[drawn, "dataset"]
    assert of_sets.value_counts().tolist() == [judged_labels.PAIRS] * 10
    assert judged_labels.pair_sample(labels.iloc[::-1]) == drawn
    labels = human.stored(HUMAN, "financebench_all").labels
    keys = judged_labels.answer_sample(labels)
    marked = labels.set_index(agreement.KEYS).loc[keys, "label"]
    assert marked.tolist() == ["correct"] * 20 + ["incorrect"] * 20
    assert judged_labels.answer_sample(labels.iloc[::-1]) == keys
    assert len({id_ for id_, _ in keys[:20]}) == len({id_ for id_, _ in keys[20:]}) == 20


def test_the_committed_ratings_are_of_the_drawn_answers():
    pairs, answers = (RATED[RATED["set"] == name] for name in ("ragchecker", "financebench"))
    assert set(pairs["triplet_id"]) == set(judged_labels.pair_sample(human.stored(HUMAN, "ragchecker").labels))
    assert len(pairs) == 30 * 2 * len(judged_labels.PAIR_RUBRICS)
    assert set(answers[agreement.KEYS].itertuples(index=False, name=None)) == set(
        judged_labels.answer_sample(human.stored(HUMAN, "financebench_all").labels))


def test_the_recorded_replies_give_the_committed_ratings(tmp_path):
    """Refresh them with: ems reproduce --only 06 -p RECOMPUTE yes -p SAVE data/human"""
    needs_texts()
    again, source = judged_labels.ratings(HUMAN, recorded(HUMAN / "rubric_replies.jsonl"), tmp_path)
    assert source == human.NOW
    pd.testing.assert_frame_equal(judged_labels.ratings(tmp_path)[0], RATED)
    assert again["value"].notna().sum() == RATED["value"].notna().sum()


def test_a_judge_without_recorded_replies_leaves_the_committed_ratings():
    needs_texts()
    rated, source = judged_labels.ratings(HUMAN, recorded())
    pd.testing.assert_frame_equal(rated, RATED)
    assert "are not saved" in source


def test_a_rubric_that_does_not_apply_prefers_neither_answer_and_hallucination_is_turned():
    pairs = pd.DataFrame([{"instance_id": "a", "annotator": i, "overall": 2} for i in (0, 1)])
    rated = pd.DataFrame([
        {"triplet_id": "a", "model": "1", "rubric": "completeness", "value": None},
        {"triplet_id": "a", "model": "2", "rubric": "completeness", "value": 1.0},
        {"triplet_id": "a", "model": "1", "rubric": "hallucination", "value": 1.0},
        {"triplet_id": "a", "model": "2", "rubric": "hallucination", "value": 0.0}]).astype({"value": float})
    scores = pd.DataFrame({"triplet_id": ["a", "a", "b"], "model": ["1", "2", "1"], "x F1": [0.1, 0.2, 0.3], "y F1": 0.0})
    known = judged_labels.with_ratings(human.LabelSet(pairs, scores, ""), rated, ["x"])
    assert list(known.scores) == [*agreement.KEYS, "OmniEval completeness Score", "OmniEval no hallucination Score", "x F1"]
    assert known.scores["OmniEval no hallucination Score"].tolist() == [0.0, 1.0]
    assert known.scores["OmniEval completeness Score"].isna().tolist() == [True, False]
    assert len(known.labels) == 2


def test_agreement_is_over_the_rated_pairs_and_answers_alone():
    settings = {"resamples": 20, "seed": 7}
    rows = judged_labels.on_pairs(human.stored(HUMAN, "ragchecker"), RATED, **settings)
    assert set(rows.loc[rows["measure"] == "spearman", "n"]) == {60, 30}           # judgements; annotators' own pairs
    assert {"OmniEval accuracy", "EMS(LLM)", "RAGChecker", agreement.PEOPLE} <= set(rows["metric"])
    answers = judged_labels.on_answers(human.stored(HUMAN, "financebench_all"), RATED, **settings)
    assert answers.loc[answers["metric"] == "OmniEval no hallucination", "n"].max() == 40
