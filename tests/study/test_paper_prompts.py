"""The paper's prompts out of a copy of it: here a made-up paper, since the real words are not ours."""

import pytest
from study import paper_prompts

from ems.types import InputError

QUESTIONS = "\n".join(f"QUESTION {i}\nWhat does part {i} of the report say,\nand why?" for i in range(1, 6))
BODIES = {
    "answer": "Answer <Question> with all fig-\nures.",
    "consolidate": "Merge for <Question>:\nAnswer Version 1: <Answer_Version_1>\nAnswer Version 2: <Answer_Version_2>\n"
                   "from <Attached pdf file>.",
    "extract": "List the points of <ans>.\n1. Keep figures.\n2. Keep names.",
    "match": 'Match <ref> with\nCandidates:\n<candid>\nGive the index.',
    "score": "Score “<kp1>” against <kp2> from 0 to {max_score}. It costs $5.",
}


def paper(bodies=BODIES, questions=QUESTIONS):
    boxes = [f"{paper_prompts.BOXES[task][0]}\n{body}\nFigure {i}: The prompt for something."
             for i, (task, body) in enumerate(bodies.items(), 3)]
    return "\n".join(["Intro.", "A.1 Questions designed for reports", questions, "A.2 Answer Generation Prompts", *boxes])


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setenv("EMS_HOME", str(tmp_path / "home"))

    def write(text):
        path = tmp_path / "paper.txt"
        path.write_text(text, encoding="utf-8")
        return path
    return write


def test_parts_become_templates_with_slots(copy):
    folder, differing = paper_prompts.import_prompts(copy(paper()))
    assert (folder / "answer.txt").read_text() == "$context\nAnswer $question with all figures.\n"
    assert "Score \"$reference\" against $candidate from 0 to $max_score. It costs $$5." in (folder / "score.txt").read_text()
    assert (folder / "extract.txt").read_text().splitlines()[-2:] == ["1. Keep figures.", "2. Keep names."]
    assert "What does part 3 of the report say, and why?" in (folder / "questions.yaml").read_text()
    assert set(differing) == set(paper_prompts.HASHES)          # a made-up paper has none of the printed words


def test_a_missing_part_is_named_and_nothing_is_written(copy):
    short = {task: body for task, body in BODIES.items() if task != "match"}
    with pytest.raises(InputError, match="match"):
        paper_prompts.import_prompts(copy(paper(short)))
    assert not (copy("").parent / "home").exists()


def test_a_prompt_without_its_place_is_refused(copy):
    with pytest.raises(InputError, match="score.*max_score"):
        paper_prompts.import_prompts(copy(paper({**BODIES, "score": "Score <kp1> against <kp2>."})))
