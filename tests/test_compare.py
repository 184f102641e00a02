"""Two files of results, or the models of one, compared: joined by id, always a minus b."""

import json
import math
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from doubles import refused

import ems
from ems.analysis.compare import compare_results, comparison_text
from ems.analysis.frames import metric_of
from ems.analysis.report import save_report
from ems.baselines import Claims
from ems.cli import main
from ems.io import write_jsonl
from ems.results import CoverageResult, EMSResult, Figures, ScoreResult, SideFigures
from ems.types import WITHOUT_JUDGE

ROOT = Path(__file__).parent.parent
SIGNED = {"signature": {"score": "llm:kit", "judge": "j"}}


def answers_of(model, gain=0.0, n=8):
    """An answer to each of n questions: matched points of score 0.2 and 0.4, each plus the gain."""
    results = []
    for i in range(n):
        scores = (0.2 + gain, 0.4 + gain)
        mean = 0.3 + gain
        result = EMSResult(
            f"t{i}",
            model,
            ("a", "b"),
            ("x", "y"),
            (0, 1),
            scores,
            recall=mean,
            precision=mean,
            f1=mean,
            **SIGNED,
        )
        results.append(result)
    return results


def saved(path, results, metric=None):
    rows = [{"metric": metric or metric_of(result), **result.to_dict()} for result in results]
    return write_jsonl(path, rows)


@pytest.fixture
def compare(tmp_path):
    def compared(a, b, **settings):
        """The comparison of two lists of results, by way of files."""
        files = saved(tmp_path / "a.jsonl", a), saved(tmp_path / "b.jsonl", b)
        return compare_results(*files, **settings)

    return compared


def f1(tables):
    return tables["parts"].set_index("part").loc["F1"]


# --- two files ---


def test_a_known_difference_comes_out_with_its_exact_p(compare):
    tables = compare(answers_of("m", 0.5), answers_of("m"))
    row = f1(tables)
    assert (row["a"], row["b"], row["difference"]) == pytest.approx((0.8, 0.3, 0.5))
    assert row["p"] == row["p_holm"] == 2 / 2**8  # all eight signs alike, and their mirror image
    assert row["clear"]
    counts = row[["n", "clusters", "only_a", "only_b", "unscored"]]
    assert counts.tolist() == [8, 8, 0, 0, 0]
    assert list(tables["answers"]["difference"]) == pytest.approx([0.5] * 8)


def test_groups_in_the_results_are_what_intervals_are_over(compare):
    def grouped(gain):
        return [replace(r, group="AB"[i % 2]) for i, r in enumerate(answers_of("m", gain))]

    row = f1(compare(grouped(0.5), grouped(0.0)))
    assert (row["clusters"], row["p"]) == (2, 2 / 2**2)
    by_triplet = compare(grouped(0.5), grouped(0.0), cluster="triplet_id")
    assert f1(by_triplet)["clusters"] == 8


def test_results_are_joined_by_id_whatever_their_order_and_an_unscored_one_is_no_zero(compare):
    a = [replace(r, f1=0.3 + i / 100) for i, r in enumerate(answers_of("m"))]
    lost = {"recall": math.nan, "precision": math.nan, "f1": math.nan}
    a[0] = replace(a[0], **lost, score=(None, None), unscored=2)
    b = answers_of("m")
    straight = compare(a, b)
    turned = compare(a[::-1], b)
    for name in ("parts", "answers"):
        assert straight[name].equals(turned[name])
    largest_first = [f"t{i}" for i in range(7, 0, -1)]
    assert list(straight["answers"]["triplet_id"]) == largest_first
    row = f1(straight)
    assert (row["n"], row["unscored"], row["difference"]) == (7, 1, pytest.approx(0.04))


def test_several_models_are_joined_by_name_and_the_others_are_named(compare, capsys):
    a = answers_of("m") + answers_of("n")
    b = answers_of("m", 0.1) + answers_of("k")
    tables = compare(a, b)
    assert set(tables["parts"]["model"]) == {"m"}
    assert capsys.readouterr().err.splitlines() == [
        "ems: n is in file a only, and is not compared",
        "ems: k is in file b only, and is not compared",
    ]
    assert tables["verdict"] == ["“b” has a clearly higher F1 than “a” (0.400 against 0.300)."]


def test_up_to_five_models_have_a_verdict_each(compare):
    a, b = [], []
    for model in "klmnop":
        a += answers_of(model, n=12)
        b += answers_of(model, 0.1, n=12)
    assert compare(a, b)["verdict"] == []
    sentences = compare(a[:24], b)["verdict"]
    assert [sentence.partition(": ")[0] for sentence in sentences] == ["k", "l"]
    assert all("“b” has a clearly higher F1 than “a”" in sentence for sentence in sentences)


def test_what_is_said_of_all_models_is_said_once(tmp_path):
    signature = {"score": "rouge:l"}
    files = []
    for gain in (0, 0.1):
        rows = [*answers_of("m", gain), *answers_of("n", gain)]
        rows = [replace(row, signature=signature) for row in rows]
        files.append(saved(tmp_path / f"{gain}.jsonl", rows))
    verdict = compare_results(*files, metrics=["EMS(ROUGE)"])["verdict"]
    assert verdict == ["Only words and figures were compared, not meaning."]


def test_one_model_of_a_is_compared_with_every_model_of_b(compare):
    a = answers_of("small")[:7]  # not t7
    b = [*answers_of("large", 0.5)[1:], *answers_of("small", 0.1)]  # no t0 of the large one
    parts = compare(a, b)["parts"]
    rows = parts[parts["part"] == "F1"].set_index("model").loc[["small (a), large (b)", "small"]]
    assert set(parts["model"]) == set(rows.index)
    assert list(rows["difference"]) == pytest.approx([-0.5, -0.1])
    assert rows[["n", "only_a", "only_b"]].to_numpy().tolist() == [[6, 1, 1], [7, 0, 1]]
    adjusted = [max(2 / 2**6, 2 * 2 / 2**7), 2 * 2 / 2**7]  # over both models
    assert list(rows["p_holm"]) == adjusted


def test_every_kind_of_result_can_be_compared(compare):
    def score(v):
        return ScoreResult("t", "m", v, signature={"judge": "j"})

    def coverage(v):
        values = {"recall": v, "precision": v, "f1": v}
        return CoverageResult("t", "m", ("a",), ("x",), (v,), (v,), **values)

    def claims(v):
        return Claims("t", "m", ("x",), ("a",), ("Neutral",), ("Neutral",), v, v, v)

    for kind in (score, coverage, claims):
        tables = compare([kind(0.75)], [kind(0.25)])
        assert tables["answers"]["difference"].tolist() == [0.5]


def test_files_of_several_metrics_are_compared_by_metric(tmp_path):
    rows = []
    for name in ("one", "two"):
        rows += [{"metric": name, **result.to_dict()} for result in answers_of("m")]
    a = write_jsonl(tmp_path / "a", rows)
    b = saved(tmp_path / "b", answers_of("m", 0.1), "two")
    assert set(compare_results(a, b)["parts"]["metric"]) == {"two"}
    with refused(f"{b} has no metric 'one'; it has 'two'"):
        compare_results(a, b, metrics=["two", "one"])
    with refused(f"{a} has no metric 'twoo'; it has 'one', 'two'; did you mean 'two'?"):
        compare_results(a, b, metrics=["twoo"])
    both = compare_results(a, a, metrics=["two", "one"])
    assert set(both["parts"]["metric"]) == {"one", "two"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"triplet_id": "u"}, "triplet_id 't0', 't1', 't2', ...; "),
        (
            {"signature": {"score": "rouge:l"}},
            "has metric 'EMS(ROUGE)', model 'm' and triplet_id 't0'",
        ),
    ],
    ids=["another question", "another metric"],
)
def test_nothing_to_compare_says_what_each_file_has(compare, change, words):
    with refused("nothing to compare: the files need a metric and triplets in common", words):
        compare(answers_of("m"), [replace(answers_of("m")[0], **change)])


# --- one file ---


def test_the_models_of_one_file_are_compared_two_by_two(tmp_path):
    systems = [*answers_of("x-7b", 0.5), *answers_of("x-1b")[1:]]  # t0 has no answer of x-1b
    tables = compare_results(saved(tmp_path / "a", systems))
    assert list(tables) == ["verdict", "parts", "warning"]
    assert tables["verdict"] == [
        "“x-7b” has a clearly higher F1 than “x-1b” (0.800 against 0.300)."
    ]
    assert tables["parts"].equals(ems.paired_table(ems.to_frame(systems)))
    path = saved(tmp_path / "one", answers_of("m"))
    with refused(
        "nothing to compare: one file needs two models with a metric in common, and has 1"
    ):
        compare_results(path)
    with refused("has no metric 'nonsense'; it has 'EMS(LLM)'"):
        compare_results(path, metrics=["nonsense"])


# --- the sign, and what is printed ---


def f1_line(text):
    """The cells of the row of F1: after its name a, b, the difference, p_holm, higher ..."""
    line = next(line for line in text.splitlines() if " F1 " in line and "“" not in line)
    return line.split(" F1 ")[1].split()


def test_a_difference_is_a_minus_b_everywhere(tmp_path):
    """Two files, the models of one file, the table of pairs, and the report: one sign, in words."""
    better, worse = answers_of("x-7b", 0.5), answers_of("x-1b")
    a = saved(tmp_path / "better.jsonl", [replace(r, model="x") for r in better])
    b = saved(tmp_path / "worse.jsonl", [replace(r, model="x") for r in worse])
    both = [*worse, *better]
    one = saved(tmp_path / "both.jsonl", both)
    pair = f1(compare_results(one))
    assert (pair["a"], pair["b"], pair["difference"]) == ("x-7b", "x-1b", pytest.approx(0.5))
    assert f1({"parts": ems.paired_table(ems.to_frame(both))}).equals(pair)
    for tables, sign in ((compare_results(a, b), 1), (compare_results(b, a), -1)):
        row = f1(tables)
        assert row["difference"] == pytest.approx(row["a"] - row["b"]) == pytest.approx(sign * 0.5)
        answer = tables["answers"].iloc[0]
        assert answer["difference"] == pytest.approx(answer["a"] - answer["b"])

    files_text = comparison_text(compare_results(b, a), "worse.jsonl", "better.jsonl")
    models_text = comparison_text(compare_results(one), "both.jsonl")
    page = save_report({"EMS(LLM)": both}, tmp_path / "report.html").read_text(encoding="utf-8")
    for text in (files_text, models_text, page):
        assert re.search("Differences are a minus b.* above 0, a is higher; below 0, b is", text)
    assert files_text.startswith("a is worse.jsonl, b is better.jsonl.\n\n“b” has a clearly higher")
    interval = ["-0.500", "[-0.500,", "-0.500]", "0.008"]
    assert f1_line(files_text)[:7] == ["0.300", "0.800", *interval, "better.jsonl"]
    interval = ["0.500", "[0.500,", "0.500]", "0.008"]
    assert f1_line(models_text)[:7] == ["x-7b", "x-1b", *interval, "x-7b"]
    cells = re.findall("<td>(.*?)</td>", page)
    row = cells[cells.index("F1") - 3 :][:7]
    assert row == ["x-7b", "x-1b", "EMS(LLM)", "F1", "x-7b", "0.500 [0.500, 0.500]", "0.008"]


def test_without_a_judge_a_higher_side_is_higher_in_words_and_a_warning_begins_the_text(
    compare, tmp_path, capsys
):
    def by_words(gain):
        signature = {"ems": "1", "score": "rouge:l"}
        shared = 4 if gain else 1
        figures = Figures(SideFigures(4, shared), SideFigures(4, shared))
        found = answers_of("m", gain)
        return [replace(result, signature=signature, figures=figures) for result in found]

    tables = compare(by_words(0.5), by_words(0.0))
    text = comparison_text(tables, "a.jsonl", "b.jsonl")
    assert f1_line(text)[6:9] == ["a.jsonl,", "in", "words"]
    assert re.search(r"Figures +m +Recall .* a.jsonl, in figures", text)
    assert text.splitlines()[0] == WITHOUT_JUDGE
    assert set(tables["parts"]["compares"]) == {"words", "figures"}
    assert main(["compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warning"] == WITHOUT_JUDGE
    judged = comparison_text(compare(answers_of("m", 0.5), answers_of("m")), "a.jsonl", "b.jsonl")
    assert WITHOUT_JUDGE not in judged


def test_figures_are_compared_by_name(compare):
    figures = Figures(SideFigures(4, 1), SideFigures(2, 1))
    rows = [replace(result, figures=figures) for result in answers_of("m")]
    for metrics, parts in ((["Figures"], 2), (["EMS(LLM)"], 5), ([], 7)):
        tables = compare(rows, rows, metrics=metrics)
        assert len(tables["parts"]) == parts
        assert "differ most" not in comparison_text(tables, "a.jsonl", "b.jsonl")


def test_figures_that_were_not_asked_for_are_named_where_they_differ_clearly(compare):
    def with_figures(shared):
        figures = Figures(SideFigures(4, shared), SideFigures(4, 3))
        return [replace(result, figures=figures) for result in answers_of("m")]

    fell = (with_figures(4), with_figures(1))
    sentences = compare(*fell, metrics=["EMS(LLM)"])["verdict"]
    assert sentences[1:] == [
        "Not compared: Figures Recall of “m”, which differs clearly (1.000 minus 0.250)."
    ]
    for same in (compare(*fell), compare(fell[0], fell[0], metrics=["EMS(LLM)"])):
        assert "Not compared" not in " ".join(same["verdict"])


def test_files_without_a_judged_metric_in_common_are_told_so(compare, tmp_path):
    figures = Figures(SideFigures(4, 3), SideFigures(4, 3))
    a = [replace(result, figures=figures) for result in answers_of("m")]
    judged = {"figures": figures, "signature": {"judge": "j"}}
    b = [ScoreResult(f"t{i}", "m", 0.5, **judged) for i in range(8)]
    tables = compare(a, b)
    assert set(tables["parts"]["metric"]) == {"Figures"}
    files = f"{tmp_path / 'a.jsonl'} has EMS(LLM) and {tmp_path / 'b.jsonl'} has Judge alone"
    warning = f"The files share no judged metric: {files}. Only Figures can be compared."
    assert tables["warning"] == warning
    assert "Only words and figures" not in " ".join(tables["verdict"])
    assert comparison_text(tables, "a.jsonl", "b.jsonl").startswith(warning)


def test_the_verdict_speaks_of_the_answers_that_both_files_have(compare):
    b = [*answers_of("m", 0.1)[:6], *answers_of("m", 0.6)[6:]]
    tables = compare(answers_of("m")[:6], b)
    assert tables["verdict"] == ["“b” has a clearly higher F1 than “a” (0.400 against 0.300)."]


def test_where_the_gate_fails_it_also_names_what_is_clearly_better(tmp_path, capsys):
    files = []
    for name, gain, shared in (("old", 0.25, 1), ("new", 0.0, 4)):
        figures = Figures(SideFigures(4, shared), SideFigures(4, shared))
        results = [replace(result, figures=figures) for result in answers_of("m", gain)]
        files.append(str(saved(tmp_path / name, results)))
    command = ["compare", *files, "--fail-on-regression"]
    gain = "m: Figures Precision was 0.250 and is 1.000, a clear gain: difference -0.750"
    assert main([*command, "--markdown"]) == 4
    page, errors = capsys.readouterr()
    assert f"ems: {gain}" in errors
    assert f"- {gain}" in page.partition("has failed.")[2]
    assert main([*command, "--metric", "Figures"]) == 0
    assert "a clear gain" not in "".join(capsys.readouterr())


def test_more_than_two_files_are_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "a.jsonl", "b.jsonl", "c.jsonl"])
    assert stopped.value.code == 2
    assert "unrecognized arguments: c.jsonl" in capsys.readouterr().err


def test_contradicted_points_are_compared_and_adjusted_as_any_part(compare):
    def coverage(contradicted, model, i):
        signature = {"coverage": "llm:kit", "judge": "j"}
        scores = (0.8, 0.0)
        given = {"contradicted": contradicted, "recall": 0.4, "precision": 0.4, "f1": 0.4}
        return CoverageResult(
            f"t{i}", model, ("a", "b"), ("x", "y"), scores, scores, signature=signature, **given
        )

    a = [coverage((0,), "m", i) for i in range(8)]
    b = [coverage((), "mn"[i % 2], i // 2) for i in range(16)]
    parts = compare(a, b)["parts"].set_index(["part", "model"])
    row = parts.loc["Contradicted", "m"]
    assert (row["a"], row["b"], row["p"], row["clear"]) == (0.5, 0.0, 2 / 2**8, True)
    assert row["p_holm"] == 2 * row["p"]
    assert parts.loc["Recall uncontradicted", "m"][["a", "b"]].tolist() == [0.0, 0.4]
    assert parts.loc["Missing", "m"][["a", "b"]].tolist() == [0.5, 0.5]
    text = comparison_text(compare(a, b), "a.jsonl", "b.jsonl")
    assert re.search(r" m +Contradicted .* a.jsonl \(worse\)", text)


def test_help_and_documentation_have_the_same_sign(capsys):
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("a minus b") == 2  # the command, and its second argument
    usage = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    assert "Differences are always a minus b" in usage
    assert "a minus b" in " ".join(str(ems.paired_table.__doc__).split())
    for text in (shown, usage):
        assert not re.search(r"\b(B less A|a less b|B minus A|b minus a)\b", text)


def test_no_side_is_called_higher_where_the_difference_is_not_clear(compare):
    tables = compare(answers_of("m", 0.5, n=2), answers_of("m", n=2))
    assert " not clear " in comparison_text(tables, "a.jsonl", "b.jsonl")
    assert f1_line(comparison_text(tables, "a", "b"))[2:6] == ["0.500", "0.500", "not", "clear"]


def test_the_text_names_the_answers_that_differ_most_and_cannot_steer_the_terminal(compare):
    model = "m\x1b[31m"
    tables = compare([*answers_of(model), *answers_of("n")], answers_of(model, 0.25))
    shown = comparison_text(tables, "old\x1b[31m.jsonl", "new.jsonl")
    assert "\x1b" not in shown
    assert shown.startswith("a is old\ufffd[31m.jsonl, b is new.jsonl.\n")
    assert len(re.findall(r"t\d 0.300 0.550 +-0.250", shown)) == 5


@pytest.mark.slow
def test_points_of_many_answers_are_never_all_in_memory(tmp_path):
    """Two files of 1,000 answers of 9 kB: the memory that an answer takes is a fraction of that."""

    def stream(gain):
        for i in range(1000):
            points = tuple(f"point {i} {j} " + "x" * 120 for j in range(30))
            match, scores = tuple(range(30)), (0.5 + gain,) * 30
            values = {"recall": 0.5, "precision": 0.5, "f1": 0.5 + gain, "group": f"g{i % 40}"}
            yield EMSResult(f"t{i}", "m", points, points, match, scores, **values, **SIGNED)

    files = [saved(tmp_path / str(gain), stream(gain)) for gain in (0, 0.1)]
    compare_results(*files)  # loads what is loaded once
    tracemalloc.start()
    tables = compare_results(*files)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert f1(tables)["n"] == 1000
    assert peak < 0.6 * sum(path.stat().st_size for path in files)
