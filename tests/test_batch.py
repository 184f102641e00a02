"""The run through batch files: pending requests out, results in, until the replay is whole; with every kind
of loss.
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from loopback import Loopback, run_batch
from scripted import judgeable, judged

import ems.judge.wire
from ems.baselines import RAGChecker
from ems.batches import CHUNK, MissingReplies
from ems.cli import main
from ems.io import write_jsonl
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.presets import build

TRIPLETS, ANSWERS = judgeable(8, 11)
LOSSES = ("failed", "refused", "expired", "lost", "twice", "cut")


@pytest.fixture(autouse=True)
def endpoint(monkeypatch):
    monkeypatch.setattr(ems.judge.wire, "LEARNED", {})


def losing() -> Callable[[int], str]:
    """Of all requests of a run every fourth goes wrong, in turn in each of the ways."""
    outcome = (LOSSES[k // 4 % len(LOSSES)] if k % 4 == 0 else "done" for k in count())
    return lambda number: next(outcome)


def live(files: list[str], tmp_path: Path) -> str:
    with Loopback(judged) as server:
        asked = ["evaluate", *files, "-o", str(tmp_path / "live.jsonl"), "--judge", "m"]
        assert main([*asked, "--base-url", server.url, "--store", str(tmp_path / "live.sqlite")]) == 0
    return (tmp_path / "live.jsonl").read_text()


@pytest.mark.slow
def test_three_stages_through_batch_files_end_with_the_values_of_a_live_run(tmp_path, capsys):
    files = [str(write_jsonl(tmp_path / "t.jsonl", TRIPLETS)), str(write_jsonl(tmp_path / "a.jsonl", ANSWERS))]
    out, batch, done = tmp_path / "out.jsonl", tmp_path / "batch.jsonl", tmp_path / "done.jsonl"
    store = ["--store", str(tmp_path / "r.sqlite")]
    command = ["evaluate", *files, "-o", str(out), "--judge", "m", "--mode", "replay", *store]
    answered, rounds, outcomes = 0, 0, losing()
    while main(command) == 2:
        assert "replies of m are not saved" in capsys.readouterr().err
        assert not out.exists()
        assert main(["replies", "export", str(batch), "--pending", *store]) == 0
        answered += run_batch(batch, done, judged, outcomes)
        assert main(["replies", "import", str(done), *store]) == 0
        if rounds == 0:
            # The same file once more does no harm.
            assert main(["replies", "import", str(done), *store]) == 0
            assert "\n0 imported, " in capsys.readouterr().out
        rounds += 1
        assert rounds < 20
    assert out.read_text() == live(files, tmp_path)
    assert Replies(tmp_path / "r.sqlite").pending() == {}
    assert rounds > 4                                          # four stages, and what was lost asked again
    # Nothing was asked twice: as many replies as a live run.
    with Loopback(judged) as server:
        judge = LLMJudge("m", base_url=server.url)
        build(judge, "llm").evaluate(TRIPLETS, ANSWERS)
        assert answered == server.count == len(Replies(tmp_path / "r.sqlite"))


def test_ragchecker_through_batch_files(tmp_path):
    store = Replies(tmp_path / "r.sqlite")
    judge, rounds, outcomes = LLMJudge("m", store=store, mode="replay"), [], losing()
    for _ in range(20):
        try:
            claims = RAGChecker(judge).check(TRIPLETS, ANSWERS)
            break
        except MissingReplies as error:
            rounds.append(set(error.keys))
        store.export_pending(tmp_path / "batch.jsonl")
        run_batch(tmp_path / "batch.jsonl", tmp_path / "done.jsonl", judged, outcomes)
        store.import_batch(tmp_path / "done.jsonl")
    assert rounds[0] == {"claims"}
    assert rounds[-1] == {"entail"}
    with Loopback(judged) as server:
        assert claims == RAGChecker(LLMJudge("m", base_url=server.url)).check(TRIPLETS, ANSWERS)


def test_a_replay_notes_what_is_missing_of_every_chunk(tmp_path):
    triplets, answers = judgeable(CHUNK + 10, 2)               # more than are held in memory at once
    store = Replies(tmp_path / "r.sqlite")
    with pytest.raises(MissingReplies, match=f"{2 * len(answers)} replies of m are not saved: {2 * len(answers)} extract"):
        build(LLMJudge("m", store=store, mode="replay"), "llm").evaluate(triplets, answers)
    assert store.pending() == {"extract": 2 * len(answers)}
    with pytest.raises(MissingReplies, match=f"{2 * len(answers)} claims"):
        RAGChecker(LLMJudge("m", store=store, mode="replay")).check(triplets, answers)
