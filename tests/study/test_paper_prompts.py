"""The paper's prompts out of a copy of it; the copy is made up, since the words are not ours."""

import pytest
from doubles import refused
from study import paper_prompts

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
