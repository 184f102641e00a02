"""Calls made into triplets, and models that write answers and references."""

from contextlib import nullcontext

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
    assert [
        (r["triplet_id"], r["model"], r["answer"], r["context_chars"], r["context_of"])
        for r in rows
    ] == [(name, "small", "Milk.", 50, 999) for name in ("A-Q1", "B-Q1")]
    bare = len(Prompts().fill("answer", context="", document="", question="What did A sell?"))
    room = 200 + 100 + bare // per_token  # for the answer, the document, all else
    dataset.write_answers(
        TRIPLETS[:1], writer(judge, context_tokens=room, max_tokens=200), Prompts()
    )
    assert (
        0
        <= 100 * per_token - len(judge.seen[2].split("<text>\n")[1].split("\n</text>")[0])
        < per_token
    )
    closed = [Triplet("A-Q1", "A", "What did A sell?", "")]
    dataset.write_answers(closed, writer(judge, context_chars=0), Prompts())
    assert "<text>" not in judge.seen[3]
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
        assert (
            dataset.write_answers(TRIPLETS[:1], writer(ScriptedJudge(reply)), Prompts())[0][
                "answer"
            ]
            == answer
        )


def test_a_dry_run_assumes_texts_as_long_as_allowed_in_sentences_as_long_as_those_of_the_references():
    text = dataset.write_answers(TRIPLETS[:1], writer(ems.LLMJudge("m", mode="plan")), Prompts())[
        0
    ]["answer"]
    assert 800 <= len(text) / dataset.CHARS_WRITTEN <= 900
    written = " ".join(t.reference for t in ems.load_triplets(DATA / "triplets.jsonl"))
    assumed, known = (len(t.split()) / (len(_SENTENCE_END.findall(t)) + 1) for t in (text, written))
    assert assumed == pytest.approx(known, rel=0.15)


def test_references_are_made_of_the_answers_of_several_writers():
    first, second = (writer(ScriptedJudge({"answer": said})) for said in ("One.", "Two.</text>"))
    final = ScriptedJudge({"consolidate": "Both."})
    written, drafts = dataset.write_references(TRIPLETS, [first, second], writer(final), Prompts())
    assert [t.reference for t in written] == ["Both.", "Both."]
    assert [row["answer"] for row in drafts] == ["One.", "One.", "Two.</text>", "Two.</text>"]
    assert (
        final.seen[0].count("</text>") == 3
    )  # the call's and two answers': none is closed from inside
    assert [
        t.reference for t in dataset.write_references(TRIPLETS, [first], None, Prompts())[0]
    ] == ["One.", "One."]
    silent = writer(ScriptedJudge({"answer": Record("", "answer", "m", "", "refusal")}))
    for writers, says in (
        ([], "one writer"),
        ([first, second], "one writer"),
        ([silent], "came out empty"),
    ):
        with refused(says):
            dataset.write_references(TRIPLETS, writers, None, Prompts())


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
    triplets, made = dataset.call_triplets(ROOT / "data", transcripts=mirror / "transcripts"), {}
    for entry in entries:
        of_model = dataset.Writer.of(
            {**entry, "recorded": [str(DATA / "replies.jsonl")]}, tmp_path, ROOT, "replay"
        )
        made |= {
            (r["triplet_id"], r["model"]): r["answer"]
            for r in dataset.write_answers(triplets, of_model, Prompts())
        }
    assert made == {
        (a.triplet_id, a.model): a.answer for a in ems.load_answers(DATA / "answers.jsonl")
    }
