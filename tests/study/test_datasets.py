"""Public data sets: how the rows of their files are read, and what the whole sets hold."""

import json

import pandas as pd
import pytest
from doubles import refused
from study import ROOT, datasets, rarity, read_frames

from ems.local.words import RARITY_TABLE
from ems.types import Answer, Triplet

# --- sets, made small ---


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Writes rows to a file of a mirror, and makes it the mirror."""

    def put(name, rows):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(rows)
        if name.endswith(".jsonl"):
            text = "\n".join(map(json.dumps, rows))
        path.write_text(text)

    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path))
    return put


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_findver_is_joined_by_id_and_both_spellings_are_read(small):
    claim = {"subset": "ie", "report": "X-2024_10-Q.json", "entailment_label": True}
    small(
        datasets.FINDVER_CLAIMS,
        [
            {**claim, "example_id": "ie-val-0", "statement": "s0", "explanation": "e0"},
            {**claim, "example_id": "numeric-val-1", "statement": "s1", "explaination": "e1"},
        ],
    )
    header = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    first = {
        **claim,
        "example_id": "ie-testmini-0",
        "statement": "s0",
        "result": True,
        "output": [f"{header}so s0 is false"],
    }
    second = {
        **claim,
        "example_id": "numeric-testmini-1",
        "statement": "s1",
        "result": False,
        "output": [f"{header}so s1 is refuted"],
    }
    for stem, *_ in datasets.FINDVER_SYSTEMS.values():
        small(f"{datasets.FINDVER_OUTPUTS}/processed_cot_outputs/{stem}.json", [second, first])
    triplets, answers, labels = datasets.findver()
    assert [(t.id, t.group, t.reference) for t in triplets] == [
        ("ie-testmini-0", "X-2024_10-Q", "e0"),
        ("numeric-testmini-1", "X-2024_10-Q", "e1"),
    ]
    assert {(a.triplet_id, a.answer) for a in answers} == {
        ("ie-testmini-0", "so s0 is false"),
        ("numeric-testmini-1", "so s1 is refuted"),
    }
    of_first = labels[labels["triplet_id"] == "ie-testmini-0"]
    assert list(of_first["size"]) == [3.0, 8.0, 70.0]
    assert of_first["correct"].all()
    assert not of_first["stated"].any()
    small(
        datasets.FINDVER_CLAIMS,
        [{**claim, "example_id": "ie-val-0", "statement": "other", "explanation": "e"}],
    )
    with refused("is not the claim of that id"):
        datasets.findver()


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (
            "<|start_header_id|>assistant<|start_header_id|>assistant<|end_header_id|>\n\nYes.",
            "Yes.",
        ),
        ("<|start_header_id|>assistant[iV Yes.", "[iV Yes."),  # the header broke off
        ("Yes.<|python_tag|> No.<|reserved_special_token_198|>", "Yes. No."),
        ("assets < 5 | 3 <| 4", "assets < 5 | 3 <| 4"),
    ],
)
def test_chat_tokens_are_taken_off(raw, clean):
    assert datasets.without_chat_tokens(raw) == clean


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_financebench_labels_are_brought_to_three_words(small, monkeypatch):
    result = f"{datasets.FINANCEBENCH_RESULTS}/llama2_sharedStore.jsonl"
    monkeypatch.setattr(datasets, "pinned", lambda folder: [result])
    small(
        datasets.FINANCEBENCH_QUESTIONS,
        [
            {
                "financebench_id": f"f{i}",
                "company": "3M",
                "question": f"q{i}",
                "answer": f"${i}.00",
                "question_type": "t",
                "evidence": [
                    {"evidence_text_full_page": "page one"},
                    {"evidence_text_full_page": "page two"},
                ],
            }
            for i in range(3)
        ],
    )
    columns = ("financebench_id", "question", "label", "model_answer")
    refusal = dict(zip(columns, ("f2", "q2", "Refusal", "no"), strict=True))
    correct = dict(zip(columns, ("f0", "q0", " Correct answer", 0), strict=True))
    incorrect = dict(zip(columns, ("f1", "q1", "Incorrect Answer", " 7 "), strict=True))
    small(result, [refusal, correct, incorrect])
    triplets, answers, labels = datasets.financebench()
    assert triplets[0] == Triplet("f0", "3M", "q0", "$0.00", "page one\n\npage two")
    assert answers == [
        Answer("f2", "llama2_sharedStore", "no"),
        Answer("f0", "llama2_sharedStore", "0"),
        Answer("f1", "llama2_sharedStore", "7"),
    ]
    assert list(labels["label"]) == ["refusal", "correct", "incorrect"]
    assert list(labels["correct"]) == [False, True, False]
    small(result, [{**refusal, "label": "Maybe"}])
    with refused("correct, incorrect or refusal needed, got 'maybe'"):
        datasets.financebench()


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_an_edit_is_compared_with_the_summary_before_it_unless_it_changes_nothing(small):
    row = {"original_summary": "Sales rose 5%.", "label": 0}
    errors = ["entity_modification", "negation_insertion_removal"]
    consistent = {**row, "summary": "Sales grew 5%.", "label": 1, "edit_types": []}
    wrong = {**row, "summary": "Sales never rose 7%.", "edit_types": errors}
    unchanged = {**row, "summary": "Sales rose 5%.", "edit_types": []}
    rows = []
    for number, edit in enumerate((consistent, wrong, unchanged)):
        rows.append({**edit, "id": f"ectsum_SNA_q1_2021_{number}"})
    small(datasets.SUMMEDITS_EDITS, rows)
    triplets, answers, labels = datasets.summedits()
    question = datasets.SUMMEDITS_QUESTION
    assert triplets == [
        Triplet("SNA_q1_2021_0", "SNA_q1_2021", question, "Sales rose 5%."),
        Triplet("SNA_q1_2021_1", "SNA_q1_2021", question, "Sales rose 5%."),
    ]
    assert [answer.answer for answer in answers] == ["Sales grew 5%.", "Sales never rose 7%."]
    assert labels.to_numpy().tolist() == [
        ["SNA_q1_2021_0", "edit", True, "none", "SNA_q1_2021"],
        ["SNA_q1_2021_1", "edit", False, "+".join(errors), "SNA_q1_2021"],
    ]


# --- sets, whole ---


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
@pytest.mark.parametrize(
    ("name", "triplets", "answers", "labels", "groups"),
    [
        ("ragchecker", 140, 280, 280, 140),
        ("financebench", 150, 2400, 2400, 32),
        ("findver", 700, 2100, 2100, 255),
        ("kqa", 50, 50, 399, 50),
        ("summedits", 329, 329, 329, 11),
    ],
)
def test_the_sets_as_they_are_and_labels_as_committed(
    mirror, name, triplets, answers, labels, groups
):
    if not (mirror / name).is_dir():
        pytest.skip(f"{mirror} has no {name}")
    loaded_triplets, loaded_answers, loaded_labels = datasets.SETS[name].load()
    if name in ("ragchecker", "summedits") and len(loaded_triplets) != triplets:
        pytest.skip("the numbers are those of one half of the set")
    assert len(loaded_triplets) == triplets
    assert len(loaded_answers) == answers
    assert len(loaded_labels) == labels
    assert len({t.group for t in loaded_triplets}) == groups
    assert {a.triplet_id for a in loaded_answers} <= {t.id for t in loaded_triplets}
    assert all(t.reference.strip() or t.points for t in loaded_triplets)
    committed = read_frames(ROOT / "data" / "human" / f"{name}_labels.csv")
    pd.testing.assert_frame_equal(committed, loaded_labels, check_dtype=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_the_table_of_rarity_comes_out_of_its_script(mirror):
    if not (mirror / "realsumm").is_dir():
        pytest.skip(f"{mirror} has not all texts that were counted")
    assert rarity.rarity_table(mirror) == RARITY_TABLE.read_text(encoding="utf-8")
