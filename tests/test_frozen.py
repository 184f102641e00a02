"""What the default run asks, aligns and reports, as it was before the kit was made thin: by feature.

An entry changes only in the commit that removes its feature, replaces the local evaluator or mends named data.
"""

import hashlib
import json
from pathlib import Path

import pytest

import ems

HERE = Path(__file__).parent
DATA = HERE.parent / "data" / "q3-2024"
FROZEN = json.loads((HERE / "frozen.json").read_text())


def digest(rows):
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()


def canonical(rows):
    return digest(json.dumps(row, sort_keys=True, ensure_ascii=False) for row in rows)


class KeyLog(ems.LLMJudge):
    def key(self, request, **other):
        key = super().key(request, **other)
        self.__dict__.setdefault("log", set()).add(key)
        return key


@pytest.fixture(scope="module")
def run():
    judge = KeyLog("large-llm-2026-11", store=ems.Replies(DATA / "replies.jsonl"), mode="replay",
                   temperature=None, seed=None)
    from ems.study.dataset.calls import own_triplets
    triplets, answers = own_triplets(), ems.load_answers(DATA / "answers.jsonl")
    return judge, ems.build(judge, "llm", variant="all").evaluate(triplets, answers)


def test_keys_and_alignments_of_ems(run):
    judge, results = run
    assert {"n": len(judge.log), "sha256": digest(judge.log)} == FROZEN["keys"]["EMS(LLM) joint"]
    assert canonical([r.triplet_id, r.model, r.ref_points, r.ans_points, r.match,
                      [None if s is None else round(s, 6) for s in r.score]]
                     for r in results) == FROZEN["alignments"]["EMS(LLM)"]
