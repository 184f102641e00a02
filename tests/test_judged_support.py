"""Support by a judge beside support by numbers: of a run's answers (notebook 8) and of FinDVer's claims."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from doubles import ScriptedJudge

import ems
from ems.io import data_path
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.presets import build
from ems.study.ablations.reliability import RepeatedJudge, drawn
from ems.study.checks import document_check, findver_support, judged_support
from ems.study.dataset.calls import own_triplets
from ems.study.people import human
from ems.types import Answer, Triplet

CALLS = {"A": "Revenue of shoes was $94.9 billion. Management is confident about shoes.",
         "B": "Revenue of hats was $12.3 billion. Management is confident about hats."}
REPLIES = {name: data_path(name) / "support_replies.jsonl" for name in ("human", "q3-2024")}


@pytest.fixture
def run():
    """Two companies, and an answer of two points to each: one with an amount, in the reference, and one without."""
    triplets = [Triplet(f"{g}-1", g, "?", call.split(". ")[0] + ".", call) for g, call in CALLS.items()]
    results = build(None, "local-pair").evaluate(triplets, [Answer(t.id, "m", t.context) for t in triplets])
    return triplets, document_check.checked_answers(results, triplets).results


def entailing(*labels):
    return ScriptedJudge(lambda request: json.dumps({"labels": list(labels)}))


def recorded(name=None):
    store = Replies(recorded=[REPLIES[name]] if name else [])
    return LLMJudge("large-llm-2026-11", store=store, mode="replay", temperature=None, seed=None)


def upstream(folder):
    mirror = Path(os.environ.get("EMS_DATA_MIRROR") or "nowhere")
    if not (mirror / folder).is_dir():
        pytest.skip(f"the texts are not here: set EMS_DATA_MIRROR to a folder that has {folder}/")
    return mirror / folder


def test_labels_by_the_judge_and_by_numbers_are_counted_point_by_point(run):
    triplets, checked = run
    judged, _ = judged_support.judged_answers(checked, triplets, entailing("Neutral", "Entailment"))
    table = judged_support.crossed(checked, judged)
    assert table.loc["supported", "silent"] == table.loc["not checked", "supported"] == 2
    assert table.to_numpy().sum() == 4
    values = judged_support.values(judged, triplets)
    assert values[["metric", "value", "units", "unscored"]].to_numpy().tolist() == [
        [judged_support.SUPPORT, 1 / 2, 2, 0], [judged_support.OPEN, 1, 2, 0]] * 2       # the first point is matched
    text = judged_support.findings(checked, judged, document_check.summary(values, ["m"]), [])
    assert "supports 0 of the 2 (0 %) points that the numbers support, 0 of the 0 that they do not" in text
    assert "2 of the 2 (100 %) that they could not check. The document supports, on average over answers: m 50 %." in text
    assert "these earn nothing in eq. 8 and are supported: m 50 %" in text


def test_a_lost_label_is_in_no_count_and_lowers_the_coverage(run):
    triplets, checked = run
    judged, _ = judged_support.judged_answers(checked, triplets, entailing("maybe", "Entailment"))
    assert judged_support.crossed(checked, judged).to_numpy().sum() == 2
    values = judged_support.values(judged, triplets)
    assert values.loc[values["metric"] == judged_support.SUPPORT, "unscored"].tolist() == [1, 1]
    lost, _ = judged_support.judged_answers(checked, triplets, ScriptedJudge(None, '{"labels": ["Neutral", "Entailment"]}'))
    values = judged_support.values(lost, triplets)
    assert values.loc[values["metric"] == judged_support.SUPPORT, "unscored"].tolist() == [2, 0]


def test_another_question_of_each_group_is_taken_and_other_documents_have_rows_of_their_own(run):
    triplets, checked = run
    more = [Triplet(f"{g}-{i}", g, "?", "") for g in "AB" for i in "12"]
    assert {r.triplet_id for r in judged_support.one_a_group(checked, more)} == {"A-1"}
    judged, _ = judged_support.judged_answers(checked, triplets, entailing("Entailment", "Entailment"))
    other, _ = judged_support.judged_answers(checked, document_check.exchanged(triplets), entailing("Neutral", "Entailment"))
    values = judged_support.values(judged, triplets, other)
    assert values.groupby("metric")["value"].mean().to_dict() == {
        judged_support.SUPPORT: 1, judged_support.OPEN: 1, judged_support.FLOOR: 1 / 2}
    text = judged_support.findings(checked, judged, document_check.summary(values, ["m"]), [])
    assert "Another company's document supports, by chance or in general words: m 50 %." in text


def test_a_second_reading_is_compared_point_by_point(run):
    triplets, checked = run
    first, _ = judged_support.judged_answers(checked, triplets, entailing("Neutral", "Entailment"))
    again, _ = judged_support.judged_answers(checked[:1], triplets, entailing("Entailment", "Entailment"))
    row, = judged_support.asked_again(first, again).to_dict("records")
    assert (row["answers"], row["points"], row["same label"], row["kappa"]) == (1, 2, 1 / 2, 0)
    assert judged_support.asked_again([], []).empty
    twice = [replace(r, ans_points=r.ans_points * 2, support=r.support * 2) for r in first]
    assert judged_support.asked_again(twice, twice)["points"].tolist() == [4]


def test_stored_labels_give_the_same_counts_without_a_document(run, tmp_path):
    triplets, checked = run
    now, _ = judged_support.judged_answers(checked, triplets, entailing("Neutral", "Entailment"), save=tmp_path / "s.csv")
    assert "shoes" not in (tmp_path / "s.csv").read_text()
    bare = [replace(t, context=None) for t in triplets]
    kept, source = judged_support.judged_answers(checked, bare, entailing("Contradiction"), stored=tmp_path / "s.csv")
    assert source == f"labels stored in {tmp_path.name}/s.csv"
    pd.testing.assert_frame_equal(judged_support.crossed(checked, kept), judged_support.crossed(checked, now))


def test_a_recording_of_other_points_leaves_the_stored_labels_and_says_so(run):
    triplets, checked = run
    judged, source = judged_support.judged_answers(checked, triplets, recorded())
    assert judged == []
    assert "2 replies of large-llm-2026-11 are not saved" in source
    assert "no labels are stored" in judged_support.findings(checked, judged, pd.DataFrame(), [])


def test_the_recorded_replies_give_the_committed_labels_of_claims(tmp_path):
    """Refresh them with: ems reproduce --only 08 -p RECOMPUTE yes -p SAVE_JUDGED DIR"""
    upstream("findver")
    committed, frame = data_path("human"), findver_support.claims(data_path("human") / "findver_support.csv", False)
    now, source = findver_support.judged_claims(frame, committed / "findver_judged.csv", recorded("human"), tmp_path)
    assert source == human.NOW
    assert (tmp_path / "findver_judged.csv").read_bytes() == (committed / "findver_judged.csv").read_bytes()
    kept, source = findver_support.judged_claims(frame, committed / "findver_judged.csv", recorded())
    pd.testing.assert_frame_equal(kept, now, check_dtype=False)
    assert source.startswith("numbers from data/human: 128 replies")


def test_a_claim_is_entailed_when_supported_and_a_lost_label_counts_nowhere(tmp_path):
    frame = pd.DataFrame({"triplet_id": list("abcd"), "group": list("wxyz"), "half": findver_support.MEASURED, "subset": "ie",
                          "entailed": [True, False, True, True], "label": "silent", "checked": True,
                          "said": True, "right": [True, False, True, True], "signature": "numbers", "right: one": 1})
    (tmp_path / "j.csv").write_text("triplet_id,label,reason,signature\na,supported,,j\nb,silent,,j\nc,contradicted,,j\n"
                                    "d,,timeout,j\n")
    judged, _ = findver_support.judged_claims(frame, tmp_path / "j.csv")
    assert judged[["triplet_id", "said", "right"]].to_numpy().tolist() == [
        ["a", True, True], ["b", False, True], ["c", False, False]]
    row = findver_support.judge_beside(frame, judged).set_index(["half", "claims of"]).loc[(findver_support.MEASURED, "FDV-IE")]
    assert row[["n", "right", "less numbers", "flagged", "refuted, of those flagged"]].tolist() == [3, 2 / 3, 0, 2, 1 / 2]


def test_the_recorded_replies_give_the_committed_labels_of_answers(tmp_path):
    """Refresh them with: ems reproduce --only 08 -p TRANSCRIPTS DIR -p SAVE_JUDGED DIR"""
    calls, folder = upstream("transcripts"), data_path("q3-2024")
    triplets, answers = own_triplets(), ems.load_answers(folder / "answers.jsonl")
    judge = LLMJudge("large-llm-2026-11", store=Replies(recorded=[folder / "replies.jsonl"]), mode="replay",
                     temperature=None, seed=None)
    results = build(judge, "llm", variant="all").evaluate(triplets, answers)
    replies, used = recorded("q3-2024"), set()
    find = replies.store.get_many
    replies.store.get_many = lambda keys: (saved := find(keys), used.update(saved))[0]
    own = document_check.with_contexts(triplets, calls)
    some = judged_support.one_a_group(results, triplets)
    for judge, answered, documents, file in (
            (replies, results, own, "support_judged.csv"),
            (RepeatedJudge(replies, 1), drawn(results, 4), own, "support_again.csv"),
            (replies, some, document_check.exchanged(own), "support_elsewhere.csv")):
        now, source = judged_support.judged_answers(answered, documents, judge, save=tmp_path / file)
        assert source == "labelled now, from recorded replies"
        assert not any(s.label is None for r in now for s in r.support)
        pd.testing.assert_frame_equal(*(pd.read_csv(folder / file).sort_values(document_check.KEYS, ignore_index=True)
                                        for folder in (tmp_path, data_path("q3-2024"))))
    assert used == {json.loads(line)["key"] for line in REPLIES["q3-2024"].read_text().splitlines()}
