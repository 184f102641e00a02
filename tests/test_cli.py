"""The command line as a stranger uses it: two files, JSON lines, and every kind of bad input."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Fault, Loopback

import ems.cli
from ems.cli import main

ROOT = Path(__file__).parent.parent
REFERENCE = "Revenue was $5 billion, up 10%. Gross margin was 46%. The dividend is $0.25 per share."
ANSWER = "Revenue rose 10% to $5 billion. The gross margin came to 46%."


@pytest.fixture
def pair(tmp_path):
    (tmp_path / "ref.txt").write_text(REFERENCE)
    (tmp_path / "ans.txt").write_text(ANSWER)
    return ["--reference", str(tmp_path / "ref.txt"), "--answer", str(tmp_path / "ans.txt")]


@pytest.fixture
def files(tmp_path):
    triplets = [{"id": f"t{i}", "group": "g", "question": "q", "reference": REFERENCE} for i in (1, 2)]
    answers = [{"triplet_id": f"t{i}", "model": "m", "answer": ANSWER} for i in (1, 2)]
    paths = []
    for name, rows in (("triplets.jsonl", triplets), ("answers.jsonl", answers)):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths.append(str(path))
    return paths


def test_score_prints_a_readable_alignment(pair, capsys):
    assert main(["score", *pair]) == 0
    out = capsys.readouterr().out
    assert "Gross margin was 46%." in out
    assert "recall" in out.lower()


def test_score_as_json_equals_the_python_result(pair, capsys):
    import ems

    assert main(["score", *pair, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ems.score_answer(REFERENCE, ANSWER).to_dict()


@pytest.mark.parametrize("scorer", ["rouge", "local", "local-pair"])
def test_scorers_without_a_judge(pair, capsys, scorer):
    assert main(["score", *pair, "--scorer", scorer, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert 0 < result["f1"] <= 1
    assert f"score:{scorer.split('-')[0]}" in result["signature"]


def test_score_imports_no_torch(pair):
    code = "import sys; from ems.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, "score", *pair], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_help_imports_nothing_heavy():
    code = ("import sys\nfrom ems.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
            "print([m for m in ('numpy', 'pandas', 'nltk', 'torch', 'openai', 'matplotlib', 'scipy') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_evaluate_writes_a_line_per_answer_and_a_table(files, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", *files, "-o", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["triplet_id"] for r in rows] == ["t1", "t2"]
    assert rows[0]["f1"] == rows[1]["f1"] > 0.5
    assert "Recall" in capsys.readouterr().out


def test_the_kits_own_fifty_questions_are_a_data_set_of_their_own(tmp_path, capsys, monkeypatch):
    written = tmp_path / "own.jsonl"
    assert main(["triplets", str(written)]) == 0
    own = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    assert len(own) == 50
    assert len({row["group"] for row in own}) == 10
    assert {row["id"]: row["question"][:9] for row in own}["NVDA-Q2"] == "NVIDIA (N"
    assert all("context" not in row for row in own)
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"triplet_id": own[7]["id"], "model": "m", "answer": own[7]["reference"]}) + "\n")
    monkeypatch.chdir(tmp_path)          # no file q3-2024 here: the name means the kit's own
    assert main(["evaluate", "q3-2024", str(answers), "-o", str(tmp_path / "out.jsonl")]) == 0
    assert json.loads((tmp_path / "out.jsonl").read_text())["f1"] == 1.0
    assert "left 49 of 50" in capsys.readouterr().err


def test_replies_round_trip(tmp_path, capsys):
    from ems.judge.store import Record, Replies

    store = tmp_path / "a.sqlite"
    Replies(store).put(Record(key="0" * 64, task="match", model="m", text="1"))
    assert main(["replies", "export", str(tmp_path / "r.jsonl"), "--store", str(store)]) == 0
    assert main(["replies", "import", str(tmp_path / "r.jsonl"), "--store", str(tmp_path / "b.sqlite")]) == 0
    assert main(["replies", "stats", "--store", str(tmp_path / "b.sqlite")]) == 0
    assert "1 imported" in capsys.readouterr().out.replace("imported: ", "")
    assert Replies(tmp_path / "b.sqlite").get("0" * 64).text == "1"


def bad(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(("triplets", "answers", "words"), [
    ('{"id": "a", "group": "g", "question": "q"}', None, "reference"),
    ('{"id": 1, "group": "g", "question": "q", "reference": "r"}', None, "id"),
    ('{"id": "a", "group": "g", "question": "q", "reference": "r"}\n' * 2, None, "'a'"),
    ("", None, "triplets.jsonl"),
    (b"\xff\xfe\x00bad", None, "UTF-8"),
    ("not json", None, "line 1"),
    (None, '{"triplet_id": "zzz", "model": "m", "answer": "x"}', "zzz"),
    (None, '{"triplet_id": "t1", "model": "m"}', "answer"),
    (None, '{"triplet_id": "t1", "model": "m", "answer": 3}', "answer"),
])
def test_bad_files_are_one_line_and_exit_2(files, tmp_path, capsys, triplets, answers, words):
    given = [files[0] if triplets is None else bad(tmp_path, "triplets.jsonl", triplets),
             files[1] if answers is None else bad(tmp_path, "answers.jsonl", answers)]
    out = tmp_path / "out.jsonl"
    out.write_text("kept")
    assert main(["evaluate", *given, "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error
    assert out.read_text() == "kept"


@pytest.mark.parametrize(("command", "words"), [
    (["reproduce", "--profile", "nonsense"], "no profile 'nonsense'"),
    (["reproduce", "--profile", "smoke", "-p", "NONSENSE", "1"], "NONSENSE"),
    (["reproduce", "--profile", "smoke", "-p", "RESAMPLES", "many"], "RESAMPLES must be int"),
    (["reproduce", "--profile", "smoke", "--only", "99"], "99"),
    (["replies", "stats", "--store", "/nowhere/at/all.sqlite"], "no such store"),
])
def test_bad_commands_are_one_line_and_exit_2(command, words, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error


@pytest.mark.parametrize(("typed", "value"), [("", ""), ('""', ""), ("7", 7), ("[AAPL]", ["AAPL"]), ("no", False)])
def test_a_parameter_is_yaml_and_nothing_is_an_empty_string(typed, value, monkeypatch):
    from ems.study import runner

    seen = {}
    monkeypatch.setattr(runner, "plan", lambda profile, *, only, given: seen.update(given))
    assert main(["reproduce", "--dry-run", "-p", "JUDGE", typed]) == 0
    assert seen == {"JUDGE": value}


@pytest.mark.parametrize("out", ["file/out.jsonl", "file/deeper/out.jsonl", "closed/out.jsonl"])
def test_a_place_that_cannot_be_written_is_one_line(files, tmp_path, capsys, out):
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir(mode=0o500)
    if out.startswith("closed") and os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("this user may write everywhere")
    assert main(["evaluate", *files, "-o", str(tmp_path / out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{tmp_path / out} cannot be written" in error
    assert main(["triplets", str(tmp_path / out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_disk_that_fills_while_results_are_written_is_one_line(files, tmp_path, capsys, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(ems.cli, "_slim", lambda result: (_ for _ in ()).throw(full))
    assert main(["evaluate", *files, "-o", str(tmp_path / "out.jsonl")]) == 2
    error = capsys.readouterr().err
    assert "the disk is full; make room and give the same command again" in error
    assert "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir() if "out.jsonl" in path.name] == []


def test_an_empty_reference_and_one_without_points(pair, tmp_path, capsys, monkeypatch):
    (tmp_path / "empty.txt").write_text(" \n")
    assert main(["score", "--reference", str(tmp_path / "empty.txt"), "--answer", pair[3]]) == 2
    assert capsys.readouterr().err == f"ems: {tmp_path / 'empty.txt'} is empty; nothing can be scored against it\n"
    from doubles import ScriptedJudge

    import ems.judge.client
    monkeypatch.setattr(ems.judge.client, "LLMJudge", lambda *a, **k: ScriptedJudge('{"points": []}', '{"points": ["a"]}'))
    assert main(["score", *pair, "--judge", "m", "--store", str(tmp_path / "s.sqlite")]) == 3
    assert "ems: nothing could be scored: " in capsys.readouterr().err


def test_what_was_not_read_is_said_with_the_servers_words(pair, tmp_path, capsys):
    refused = Fault(400, {"error": {"message": "Invalid model: m"}})
    with Loopback(faults=lambda n, body: refused) as server:
        assert main(["score", *pair, "--judge", "m", "--base-url", server.url, "--store", str(tmp_path / "s.sqlite")]) == 3
    assert "Without a usable reply: extract: http 400 2 (Invalid model: m)" in capsys.readouterr().err


def test_a_replay_over_a_recording_does_not_speak_of_batch_files(pair, tmp_path, capsys):
    (tmp_path / "r.jsonl").write_text("")
    assert main(["score", *pair, "--judge", "m", "--mode", "replay", "--store", str(tmp_path / "r.jsonl")]) == 2
    error = capsys.readouterr().err
    assert "name a .sqlite store and give this one as recorded replies (--recorded)" in error
    assert "--pending" not in error


def test_a_directory_and_a_missing_file(pair, tmp_path, capsys):
    assert main(["score", "--reference", str(tmp_path), "--answer", pair[3]]) == 2
    assert "directory" in capsys.readouterr().err
    assert main(["score", "--reference", "absent.txt", "--answer", pair[3]]) == 2
    assert "no such file" in capsys.readouterr().err.lower()


def test_an_unreachable_judge_is_one_line(pair, tmp_path, capsys):
    status = main(["score", *pair, "--judge", "m", "--base-url", "http://127.0.0.1:9/v1", "--store", str(tmp_path / "s.sqlite")])
    assert status == 2
    error = capsys.readouterr().err
    assert "127.0.0.1:9" in error
    assert error.count("ems: ") == 1
    assert "Traceback" not in error


def test_a_replay_without_replies_says_what_is_missing(pair, tmp_path, capsys):
    status = main(["score", *pair, "--judge", "m", "--mode", "replay", "--store", str(tmp_path / "s.sqlite")])
    assert status == 2
    assert "2 replies of m are not saved: 2 extract" in capsys.readouterr().err


@pytest.mark.slow
def test_a_five_megabyte_answer(tmp_path, capsys):
    reference, answer = tmp_path / "r.txt", tmp_path / "a.txt"
    reference.write_text(REFERENCE)
    answer.write_text("Revenue was $5 billion in one of many quarters. " * 110_000)
    assert main(["score", "--reference", str(reference), "--answer", str(answer), "--scorer", "rouge", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recall"] > 0


def test_low_coverage_is_exit_3(pair, tmp_path, monkeypatch, capsys):
    from doubles import ScriptedJudge

    import ems.judge.client
    points = '{"points": ["Revenue was $5 billion."]}'
    replies = iter([points, points, "no idea"])
    monkeypatch.setattr(ems.judge.client, "LLMJudge", lambda *a, **k: ScriptedJudge(*replies))
    assert main(["score", *pair, "--judge", "m", "--store", str(tmp_path / "s.sqlite")]) == 3
    assert "1 of 1 points are unscored" in capsys.readouterr().err


def test_the_installed_command_runs():
    command = Path(sys.executable).parent / "ems"
    if not command.exists():
        pytest.skip("the package is not installed with its command")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env={**os.environ})
    assert "reproduce" in done.stdout
