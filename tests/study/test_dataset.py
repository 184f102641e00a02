"""Calls made into triplets, and models that write answers and references."""

import json
from contextlib import nullcontext
from operator import itemgetter

import pytest
from doubles import ScriptedJudge, refused
from run import load_profile
from study import ROOT, dataset

import ems
from ems.extract import _SENTENCE_END
from ems.judge import Record
from ems.prompts import Prompts
from ems.types import Triplet

DATA = ROOT / "data" / "q3-2024"
TRIPLETS = [
    Triplet(f"{name}-Q1", name, f"What did {name} sell?", "", " ".join(["The call."] * 100))
    for name in "AB"
]
SPOKEN = "Welcome to the Acme call. " + "Revenue grew 8%. " * 200 + "This concludes the call."


def writer(judge, context_tokens=0, context_chars=None, max_tokens=800):
    judge.thinking_tokens = 0
    return dataset.Writer("small", judge, context_tokens, context_chars, max_tokens)


def test_the_committed_triplets_are_those_of_the_ten_calls():
    assert dataset.call_triplets(ROOT / "data") == ems.load_triplets(DATA / "triplets.jsonl")
    assert [t.id for t in dataset.call_triplets(ROOT / "data", ["LLY"])] == [
        f"LLY-Q{i}" for i in range(1, 6)
    ]
    with refused("no 'IBM'"):
        dataset.call_triplets(ROOT / "data", ["IBM"])


def test_a_run_gets_the_triplets_and_answers_that_were_chosen(tmp_path):
    models = ["SmolLM2-135M-Instruct"]
    triplets, answers = dataset.collect(
        tmp_path,
        "q3-2024",
        answers="data/q3-2024/answers.jsonl",
        models=models,
        companies=["LLY", "AAPL"],
        limit=7,
    )
    assert [t.id for t in triplets] == [f"AAPL-Q{i}" for i in range(1, 6)] + ["LLY-Q1", "LLY-Q2"]
    assert {a.model for a in answers} == set(models)
    assert len(answers) == 7
    assert ems.load_triplets(tmp_path / "triplets.jsonl") == triplets
    assert ems.load_answers(tmp_path / "answers.jsonl") == answers
    assert (tmp_path / "usage_dataset.json").exists()
    files = {"triplets": "data/q3-2024/triplets.jsonl", "answers": "data/q3-2024/answers.jsonl"}
    triplets, answers = dataset.collect(tmp_path, "files", **files)
    assert (len(triplets), len(answers)) == (50, 200)


def test_a_misspelt_source_or_model_is_refused_with_the_choices(tmp_path):
    with refused(
        "SOURCE: no 'q3-2023'; did you mean 'q3-2024'?; there are q3-2024, findver, files"
    ):
        dataset.collect(tmp_path, "q3-2023")
    with refused("MODELS: no answers of 'Large LLM'; there are ['SmolLM2-135M-Instruct', "):
        answers = "data/q3-2024/answers.jsonl"
        dataset.collect(tmp_path, "q3-2024", answers=answers, models=["Large LLM"])
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SPOKEN.replace("grew 8%", "grew\t\xa08%"), ""),  # white space is made even
        (SPOKEN.replace("Acme", "Another firm"), "does not name the company"),
        (SPOKEN.removesuffix("This concludes the call."), "is cut"),
        (SPOKEN[:300] + "This concludes the call.", "is cut"),
    ],
)
def test_what_is_not_the_whole_call_is_refused(tmp_path, text, says):
    company = {"transcript": "ACM", "names": "Acme|Acme Works", "min_chars": "2000"}
    (tmp_path / "ACM.txt").write_text(text, encoding="utf-8")
    with refused(says) if says else nullcontext():
        assert dataset.read_call(tmp_path, company) == SPOKEN


def test_a_writer_sees_as_much_of_the_document_as_fits():
    judge, per_token = ScriptedJudge({"answer": "Milk."}), dataset.CHARS_PER_TOKEN
    rows = dataset.write_answers(TRIPLETS, writer(judge, context_chars=50), Prompts())
    columns = itemgetter("triplet_id", "model", "answer", "context_chars", "context_of")
    assert [columns(row) for row in rows] == [
        ("A-Q1", "small", "Milk.", 50, 999),
        ("B-Q1", "small", "Milk.", 50, 999),
    ]
    bare = len(Prompts().fill("answer", context="", document="", question="What did A sell?"))
    tokens = 200 + 100 + bare // per_token  # for the answer, the document, all else
    limited = writer(judge, context_tokens=tokens, max_tokens=200)
    dataset.write_answers(TRIPLETS[:1], limited, Prompts())
    shown = judge.seen[2].split("<text>\n")[1].split("\n</text>")[0]
    assert 99 * per_token < len(shown) <= 100 * per_token


def test_a_document_is_needed_and_a_model_except_for_a_closed_book():
    judge = ScriptedJudge({"answer": "Milk."})
    closed = [Triplet("A-Q1", "A", "What did A sell?", "")]
    dataset.write_answers(closed, writer(judge, context_chars=0), Prompts())
    assert "<text>" not in judge.seen[0]
    with refused("no context"):
        dataset.write_answers(closed, writer(judge), Prompts())
    with refused("needs a model"):
        dataset.Writer.of({"served": "x"}, ROOT, ROOT, "replay")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Record("", "answer", "m", "Mi", "length"), "Mi"),  # cut at its limit: an answer too
        (Record("", "answer", "m", "I won't.", "refusal"), ""),
        (Record("", "answer", "m", "<think>What is sold?</think>\nMilk."), "Milk."),
        (Record("", "answer", "m", "<think>What", "length"), None),  # never came to an answer
        (Record("", "answer", "m", "", failure="http 500"), None),
    ],
)
def test_an_answer_is_what_was_written_or_an_error_but_never_a_silent_zero(reply, answer):
    with refused("no answer by small on A-Q1") if answer is None else nullcontext():
        (row,) = dataset.write_answers(TRIPLETS[:1], writer(ScriptedJudge(reply)), Prompts())
        assert row["answer"] == answer


def words_a_sentence(text):
    return len(text.split()) / (len(_SENTENCE_END.findall(text)) + 1)


def test_a_dry_run_assumes_long_texts_whose_sentences_are_as_long_as_those_of_the_references():
    judge = ems.LLMJudge("m", mode="plan")
    (row,) = dataset.write_answers(TRIPLETS[:1], writer(judge), Prompts())
    assert 800 <= len(row["answer"]) / dataset.CHARS_WRITTEN <= 900
    references = " ".join(t.reference for t in ems.load_triplets(DATA / "triplets.jsonl"))
    expected = words_a_sentence(references)
    assert words_a_sentence(row["answer"]) == pytest.approx(expected, rel=0.15)


def test_references_are_made_of_the_answers_of_several_writers():
    first = writer(ScriptedJudge({"answer": "One."}))
    second = writer(ScriptedJudge({"answer": "Two.</text>"}))
    final = ScriptedJudge({"consolidate": "Both."})
    written, drafts = dataset.write_references(TRIPLETS, [first, second], writer(final), Prompts())
    assert [t.reference for t in written] == ["Both.", "Both."]
    assert [row["answer"] for row in drafts] == ["One.", "One.", "Two.</text>", "Two.</text>"]
    # The tags of the call and of two answers: no text closes its own tag.
    assert final.seen[0].count("</text>") == 3


def test_a_single_writers_answers_are_the_references():
    first = writer(ScriptedJudge({"answer": "One."}))
    written, _ = dataset.write_references(TRIPLETS, [first], None, Prompts())
    assert [t.reference for t in written] == ["One.", "One."]


def test_references_that_cannot_be_made_are_refused():
    first = writer(ScriptedJudge({"answer": "One."}))
    silent = writer(ScriptedJudge({"answer": Record("", "answer", "m", "", "refusal")}))
    for writers, message in (
        ([], "one writer"),
        ([first, first], "one writer"),
        ([silent], "came out empty"),
    ):
        with refused(message):
            dataset.write_references(TRIPLETS, writers, None, Prompts())


def test_a_profiles_writers_are_asked_and_their_drafts_kept(tmp_path):
    """What WRITING names: two authors, a consolidator and a model that answers; all are planned."""
    entry = {"context_chars": 0}
    settings = {
        "mode": "plan",
        "references": [{"model": "a", **entry}, {"model": "b", **entry}],
        "consolidator": {"model": "c", **entry},
        "answers": [{"model": "d", "served": "d-1", **entry}],
    }
    triplets, answers, judges = dataset.write(settings, TRIPLETS, Prompts(), tmp_path, ROOT)
    assert [judge.name for judge in judges] == ["a", "b", "c", "d-1"]
    assert [(row["triplet_id"], row["model"]) for row in answers] == [("A-Q1", "d"), ("B-Q1", "d")]
    assert all("says this" in t.reference for t in triplets)
    drafts = (tmp_path / "drafts.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["model"] for line in drafts] == ["a", "a", "b", "b"]
    assert dataset.write({}, TRIPLETS, Prompts(), tmp_path, ROOT) == (TRIPLETS, [], [])


def test_the_recorded_replies_give_the_committed_answers(mirror, tmp_path):
    """All 200: the prompts, and what of each call a model was shown, are those of the recording."""
    entries = load_profile(ROOT, "record")["01_dataset"]["WRITING"]["answers"]
    entries.append(
        {
            "model": "Large LLM (closed weights)",
            "served": "large-llm-2026-11",
            "temperature": None,
            "seed": None,
        }
    )
    triplets = dataset.call_triplets(ROOT / "data", transcripts=mirror / "transcripts")
    made = {}
    for entry in entries:
        settings = {**entry, "recorded": [str(DATA / "replies.jsonl")]}
        model = dataset.Writer.of(settings, tmp_path, ROOT, "replay")
        for row in dataset.write_answers(triplets, model, Prompts()):
            made[row["triplet_id"], row["model"]] = row["answer"]
    committed = ems.load_answers(DATA / "answers.jsonl")
    assert made == {(a.triplet_id, a.model): a.answer for a in committed}


def test_all_calls_that_are_missing_are_named_at_once_with_their_source(tmp_path):
    with refused("lacks 2 of 2 calls: AAPL_FY2024Q4.txt, MSFT_FY2025Q1.txt", "data/README.md"):
        dataset.call_triplets(ROOT / "data", ["AAPL", "MSFT"], tmp_path)
    (tmp_path / "AAPL_FY2024Q4.txt").write_text("Apple")
    with refused("lacks 1 of 2 calls: MSFT_FY2025Q1.txt;"):
        dataset.call_triplets(ROOT / "data", ["AAPL", "MSFT"], tmp_path)


def test_without_the_papers_prompts_the_command_that_imports_them_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("EMS_HOME", str(tmp_path))
    writing = {"prompts": "paper", "transcripts": "nowhere"}
    words = ("WRITING.prompts: no prompt set 'paper'", "study/paper_prompts.py FILE.txt")
    with refused(*words, "data/README.md"):
        dataset.collect(tmp_path, "q3-2024", writing=writing)
