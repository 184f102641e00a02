"""The evaluator without a judge, end to end: points, summaries, matching, both scorers, and what each edit
costs.
"""

import random
import re
import time
from pathlib import Path

import pytest
import yaml
from doubles import covered

from ems import EMS
from ems.local.quantities import find_quantities
from ems.local.scorers import LocalScorer, PairScorer, SimilarityMatcher
from ems.local.sentences import SentenceExtractor, paragraphs, remove_summaries, sentences
from ems.types import Answer, Triplet

FOLDER = Path(__file__).parent.parent / "data" / "q3-2024" / "references"
REFERENCES = [
    text
    for ticker in ("AAPL", "JPM")
    for text in list(yaml.safe_load((FOLDER / f"{ticker}.yaml").read_text(encoding="utf-8")).values())[:3]
]
OTHER = yaml.safe_load((FOLDER / "LLY.yaml").read_text(encoding="utf-8"))["Q1"]
LOCAL = EMS(SentenceExtractor(), SimilarityMatcher(), LocalScorer())
PAIR = EMS(SentenceExtractor(), SimilarityMatcher(), PairScorer())
BODY = (
    "Revenue rose 5% to $5 billion in the third quarter on strong phone demand.\n\n"
    "Services grew 12% to a record of $25 billion, with strength in advertising and cloud storage. Developers and "
    "partners in Europe were said to be pleased with the new tools."
)


def points(text, **options):
    return SentenceExtractor(**options)([text])[0]


# --- points

@pytest.mark.parametrize(("text", "expected"), [
    ("", ()),
    (" \n\n ", ()),
    ("...", ()),
    ("Chapter 18", ("Chapter 18",)),
    ("One. Two! Three?", ("One.", "Two!", "Three?")),
    ("Dr. Smith of Apple Inc. said approx. 5.2% in the U.S. market. Good.",
     ("Dr. Smith of Apple Inc. said approx. 5.2% in the U.S. market.", "Good.")),
    ("J. P. Morgan agreed. It paid.", ("J. P. Morgan agreed.", "It paid.")),
    ("It rose [4]. Then it fell [1][2]. End", ("It rose [4].", "Then it fell [1][2].", "End")),
    ("- Costs fell\n- Sales rose", ("Costs fell", "Sales rose")),
    ("1. Costs fell\n2) Sales rose", ("Costs fell", "Sales rose")),
    ("## Results\n\n**Growth:**\n- Sales rose", ("Sales rose",)),
    ("## Results", ("Results",)),                                        # nothing but a heading: kept
    ("**Growth**: sales rose", ("Growth: sales rose",)),
    ("A line broken\nin the middle", ("A line broken in the middle",)),
    ("| Item | Q3 | Q2 |\n|---|---|---|\n| Sales | 94.9 | 89.5 |\n| EPS | 1.64 |",
     ("Sales, Q3 94.9, Q2 89.5", "EPS, Q3 1.64")),
    ("收入增长。利润下降！", ("收入增长。", "利润下降！")),
    ("Same. Same. Same.", ("Same.", "Same.", "Same.")),                   # repetitions are kept
    ("A\x00B rose.", ("A B rose.",)),
])
def test_points(text, expected):
    assert points(text) == expected


def test_granularity():
    text = "Sales rose, but costs fell. Margins held. Cash grew; debt shrank."
    assert points(text, max_sentences=2) == ("Sales rose, but costs fell. Margins held.", "Cash grew; debt shrank.")
    assert points(text, unit="paragraph") == (text,)
    assert points(text, unit="clause") == (
        "Sales rose", "but costs fell.", "Margins held.", "Cash grew", "debt shrank.")
    assert points("Same. Same. Other.", dedupe=True) == ("Same.", "Other.")


def test_signatures_tell_the_settings_apart():
    made = [SentenceExtractor(), SentenceExtractor(max_sentences=2), SentenceExtractor(unit="clause"),
            SentenceExtractor(dedupe=True), SentenceExtractor(remove_summary=False)]
    assert len({e.signature for e in made}) == len(made)
    assert SimilarityMatcher().signature != SimilarityMatcher(threshold=0.5).signature


@pytest.mark.parametrize("make", [
    lambda: SentenceExtractor(unit="word"), lambda: SentenceExtractor(max_sentences=0),
    lambda: SimilarityMatcher(threshold=0), lambda: SimilarityMatcher(threshold=1.5),
])
def test_settings_off_the_menu(make):
    with pytest.raises(ValueError, match="must be"):
        make()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        ("Revenue rose 5% to $5 billion in Q3 2024, and margins fell. " * 10 + "\n\n") * 800,
        "a. " * 170_000,
        "word " * 100_000,
        "x\n" * 250_000,
        "5% " * 17_000,
        "and 5 " * 80_000,
        "| a | b |\n" * 50_000,
        "(" * 500_000,
        "中" * 500_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_half_a_megabyte_in_seconds(text):
    start = time.process_time()
    SentenceExtractor()([text])
    assert time.process_time() - start < 5


# --- summaries

@pytest.mark.parametrize(
    "closing",
    [
        "\n\nIn summary, the call gave a detailed picture of results.",
        "\n\nOverall, the quarter was a good one.",
        "\n\n## Conclusion\nA good quarter for the company.",
        " Taken together, these are the main points.",
        "\n\nPhone demand and advertising were strong, and services revenue rose to a record on cloud storage strength.",
    ],
)
def test_closing_summaries_go(closing):
    assert remove_summaries(BODY + closing).strip() == BODY


@pytest.mark.parametrize("opening", [
    "## Overview\nThe following covers the main topics.\n\n", "Summary: two main topics.\n\n",
])
def test_opening_summaries_go(opening):
    assert remove_summaries(opening + BODY).strip() == BODY


@pytest.mark.parametrize(
    "ending",
    [
        "\n\nTo conclude, revenue should reach $99 billion.",  # a number of its own
        # A repetition, word by word.
        "\n\nRevenue rose 5% to $5 billion in the third quarter on strong phone demand.",
        "\n\nManagement expects supply to improve next year.",
        "\n\n- Phone demand rose.",
        # The last word is something else.
        " Overall, demand held. Management expects supply to improve.",
        "\n\nOverall costs rose with wages.",  # "overall" inside the sentence
    ],
)
def test_what_is_no_summary_stays(ending):
    assert remove_summaries(BODY + ending) == BODY + ending


@pytest.mark.parametrize("text", [
    "", "Overview", "In conclusion, no.", "One.\n\nTwo.", "revenue\nrose and\nrevenue\nrose",
])
def test_a_text_is_never_only_a_summary(text):
    assert remove_summaries(text) == text


# --- matching and scoring

REF = (
    "Cloud revenue rose 35% to $11.4 billion.",
    "Operating margin was 17%.",
    "The company hired 35 people.",
    "Guidance was not given.",
)
ANS = ("Cloud revenue reached 11,400 million, growth of 35%.", "The company hired 35 new people.",
       "Operating margin stood at 17 percent.", "Weather was fine.")


def test_matches_by_content_and_leaves_the_rest_unmatched():
    assert SimilarityMatcher()([(REF, ANS), (REF, ()), ((), ANS)]) == [(0, 2, 1, -1), (-1,) * 4, ()]


def test_several_reference_points_may_share_an_answer_point():
    assert SimilarityMatcher()([(("Sales rose in Asia.", "Sales rose in Asia."), ("Sales rose in Asia.",))]) == [(0, 0)]


def test_sides_of_degenerate_answers():
    empty = covered(LocalScorer(), REF, ())
    assert (empty.match, empty.score, empty.ans_score) == ((-1,) * 4, (0.0,) * 4, ())
    assert covered(LocalScorer(), (), ANS).ans_score == (0.0,) * 4
    assert all(w > 0 for w in covered(LocalScorer(), ("...", "5"), ("",)).ref_weights)


class Embedder:
    """Stands in for an encoder: all texts alike, or none."""

    signature = "embedder"

    def __init__(self, cosine):
        self.cosine = cosine

    def embed(self, texts):
        import numpy as np

        rows = np.zeros((len(texts), 2), dtype=np.float32)
        rows[:, 0] = self.cosine ** 0.5
        return rows


def test_an_encoder_bends_scores_and_enters_the_signature():
    near, far = (covered(LocalScorer(Embedder(c)), REF, ANS) for c in (0.9, 0.1))
    plain = covered(LocalScorer(), REF, ANS)
    assert far.score[0] < plain.score[0] < near.score[0]
    assert LocalScorer(Embedder(1)).signature != LocalScorer().signature


def test_points_of_many_answers_are_embedded_together_and_no_matcher_is_asked():
    class Counting(Embedder):
        asked = ()

        def embed(self, texts):
            self.asked += (list(texts),)
            return super().embed(texts)

    class NeverAsked(SimilarityMatcher):
        def __call__(self, pairs):
            raise AssertionError("the scorer says itself what matches")

    encoder = Counting(0.9)
    triplets = [Triplet(str(i), "g", "", "Revenue rose 6%. Margin fell.") for i in range(2)]
    answers = [Answer("0", "m", "Margin fell."), Answer("1", "m", "Revenue rose 6%. Costs rose.")]
    results = EMS(LOCAL.extractor, NeverAsked(), LocalScorer(encoder)).evaluate(triplets, answers)
    assert encoder.asked == (["Revenue rose 6%.", "Margin fell.", "Costs rose."],)
    single = [covered(LocalScorer(Embedder(0.9)), r.ref_points, r.ans_points) for r in results]
    assert [r.score for r in results] == [s.score for s in single]


@pytest.mark.parametrize("ems", [LOCAL, PAIR], ids=["local", "local-pair"])
@pytest.mark.parametrize("text", REFERENCES[:5])
def test_a_text_agrees_with_itself(ems, text):
    result = ems.score(text, text)
    assert (result.recall, result.precision, result.f1) == pytest.approx((1, 1, 1))


# --- what an edit of a real reference costs

def _sentences(text):
    return [s.strip() for paragraph in paragraphs(text) for s in sentences(paragraph)]


def _some(items, share, seed=1):
    return set(random.Random(seed).sample(range(len(items)), max(1, round(share * len(items)))))


def _replace(text, spans, share, new):
    for i in sorted(_some(spans, share), reverse=True) if spans else ():
        start, end = spans[i]
        text = text[:start] + new(text[start:end]) + text[end:]
    return text


def _numbers(text, share):
    spans = [(q.start, q.end) for q in find_quantities(text)
             if q.unit not in ("date", "versus") and re.search(r"\d", text[q.start:q.end])]
    return _replace(text, spans, share, lambda s: re.sub(r"\d", lambda d: str((int(d[0]) + 4) % 9 + 1), s, count=1))


def _words(text, share, words, new):
    return _replace(text, [m.span() for m in re.finditer(rf"\b(?:{words})\b", text)], share, new)


EDITS = {
    "delete": lambda t, d: " ".join(
        s for i, s in enumerate(_sentences(t)) if i not in _some(_sentences(t), d)
    ),
    "repeat": lambda t, d: "\n".join(
        [*_sentences(t), *(_sentences(t)[i] for i in sorted(_some(_sentences(t), d)))]
    ),
    "pad": lambda t, d: "\n".join(
        [*_sentences(t), *_sentences(OTHER)[: max(1, round(d * len(_sentences(t))))]]
    ),
    "number": _numbers,
    "unit": lambda t, d: _words(
        t, d, "billion|million", lambda s: {"billion": "million", "million": "billion"}[s]
    ),
    "negate": lambda t, d: _words(t, d, "was|were|is|are|will|would|has|had", lambda s: s + " not"),
    "stop word": lambda t, d: _words(t, d, "the|of|and|in|to|a|for|on", lambda s: "by"),
}
SIDE = {"delete": "recall", "repeat": "precision", "pad": "precision"}     # the others hurt both


@pytest.mark.parametrize("name", EDITS)
def test_more_of_an_edit_costs_more(name):
    means = []
    for dose in (0.1, 0.3, 0.8):
        results = [LOCAL.score(text, EDITS[name](text, dose)) for text in REFERENCES]
        means.append([sum(getattr(r, part) for r in results) / len(results) for part in ("recall", "precision", "f1")])
    f1s = [f1 for _, _, f1 in means]
    assert 1 > f1s[0] > f1s[1] > f1s[2]
    recall, precision, _ = means[-1]
    hurt, spared = (recall, precision) if SIDE.get(name) == "recall" else (precision, recall)
    if name != "stop word":                      # which hardly counts
        assert hurt < 0.995
    if name in SIDE:
        assert spared > 0.95
        assert hurt == pytest.approx({"delete": 0.2, "repeat": 1 / 1.8, "pad": 1 / 1.8}[name], abs=0.1)


def test_a_changed_number_costs_more_than_a_changed_stop_word():
    for text in REFERENCES:
        n = sum(1 for q in find_quantities(text) if q.unit not in ("date", "versus"))
        one_number = LOCAL.score(text, _numbers(text, 1 / (2 * n))).f1
        stops = len(re.findall(r"\b(?:the|of|and|in|to|a|for|on)\b", text))
        assert one_number < LOCAL.score(text, EDITS["stop word"](text, 1 / (2 * stops))).f1


def test_order_and_empty_summaries_cost_nothing():
    for text in REFERENCES:
        parts = list(points(text))
        random.Random(5).shuffle(parts)
        whole = points(text)
        assert covered(LocalScorer(), whole, tuple(parts)).score == pytest.approx((1.0,) * len(whole))
        closing = "\n\nIn summary, the call gave a full picture of the topics asked about."
        assert LOCAL.score(text, text.rstrip() + closing).f1 == pytest.approx(1.0)


def test_other_forms_of_the_same_numbers_cost_nothing():
    def other_form(match):
        return f"${float(match[1]) * 1000:,.0f} million"

    for text in REFERENCES:
        assert LOCAL.score(text, re.sub(r"\$(\d+(?:\.\d+)?) billion", other_form, text)).f1 > 0.995


# --- texts without capitals, hard-wrapped summaries, hostile runs of marks ---

def test_a_text_without_capitals_has_sentences():
    lower = "revenue rose 5 % to $4.2 bn. costs fell at u.s. stores by approx. 2.5 %. margins, i.e. profits, held."
    assert points(lower) == ("revenue rose 5 % to $4.2 bn.", "costs fell at u.s. stores by approx. 2.5 %.",
                             "margins, i.e. profits, held.")
    assert points("the store opened at 9 a.m. on monday. it closed early.") == (
        "the store opened at 9 a.m. on monday.", "it closed early.")
    # With capitals a small letter after a stop goes on with the sentence.
    assert points("Revenue at the U.S. unit rose. It fell at approx. ten others. eBay followed.") == (
        "Revenue at the U.S. unit rose.", "It fell at approx. ten others. eBay followed.")


def test_a_hard_wrapped_summary_goes_whole_even_where_its_last_line_stood_before():
    body = "Revenue rose 5% to $5 billion in the third quarter\non strong phone demand and cloud sales."
    more = "Costs fell 2% to $1 billion in the third quarter\non lower prices of parts and freight."
    opening = "Overview\nRevenue rose and costs fell in the third quarter\non strong phone demand."
    closing = "In conclusion, revenue rose and costs fell in the third quarter\non strong phone demand."
    for text in (f"{opening}\n\n{body}\n\n{more}", f"{body}\n\n{more}\n\n{closing}"):
        assert remove_summaries(text).strip() == f"{body}\n\n{more}"


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["sentence", "clause"])
@pytest.mark.parametrize("mark", [".", "](", "!?", '."', "|", " ", "-"])
@pytest.mark.parametrize("end", ["", "a"])
def test_a_megabyte_of_marks_takes_no_time(mark, end, unit):
    import time

    began = time.process_time()
    SentenceExtractor(unit=unit)([mark * (1_000_000 // len(mark)) + end])
    assert time.process_time() - began < 10            # quadratic took minutes; make bench shows the figure
