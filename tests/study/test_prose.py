"""References as prose: which triplets have one, and by what the answers are scored."""

import json

import pytest
from doubles import ScriptedJudge
from study import prose

from ems.types import Answer, Triplet

TRIPLETS = [Triplet(f"t{i}", "g", "q", "- Sales rose.\n- Costs fell.") for i in (1, 2)]


def test_triplets_with_prose_have_it_as_their_reference(tmp_path):
    path = tmp_path / "prose.jsonl"
    path.write_text(json.dumps({"id": "t2", "reference": "Sales rose, and costs fell."}) + "\n")
    (triplet,) = prose.as_prose(TRIPLETS, path)
    assert (triplet.id, triplet.reference) == ("t2", "Sales rose, and costs fell.")


def test_answers_are_scored_with_and_without_the_judge():
    replies = {
        "extract": '{"points": ["Sales rose.", "Costs fell."]}',
        "match": '{"matches": [0, 1]}',
        "score": '{"scores": [10, 5]}',
        "judge": "70",
    }
    judge = ScriptedJudge(lambda request: replies[request.task])
    values = prose.values_with(
        TRIPLETS[:1], [Answer("t1", "m", "Sales rose. Debt is flat.")], judge
    )
    main = values[values["part"].isin(["F1", "Score"])].set_index("metric")["value"]
    assert list(main.index) == [
        "BLEU",
        "ROUGE-L",
        "EMS(ROUGE)",
        "Coverage(local)",
        "EMS(LLM)",
        "Judge alone",
    ]
    assert main["EMS(LLM)"] == pytest.approx(0.75)
    assert main["Judge alone"] == pytest.approx(0.7)
    assert main["EMS(ROUGE)"] == pytest.approx(0.5)
