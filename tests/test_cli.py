"""The command line as a stranger uses it: two files, JSON lines, and every kind of bad input."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import Fault, Loopback, completion
from scripted import judgeable, judged

import ems.commands.evaluate
import ems.commands.judging
from ems.cli import main
from ems.io import write_jsonl
from ems.judge.store import Replies

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


@pytest.mark.parametrize("scorer", ["rouge", "bleu", "local", "local-pair"])
def test_scorers_without_a_judge(pair, capsys, scorer):
    assert main(["score", *pair, "--scorer", scorer, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert 0 < result["f1"] <= 1
    assert f"score:{scorer.split('-')[0]}" in result["signature"]


def test_score_imports_no_torch(pair):
    code = "import sys; from ems.cli import main; main(sys.argv[1:]); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "score", *pair], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom ems.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('numpy', 'pandas', 'nltk', 'torch', 'openai', 'matplotlib', 'scipy', 'pydantic')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
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
    answers.write_text(
        json.dumps({"triplet_id": own[7]["id"], "model": "m", "answer": own[7]["reference"]}) + "\n"
    )
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


@pytest.mark.parametrize(
    ("typed", "value"), [("", ""), ('""', ""), ("7", 7), ("[AAPL]", ["AAPL"]), ("no", False)]
)
def test_a_parameter_is_yaml_and_nothing_is_an_empty_string(typed, value, monkeypatch):
    from ems.study.run import runner

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
    monkeypatch.setattr(ems.commands.evaluate, "_slim", lambda result: (_ for _ in ()).throw(full))
    assert main(["evaluate", *files, "-o", str(tmp_path / "out.jsonl")]) == 2
    error = capsys.readouterr().err
    assert "the disk is full; make room and give the same command again" in error
    assert "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir() if "out.jsonl" in path.name] == []


def test_an_empty_reference_and_one_without_points(pair, tmp_path, capsys, monkeypatch):
    (tmp_path / "empty.txt").write_text(" \n")
    assert main(["score", "--reference", str(tmp_path / "empty.txt"), "--answer", pair[3]]) == 2
    assert (
        capsys.readouterr().err
        == f"ems: {tmp_path / 'empty.txt'} is empty; nothing can be scored against it\n"
    )
    from doubles import ScriptedJudge


    monkeypatch.setattr(
        ems.commands.judging, "LLMJudge", lambda *a, **k: ScriptedJudge('{"points": []}', '{"points": ["a"]}')
    )
    assert main(["score", *pair, "--judge", "m", "--store", str(tmp_path / "s.sqlite")]) == 3
    assert "ems: nothing could be scored: " in capsys.readouterr().err


def test_a_model_that_thinks_first_needs_tokens_for_it(pair, tmp_path, capsys):
    def thinking(body):
        return judged(body) if body["max_tokens"] > 2000 else completion("", body, "length")
    with Loopback(thinking) as server:
        command = ["score", *pair, "--judge", "m", "--base-url", server.url, "--store", str(tmp_path / "s.sqlite")]
        assert main(command) == 3
        assert "extract: length 2" in (said := capsys.readouterr().err)
        assert "give --thinking-tokens" in said
        assert main([*command, "--thinking-tokens", "2000"]) == 0
    assert "|thinking_tokens:2000" in capsys.readouterr().out.replace("\n", "")


def test_what_was_not_read_is_said_with_the_servers_words(pair, tmp_path, capsys):
    refused = Fault(400, {"error": {"message": "Invalid model: m"}})
    with Loopback(faults=lambda n, body: refused) as server:
        store = str(tmp_path / "s.sqlite")
        command = ["score", *pair, "--judge", "m", "--base-url", server.url, "--store", store]
        assert main(command) == 3
    assert "Without a usable reply: extract: http 400 2 (Invalid model: m)" in capsys.readouterr().err


def test_a_replay_over_a_recording_does_not_speak_of_batch_files(pair, tmp_path, capsys):
    (tmp_path / "r.jsonl").write_text("")
    assert (
        main(["score", *pair, "--judge", "m", "--mode", "replay", "--store", str(tmp_path / "r.jsonl")]) == 2
    )
    error = capsys.readouterr().err
    assert "name a .sqlite store and give this one as recorded replies (--recorded)" in error
    assert "--pending" not in error


def test_a_directory_and_a_missing_file(pair, tmp_path, capsys):
    assert main(["score", "--reference", str(tmp_path), "--answer", pair[3]]) == 2
    assert "directory" in capsys.readouterr().err
    assert main(["score", "--reference", "absent.txt", "--answer", pair[3]]) == 2
    assert "no such file" in capsys.readouterr().err.lower()


def test_an_unreachable_judge_is_one_line(pair, tmp_path, capsys):
    address, store = "http://127.0.0.1:9/v1", str(tmp_path / "s.sqlite")
    assert main(["score", *pair, "--judge", "m", "--base-url", address, "--store", store]) == 2
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
    assert (
        main(["score", "--reference", str(reference), "--answer", str(answer), "--scorer", "rouge", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["recall"] > 0


def test_lost_answers_are_exit_3_however_few_points_they_count(tmp_path, capsys):
    triplets, answers = judgeable(8)
    asked = [str(write_jsonl(tmp_path / "t.jsonl", triplets)), str(write_jsonl(tmp_path / "a.jsonl", answers))]
    def reply(body):
        text = body["messages"][-1]["content"]
        return "no list" if text.startswith("Break") and triplets[3].reference[:60] in text else judged(body)
    with Loopback(reply) as server:
        assert main(["evaluate", *asked, "-o", str(tmp_path / "o"), "--judge", "m", "--base-url", server.url,
                     "--store", str(tmp_path / "s.sqlite")]) == 3
    out, err = capsys.readouterr()
    assert "1 of 127 points are unscored, 1 of 8 answers altogether;" in err
    assert " 99.2 %" in out


def test_a_terminal_without_a_character_is_no_error(pair):
    done = subprocess.run([sys.executable, "-m", "ems", "score", *pair], capture_output=True,
                          env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0
    assert b"EMS-F1 = 2 ? " in done.stdout


def test_low_coverage_is_exit_3(pair, tmp_path, monkeypatch, capsys):
    from doubles import ScriptedJudge

    points = '{"points": ["Revenue was $5 billion."]}'
    replies = iter([points, points, "no idea"])
    monkeypatch.setattr(ems.commands.judging, "LLMJudge", lambda *a, **k: ScriptedJudge(*replies))
    assert main(["score", *pair, "--judge", "m", "--store", str(tmp_path / "s.sqlite")]) == 3
    assert "1 of 1 points are unscored" in capsys.readouterr().err


def test_the_installed_command_runs():
    command = Path(sys.executable).parent / "ems"
    if not command.exists():
        pytest.skip("the package is not installed with its command")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env={**os.environ})
    assert "reproduce" in done.stdout


# ---- what would be lost or ignored is refused ----------------------------------------------------

def test_results_do_not_take_the_place_of_a_store_that_is_yet_to_be_made(files, tmp_path, capsys):
    out = tmp_path / "new.sqlite"
    with Loopback(judged) as server:
        assert main(["evaluate", *files, "-o", str(out), "--judge", "m", "--base-url", server.url,
                     "--store", str(tmp_path / "." / "new.sqlite")]) == 2
        assert server.count == 0
    assert "would be lost" in capsys.readouterr().err


@pytest.mark.parametrize("which", ["triplets", "answers", "link", "store"])
def test_an_output_that_is_also_read_is_refused_and_kept(files, tmp_path, capsys, which):
    inputs = dict(zip(("triplets", "answers"), files, strict=True))
    out = Path(inputs.get(which, tmp_path / which))
    if which == "link":
        out.symlink_to(files[1])
    if which == "store":
        out.write_text("replies that were paid for")
    before = out.read_bytes()
    assert (
        main(["evaluate", *files, "-o", str(out), *(["--store", str(out)] if which == "store" else [])]) == 2
    )
    error = capsys.readouterr().err
    assert "give another file to write" in error
    assert error.count("\n") == 1
    assert out.read_bytes() == before


def test_exporting_replies_over_their_store_is_refused(tmp_path, capsys):
    from ems.judge.store import Record, Replies

    store = tmp_path / "a.sqlite"
    Replies(store).put(Record(key="0" * 64, task="match", model="m", text="1"))
    assert main(["replies", "export", str(store), "--store", str(store)]) == 2
    assert "give another file" in capsys.readouterr().err
    assert len(Replies(store)) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--spend-limit", "5"], ["--base-url", "nonsense"], ["--prices", "1,2"], ["--mode", "replay"],
        ["--weights", "w"], ["--key-env", "KEY"], ["--recorded", "r.jsonl"], ["--timeout", "5"],
        ["--max-score", "5"], ["--seed", "none"],
    ],
)
def test_a_judges_option_without_a_judge_is_refused(files, pair, tmp_path, capsys, options):
    for command in (["score", *pair], ["evaluate", *files, "-o", str(tmp_path / "o")]):
        assert main([*command, *options]) == 2
        error = capsys.readouterr().err
        assert options[0] in error
        assert "--judge" in error
        assert error.count("\n") == 1


def test_a_nonsense_address_of_a_judge_is_refused(pair, tmp_path, capsys):
    assert (
        main(
            ["score", *pair, "--judge", "m", "--base-url", "nonsense", "--store", str(tmp_path / "s.sqlite")]
        )
        == 2
    )
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--seed", "x"], ["--max-score", "0"], ["--max-score", "many"], ["--prices", "1"]]
)
def test_a_value_that_is_off_the_menu_says_what_is_needed(pair, capsys, option):
    with pytest.raises(SystemExit) as stop:
        main(["score", *pair, "--judge", "m", *option])
    assert stop.value.code == 2
    assert f"needed, got '{option[1]}'" in capsys.readouterr().err


# ---- settings that reach the judge ---------------------------------------------------------------

def test_settings_reach_the_judge(pair, tmp_path, monkeypatch):
    from doubles import ScriptedJudge

    given = {}
    def judge(name, **settings):
        given.update(settings)
        return ScriptedJudge('{"points": ["a"]}', '{"points": ["a"]}', "0", "4")
    monkeypatch.setattr(ems.commands.judging, "LLMJudge", judge)
    monkeypatch.setenv("MY_KEY", "a planted key")
    assert main(["score", *pair, "--judge", "m", "--weights", "sha256:1", "--seed", "none", "--timeout", "9",
                 "--key-env", "MY_KEY", "--max-score", "5", "--store", str(tmp_path / "s.sqlite")]) == 0
    assert {k: given[k] for k in ("weights", "seed", "timeout", "api_key")} == {
        "weights": "sha256:1", "seed": None, "timeout": 9.0, "api_key": "a planted key"}


def test_the_best_score_reaches_the_scorer(pair, tmp_path, monkeypatch, capsys):
    from doubles import ScriptedJudge

    replies = ['{"points": ["a"]}', '{"points": ["a"]}', '0', "4"]
    monkeypatch.setattr(ems.commands.judging, "LLMJudge", lambda *a, **k: ScriptedJudge(*replies))
    command = ["score", *pair, "--judge", "m", "--json", "--store", str(tmp_path / "s.sqlite")]
    for limit, value in (("5", 0.8), ("10", 0.4)):
        assert main([*command, "--max-score", limit]) == 0
        assert json.loads(capsys.readouterr().out)["recall"] == value


def test_a_key_variable_that_is_not_set_is_one_line(pair, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("MY_KEY", raising=False)
    assert (
        main(["score", *pair, "--judge", "m", "--key-env", "MY_KEY", "--store", str(tmp_path / "s.sqlite")])
        == 2
    )
    assert "--key-env MY_KEY: there is no such environment variable" in capsys.readouterr().err


@pytest.fixture
def recorded_example(tmp_path):
    """An evaluation whose judge's replies are recorded with declared weights."""
    triplets, answers = judgeable(1)
    write_jsonl(tmp_path / "t.jsonl", triplets)
    write_jsonl(tmp_path / "a.jsonl", answers)
    files = [str(tmp_path / name) for name in ("t.jsonl", "a.jsonl")]
    with Loopback(judged) as server:
        assert main(["evaluate", *files, "-o", str(tmp_path / "o.jsonl"), "--judge", "m", "--base-url", server.url,
                     "--weights", "sha256:cc324af0", "--store", str(tmp_path / "made.sqlite")]) == 0
    Replies(tmp_path / "made.sqlite").export(tmp_path / "r.jsonl")
    return ["evaluate", *files, "-o", str(tmp_path / "o.jsonl"), "--judge", "m", "--mode", "replay",
            "--recorded", str(tmp_path / "r.jsonl"), "--store", str(tmp_path / "s.sqlite")]


def test_a_recording_is_replayed_with_the_weights_it_was_made_with(recorded_example, tmp_path):
    made = (tmp_path / "o.jsonl").read_text()
    assert main([*recorded_example, "--weights", "sha256:cc324af0"]) == 0
    assert (tmp_path / "o.jsonl").read_text() == made


def test_the_kits_own_recording_is_replayed_from_the_command_line(tmp_path):
    own = ROOT / "data" / "q3-2024"
    lines = (own / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    answer = next(row for row in map(json.loads, lines) if row["triplet_id"] == "AAPL-Q1")
    (tmp_path / "a.jsonl").write_text(json.dumps(answer) + "\n")
    assert main(["evaluate", "q3-2024", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "o.jsonl"), "--mode", "replay",
                 "--judge", "large-llm-2026-11", "--temperature", "none", "--seed", "none", "--variant", "all",
                 "--recorded", str(own / "replies.jsonl"), "--store", str(tmp_path / "s.sqlite")]) == 0


@pytest.mark.parametrize("given", ["hot", "-1", "3", "nan"])
def test_a_temperature_is_a_number_from_0_to_2_or_none(pair, capsys, given):
    with pytest.raises(SystemExit):
        main(["score", *pair, "--judge", "m", "--temperature", given])
    assert f"a number from 0 to 2 or none is needed, got '{given}'" in capsys.readouterr().err


def test_a_replay_that_lacks_the_weights_says_which_are_saved(recorded_example, capsys):
    for more, asked in (([], "None"), (["--weights", "other"], "'other'")):
        assert main([*recorded_example, *more]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert f"with weights 'sha256:cc324af0', and this judge has weights {asked}" in error


def test_a_replay_that_misses_replies_of_the_right_weights_does_not_speak_of_weights(
    recorded_example, tmp_path, capsys
):
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"triplet_id": "t0", "model": "n", "answer": "Never asked."}) + "\n"
    )
    assert main([*recorded_example, "--weights", "sha256:cc324af0"]) == 2
    error = capsys.readouterr().err
    assert "are not saved" in error
    assert "the store has them" not in error


# ---- what the terminal sees ----------------------------------------------------------------------

HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202egnihton\x9b2J"


def harmless(text):
    return not any(sign in text for sign in ("\x1b", "\x07", "\u202e", "\x9b"))


def test_names_in_tables_and_messages_cannot_move_the_cursor(tmp_path, capsys):
    (tmp_path / "t").write_text("".join(json.dumps(
        {"id": id_, "group": "g", "question": "q", "reference": REFERENCE}) + "\n" for id_ in ("a", HOSTILE)))
    (tmp_path / "a").write_text(json.dumps({"triplet_id": "a", "model": HOSTILE, "answer": ANSWER}) + "\n")
    assert main(["evaluate", str(tmp_path / "t"), str(tmp_path / "a"), "-o", str(tmp_path / "o")]) == 0
    shown = capsys.readouterr()
    assert "red" in shown.out
    assert "left 1 of 2" in shown.err
    assert harmless(shown.out + shown.err)
    assert json.loads((tmp_path / "o").read_text())["model"] == HOSTILE            # the file has what came


def test_a_servers_message_cannot_move_the_cursor(pair, tmp_path, capsys):
    refused = Fault(400, {"error": {"message": f"Invalid model: {HOSTILE}"}})
    with Loopback(faults=lambda n, body: refused) as server:
        assert main(["score", *pair, "--judge", f"m{HOSTILE}", "--base-url", server.url,
                     "--store", str(tmp_path / "s.sqlite")]) in (2, 3)
    error = capsys.readouterr().err
    assert "Invalid model" in error
    assert harmless(error)


def test_bad_input_with_controls_in_it_is_shown_harmless(files, tmp_path, capsys):
    (tmp_path / "a").write_text(json.dumps({"triplet_id": HOSTILE, "model": "m", "answer": "x"}) + "\n")
    assert main(["evaluate", files[0], str(tmp_path / "a"), "-o", str(tmp_path / "o")]) == 2
    assert harmless(capsys.readouterr().err)


def test_a_damaged_row_of_the_store_is_one_line(pair, tmp_path, capsys):
    import sqlite3

    from ems.judge.store import Record, Replies

    store = tmp_path / "s.sqlite"
    Replies(store).put(Record(key="0" * 64, task="match", model="m", text="1"))
    with sqlite3.connect(store) as database:
        database.execute("UPDATE replies SET sent = '{broken'")
    assert main(["replies", "stats", "--store", str(store)]) == 2
    error = capsys.readouterr().err
    assert "is damaged (its column sent is not a JSON object" in error
    assert error.count("\n") == 1


# ---- progress and signals ------------------------------------------------------------------------

def test_a_redirected_stderr_has_no_progress_bars(files, tmp_path, capfd):
    with Loopback("{}") as server:
        assert main(["evaluate", *files, "-o", str(tmp_path / "o"), "--judge", "m", "--base-url", server.url,
                     "--store", str(tmp_path / "s.sqlite")]) == 3
    error = capfd.readouterr().err
    assert "it/s" not in error
    assert "reply/s" not in error
    assert "\r" not in error


@pytest.mark.slow
def test_sigterm_ends_with_one_line_and_leaves_no_part(files, tmp_path):
    import signal
    import time

    with Loopback("{}", latency=30) as server:
        command = [sys.executable, "-m", "ems.cli", "evaluate", *files, "-o", tmp_path / "out" / "o", "--judge", "m",
                   "--base-url", server.url, "--store", tmp_path / "s.sqlite"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        began = time.monotonic()
        while not server.count and time.monotonic() < began + 60:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert error.count("\n") == 1
    assert error.startswith("ems: stopped with 0 of ")
    assert list((tmp_path / "out").iterdir()) == []


# ---- installed, without the checkout -------------------------------------------------------------

@pytest.mark.slow
def test_an_installed_wheel_has_the_data_sets(tmp_path):
    """The wheel, unpacked elsewhere, evaluates the kit's own fifty from a folder of the user's."""
    import shutil
    import zipfile

    pytest.importorskip("setuptools", minversion="77", reason="builds a wheel")
    source = tmp_path / "source"
    for name in ("ems", "data"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, check=True, capture_output=True)
    wheel, = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.jsonl").write_text(
        json.dumps({"triplet_id": "AAPL-Q1", "model": "m", "answer": "Up 6%."}) + "\n"
    )
    shutil.rmtree(source)
    for command in (["triplets", "own.jsonl"], ["evaluate", "q3-2024", "a.jsonl", "-o", "o.jsonl"]):
        subprocess.run([sys.executable, "-m", "ems.cli", *command], cwd=elsewhere, check=True,
                       env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")})
    assert len((elsewhere / "own.jsonl").read_text().splitlines()) == 50
    assert json.loads((elsewhere / "o.jsonl").read_text())["triplet_id"] == "AAPL-Q1"


# ---- help and near misses ------------------------------------------------------------------------

def stopped(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    shown = capsys.readouterr()
    return stop.value.code, shown.out, shown.err


def test_the_version_is_told(capsys):
    import ems

    assert stopped(["--version"], capsys)[:2] == (0, f"ems {ems.__version__}\n")


def test_without_a_command_the_help_is_shown_also_as_a_module():
    for command in ([sys.executable, "-m", "ems"], [sys.executable, "-m", "ems.cli"]):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("usage: ems [-h] [--version] COMMAND ...")
        assert re.search("evaluate +many answers", done.stdout)


COMMANDS = ("score", "evaluate", "report", "compare", "agree", "triplets", "reproduce", "prompts", "replies")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_description_an_example_and_the_exit_codes(command, capsys):
    code, shown, _ = stopped([command, "-h"], capsys)
    assert code == 0
    assert f"examples:\n  ems {command}" in shown
    assert "exit status: 0 done; 2 bad input" in shown


def test_every_option_has_a_help_text():
    import argparse

    from ems.commands.parser import _parser

    def actions(parser):
        for action in parser._actions:
            yield action
            if isinstance(action, argparse._SubParsersAction):
                for one in action.choices.values():
                    yield from actions(one)
    silent = [a.option_strings or a.metavar for a in actions(_parser("0"))
              if not a.help and not isinstance(a, argparse._SubParsersAction)]
    assert silent == []


@pytest.mark.parametrize(("arguments", "words"), [
    (["evalute"], "did you mean 'evaluate'?"),
    (["score", "--reference", "r", "--answer", "a", "--scorrer", "rouge"], "did you mean '--scorer'?"),
    (["compare", "a", "b", "--cluster", "groups"], "did you mean 'group'?"),
    (["replies", "shwo"], "did you mean 'show'?"),
])
def test_a_misspelt_name_is_answered_with_the_nearest(arguments, words, capsys):
    code, _, error = stopped(arguments, capsys)
    assert code == 2
    assert words in error.splitlines()[-1]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--scorer", "rogue"], "did you mean 'rouge'?"),
    (["--judge", "m", "--variant", "shard"], "did you mean 'shared'?"),
])
def test_a_misspelt_scorer_or_variant_too(pair, tmp_path, arguments, words, capsys):
    assert main(["score", *pair, *arguments, "--store", str(tmp_path / "s")]) == 2
    assert words in capsys.readouterr().err


def test_a_misspelt_profile_or_parameter_too(capsys):
    assert main(["reproduce", "--profile", "defualt"]) == 2
    assert "did you mean 'default'?" in capsys.readouterr().err
    assert main(["reproduce", "-p", "RESAMPELS", "5"]) == 2
    assert "did you mean 'RESAMPLES'?" in capsys.readouterr().err


# ---- other formats, several references -----------------------------------------------------------

TRIPLET = {"id": "t1", "question": "q", "reference": REFERENCE}
ANSWERED = {"triplet_id": "t1", "model": "m", "answer": ANSWER}


def f1_of(tmp_path, triplets, answers):
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", str(triplets), str(answers), "-o", str(out)]) == 0
    return json.loads(out.read_text(encoding="utf-8"))["f1"]


def test_csv_and_a_json_array_say_the_same_as_json_lines(tmp_path):
    import csv

    import ems

    for name, row in (("t", TRIPLET), ("a", ANSWERED)):
        (tmp_path / f"{name}.json").write_text(json.dumps([row], indent=1))
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, [*row, "group"] if name == "t" else list(row))
            writer.writeheader()
            writer.writerow(row)
    expected = ems.score_answer(REFERENCE, ANSWER).f1
    assert f1_of(tmp_path, tmp_path / "t.json", tmp_path / "a.json") == expected
    assert f1_of(tmp_path, tmp_path / "t.csv", tmp_path / "a.csv") == expected
    assert ems.load_triplets(tmp_path / "t.csv")[0].group == "t1"       # without one, a group of its own


@pytest.mark.parametrize(("text", "words"), [
    ("id,question\nt1,q\n", "line 2: 'reference' missing"),
    ("id,question,reference\nt1,q,r,more\n", "line 2: more cells than the header has"),
    ("id,question,reference,reference,,\nt1,q,r,s,,\n", "the header names 'reference' more than once"),
    ('id,question,reference\nt1,q,"r\n', "is not CSV"),
    ("", "is empty"),
])
def test_a_broken_csv_is_one_line(files, tmp_path, text, words, capsys):
    assert main(["evaluate", bad(tmp_path, "t.csv", text), files[1], "-o", str(tmp_path / "o")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


# --- checked against the document ---

@pytest.fixture
def with_context(files):
    rows = [json.loads(line) for line in Path(files[0]).read_text().splitlines()]
    write_jsonl(files[0], [{**row, "context": f"{REFERENCE} Costs fell 3%."} for row in rows])
    return files


def test_evaluate_checks_points_against_the_document(with_context, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", *with_context, "-o", str(out), "--support", "local"]) == 0
    shown = capsys.readouterr().out
    assert "EMS-Support" in shown
    assert "EMS-open" in shown
    first = json.loads(out.read_text().splitlines()[0])
    assert [entry["label"] for entry in first["support"]] == ["supported", "supported"]
    assert main(["evaluate", *with_context, "-o", str(out), "--support", "local", "--json"]) == 0
    rows = {(row["metric"], row["part"]): row["value"] for row in json.loads(capsys.readouterr().out)}
    assert rows["EMS-Support", "Score"] == 1


def test_a_table_says_once_why_support_has_no_value(tmp_path, capsys):
    write_jsonl(tmp_path / "t.jsonl", [{"id": "a", "question": "q", "reference": "Sales rose 6%.", "context": "Sales."}])
    write_jsonl(tmp_path / "a.jsonl", [{"triplet_id": "a", "model": m, "answer": "All is well."} for m in "mn"])
    files = [str(tmp_path / name) for name in ("t.jsonl", "a.jsonl", "out.jsonl")]
    assert main(["evaluate", *files[:2], "-o", files[2], "--support", "local"]) == 0
    out = capsys.readouterr().out
    assert "nan" not in out
    assert out.count("EMS-Support –: no point could be checked") == 1


def test_documents_that_support_nothing_are_doubted(with_context, tmp_path, capsys):
    rows = [json.loads(line) for line in Path(with_context[0]).read_text().splitlines()]
    rows[1]["context"] = "Shares of another company: revenue was $7 billion, up 3%."
    write_jsonl(with_context[0], rows)
    points = "Revenue was $5 billion. Gross margin was 46%. The dividend is $0.25 per share. Costs fell 3%."
    write_jsonl(with_context[1], [{"triplet_id": f"t{i}", "model": "m", "answer": points} for i in (1, 2)])
    asked = ["evaluate", *with_context, "-o", str(tmp_path / "out.jsonl"), "--support", "local"]
    assert main(asked) == 0
    assert "of 1 of 2 triplets support none" in capsys.readouterr().err
    write_jsonl(with_context[0], [rows[0], {**rows[1], "context": rows[0]["context"]}])
    assert main(asked) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("options", "words"), [
    (["--support", "local"], "needs a context, and 2 of 2 triplets have none"),
    (["--support", "llm"], "asks a judge, and there is none"),
    (["--support", "local", "--scheduler", "tcp://localhost:1"], "not computed on a cluster"),
])
def test_support_without_what_it_needs_is_one_line_and_exit_2(files, tmp_path, capsys, options, words):
    assert main(["evaluate", *files, "-o", str(tmp_path / "out.jsonl"), *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_of_several_references_the_best_counts_and_the_signature_says_so(tmp_path):
    import ems

    other = "The company planted 40 trees."
    several = {"id": "t1", "question": "q", "references": [other, REFERENCE]}
    write_jsonl(tmp_path / "t.jsonl", [several, {**TRIPLET, "id": "t2", "reference": other}])
    write_jsonl(tmp_path / "a.jsonl", [ANSWERED, {**ANSWERED, "triplet_id": "t2"}])
    both = ems.build(None, "local").evaluate(ems.load_triplets(tmp_path / "t.jsonl"),
                                             ems.load_answers(tmp_path / "a.jsonl"))
    assert [r.f1 for r in both] == [ems.score_answer(REFERENCE, ANSWER).f1, ems.score_answer(other, ANSWER).f1]
    assert {r.signature.rpartition("|")[2] for r in both} == {"references:best of 2"}
    assert write_jsonl(tmp_path / "again.jsonl", ems.load_triplets(tmp_path / "t.jsonl"))
    assert ems.load_triplets(tmp_path / "again.jsonl") == ems.load_triplets(tmp_path / "t.jsonl")


def test_rows_of_a_data_set_and_a_metric_called_as_others_are():
    import ems

    triplets, answers = ems.triplets_of([TRIPLET]), ems.answers_of(iter([ANSWERED]))
    result, = ems.build(None, "local").evaluate(triplets, answers)
    values = ems.compute(predictions=[ANSWER, ""], references=[["Unlike.", REFERENCE], REFERENCE])
    assert values["f1"] == result.f1 / 2                     # an empty answer scores 0
    assert values["n"] == 2
    with pytest.raises(ems.InputError, match="row 1: 'question' missing"):
        ems.triplets_of([TRIPLET, {"id": "x", "reference": "r"}])
    columns = {"context": None, "points": None, "nuggets": None, "references": None}      # of rows unlike this one
    assert ems.triplets_of([{**TRIPLET, **columns}]) == triplets
    several = {**TRIPLET, "reference": None, "references": [REFERENCE, "Unlike."]}
    assert ems.triplets_of([several])[0].others == ("Unlike.",)
    with pytest.raises(ems.InputError, match="references\\[0\\] is an empty list"):
        ems.compute(predictions=["a"], references=[[]])
    with pytest.raises(ems.InputError, match="got 1 and 0"):
        ems.compute(predictions=["a"], references=[])


def test_a_dry_run_counts_the_checks_as_well(with_context, tmp_path, capsys):
    asked = ["evaluate", *with_context, "-o", str(tmp_path / "out.jsonl"), "--judge", "m", "--dry-run",
             "--store", str(tmp_path / "none.sqlite"), "--support", "llm"]
    assert main(asked) == 0
    assert "support" in capsys.readouterr().out


# --- rubrics ---

def rating(body):
    """The scripted judge, who also rates: answers are partly right, and completeness does not apply."""
    prompt = body["messages"][-1]["content"]
    if "Write one of these and nothing else" not in prompt:
        return judged(body)
    return "partly right" if "partly right" in prompt else "not applicable"


def test_evaluate_rates_whole_answers_by_rubrics(files, tmp_path, capsys):
    from ems.results.saved import load_results

    out, asked = tmp_path / "out.jsonl", ["--judge", "m", "--rubrics", "accuracy, completeness"]
    with Loopback(rating) as server:
        asked += ["--base-url", server.url, "--store", str(tmp_path / "s.sqlite")]
        assert main(["evaluate", *files, "-o", str(out), *asked]) == 0
    table = capsys.readouterr().out
    assert "OmniEval accuracy" in table
    assert "0.500" in table
    assert json.loads(out.read_text().splitlines()[0])["rubrics"] == [
        {"rubric": "accuracy", "value": 0.5, "reason": ""},
        {"rubric": "completeness", "value": None, "reason": "not applicable"}]
    assert [r.model for r in load_results(out)["EMS"]] == ["m", "m"]        # which other commands read


def test_a_dry_run_counts_ratings(files, tmp_path, capsys):
    asked = ["evaluate", *files, "-o", str(tmp_path / "out.jsonl"), "--judge", "m", "--dry-run",
             "--store", str(tmp_path / "none.sqlite"), "--rubrics", "accuracy"]
    assert main(asked) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "rubric" in line)
    assert row.split()[:4] == ["m", "rubric", "0", "1"]             # stored, calls: the two answers are the same


@pytest.mark.parametrize(("options", "words"), [
    (["--rubrics", "accuracy"], "--rubrics"),
    (["--rubrics", "acuracy", "--judge", "m", "--base-url", "http://localhost:1/v1"], "rubrics must be among"),
])
def test_rubrics_without_what_they_need_are_one_line_and_exit_2(files, tmp_path, capsys, options, words):
    store = ["--store", str(tmp_path / "s.sqlite")] if "--judge" in options else []
    assert main(["evaluate", *files, "-o", str(tmp_path / "out.jsonl"), *options, *store]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.jsonl").exists()
