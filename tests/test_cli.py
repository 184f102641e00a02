"""The command line as a stranger uses it: files in, tables and files out, and every kind of bad input."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from doubles import until
from loopback import Loopback, by_words, error, run_batch

import ems
from ems.cli import main
from ems.io import write_jsonl

ROOT = Path(__file__).parent.parent
REFERENCE = "Revenue was $5 billion, up 10%. Gross margin was 46%. The dividend is $0.25 per share."
ANSWER = "Revenue rose 10% to $5 billion. The gross margin came to 46%."
HOSTILE = "\x1b[31mred\x1b]0;title\x07\u202egnihton\x9b2J"
KEY = "sk-planted-in-the-environment-000000"


@pytest.fixture(autouse=True)
def _no_notebook(monkeypatch):
    """Tests that run notebooks import ipykernel into this process, which then looks like one of its kernels."""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)


@pytest.fixture
def pair(tmp_path):
    (tmp_path / "ref.txt").write_text(REFERENCE)
    (tmp_path / "ans.txt").write_text(ANSWER)
    return [
        "score",
        "--reference",
        str(tmp_path / "ref.txt"),
        "--answer",
        str(tmp_path / "ans.txt"),
    ]


@pytest.fixture
def files(tmp_path):
    """A command that evaluates eight answers to questions of four groups; results go to out.jsonl."""
    write_jsonl(
        tmp_path / "t.jsonl",
        [
            {
                "id": f"t{i}",
                "group": f"g{i // 2}",
                "question": f"q{i}",
                "reference": REFERENCE,
                "context": f"{REFERENCE} Costs fell 3%.",
            }
            for i in range(8)
        ],
    )
    write_jsonl(
        tmp_path / "a.jsonl",
        [{"triplet_id": f"t{i}", "model": "m", "answer": ANSWER} for i in range(8)],
    )
    return [
        "evaluate",
        str(tmp_path / "t.jsonl"),
        str(tmp_path / "a.jsonl"),
        "-o",
        str(tmp_path / "out.jsonl"),
    ]


def by(server, tmp_path, *more):
    """The options of a judge behind a loopback server."""
    return ["--judge", "m", "--base-url", server.url, "--store", str(tmp_path / "s.sqlite"), *more]


def results(tmp_path):
    return [
        json.loads(line)
        for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def refused(command, capsys, words):
    """The command ends with 2 and one line that has these words."""
    assert main(command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said
    return said


# --- score ---


def test_score_shows_an_alignment_and_as_json_the_python_result(pair, capsys):
    assert main(pair) == 0
    shown = capsys.readouterr().out
    assert "Gross margin was 46%." in shown
    assert "recall" in shown.lower()
    assert main([*pair, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("metric") == "Coverage(local)"
    assert shown == json.loads(json.dumps(ems.score_answer(REFERENCE, ANSWER).to_dict()))


def test_score_and_help_load_nothing_heavy(pair):
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
    for command in (["--help"], pair):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "[]"


def test_a_terminal_without_a_character_is_no_error(pair):
    done = subprocess.run(
        [sys.executable, "-m", "ems", *pair],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# --- evaluate ---


def test_evaluate_writes_a_line_an_answer_and_shows_means_first(files, tmp_path, capsys):
    assert main(files) == 0
    rows = results(tmp_path)
    assert [(r["metric"], r["triplet_id"], r["question"], r["group"]) for r in rows] == [
        ("Coverage(local)", f"t{i}", f"q{i}", f"g{i // 2}") for i in range(8)
    ]
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.split() == [
        "model",
        "metric",
        "Precision",
        "Recall",
        "F1",
        "n",
        "clusters",
        "scored",
    ]
    assert second.split()[:2] == ["m", "Coverage(local)"]
    assert second.endswith("100 %")
    assert main([*files, "--cluster", "triplet_id", "--json"]) == 0
    table = {row["part"]: row for row in json.loads(capsys.readouterr().out)}
    assert table["F1"]["value"] == pytest.approx(rows[0]["f1"])
    assert (table["F1"]["ci_low"], table["F1"]["n"]) == (pytest.approx(rows[0]["f1"]), 8)


def test_answers_come_through_a_pipe_as_from_a_file(files, tmp_path):
    assert main(files) == 0
    of_file = results(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    threading.Thread(
        target=pipe.write_bytes, args=[Path(files[2]).read_bytes()], daemon=True
    ).start()
    assert main([*files[:2], str(pipe), *files[3:]]) == 0
    assert results(tmp_path) == of_file


def test_results_go_on_to_the_report_the_comparison_and_the_agreement_with_their_groups(
    files, tmp_path, capsys
):
    out = files[-1]
    assert main(files) == 0
    assert main(["report", out, "-o", str(tmp_path / "r.html")]) == 0
    assert "Content-Security-Policy" in (tmp_path / "r.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["compare", out, out, "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    assert {(row["part"], row["difference"], row["clusters"]) for row in parts} == {
        ("F1", 0, 4),
        ("Precision", 0, 4),
        ("Recall", 0, 4),
    }
    assert refused(["compare", out, out, "--metric", "nonsense"], capsys, "nonsense")
    assert refused(["compare", out], capsys, "one file needs two models")
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["triplet_id", "model", "label"], *([f"t{i}", "m", i % 2] for i in range(8))]
        )
    assert main(["agree", out, str(tmp_path / "labels.csv")]) == 0
    assert "Coverage(local)" in capsys.readouterr().out


def test_evaluate_by_a_judge_says_what_was_asked_and_asks_nothing_twice(files, tmp_path, capsys):
    with Loopback(by_words) as server:
        assert main([*files, *by(server, tmp_path)]) == 0
        asked = server.count
        assert main([*files, *by(server, tmp_path)]) == 0
        assert server.count == asked == 2 + 3 + 2  # texts, reference points, matched pairs
    assert {row["metric"] for row in results(tmp_path)} == {"EMS(LLM)"}
    assert results(tmp_path)[0]["score"] == [
        0.7,
        0.8,
        0.0,
    ]  # 4 of 6 words and 3 of 4 are shared; no match
    assert re.search(r"m +match +24 ", capsys.readouterr().err)


def test_settings_and_the_key_reach_the_judge_and_the_key_nothing_else(
    pair, tmp_path, capfd, monkeypatch
):
    monkeypatch.setenv("MY_KEY", KEY)
    settings = [
        "--seed",
        "none",
        "--temperature",
        "0.5",
        "--max-score",
        "20",
        "--key-env",
        "MY_KEY",
        "--weights",
        "w1",
        "--thinking-tokens",
        "5000",
    ]
    with Loopback(by_words) as server:
        assert main([*pair, "--json", *by(server, tmp_path, *settings)]) == 0
        body, headers = server.bodies[0], server.headers[0]
    assert (body["temperature"], body.get("seed")) == (0.5, None)
    assert body["max_tokens"] > 5000
    assert headers["authorization"] == f"Bearer {KEY}"
    out, err = capfd.readouterr()
    result = json.loads(out)
    assert result["signature"]["weights"] == "w1"
    assert result["score"] == [7 / 20, 8 / 20, 0]
    assert KEY not in out + err
    assert not [path for path in tmp_path.iterdir() if KEY.encode() in path.read_bytes()]


def test_a_dry_run_counts_and_asks_nothing(files, tmp_path, capsys):
    (tmp_path / "prices.yaml").write_text("{prompt: 2000, completion: 10}")
    prices = ["--prices", str(tmp_path / "prices.yaml")]
    with Loopback(by_words) as server:
        assert main([*files, *by(server, tmp_path, "--dry-run", *prices, "--support", "llm")]) == 0
        assert server.count == 0
    shown = capsys.readouterr().out
    assert re.search(r"m +extract +0 +2 ", shown)
    assert "support" in shown
    assert float(shown.splitlines()[-2].split()[-1]) > 1  # money
    assert not (tmp_path / "out.jsonl").exists()
    assert not (tmp_path / "s.sqlite").exists()


def test_a_recording_is_replayed_and_a_replay_without_replies_names_them(files, tmp_path, capsys):
    with Loopback(by_words) as server:
        assert main([*files, *by(server, tmp_path)]) == 0
        made = (tmp_path / "out.jsonl").read_text()
    capsys.readouterr()
    recording, store = str(tmp_path / "r.jsonl"), str(tmp_path / "s.sqlite")
    refused(["replies", "export", store, "--store", store], capsys, "would be lost")
    assert main(["replies", "export", recording, "--store", store]) == 0
    replay = [*files, "--judge", "m", "--mode", "replay", "--store", str(tmp_path / "empty.sqlite")]
    assert main([*replay, "--recorded", recording]) == 0
    assert (tmp_path / "out.jsonl").read_text() == made
    capsys.readouterr()
    refused(replay, capsys, "2 replies of m are not saved")


def test_pending_requests_go_to_a_batch_endpoint_and_its_results_come_back(pair, tmp_path, capsys):
    store = ["--store", str(tmp_path / "s.sqlite")]
    for _ in range(3):  # points, then matches, then scores
        assert main([*pair, "--judge", "m", "--mode", "replay", *store]) == 2
        assert main(["replies", "export", "--pending", str(tmp_path / "in.jsonl"), *store]) == 0
        run_batch(tmp_path / "in.jsonl", tmp_path / "done.jsonl", by_words)
        assert main(["replies", "import", str(tmp_path / "done.jsonl"), *store]) == 0
    assert main([*pair, "--judge", "m", "--mode", "replay", *store]) == 0


# --- what the judge left out ---


def test_under_95_percent_is_exit_3_and_says_why(files, tmp_path, capsys):
    def half(body):
        return (
            by_words(body)
            if "Candidate points" not in body["messages"][-1]["content"]
            else "no idea"
        )

    with Loopback(half) as server:
        assert main([*files, *by(server, tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert "24 of 24 points are unscored, 8 of 8 answers altogether" in err
    assert "24 replies could not be used, match: unreadable" in err
    assert out.splitlines()[1].endswith(" 0 % †")
    assert all(row["f1"] is None for row in results(tmp_path))


# --- stages and metrics of one's own ---


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Functions of one's own, in a module in the working folder."""
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)


OWN = """
def words(references, answers): return [len(set(r.split()) & set(a.split())) / len(r.split()) for r, a in zip(references, answers)]
def pairs(pairs): return [0.25 for _ in pairs]
def lines(texts): return [text.split(". ") for text in texts]
def first(sides): return [[0 for _ in reference] for reference, answer in sides]
"""


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
    files, mine, tmp_path, options, metric, value
):
    assert main([*files, *options]) == 0
    assert metric in results(tmp_path)[0]["metric"]
    assert results(tmp_path)[0][value[0]] == pytest.approx(value[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scorer", "mine:pars"], "no attribute 'pars'"),
        (["--scorer", "rogue"], "did you mean 'rouge'"),
        (["--support", "llm"], "--support llm asks a judge"),
        (["--metric", "mine:words", "--support", "numbers"], "has none; leave it out"),
        (["--metric", "mine:words", "--scorer", "rouge"], "--metric takes the place of a scorer"),
        (["--judge", "m", "--prompts", "nobodys"], "no prompt set 'nobodys'"),
        (["--judge", "m", "--scorer", "coverage", "--joint"], "has no use for joint"),
        (["--judge", "m", "--scorer", "local", "--prompts", "kit"], "has no use for prompts"),
        (["--max-score", "5", "--judge", "m", "--scorer", "rouge"], "has no use for max_score"),
        (["--judge", "m", "--workers", "0"], "workers"),
        (["--judge", "m", "--spend-limit", "5"], "needs prices"),
        (["--judge", "m", "--prices", "bad.yaml"], "is not YAML"),
        (["--judge", "m", "--key-env", "NO_SUCH_KEY"], "no key in NO_SUCH_KEY"),
        (["--judge", "m", "--scheduler", "tcp://localhost:1"], "without a judge"),
        *[
            (option, f"{option[0]} needs a judge")
            for option in (
                ["--mode", "replay"],
                ["--seed", "none"],
                ["--joint"],
                ["--max-score", "5"],
                ["--prompts", "kit"],
                ["--dry-run"],
            )
        ],
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(files, mine, tmp_path, capsys, options, words):
    (tmp_path / "bad.yaml").write_text("a: [")
    refused([*files, *options], capsys, words)
    assert not (tmp_path / "out.jsonl").exists()


# --- support ---


def test_points_are_checked_against_the_document(files, tmp_path, capsys):
    assert main([*files, "--support", "numbers"]) == 0
    assert results(tmp_path)[0]["support"][0]["reason"] == "2 of 2 numbers found"
    shown = capsys.readouterr().out
    assert "The answers' points in the documents" in shown
    assert (
        "Coverage(local) compares words and numbers: rewording can cost more than a wrong number.\n"
        in shown
    )
    reply = json.dumps({"labels": ["Entailment", "Contradiction"]})
    with Loopback(lambda body: reply if "labels" in str(body) else by_words(body)) as server:
        by_judge = [*files, *by(server, tmp_path, "--support", "llm")]
        assert main(by_judge) == 0
        assert main([*by_judge, "--scorer", "local", "--prompts", "kit"]) == 0  # of the check
    assert [support["label"] for support in results(tmp_path)[0]["support"]] == [
        "supported",
        "contradicted",
    ]


# --- bad files, and files that would be lost ---


@pytest.mark.parametrize(
    ("which", "content", "words"),
    [
        ("t.jsonl", "not json", "line 1"),
        ("a.jsonl", json.dumps({"triplet_id": HOSTILE, "model": "m", "answer": "x"}), "red"),
    ],
)
def test_bad_files_are_one_line_and_exit_2(files, tmp_path, capsys, which, content, words):
    (tmp_path / which).write_text(content)
    (tmp_path / "out.jsonl").write_text("kept")
    assert is_harmless(refused(files, capsys, words))
    assert (tmp_path / "out.jsonl").read_text() == "kept"


def test_the_last_answer_is_checked_before_the_judge_is_asked(files, tmp_path, capsys):
    with open(files[2], "a") as file:
        file.write(json.dumps({"triplet_id": "t0", "model": "m", "answer": "again"}))
    with Loopback(by_words) as server:
        refused([*files, *by(server, tmp_path)], capsys, "line 9: a second row")
        assert server.count == 0


@pytest.mark.parametrize("which", ["t.jsonl", "link", "s.sqlite"])
def test_an_output_that_is_also_read_is_refused_and_kept(files, tmp_path, capsys, which):
    out = tmp_path / which
    if which == "link":
        out.symlink_to(tmp_path / "a.jsonl")
    before = out.read_bytes() if out.is_file() else None
    with Loopback(by_words) as server:
        refused([*files[:3], "-o", str(out), *by(server, tmp_path)], capsys, "name a")
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
    refused(command, capsys, words)


@pytest.mark.parametrize(
    ("name", "text", "code", "says"),
    [
        ("ref.txt", " \n", 3, "the reference has no points"),
        (
            "ans.txt",
            "الإيرادات بلغت خمسة مليارات دولار هذا الربع",
            0,
            "1 of 1 answers: the local evaluator does not read this script",
        ),
    ],
)
def test_what_has_no_value_or_a_doubtful_one_is_named(
    pair, tmp_path, capsys, name, text, code, says
):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(pair) == code
    assert says in capsys.readouterr().err


# --- the terminal ---


def is_harmless(text):
    return not any(sign in text for sign in ("\x1b", "\x07", "\u202e", "\x9b"))


def test_names_from_outside_cannot_move_the_cursor_and_long_ones_are_cut(files, tmp_path, capsys):
    models = [HOSTILE, "n" * 5000]
    write_jsonl(
        files[2], [{"triplet_id": "t0", "model": model, "answer": ANSWER} for model in models]
    )
    assert main(files) == 0
    shown = capsys.readouterr()
    assert "red" in shown.out
    assert "left 7 of 8" in shown.err
    assert is_harmless(shown.out + shown.err)
    assert max(map(len, shown.out.splitlines())) < 200
    assert [row["model"] for row in results(tmp_path)] == models  # the file has what came


def test_a_servers_words_cannot_move_the_cursor_and_a_pipe_gets_no_progress_bar(
    files, tmp_path, capfd
):
    with Loopback(faults=lambda n, body: error(404, f"no such model {HOSTILE}")) as server:
        assert main([*files, *by(server, tmp_path)]) == 2
    said = capfd.readouterr().err
    assert "no such model" in said
    assert is_harmless(said)
    assert "\r" not in said


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_one_line_and_leaves_no_part(files, tmp_path, sign):
    with Loopback(by_words, latency=30) as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "ems", *files, *by(server, tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: server.count)
        process.send_signal(sign)
        said = process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert said.startswith("ems: ")
    assert said.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if "out.jsonl" in path.name]


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
        "import sys; sys.modules['pyarrow'] = None; from ems.cli import main; assert main(sys.argv[1:]) == 0\n"
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


# --- help and near misses ---

PAIR = ["score", "--reference", "r", "--answer", "a"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--version"], 0, f"ems {ems.__version__}"),
        *(
            ([command, "-h"], 0, f"example: ems {command}")
            for command in (
                "score",
                "evaluate",
                "report",
                "compare",
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
    arguments, code, says, capsys
):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    shown = capsys.readouterr()
    assert stop.value.code == code
    assert says in (shown.err.splitlines()[-1] if code else shown.out)
