"""EMS(LLM) on labels of people: FinanceBench's answers and K-QA's claims (notebook 6)."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from ems.io import data_path
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.study.findings import verdicts
from ems.study.people import agreement, human, judged_labels, unit_labels

HUMAN = data_path("human")
REPLIES = HUMAN / "label_replies.jsonl"


@pytest.fixture(scope="module")
def units():
    return human.unit_sets(HUMAN)["K-QA"]


def recorded(path=REPLIES):
    return LLMJudge("large-llm-2026-11", store=Replies(recorded=[path] if path else []), mode="replay",
                    temperature=None, seed=None)


@pytest.mark.parametrize("name", judged_labels.SETS)
def test_half_of_the_answers_are_correct_and_each_has_its_scores(name):
    known = judged_labels.answers(name, HUMAN)
    assert known.source == "numbers from data/human"
    assert known.labels["label"].value_counts().to_dict() == {"correct": 100, "incorrect": 100}
    assert known.labels.groupby("label")["triplet_id"].nunique().tolist() == [100, 100]
    assert known.scores.notna().all(axis=None)
    if name == "FinanceBench":
        first = judged_labels.answer_sample(human.stored(HUMAN, "financebench_all").labels)
        assert set(first) <= set(known.labels[agreement.KEYS].itertuples(index=False, name=None))


def test_within_systems_the_judge_ranks_as_well_and_the_system_alone_does_not():
    """FinanceBench's systems differ much, FinDVer's little; refusals are left out of the shares."""
    area = {}
    for name in judged_labels.SETS:
        known = judged_labels.answers(name, HUMAN)
        shares = judged_labels.shares(name, HUMAN)
        area[name] = agreement.within_systems(known.labels, known.scores, shares, resamples=200).set_index("metric")
    assert area["FinanceBench"]["value"].round(2)[["EMS(LLM)", "ROUGE-L", "EMS(local)", agreement.SYSTEM]].tolist() == [
        0.94, 0.72, 0.87, 0.83]
    assert area["FinanceBench"].loc["EMS(LLM)", "n"] == 456
    assert area["FinDVer"]["value"].round(2)[["EMS(LLM)", "ROUGE-L", "EMS(local)", agreement.SYSTEM]].tolist() == [
        0.74, 0.56, 0.58, 0.56]


def test_every_claim_has_the_judges_scores(units):
    judged, _ = judged_labels.points(HUMAN, units)
    assert len(judged) == len(units) == 399
    assert judged[["EMS(LLM)", "EMS(LLM, sides)"]].notna().all(axis=None)


def test_the_committed_scores_reach_what_is_said_of_them(units):
    known = judged_labels.answers("FinanceBench", HUMAN)
    frames = {part: agreement.label_agreement(known.labels, known.scores, part=part, against=["EMS(LLM)"], resamples=200)
              for part in ("Recall", "F1")}
    area = frames["F1"].query("measure == 'AUC'").set_index("metric")
    assert area.loc["EMS(LLM)", "ci_low"] > area.loc["EMS(local)", "ci_high"] > area.loc["ROUGE-L", "value"]
    assert area.loc["EMS(LLM, all or nothing)", "vs EMS(LLM) high"] < 0
    points = unit_labels.unit_agreement(judged_labels.points(HUMAN, units)[0], resamples=200)
    shares = judged_labels.shares("FinanceBench", HUMAN)
    within = agreement.within_systems(known.labels, known.scores, shares, resamples=200)
    text = verdicts.judged_labels({"FinanceBench": frames}, {"FinanceBench": within}, points)
    assert "who knows of each answer only which system wrote it reaches 0.83 [" in text
    assert "Over the 456 pairs of a correct and an incorrect answer of one system: EMS(LLM) 0.94 [" in text
    assert "On 200 answers, its F1 ranks correct over incorrect ones with an AUC of 0.94 [" in text
    assert "ROUGE-L 0.73 [" in text
    assert "below EMS(LLM)" in text
    assert "399 claims" in text


def test_the_difference_of_two_areas_is_that_of_the_areas():
    labels = pd.DataFrame({"triplet_id": list("abcdefgh"), "model": "m", "group": list("abcdefgh"),
                           "correct": [1, 0, 1, 0, 1, 0, 1, 0]})
    scores = labels[agreement.KEYS].assign(**{"x F1": [8, 1, 7, 2, 6, 3, 5, 4], "y F1": [8, 1, 2, 7, 6, 3, 5, 4]})
    rows = agreement.label_agreement(labels, scores, against=["x"], resamples=50).query("measure == 'AUC'").set_index("metric")
    assert (rows.loc["x", "value"], rows.loc["y", "value"]) == (1, 11 / 16)
    assert rows.loc["y", "vs x"] == -5 / 16
    assert rows.loc["y", "vs x low"] <= -5 / 16 <= rows.loc["y", "vs x high"]


def test_the_recorded_replies_give_the_committed_scores(tmp_path, units):
    """Refresh them with: ems reproduce --only 06 -p RECOMPUTE yes -p SAVE data/human"""
    mirror = Path(os.environ.get("EMS_DATA_MIRROR") or "nowhere")
    if not all((mirror / name).is_dir() for name in ("financebench", "findver", "kqa")):
        pytest.skip("the texts are not here: set EMS_DATA_MIRROR to a folder with financebench/, findver/ and kqa/")
    judge, used = recorded(), set()
    find = judge.store.get_many
    judge.store.get_many = lambda keys: (saved := find(keys), used.update(saved))[0]
    for name in judged_labels.SETS:
        assert judged_labels.answers(name, HUMAN, judge, tmp_path).source == human.NOW
    assert judged_labels.points(HUMAN, units, judge, tmp_path)[1] == human.NOW
    for file in (*(one.file for one in judged_labels.SETS.values()), judged_labels.POINT_FILE):
        assert (tmp_path / file).read_bytes() == (HUMAN / file).read_bytes()
    assert used == {json.loads(line)["key"] for line in REPLIES.read_text().splitlines()}


def test_a_judge_without_recorded_replies_leaves_the_committed_scores(units):
    mirror = Path(os.environ.get("EMS_DATA_MIRROR") or "nowhere")
    if not (mirror / "kqa").is_dir():
        pytest.skip("the texts are not here: set EMS_DATA_MIRROR to a folder with kqa/")
    judged, source = judged_labels.points(HUMAN, units, recorded(None))
    assert "are not saved" in source
    pd.testing.assert_frame_equal(judged, judged_labels.points(HUMAN, units)[0])
