"""Likeness of two points without a judge: what weighs, what a number needs, what a contradiction costs."""

import random
import subprocess
import sys

import pytest

from ems.local.words import (
    CONTRADICTED,
    FUNCTION_WORD,
    LONG_WORD,
    NAME,
    NUMBER,
    PARTIAL,
    WORD_PAIR,
    contradiction,
    coverage,
    overlap_matrix,
    read_point,
    similarity,
    stem,
    word_weight,
    words_of,
)


def overlap(a, b):
    return overlap_matrix([a], [b])[0][0]


def alike(a, b):
    return similarity(read_point(a), read_point(b))


def covered(points, others):
    points, others = [read_point(p) for p in points], [read_point(o) for o in others]
    return coverage(points, others, overlap_matrix(points, others))


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
    assert word_weight("cost") == 1.0                                  # four letters
    assert word_weight("profit") == 1 + (LONG_WORD - 1) * 2 / 4        # six: half way to eight
    assert word_weight("liabilities") == LONG_WORD


def test_weight_of_a_point_by_hand():
    point = read_point("cost at 35% of cash")                          # "cost at" and "of cash": the number parts them
    words = 1 + FUNCTION_WORD + FUNCTION_WORD + 1
    pairs = WORD_PAIR * 1 * FUNCTION_WORD + WORD_PAIR * FUNCTION_WORD * 1
    assert point.weight == pytest.approx(words + pairs + NUMBER)


def test_a_name_inside_a_sentence_weighs_more():
    plain, named = read_point("the cost in asia"), read_point("the cost in Asia")
    assert named.worth["asia"] == NAME * plain.worth["asia"]


def test_footnotes_and_scale_words_are_no_words():
    assert set(read_point("cash [3] was $5 billion").items) == {"cash", "was", "cash was"}


def test_overlap_by_hand():
    # Words: cost, rose | cost, fell. Shared: cost = 1 of 1 + 1 + pair 0.5 on each side.
    assert overlap(read_point("cost rose"), read_point("cost fell")) == pytest.approx(2 * 1 / (2.5 + 2.5))


@pytest.mark.parametrize(("a", "b"), [
    ("Revenue rose 35% to $11.4 billion.", "Revenue rose 35% to 11,400 million."),
    ("same words here", "Same words, here!"),
    ("$5 billion", "USD 5,000 million"),
])
def test_the_same_content_is_one(a, b):
    assert alike(a, b) == pytest.approx(1.0)


@pytest.mark.parametrize(("a", "b"), [
    ("", ""), ("", "revenue rose"), ("revenue rose", "weather turned"), ("...", "5%"),
])
def test_nothing_in_common_is_zero(a, b):
    assert alike(a, b) == 0.0


def test_a_number_counts_only_in_its_context():
    assert alike("35%", "35 people") == 0.0
    assert alike("growth of 35%", "a tax rate of 35%") < 0.2
    assert alike("cloud growth of 35%", "cloud growth reached 35%") > 0.7


def test_order_of_damage():
    ref = "Cloud revenue rose 35% to $11.4 billion, and the margin was 17%."
    damage = {
        "stop word": "Cloud revenue rose 35% to $11.4 billion, and a margin was 17%.",
        "synonym": "Cloud revenue climbed 35% to $11.4 billion, and the margin was 17%.",
        "number": "Cloud revenue rose 35% to $17.4 billion, and the margin was 17%.",
        "negation": "Cloud revenue never rose 35% to $11.4 billion, and the margin was 17%.",
    }
    score = {name: alike(ref, text) for name, text in damage.items()}
    assert 1 > score["stop word"] > score["synonym"] > score["number"] > score["negation"] > 0


@pytest.mark.parametrize(("a", "b", "expected"), [
    ("sales rose", "sales fell", 1.0),
    ("sales rose", "sales did not rise", 1.0),
    ("sales were up", "sales were flat", 0.0),
    # One of two numbers, with another in its place.
    ("sales of 5 and 6", "sales of 5 and 7", 0.5),
    ("sales of 5", "sales", 0.0),                                # left out is not contradicted
])
def test_contradiction(a, b, expected):
    a, b = read_point(a), read_point(b)
    missing = len(a.quantities) - sum(any(q.value == o.value for o in b.quantities) for q in a.quantities)
    assert contradiction(a, b, missing) == expected


def test_coverage_draws_on_the_whole_other_side():
    # Of 1 + 1 + 0.5.
    assert covered(["cash debt"], ["cash", "debt"])[0] == pytest.approx((2 / 2.5) ** PARTIAL)
    assert covered(["cash debt"], ["cash debt"]) == [1.0]
    assert covered(["cash debt"], []) == [0.0]
    assert covered([], ["alpha"]) == []


def test_two_mentions_against_one_are_half_covered():
    assert covered(["gamma", "gamma"], ["gamma"]) == [0.5, 0.5]
    assert covered(["gamma"], ["gamma", "gamma"]) == [1.0]
    assert covered(["margin 46%", "margin 46%"], ["margin 46%"]) == pytest.approx([0.5, 0.5])


def test_a_name_counts_in_its_context_only():
    ref = ["Margins in India rose on exports.", "Debt held by Brazil fell after auctions."]
    swapped = [ref[0].replace("India", "Brazil"), ref[1].replace("Brazil", "India")]
    assert all(value < 0.9 for value in covered(ref, swapped))
    assert covered(ref, ref[::-1]) == [1.0, 1.0]


def test_a_contradicting_neighbour_leaves_the_declared_share():
    ref, ans = "sales rose in Asia", "sales fell in Asia"
    p, o = read_point(ref), read_point(ans)
    near = overlap(p, o)
    held = sum(p.worth[item] * n for item, n in p.items.items() if item in o.items)
    assert p.names == {"asia"}                       # near enough (CONTEXT) to count in full
    assert covered([ref], [ans])[0] == pytest.approx((held * (1 - (1 - CONTRADICTED) * near) / p.weight) ** PARTIAL)


def test_saying_that_something_is_not_said_covers_nothing():
    ref = "The roof must be depreciated over its useful life."
    assert covered([ref], ["The text does not mention how the roof must be depreciated over its life."]) == [0.0]
    assert covered([ref], ["The roof is depreciated over its life."])[0] > 0.5
    own = "The call does not mention cyber risk."                # unless both sides say so
    assert covered([own], ["The call does not mention any cyber risk."])[0] > 0.5


def test_meaning_lifts_and_lowers():
    p, o = [read_point("alpha beta")], [read_point("alpha gamma")]
    near = [[overlap(p[0], o[0])]]
    plain, = coverage(p, o, near)
    close, = coverage(p, o, near, [[0.9]])
    far, = coverage(p, o, near, [[0.1]])
    assert far < plain < close


def test_values_stay_in_range_on_hostile_points():
    rng = random.Random(3)
    pieces = ["", " ", "not", "5%", "$5 billion", "-5", "down", "up", "Apple", "[3]", "\x00", "财报", "a", "1.",
              "does not mention"]
    points = [" ".join(rng.choices(pieces, k=rng.randint(0, 9))) for _ in range(60)]
    for a in points:
        for b in points[:20]:
            assert 0.0 <= alike(a, b) <= 1.0
    assert all(0.0 <= value <= 1.0 for value in covered(points, points[::-1]))


def test_no_heavy_library_is_loaded():
    code = (
        "import sys; from ems.local.scorers import LocalScorer; from ems.local.sentences import SentenceExtractor; "
        "LocalScorer().cover([]); SentenceExtractor()(['a. b']); "
        "print([m for m in ('torch', 'transformers', 'nltk', 'numpy', 'pandas', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
