"""Evaluation on a Dask cluster: the same results as on one machine, also when a worker dies halfway."""

import json
import os
import signal

import pytest
from scripted import judgeable

from ems.batches import CHUNK
from ems.cli import main
from ems.io import write_jsonl
from ems.presets import build
from ems.study.run.distributed_run import stream
from ems.types import InputError

TRIPLETS, ANSWERS = judgeable(CHUNK * 5 + 7, 4)                # six partitions, the last one short
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def distributed():
    return pytest.importorskip("distributed", reason="the cluster test needs dask: pip install 'ems-kit[dask]'")


@pytest.fixture(scope="module")
def cluster(distributed):
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                                  silence_logs=50) as two_workers:
        yield two_workers


def plain(results):
    return [json.dumps(r.to_dict()) for r in results]


def test_same_results_with_one_worker_killed_halfway(distributed, cluster):
    alone = plain(build(None, "local").evaluate(TRIPLETS, ANSWERS))
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        victim = next(iter(client.run(os.getpid).values()))
    results = stream(cluster.scheduler_address, TRIPLETS, ANSWERS)
    received = [next(results)]
    os.kill(victim, signal.SIGKILL)
    received += results
    assert plain(received) == alone


def test_the_command_gives_the_same_file(cluster, tmp_path):
    files = [str(write_jsonl(tmp_path / "t.jsonl", TRIPLETS[:20])),
             str(write_jsonl(tmp_path / "a.jsonl", ANSWERS[:20]))]
    for name, more in (("one", []), ("two", ["--scheduler", cluster.scheduler_address])):
        assert main(["evaluate", *files, "-o", str(tmp_path / name), "--scorer", "rouge", *more]) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_bertscore_on_the_cluster(cluster):
    pytest.importorskip("bert_score", reason="BERTScore needs pip install 'ems-kit[encoder]'")
    few, encoder = slice(0, 3), "all-MiniLM-L6-v2"
    alone = build(None, "bertscore", encoder=encoder).evaluate(TRIPLETS[few], ANSWERS[few])
    assert plain(
        stream(cluster.scheduler_address, TRIPLETS[few], ANSWERS[few], "bertscore", encoder=encoder)
    ) == plain(alone)


def test_a_scheduler_that_is_lost_is_one_clear_error(distributed):
    local = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False,
                                     dashboard_address=None, silence_logs=50)
    results = stream(local.scheduler_address, TRIPLETS, iter(ANSWERS * 20))
    next(results)
    local.close()
    with pytest.raises(InputError, match=f"the Dask scheduler at {local.scheduler_address} was lost"):
        list(results)


def test_bad_choices_are_one_clear_error(cluster, tmp_path, capsys):
    with pytest.raises(InputError, match="no Dask scheduler at tcp://127.0.0.1:9"):
        next(stream("tcp://127.0.0.1:9", TRIPLETS, ANSWERS))
    with pytest.raises(InputError, match="scorer must be one of"):
        next(stream(cluster.scheduler_address, TRIPLETS, ANSWERS, "llm"))
    with pytest.raises(InputError, match="triplet ids of the answers are not among"):
        list(stream(cluster.scheduler_address, TRIPLETS[:1], ANSWERS[:3]))
    files = [str(write_jsonl(tmp_path / "t.jsonl", TRIPLETS[:2])),
             str(write_jsonl(tmp_path / "a.jsonl", ANSWERS[:2]))]
    assert (
        main(
            ["evaluate", *files, "-o", str(tmp_path / "o"), "--judge", "m", "--scheduler",
             "tcp://127.0.0.1:9", "--store", str(tmp_path / "r.sqlite")]
        )
        == 2
    )
    assert "a judge scales by its endpoint" in capsys.readouterr().err
