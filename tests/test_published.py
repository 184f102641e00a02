"""The related papers' tables: counted from the released answers, every mismatch named, the committed cells."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from ems.study.people import human, published
from ems.study.people.upstream import names_verdict
from ems.types import InputError

ROOT = Path(__file__).parent.parent
MIRROR = Path(os.environ.get("EMS_DATA_MIRROR") or Path(__file__).parents[2] / "shared" / "data")
needs_mirror = pytest.mark.skipif(
    not (MIRROR / "findver/outputs/testmini_outputs/oracle").is_dir(),
    reason="needs FinDVer's and FinanceBench's answers; point EMS_DATA_MIRROR at a folder that has them")
PRINTED, COMPUTED = ROOT / "data" / "paper" / "related_tables.csv", ROOT / "data" / "human" / "related_tables.csv"
COT = "findver/outputs/testmini_outputs/rag/processed_cot_outputs/gpt-4o.json"
TOP = "findver/outputs/testmini_outputs/retriever_output/top_3/bm25.json"
ORACLE, CLOSED = (f"financebench/results/gpt-4_{name}.jsonl" for name in ("oracle", "closedBook"))
HEADER = "paper,table,row,column,measure,file,subset,printed,note\n"


def put(root, name, rows):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows))


@pytest.fixture
def released(tmp_path, monkeypatch):
    """Three claims and two questions, with one file of each kind."""
    said = [("a", "ie", True, "so it is entailed."), ("b", "ie", False, "hard to say"), ("c", "numeric", True, "Refuted")]
    put(tmp_path, COT, [{"example_id": i, "subset": subset, "result": right, "output": [text], "report": f"r/{i}.json"}
                        for i, subset, right, text in said])
    put(tmp_path, "findver/data/testmini.json", [{"example_id": "a", "relevant_context": [1, 2]},
                                                 {"example_id": "b", "relevant_context": [7]}])
    put(tmp_path, TOP, [{"example_id": "b", "report": "b.json", "retrieved_context": [5, 6]},
                        {"example_id": "a", "report": "a.json", "retrieved_context": [2, 3]}])
    put(tmp_path, "financebench/data/financebench_open_source.jsonl",
        [{"financebench_id": f"q{i}", "company": f"c{i}", "question_type": kind} for i, kind in enumerate("xy")])
    put(tmp_path, ORACLE, [{"financebench_id": "q1", "label": "Correct Answer"},
                           {"financebench_id": "q0", "label": "Refusal"}])
    put(tmp_path, CLOSED, [{"financebench_id": "q0", "label": "Correct Answer"},
                           {"financebench_id": "q1", "label": "Correct Answer"}])
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path))
    return tmp_path


def cells_of(folder, *rows):
    (folder / "printed.csv").write_text(HEADER + "".join(row + "\n" for row in rows))
    return published.tables(folder / "printed.csv", folder / "none.csv", True, folder / "saved.csv")


def test_every_kind_of_cell_by_hand(released):
    cells = cells_of(
        released,
        f"FinDVer,T,m,IE,accuracy,{COT},ie,50.0,",
        f"FinDVer,T,m,all,accuracy,{COT},all,66.6,rounded down",
        f"FinDVer,T,m,Recall,recall,{TOP},all,,",
        f"FinanceBench,T,s,correct,count,{ORACLE} {CLOSED},correct,3,",
        f'FinanceBench,T,s,y,percent,{ORACLE},"correct, y",100,',
        f"FinanceBench,T,s,refusal,percent,{ORACLE},refusal,50,")
    assert cells["ours"].tolist() == [50.0, 66.7, 25.0, 3, 100, 50]         # recall: mean of 1/2 and 0/1
    assert cells["n"].tolist() == [2, 3, 2, 4, 1, 2]
    assert cells["stated"].iloc[:2].tolist() == [0.5, 0.667]
    assert cells["ours_stated"].iloc[:2].tolist() == [100.0, 100.0]         # the claims a and c
    assert published.compared(cells)[["printed", "computed", "equal"]].to_numpy().tolist() == [[2, 2, 1], [3, 3, 3]]
    other = published.mismatches(cells)
    assert other[["column", "printed", "ours", "gap", "note"]].to_numpy().tolist() == [
        ["all", 66.6, 66.7, 0.1, "rounded down"]]
    again = published.tables(released / "printed.csv", released / "saved.csv", False)
    pd.testing.assert_frame_equal(again, cells, check_dtype=False)


def test_a_cell_whose_answers_are_not_pinned_is_quoted_and_not_counted(released):
    cells = cells_of(released, "FinDVer,T,m,k,accuracy,findver/outputs/other.json,all,60.1,",
                     f"FinDVer,T,m,IE,accuracy,{COT},ie,50.0,")
    assert cells["ours"].isna().tolist() == [True, False]
    assert published.mismatches(cells).empty
    assert published.compared(cells)[["printed", "computed", "equal"]].to_numpy().tolist() == [[2, 1, 1]]


def test_an_unknown_measure_or_table_is_one_clear_line(released):
    with pytest.raises(InputError, match="measure must be one of accuracy, recall, percent, count, got 'acc'"):
        cells_of(released, f"FinDVer,T,m,IE,acc,{COT},ie,50.0,")
    cells = cells_of(released, f"FinDVer,T,m,IE,accuracy,{COT},ie,50.0,")
    with pytest.raises(InputError, match="no table 'Table 9'; there are FinDVer T"):
        published.side_by_side(cells, "Table 9")
    assert published.side_by_side(cells, "T").loc["m"].tolist() == [50.0, 50.0]


@pytest.mark.parametrize(("answer", "named"), [
    ("Therefore, the claim is **refuted**.", True), ("The passage entails it", True),
    ("The entailment label is unclear.", False), ("The claim is false.", False), ("", False)])
def test_a_verdict_is_named_in_the_words_of_the_prompt(answer, named):
    assert names_verdict(answer) is named


def test_the_committed_cells_reach_what_the_review_counted():
    cells = published.tables(PRINTED, COMPUTED, False)
    counts = published.compared(cells).set_index(["paper", "table"])
    assert {table: tuple(row) for (_, table), row in counts[["equal", "computed", "printed"]].iterrows()} == {
        "Table 3": (59, 64, 64), "Table 4, accuracy": (7, 8, 40), "Table 4, recall": (0, 9, 9), "Table 5": (23, 24, 24),
        "Table 2, counts": (26, 27, 27), "Table 2, percent": (21, 24, 24), "Figure 2": (5, 6, 6)}
    assert published.mismatches(cells)["note"].ne("").all()                  # none without a reason
    text = published.findings(cells)
    assert "Qwen2-7B, long context (12 % of the answers)" in text
    assert "89 % against 85 %" in text


def test_the_committed_cells_are_among_those_of_the_printed_file():
    keys = {name: set(pd.read_csv(path, keep_default_na=False)[published.KEYS].itertuples(index=False, name=None))
            for name, path in (("printed", PRINTED), ("computed", COMPUTED))}
    assert keys["computed"] <= keys["printed"]
    assert len(keys["printed"] - keys["computed"]) == 32                     # answers that are not pinned


@needs_mirror
@pytest.mark.slow
def test_the_committed_cells_come_out_of_the_released_files(monkeypatch):
    monkeypatch.setenv("EMS_DATA_MIRROR", str(MIRROR))
    cells = published.tables(PRINTED, COMPUTED, True)
    committed = published.tables(PRINTED, COMPUTED, False)
    for column in ("ours", "ci_low", "ci_high", "n", "stated", "ours_stated"):
        assert cells[column].astype(float).round(3).equals(committed[column].astype(float).round(3)), column


def test_means_over_claims_that_all_models_answer_with_a_verdict():
    rows = [("c1", "small", True, 1, 0.2), ("c1", "large", True, 1, 0.6), ("c2", "small", False, 0, 0.1),
            ("c2", "large", True, 1, 0.9)]
    labels = pd.DataFrame(rows, columns=["triplet_id", "model", "stated", "correct", "f1"]).assign(group="g")
    scores = labels[["triplet_id", "model"]].assign(**{"EMS(local) F1": labels.pop("f1")})
    means = human.means_where_stated(labels, scores, ["EMS(local)"]).set_index(["metric", "claims", "model"])
    assert means.loc[("EMS(local)", "all", "small"), "value"] == pytest.approx((0.2 + 0.1) / 2)
    assert means.loc[("EMS(local)", "all state a verdict", "small"), ["value", "n"]].tolist() == [0.2, 1]
    assert means.loc[("accuracy", "all", "small"), "value"] == 0.5
    with pytest.raises(InputError, match="METRICS: no scores of 'EMS'; there are EMS"):
        human.means_where_stated(labels, scores, ["EMS"])


def test_all_sixteen_answer_sets_by_hand(released, tmp_path):
    """Scores of two small sets, and which of them Table 2 prints."""
    put(released, "financebench/data/financebench_open_source.jsonl", [
        {"financebench_id": "q0", "company": "A", "question_type": "x", "question": "?", "answer": "$1577.00",
         "evidence": [{"evidence_text_full_page": "Purchases of property were $1,577 million."}]},
        {"financebench_id": "q1", "company": "B", "question_type": "y", "question": "?", "answer": "Yes.",
         "evidence": [{"evidence_text_full_page": "It is capital-intensive."}]}])
    rows = [{"financebench_id": i, "question": "?", "label": "Correct Answer", "model_answer": text}
            for i, text in (("q1", "Yes, it is."), ("q0", "Purchases of property were $1,577 million."))]
    for name in human.upstream.financebench_sets():
        put(released, f"financebench/results/{name}.jsonl", rows)
    sets = human.all_answer_sets(tmp_path / "none", True, tmp_path / "kept")
    assert len(sets.labels) == len(sets.scores) == 32
    assert sets.labels.groupby("model")["printed"].first().sum() == 8
    numbers = sets.scores.groupby("triplet_id")["number recall Score"].first()
    assert numbers["q0"] == 1
    assert pd.isna(numbers["q1"])                                            # no number in the reference
    support = sets.scores.groupby("triplet_id")["support by evidence Score"].first()
    assert support["q0"] == 1
    assert pd.isna(support["q1"])                                            # no number in the answer
    again = human.all_answer_sets(tmp_path / "kept", False)
    assert len(again.scores) == 32
    assert again.scores["number recall Score"].isna().sum() == 16


@pytest.mark.parametrize("printed", [True, False])
def test_recall_is_the_part_to_read_where_references_are_one_line(printed):
    """The committed scores, of the sets that the paper prints and of the others: recall ranks better than F1."""
    bench = human.without_refusals(human.all_answer_sets(ROOT / "data" / "human", False))
    here = bench.labels["printed"].astype(bool) == printed
    scores = bench.scores.merge(bench.labels.loc[here, ["triplet_id", "model"]])
    area = {part: human.agreement.label_agreement(bench.labels[here], scores, part=part, resamples=50)
            .set_index(["metric", "measure"])["value"].xs("AUC", level="measure") for part in ("Recall", "F1")}
    metrics = ["EMS(local)", "unigram", "ROUGE-L"]
    assert (area["Recall"][metrics] > area["F1"][metrics]).all()
