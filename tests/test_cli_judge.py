"""The commands with a judge: what it is asked, what is saved, and what is counted."""

import json
import re
from pathlib import Path

import pytest
from command_line import check_refused, judge_options, read_results
from loopback import Loopback, by_words, run_batch

from ems.cli import main

KEY = "sk-planted-in-the-environment-000000"


def test_evaluate_by_a_judge_says_what_was_asked_and_asks_nothing_twice(
    evaluate_command, tmp_path, capsys
):
    with Loopback(by_words) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path)]) == 0
        calls = server.count
        assert main([*evaluate_command, *judge_options(server, tmp_path)]) == 0
        assert server.count == calls == 2 + 3 + 2  # texts, reference points, matched pairs
    assert {row["metric"] for row in read_results(tmp_path)} == {"EMS(LLM)"}
    assert read_results(tmp_path)[0]["score"] == [
        0.7,
        0.8,
        0.0,
    ]  # 4 of 6 words and 3 of 4 are shared; no match
    assert re.search(r"m +match +24 ", capsys.readouterr().err)


def test_settings_and_the_key_reach_the_judge_and_the_key_nothing_else(
    score_command, tmp_path, capfd, monkeypatch
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
        assert main([*score_command, "--json", *judge_options(server, tmp_path, *settings)]) == 0
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


def test_saved_replies_of_another_address_are_named_once_and_a_replay_says_nothing(
    evaluate_command, tmp_path, capsys
):
    def lines_at(*options):
        assert main([*evaluate_command, "--scorer", "judge", *options]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if " came from " in line]

    with Loopback(by_words) as first, Loopback(by_words) as second:
        assert lines_at(*judge_options(first, tmp_path)) == []
        assert lines_at(*judge_options(first, tmp_path)) == []
        (line,) = lines_at(*judge_options(second, tmp_path))
        assert lines_at(*judge_options(second, tmp_path, "--mode", "replay")) == []
        assert second.count == 0
    hosts = [server.url.split("/")[2] for server in (first, second)]
    assert line == (
        f"ems: replies in {tmp_path / 's.sqlite'} came from {hosts[0]}, not from {hosts[1]}, and "
        "are used; --store FILE keeps them apart"
    )


def test_a_dry_run_counts_and_asks_nothing(evaluate_command, tmp_path, capsys):
    (tmp_path / "prices.yaml").write_text("{prompt: 2000, completion: 10}")
    prices = ["--prices", str(tmp_path / "prices.yaml")]
    with Loopback(by_words) as server:
        assert (
            main(
                [
                    *evaluate_command,
                    *judge_options(server, tmp_path, "--dry-run", *prices, "--support", "llm"),
                ]
            )
            == 0
        )
        assert server.count == 0
    output = capsys.readouterr().out
    assert re.search(r"m +extract +0 +2 ", output)
    assert "support" in output
    assert float(re.search(r"money: ([\d.]+)\. ", output)[1]) > 1
    assert not (tmp_path / "out.jsonl").exists()
    assert not (tmp_path / "s.sqlite").exists()


def test_a_recording_is_replayed_and_a_replay_without_replies_names_them(
    evaluate_command, tmp_path, capsys
):
    with Loopback(by_words) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path)]) == 0
        made = (tmp_path / "out.jsonl").read_text()
    capsys.readouterr()
    recording, store = str(tmp_path / "r.jsonl"), str(tmp_path / "s.sqlite")
    check_refused(["replies", "export", store, "--store", store], capsys, "would be lost")
    assert main(["replies", "export", recording, "--store", store]) == 0
    replay = [
        *evaluate_command,
        "--judge",
        "m",
        "--mode",
        "replay",
        "--store",
        str(tmp_path / "empty.sqlite"),
    ]
    assert main([*replay, "--recorded", recording]) == 0
    assert (tmp_path / "out.jsonl").read_text() == made
    capsys.readouterr()
    check_refused(replay, capsys, "2 replies of m are not saved")


def test_pending_requests_go_to_a_batch_endpoint_and_its_results_come_back(
    score_command, tmp_path, capsys
):
    store = ["--store", str(tmp_path / "s.sqlite")]
    for _ in range(3):  # points, then matches, then scores
        assert main([*score_command, "--judge", "m", "--mode", "replay", *store]) == 2
        assert main(["replies", "export", "--pending", str(tmp_path / "in.jsonl"), *store]) == 0
        run_batch(tmp_path / "in.jsonl", tmp_path / "done.jsonl", by_words)
        assert main(["replies", "import", str(tmp_path / "done.jsonl"), *store]) == 0
    assert main([*score_command, "--judge", "m", "--mode", "replay", *store]) == 0


def test_under_95_percent_is_exit_3_and_says_why(evaluate_command, tmp_path, capsys):
    def half(body):
        return (
            by_words(body)
            if "Candidate points" not in body["messages"][-1]["content"]
            else "no idea"
        )

    with Loopback(half) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path)]) == 3
    out, err = capsys.readouterr()
    assert "24 of 24 points are unscored, 8 of 8 answers altogether" in err
    assert "24 replies could not be used, match: unreadable" in err
    assert out.splitlines()[1].endswith(" 0 % †")
    assert all(row["f1"] is None for row in read_results(tmp_path))


def test_points_are_checked_against_the_document(evaluate_command, tmp_path, capsys):
    reply = json.dumps({"labels": ["Entailment", "Contradiction"]})
    with Loopback(lambda body: reply if "labels" in str(body) else by_words(body)) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path, "--support", "llm")]) == 0
    assert "The answers' points in the documents" in capsys.readouterr().out
    assert [support["label"] for support in read_results(tmp_path)[0]["support"]] == [
        "supported",
        "contradicted",
    ]


# --- the gate of evaluate ---


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scorer", "judge", "--fail-under", "recall=0.7"], "gives no recall"),
        (["--scorer", "judge", "--fail-over", "missing=0.7"], "gives no missing"),
        (["--fail-under", "score=0"], "gives no score: --scorer judge gives"),
    ],
)
def test_a_part_that_the_scorer_does_not_give_is_refused_before_anything_is_asked(
    evaluate_command, tmp_path, capsys, options, words
):
    with Loopback(by_words) as server:
        command = [*evaluate_command, *judge_options(server, tmp_path), *options]
        check_refused(command, capsys, words)
        assert server.count == 0


def test_the_judge_alone_has_figures_beside_its_score(evaluate_command, tmp_path, capsys):
    gates = ["--fail-under", "score=0", "--fail-under", "Figures Recall=0.9", "--scorer", "judge"]
    with Loopback(by_words) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path), *gates]) == 4
    assert "m: Figures Recall 0.750 is under the threshold 0.9\n" in capsys.readouterr().err
    assert read_results(tmp_path)[0]["figures"]["ref"]["count"]


def test_the_gate_says_how_many_questions_have_no_answer(evaluate_command, tmp_path, capsys):
    answers = Path(evaluate_command[2])
    kept = answers.read_text(encoding="utf-8").splitlines(keepends=True)[1:]
    answers.write_text("".join(kept), encoding="utf-8")
    options = ["--fail-under", "recall=0", "--markdown"]
    with Loopback(by_words) as server:
        assert main([*evaluate_command, *judge_options(server, tmp_path), *options]) == 0
    gate = capsys.readouterr().out.partition("**The gate is passed.**")[2]
    assert gate.startswith("\n\n- m left 1 of 8 triplets unanswered, e.g. ")
