"""Points checked against a document: retrieval, numbers, derivations, bad input, a judge, and the measures."""

import json
import math
import re
import time
from dataclasses import replace

import pytest
from doubles import ScriptedJudge

from ems.data import support_frame
from ems.pipeline import EMS
from ems.presets import build
from ems.results.alignment import alignment_html, alignment_rows, alignment_text
from ems.support.document import Document, cut
from ems.support.retrieve import BM25, average_precision, recall_at, reciprocal_rank, terms
from ems.support.scores import support_scores
from ems.support.stage import with_support
from ems.support.supporters import NO_NUMBER, NO_WORDS, LLMSupporter, LocalSupporter
from ems.types import Answer, EMSResult, InputError, Support, Triplet

CALL = """Jane Roe -- Chief Financial Officer

Total revenue was $94.9 billion, up 6% from a year ago. iPhone revenue grew to $46.2 billion.
Services revenue reached an all-time record of $25.0 billion, against $22.3 billion in the prior year.

Operating expenses declined 3% to $14.3 billion. We did not raise the dividend in the quarter.

| Segment (in millions) | 2024 | 2023 |
| Americas revenue | 41,664 | 40,115 |
| Greater China revenue | 15,033 | 15,084 |

We ended the quarter with 2,000 stores and $500 million of store sales."""


def checked(point, document=CALL, **settings):
    (support,), = LocalSupporter(**settings)([(document, (point,))])
    return support


# --- retrieval ---

def test_bm25_by_hand():
    index = BM25(["cash flow", "cash cash", "debt"])
    # Lengths 2, 2, 1, mean 5/3; "flow" is in one of three passages, "cash" in two.
    norm = 1.2 * (1 - 0.75 + 0.75 * 2 / (5 / 3))
    idf = {"flow": math.log(1 + 2.5 / 1.5), "cash": math.log(1 + 1.5 / 2.5)}
    expected = {0: (idf["flow"] + idf["cash"]) * 2.2 / (1 + norm), 1: idf["cash"] * 2 * 2.2 / (2 + norm)}
    assert index.scores("cash flow") == pytest.approx(expected)
    assert index.top("cash flow", 5) == [0, 1]
    assert index.top("nothing shared", 3) == []


def test_a_number_is_one_word_whatever_its_commas():
    assert terms("Cash was 1,234.5") == [*terms("Cash was"), "1234.5"]
    assert BM25(["cost 1,234", "cost 234"]).top("1234", 2) == [0]


def test_ranking_measures_by_hand():
    ranked, relevant = [7, 3, 9, 1], {3, 1, 5}
    assert recall_at(ranked, relevant, 2) == 1 / 3
    assert average_precision(ranked, relevant) == (1 / 2 + 2 / 4) / 3
    assert average_precision(ranked, relevant, over="found") == (1 / 2 + 2 / 4) / 2
    assert reciprocal_rank(ranked, relevant) == 1 / 2
    assert average_precision(ranked, {3}) == average_precision(ranked, {3}, over="found") == 1 / 2
    assert average_precision(ranked, {8}, over="found") == reciprocal_rank(ranked, {8}) == 0
    for measure in (average_precision, reciprocal_rank, lambda r, n: recall_at(r, n, 3)):
        assert math.isnan(measure(ranked, set()))
    with pytest.raises(InputError, match="'relevant' or 'found'"):
        average_precision(ranked, relevant, over="hits")


def test_a_passage_that_a_ranking_names_twice_counts_once():
    assert average_precision([3, 1, 1, 2], {1, 2}) == (1 / 2 + 2 / 4) / 2
    assert average_precision([1, 1], {1}) == 1


@pytest.mark.parametrize("before", ["字" * 996, "x" * 300 + " "])
def test_a_number_is_not_cut_where_there_is_no_space_near_it(before):
    number = "1,234,567.5" if before[0] == "字" else "9" * 900
    text = before + number + "字" * 900
    assert "".join(cut(text)) == text.replace(" ", "")
    assert any(number in passage for passage in cut(text))


def test_passages_hold_the_whole_text_and_cut_no_number():
    text = "\n\n".join([CALL.replace(",", ""), "word 1,234.5 " * 400])
    passages = cut(text)
    assert all(len(passage) <= 1000 for passage in passages)
    assert "".join(text.split()) == "".join("".join(passages).split())
    assert all(passage.count("1,234.5") == passage.count("1,") for passage in passages)


def test_a_long_document_is_indexed_in_under_a_second():
    document = "\n\n".join(f"In period {i} segment {i} had sales of ${i}.{i % 10} million, up {i % 40}%, as planned."
                           for i in range(4400))
    assert len(document) > 300_000
    began = time.process_time()
    Document.of(document)
    assert time.process_time() - began < 1


# --- numbers in their place ---

@pytest.mark.parametrize(("point", "label"), [
    ("Total revenue came to $94.9 billion.", "supported"),
    ("Total revenue was about $95 billion, a rise of 6%.", "supported"),
    ("iPhone revenue was 46,200 million dollars.", "supported"),
    ("Total revenue was $97.3 billion.", "contradicted"),             # another number in its place
    ("Mexican farm workers earned 812 pesos.", "silent"),             # nobody speaks of it
    ("Operating expenses rose 3% to $14.3 billion.", "contradicted"),       # direction
    ("Operating expenses fell 3% to $14.3 billion.", "supported"),
    ("Americas revenue was $41,664 million.", "supported"),           # a row of a table
    ("Greater China revenue was $15.0 billion.", "supported"),        # ... that says "in millions"
])
def test_numbers_count_in_their_place(point, label):
    assert checked(point).label == label


def test_a_negation_contradicts():
    said = "The board did not approve the sale of 12 stores in Ohio."
    assert checked("The board did not approve the sale of 12 stores in Ohio.", said).label == "supported"
    assert checked("The board did approve the sale of 12 stores in Ohio.", said).label == "contradicted"


@pytest.mark.parametrize(("point", "formula"), [
    ("Services revenue rose by $2.7 billion.", "$25.0 billion - $22.3 billion"),
    ("Services revenue of both years was $47.3 billion.", "$25.0 billion + $22.3 billion"),
    ("Services revenue rose 12.1%.", "($25.0 billion - $22.3 billion) / $22.3 billion"),
    ("Americas revenue rose by 1,549 million dollars.", "41,664 - 40,115"),
    ("Store sales were $250,000 a store.", "$500 million / 2,000 stores"),       # across units
])
def test_derived_numbers_name_their_formula(point, formula):
    support = checked(point)
    assert support.label == "supported"
    assert formula in support.derived[0]


def test_what_decided_is_named():
    support = checked("Services revenue was $25.0 billion.")
    assert "all-time record of $25.0 billion" in support.quote
    assert support.quote[:30] in Document.of(CALL).passages[support.passage]
    assert checked("Total revenue was $97.3 billion.").missing == ("$97.3 billion",)


# --- bad input ---

@pytest.mark.parametrize(("point", "reason"), [
    ("Management is confident about services.", NO_NUMBER),
    ("In October 2024 the call was held.", NO_NUMBER),
    ("94.9, 46.2 and 25.0", NO_WORDS),
    ("$94.9 billion, $25.0 billion.", NO_WORDS),         # "billion" belongs to the number
    ("", NO_NUMBER),
])
def test_what_cannot_be_checked_is_silent_and_says_why(point, reason):
    support = checked(point)
    assert (support.label, support.reason, support.checked) == ("silent", reason, False)


@pytest.mark.parametrize("context", [None, "", " \n "])
def test_a_triplet_without_context_is_refused_by_its_id(context):
    triplets = [Triplet("a", "A", "?", "Revenue was $1 billion.", context)]
    with pytest.raises(InputError, match="needs a context.*'a'"):
        build(None, "local", support="local").evaluate(triplets, [Answer("a", "m", "Revenue was $1 billion.")])


def test_a_document_of_signs_alone_is_refused():
    with pytest.raises(InputError, match="the document is empty"):
        checked("Revenue was $1 billion.", "--- \n\n ***")


def test_a_cut_document_supports_what_it_still_holds():
    half = CALL[:CALL.index("Operating")]
    assert checked("Total revenue came to $94.9 billion.", half).label == "supported"
    assert checked("Operating expenses declined 3% to $14.3 billion.", half).label != "supported"


def test_a_table_of_a_few_rows_is_a_document():
    rows = "| item | 2024 | 2023 |\n|---|---|---|\n| Revenue | $94.9 billion | $89.5 billion |\n| Margin | 46.2% | 45.2% |"
    assert checked("Revenue of shoes came to $94.9 billion after a long year.", rows).label == "supported"
    assert checked("Paper clips cost $94.9 billion each.", rows).label == "silent"         # "billion" is no shared word


def test_another_companys_document_supports_nothing_but_by_chance():
    other = "Prime Video had 130 million viewers. Advertising sales grew 19% to $14.3 billion."
    points = ("Total revenue came to $94.9 billion.", "Operating expenses declined 3% to $14.3 billion.")
    (supports,) = LocalSupporter()([(other, points)])
    assert [s.label for s in supports] == ["silent", "silent"]


def test_a_long_list_of_numbers_takes_no_time():
    table = " ".join(f"store sales {i}.{i % 97}" for i in range(20_000))
    began = time.process_time()
    checked("Store sales were 123456.78 in all.", table)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(("settings", "said"), [
    ({"support": "judge"}, "none, local, llm"), ({"support": "llm"}, "there is none"),
])
def test_an_unknown_way_to_check_is_refused(settings, said):
    with pytest.raises(InputError, match=said):
        build(None, "local", **settings)


# --- with a judge ---

def test_the_judge_sees_the_best_passages_once_and_its_words_become_labels():
    judge = ScriptedJudge('{"labels": ["Entailment", "Contradiction", "Neutral"]}')
    points = ("Total revenue was $94.9 billion.", "The dividend was raised.", "Services are in 40 countries.")
    (supports,) = LLMSupporter(judge, k=1)([(CALL, points)])
    assert [s.label for s in supports] == ["supported", "contradicted", "silent"]
    prompt, = judge.seen
    assert prompt.count("Total revenue was $94.9 billion, up 6%") == 1
    assert '2: "Services are in 40 countries."' in prompt


def test_a_lost_reply_is_unscored_and_a_bad_word_costs_its_point_alone():
    judge = ScriptedJudge(None, '{"labels": ["Entailment", "maybe"]}')
    points = ("Total revenue was $94.9 billion.", "iPhone revenue grew.")
    supporter = LLMSupporter(judge)
    lost, read = supporter([(CALL, points), (CALL, points)])
    assert [s.label for s in lost] == [None, None]
    assert [s.label for s in read] == ["supported", None]
    assert supporter.unread == {"support: no reply": 2, "support: unreadable": 1}


def test_many_points_are_asked_in_portions_and_a_foreign_point_not_at_all():
    judge = ScriptedJudge(lambda request: json.dumps({"labels": ["Entailment"] * request.entries}))
    points = tuple(f"Revenue of part {i} was $94.9 billion." for i in range(11)) + ("Xyzzy plugh!",)
    (supports,) = LLMSupporter(judge)([(CALL, points)])
    assert [request.entries for request in judge.requests] == [10, 1]
    assert [s.label for s in supports] == ["supported"] * 11 + ["silent"]


def test_a_repeated_point_is_asked_once_and_has_one_label():
    judge = ScriptedJudge(lambda request: json.dumps({"labels": ["Entailment", "Neutral", "Neutral"][:request.entries]}))
    points = ("iPhone revenue grew.", "The dividend was raised.", "iPhone revenue grew.")
    (supports,) = LLMSupporter(judge)([(CALL, points)])
    assert [s.label for s in supports] == ["supported", "silent", "supported"]
    assert [request.entries for request in judge.requests] == [2]


# --- the measures beside eq. 8 ---

YES, NO, UNCHECKED, LOST = (Support("supported"), Support("contradicted"), Support("silent", reason=NO_NUMBER),
                            Support(None, reason="timeout"))


def result(ans_score, support):
    points = tuple(f"point {i}" for i in range(len(support)))
    return EMSResult("t", "m", ("r",), points, (-1,), (0.0,), 0.0, 0.0, 0.0, ans_score=ans_score, support=support)


def test_measures_by_hand():
    scores = support_scores(result((0.6, 0.0, 0.0, 0.0, 0.3, 0.0), (YES, YES, NO, UNCHECKED, NO, LOST)))
    assert scores.support == 2 / 4                       # of the four that were checked
    assert scores.blind_spot == 1 / 5                    # of the five with a label
    assert scores.unsupported == 1 / 5
    assert scores.open_precision == (1 + 1 + 0 + 0 + 0.3) / 5
    assert (scores.points, scores.unchecked, scores.unscored) == (6, 2, 1)


@pytest.mark.parametrize("empty", [result((), ()), result((0.0,), (LOST,))])
def test_without_a_label_there_is_no_number(empty):
    scores = support_scores(empty)
    assert all(math.isnan(getattr(scores, name))
               for name in ("support", "blind_spot", "unsupported", "open_precision"))


def test_the_papers_metrics_do_not_change_and_a_result_is_read_back():
    triplets = [Triplet("a", "A", "?", "Total revenue was $94.9 billion.", CALL)]
    answers = [Answer("a", "m", "Total revenue was $94.9 billion. Services revenue reached $25.0 billion.")]
    plain, = build(None, "local-pair").evaluate(triplets, answers)
    with_it, = build(None, "local-pair", support="local").evaluate(triplets, answers)
    assert (with_it.recall, with_it.precision, with_it.f1) == (plain.recall, plain.precision, plain.f1)
    assert "support:local:" in with_it.signature
    assert EMSResult.from_dict(json.loads(json.dumps(with_it.to_dict()))) == with_it
    assert support_scores(with_it).blind_spot == 1 / 2
    assert replace(with_support([plain], triplets, LocalSupporter())[0], signature="") == replace(with_it, signature="")


def test_a_result_written_before_there_was_support_is_still_read():
    old = {k: v for k, v in result((0.0,), ()).to_dict().items() if k != "support"}
    assert EMSResult.from_dict(old).support == ()
    with pytest.raises(InputError, match="not what a document says of a point"):
        EMSResult.from_dict({**old, "support": ["yes"]})


def test_frames_say_how_many_points_could_be_checked():
    frame = support_frame([result((0.0, 0.0), (YES, UNCHECKED))]).set_index("metric")
    assert frame.loc["EMS-Support", ["value", "units", "unscored"]].tolist() == [1, 2, 1]
    assert frame.loc["EMS-open", ["value", "units", "unscored"]].tolist() == [0.5, 2, 0]
    never = support_frame([replace(result((0.0,), (YES,)), support=())])
    assert never[["units", "unscored"]].to_numpy().tolist() == [[1, 1]] * 4


def test_the_view_has_a_third_colour_and_escapes_the_document():
    shown = replace(result((0.0, 0.0), (replace(YES, passage=3, quote="<b>$94.9</b> billion"), NO)))
    page, text = alignment_html(shown), alignment_text(shown)
    assert page.count("#009E73") == 3                  # the three cells of its row
    assert "&lt;b&gt;$94.9&lt;/b&gt; billion" in page
    assert "<b>$94.9" not in page
    assert "in document" in text
    assert "EMS-Support = 0.500" in text


def test_every_view_says_what_the_document_says_of_each_answer_point():
    local = build(None, "local", support="local")
    scored = local.score("Revenue rose 6%.", "Revenue rose 9%. Total revenue was $94.9 billion.", CALL)
    assert scored.whole_sides
    for view in (alignment_text(scored), alignment_html(scored)):
        words = " ".join(re.sub("<[^>]+>", " ", view).split())
        said = re.findall(r"document: (supported; passage 0|\w+; not found: [^;]+)", words)
        assert said == ["silent; not found: 9%", "supported; passage 0"]


def test_a_point_that_earns_nothing_is_shown_in_the_document_whatever_lies_nearest():
    for nearest in (None, 0):
        whole = replace(result((0.0, 0.0), (YES, replace(YES, reason=NO_NUMBER))), whole_sides=True, ans_match=(nearest,) * 2)
        rows = [row for row in alignment_rows(whole) if row.hint == "reference"]
        assert [row.tag for row in rows] == ["in document", "covered 0.00"]


def test_nothing_checked_is_no_number():
    assert "EMS-Support: no value (1 of 1 points not checked)" in alignment_text(result((0.0,), (UNCHECKED,)))


def test_a_pipeline_of_ones_own_takes_a_supporter():
    local = build(None, "local")
    pipeline = EMS(local.extractor, local.matcher, local.scorer, LocalSupporter())
    scored = pipeline.score("Total revenue was $94.9 billion.", "Total revenue was $94.9 billion.", CALL)
    assert [s.label for s in scored.support] == ["supported"]
