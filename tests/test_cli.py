"""The commands as a user types them: files in, tables and files out; options and help."""

import csv
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from command_line import (
    ANSWER,
    REFERENCE,
    check_refused,
    read_results,
)

import ems
from ems.cli import main
from ems.io import write_jsonl
from ems.types import WITHOUT_JUDGE


def test_score_shows_an_alignment_and_as_json_the_python_result(score_command, capsys):
    assert main(score_command) == 0
    output = capsys.readouterr().out
    assert "Gross margin was 46%." in output
    assert "recall" in output.lower()
    assert main([*score_command, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output.pop("metric") == "Coverage(local)"
    assert output.pop("warning") == WITHOUT_JUDGE
    assert output == json.loads(json.dumps(ems.score_answer(REFERENCE, ANSWER).to_dict()))


def test_score_and_help_load_nothing_heavy(score_command):
    heavy = (
        "numpy",
        "pandas",
        "nltk",
        "torch",
        "openai",
        "matplotlib",
        "scipy",
        "pydantic",
        "yaml",
    )
    code = (
        "import sys\nfrom ems.cli import main\ntry: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    for command in (["--help"], score_command):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]"


# --- evaluate ---


def test_evaluate_writes_a_line_an_answer_and_shows_means_first(evaluate_command, tmp_path, capsys):
    assert main(evaluate_command) == 0
    rows = read_results(tmp_path)
    assert [(r["metric"], r["triplet_id"], r["question"], r["group"]) for r in rows] == [
        ("Coverage(local)", f"t{i}", f"q{i}", f"g{i // 2}") for i in range(8)
    ]
    warning, heads, cells = capsys.readouterr().out.splitlines()[:3]
    assert warning == WITHOUT_JUDGE
    assert heads.split() == [
        "model",
        "metric",
        "Precision",
        "Recall",
        "F1",
        "Missing",
        "Refused",
        "n",
        "clusters",
        "scored",
    ]
    assert cells.split()[:2] == ["m", "Coverage(local)"]
    assert cells.endswith("100 %")
    assert main([*evaluate_command, "--cluster", "triplet_id", "--json"]) == 0
    table = {row["part"]: row for row in json.loads(capsys.readouterr().out)}
    assert {row["warning"] for row in table.values()} == {WITHOUT_JUDGE}
    assert table["F1"]["value"] == pytest.approx(rows[0]["f1"])
    assert (table["F1"]["ci_low"], table["F1"]["n"]) == (pytest.approx(rows[0]["f1"]), 8)


def test_answers_come_through_a_pipe_as_from_a_file(evaluate_command, tmp_path):
    assert main(evaluate_command) == 0
    of_file = read_results(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(
        target=pipe.write_bytes, args=[Path(evaluate_command[2]).read_bytes()], daemon=True
    ).start()
    assert main([*evaluate_command[:2], str(pipe), *evaluate_command[3:]]) == 0
    assert read_results(tmp_path) == of_file


def test_results_go_on_to_the_report_the_comparison_and_the_agreement_with_their_groups(
    evaluate_command, tmp_path, capsys
):
    out = evaluate_command[-1]
    assert main(evaluate_command) == 0
    assert main(["report", out, "-o", str(tmp_path / "r.html")]) == 0
    assert "Content-Security-Policy" in (tmp_path / "r.html").read_text(encoding="utf-8")
    page = ["report", out, "-o", str(tmp_path / "r.html"), "--title", "Two versions"]
    texts = ["--triplets", evaluate_command[1], "--answers", evaluate_command[2]]
    assert main([*page, *texts]) == 0
    assert "<h1>Two versions</h1>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert check_refused([*page, *texts[:2]], capsys, "need both --triplets and --answers")
    assert main(["compare", out, out, "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert {row["part"] for row in parts} == {"F1", "Precision", "Recall", "Missing", "Refused"}
    assert {row["metric"] for row in parts} == {"Coverage(local)", "Figures"}
    assert {(row["difference"], row["clusters"]) for row in parts} == {(0, 4)}
    assert check_refused(["compare", out, out, "--metric", "nonsense"], capsys, "nonsense")
    assert check_refused(["compare", out], capsys, "one file needs two models")
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["triplet_id", "model", "label"], *([f"t{i}", "m", i % 2] for i in range(8))]
        )
    assert main(["agree", out, str(tmp_path / "labels.csv")]) == 0
    assert "Coverage(local)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc"
)
def test_twenty_thousand_answers_fit_into_170_mib(tmp_path):
    rows = [
        {
            "id": f"t{i}",
            "group": f"g{i % 50}",
            "question": "q",
            "reference": REFERENCE * 4,
            "context": "c" * 5000,
        }
        for i in range(20_000)
    ]
    write_jsonl(tmp_path / "t.jsonl", rows)
    write_jsonl(
        tmp_path / "a.jsonl",
        [
            {"triplet_id": row["id"], "model": "m", "answer": ANSWER * 4 + " " * 5000}
            for row in rows
        ],
    )
    # pandas loads pyarrow where it is installed, which the kit does not ask for: 34 MiB.
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from ems.cli import main; assert main(sys.argv[1:]) == 0\n"
        "print(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "evaluate", "t.jsonl", "a.jsonl", "-o", "o.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(re.search(r"VmHWM:\s+(\d+)", done.stdout)[1]) / 1024 < 170


# --- stages and metrics of one's own ---


OWN = """
def words(references, answers): return [len(set(r.split()) & set(a.split())) / len(r.split()) for r, a in zip(references, answers)]
def pairs(pairs): return [0.25 for _ in pairs]
def lines(texts): return [text.split(". ") for text in texts]
def first(sides): return [[0 for _ in reference] for reference, answer in sides]
"""


@pytest.fixture
def own_functions(tmp_path, monkeypatch):
    """Functions of one's own, in a module in the working folder."""
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)


@pytest.mark.parametrize(
    ("options", "metric", "value"),
    [
        (["--metric", "mine:words"], "words", ("value", 5 / 16)),
        (
            ["--scorer", "mine:pairs", "--extractor", "mine:lines", "--matcher", "mine:first"],
            "EMS(",
            ("recall", 0.25),
        ),
    ],
)
def test_an_import_path_stands_in_for_a_stage_or_for_all(
    evaluate_command, own_functions, tmp_path, options, metric, value
):
    assert main([*evaluate_command, *options]) == 0
    assert metric in read_results(tmp_path)[0]["metric"]
    assert read_results(tmp_path)[0][value[0]] == pytest.approx(value[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scorer", "mine:pars"], "no attribute 'pars'"),
        (["--scorer", "rogue"], "did you mean 'rouge'"),
        (["--support", "llm"], "--support llm asks a judge"),
        (["--metric", "mine:words", "--support", "llm"], "has none; leave it out"),
        (["--metric", "mine:words", "--scorer", "rouge"], "--metric takes the place of"),
        (["--metric", "mine:words", "--judge", "m"], "--metric takes the place of"),
        (["--metric", "mine:words", "--joint"], "--metric takes the place of"),
        (["--metric", "mine:words", "--extractor", "mine:lines"], "--metric takes the place of"),
        (["--metric", "mine:words", "--matcher", "mine:first"], "--metric takes the place of"),
        (["--metric", "mine:words", "--encoder", "e"], "--metric takes the place of"),
        (["--judge", "m", "--prompts", "nobodys"], "no prompt set 'nobodys'"),
        (["--judge", "m", "--workers", "0"], "workers"),
        (["--judge", "m", "--spend-limit", "5"], "needs prices"),
        (["--judge", "m", "--prices", "bad.yaml"], "is not YAML"),
        (["--judge", "m", "--key-env", "NO_SUCH_KEY"], "no key in NO_SUCH_KEY"),
        (["--judge", "m", "--scheduler", "tcp://localhost:1"], "without a judge"),
        (["--mode", "replay"], "--mode needs a judge"),
        (["--seed", "none"], "--seed needs a judge"),
        (["--dry-run"], "--dry-run needs a judge"),
        (["--joint"], "without a judge has no use for joint"),
        (["--max-score", "5"], "has no use for max_score"),
        (["--prompts", "kit"], "without a judge has no use for prompts"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(
    evaluate_command, own_functions, tmp_path, capsys, options, words
):
    (tmp_path / "bad.yaml").write_text("a: [")
    check_refused([*evaluate_command, *options], capsys, words)
    assert not (tmp_path / "out.jsonl").exists()


# --- help and near misses ---


PAIR = ["score", "--reference", "r", "--answer", "a"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--version"], 0, f"ems {ems.__version__}"),
        *(
            ([command, "-h"], 0, f"example: ems {command}")
            for command in (
                "score",
                "evaluate",
                "report",
                "compare",
                "label",
                "agree",
                "replies",
                "reproduce",
            )
        ),
        (["evalute"], 2, "evaluate"),
        (["replies", "exprot", "f"], 2, "export"),
        ([], 2, "COMMAND"),
        ([*PAIR, "--temp", "1"], 2, "unrecognized arguments: --temp"),
        ([*PAIR, "--seed", "x"], 2, "'x'"),
        (["compare", "a", "b", "--cluster", "groups"], 2, "invalid choice"),
    ],
)
def test_every_command_has_a_help_with_an_example_and_what_is_not_understood_is_named(
    arguments, code, words, capsys
):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    output = capsys.readouterr()
    assert stop.value.code == code
    assert words in (output.err.splitlines()[-1] if code else output.out)
