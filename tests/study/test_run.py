"""What a notebook reads in a run where others were run with changed parameters, or not at all."""

from doubles import recorded
from study import (
    missing_metrics,
    alignments_of,
    read_answers,
    judged_alignments,
    sample_of_each_model,
    read_triplets,
    read_values,
)
from study import recorded as those_recorded

import ems
from ems.analysis.frames import to_frame
from ems.io import write_csv, write_jsonl


def test_what_a_run_lacks_is_said_with_the_notebook_that_makes_it(tmp_path, capsys):
    judge, triplets, few = (
        recorded("q3-2024/replies.jsonl"),
        read_triplets(tmp_path),
        sample_of_each_model(read_answers(tmp_path), 1),
    )
    assert not missing_metrics(read_values(tmp_path))  # the committed values: nothing is lacking, or said
    assert capsys.readouterr().out == ""
    for metric, results in {
        "EMS(ROUGE)": ems.build(None, "rouge").evaluate(triplets, few),
        "EMS(LLM)": ems.build(judge, joint=True).evaluate(triplets, few),
    }.items():
        write_csv(tmp_path / "values_ems.csv", to_frame(results))
        write_jsonl(
            tmp_path / "alignments.jsonl", ({"metric": metric, **r.to_dict()} for r in results)
        )
        assert metric not in missing_metrics(read_values(tmp_path))
        judged = judged_alignments(tmp_path, judge)
        said = capsys.readouterr().out
        assert "lacks BLEU (notebook 2), " in said
        assert (
            ("EMS(LLM) (notebook 3), " in said)
            == (f"lacks EMS(LLM) by {judge.name}" in said)
            == (judged == [])
        )
    assert judged == alignments_of(tmp_path, judge) != []


def test_a_replay_leaves_out_the_answers_that_were_not_recorded(tmp_path):
    once, again = recorded("q3-2024/replies.jsonl"), recorded("q3-2024/replies.jsonl", sample=1)
    evaluator = ems.build(again, joint=True, extractor=ems.build(once).extractor)
    triplets, few = read_triplets(tmp_path), read_answers(tmp_path)[::25]
    whole = [a for a in few if those_recorded(evaluator, triplets, [a])]
    assert 0 < len(whole) < len(few)
    assert [r.model for r in those_recorded(evaluator, triplets, few)] == [a.model for a in whole]
