"""`ems.evaluate`, its results, and the errors of a person who types Python."""

import json
from dataclasses import asdict

import pandas as pd
import pytest
from doubles import ROOT, refused
from loopback import Loopback

import ems
from ems.analysis.frames import by_metric
from ems.results import ScoreResult
from ems.types import WITHOUT_JUDGE

TRIPLETS = ROOT / "data" / "versions" / "triplets.jsonl"
ANSWERS = ROOT / "data" / "versions" / "answers.jsonl"
NAN = float("nan")
T, A = ems.Triplet("a", "g", "q?", "Revenue rose 6%."), ems.Answer("a", "m", "Revenue rose 6%.")


@pytest.fixture(scope="module")
def results():
    return ems.evaluate(TRIPLETS, ANSWERS)


# --- what a person can do


def test_files_frames_and_records_give_the_same_results(results):
    frames = pd.read_json(TRIPLETS, lines=True), pd.read_json(ANSWERS, lines=True)
    dictionaries = [frame.to_dict("records") for frame in frames]
    records = ems.load_triplets(TRIPLETS), ems.load_answers(ANSWERS)
    assert len(results) == 36
    for given in (frames, dictionaries, records, (str(TRIPLETS), iter(records[1]))):
        assert ems.evaluate(*given) == results
    assert ems.build().evaluate(*records) == results


def test_results_save_report_and_sum_themselves_up(results, tmp_path):
    path = results.save(tmp_path / "new" / "r.jsonl")
    by_name = ems.load_results(path)
    assert by_name == {"Coverage(local)": results}
    pd.testing.assert_frame_equal(results.summary(), ems.summarise(ems.to_frame(by_name)))
    assert set(results.summary(cluster="triplet_id")["cluster"]) == {"triplet_id"}
    page = results.report(tmp_path / "r.html")
    assert page.read_bytes() == ems.save_report(by_name, tmp_path / "s.html").read_bytes()


def test_loaded_results_can_what_new_ones_can(results, tmp_path):
    path = results.save(tmp_path / "r.jsonl")
    loaded = ems.load_results(path)
    pd.testing.assert_frame_equal(loaded.summary(), results.summary())
    assert loaded.save(tmp_path / "again.jsonl").read_bytes() == path.read_bytes()
    pages = [one.report(tmp_path / "r.html").read_bytes() for one in (loaded, results)]
    assert pages[0] == pages[1]
    assert repr(loaded) == repr(results)
    assert loaded._repr_html_() == results._repr_html_()


def test_a_printed_summary_hides_no_value(results):
    with pd.option_context("display.width", 80, "display.max_columns", 0, "display.max_rows", 4):
        lines = str(results.summary()).splitlines()
    assert lines[0].split() == [
        *["metric", "part", "model", "value", "ci_low", "ci_high"],
        *["n", "clusters", "unscored"],
    ]
    assert lines[1].split() == [
        *["Coverage(local)", "Precision", "reworded", "0.450", "0.431", "0.469"],
        *["12", "12", "0"],
    ]
    assert len(lines) == 1 + len(results.summary())
    few = results.summary(cluster="group").query("n > 12")
    assert few.empty  # what is made of a summary is a frame of pandas
    assert "No interval over fewer than 6 clusters." in str(ems.evaluate([T], [A]).summary())


def test_a_list_and_a_mapping_are_saved_and_reported_alike(results, tmp_path):
    score = ScoreResult("a", "m", 0.5)
    mixed = [results[0], score, results[1]]
    by_name = by_metric(mixed)
    assert by_name == {"Coverage(local)": [results[0], results[1]], "Judge alone": [score]}
    for given in (mixed, by_name):
        path = ems.save_results(given, tmp_path / "r.jsonl")
        assert ems.load_results(path) == by_name
        ems.save_report(given, tmp_path / "r.html")
    named = ems.save_results({"mine": [score]}, tmp_path / "n.jsonl")
    assert json.loads(named.read_text())["metric"] == "mine"
    assert len(ems.load_results(ems.save_results(results[0], path))["Coverage(local)"]) == 1
    assert len(ems.to_frame(results[0])) == len(ems.to_frame([results[0]]))
    ems.save_report(results[0], tmp_path / "one.html")


def test_results_show_their_means_and_warn_where_no_judge_was_asked(results):
    lines = repr(results).splitlines()
    assert lines[0] == WITHOUT_JUDGE
    assert lines[1].split()[:2] == ["model", "metric"]
    assert lines[2].startswith("     reworded Coverage(local) 0.450 [0.431, 0.469]")
    page = results._repr_html_()
    assert WITHOUT_JUDGE in page
    assert "<td>wrong figures</td>" in page
    hostile = ems.evaluate([T], [ems.Answer("a", "<script>$x$", "y")])._repr_html_()
    assert "&lt;script&gt;" in hostile
    assert hostile.startswith('<div class="mathjax_ignore">')
    assert repr(type(results)()) == type(results)()._repr_html_() == "no results"


def test_a_judge_may_be_named(monkeypatch, capsys):
    def reply(body):
        return '{"points": ["Revenue rose 6%."], "matches": [0], "scores": [10]}'

    with Loopback(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        named = ems.evaluate([T], [A], judge="m", joint=True)
        judge = ems.LLMJudge("m")
        assert named == ems.evaluate([T], [A], judge=judge, joint=True)
        assert ems.score_answer(T.reference, A.answer, judge="m").signature["judge"] == "m"
    assert (named[0].f1, named[0].signature["judge"]) == (1.0, "m")
    assert WITHOUT_JUDGE not in repr(named) + named._repr_html_()
    assert capsys.readouterr().err == ""  # no bar for what is done at once


def test_a_store_may_be_named(tmp_path):
    judge = ems.LLMJudge("m", store=str(tmp_path / "s.sqlite"))
    assert judge.store.path == tmp_path / "s.sqlite"


def test_unanswered_triplets_are_named(capsys):
    ems.evaluate([T, ems.Triplet("b", "g", "q?", "r")], [A])
    assert capsys.readouterr().err == "ems: m left 1 of 2 triplets unanswered, e.g. b\n"


# --- errors


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ems.score_answer(None, "x"), "are texts, got NoneType"),
        (lambda: ems.score_answer("x", 3), "are texts, got int"),
        (lambda: ems.score_answer(" \n", "x"), "the reference is empty; an answer needs a text"),
        (lambda: ems.score_answer("x", "y", scorers="judge"), "did you mean 'scorer'?"),
        (
            lambda: ems.evaluate([T], [A], scorers="judge"),
            "got an unexpected keyword argument 'scorers'; did you mean 'scorer'?",
        ),
        (lambda: ems.build(jont=True), "argument 'jont'; did you mean 'joint'?"),
        (lambda: ems.build(xyz=1), "'xyz'; it takes judge, scorer, joint, extractor, matcher, "),
        (
            lambda: ems.evaluate([T], [A], "m"),
            "evaluate: too many positional arguments; it takes triplets, answers, judge, scorer, ",
        ),
        (lambda: ems.evaluate([T]), "missing a required argument: 'answers'"),
        (lambda: ems.save_report([], "r.html", titel="x"), "did you mean 'title'?"),
        (lambda: ems.evaluate([T], [A], judge=""), "a judge is named by its model, got ''"),
        (lambda: ems.evaluate([T], [A], judge="none"), "leave it out for none"),
        (
            lambda: ems.evaluate([T], [A], judge=ems.LLMJudge),
            "a judge is an LLMJudge or a function",
        ),
        (lambda: ems.evaluate([T], [A], scorer=ems.build()), "the scorer is a function or an"),
        (lambda: ems.build(str, prompts="no-such-set"), "no prompt set 'no-such-set'"),
        (lambda: ems.build(print, max_score="10"), "a whole number, got '10'"),
        (
            lambda: ems.evaluate([T], pd.DataFrame([asdict(A), {**asdict(A), "answer": NAN}])),
            "answer row 1: 'answer' is empty; a refusal is the text ''",
        ),
        (
            lambda: ems.evaluate([T], pd.Series(["x"])),
            "answer row 0: an object with named values is needed (a dictionary, a row of a frame)",
        ),
        (
            lambda: ems.evaluate(pd.DataFrame([["a", "b"]], columns=["id", "id"]), [A]),
            "the frame of triplets: the header names a column more than once: 'id', 'id'",
        ),
        (lambda: ems.evaluate(3, [A]), "triplets are a file, a frame or a list of rows, got int"),
        (lambda: ems.evaluate("x" * 9999, [A]), "x cannot be read: File name too long"),
        (lambda: ems.load_results(None), "a file is named by a text or a Path, got NoneType"),
        (lambda: ems.load_results(0), "a file is named by a text or a Path, got int"),
        (lambda: ems.save_results([], None), "a file is named by a text or a Path, got NoneType"),
        (lambda: ems.to_frame(None), "a result is needed, got None; ems.load_results reads"),
        (lambda: ems.evaluate([T], [A, A]), "answer row 1: a second row of ('a', 'm')"),
        (lambda: ems.evaluate([T], pd.DataFrame([{"id": "a"}])), "'triplet_id' is missing"),
        (lambda: ems.evaluate([T], [ems.Answer("b", "m", "")]), "unknown triplets: 'b'"),
        (lambda: ems.evaluate([T], [A], judge=3), "a judge is an LLMJudge"),
        (lambda: ems.evaluate([T], [A], scorer="coverag"), "did you mean 'coverage'?"),
        (
            lambda: ems.build().evaluate([T], [A, A]),
            "must be unique, and there are two of 'a', 'm'",
        ),
        (
            lambda: ems.build().evaluate([T, T], [A]),
            "the id of an ems.Triplet must be unique, and there are two of 'a'",
        ),
        (
            lambda: ems.build().evaluate(pd.DataFrame([{"id": "a"}]), [A]),
            "an ems.Triplet is needed, got 'id'; ems.evaluate also reads",
        ),
        (lambda: ems.build().evaluate([T], [vars]), "an ems.Answer is needed"),
        (
            lambda: ems.EMS(len, None, None),
            "the matcher is a function or an import path to one, got None",
        ),
        (lambda: ems.to_frame("r.jsonl"), "a result is needed, got 'r'; ems.load_results reads"),
        (lambda: ems.save_results([{}], "r.jsonl"), "a result is needed, got {}"),
        (lambda: ems.save_report([T], "r.html"), "a result is needed, got Triplet("),
        (lambda: ems.save_report([], "r.html"), "there are no results"),
    ],
)
def test_a_wrong_argument_gets_one_clear_line(call, says):
    with refused(says):
        call()


def test_a_wrong_frame_gets_one_clear_line(results):
    frame = ems.to_frame(results)
    for call in (ems.summarise, ems.paired_table):
        with refused("a frame of ems.to_frame is needed, got ResultList"):
            call(results)
        with refused("the frame has no column 'value'; ems.to_frame makes one"):
            call(frame.drop(columns="value"))
        with refused("the frame has no column 'company'"):
            call(frame, cluster="company")
    with refused("no values of 'long'; there are 'reworded', 'wrong figures', 'short'"):
        ems.paired_table(frame, models=["short", "long"])
    with refused("a frame of ems.summarise is needed"):
        ems.table1(frame)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("summarize", "module 'ems' has no 'summarize'; did you mean 'summarise'?"),
        ("load_triplet", "did you mean 'load_triplets'?"),
        ("xyz", "module 'ems' has no 'xyz'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, says):
    with pytest.raises(AttributeError) as error:
        getattr(ems, name)
    assert str(error.value).endswith(says)


# --- how things show themselves


def test_evaluators_stages_and_judges_show_their_signature():
    ems_rouge = ems.build(scorer="rouge")
    assert repr(ems_rouge.scorer) == "PairScorer(rouge:rougeL,stemmed)"
    assert repr(ems_rouge.extractor) == "SentenceExtractor(rules:sentence)"
    assert repr(ems_rouge.matcher).startswith("WordMatcher(words#")
    judge = ems.LLMJudge("m")
    assert repr(judge) == "LLMJudge(judge:m|temperature:0.0|seed:7)"
    ems_llm = ems.build(judge)
    assert repr(ems_llm.matcher).startswith("LLMMatcher(llm:kit#")
    assert repr(ems_llm).startswith(f"EMS(ems:{ems.__version__}|extract:llm:kit#")
