"""Cheaper and other ways to ask for matches: named, signed apart, never the default."""

import json
from math import isnan, nan

import pytest
from doubles import ScriptedJudge
from loopback import Loopback, completion, refusing
from scripted import judgeable, judged

import ems
from ems.asking import Record, Reply
from ems.batches import MissingReplies
from ems.judge.client import LLMJudge
from ems.judge.store import Replies
from ems.local.scorers import SimilarityMatcher
from ems.local.sentences import SentenceExtractor
from ems.match import LLMMatcher
from ems.pipeline import EMS
from ems.presets import VARIANTS, build
from ems.prompting import Prompts
from ems.score import LLMScorer
from ems.types import EMSResult, InputError
from ems.variants.finer import ExpectedLLMScorer, mean_score
from ems.variants.joint import JointLLMMatcher, JointLLMScorer

REF = ("Revenue was $5 billion.", "Margin was 20%.", "No dividend is paid.")
ANS = ("Margin came to 20%.", "Sales were 5 billion dollars.")


def test_the_default_is_the_papers_way():
    assert LLMMatcher(ScriptedJudge()).signature == LLMMatcher(ScriptedJudge(), variant="faithful").signature
    assert "variant" not in build(ScriptedJudge(), "llm").signature


def test_each_variant_signs_itself():
    signatures = {build(ScriptedJudge(), "rouge", variant=v).signature for v in VARIANTS}
    assert len(signatures) == len(VARIANTS)
    for variant in set(VARIANTS) - {"faithful"}:
        assert f"variant={variant}" in build(ScriptedJudge(), "llm", variant=variant).signature


@pytest.mark.parametrize(("judge", "variant", "says"), [
    (ScriptedJudge(), "cheap", "variant must be one of faithful, shared, reasoned, all, got 'cheap'"),
    (None, "shared", "variant 'shared' is a way to ask a judge, and there is none"),
])
def test_bad_variants(judge, variant, says):
    with pytest.raises(InputError, match=says):
        build(judge, "llm" if judge else "local", variant=variant)


def test_shared_prompts_differ_only_after_the_candidates():
    judge = ScriptedJudge("1", "0", "-1")
    assert LLMMatcher(judge, variant="shared")([(REF, ANS)]) == [(1, 0, -1)]
    after = judge.seen[0].index('Reference point: "Revenue')
    assert judge.seen[0][:after] == judge.seen[1][:after] == judge.seen[2][:after]
    assert "numbered from 0:\n0: \"Margin came to 20%.\"\n1: " in judge.seen[0][:after]
    assert 'Reference point: "Margin was 20%."\n' in judge.seen[1][after:]


def test_all_in_one_call():
    judge = ScriptedJudge('{"matches": [1, 0, -1]}', '{"matches": [0]}')
    assert JointLLMMatcher(judge)([(REF, ANS), (REF, ()), (REF[:1], ANS), ((), ANS)]) == [
        (1, 0, -1), (-1, -1, -1), (0,), ()]
    assert len(judge.seen) == 2
    assert 'Reference points:\n0: "Revenue was $5 billion."\n1: "Margin was 20%."\n2: "No dividend' in judge.seen[0]


@pytest.mark.parametrize(
    ("reply", "indices"),
    [
        ('{"matches": [1, 0, -1]}', [1, 0, -1]),
        ("[1, 0, -1]", [1, 0, -1]),
        ('```json\n{"matches": [1, "0", -1]}\n```', [1, 0, -1]),
        ('{"matches": [1, 7, -1]}', [1, None, -1]),  # off the menu of two: that entry alone
        ('{"matches": [1, 0.5, -1]}', [1, None, -1]),
        ('{"matches": [1, true, -1]}', [1, None, -1]),
        ('{"matches": [1, 0]}', None),  # which one is missing nobody knows
        ('{"matches": [1, 0, -1, 1]}', None),
        ("[1, 0, -1] or [0, 0, -1]", None),
        ('{"matches": [1, 0', None),
        ("1, 0, -1", None),
        ("", None),
        ("I cannot.", None),
        ('{"matches": 1}', None),
    ],
)
def test_lists_of_indices(reply, indices):
    match, = JointLLMMatcher(ScriptedJudge(reply))([(REF, ANS)])
    assert match == (tuple(indices) if indices else (None,) * 3)


def test_lists_of_indices_on_a_menu_from_one():
    prompts = Prompts()
    prompts.first = 1
    matcher = JointLLMMatcher(ScriptedJudge("[1, 2, -1, 0]"), prompts)
    assert matcher([((*REF, "Costs fell."), ANS)]) == [(0, 1, -1, None)]


def test_what_cannot_be_read_is_unscored_and_counted():
    matcher = JointLLMMatcher(ScriptedJudge("none of them", Reply(None, "length"), '{"matches": [0, 5, -1]}'))
    assert matcher([(REF, ANS)] * 3) == [(None,) * 3, (None,) * 3, (0, None, -1)]
    assert matcher.unread == {"match: unreadable": 3 + 1, "match: length": 3}


def test_reasoning_may_say_numbers_but_the_last_line_counts():
    judge = ScriptedJudge("Candidate 1 speaks of sales, 0 of margins.\n1", "Both are about 20%.\n0", "I choose 1 of 2")
    assert LLMMatcher(judge, variant="reasoned")([(REF, ANS)]) == [(1, 0, None)]
    assert {r.max_tokens for r in judge.requests} == {256}
    assert "alone on the last line" in judge.seen[0]


def test_the_example_of_one_call_for_all_is_consistent():
    example = Prompts().template("match_all").template.split("\nExample\n")[1]
    references, _, rest = example.partition("Candidate points:\n")
    menu, _, said = rest.partition("\nJSON: ")
    matches = json.loads(said.splitlines()[0])["matches"]
    assert len(matches) == references.count(': "')
    assert all(-1 <= index < menu.count(': "') for index in matches)


@pytest.mark.parametrize("variant", ["faithful", "shared", "reasoned"])
def test_the_question_repeats_the_reference_point_after_the_candidates(variant):
    judge = ScriptedJudge(*"000")
    LLMMatcher(judge, variant=variant)([(REF, ANS)])
    assert all(f'the reference point, "{ref}"?' in prompt.rpartition("2: ")[2] for ref, prompt in zip(REF, judge.seen, strict=True))


@pytest.mark.slow
def test_agreement_with_the_faithful_variant_on_stored_replies(tmp_path):
    triplets, answers = judgeable(4, 5)
    with Loopback(judged) as server:
        for variant in VARIANTS:
            judge = LLMJudge("m", base_url=server.url, store=Replies(tmp_path / "r.sqlite"))
            build(judge, "rouge", variant=variant).evaluate(triplets, answers)
            if variant == "all":
                assert judge.usage()["match"].calls == len(answers)
    chosen, calls = {}, {}
    for variant in VARIANTS:
        judge = LLMJudge("m", store=Replies(tmp_path / "r.sqlite"), mode="replay")
        results = build(judge, "rouge", variant=variant).evaluate(triplets, answers)
        chosen[variant], calls[variant] = [r.match for r in results], judge.usage()["match"].requests
    assert all(chosen[variant] == chosen["faithful"] for variant in VARIANTS)
    assert sum(map(len, chosen["faithful"])) == 4 * 5
    assert calls == {"faithful": 20, "shared": 20, "all": 4, "reasoned": 20}


# --- expected scores ---

@pytest.mark.parametrize(("chances", "score"), [
    ({"7": 0.5, "8": 0.5}, 7.5 / 9),
    ({"9": 0.6, " 8": 0.2, "The": 0.2}, (9 * 0.6 + 8 * 0.2) / 0.8 / 9),       # over what is a number alone
    ({"0": 1.0}, 0.0), ({"9": 0.5}, 1.0),
    # More likely to say something else.
    ({"9": 0.4, "I": 0.6}, None),
    ({"12": 0.9}, None), ({"\u0667": 0.9}, None), ({"": 1.0}, None), ({}, None),
])
def test_mean_score_by_hand(chances, score):
    assert mean_score(chances, 9) == (score if score is None else pytest.approx(score))


@pytest.mark.parametrize("chances", [{"9": 0.888922}, {"9": 0.458265, " 9": 0.102028}])
def test_a_mean_score_is_at_most_1_whatever_floats_round_to(chances):
    assert mean_score(chances, 9) == 1.0


@pytest.mark.parametrize(("reply", "precision", "unscored"), [
    ("no list", nan, 2), ('{"scores": [11, 5]}', 0.5, 1), ('{"scores": [10, 5]}', 0.75, 0)])
def test_a_lost_reply_about_the_answers_side_is_counted(reply, precision, unscored):
    judge = ScriptedJudge('{"scores": [10, 4]}', reply)
    result, = build(judge, "llm-sides").score_alignments([aligned()])
    assert (result.recall, result.unscored) == (0.7, unscored)
    assert result.precision == pytest.approx(precision, nan_ok=True)
    assert result.reason == {nan: "no point could be scored", 0.5: "1 of 4 points unscored", 0.75: ""}[precision]
    assert ems.to_frame([result])["unscored"].max() == unscored


def likely_reply(text, error, chances):
    return Reply(text, error, Record("k", "score", "m", text or "7 because", sent={"chances": chances}))


def test_expected_scores_are_signed_and_need_one_digit():
    judge = ScriptedJudge(
        likely_reply("7", "", {"7": 0.5, "8": 0.5}),
        Reply("7"),
        likely_reply(None, "refusal", {"7": 0.9}),
        likely_reply(None, "length", {"7": 0.9}),
    )
    scorer = ExpectedLLMScorer(judge)
    assert scorer([("a", "b")] * 4) == [pytest.approx(7.5 / 9), None, None, None]
    assert scorer.unread == {"score: no probabilities": 1, "score: refusal": 1, "score: length": 1}
    assert [r.top_logprobs for r in judge.requests] == [20] * 4
    assert scorer.signature == LLMScorer(judge, max_score=9).signature + ",expected"
    assert "max=9,expected" in build(judge, "llm-expected").signature
    for made in (lambda: ExpectedLLMScorer(judge, max_score=10), lambda: build(judge, "llm-expected", max_score=10)):
        with pytest.raises(InputError, match="9 or less for an expected score, got 10"):
            made()


def likely(body):
    said = completion("7", body)
    if "logprobs" in body:
        said["choices"][0]["logprobs"] = {"content": [{"token": "7", "logprob": -0.7, "top_logprobs": [
            {"token": "7", "logprob": -0.6931472}, {"token": "8", "logprob": -0.6931472}]}]}
    return said


def test_probabilities_are_asked_for_stored_and_replayed(tmp_path):
    store, scores = Replies(tmp_path / "r.sqlite"), []
    with Loopback(likely) as server:
        for mode in ("live", "replay"):
            judge = LLMJudge("m", base_url=server.url, store=store, mode=mode)
            scores += ExpectedLLMScorer(judge)([("a", "b")])
        assert (server.bodies[0]["logprobs"], server.bodies[0]["top_logprobs"], server.count) == (True, 20, 1)
        LLMScorer(LLMJudge("m", base_url=server.url, store=store), max_score=9)([("a", "b")])
        assert server.count == 2                                              # another question: another key
        assert "logprobs" not in server.bodies[1]
    assert scores == [pytest.approx(7.5 / 9)] * 2
    store.export(tmp_path / "r.jsonl")
    again = LLMJudge("m", store=Replies(tmp_path / "r.jsonl"), mode="replay")
    assert ExpectedLLMScorer(again)([("a", "b")]) == scores[:1]


def test_an_endpoint_without_probabilities_leaves_pairs_unscored(tmp_path):
    with Loopback("7", faults=refusing("logprobs", "top_logprobs")) as server:
        judge = LLMJudge("plain", base_url=server.url, store=Replies(tmp_path / "r.sqlite"))
        scorer = ExpectedLLMScorer(judge)
        assert scorer([("a", "b")]) == [None]
    assert scorer.unread == {"score: no probabilities": 1}
    assert next(judge.store.records()).sent["dropped"] == ["logprobs", "top_logprobs"]


def test_probabilities_come_back_from_a_batch(tmp_path):
    store = Replies(tmp_path / "r.sqlite")
    scorer = ExpectedLLMScorer(LLMJudge("m", store=store, mode="replay"))
    with pytest.raises(MissingReplies):
        scorer([("a", "b")])
    store.export_pending(tmp_path / "in.jsonl")
    asked = json.loads((tmp_path / "in.jsonl").read_text())
    done = {"custom_id": asked["custom_id"], "error": None, "response": {"status_code": 200, "body": likely(asked["body"])}}
    (tmp_path / "out.jsonl").write_text(json.dumps(done))
    store.import_batch(tmp_path / "out.jsonl")
    assert scorer([("a", "b")]) == [pytest.approx(7.5 / 9)]


# --- all scores of an answer in one call; both sides whole ---

PAIRS = ("Revenue rose 6%.", "Margin fell."), ("Revenue rose 6%.", "It rained.")


def aligned(ref=PAIRS[0], ans=PAIRS[1], match=(0, 1)):
    return EMSResult("t", "m", tuple(ref), tuple(ans), tuple(match))


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"scores": [10, 0]}', [1.0, 0.0]),
        ("[7, 11]", [0.7, None]),
        ('{"scores": [5, "3"]}', [0.5, 0.3]),
        ('{"scores": [5]}', [None, None]),
        ("7", [None, None]),
        ('{"scores": [5, 7.5]}', [0.5, None]),
        ("", [None, None]),
    ],
)
def test_joint_scores_are_read_one_by_one(reply, scores):
    scorer = JointLLMScorer(ScriptedJudge(reply))
    assert scorer.by_answer([[], [("a", "b"), ("c", "d")]]) == [[], scores]
    assert sum(scorer.unread.values()) == scores.count(None)


def test_joint_scores_cost_one_call_an_answer_and_are_signed():
    judge = ScriptedJudge('{"scores": [10, 2]}', '{"scores": [4]}')
    results = EMS(SentenceExtractor(), SimilarityMatcher(), JointLLMScorer(judge)).score_alignments(
        [aligned(), aligned(match=(-1, -1)), aligned(match=(0, None))])
    assert len(judge.seen) == 2
    assert [r.score for r in results] == [(1.0, 0.2), (0.0, 0.0), (0.4, None)]
    assert (results[0].recall, results[0].precision) == ((1.0 + 0.2) / 2, (1.0 + 0.2) / 2)
    assert "variant=all" in results[0].signature
    assert isinstance(build(judge, "llm", variant="all").scorer, JointLLMScorer)


def test_both_sides_whole_by_hand():
    judge = ScriptedJudge('{"scores": [10, 4]}', '{"scores": [9, 0]}')
    pipeline = build(judge, "llm-sides")
    result, = pipeline.score_alignments([aligned()])
    assert (result.recall, result.precision) == ((1.0 + 0.4) / 2, (0.9 + 0.0) / 2)
    assert result.whole_sides
    assert "|match:none|score:llm-sides:" in result.signature
    # The reference is scored.
    assert judge.seen[0].index('"It rained."') < judge.seen[0].index('0: "Revenue rose 6%."')
    # Then the answer.
    assert '1: "It rained."' in judge.seen[1]


def test_both_sides_whole_lose_one_side_alone_and_ask_nothing_of_an_empty_answer():
    judge = ScriptedJudge("no list", '{"scores": [9, 0]}')
    result, empty = build(judge, "llm-sides").score_alignments([aligned(), aligned(ans=(), match=(-1, -1))])
    assert isnan(result.recall)
    assert result.precision == (0.9 + 0.0) / 2
    assert result.unscored == 2
    assert (empty.recall, empty.precision, empty.f1) == (0.0, 0.0, 0.0)
    pooled = ems.summarise(ems.to_frame([result]), pool="micro").set_index("part")["value"]
    assert pooled["Precision"] == (0.9 + 0.0) / 2           # a part that has a value is pooled, the others are not
    assert isnan(pooled["Recall"])
