"""What a notebook reads in a run where others were run with changed parameters, or not at all."""

from doubles import recorded
from study import absent, alignments_of, answers_of, judged_alignments, sample, triplets_of, values_of
from study import recorded as those_recorded

import ems
from ems.frames import to_frame
from ems.io import write_csv, write_jsonl


def run_with(run, judge, few):
    """The files of notebooks 1 and 3 for a few answers."""
    results = ems.build(judge, "llm" if judge else "rouge", joint=judge is not None).evaluate(triplets_of(run), few)
    write_jsonl(run / "answers.jsonl", ({"triplet_id": a.triplet_id, "model": a.model, "answer": a.answer} for a in few))
    write_csv(run / "values_ems.csv", to_frame(results))
    write_jsonl(run / "alignments.jsonl", ({"metric": "EMS(LLM)" if judge else "EMS(ROUGE)", **r.to_dict()} for r in results))


def test_what_a_run_lacks_is_said_with_the_notebook_that_makes_it(tmp_path, capsys):
    run, judge = tmp_path / "lab", recorded("q3-2024/replies.jsonl")
    few = sample(answers_of(run), 1)
    assert not absent(values_of(run))                       # the committed values: nothing is lacking, nothing is said
    assert capsys.readouterr().out == ""
    run.mkdir()
    run_with(run, None, few)
    assert absent(values_of(run))["BLEU"] == 2
    said = capsys.readouterr().out
    assert "/lab lacks BLEU (notebook 2), " in said
    assert "EMS(LLM) (notebook 3)" in said
    assert "EMS(ROUGE)" not in said
    assert judged_alignments(run, judge) == []              # sentences, which no judge cut
    assert f"lacks EMS(LLM) by {judge.name} (notebook 3)" in capsys.readouterr().out
    run_with(run, judge, few)
    assert judged_alignments(run, judge) == alignments_of(run, judge) != []
    (run / "values_ems.csv").unlink()
    assert not absent(values_of(run))
    assert "the committed ones are shown" in capsys.readouterr().out


def test_a_replay_leaves_out_the_answers_that_were_not_recorded(tmp_path):
    once, again = recorded("q3-2024/replies.jsonl"), recorded("q3-2024/replies.jsonl", sample=1)
    few = answers_of(tmp_path)[::25]
    evaluator = ems.build(again, joint=True, extractor=ems.build(once).extractor)
    whole = [a for a in few if those_recorded(evaluator, triplets_of(tmp_path), [a])]
    assert 0 < len(whole) < len(few)
    assert [r.model for r in those_recorded(evaluator, triplets_of(tmp_path), few)] == [a.model for a in whole]
