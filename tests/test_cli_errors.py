"""The commands on bad input, at odd terminals, and when they are stopped."""

import json
import os
import signal
import subprocess
import sys

import pytest
from command_line import ANSWER, HOSTILE, check_refused, is_harmless, judge_options, read_results
from doubles import ROOT, until
from loopback import Loopback, by_words, error

from ems.cli import main
from ems.io import write_jsonl

# --- bad files, and files that would be lost ---


@pytest.mark.parametrize(
    ("which", "content", "words"),
    [
        ("t.jsonl", "not json", "line 1"),
        ("a.jsonl", json.dumps({"triplet_id": HOSTILE, "model": "m", "answer": "x"}), "red"),
    ],
)
def test_bad_files_are_one_line_and_exit_2(
    evaluate_command, tmp_path, capsys, which, content, words
):
    (tmp_path / which).write_text(content)
    (tmp_path / "out.jsonl").write_text("kept")
    assert is_harmless(check_refused(evaluate_command, capsys, words))
    assert (tmp_path / "out.jsonl").read_text() == "kept"


def test_the_last_answer_is_checked_before_the_judge_is_asked(evaluate_command, tmp_path, capsys):
    with open(evaluate_command[2], "a") as file:
        file.write(json.dumps({"triplet_id": "t0", "model": "m", "answer": "again"}))
    with Loopback(by_words) as server:
        check_refused(
            [*evaluate_command, *judge_options(server, tmp_path)], capsys, "line 9: a second row"
        )
        assert server.count == 0


@pytest.mark.parametrize("which", ["t.jsonl", "link", "s.sqlite"])
def test_an_output_that_is_also_read_is_refused_and_kept(evaluate_command, tmp_path, capsys, which):
    out = tmp_path / which
    if which == "link":
        out.symlink_to(tmp_path / "a.jsonl")
    before = out.read_bytes() if out.is_file() else None
    with Loopback(by_words) as server:
        check_refused(
            [*evaluate_command[:3], "-o", str(out), *judge_options(server, tmp_path)],
            capsys,
            "name a",
        )
        assert server.count == 0
    assert before == (out.read_bytes() if out.is_file() else None)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ["score", "--reference", "absent.txt", "--answer", "absent.txt"],
            "absent.txt cannot be read",
        ),
        (["reproduce", "--profile", "defualt"], "did you mean 'default'?"),
        (["reproduce", "-p", "RESAMPELS", "5"], "did you mean 'RESAMPLES'?"),
        (["reproduce", "--only", "99"], "'99'"),
        (["replies", "export", "x", "--store", "absent.sqlite"], "no such store"),
    ],
)
def test_other_bad_input_is_one_line_and_exit_2(command, words, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_refused(command, capsys, words)


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("ref.txt", " \n", 3, "the reference has no points"),
        (
            "ans.txt",
            "الإيرادات بلغت خمسة مليارات دولار هذا الربع",
            0,
            "1 of 1 answers: the local evaluator reads English, and a text is in ARABIC",
        ),
    ],
)
def test_what_has_no_value_or_a_doubtful_one_is_named(
    score_command, tmp_path, capsys, name, text, code, words
):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(score_command) == code
    assert words in capsys.readouterr().err


# --- the terminal ---


def test_a_terminal_without_a_character_is_no_error(score_command):
    done = subprocess.run(
        [sys.executable, "-m", "ems", *score_command],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_from_outside_cannot_move_the_cursor_and_long_ones_are_cut(
    evaluate_command, tmp_path, capsys
):
    models = [HOSTILE, "n" * 5000]
    write_jsonl(
        evaluate_command[2],
        [{"triplet_id": "t0", "model": model, "answer": ANSWER} for model in models],
    )
    assert main(evaluate_command) == 0
    output = capsys.readouterr()
    assert "red" in output.out
    assert "left 7 of 8" in output.err
    assert is_harmless(output.out + output.err)
    assert max(map(len, output.out.splitlines())) < 200
    assert [row["model"] for row in read_results(tmp_path)] == models  # the file has what came


def test_a_servers_words_cannot_move_the_cursor_and_a_pipe_gets_no_progress_bar(
    evaluate_command, tmp_path, capfd
):
    with Loopback(faults=lambda n, body: error(404, f"no such model {HOSTILE}")) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path)]) == 2
    message = capfd.readouterr().err
    assert "no such model" in message
    assert is_harmless(message)
    assert "\r" not in message


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_one_line_and_leaves_no_part(evaluate_command, tmp_path, sign):
    with Loopback(by_words, latency=30) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "ems", *evaluate_command, *judge_options(server, tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: server.count)
        process.send_signal(sign)
        message = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert message.startswith("ems: ")
    assert message.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if "out.jsonl" in path.name]
