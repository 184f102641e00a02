"""The pipeline: answers are joined by id, unscored never becomes a number, any stages combine."""

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from math import isnan

import pytest
from doubles import ROOT, ScriptedJudge, judge_of, refused, text_of, until
from loopback import Fault, Loopback, by_words, error
from study import rescored

import ems
from ems.custom import as_stage
from ems.extract import LLMExtractor
from ems.judge import MissingReplies, Request
from ems.judge.client import JudgeUnavailable, LLMJudge
from ems.judge.store import Replies
from ems.match import LLMMatcher
from ems.metrics import ems_scores
from ems.pipeline import AT_ONCE, EMS, is_lost
from ems.results import Support
from ems.score import LLMScorer, rouge_scorer
from ems.types import Answer, GivenPoint, Triplet

REFERENCE = "Revenue was $5 billion. Margin was 20%."
ANSWER = "Sales came to 5 billion dollars. Costs fell. Margin was 20%."
TRIPLET = Triplet("t", "g", "How did it go?", REFERENCE)


def sentences(request):
    """Points as they are extracted here: the sentences of the text at the end of the prompt."""
    return json.dumps({"points": text_of(request.prompt).replace(". ", ".|").split("|")})


def scripted(**tasks):
    """A judge that does well with the one answer here, but for the tasks that are given."""
    return ScriptedJudge({"extract": sentences, "match": ["0", "2"], "score": ["8", "10"], **tasks})


def pipeline(judge, match=None, score=None):
    return EMS(LLMExtractor(judge), LLMMatcher(match or judge), LLMScorer(score or judge))


def test_three_stages_by_hand():
    judge = scripted()
    result = pipeline(judge).evaluate([TRIPLET], [Answer("t", "m", ANSWER)])[0]
    assert (result.triplet_id, result.model, result.group, result.question) == (
        "t",
        "m",
        "g",
        "How did it go?",
    )
    assert (result.match, result.score) == ((0, 2), (0.8, 1.0))
    assert (result.recall, result.precision) == ((0.8 + 1.0) / 2, (0.8 + 0.0 + 1.0) / 3)
    assert (result.unscored, result.reason) == (0, "")
    assert [r.task for r in judge.requests] == ["extract"] * 2 + ["match"] * 2 + ["score"] * 2
    points = re.compile('^(?:Reference p|P)oint.*: "(.*)"$', re.MULTILINE)
    assert [points.findall(prompt) for prompt in judge.seen[2:]] == [
        ["Revenue was $5 billion."],
        ["Margin was 20%."],
        ["Revenue was $5 billion.", "Sales came to 5 billion dollars."],
        ["Margin was 20%.", "Margin was 20%."],
    ]


@pytest.mark.parametrize(
    ("replies", "match"),
    [
        ({"match": ["0", "maybe 2 or 1"]}, (0, None)),
        ({"match": ["0", None]}, (0, None)),  # no reply came
        ({"match": ["0", "7"]}, (0, None)),  # there are three candidates
        ({"score": ["8", "excellent"]}, (0, 2)),
        ({"score": ["8", "11"]}, (0, 2)),
    ],
)
def test_a_reply_that_cannot_be_read_leaves_its_point_unscored(replies, match):
    evaluator = pipeline(scripted(**replies))
    result = evaluator.score(REFERENCE, ANSWER)
    assert (result.match, result.score) == (match, (0.8, None))
    assert (result.unscored, result.reason) == (1, "1 of 2 points unscored")
    assert result.recall == 0.8 / 1  # of the other point alone
    assert sum(evaluator.failures.values()) == 1


@pytest.mark.parametrize(
    ("lost", "unscored"), [([ANSWER], 2), ([REFERENCE], 1), ([REFERENCE, ANSWER], 1)]
)
def test_points_that_cannot_be_read_give_nan(lost, unscored):
    def reply(request):
        return "I would rather not." if text_of(request.prompt) in lost else sentences(request)

    evaluator = pipeline(scripted(extract=reply))
    result = evaluator.score(REFERENCE, ANSWER)
    assert is_lost(result)
    for one in (result, *rescored([result], rouge_scorer(), evaluator)):
        assert isnan(one.recall)
        assert isnan(one.f1)
        assert (one.unscored, one.score) == (unscored, (None,) * len(result.ref_points))
        assert "could not be read" in one.reason


def test_an_empty_answer_scores_zero_and_an_empty_reference_is_nan():
    judge = scripted()
    empty = pipeline(judge).score(REFERENCE, "  \n ")
    assert (empty.recall, empty.precision, empty.f1, empty.unscored) == (0.0, 0.0, 0.0, 0)
    assert [r.task for r in judge.requests] == ["extract"]  # the reference's points only
    none = pipeline(scripted()).score("", ANSWER)
    assert isnan(none.f1)
    assert (none.unscored, none.reason) == (0, "the reference has no points")
    assert [is_lost(empty), is_lost(none)] == [False, False]


def test_given_points_replace_the_reference_and_weigh_in_recall():
    given = (GivenPoint("Revenue was $5 billion.", 3.0), GivenPoint("Margin was 20%.", 1.0))
    asked = replace(TRIPLET, reference="", points=given)
    judge = scripted()
    (result,) = pipeline(judge).evaluate([asked], [Answer("t", "m", ANSWER)])
    assert [r.task for r in judge.requests].count("extract") == 1
    assert result.ref_weights == (3.0, 1.0)
    assert (result.recall, result.precision) == pytest.approx(
        ((3 * 0.8 + 1 * 1.0) / 4, (0.8 + 0.0 + 1.0) / 3)
    )


# --- another scorer on the same points and matches ---


def test_another_scorer_asks_nobody_and_keeps_points_and_matches():
    judge = scripted()
    evaluator = pipeline(judge)
    result = evaluator.score(REFERENCE, ANSWER)
    checked = replace(
        result,
        support=(Support("supported"),) * 3,
        signature={**result.signature, "support": "llm:kit"},
    )
    asked = len(judge.requests)
    (again,) = rescored([checked], rouge_scorer(), evaluator)
    assert len(judge.requests) == asked
    assert (again.match, again.support) == (checked.match, ())
    assert again.score[1] == 1.0  # the same sentence
    assert again.signature["score"].startswith("rouge:")
    assert {**again.signature, "score": ""} == {**result.signature, "score": ""}


# --- many answers ---


class Words:
    """Each word a point; counts the texts that it is given."""

    signature = "words"

    def __init__(self):
        self.seen = []

    def __call__(self, texts):
        self.seen += texts
        return [tuple(text.split()) for text in texts]


def same_words(pairs):
    """Matches each word with the first one that is equal."""
    matches = []
    for ref, ans in pairs:
        matches.append([ans.index(word) if word in ans else -1 for word in ref])
    return matches


SAME = as_stage(same_words, "matcher")
ONE = as_stage(lambda pairs: [1.0 for _ in pairs], "scorer")


class Fixed:
    """A stage of a class of one's own, which returns the same whatever it is given."""

    signature = "fixed"

    def __init__(self, output):
        self.output = output

    def __call__(self, inputs):
        return self.output


@pytest.mark.parametrize("match", [(0, 3), (0, -2)])
def test_a_matcher_that_names_what_is_not_there_is_refused(match):
    with refused("match[1]"):
        EMS(Words(), Fixed([match]), ONE).score("a b", "c d e")


@pytest.mark.parametrize(
    ("matches", "words"),
    [
        ([(0,)], ("matcher", "each reference point", "2 needed, 1 returned")),
        ([(0, 1, 2)], ("matcher", "each reference point", "2 needed, 3 returned")),
        ([(0, 1), (0, 1)], ("matcher", "each answer", "1 needed, 2 returned")),
        ([], ("matcher", "each answer", "1 needed, 0 returned")),
    ],
)
def test_a_matcher_gives_each_reference_point_one_match(matches, words):
    with refused(*words):
        EMS(Words(), Fixed(matches), ONE).score("a b", "c d e")


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([[1.0, 0.5]], ("scorer", "each matched pair", "1 needed, 2 returned")),
        ([[]], ("scorer", "each matched pair", "1 needed, 0 returned")),
        ([[1.0], [1.0]], ("scorer", "each answer", "1 needed, 2 returned")),
        ([], ("scorer", "each answer", "1 needed, 0 returned")),
    ],
)
def test_a_scorer_gives_each_matched_pair_one_score(scores, words):
    with refused(*words):
        EMS(Words(), Fixed([(0, -1)]), Fixed(scores)).score("a b", "c d e")


def test_an_extractor_gives_each_text_a_list():
    with refused("extractor", "each text", "2 needed, 1 returned"):
        EMS(Fixed([("a",)]), SAME, ONE).score("a b", "c d e")


def test_scores_go_to_the_points_that_are_matched_and_to_no_other():
    match = (-1, 2, None, 0, 2)
    matcher = as_stage(lambda pairs: [match for _ in pairs], "matcher")
    scorer = as_stage(lambda pairs: [0.5, None, 0.25], "scorer")
    result = EMS(Words(), matcher, scorer).score("a b c d e", "x y z")
    assert result.score == (0.0, 0.5, None, None, 0.25)
    expected = ems_scores(match, result.score, 3)
    assert (result.recall, result.precision, result.f1, result.unscored) == (
        expected.recall,
        expected.precision,
        expected.f1,
        expected.unscored,
    )


def test_answers_stream_in_batches_joined_by_id_and_a_reference_is_extracted_once_in_each():
    triplets = [Triplet(f"t{i}", f"g{i}", "q", f"word{i} and more") for i in (2, 0, 1)]
    answers = [
        Answer(f"t{i % 3}", f"m{i}", f"answer number{i // 2} word0")
        for i in range(2 * AT_ONCE + 44)
    ]
    taken = []

    def source():
        for answer in answers:
            taken.append(answer)
            yield answer

    words = Words()
    stream = EMS(words, SAME, ONE).stream(triplets, source())
    results = [next(stream)]
    assert len(taken) == AT_ONCE
    results += stream
    assert [(r.triplet_id, r.model) for r in results] == [(a.triplet_id, a.model) for a in answers]
    assert {(r.group, r.recall) for r in results} == {("g0", 1 / 3), ("g1", 0.0), ("g2", 0.0)}
    assert [words.seen.count(t.reference) for t in triplets] == [3, 3, 3]
    assert len(words.seen) == 3 * 3 + len({a.answer for a in answers})  # the same text once


def test_unknown_and_repeated_ids_are_refused():
    evaluator = EMS(Words(), SAME, ONE)
    with refused("'z'"):
        evaluator.evaluate([TRIPLET], [Answer("t", "m", "x"), Answer("z", "m", "y")])
    with refused("must be unique"):
        evaluator.evaluate([TRIPLET, TRIPLET], [])


def test_a_replay_names_what_is_missing_of_every_batch(tmp_path):
    store = Replies(tmp_path / "replies.sqlite")
    judge = LLMJudge("m", store=store, mode="replay", workers=1)
    answers = [Answer("t", f"m{i}", f"Answer number {i}.") for i in range(2 * AT_ONCE + 3)]
    with pytest.raises(MissingReplies) as error:
        pipeline(judge).evaluate([TRIPLET], answers)
    assert {task for _, task, _ in error.value.missing} == {"extract"}
    assert len(error.value.missing) == len(answers) + 1


def test_the_signature_says_which_of_several_judges_does_what():
    def one(prompt): ...
    def two(prompt): ...

    assert pipeline(one).signature["judge"] == "one"
    mixtures = ((one, two, two), (one, one, two), (one, two, one))
    signatures = [pipeline(*judges).signature["judge"] for judges in mixtures]
    assert len(set(signatures)) == 3
    cold, alike, warm = [LLMJudge("m", store=Replies(), temperature=t) for t in (0.0, 0.0, 1.0)]
    assert pipeline(cold, alike, alike).signature["temperature"] == "0.0"  # two alike are one
    assert "temperature:1.0" in pipeline(cold, alike, warm).signature["judge"]


# --- portions that ask a live judge at once ---

MANY = [
    Triplet(
        f"t{i}", f"g{i}", "What rose?", f"Sales rose by {i} percent. Costs fell by {i}0 dollars."
    )
    for i in range(10)
]
MANY_ANSWERS = [
    Answer(f"t{i % 10}", f"m{i // 10}", f"Sales rose by {i % 10} percent. Shop {i} was closed.")
    for i in range(20)
]


@pytest.mark.parametrize("joint", [True, False])
def test_portions_give_the_results_of_one_run_in_order_and_ask_nothing_twice(joint):
    runs = []
    with Loopback(by_words, latency=0.02) as server:
        for workers in (1, 32):  # one worker: no portions
            asked = server.count
            evaluator = ems.build(judge_of(server, workers=workers), joint=joint)
            runs.append((evaluator.evaluate(MANY, MANY_ANSWERS), server.count - asked))
    assert runs[0] == runs[1]
    assert [(r.triplet_id, r.model) for r in runs[1][0]] == [
        (a.triplet_id, a.model) for a in MANY_ANSWERS
    ]
    prompts = [body["messages"][-1]["content"] for body in server.bodies]
    assert len(prompts) == 2 * len(set(prompts))


def test_a_portion_starts_its_next_stage_while_another_waits_for_a_reply():
    arrivals = {"slow": [], "match": []}

    def faults(number, body):
        prompt = body["messages"][-1]["content"]
        if "candidate point" in prompt:
            arrivals["match"].append(time.monotonic())
        elif text_of(prompt).startswith("Sales rose by 0 percent. Costs"):
            arrivals["slow"].append(time.monotonic())
            return Fault(delay=2.0)
        return None

    with Loopback(by_words, faults=faults) as server:
        ems.build(judge_of(server), joint=True).evaluate(MANY, MANY_ANSWERS)
    assert len(arrivals["slow"]) == 1
    assert min(arrivals["match"]) < arrivals["slow"][0] + 2.0 < max(arrivals["match"])


def test_an_error_in_one_portion_ends_all():
    def faults(number, body):
        return error(401, "no such key") if number == 5 else Fault(delay=0.1)

    with Loopback(by_words, faults=faults) as server:
        judge = judge_of(server, workers=4)
        began = time.monotonic()
        with pytest.raises(JudgeUnavailable, match="no such key"):
            ems.build(judge).evaluate(MANY, MANY_ANSWERS)
        assert time.monotonic() - began < 5
        assert server.count <= 5 + 2 * 4
        saved = len(judge.store.records())
        assert 5 <= saved < server.count
        judge.ask([Request("match", "another question", 16)])  # the judge may be asked again
        assert len(judge.store.records()) == saved + 1


INTERRUPTED = """
import sys
import ems
from ems.types import Answer, Triplet
triplets = [Triplet(f"t{i}", "g", "q", f"Sales rose by {i} percent.") for i in range(60)]
answers = [Answer(t.id, "m", t.reference + " So it was.") for t in triplets]
judge = ems.LLMJudge("m", base_url=sys.argv[1], store=ems.Replies(sys.argv[2]), workers=8)
ems.build(judge).evaluate(triplets, answers)
"""


@pytest.mark.slow
def test_an_interrupt_ends_all_portions_and_saves_what_came(tmp_path):
    path = tmp_path / "r.sqlite"

    def faults(number, body):
        return Fault(delay=60) if number >= 20 else None

    with Loopback(by_words, faults=faults) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, server.url, str(path)],
            cwd=ROOT,
            text=True,
            stderr=subprocess.PIPE,
        )
        until(lambda: server.count >= 28)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=20)
    assert process.returncode != 0
    assert f"stopped; 20 replies that came are saved in {path}; run it again to go on" in message
    assert len(Replies(path).records()) == 20
