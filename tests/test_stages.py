"""Extract, match and score with scripted judges: what is asked, read, and left unscored."""

import json
from itertools import product

import pytest
from doubles import ScriptedJudge, refused
from rouge_score.rouge_scorer import RougeScorer as OfficialRouge

from ems.analysis.frames import metric_of
from ems.extract import LLMExtractor, blocks_of, list_request, without_summaries
from ems.judge import Record
from ems.local.sentences import SentenceExtractor
from ems.local.words import WordMatcher
from ems.match import LLMMatcher
from ems.pipeline import EMS
from ems.prompts import Prompts, numbered
from ems.score import (
    ROUGE_KINDS,
    LLMScorer,
    bert_scorer,
    bleu,
    bleu_scorer,
    rouge,
    rouge_l,
    rouge_scorer,
)

LONG = "Overall, sales rose.\n\nSales rose 5%.\n\nCosts fell 2%.\n\nIn short, all went well."


def points(*texts):
    return json.dumps({"points": list(texts)})


# --- extract ---


def test_summaries_go_before_points_are_listed():
    judge = ScriptedJudge(
        {"summary": '{"blocks": [0, 3]}', "extract": points("Sales rose 5%.", "Costs fell 2%.")}
    )
    extractor = LLMExtractor(judge)
    assert extractor([LONG]) == [("Sales rose 5%.", "Costs fell 2%.")]
    assert numbered(blocks_of(LONG)) in judge.seen[0]
    assert "<text>\nSales rose 5%.\n\nCosts fell 2%.\n</text>" in judge.seen[1]
    assert "Overall" not in judge.seen[1]
    assert not extractor.failures


def test_short_and_empty_texts_cost_no_call_they_do_not_need():
    judge = ScriptedJudge({"extract": points("a")})
    hidden = "\u200b\u2060\x00 \ufeff"
    assert LLMExtractor(judge)(["One line.", "", hidden]) == [("a",), (), ()]
    assert [request.task for request in judge.requests] == ["extract"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"summary": "I cannot say.", "extract": points("a")}, "summary: unreadable"),
        ({"summary": '{"blocks": [9]}', "extract": points("a")}, "summary: unreadable"),
        ({"summary": '{"blocks": []}', "extract": None}, "extract: no reply"),
        (
            {
                "summary": '{"blocks": []}',
                "extract": Record("", "extract", "m", points("a"), "length"),
            },
            "extract: length",
        ),
    ],
)
def test_a_text_whose_reply_is_lost_has_no_points_and_is_counted(script, reason):
    extractor = LLMExtractor(ScriptedJudge(script))
    assert extractor([LONG]) == [None]
    assert extractor.failures == {reason: 1}


@pytest.mark.parametrize(
    ("named", "kept"),
    [
        ([0], "b\n\nc\n\nd"),
        ([3], "a\n\nb\n\nc"),
        ([0, 1, 3], "c"),
        ([1, 2], "a\n\nb\n\nc\n\nd"),
        ([], "a\n\nb\n\nc\n\nd"),
        ([0, 1, 2, 3], "a\n\nb\n\nc\n\nd"),  # a text cannot be only a summary of itself
    ],
)
def test_only_openings_and_closings_go(named, kept):
    text = "a.\n\nb.\n\nc.\n\nd."
    expected = "\n\n".join(f"{letter}." for letter in kept.split("\n\n"))
    assert without_summaries(text, blocks_of(text), named) == expected


def test_blocks_stand_as_they_are_in_the_text():
    text = "# Sales\n\nThey rose.\n \nThey rose.\n\n**Costs**\nThey fell.\n\nEnd."
    blocks = blocks_of(text)
    assert blocks == ["# Sales\n\nThey rose.", "They rose.", "**Costs**\nThey fell.", "End."]
    assert without_summaries(text, blocks, [0]) == text[text.index("\n \n") + 3 :]
    assert without_summaries(text, blocks, [1]) == text
    assert blocks_of("One.\nTwo.\nThree.") == ["One.", "Two.", "Three."]  # no empty line: its lines


@pytest.mark.parametrize(
    ("text", "tokens"), [("a" * 1000, 256 + 500), ("语" * 1000, 256 + 500 + 2000)]
)
def test_a_reply_has_room_for_its_text_in_any_script(text, tokens):
    assert list_request(Prompts(), "extract", "points", text).max_tokens == tokens


def test_a_prompt_that_asks_for_another_form_than_json_goes_without_a_schema(tmp_path):
    (tmp_path / "extract.txt").write_text("List the points of $answer")
    judge = ScriptedJudge({"extract": "- a\n- b"})
    assert LLMExtractor(judge, Prompts(tmp_path))(["x"]) == [("a", "b")]
    assert judge.requests[0].schema is None


# --- match ---

REF, ANS = ("sales rose", "costs fell", "new shops"), ("revenue up", "31 stores")


@pytest.mark.parametrize(
    ("joint", "replies", "signature"),
    [
        (False, ["0", "-1", "1", "0"], f"llm:{Prompts().signature('match')}"),
        (
            True,
            ['{"matches": [0, -1, 1]}', '{"matches": [0]}'],
            f"llm:{Prompts().signature('match_all')},joint",
        ),
    ],
)
def test_one_call_a_reference_point_or_jointly_an_answer(joint, replies, signature):
    judge = ScriptedJudge([*replies])
    matcher = LLMMatcher(judge, joint=joint)
    assert matcher([(REF, ANS), ((), ANS), (REF, ()), (("a",), ("b",))]) == [
        (0, -1, 1),
        (),
        (-1, -1, -1),
        (0,),
    ]
    assert len(judge.seen) == len(replies)
    assert matcher.signature == signature


@pytest.mark.parametrize(
    ("reply", "match", "lost"),
    [
        ('{"matches": [0.0, -1, "1"]}', (0, -1, 1), 0),
        ('{"matches": [0, 7, -2]}', (0, None, None), 2),  # off the menu: each for itself
        ('{"matches": [0, -1]}', (None, None, None), 3),
        ("0, -1, 1", (None, None, None), 3),
        (None, (None, None, None), 3),
    ],
)
def test_joint_matches_that_cannot_be_read_are_unscored_and_counted(reply, match, lost):
    matcher = LLMMatcher(ScriptedJudge([reply]), joint=True)
    assert matcher([(REF, ANS)]) == [match]
    assert matcher.failures.total() == lost


# --- score ---

GROUPS = [[("a", "b"), ("c", "d")], [], [("e", "f")]]


@pytest.mark.parametrize(
    ("joint", "replies", "signature", "tokens"),
    [
        (False, ["7", "11", "high"], f"llm:{Prompts().signature('score')},max=10", 32),
        (
            True,
            ['{"scores": [7.0, 11]}', '{"scores": [3, 4]}'],
            f"llm:{Prompts().signature('score_all')},max=10,joint",
            32 + 8 * 2,
        ),
    ],
)
def test_one_call_a_pair_or_jointly_an_answer(joint, replies, signature, tokens):
    judge = ScriptedJudge([*replies])
    scorer = LLMScorer(judge, joint=joint)
    assert scorer(GROUPS) == [[0.7, None], [], [None]]
    assert scorer.failures == {"score: unreadable": 2}
    assert scorer.signature == signature
    assert judge.requests[0].max_tokens == tokens
    assert "from 0 to 10" in judge.seen[0]


def test_another_scale():
    judge = ScriptedJudge("50")
    assert LLMScorer(judge, max_score=100)([[("a", "b")]]) == [[0.5]]
    assert "from 0 to 100" in judge.seen[0]
    assert "about 50" in judge.seen[0]
    with refused("got 0"):
        LLMScorer(judge, max_score=0)


def test_a_dry_run_assumes_replies_that_every_stage_can_read():
    def assumed(request):
        return request.assumed()

    judge = ScriptedJudge(assumed)
    (listed,) = LLMExtractor(judge)([LONG])
    most = judge.requests[-1].schema["properties"]["points"]["maxItems"]
    assert len(listed) == most == len(set(listed))
    for joint in (False, True):
        assert LLMMatcher(judge, joint=joint)([(REF, ANS)]) == [(0, 1, 0)]
        assert LLMScorer(judge, joint=joint)(GROUPS) == [[1.0, 1.0], [], [1.0]]


# --- without a judge ---

TEXTS = [
    "Revenue was $5.2 billion, up 8%.",
    "Sales of 5.2 billion dollars; they were up 8%",
    "",
    "Margins fell as costs rose.",
    "The stores' costs were rising, and margins falling",
    "Ümlaut 收入",
    "a b c d e f g",
]
PAIRS = list(product(TEXTS, TEXTS))


def test_rouge_has_the_values_of_rouge_score():
    official = OfficialRouge(["rougeL"], use_stemmer=True)
    scores = rouge_l([a for a, _ in PAIRS], [b for _, b in PAIRS])
    for (ref, ans), score in zip(PAIRS, scores, strict=True):
        assert score == tuple(official.score(ref, ans)["rougeL"])
    assert rouge_scorer()([[("a b c d", "a c x")], []]) == [
        [2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4)],
        [],
    ]


@pytest.mark.parametrize("kind", ROUGE_KINDS)
def test_each_kind_of_rouge_has_the_values_of_rouge_score(kind):
    official = OfficialRouge([kind], use_stemmer=True)
    scores = rouge([a for a, _ in PAIRS], [b for _, b in PAIRS], kind)
    for (ref, ans), score in zip(PAIRS, scores, strict=True):
        assert score == tuple(official.score(ref, ans)[kind])


def test_a_scorer_of_another_kind_of_rouge_has_its_own_name():
    # Pairs of words: a b, b c, c d / a b, b x. One of three, and one of two.
    scorer = rouge_scorer("rouge2")
    assert scorer([[("a b c d", "a b x")]]) == [[pytest.approx(2 / (2 + 3))]]
    result = EMS(SentenceExtractor(), WordMatcher(), scorer).score("a b c d.", "a b c d.")
    assert metric_of(result) == "EMS(rouge2)"
    with refused("the kind of ROUGE is one of ['rougeL', 'rouge1', 'rouge2'], got 'rouge-2'"):
        rouge_scorer("rouge-2")


def test_bleu_by_hand():
    # Words a b c d / a b x d: 3 of 4, and 1 of 3 pairs; no common run of three or four words, which
    # is smoothed to 0.1 of 2 and 0.1 of 1.
    expected = (3 / 4 * 1 / 3 * 0.1 / 2 * 0.1 / 1) ** 0.25
    assert bleu(["a b c d"], ["a b x d"]) == [pytest.approx(expected)]
    text = "Revenue was 5.2 billion dollars in 2023."
    assert bleu([text, text, ""], [text, "", text]) == [1.0, 0.0, 0.0]
    assert bleu_scorer()([[(text, text)], [("a", "")]]) == [[1.0], [0.0]]


def test_bertscore_is_clipped_and_regrouped():
    class Encoder:
        signature = "tiny"

        def bertscore(self, references, candidates):
            assert (references, candidates) == (["a", "c", "e"], ["b", "d", "f"])
            return [-0.1, 0.5, 1.0000001]

    scorer = bert_scorer(Encoder())
    assert scorer(GROUPS) == [[0.0, 0.5], [], [1.0]]
    assert scorer.signature == "bertscore:tiny"
