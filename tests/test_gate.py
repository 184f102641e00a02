"""Gates for CI: thresholds of means, clear losses, Markdown for a pull request."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import mistune
import pytest
from command_line import check_refused, judge_options, read_results
from doubles import ScriptedJudge, refused
from loopback import Loopback, by_words
from test_compare import answers_of, saved

import ems
from ems.analysis.gate import assert_gate, check_thresholds, thresholds_of
from ems.cli import main
from ems.evaluators import SCORERS, OwnMetric, build
from ems.io import write_jsonl
from ems.results import CoverageResult, Figures, SideFigures
from ems.types import WITHOUT_JUDGE, Answer, Triplet

RECALL = 0.5  # of the answers of `evaluate_command`, by the judge `by_words`: (0.7 + 0.8 + 0) / 3


def with_figures(results, shared):
    """The results, where the other side has this many of the four figures of each side."""
    side = SideFigures(4, shared)
    return [replace(result, figures=Figures(side, side)) for result in results]


def with_words_only(results):
    return [replace(result, signature={"ems": "1", "score": "rouge:l"}) for result in results]


def contradicting(shares):
    """Judged coverage of eight answers, of whose four reference points a share is contradicted."""
    results = []
    for i, contradicted in enumerate(shares):
        result = CoverageResult(
            f"t{i}",
            "m",
            ("a", "b", "c", "d"),
            ("x",),
            (1.0,) * 4,
            (1.0,),
            contradicted=tuple(range(contradicted)),
            recall=1.0,
            precision=1.0,
            f1=1.0,
            signature={"coverage": "llm:kit", "judge": "j"},
        )
        results.append(result)
    return results


# --- ems evaluate ---


@pytest.mark.parametrize(
    ("options", "status", "lines"),
    [
        (["--fail-under", "recall=0.5"], 0, []),
        (
            ["--fail-under", "recall=0.51"],
            4,
            ["m: EMS(LLM) Recall 0.500 is under the threshold 0.51"],
        ),
        (
            ["--fail-under", "ems(llm)  RECALL=0.9", "--fail-under", "f1=0.1"],
            4,
            ["EMS(LLM) Recall 0.5"],
        ),
        (
            ["--fail-over", "Missing=0.3"],
            4,
            ["m: EMS(LLM) Missing 0.333 is over the threshold 0.3"],
        ),
        (["--fail-over", "missing=0.34"], 0, []),
        (
            ["--fail-under", "Figures Recall=0.9", "--fail-under", "precision=0.9"],
            4,
            ["m: Figures Recall 0.750 is under", "m: EMS(LLM) Precision 0.750 is under"],
        ),
        (["--fail-under", "EMS(ROUGE) Recall=0"], 4, ["m: the results have no ems(rouge) recall"]),
    ],
)
def test_a_mean_beyond_its_threshold_is_named_after_the_results_are_written(
    evaluate_command, tmp_path, capsys, options, status, lines
):
    with Loopback(by_words) as server:
        command = [*evaluate_command, *judge_options(server, tmp_path)]
        assert main([*command, *options]) == status
    errors = capsys.readouterr().err.splitlines()
    gate = [line for line in errors if line.startswith("ems: m: ")]
    assert len(gate) == len(lines)
    for line, words in zip(gate, lines, strict=True):
        assert words in line
    assert read_results(tmp_path)[0]["recall"] == pytest.approx(RECALL)


def tenth(references, answers):
    return [0.1 for _ in answers]


class Half:
    def __call__(self, references, answers):
        return [0.5 for _ in answers]


HALF = Half()


def test_a_metric_of_ones_own_is_gated_by_its_name(evaluate_command, capsys):
    command = [*evaluate_command, "--metric", "test_gate:tenth", "--metric", "test_gate:HALF"]
    assert main([*command, "--fail-under", "Test_gate.tenth=0.1"]) == 0
    capsys.readouterr()
    assert main([*command, "--fail-under", "test_gate.tenth=0.11"]) == 4
    line = "ems: m: test_gate.tenth Score 0.100 is under the threshold 0.11\n"
    assert capsys.readouterr().err == line
    for name in ("tenth", "recall", "Figures Recall", "test_gate.tent"):
        names = "with one of test_gate.tenth and test_gate.Half; got"
        check_refused([*command, "--fail-under", f"{name}=0.5"], capsys, names)


def test_every_model_has_a_line_with_its_interval(evaluate_command, tmp_path, capsys):
    """Eight groups, so that there is an interval; the second model says nothing."""
    triplets = [json.loads(line) for line in Path(evaluate_command[1]).read_text().splitlines()]
    rows = [{**row, "group": row["id"]} for row in triplets]
    write_jsonl(Path(evaluate_command[1]), rows)
    answers = [json.loads(line) for line in Path(evaluate_command[2]).read_text().splitlines()]
    silent = [{**row, "model": "silent", "answer": ""} for row in answers]
    write_jsonl(Path(evaluate_command[2]), [*answers, *silent])
    options = ["--fail-under", "recall=0.6", "--fail-under", "Figures Precision=0.5"]
    with Loopback(by_words) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path), *options]) == 4
    errors = capsys.readouterr().err.splitlines()
    assert [line for line in errors if line.startswith(("ems: m:", "ems: silent:"))] == [
        "ems: m: EMS(LLM) Recall 0.500 [0.500, 0.500] is under the threshold 0.6",
        "ems: silent: EMS(LLM) Recall 0.000 [0.000, 0.000] is under the threshold 0.6",
        "ems: silent: the results have no figures precision",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fail-under", "recall=0.7"], "recall compares words where no judge is asked"),
        (["--fail-over", "missing=0.7"], "name a judge, or take Figures, such as"),
        (
            ["--metric", "command_line:check_refused", "--fail-under", "score=0"],
            "with one of command_line.check_refused; got 'score'=0",
        ),
        (["--fail-under", "recal=0.7"], "got 'recal'=0.7; did you mean 'Recall'?"),
        (["--fail-under", "recall"], "a threshold reads PART=VALUE"),
        (["--fail-under", "recall=high"], "a number from 0 to 1, got 'high'"),
        (["--fail-under", "recall=70"], "a number from 0 to 1, got '70'"),
        (["--fail-under", "recall=nan"], "a number from 0 to 1, got 'nan'"),
        (["--fail-under", "contradicted=0.1"], "take --fail-over for contradicted"),
        (["--fail-over", "Figures Recall=0.1"], "take --fail-under for Figures Recall"),
    ],
)
def test_a_gate_that_means_nothing_is_refused_before_anything_is_done(
    evaluate_command, tmp_path, capsys, options, words
):
    check_refused([*evaluate_command, *options], capsys, words)
    assert not (tmp_path / "out.jsonl").exists()


def test_what_is_contradicted_needs_the_coverage_scorer_before_anything_is_asked(
    evaluate_command, tmp_path, capsys
):
    gate = ["--fail-over", "contradicted=0.1"]
    with Loopback(by_words) as server:
        command = [*evaluate_command, *judge_options(server, tmp_path), *gate]
        check_refused(command, capsys, "needs --scorer coverage")
        assert server.count == 0


@pytest.mark.parametrize("name", SCORERS)
def test_contradicted_is_accepted_for_the_scorer_that_gives_it(name):
    """The check before a run knows what the results of each scorer will have."""
    thresholds = thresholds_of({}, {"contradicted": 0.1})
    signature = build(ScriptedJudge(), name).signature
    if name == "coverage":
        check_thresholds(thresholds, signature)
    else:
        with refused("contradicted" if "judge" in signature else "compares words"):
            check_thresholds(thresholds, signature)


def test_figures_gate_without_a_judge(evaluate_command, capsys):
    assert main([*evaluate_command, "--fail-under", "figures recall=0.9"]) == 4
    output = capsys.readouterr()
    assert output.err == "ems: m: Figures Recall 0.750 is under the threshold 0.9\n"
    assert output.out.startswith(WITHOUT_JUDGE)


def test_too_few_scored_points_are_status_3_before_the_gate(evaluate_command, tmp_path, capsys):
    def half(body):
        is_match = "Candidate points" in body["messages"][-1]["content"]
        return "no idea" if is_match else by_words(body)

    options = ["--fail-under", "recall=0", "--markdown"]
    with Loopback(half) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path), *options]) == 3
    assert (tmp_path / "out.jsonl").exists()
    output = capsys.readouterr()
    assert "m: EMS(LLM) Recall – is under the threshold 0\n" in output.err
    assert "The gate has failed." in output.out


def test_two_metrics_of_ones_own_are_both_kept(evaluate_command, tmp_path, monkeypatch, capsys):
    (tmp_path / "two.py").write_text(
        "def half(references, answers): return [0.5 for _ in answers]\n"
        "def whole(references, answers): return [1 for _ in answers]\n"
    )
    monkeypatch.chdir(tmp_path)
    metrics = ["--metric", "two:half", "--metric", "two:whole", "--metric", "two:half"]
    assert main([*evaluate_command, *metrics]) == 0
    values = [(row["metric"], row["value"]) for row in read_results(tmp_path)]
    assert values == [("two.half", 0.5)] * 8 + [("two.whole", 1.0)] * 8
    shown = capsys.readouterr().out
    assert "two.half" in shown
    assert "two.whole" in shown


# --- ems compare ---


def test_a_clear_loss_of_the_second_file_is_status_4_and_named(tmp_path, capsys):
    old = saved(tmp_path / "old.jsonl", answers_of("m", 0.25))
    new = saved(tmp_path / "new.jsonl", answers_of("m"))
    assert main(["compare", str(old), str(new), "--fail-on-regression"]) == 4
    output = capsys.readouterr()
    assert "old.jsonl" in output.out
    lines = output.err.splitlines()
    assert [re.search("EMS.LLM. (\\w+)", line)[1] for line in lines] == [
        "Precision",
        "Recall",
        "F1",
    ]
    assert lines[2] == (
        "ems: m: EMS(LLM) F1 was 0.550 and is 0.300, a clear loss: difference 0.250 [0.250, 0.250],"
        " p 0.00781"
    )
    assert main(["compare", str(new), str(old), "--fail-on-regression"]) == 0  # a clear gain
    assert main(["compare", str(old), str(new)]) == 0  # no gate
    assert main(["compare", str(old), str(old), "--fail-on-regression"]) == 0


def test_more_contradicted_points_are_a_loss_and_fewer_a_gain(tmp_path, capsys):
    few = str(saved(tmp_path / "few.jsonl", contradicting([0] * 8)))
    many = str(saved(tmp_path / "many.jsonl", contradicting([2] * 8)))
    assert main(["compare", few, many, "--fail-on-regression"]) == 4
    assert "Contradicted was 0.000 and is 0.500, a clear loss" in capsys.readouterr().err
    assert main(["compare", many, few, "--fail-on-regression"]) == 0


def test_a_comparison_in_words_is_no_gate_and_one_of_figures_is(tmp_path, capsys):
    old = saved(tmp_path / "old", with_figures(with_words_only(answers_of("m", 0.25)), 4))
    new = saved(tmp_path / "new", with_figures(with_words_only(answers_of("m")), 1))
    command = ["compare", str(old), str(new), "--fail-on-regression"]
    check_refused(command, capsys, "EMS(ROUGE) compares words where no judge is asked")
    assert main([*command, "--metric", "Figures"]) == 4
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(" was ")[0] for line in errors] == [
        "ems: m: Figures Precision",
        "ems: m: Figures Recall",
    ]


@pytest.mark.parametrize(
    ("n", "models", "status"),
    [
        (5, "m", 2),  # no interval
        (6, "m", 4),  # p is 2 / 2**6 = 0.03
        (6, "mn", 2),  # p_holm is 0.06
        (7, "mn", 4),
    ],
)
def test_a_gate_that_cannot_fail_is_refused(tmp_path, capsys, n, models, status):
    old, new = [], []
    for model in models:
        old += answers_of(model, 0.25, n=n)
        new += answers_of(model, n=n)
    files = [str(saved(tmp_path / name, rows)) for name, rows in (("old", old), ("new", new))]
    assert main(["compare", *files, "--fail-on-regression"]) == status
    refusal = "cannot fail. No difference can be clear: "
    assert (refusal in capsys.readouterr().err) == (status == 2)


def test_a_gate_needs_two_files_and_says_which_answers_are_gone(tmp_path, capsys):
    old = str(saved(tmp_path / "old", answers_of("m")))
    check_refused(["compare", old, "--fail-on-regression"], capsys, "name two files, A the old")
    new = str(saved(tmp_path / "new", answers_of("m")[2:]))
    assert main(["compare", old, new, "--fail-on-regression"]) == 0
    assert capsys.readouterr().err == f"ems: up to 2 answers of a model are in {old} only\n"


def test_compare_keeps_every_metric_that_is_named(tmp_path, capsys):
    rows = []
    for name in ("one", "two", "three"):
        rows += [{"metric": name, **result.to_dict()} for result in answers_of("m")]
    file = str(write_jsonl(tmp_path / "a", rows))
    assert main(["compare", file, file, "--metric", "one", "--metric", "three", "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert {row["metric"] for row in parts} == {"one", "three"}


# --- Markdown ---


def tables_in(page):
    """The tables of a page, each as a list of rows of cells, as a reader of Markdown sees them."""
    tree = mistune.create_markdown(renderer="ast", plugins=["table"])(page)
    tables = []
    for block in tree:
        if block["type"] == "table":
            head, body = block["children"]
            tables.append([texts_in(row) for row in [head, *body["children"]]])
    return tables


def texts_in(row):
    return [text_in(cell) for cell in row["children"]]


def text_in(node):
    return node.get("raw", "") + "".join(text_in(child) for child in node.get("children", ()))


def test_evaluate_prints_a_table_and_the_gate_in_markdown(evaluate_command, tmp_path, capsys):
    rows = [json.loads(line) for line in Path(evaluate_command[2]).read_text().splitlines()]
    model = "a|b *c* <i> `d` [e](f)_g_"
    write_jsonl(Path(evaluate_command[2]), [{**row, "model": model} for row in rows])
    with Loopback(by_words) as server:
        command = [*evaluate_command, *judge_options(server, tmp_path), "--markdown"]
        assert main([*command, "--fail-under", "recall=0.9"]) == 4
        page = capsys.readouterr().out
        assert main([*command, "--fail-under", "recall=0.1"]) == 0
        assert capsys.readouterr().out.endswith("\n\n**The gate is passed.**\n")
        assert main(command) == 0
        assert "gate" not in capsys.readouterr().out
    (table,) = tables_in(page)
    assert table[0][:4] == ["model", "metric", "Precision", "Recall"]
    assert table[1][:4] == [model, "EMS(LLM)", "0.750", "0.500"]
    assert "No interval over fewer than 6 clusters." in page
    html = mistune.html(page)
    assert "<strong>The gate has failed.</strong>" in html
    assert "is under the threshold 0.9</li>" in html
    assert not re.search("<(em|i|code|a)[ >]", html)


def test_compare_prints_a_verdict_ten_rows_and_the_gate_in_markdown(tmp_path, capsys):
    old, new = [], []
    for model in "klm":
        old += with_figures(answers_of(model, 0.25 if model == "m" else 0.0), 4)
        new += with_figures(answers_of(model), 4)
    files = [str(saved(tmp_path / f"{n}.jsonl", rows)) for n, rows in (("old", old), ("new", new))]
    assert main(["compare", *files, "--markdown", "--fail-on-regression"]) == 4
    page = capsys.readouterr().out
    (table,) = tables_in(page)
    assert len(table) == 11
    assert [row[1:3] for row in table[1:4]] == [["m", "Precision"], ["m", "Recall"], ["m", "F1"]]
    assert "11 more rows are not shown." in page
    text = mistune.html(page)
    old, new = files
    assert f"a is {old}, b is {new}." in text
    assert f"<strong>k: F1, highest first: “{old}” 0.300 and “{new}” 0.300; no difference" in text
    assert (
        f" m: “{old}” has a clearly higher F1 than “{new}” (0.550 against 0.300).</strong>" in text
    )
    assert "m: EMS(LLM) F1 was 0.550 and is 0.300" in text
    assert main(["compare", files[1], files[1], "--markdown"]) == 0
    assert capsys.readouterr().out.count("no difference is clear over 8 groups") == 3


def test_without_a_judge_markdown_warns_before_it_speaks_of_figures(tmp_path, capsys):
    results = []
    for model, gain, shared in (("good", 0.0, 4), ("bad", 0.5, 1)):
        results += with_figures(with_words_only(answers_of(model, gain)), shared)
    file = str(saved(tmp_path / "one.jsonl", results))
    assert main(["compare", file, "--markdown"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"{WITHOUT_JUDGE}\n\n**Only words and figures were compared, not ")
    assert "“good” has clearly more of its figures in the references than “bad”" in page
    assert "“bad”" not in page.split("**")[1].split(" than ")[0]  # nobody is praised for words


def test_evaluate_begins_with_a_verdict_in_markdown(evaluate_command, tmp_path, capsys):
    rows = [json.loads(line) for line in Path(evaluate_command[2]).read_text().splitlines()]
    write_jsonl(Path(evaluate_command[2]), rows + [{**row, "model": "n"} for row in rows])
    with Loopback(by_words) as server:
        command = [*evaluate_command, *judge_options(server, tmp_path), "--markdown"]
        assert main([*command, "--cluster", "triplet_id"]) == 0
    assert capsys.readouterr().out.startswith(
        "**F1, highest first: “m” 0.600 and “n” 0.600; no difference is clear over 8 groups.**\n\n"
    )


# --- in Python ---


def test_assert_gate_names_what_fails_and_refuses_words():
    results = with_figures(answers_of("m"), 1)
    assert_gate(results, fail_under={"recall": 0.3, "Figures Recall": 0.25})
    with pytest.raises(AssertionError) as error:
        assert_gate({"mine": results}, fail_under={"recall": 0.4, "mine F1": 0.3})
    assert str(error.value) == "m: mine Recall 0.300 [0.300, 0.300] is under the threshold 0.4"
    with pytest.raises(AssertionError, match="Contradicted 0.250 .*is over the threshold 0.2"):
        assert_gate(contradicting([1] * 8), fail_over={"contradicted": 0.2})
    with refused("recall compares words where no judge is asked"):
        assert_gate(with_words_only(results), fail_under={"recall": 0.1})
    assert_gate(with_words_only(results), fail_under={"Figures Recall": 0.25})
    own = OwnMetric(tenth).evaluate([Triplet("t", "g", "", "r")], [Answer("t", "n", "a")])
    with pytest.raises(AssertionError, match="n: test_gate.tenth Score 0.100 is under .* 0.2$"):
        assert_gate(own, fail_under={"test_gate.tenth": 0.2})
    with refused("Refused and test_gate.tenth; got 'tenth'=0.1"):
        assert_gate(own, fail_under={"tenth": 0.1})
    with refused("needs a threshold"):
        assert_gate(results)


def test_a_mean_that_is_hardly_scored_passes_no_gate():
    lost = {"recall": math.nan, "precision": math.nan, "f1": math.nan}
    first, *rest = answers_of("m")
    results = [replace(first, **lost, score=(None, None), unscored=2), *rest]
    with pytest.raises(AssertionError, match="rests on 7 answers and 87.5 % of their points"):
        assert_gate(results, fail_under={"recall": 0.1})


def test_equal_but_for_rounding_is_not_under_a_threshold():
    results = [replace(result, recall=0.1) for result in answers_of("m", n=6)]
    means = ems.summarise(ems.to_frame(results)).set_index("part")["value"]
    assert means["Recall"] < 0.1  # as computers add and divide
    assert_gate(results, fail_under={"recall": 0.1})
    with pytest.raises(AssertionError):
        assert_gate(results, fail_under={"recall": 0.1001})
