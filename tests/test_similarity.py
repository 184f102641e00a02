"""Likeness of two points without a judge: what weighs, what a number needs, what a contradiction costs."""

import random
import subprocess
import sys

import pytest

from ems.local.words import (
    CONTEXT,
    FUNCTION_WORD,
    NEGATION,
    NUMBER,
    QUESTION_WORD,
    Side,
    coverage,
    held_by,
    likeness,
    read_point,
    similarity,
    stem,
    word_weight,
    words_of,
)


def overlap(a, b):
    """What `similarity` makes its decision on."""
    side, other = Side([a]), Side([b])
    return next(likeness(side, other, held_by(side, other))).get(0, 0.0)


def covered(points, others, question="", cosines=None, given=False):
    side, other = Side(points, question, given=given), Side(others, question)
    return list(coverage(side, held_by(side, other), cosines))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("companies", "company"), ("grows", "grow"), ("growing", "grow"), ("planned", "plan"),
        ("strongly", "strong"), ("losses", "loss"), ("business", "business"), ("is", "is"),
        ("revenue", "revenu"), ("revenues", "revenu"), ("ring", "ring"), ("", ""),
    ],
)
def test_stem(word, expected):
    assert stem(word) == expected


def test_words_keep_their_order_and_unspaced_scripts_fall_into_characters():
    assert words_of("Apple's margins ROSE") == ["appl", "margin", "rose"]
    assert words_of("收入 rose") == ["收", "入", "rose"]


def test_word_weights():
    assert word_weight("the") == FUNCTION_WORD
    assert word_weight("cost") == word_weight("liabilities") == 1.0


def test_weight_of_a_point_by_hand():
    assert Side(["cost at 35% of cash, not cash"]).weights == pytest.approx(
        [1 + FUNCTION_WORD + NUMBER + FUNCTION_WORD + 1 + 2 * NEGATION])         # a word counts once


def test_footnotes_and_scale_words_are_no_words():
    assert set(read_point("cash [3] was $5 billion").words) == {"cash", "was"}


def test_words_of_the_question_weigh_less():
    words, = Side(["cash rose"], "How did cash do?").words
    assert words == pytest.approx({"cash": QUESTION_WORD, "rose": 1.0})
    assert Side(["cash rose"], "How did cash do?", 1.0).words == Side(["cash rose"]).words
    assert covered(["cash rose"], ["cash"], "cash?")[0] < covered(["cash rose"], ["cash"])[0]
    refusal, = Side(["The call does not mention cash."], "What of cash?").words
    assert refusal["not said: cash"] == QUESTION_WORD


def test_a_negation_counts_alone_and_with_what_it_negates():
    words = {"sale": 1.0, "not": NEGATION, "not grow": NEGATION, "to": FUNCTION_WORD, "grow": 1.0}
    assert read_point("sales not to grow").words == words
    assert read_point("to grow sales, never").words == {
        "to": FUNCTION_WORD, "grow": 1.0, "sale": 1.0, "not": NEGATION, "not ": NEGATION}
    assert set(read_point("sales didn't grow").words) == {"sale", "grow", "not", "not grow"}
    assert similarity("The claim is refuted.", "The claim is false.") > 0.7            # one verdict
    assert similarity("The claim is refuted.", "The claim is supported.") < 0.5
    ref = ["sales grew", "costs did not grow"]
    assert covered(ref, ["sales grew", "costs grow"])[1] < 0.5
    assert covered(["sales did not decline"], [*ref, "they decline"])[0] < 1       # "not" stands by another word


def test_overlap_by_hand():
    assert overlap("cost rose", "cost fell") == pytest.approx(1 / 2)         # cost of cost, rose | cost, fell
    assert overlap("cost 35%", "cost 17%") == pytest.approx(1 / (1 + NUMBER))


@pytest.mark.parametrize(("a", "b"), [
    ("Revenue rose 35% to $11.4 billion.", "Revenue rose 35% to 11,400 million."),
    ("same words here", "Same words, here!"),
    ("$5 billion", "USD 5,000 million"),
])
def test_the_same_content_is_one(a, b):
    assert similarity(a, b) == pytest.approx(1.0)


@pytest.mark.parametrize(("a", "b"), [
    ("", ""), ("", "revenue rose"), ("revenue rose", "weather turned"), ("...", "5%"),
])
def test_nothing_in_common_is_zero(a, b):
    assert similarity(a, b) == 0.0


def test_a_number_counts_only_in_its_context():
    assert similarity("35%", "35 people") == 0.0
    assert similarity("growth of 35%", "a tax rate of 35%") < 0.3
    assert similarity("cloud growth of 35%", "cloud growth reached 35%") > 0.7
    near, far = covered(["cost 35%", "cost 17% margin"], ["cost 35%", "weather 17%"], given=True)
    assert near == 1.0
    # Of two words and their number; the number's holder shares none of the words.
    assert far == pytest.approx(1 / (1 + 1 + NUMBER))


def test_a_number_is_trusted_as_far_as_the_words_beside_it_agree():
    ref = "alpha beta gamma delta epsilon zeta eta theta 17%"
    words, = Side([ref]).words
    total = sum(words.values())
    trust = words["eta"] / (CONTEXT * total)
    assert trust < 1
    assert covered([ref], ["eta 17%"]) == pytest.approx(
        [(words["eta"] + NUMBER * trust) / (total + NUMBER)])


APPLE = "Apple's revenue rose 6% to $94.9 billion."


def test_scores_say_what_they_mean():
    """A paraphrase with the same figures is high, a wrong figure clearly lower, another point near 0."""
    same, = covered([APPLE], ["Revenue was $94.9 billion in the September quarter, up 6%."])
    wrong, = covered([APPLE], ["Revenue was $84.9 billion in the September quarter, up 6%."])
    both, = covered([APPLE], ["Revenue was $84.9 billion in the September quarter, up 9%."])
    other, = covered([APPLE], ["The board declared a dividend, and revenue of services was not given."])
    assert same > 0.75
    assert wrong < 0.6
    assert both < 0.2
    assert other < 0.2


def test_order_of_damage():
    ref = "Cloud revenue rose 35% to $11.4 billion, and the margin was 17%."
    damage = {
        "stop word": "Cloud revenue rose 35% to $11.4 billion, and a margin was 17%.",
        "synonym": "Cloud revenue climbed 35% to $11.4 billion, and the margin was 17%.",
        "number": "Cloud revenue rose 35% to $17.4 billion, and the margin was 17%.",
        "number and negation": "Cloud revenue never rose 35% to $17.4 billion, and the margin was 17%.",
    }
    score = {name: similarity(ref, text) for name, text in damage.items()}
    assert 1 > score["stop word"] > score["synonym"] > score["number"] > score["number and negation"] > 0


def test_coverage_draws_on_the_whole_other_side():
    assert covered(["cash debt"], ["cash debt"]) == [1.0]
    assert covered(["cash debt"], ["cash", "debt"]) == [1.0]                 # each said elsewhere
    assert covered(["cash debt"], ["cash", "cash"]) == pytest.approx([1 / 2])
    assert covered(["cash debt"], []) == [0.0]
    assert covered([], ["alpha"]) == []


def test_points_of_one_text_share_what_the_other_mentions():
    assert covered(["gamma", "gamma"], ["gamma"]) == [0.5, 0.5]
    assert covered(["gamma"], ["gamma", "gamma"]) == [1.0]
    assert covered(["gamma", "gamma"], ["gamma", "gamma"]) == [1.0, 1.0]
    assert covered(["margin 46%", "margin 46%"], ["margin 46%"]) == pytest.approx([0.5, 0.5])
    # "gamma" is said once for two points, which have a word of their own as well.
    assert covered(["gamma rose", "gamma fell"], ["gamma rose and fell"]) == [0.75, 0.75]


def test_given_points_stand_each_for_itself():
    assert covered(["gamma alpha 5%", "gamma beta 5%"], ["gamma alpha beta 5%"], given=True) == [1.0, 1.0]


def test_saying_that_something_is_not_said_covers_nothing():
    ref = "The roof must be depreciated over its useful life."
    assert covered([ref], ["The text does not mention how the roof must be depreciated over its life."]) == [0.0]
    assert covered([ref], ["The roof is depreciated over its life."])[0] > 0.5
    own = "The call does not mention cyber risk."                # unless both sides say so
    assert covered([own], ["The call does not mention any cyber risk."])[0] > 0.5


def test_meaning_lifts_and_lowers():
    plain, = covered(["alpha beta"], ["alpha gamma"])
    close, = covered(["alpha beta"], ["alpha gamma"], cosines=[[0.9]])
    far, = covered(["alpha beta"], ["alpha gamma"], cosines=[[0.1]])
    assert far < plain < close


def test_values_stay_in_range_on_hostile_points():
    rng = random.Random(3)
    pieces = ["", " ", "not", "5%", "$5 billion", "-5", "down", "up", "Apple", "[3]", "\x00", "财报", "a", "1.",
              "does not mention"]
    points = [" ".join(rng.choices(pieces, k=rng.randint(0, 9))) for _ in range(60)]
    for a in points:
        for b in points[:20]:
            assert 0.0 <= similarity(a, b) <= 1.0
            assert similarity(a, b) == pytest.approx(similarity(b, a)) or read_point(a).quantities
    assert all(0.0 <= value <= 1.0 for value in covered(points, points[::-1]))


def test_no_heavy_library_is_loaded():
    code = (
        "import sys; from ems.local.scorers import LocalScorer; from ems.local.sentences import SentenceExtractor; "
        "LocalScorer().cover([]); SentenceExtractor()(['a. b']); "
        "print([m for m in ('torch', 'transformers', 'nltk', 'numpy', 'pandas', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
