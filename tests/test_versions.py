"""Three versions of a system: right in other words, wrong figures, right and short.

The wrong version has most of the reference's words. Without a judge no output may name it as
better; with a judge the report's first sentence names the right one.
"""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from html import unescape
from statistics import mean

import pytest
from doubles import ROOT, recorded

import ems
from ems.cli import main
from ems.io import parse_jsonl, read_lines
from ems.types import WITHOUT_JUDGE

FOLDER = ROOT / "data" / "versions"
REPLIES = FOLDER / "replies.jsonl"
TRIPLETS = ems.load_triplets(FOLDER / "triplets.jsonl")
ANSWERS = ems.load_answers(FOLDER / "answers.jsonl")
RIGHT, WRONG, SHORT = "reworded", "wrong figures", "short"
VERSION = f"{RIGHT}|{WRONG}|{SHORT}"


@pytest.fixture(scope="module")
def results():
    return ems.build().evaluate(TRIPLETS, ANSWERS)


@pytest.fixture(scope="module")
def results_file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("versions") / "results.jsonl")
    assert main([*evaluate_into(path), "--json"]) == 0
    return path


def evaluate_into(path):
    files = [str(FOLDER / name) for name in ("triplets.jsonl", "answers.jsonl")]
    return ["evaluate", *files, "-o", path]


def of_model(results, model):
    return [result for result in results if result.model == model]


# --- the data ---


def test_twelve_companies_have_references_of_one_size():
    assert len({triplet.group for triplet in TRIPLETS}) == len(TRIPLETS) == 12
    assert len(ANSWERS) == 36
    for triplet in TRIPLETS:
        assert 100 <= len(triplet.reference.split()) <= 150


def test_the_wrong_version_has_the_words_of_the_reference_and_not_its_figures(results):
    for wrong in of_model(results, WRONG):
        assert wrong.figures.ans.share <= 0.8
        assert 10 <= wrong.figures.ref.count <= 16
    for version in (RIGHT, WRONG):
        assert len(of_model(results, version)) == 12
    assert mean_of(results, WRONG, "f1") > mean_of(results, RIGHT, "f1") + 0.2


def mean_of(results, model, field):
    return mean(getattr(result, field) for result in of_model(results, model))


# --- what tells them apart ---


def test_figures_tell_the_wrong_version_from_the_right_ones(results):
    for right in of_model(results, RIGHT):
        assert (right.figures.ref.share, right.figures.ans.share) == (1, 1)
        assert right.figures.ref.lacking == right.figures.ans.lacking == ()
    for short in of_model(results, SHORT):
        assert short.figures.ans.share == 1
    for wrong in of_model(results, WRONG):
        assert wrong.figures.ref.lacking
        assert wrong.figures.ans.lacking


def test_the_documentation_has_the_values(results):
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    for model in (RIGHT, WRONG, SHORT):
        figures = [result.figures for result in of_model(results, model)]
        recall = mean(sides.ref.share for sides in figures)
        precision = mean(sides.ans.share for sides in figures)
        f1 = mean_of(results, model, "f1")
        assert f"| {model} | {f1:.2f} | {recall:.2f} | {precision:.2f} |" in page


# --- what the outputs say ---


def test_a_judge_is_missed_first_on_the_screen_and_in_every_row(tmp_path, capsys):
    out = str(tmp_path / "results.jsonl")
    assert main(evaluate_into(out)) == 0
    assert capsys.readouterr().out.startswith(f"{WITHOUT_JUDGE}\n")
    assert main([*evaluate_into(out), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["warning"] for row in rows} == {WITHOUT_JUDGE}
    assert {row["model"] for row in rows} == {RIGHT, WRONG, SHORT}


@pytest.mark.parametrize("model", [RIGHT, WRONG, SHORT])
def test_one_answer_is_shown_with_the_warning(model, tmp_path, capsys):
    answers = [answer for answer in ANSWERS if answer.model == model]
    (tmp_path / "reference.txt").write_text(TRIPLETS[0].reference)
    (tmp_path / "answer.txt").write_text(answers[0].answer)
    command = ["score", "--reference", str(tmp_path / "reference.txt")]
    command += ["--answer", str(tmp_path / "answer.txt")]
    assert main(command) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(WITHOUT_JUDGE)
    assert ("not in the reference]" in text) == (model == WRONG)
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warning"] == WITHOUT_JUDGE


def test_the_report_warns_before_its_first_table_and_on_the_screen(results_file, capsys):
    page = results_file.replace(".jsonl", ".html")
    assert main(["report", results_file, "-o", page]) == 0
    output = capsys.readouterr()
    assert output.out.strip() == page
    assert output.err == f"{WITHOUT_JUDGE}\n"
    with open(page, encoding="utf-8") as file:
        html = file.read()
    assert 0 < html.find(WITHOUT_JUDGE) < html.find("<table")
    higher = column_of(html, "higher")
    assert f"{WRONG}, in words" in higher
    assert not higher & {RIGHT, WRONG, SHORT}


def column_of(html, name):
    """The cells of the table that has a column of this name."""
    (table,) = [table for table in html.split("<table")[1:] if f"<th>{name}</th>" in table]
    column = re.findall("<th>(.*?)</th>", table).index(name)
    rows = [re.findall("<td>(.*?)</td>", row) for row in table.split("</table>")[0].split("<tr>")]
    return {cells[column] for cells in rows if cells}


def winners(text):
    """What the column `higher` says, by metric, part and pair of versions."""
    row = re.compile(
        rf"(Coverage\(local\)|Figures) +(\w+) +({VERSION}) +({VERSION}) .*"
        rf"(not clear|(?:{VERSION})(?: \(worse\))?(?:, in \w+)?) +12 +12"
    )
    return {found.groups()[:4]: found[5] for found in map(row.search, text.splitlines()) if found}


def test_a_comparison_names_the_wrong_version_in_words_alone(results_file, capsys):
    assert main(["compare", results_file]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{WITHOUT_JUDGE}\n")
    higher = winners(text)
    assert higher["Coverage(local)", "F1", WRONG, RIGHT] == f"{WRONG}, in words"
    for part in ("Recall", "Precision"):
        assert higher["Figures", part, WRONG, RIGHT] == f"{RIGHT}, in figures"
    assert higher["Figures", "Precision", SHORT, WRONG] == f"{SHORT}, in figures"
    assert not set(higher.values()) & {RIGHT, WRONG, SHORT}
    assert main(["compare", results_file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warning"] == WITHOUT_JUDGE


def test_one_version_a_file_is_compared_with_the_same_warning(results_file, tmp_path, capsys):
    files = {}
    with open(results_file, encoding="utf-8") as file:
        lines = file.readlines()
    for name, model in (("right", RIGHT), ("wrong", WRONG)):
        files[name] = str(tmp_path / f"{name}.jsonl")
        own = [line.replace(model, "system") for line in lines if f'"model": "{model}"' in line]
        (tmp_path / f"{name}.jsonl").write_text("".join(own))
    assert main(["compare", files["right"], files["wrong"]]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{WITHOUT_JUDGE}\n")
    assert re.search(r"Coverage\(local\) .* F1 .*wrong\.jsonl, in words", text)
    assert len(re.findall(r"Figures .*right\.jsonl, in figures", text)) == 2
    assert not re.search(r"Figures .*wrong\.jsonl, in figures", text)


# --- with a judge ---


def judged(scorer, tmp_path):
    """The three versions' results by the recorded judge, in a file."""
    out = str(tmp_path / "judged.jsonl")
    assert main(judge_command(scorer, out, tmp_path)) == 0
    return out


def judge_command(scorer, out, tmp_path, answers=FOLDER / "answers.jsonl"):
    command = ["evaluate", str(FOLDER / "triplets.jsonl"), str(answers), "-o", out]
    command += ["--scorer", scorer, "--store", str(tmp_path / "store.sqlite")]
    if scorer == "llm":
        command.append("--joint")
    command += ["--judge", "large-llm-2026-11", "--mode", "replay", "--recorded", str(REPLIES)]
    return [*command, "--temperature", "none", "--seed", "none"]


@pytest.mark.parametrize(
    ("scorer", "value"), [("llm", "F1"), ("coverage", "F1"), ("judge", "score")]
)
def test_the_reports_first_sentence_names_the_right_version(scorer, value, tmp_path):
    page = tmp_path / "report.html"
    assert main(["report", judged(scorer, tmp_path), "-o", str(page)]) == 0
    text = unescape(page.read_text(encoding="utf-8"))
    head = text[: text.find("<table")]
    first = re.search(r"“[^”]+” has a clearly higher [^.]*", head)[0]
    assert first.startswith(f"“{RIGHT}” has a clearly higher {value} than ")
    assert f"“{WRONG}”" in first
    assert f"“{SHORT}”" in first


def test_a_version_that_contradicts_points_is_not_said_to_state_them(tmp_path, capsys):
    wrong = tmp_path / "wrong.jsonl"
    ems.io.write_jsonl(wrong, [asdict(answer) for answer in ANSWERS if answer.model == WRONG])
    out = str(tmp_path / "judged.jsonl")
    assert main([*judge_command("coverage", out, tmp_path, wrong), "--markdown"]) == 0
    assert "“wrong figures” states 39 % of what the references say" in capsys.readouterr().out


def test_recall_without_contradicted_points_is_drawn_where_there_are_any(tmp_path):
    page = tmp_path / "report.html"
    for scorer, is_drawn in (("coverage", True), ("llm", False)):
        assert main(["report", judged(scorer, tmp_path), "-o", str(page)]) == 0
        text = page.read_text(encoding="utf-8")
        assert ('<th scope="col">Recall uncontradicted<' in text) == is_drawn


def test_what_is_missing_may_be_stated_with_other_figures(tmp_path, capsys):
    out = judged("llm", tmp_path)
    note = "they are left out, or stated with other figures (see Figures)"
    assert note in capsys.readouterr().out
    assert main(["compare", out]) == 0
    assert note in capsys.readouterr().out


def test_the_recorded_replies_give_the_values_of_the_documentation():
    judge = recorded("versions/replies.jsonl")
    points = ems.build(judge, joint=True).evaluate(TRIPLETS, ANSWERS)
    coverage = ems.build(judge, "coverage").evaluate(TRIPLETS, ANSWERS)
    numbers = ems.build(judge, "judge").evaluate(TRIPLETS, ANSWERS)
    assert all(result.unscored == 0 for result in [*points, *coverage, *numbers])
    keys = {row["key"] for _, row in parse_jsonl(read_lines(REPLIES), REPLIES)}
    assert keys == judge.keys.keys()  # no reply is left over
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    for model in (RIGHT, WRONG, SHORT):
        row = re.search(rf"^\| {model} \|.*$", page, re.M)[0]
        covered = of_model(coverage, model)
        contradicted = sum(len(result.contradicted) for result in covered)
        count = sum(len(result.ref_points) for result in covered)
        means = f"{mean_of(points, model, 'f1'):.2f} | {mean_of(coverage, model, 'f1'):.2f}"
        assert row.endswith(f"| {means} | {contradicted} of {count} |")
        assert (contradicted > 0) == (model == WRONG)


def test_the_stand_in_for_a_judge_prints_the_command_of_the_page():
    server = subprocess.Popen(
        [sys.executable, "tests/loopback.py"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    address, hint = server.stdout.readline().strip(), server.stdout.readline().strip()
    server.terminate()
    server.communicate()
    command = hint.partition("shell: ")[2].replace(address, "ADDRESS")
    assert f"`{command}`" in (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
