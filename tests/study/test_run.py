"""What a notebook reads in a run where others were run with changed parameters, or not at all."""

import json

from doubles import recorded, refused
from study import (
    COMMITTED_MARK,
    ROOT,
    alignments_of,
    input_file,
    judged_alignments,
    link_to,
    missing_metrics,
    plots,
    read_answers,
    read_triplets,
    read_values,
    run_notes,
    sample_of_each_model,
    without,
    write_csv,
)
from study import recorded as those_recorded
from study.table1 import save_table1

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


def test_a_run_without_a_value_of_its_answers_is_refused(tmp_path):
    write_jsonl(tmp_path / "answers.jsonl", [{"triplet_id": "t", "model": "m", "answer": "a"}])
    with refused("has no values of its answers; run notebooks 2 and 3 first"):
        read_values(tmp_path)


def test_what_was_not_run_again_on_the_same_answers_comes_from_committed_values_and_is_marked(
    tmp_path, capsys
):
    triplets, answers = read_triplets(tmp_path)[:2], read_answers(tmp_path)
    ids = [t.id for t in triplets]
    rows = [vars_of(a) for a in answers if a.triplet_id in ids]
    rows[0]["answer"] = "another one"
    write_jsonl(tmp_path / "answers.jsonl", rows)
    results = ems.build(None, "rouge").evaluate(triplets, read_answers(tmp_path))
    write_csv(tmp_path / "values_ems.csv", to_frame(results))
    values = read_values(tmp_path)
    bleu = values[values.metric == "BLEU"]
    assert len(bleu) == len(rows) - 1  # without the answer that is another one
    assert set(bleu.triplet_id) == set(ids)
    committed = read_values(tmp_path / "none")
    same = committed.merge(bleu, on=["metric", "part", "model", "triplet_id"])
    assert same.value_x.to_list() == same.value_y.to_list()
    own = values[values.metric == "EMS(ROUGE)"]
    assert bleu.signature.str.endswith(COMMITTED_MARK).all()
    assert not own.signature.str.contains("committed").any()
    assert "EMS(LLM)" not in set(values.metric)  # notebook 3 was run, without a judge
    assert "has no values of BLEU, ROUGE, BERTScore, RAGChecker, Judge alone" in (
        capsys.readouterr().out
    )
    (note,) = run_notes(tmp_path, values)
    assert note == (
        "Not run again, committed values of the same answers: BLEU, ROUGE, BERTScore, RAGChecker, "
        "Judge alone"
    )


def vars_of(answer):
    return {"triplet_id": answer.triplet_id, "model": answer.model, "answer": answer.answer}


def test_changed_parameters_stand_under_the_table(tmp_path):
    changed = {"01_dataset": {"LIMIT": 1, "COMPANIES": ["AAPL"]}, "03_ems": {"LIMIT": 1}}
    (tmp_path / "manifest.json").write_text(json.dumps({"changed": changed}))
    assert run_notes(tmp_path, read_values(tmp_path / "none")) == [
        "Changed from the profile: LIMIT 1 (notebook 01, 03)",
        "Changed from the profile: COMPANIES ['AAPL'] (notebook 01)",
    ]
    save_table1(ems.summarise(read_values(tmp_path / "none")), tmp_path)
    assert "LIMIT 1 (notebook 01, 03)" in (tmp_path / "table1.md").read_text()


def test_a_heat_map_without_values_says_which_notebook_makes_them(tmp_path):
    values = read_values(tmp_path)
    others = values[values.metric != "Coverage(local)"]
    with refused("no values of Coverage(local)", "run notebook 3 first"):
        plots.heatmap(others, "Coverage(local)", {})


def test_a_file_is_looked_for_beside_the_notebook_and_then_in_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "data/questions.yaml"
    assert input_file(name) == ROOT / name
    (tmp_path / "data").mkdir()
    (tmp_path / name).write_text("")
    assert input_file(name) == tmp_path / name
    with refused(f"no file {tmp_path / 'mine.csv'}, and none {ROOT / 'mine.csv'}: put mine.csv"):
        input_file("mine.csv")


def test_models_and_groups_are_left_out_by_name(tmp_path):
    values = read_values(tmp_path)
    large = "Large LLM (closed weights)"
    left = without(values, [large, "AAPL"])
    assert set(left.model) == set(values.model) - {large}
    assert set(left.group) == set(values.group) - {"AAPL"}
    kept = values[(values.model != large) & (values.group != "AAPL")]
    assert left.equals(kept)
    assert without(values, []).equals(values)
    with refused("no model or group 'AAPLE'; did you mean 'AAPL'?; there are ['AAPL', 'AMZN'"):
        without(values, ["AAPLE"])


def test_a_link_to_a_file_of_the_run_counts_from_the_notebook(tmp_path, monkeypatch):
    (tmp_path / "lab").mkdir()
    page = tmp_path / "runs" / "lab" / "report.html"
    monkeypatch.chdir(tmp_path / "lab")
    assert link_to(page, "Open").data == "[Open](../runs/lab/report.html)"
    monkeypatch.chdir(ROOT / "notebooks")  # where a run executes; its copy is in the run's folder
    assert link_to(page, "Open").data == "[Open](../report.html)"


def test_metrics_that_a_run_lacks_are_printed_with_their_notebooks(tmp_path, capsys):
    triplets, answers = sample_of(tmp_path)
    judge = recorded("q3-2024/replies.jsonl")
    write_run(tmp_path, "EMS(ROUGE)", ems.build(None, "rouge").evaluate(triplets, answers))
    assert "EMS(ROUGE)" not in missing_metrics(read_values(tmp_path))
    assert judged_alignments(tmp_path, judge) == []
    printed = capsys.readouterr().out
    assert "lacks EMS(BERTScore) (notebook 3), EMS(LLM) (notebook 3), " in printed
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
    assert "lacks EMS(ROUGE) (notebook 3), EMS(BERTScore) (notebook 3), Coverage" in printed
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
