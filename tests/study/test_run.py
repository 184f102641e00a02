"""What a notebook reads in a run where others were run with changed parameters, or not at all."""

from doubles import recorded
from study import (
    alignments_of,
    judged_alignments,
    missing_metrics,
    read_answers,
    read_triplets,
    read_values,
    sample_of_each_model,
    write_csv,
)
from study import recorded as those_recorded

import ems
from ems.analysis.frames import to_frame
from ems.io import write_jsonl


def write_run(run, metric, results):
    """What notebook 3 writes, of one metric."""
    write_csv(run / "values_ems.csv", to_frame(results))
    rows = [{"metric": metric, **result.to_dict()} for result in results]
    write_jsonl(run / "alignments.jsonl", rows)


def sample_of(run):
    return read_triplets(run), sample_of_each_model(read_answers(run), 1)


def test_a_run_without_files_reads_the_committed_values_and_prints_nothing(tmp_path, capsys):
    assert missing_metrics(read_values(tmp_path)) == {}
    assert capsys.readouterr().out == ""


def test_a_run_with_answers_and_without_values_says_that_the_committed_ones_are_shown(
    tmp_path, capsys
):
    write_jsonl(tmp_path / "answers.jsonl", [{"triplet_id": "t", "model": "m", "answer": "a"}])
    assert missing_metrics(read_values(tmp_path)) == {}
    assert "the committed ones are shown" in capsys.readouterr().out


def test_metrics_that_a_run_lacks_are_printed_with_their_notebooks(tmp_path, capsys):
    triplets, answers = sample_of(tmp_path)
    judge = recorded("q3-2024/replies.jsonl")
    write_run(tmp_path, "EMS(ROUGE)", ems.build(None, "rouge").evaluate(triplets, answers))
    assert "EMS(ROUGE)" not in missing_metrics(read_values(tmp_path))
    assert judged_alignments(tmp_path, judge) == []
    printed = capsys.readouterr().out
    assert "lacks BLEU (notebook 2), " in printed
    assert "EMS(LLM) (notebook 3), " in printed
    assert f"lacks EMS(LLM) by {judge.name}" in printed


def test_alignments_by_the_judge_are_read_from_the_run(tmp_path, capsys):
    triplets, answers = sample_of(tmp_path)
    judge = recorded("q3-2024/replies.jsonl")
    results = ems.build(judge, joint=True).evaluate(triplets, answers)
    write_run(tmp_path, "EMS(LLM)", results)
    assert "EMS(LLM)" not in missing_metrics(read_values(tmp_path))
    judged = judged_alignments(tmp_path, judge)
    assert len(judged) == len(answers)
    assert judged == alignments_of(tmp_path, judge)
    printed = capsys.readouterr().out
    assert "lacks BLEU (notebook 2), " in printed
    assert "EMS(LLM)" not in printed


def test_a_sample_has_so_many_answers_of_each_model_and_is_always_the_same(tmp_path):
    answers = read_answers(tmp_path)
    first, *others = sorted({answer.model for answer in answers})
    drawn = sample_of_each_model(answers, {first: 3, "": 1})
    models = [answer.model for answer in drawn]
    assert models == [first] * 3 + others
    assert sample_of_each_model(answers[::-1], {first: 3, "": 1}) == drawn
    assert sample_of_each_model(answers, {first: 3}) == drawn[:3]


def test_a_replay_leaves_out_the_answers_that_were_not_recorded(tmp_path):
    once, again = recorded("q3-2024/replies.jsonl"), recorded("q3-2024/replies.jsonl", sample=1)
    evaluator = ems.build(again, joint=True, extractor=ems.build(once).extractor)
    triplets, few = read_triplets(tmp_path), read_answers(tmp_path)[::25]
    whole = [a for a in few if those_recorded(evaluator, triplets, [a])]
    assert 0 < len(whole) < len(few)
    assert [r.model for r in those_recorded(evaluator, triplets, few)] == [a.model for a in whole]
