"""Notebook 8's numbers: answers of a run against their documents, stored labels, and FinDVer's claims."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from ems.io import write_jsonl
from ems.presets import build
from ems.study.checks import document_check, findver_support
from ems.study.run.runner import Kernels, Step, side_by_side
from ems.support.supporters import LocalSupporter
from ems.types import Answer, InputError, Triplet

ROOT = Path(__file__).parent.parent
CALLS = {"A": "Revenue of shoes was $94.9 billion. Margins of shoes reached 46.2%.",
         "B": "Revenue of hats was $12.3 billion. Margins of hats reached 31.4%."}


@pytest.fixture
def run():
    """Two companies, a model that reads (r) and one that does not (n), points in the reference or only in the call."""
    triplets = [Triplet(f"{g}-1", g, "?", call.split(". ")[0] + ".", call) for g, call in CALLS.items()]
    answers = [Answer("A-1", "r", CALLS["A"]), Answer("A-1", "n", "Margins of shoes reached 77.7%."),
               Answer("B-1", "r", CALLS["B"]), Answer("B-1", "n", "Management is confident about growth.")]
    return triplets, build(None, "local-pair").evaluate(triplets, answers)


def test_own_and_other_documents_and_where_points_go(run):
    triplets, results = run
    checked = document_check.checked_answers(results, triplets)
    assert [[s.label for s in r.support] for r in checked.results] == [
        ["supported"] * 2, ["contradicted"], ["supported"] * 2, ["silent"]]
    assert not any(s.label == "supported" for r in checked.elsewhere for s in r.support)
    places = document_check.shares(checked.results)
    assert places.loc["r"].tolist() == [1 / 2, 1 / 2, 0, 0, 0]
    assert places.loc["n", "unsupported"] == places.loc["n", "not checked"] == 1 / 2
    frame = document_check.values(checked, triplets)
    floor = frame[(frame.metric == document_check.FLOOR) & (frame.model == "r")]
    assert floor["value"].tolist() == [0, 0]
    text = document_check.findings(document_check.summary(frame, ["n", "r"]),
                                   document_check.differences(frame, ["n", "r"]), places)
    assert "- **r**: on average over the 2 answers with points to check, the document supports 100 %" in text
    assert "50 % earn nothing in eq. 8 and are supported, 0 % earn nothing, were checked and are not" in text
    assert "**r** less **n**: +100 points of 100, over the 1 questions" in text
    assert [(gap.a, gap.b) for gap in document_check.differences(frame, ["r", "n"], "n")] == [("r", "n")]


def test_stored_labels_give_the_same_numbers_without_a_document(run, tmp_path):
    triplets, results = run
    now = document_check.checked_answers(results, triplets, save=tmp_path / "s.csv")
    bare = [replace(t, context=None) for t in triplets]
    kept = document_check.checked_answers(results, bare, stored=tmp_path / "s.csv")
    pd.testing.assert_frame_equal(document_check.values(kept, bare), document_check.values(now, triplets))
    assert "for 6 of 6 points" in kept.source
    stored = (tmp_path / "s.csv").read_text()
    assert "shoes" not in stored                   # numbers and labels, no text
    again = document_check.checked_answers(results, triplets, stored=tmp_path / "s.csv")
    assert again.source.endswith("0 of 6 stored labels differ")
    (tmp_path / "s.csv").write_text(stored.replace("supported", "silent"))
    again = document_check.checked_answers(results, triplets, stored=tmp_path / "s.csv")
    assert again.source.endswith("4 of 6 stored labels differ")


def test_a_point_without_a_stored_label_is_unscored_and_a_run_without_any_says_so(run, tmp_path):
    triplets, results = run
    document_check.checked_answers(results[:2], triplets, save=tmp_path / "s.csv")
    bare = [replace(t, context=None) for t in triplets]
    half = document_check.checked_answers(results, bare, stored=tmp_path / "s.csv")
    assert [s.label for r in half.results[2:] for s in r.support] == [None] * 3
    assert len(document_check.values(half, bare)) == 20       # five metrics of four answers
    nothing = document_check.checked_answers(results, bare)
    frame = document_check.values(nothing, bare)
    assert frame.empty
    assert "Nothing was checked" in document_check.findings(
        document_check.summary(frame, ["r"]), [], document_check.shares(nothing.results))


def test_the_answer_with_most_in_the_blind_spot_is_shown(run):
    triplets, results = run
    checked = document_check.checked_answers(results, triplets)
    assert document_check.most_mixed(checked.results) == checked.results[0]
    with pytest.raises(InputError, match="no results"):
        document_check.most_mixed([])


def test_alignments_are_read_by_metric(run, tmp_path):
    rows = [{"metric": "EMS(local-pair)", **r.to_dict()} for r in run[1]]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    assert document_check.read_alignments(path, ["EMS(LLM)", "EMS(local-pair)"]) == run[1]
    with pytest.raises(InputError, match=r"no alignments of EMS\(LLM\); there are EMS\(local-pair\)"):
        document_check.read_alignments(path, ["EMS(LLM)"])


def test_stored_labels_of_another_form_are_refused(run, tmp_path):
    (tmp_path / "s.csv").write_text("triplet_id,model\n")
    bare = [replace(t, context=None) for t in run[0]]
    with pytest.raises(InputError, match="point, label"):
        document_check.checked_answers(run[1], bare, stored=tmp_path / "s.csv")


def test_the_committed_labels_are_of_todays_rule():
    stored = pd.read_csv(ROOT / "data" / "q3-2024" / "support.csv", dtype=str, keep_default_na=False)
    assert set(stored["signature"]) == {f"support:{LocalSupporter().signature}"}, \
        "the rule has changed: ems reproduce --only 08 -p TRANSCRIPTS DIR -p SAVE data/q3-2024/support.csv"


def test_steps_that_wait_for_each_other_are_refused():
    def steps(**files):
        return [Step(Path(name), {}, *of_step) for name, of_step in files.items()]

    done = side_by_side(steps(table=(("s",), ()), support=((), ("s",))), lambda step: step.path.name, Kernels())
    assert done == ["table", "support"]
    with pytest.raises(InputError, match="a and b wait for each other's files"):
        side_by_side(steps(a=(("x",), ("y",)), b=(("y",), ("x",)), c=((), ())), print, Kernels())


# --- FinDVer ---

def test_halves_follow_from_names_alone():
    names = [f"filing {i}" for i in range(10)]
    halves = findver_support.half_of(names)
    assert halves == findver_support.half_of(list(reversed(names)) * 2)
    assert sorted(halves.values()) == [findver_support.CHOSEN] * 5 + [findver_support.MEASURED] * 5


def test_accuracy_by_hand():
    rows = [("f1", True, True, True), ("f1", False, False, True), ("f2", False, True, True), ("f3", True, False, False)]
    frame = pd.DataFrame(rows, columns=["group", "entailed", "said", "checked"]).assign(
        half=findver_support.MEASURED, subset="ie", triplet_id=list("abcd"), **{"right: one": [1, 1, 0, 0], "right: two": 1})
    frame["right"] = frame["said"] == frame["entailed"]
    row = findver_support.accuracy(frame).set_index(["half", "claims of"]).loc[(findver_support.MEASURED, "FDV-IE")]
    assert row["right"] == 2 / 4
    assert row["right, of those with a number"] == 2 / 3
    assert (row["flagged"], row["refuted, of those flagged"]) == (2, 1 / 2)
    assert (row["best model"], row["median model"]) == (1, 0.75)


def test_the_committed_claims_reach_what_is_said_of_them():
    frame = findver_support.claims(ROOT / "data" / "human" / "findver_support.csv", False)
    assert len(frame) == 128
    assert frame["group"].nunique() == 48
    assert dict(frame.groupby("group")["half"].first()) == {
        name.removesuffix(".json"): half for name, half in findver_support.half_of(frame["group"] + ".json").items()}
    ranks = findver_support.retrieval(frame)
    assert ranks.loc["all", "recall_10"] >= 0.70
    assert set(frame["signature"]) == {LocalSupporter().signature}, \
        "the rule has changed: ems reproduce --only 08 -p RECOMPUTE yes -p SAVE_FINDVER data/human/findver_support.csv"
    table = findver_support.accuracy(frame).set_index(["half", "claims of"])
    assert table.loc[(findver_support.MEASURED, "FDV-MATH"), "right"] >= 0.64
    judged, _ = findver_support.judged_claims(frame, ROOT / "data" / "human" / "findver_judged.csv")
    text = findver_support.findings(table.reset_index(), ranks, findver_support.judge_beside(frame, judged))
    assert "is not above the 50 % of guessing" in text                                            # and is said
    judge = findver_support.judge_beside(frame, judged).set_index(["half", "claims of"])
    assert judge["n"].xs("all claims", level=1).to_dict() == {findver_support.MEASURED: 67, findver_support.BOTH: 128}
    assert judge.loc[(findver_support.MEASURED, "all claims"), "right"] >= 0.62
    assert judge.loc[(findver_support.MEASURED, "FDV-MATH"), "right"] >= 0.64
    assert judge.loc[(findver_support.MEASURED, "FDV-IE"), "refuted, of those flagged"] >= 0.70
