"""The day of a result is that of its judge's newest reply, never that of a replay."""

import json
import os
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest
from command_line import check_refused, judge_options
from doubles import ScriptedJudge, judge_of
from loopback import Loopback, by_words
from study import rescored

import ems
from ems.analysis.report import save_report
from ems.cli import main
from ems.coverage import Coverage
from ems.evaluators import OwnMetric
from ems.io import write_jsonl
from ems.judge import Record
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.local.sentences import SentenceExtractor
from ems.pipeline import EMS
from ems.results import EMSResult, ScoreResult
from ems.score import LLMScorer, rouge_scorer
from ems.support.supporter import check_by_judge
from ems.types import Answer, Triplet

DAYS = "2026-11-22", "2026-11-24", "2026-11-23"
TRIPLETS = [
    Triplet(f"t{i}", "g", "What rose?", f"Sales rose by {i} percent. Costs fell by {i}0 dollars.")
    for i in range(3)
]
ANSWERS = [Answer(f"t{i}", "m", f"Sales rose by {i} percent. Shop {i} closed.") for i in range(3)]


def on(day, text="50"):
    """A reply that came at noon of a day."""
    return Record("", "judge", "m", text, date=f"{day}T12:00:00+00:00")


def days_of(results):
    return [result.date for result in results]


# --- results ---


@pytest.mark.parametrize(
    ("at_once", "days"),
    [(1, [DAYS[0], DAYS[1], DAYS[1]]), (2, [DAYS[1]] * 3), (3, [DAYS[1]] * 3)],
)
def test_a_result_has_the_newest_day_of_its_batch_and_of_those_before(monkeypatch, at_once, days):
    monkeypatch.setattr("ems.pipeline.AT_ONCE", at_once)
    judge = ScriptedJudge(*map(on, DAYS))
    assert days_of(ems.build(judge, "judge").evaluate(TRIPLETS, ANSWERS)) == days


def test_each_evaluation_begins_anew():
    judge = ScriptedJudge(*map(on, DAYS))
    for triplet, answer, day in zip(TRIPLETS, ANSWERS, DAYS, strict=True):
        assert days_of(ems.evaluate([triplet], [answer], judge=judge, scorer="judge")) == [day]


def test_without_a_dated_reply_there_is_no_day():
    assert days_of(ems.evaluate(TRIPLETS, ANSWERS)) == [""] * 3
    own = OwnMetric(lambda references, answers: [0.5] * len(answers))
    assert days_of(own.evaluate(TRIPLETS, ANSWERS)) == [""] * 3
    lost = ScriptedJudge(None, "50", None)  # replies that never came, and one that does not say
    assert days_of(ems.build(lost, "judge").evaluate(TRIPLETS, ANSWERS)) == [""] * 3
    by_function = ems.evaluate(TRIPLETS, ANSWERS, judge=lambda prompt: "50", scorer="judge")
    assert days_of(by_function) == [""] * 3


RESULT = EMSResult("t0", "m", ("Sales rose.",), ("Sales rose.",), (0,), (1.0,), date=DAYS[2])


@pytest.mark.parametrize(("replied", "day"), [(DAYS[0], DAYS[2]), (DAYS[1], DAYS[1])])
def test_what_goes_on_from_results_keeps_their_day_or_takes_a_newer_one(replied, day):
    scorer = LLMScorer(ScriptedJudge(on(replied, "8")))
    assert days_of(EMS(SentenceExtractor(), lambda pairs: [], scorer).scored([RESULT])) == [day]

    judge = ScriptedJudge(*[on(replied, '{"scores": [8], "contradicted": []}')] * 2)
    coverage = Coverage(SentenceExtractor(), judge)
    assert days_of(coverage.of_results([RESULT], TRIPLETS, ANSWERS)) == [day]

    judge = ScriptedJudge(on(replied, '{"labels": ["Entailment"]}'))
    checked = check_by_judge([RESULT], {"t0": "Sales rose by a lot."}, judge)
    assert days_of(checked) == [day]


def test_a_scorer_without_a_judge_keeps_the_day_of_the_points():
    pipeline = ems.build(scorer="rouge")
    assert days_of(rescored([RESULT], rouge_scorer(), pipeline)) == [DAYS[2]]


def set_clock(monkeypatch, moment):
    """From now on replies are saved at this moment."""
    clock = SimpleNamespace(now=lambda zone: datetime.fromisoformat(moment))
    monkeypatch.setattr("ems.judge.store.datetime", clock)


def test_a_replay_on_another_day_gives_the_results_of_the_live_run(monkeypatch, tmp_path):
    """The live run asks in portions, and half of its replies were there a day before."""
    store = Replies(tmp_path / "s.sqlite")
    with Loopback(by_words) as server:
        for day, number in (("2026-11-22", 1), ("2026-11-23", 3)):
            set_clock(monkeypatch, f"{day}T23:59:59+00:00")
            evaluator = ems.build(judge_of(server, store=store), joint=True)
            live = evaluator.evaluate(TRIPLETS, ANSWERS[:number])
            assert days_of(live) == [day] * number
    set_clock(monkeypatch, "2027-01-01T00:00:00+00:00")
    replay = ems.build(LLMJudge("m", store=store, mode="replay"), joint=True)
    assert replay.evaluate(TRIPLETS, ANSWERS) == live
    assert days_of(replay.evaluate(TRIPLETS, ANSWERS[:1])) == ["2026-11-23"]  # what it had used


# --- files ---


def test_results_of_older_versions_have_no_day_and_a_day_is_one(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    row = RESULT.to_dict()
    assert row.pop("date") == DAYS[2]
    write_jsonl(path, [row])
    ((old,),) = ems.load_results(path).values()
    assert old == replace(RESULT, date="")
    write_jsonl(path, [row | {"date": "yesterday"}])
    report = ["report", str(path), "-o", str(tmp_path / "r.html")]
    check_refused(report, capsys, "r.jsonl, line 1: Invalid isoformat string: 'yesterday'")


def head_of(path):
    page = path.read_text(encoding="utf-8")
    return page[page.index("judge: ") :].partition("</p>")[0]


def test_the_report_gives_the_newest_day_of_all_results(tmp_path):
    results = [ScoreResult(f"t{i}", "m", 0.5, date=day) for i, day in enumerate(["", *DAYS])]
    source = tmp_path / "r.jsonl"
    source.write_text("")
    path = save_report(results, tmp_path / "r.html", answers_file=source)
    assert head_of(path) == "judge: none · replies of 24 November 2026"
    save_report(results, path, sources=["old.jsonl", source])
    assert head_of(path).startswith(
        "judge: none · replies of 24 November 2026 · from old.jsonl and"
    )
    assert "written on" not in head_of(path)


def test_without_a_judge_the_report_gives_the_day_of_the_answers_or_else_of_the_results(tmp_path):
    triplets = write_jsonl(tmp_path / "t.jsonl", [vars_of(triplet) for triplet in TRIPLETS])
    answers = write_jsonl(tmp_path / "a.jsonl", [vars_of(answer) for answer in ANSWERS])
    results, page = tmp_path / "r.jsonl", tmp_path / "r.html"
    assert main(["evaluate", str(triplets), str(answers), "-o", str(results)]) == 0
    os.utime(answers, (0, 1_795_300_000))
    report = ["report", str(results), "-o", str(page)]
    texts = ["--triplets", str(triplets), "--answers", str(answers)]
    heads = []
    for when in (1_795_500_000, 1_799_000_000):  # the same results, written again later
        os.utime(results, (0, when))
        assert main(report) == 0
        heads.append(head_of(page))
        assert main([*report, *texts]) == 0
        heads.append(head_of(page))
    assert heads[0].endswith("r.jsonl (written on 24 November 2026)")
    assert heads[2].endswith("r.jsonl (written on 03 January 2027)")
    assert "a.jsonl (written on 21 November 2026) · from " in heads[1]
    assert heads[1] == heads[3]


def vars_of(record):
    return {name: getattr(record, name) for name in record.__slots__ if getattr(record, name)}


def test_a_replay_from_the_command_line_gives_the_same_files_on_another_day(monkeypatch, tmp_path):
    triplets = write_jsonl(tmp_path / "t.jsonl", [vars_of(triplet) for triplet in TRIPLETS])
    answers = write_jsonl(tmp_path / "a.jsonl", [vars_of(answer) for answer in ANSWERS])
    results, page = tmp_path / "r.jsonl", tmp_path / "r.html"
    evaluate = ["evaluate", str(triplets), str(answers), "-o", str(results)]
    files = []
    with Loopback(by_words) as server:
        judge = judge_options(server, tmp_path)
        for options, day in (([], "2026-11-24"), (["--mode", "replay"], "2027-02-01")):
            set_clock(monkeypatch, f"{day}T08:00:00+00:00")
            assert main([*evaluate, *judge, *options]) == 0
            os.utime(results, (0, len(files) * 10**9))
            assert main(["report", str(results), "-o", str(page)]) == 0
            files.append((results.read_text(), page.read_text()))
    assert files[0] == files[1]
    assert {json.loads(line)["date"] for line in files[0][0].splitlines()} == {"2026-11-24"}
    assert "judge: m · replies of 24 November 2026 · from " in head_of(page)
