"""Evaluation on a Dask cluster: the results of one machine, also when a worker dies halfway."""

import json
import os
import signal

import pytest

from ems import distributed
from ems.cli import main
from ems.evaluators import build
from ems.io import write_jsonl
from ems.types import Answer, InputError, Triplet

dask = pytest.importorskip("distributed", reason="needs pip install -e '.[dask]'")
pytestmark = pytest.mark.slow
N = 5 * distributed.CHUNK + 7
TRIPLETS = [
    Triplet(f"t{i}", f"g{i // 5}", "q", f"Revenue was ${i} billion. Margin was {i % 50}%.")
    for i in range(N)
]
ANSWERS = [Answer(t.id, "m", t.reference.replace("1", "4")) for t in TRIPLETS]


def cluster_of(n_workers):
    return dask.LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=n_workers > 0,
        dashboard_address=None,
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def address():
    with cluster_of(2) as cluster:
        yield cluster.scheduler_address


def plain(results):
    return [json.dumps(result.to_dict()) for result in results]


def test_the_results_are_the_same_with_one_worker_killed_halfway(address):
    with dask.Client(address, set_as_default=False) as client:
        victim = next(iter(client.run(os.getpid).values()))
    results = distributed.stream(address, TRIPLETS, ANSWERS)
    received = [next(results)]
    os.kill(victim, signal.SIGKILL)
    assert plain([*received, *results]) == plain(build().evaluate(TRIPLETS, ANSWERS))


def test_the_command_gives_the_same_file(address, tmp_path):
    rows = [
        {"id": t.id, "group": t.group, "question": t.question, "reference": t.reference}
        for t in TRIPLETS[:20]
    ]
    write_jsonl(tmp_path / "t.jsonl", rows)
    write_jsonl(
        tmp_path / "a.jsonl",
        [{"triplet_id": a.triplet_id, "model": a.model, "answer": a.answer} for a in ANSWERS[:20]],
    )
    command = [
        "evaluate",
        str(tmp_path / "t.jsonl"),
        str(tmp_path / "a.jsonl"),
        "--scorer",
        "rouge",
        "-o",
    ]
    assert main([*command, str(tmp_path / "one")]) == 0
    assert main([*command, str(tmp_path / "two"), "--scheduler", address]) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_without_a_worker_it_says_what_it_waits_for_and_a_lost_scheduler_is_one_error(
    monkeypatch, capsys
):
    monkeypatch.setattr(distributed, "NOTICE_AFTER", 0.5)
    cluster = cluster_of(0)
    notices = []

    def notify(line):
        notices.append(line)
        if len(notices) == 2:
            cluster.close()

    monkeypatch.setattr(distributed, "notify", notify)
    with pytest.raises(InputError, match="could not finish"):
        list(distributed.stream(cluster.scheduler_address, TRIPLETS, ANSWERS))
    assert f"has 0 workers ('dask worker {cluster.scheduler_address}' starts one)" in notices[0]


def test_bad_choices_are_one_clear_error(address):
    with pytest.raises(InputError, match="no Dask scheduler at tcp://127.0.0.1:9"):
        next(distributed.stream("tcp://127.0.0.1:9", TRIPLETS, ANSWERS))
    with pytest.raises(InputError, match="needs a judge"):
        next(distributed.stream(address, TRIPLETS, ANSWERS, scorer="llm"))
