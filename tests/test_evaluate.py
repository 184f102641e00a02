"""The pipeline with scripted judges: joins by id, unscored never becomes a number, any stages combine."""

import json
from math import isnan

import pytest

import ems
from ems.asking import room
from ems.extract import LLMExtractor
from ems.local.scorers import SimilarityMatcher
from ems.local.sentences import SentenceExtractor
from ems.match import LLMMatcher
from ems.metrics import ems_scores
from ems.parsing.blocks import block_spans, blocks_of, without_summaries
from ems.pipeline import EMS, rescored
from ems.presets import build
from ems.score import LLMScorer, RougeScorer
from ems.support.stage import with_support
from ems.support.supporters import LLMSupporter, LocalSupporter
from ems.types import Answer, EMSResult, InputError, Triplet
from ems.variants.sides import SidesLLMScorer

REFERENCE = "Revenue was $5 billion. Margin was 20%."
ANSWER = "Sales came to 5 billion dollars. Costs fell. Margin was 20%."


def points(*texts):
    return json.dumps({"points": list(texts)})


class Judge:
    """Answers by what the prompt asks for: a table of (words in the prompt, reply)."""

    name = "table"

    def __init__(self, table):
        self.table, self.seen = table, []

    def __call__(self, prompt):
        self.seen.append(prompt)
        return next(reply for words, reply in self.table if words in prompt)




def pipeline(table):
    judge = Judge(table)
    return EMS(LLMExtractor(judge), LLMMatcher(judge), LLMScorer(judge)), judge


GOOD = [
    (f"<text>\n{REFERENCE}", points("Revenue was $5 billion.", "Margin was 20%.")),
    (f"<text>\n{ANSWER}", points("Sales came to 5 billion dollars.", "Costs fell.", "Margin was 20%.")),
    ('Reference point: "Revenue was $5 billion."', "0"),
    ('Reference point: "Margin was 20%."', "2"),
    ('Point 1: "Revenue was $5 billion."', "8"),
    ('Point 1: "Margin was 20%."', "10"),
]


def test_three_stages_by_hand():
    ems_, judge = pipeline(GOOD)
    result = ems_.score(REFERENCE, ANSWER)
    assert result.match == (0, 2)
    assert result.score == (0.8, 1.0)
    assert result.recall == (0.8 + 1.0) / 2
    assert result.precision == (0.8 + 0.0 + 1.0) / 3
    assert result.unscored == 0
    assert len(judge.seen) == 2 + 2 + 2            # two texts, two reference points, two pairs


@pytest.mark.parametrize(("words", "reply", "match", "unscored"), [
    ('Reference point: "Margin was 20%."', "maybe 2 or 1", (0, None), 1),      # unreadable index
    ('Reference point: "Margin was 20%."', "7", (0, None), 1),                 # off the menu
    ('Point 1: "Margin was 20%."', "excellent", (0, 2), 1),                    # unreadable score
])
def test_a_reply_that_cannot_be_read_is_unscored(words, reply, match, unscored):
    ems_, _ = pipeline([(words, reply), *GOOD])
    result = ems_.score(REFERENCE, ANSWER)
    assert result.match == match
    assert result.score[1] is None
    assert result.unscored == unscored
    assert result.recall == 0.8 / 1                # the other point alone
    assert sum(ems_.unread.values()) == 1


def test_unreadable_points_of_the_answer_give_nan_not_zero():
    ems_, _ = pipeline([(f"<text>\n{ANSWER}", "I'm sorry, I can't do that."), *GOOD])
    result = ems_.score(REFERENCE, ANSWER)
    assert isnan(result.recall)
    assert isnan(result.f1)
    assert result.unscored == 2                    # both reference points
    assert result.reason == "the points of the answer could not be read"
    assert EMSResult.from_dict(json.loads(json.dumps(result.to_dict()))).to_dict() == result.to_dict()


def test_an_empty_answer_scores_zero_without_a_call_about_it():
    ems_, judge = pipeline(GOOD)
    result = ems_.score(REFERENCE, "  \n ")
    assert (result.recall, result.precision, result.f1) == (0.0, 0.0, 0.0)
    assert len(judge.seen) == 1                    # the reference's points only


def test_an_empty_reference_is_nan_with_a_reason():
    result = build(None, "rouge").score("", ANSWER)
    assert isnan(result.f1)
    assert result.reason == "the reference has no points"


def test_another_scorer_on_the_same_points_and_matches_asks_nobody():
    ems_, judge = pipeline(GOOD)
    results = ems_.evaluate([Triplet("t", "g", "q", REFERENCE)], [Answer("t", "m", ANSWER)])
    asked = len(judge.seen)
    again = rescored(results, RougeScorer(), ems_)
    assert len(judge.seen) == asked
    assert again[0].match == results[0].match
    assert again[0].score[1] == 1.0                # identical points
    assert "score:rouge" in again[0].signature
    assert "score:llm" in results[0].signature


def test_rescoring_keeps_the_reference_and_says_so():
    triplet = Triplet("t", "g", "", "Nothing alike.", others=(REFERENCE,))
    pair = build(None, "local-pair")
    results = pair.evaluate([triplet], [Answer("t", "m", ANSWER)])
    again, = rescored(results, RougeScorer(), pair)
    assert again.ref_points == results[0].ref_points == ("Revenue was $5 billion.", "Margin was 20%.")
    assert again.signature.endswith("|judge:none|references:best of 2")


def test_rescoring_keeps_unreadable_points_unscored():
    ems_, _ = pipeline([(f"<text>\n{ANSWER}", "no list"), *GOOD])
    results = ems_.evaluate([Triplet("t", "g", "q", REFERENCE)], [Answer("t", "m", ANSWER)])
    assert (results[0].lost, results[0].ans_points) == (("answer",), ())
    assert isnan(rescored(results, RougeScorer(), ems_)[0].f1)


def test_results_keep_the_order_of_the_answers_and_join_by_id():
    triplets = [Triplet("a", "g", "q", "Revenue was $5 billion."), Triplet("b", "g", "q", "Costs fell by 2%.")]
    answers = [Answer("b", "m", "Costs fell by 2%."), Answer("a", "m", "Revenue was $5 billion.")]
    results = build(None, "rouge").evaluate(triplets, answers)
    assert [r.triplet_id for r in results] == ["b", "a"]
    assert [r.f1 for r in results] == [1.0, 1.0]


def test_many_answers_stream_with_the_same_results():
    triplets = [Triplet(f"t{i}", "g", "q", f"Revenue was ${i} billion. Costs fell.") for i in range(150)]
    answers = [Answer(f"t{i}", "m", f"Revenue came to ${i} billion.") for i in range(150)]
    ems_ = build(None, "local")
    streamed = list(ems_.stream(triplets, (a for a in answers)))
    assert streamed == ems_.evaluate(triplets, answers)
    assert streamed[70] == ems_.evaluate(triplets[70:71], answers[70:71])[0]


def test_unknown_and_repeated_ids_are_refused():
    ems_ = build(None, "rouge")
    with pytest.raises(InputError, match="'z'"):
        ems_.evaluate([Triplet("a", "g", "q", "x")], [Answer("z", "m", "y")])
    with pytest.raises(InputError, match="'a' occurs more than once"):
        ems_.evaluate([Triplet("a", "g", "q", "x"), Triplet("a", "g", "q", "y")], [])


def test_own_stages_combine():
    class Words:
        signature = "words"

        def __call__(self, texts):
            return [tuple(t.split()) for t in texts]

    class Same:
        signature = "same"

        def __call__(self, pairs):
            return [tuple(ans.index(p) if p in ans else -1 for p in ref) for ref, ans in pairs]

    class One:
        name = signature = "one"

        def __call__(self, pairs):
            return [1.0] * len(pairs)

    result = EMS(Words(), Same(), One()).score("a b c d", "b d x")
    assert result.recall == 2 / 4
    assert result.precision == 2 / 3
    assert "extract:words|match:same|score:one|judge:none" in result.signature


def test_unknown_scorer_names_the_choices():
    with pytest.raises(InputError, match="rouge, bleu, bertscore, local, local-pair, got 'meteor'"):
        build(None, "meteor")
    with pytest.raises(InputError, match="the llm scorer needs a judge"):
        build(None, "llm")


def test_results_survive_json():
    local = build(None, "local").score(REFERENCE, ANSWER)
    lost = EMSResult("t", "m", (), ("b",), (), lost=("reference",))
    for result in (local, lost):
        again = EMSResult.from_dict(json.loads(json.dumps(result.to_dict())))
        assert again.to_dict() == result.to_dict()
        assert (again.match, again.ans_score, again.lost) == (result.match, result.ans_score, result.lost)
    with pytest.raises(InputError, match="not a result"):
        EMSResult.from_dict({"model": "m"})


def test_a_lost_side_keeps_the_words_of_its_reason_out_of_the_logic():
    """A reference that speaks of answers, or the other way round, loses only the side that was lost."""
    ems_, _ = pipeline([(f"<text>\n{REFERENCE}", "no list"), *GOOD])
    result = ems_.evaluate([Triplet("t", "g", "q", REFERENCE)], [Answer("t", "m", ANSWER)])[0]
    assert (result.lost, result.ref_points, result.ans_points != ()) == (("reference",), (), True)
    again = rescored([result], RougeScorer(), ems_)[0]
    assert (again.lost, again.ans_points) == (result.lost, result.ans_points)


def test_a_reference_is_extracted_once_however_many_batches_there_are(monkeypatch):
    monkeypatch.setattr("ems.batches.CHUNK", 2)

    class Counting(SentenceExtractor):
        seen: list[str] = []

        def __call__(self, texts):
            self.seen += texts
            return super().__call__(texts)

    answers = [Answer("t", f"m{i}", f"Costs fell by {i}%.") for i in range(7)]
    EMS(Counting(), SimilarityMatcher(), RougeScorer()).evaluate([Triplet("t", "g", "q", REFERENCE)], answers)
    assert Counting.seen.count(REFERENCE) == 1


def test_a_scorer_of_pairs_needs_a_matcher():
    with pytest.raises(InputError, match="needs a matcher"):
        EMS(SentenceExtractor(), None, RougeScorer())


def test_the_signature_says_which_of_several_judges_does_what():
    def one(prompt): ...
    def two(prompt): ...
    sides = [EMS(LLMExtractor(a), LLMMatcher(b), LLMScorer(c)).signature
             for a, b, c in ((one, two, two), (one, one, two), (one, two, one))]
    assert len(set(sides)) == 3
    assert sides[0].endswith("|extract by judge:one|match,score by judge:two")
    assert build(one, "llm").signature.endswith(",max=10|judge:one")           # named once, without its stages


@pytest.mark.parametrize(("text", "tokens"), [
    ("Revenue rose – by €5 – at Nestlé. ", 8), ("营收增长百分之六。", 18), ("Выручка выросла. ", 13)])
def test_a_reply_has_room_for_its_text_in_any_script(text, tokens):
    # SmolLM2 takes 0.22 tokens a character of English, 1.93 of Chinese and 0.76 of Russian.
    assert room(50 * text) >= 1.25 * 50 * tokens
    assert room(50 * text) <= 256 + 3 * 50 * len(text)


def test_a_reference_that_is_lost_to_the_judge_is_counted():
    ems_, _ = pipeline([("<text>\nAnother reference", "no list"), *GOOD])
    triplet = Triplet("t", "g", "", REFERENCE, others=("Another reference, and maybe a better one.",))
    result, = ems_.evaluate([triplet], [Answer("t", "m", ANSWER)])
    assert (result.recall, result.unscored) == (0.9, 1)
    assert result.reason == "1 of 2 references could not be scored"


def test_support_added_later_is_signed_with_its_judge():
    def judge(prompt):
        return '{"labels": []}'
    result = build().score(REFERENCE, "")
    signed, = with_support([result], [Triplet("answer", "g", "", REFERENCE, "A document.")], LLMSupporter(judge))
    assert signed.signature.endswith("|support by judge:judge")


def test_another_scorer_of_whole_sides_forgets_the_weights_of_the_first():
    def judge(prompt):
        rows = prompt.rpartition("Points:\n")[2].splitlines()[:-1]
        return json.dumps({"scores": [10] + [1] * (len(rows) - 1)})
    local, sides = build(), SidesLLMScorer(judge)
    fresh = EMS(local.extractor, None, sides).score(REFERENCE, ANSWER)
    again, = rescored([local.score(REFERENCE, ANSWER)], sides, local)
    assert again == fresh


def test_without_matches_the_signature_names_no_matcher():
    assert "|match:none|" in build(None, "local").signature
    assert "|match:similarity" in build(None, "local-pair").signature


def test_result_shows_itself_in_a_notebook():
    html = build(None, "local").score(REFERENCE, ANSWER)._repr_html_()
    assert "Margin was 20%" in html


# --- stage 1: the judge's summary removal ---

TEXT = "Overview of it all.\n\nRevenue was $5 billion.\n\nMargin was 20%.\n\nIn short, fine."


@pytest.mark.parametrize(("named", "kept"), [
    ([0, 3], [1, 2]), ([], [0, 1, 2, 3]), ([0], [1, 2, 3]), ([3], [0, 1, 2]),
    ([1], [0, 1, 2, 3]),                            # a block in the middle is no opening or closing
    ([0, 2], [1, 2, 3]), ([0, 1, 2, 3], [0, 1, 2, 3]),   # everything named: nothing goes
])
def test_only_openings_and_closings_go(named, kept):
    blocks = blocks_of(TEXT)
    assert without_summaries(TEXT, blocks, named) == "\n\n".join(blocks[i] for i in kept)


def test_what_stays_is_the_text_as_it_stood():
    lines = "Overview:\n- Revenue was $5 billion.\n- Margin was 20%.\nIn short, fine.\n"
    assert without_summaries(lines, blocks_of(lines), []) == lines
    assert without_summaries(lines, blocks_of(lines), [2]) == "Overview:\n- Revenue was $5 billion.\n- Margin was 20%."


def test_blocks_are_found_where_they_stand_and_not_where_their_lines_stood_before():
    text = "All is\nwell.\n\nRevenue rose.\nwell.\n\nCosts fell.\n\nAll is\nwell."
    assert [text[a:b] for a, b in block_spans(text, blocks_of(text))] == blocks_of(text)


def test_a_heading_stays_with_its_paragraph():
    assert blocks_of("# Results\n\nRevenue rose.\n\nCosts fell.\n\nConclusion\n\nAll well.") == [
        "# Results\nRevenue rose.", "Costs fell.", "Conclusion\nAll well."]


def test_the_judge_s_summary_removal_reaches_the_extraction_prompt():
    judge = Judge([("numbered blocks", '{"blocks": [0, 3]}'), ("Break the answer", points("Revenue was $5 billion."))])
    assert LLMExtractor(judge)([TEXT]) == [("Revenue was $5 billion.",)]
    assert "Overview" not in judge.seen[1]
    assert "In short" not in judge.seen[1]
    assert "Margin was 20%" in judge.seen[1]


def test_an_unreadable_summary_reply_leaves_the_text_unscored():
    extractor = LLMExtractor(Judge([("numbered blocks", "the first and the last"), ("Break", points("x"))]))
    assert extractor([TEXT]) == [None]
    assert extractor.unread == {"summary: unreadable": 1}


def test_summaries_can_be_kept():
    judge = Judge([("Break the answer", points("x"))])
    extractor = LLMExtractor(judge, keep_summaries=True)
    assert extractor([TEXT]) == [("x",)]
    assert len(judge.seen) == 1
    assert "summaries kept" in extractor.signature


def test_score_helper_of_the_package():
    assert ems.score_answer("Revenue was $5 billion.", "Revenue was $5 billion.").f1 == 1.0


def test_metrics_of_a_result_follow_from_its_alignment():
    result = build(None, "local-pair").score(REFERENCE, ANSWER)
    again = ems_scores(result.match, result.score, len(result.ans_points))
    assert (again.recall, again.precision, again.f1) == (result.recall, result.precision, result.f1)


def test_rescoring_keeps_what_says_where_support_came_from():
    triplet = Triplet("t", "g", "", "Nothing alike.", f"{REFERENCE} {ANSWER}", others=(REFERENCE,))
    pair = build(None, "local-pair")
    results = pair.evaluate([triplet], [Answer("t", "m", ANSWER)])
    checked = with_support(results, [triplet], LocalSupporter())
    again, = rescored(checked, RougeScorer(), pair)
    assert again.support == checked[0].support
    assert again.signature.count("|support:") == 1
    assert again.signature.endswith("|references:best of 2|support:" + LocalSupporter().signature)
    assert "support" not in rescored(results, RougeScorer(), pair)[0].signature


def test_the_nearest_points_of_whole_sides_are_no_matches():
    with pytest.raises(InputError, match="the rouge scorer needs matches"):
        rescored([build().score(REFERENCE, ANSWER)], RougeScorer(), build(None, "rouge"))


@pytest.mark.parametrize(("settings", "words"), [
    ({"scorer": "llm-sides", "variant": "bogus"}, "variant must be one of"),
    ({"scorer": "rouge", "max_score": 7}, "max_score is the top of a judge's scale"),
    ({"scorer": "llm", "max_score": 0}, "max_score must be 1 to a million"),
])
def test_settings_that_do_not_fit_a_scorer_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        build(lambda prompt: "5", **settings)


def test_a_judge_scores_unless_another_scorer_is_named():
    assert "|score:local" in ems.score_answer(REFERENCE, ANSWER).signature
    judged = ems.score_answer(REFERENCE, ANSWER, judge=lambda prompt: "no answer")
    assert "|score:llm" in judged.signature
    assert isnan(judged.f1)
