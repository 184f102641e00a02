"""The whole judge path against a real local model server, then replayed to equal values.

SmolLM2-135M is far too small to judge. It is here because it is real: it writes broken lists,
invents labels and runs into its limits, and none of that may become a number.
"""

import json

import pytest

pytest.importorskip(
    "xllamacpp", reason="the live test needs xllamacpp (pip install '.[test]' in a clone)"
)

from model_server import serve, smollm2

import ems
from ems.baselines import RAGChecker
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.types import Answer, Triplet

pytestmark = pytest.mark.slow
TRIPLETS = [
    Triplet(
        "t1",
        "Harbor Foods",
        "How did Harbor Foods do?",
        "Harbor Foods sold $4.2 billion of groceries. Gross margin was 24.1%.",
    )
]
ANSWERS = [
    Answer(
        "t1", "one", "Grocery sales of Harbor Foods were $4.2 billion. Gross margin came to 24.1%."
    ),
    Answer("t1", "empty", ""),
]


@pytest.fixture(scope="module")
def address():
    try:
        model = smollm2()
    except FileNotFoundError as error:
        pytest.skip(f"{error} (make setup installs it)")
    with serve(model) as url:
        yield url


def judged(judge):
    """EMS in three stages, and RAGChecker; every number is one of those on offer."""
    results = ems.build(judge, joint=True).evaluate(TRIPLETS, ANSWERS)
    tenths = {n / 10 for n in range(11)}
    for result in results:
        assert all(i is None or -1 <= i < len(result.ans_points) for i in result.match)
        assert all(score is None or score in tenths for score in result.score)
    results += RAGChecker(judge).evaluate(TRIPLETS, ANSWERS)
    return [json.dumps(result.to_dict()) for result in results]


def test_live_then_replayed_and_within_what_a_dry_run_says(address, tmp_path):
    live = LLMJudge(
        "smollm2-135m", store=Replies(tmp_path / "replies.sqlite"), base_url=address, workers=2
    )
    first, usage = judged(live), live.usage()
    assert {"extract", "claims", "entail"} <= usage.keys()
    assert sum(used.calls for used in usage.values()) == len(live.store.records()) > 0
    plan = LLMJudge("smollm2-135m", mode="plan")
    judged(plan)
    for task, used in usage.items():
        most = plan.usage()[task]
        assert 0 < used.calls <= most.calls
        assert 0 < used.prompt_tokens <= most.prompt_tokens
        assert 0 < used.completion_tokens <= most.completion_tokens
    live.store.export(tmp_path / "recorded.jsonl")
    # An address nobody listens at: a replay must not care.
    replay = LLMJudge(
        "smollm2-135m",
        store=Replies(recorded=[tmp_path / "recorded.jsonl"]),
        mode="replay",
        base_url="http://127.0.0.1:9/v1",
    )
    assert judged(replay) == first
    assert all(used.calls == 0 for used in replay.usage().values())
