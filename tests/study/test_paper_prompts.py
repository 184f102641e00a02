"""The paper's prompts out of a copy of it; the copy is made up, since the words are not ours."""

from collections import Counter

import pytest
from doubles import recorded, refused
from study import COMMITTED, paper_prompts, read_frames

import ems
from ems.io import parse_jsonl, read_lines
from ems.prompts import Prompts, home

QUESTIONS = "\n".join(
    f"QUESTION {i}\nWhat does part {i} of the report say,\nand why?" for i in range(1, 6)
)
BODIES = {
    "answer": "Answer <Question> with all fig-\nures.",
    "consolidate": (
        "Merge for <Question>:\nAnswer Version 1: <Answer_Version_1>\n"
        "Answer Version 2: <Answer_Version_2>\nfrom <Attached pdf file>."
    ),
    "extract": "List the points of <ans>.\n1. Keep figures.\n2. Keep names.",
    "match": "Match <ref> with\nCandidates:\n<candid>\nGive the index.",
    "score": "Score “<kp1>” against <kp2> from 0 to {max_score}. It costs $5.",
}


def paper(bodies):
    parts = ["Intro.", "A.1 Questions designed for reports", QUESTIONS]
    parts.append("A.2 Answer Generation Prompts")
    for number, (task, body) in enumerate(bodies.items(), 3):
        title = paper_prompts.BOXES[task][0]
        parts += [title, body, f"Figure {number}: The prompt for something."]
    return "\n".join(parts)


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """A function: imports a paper with these bodies into the folder `home` of the test."""
    monkeypatch.setenv("EMS_HOME", str(tmp_path / "home"))

    def imported(bodies):
        (tmp_path / "paper.txt").write_text(paper(bodies), encoding="utf-8")
        return paper_prompts.import_prompts(tmp_path / "paper.txt")

    return imported


def test_parts_become_templates_with_slots(imported):
    folder, differing = imported(BODIES)
    assert (folder / "answer.txt").read_text() == "$context\nAnswer $question with all figures.\n"
    score = (folder / "score.txt").read_text()
    assert 'Score "$reference" against $candidate from 0 to $max_score. It costs $$5.' in score
    extract = (folder / "extract.txt").read_text().splitlines()
    assert extract[-2:] == ["1. Keep figures.", "2. Keep names."]
    assert "What does part 3 of the report say, and why?" in (folder / "questions.yaml").read_text()
    assert set(differing) == set(paper_prompts.HASHES)  # nothing here is as printed


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        ({task: body for task, body in BODIES.items() if task != "match"}, ["match"]),
        ({**BODIES, "score": "Score <kp1> against <kp2>."}, ["score", "max_score"]),
    ],
)
def test_a_missing_part_or_place_is_named_and_nothing_is_written(imported, tmp_path, bodies, says):
    with refused(*says):
        imported(bodies)
    assert not (tmp_path / "home").exists()


# --- the committed scores with the paper's prompts ---

SCORES = COMMITTED / "paper_prompts_scores.csv"
REPLIES = COMMITTED / "paper_prompts_replies.jsonl"


def replies_by_task():
    rows = [row for _, row in parse_jsonl(read_lines(REPLIES), REPLIES)]
    return Counter(row["task"] for row in rows), rows


def test_ten_answers_have_scores_with_the_papers_prompts_and_none_is_unscored():
    scores = read_frames(SCORES)
    assert scores["part"].value_counts().to_dict() == {"Precision": 10, "Recall": 10, "F1": 10}
    assert scores["triplet_id"].nunique() == scores["group"].nunique() == 5
    assert (scores["unscored"] == 0).all()
    assert scores["signature"].str.contains("paper#").all()
    of_answer = scores.pivot(index=["triplet_id", "model"], columns="part", values="value")
    precision, recall = of_answer["Precision"], of_answer["Recall"]
    harmonic = (2 * precision * recall / (precision + recall)).fillna(0)
    assert of_answer["F1"].to_list() == pytest.approx(harmonic.to_list(), abs=2e-6)


def test_every_reference_point_was_matched_by_one_question_and_no_prompt_is_kept():
    counts, rows = replies_by_task()
    recall = read_frames(SCORES).query("part == 'Recall'")
    assert counts["match"] == recall["den"].sum()
    assert counts["extract"] == 10 + 5  # answers, and the references of five questions
    indices = [int(row["text"]) for row in rows if row["task"] == "match"]
    assert counts["score"] <= sum(index >= 0 for index in indices)
    assert all("prompt" not in row for row in rows)


def test_the_recorded_replies_give_these_scores_where_the_reader_has_the_prompts():
    if not (home() / "prompts" / "paper").is_dir():
        pytest.skip("the paper's prompts are not imported (docs/paper-prompts.md)")
    judge = recorded("q3-2024/paper_prompts_replies.jsonl", "q3-2024/replies.jsonl")
    pipeline = ems.build(judge, prompts=Prompts.named("paper"))
    triplets = ems.load_triplets(COMMITTED / "triplets.jsonl")
    committed = read_frames(SCORES)
    names = set(zip(committed["triplet_id"], committed["model"], strict=True))
    answers = ems.load_answers(COMMITTED / "answers.jsonl")
    answers = [a for a in answers if (a.triplet_id, a.model) in names]
    made = ems.to_frame({"EMS(LLM)": pipeline.evaluate(triplets, answers)})
    columns = ["metric", "part", "model", "triplet_id", "value", "num", "den"]
    both = made[columns].merge(committed[columns], on=columns[:4], suffixes=("", "_committed"))
    assert len(both) == len(committed)
    for name in columns[4:]:
        expected = both[f"{name}_committed"].to_list()
        assert both[name].to_list() == pytest.approx(expected, abs=2e-6, nan_ok=True)
    assert {row["key"] for row in replies_by_task()[1]} <= judge.keys.keys()
