"""Public data sets: where a file comes from, how its rows are read, and what the whole sets hold."""

import hashlib
import json

import pandas as pd
import pytest
from doubles import refused
from study import datasets, rarity, read_frames

from ems.types import Answer, Triplet

CONTENT = b'[{"x": 1}]\n' * 400
NAME = "set/data/a.json"
ADDRESS = "owner/repo/c0ffee/data/a.json"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """One pinned file and no mirror: where it lies in the cache, and on a code host that is a folder."""
    digest = hashlib.sha256(CONTENT).hexdigest()
    pin = datasets.Pin("owner/repo", "c0ffee", "data/a.json", len(CONTENT), digest)
    monkeypatch.setattr(datasets, "pins", lambda: {NAME: pin})
    monkeypatch.setenv("EMS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EMS_UPSTREAM_URL", f"file://{tmp_path}/host/")
    monkeypatch.delenv("EMS_DATA_MIRROR", raising=False)
    cached, host = tmp_path / "cache" / ADDRESS, tmp_path / "host" / ADDRESS
    host.parent.mkdir(parents=True)
    return cached, host


# --- files ---


def test_a_download_is_verified_kept_and_not_repeated(places):
    cached, host = places
    host.write_bytes(CONTENT)
    assert datasets.source(NAME) == cached
    host.unlink()
    assert datasets.source(NAME) == cached
    assert cached.read_bytes() == CONTENT
    cached.write_bytes(CONTENT[:-1])  # a damaged cache is fetched again
    host.write_bytes(CONTENT)
    assert datasets.source(NAME).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CONTENT[:100], "100 bytes were read"),
        (CONTENT + b"x", f"{len(CONTENT) + 1} bytes were read"),
        (CONTENT[:-1] + b"x", "is not the file pinned"),  # the right size, another content
        (None, "No such file or directory"),
    ],
)
def test_a_failed_download_leaves_nothing(places, content, says):
    cached, host = places
    if content is not None:
        host.write_bytes(content)
    with refused(says, "set EMS_DATA_MIRROR" if content is None else "nothing was kept"):
        datasets.source(NAME)
    assert not cached.parent.exists() or not list(cached.parent.iterdir())


def test_the_mirror_comes_first_and_a_part_of_a_file_is_named(places, tmp_path, monkeypatch):
    there = tmp_path / "mirror" / NAME
    there.parent.mkdir(parents=True)
    there.write_bytes(b"[3]")
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path / "mirror"))
    with pytest.warns(UserWarning, match="a.json is not the whole file of owner/repo"):
        assert datasets.rows_of(NAME) == [3]
    there.write_bytes(CONTENT)  # whole, and no JSON
    with refused("is not JSON", "fetch it from owner/repo"):
        datasets.rows_of(NAME)
    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path / "absent"))
    with refused("absent', which is no folder"):
        datasets.source(NAME)


def test_every_pin_is_whole_and_other_names_are_refused():
    pins = datasets.pins()
    assert {name.split("/")[0] for name in pins} == set(datasets.SETS) - {
        "systems"
    }  # these are of findver
    assert all(
        len(pin.sha256) == 64 and len(pin.commit) == 40 and pin.size > 0 for pin in pins.values()
    )
    assert len(datasets.pinned(datasets.FINANCEBENCH_RESULTS)) == 16
    with refused("other.json is not pinned in data/upstream.csv"):
        datasets.source("findver/data/other.json")


# --- sets, made small ---


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Writes rows to a file of a mirror, and makes it the mirror."""

    def put(name, rows):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows)
        )

    monkeypatch.setenv("EMS_DATA_MIRROR", str(tmp_path))
    return put


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_findver_is_joined_by_id_and_both_spellings_are_read(small):
    claim = {"subset": "ie", "report": "X-2024_10-Q.json", "entailment_label": True}
    small(
        datasets.FINDVER_CLAIMS,
        [
            {**claim, "example_id": "ie-val-0", "statement": "s0", "explanation": "e0"},
            {**claim, "example_id": "numeric-val-1", "statement": "s1", "explaination": "e1"},
        ],
    )
    header = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    said = [
        {
            **claim,
            "example_id": id_,
            "statement": f"s{i}",
            "result": i == 0,
            "output": [f"{header}so s{i} is {'refuted' if i else 'false'}"],
        }
        for i, id_ in enumerate(("ie-testmini-0", "numeric-testmini-1"))
    ]
    for stem, *_ in datasets.FINDVER_SYSTEMS.values():
        small(f"{datasets.FINDVER_OUTPUTS}/processed_cot_outputs/{stem}.json", said[::-1])
    triplets, answers, labels = datasets.findver()
    assert [(t.id, t.group, t.reference) for t in triplets] == [
        ("ie-testmini-0", "X-2024_10-Q", "e0"),
        ("numeric-testmini-1", "X-2024_10-Q", "e1"),
    ]
    assert {(a.triplet_id, a.answer) for a in answers} == {
        ("ie-testmini-0", "so s0 is false"),
        ("numeric-testmini-1", "so s1 is refuted"),
    }
    first = labels[labels["triplet_id"] == "ie-testmini-0"]
    assert list(first["size"]) == [3.0, 8.0, 70.0]
    assert (first["correct"].all(), first["stated"].any()) == (True, False)
    small(
        datasets.FINDVER_CLAIMS,
        [{**claim, "example_id": "ie-val-0", "statement": "other", "explanation": "e"}],
    )
    with refused("is not the claim of that id"):
        datasets.findver()


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (
            "<|start_header_id|>assistant<|start_header_id|>assistant<|end_header_id|>\n\nYes.",
            "Yes.",
        ),
        ("<|start_header_id|>assistant[iV Yes.", "[iV Yes."),  # the header broke off
        ("Yes.<|python_tag|> No.<|reserved_special_token_198|>", "Yes. No."),
        ("assets < 5 | 3 <| 4", "assets < 5 | 3 <| 4"),
    ],
)
def test_chat_tokens_are_taken_off(raw, clean):
    assert datasets.without_chat_tokens(raw) == clean


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_financebench_labels_are_brought_to_three_words(small, monkeypatch):
    result = f"{datasets.FINANCEBENCH_RESULTS}/llama2_sharedStore.jsonl"
    monkeypatch.setattr(datasets, "pinned", lambda folder: [result])
    small(
        datasets.FINANCEBENCH_QUESTIONS,
        [
            {
                "financebench_id": f"f{i}",
                "company": "3M",
                "question": f"q{i}",
                "answer": f"${i}.00",
                "question_type": "t",
                "evidence": [
                    {"evidence_text_full_page": "page one"},
                    {"evidence_text_full_page": "page two"},
                ],
            }
            for i in range(3)
        ],
    )
    said = [
        ("f2", "q2", "Refusal", "no"),
        ("f0", "q0", " Correct answer", 0),
        ("f1", "q1", "Incorrect Answer", " 7 "),
    ]
    rows = [
        {"financebench_id": i, "question": q, "label": label, "model_answer": a}
        for i, q, label, a in said
    ]
    small(result, rows)
    triplets, answers, labels = datasets.financebench()
    assert triplets[0] == Triplet("f0", "3M", "q0", "$0.00")
    assert answers == [
        Answer(i, "llama2_sharedStore", a) for i, a in (("f2", "no"), ("f0", "0"), ("f1", "7"))
    ]
    assert list(labels["label"]) == ["refusal", "correct", "incorrect"]
    assert list(labels["correct"]) == [False, True, False]
    assert datasets.financebench(contexts=True)[0][0].context == "page one\n\npage two"
    small(result, [{**rows[0], "label": "Maybe"}])
    with refused("correct, incorrect or refusal needed, got 'maybe'"):
        datasets.financebench()


# --- sets, whole ---


@pytest.mark.filterwarnings("ignore:.*is not the whole file")
@pytest.mark.parametrize(
    ("name", "triplets", "answers", "labels", "groups"),
    [
        ("ragchecker", 140, 280, 280, 140),
        ("financebench", 150, 2400, 2400, 32),
        ("findver", 700, 2100, 2100, 255),
        ("kqa", 50, 50, 399, 50),
    ],
)
def test_the_sets_as_they_are_and_labels_as_committed(
    mirror, name, triplets, answers, labels, groups
):
    if not (mirror / name).is_dir():
        pytest.skip(f"{mirror} has no {name}")
    loaded = datasets.SETS[name].load()
    if name == "ragchecker" and len(loaded[0]) != triplets:
        pytest.skip("the numbers are those of one half of RAGChecker's pairs")
    assert [len(part) for part in loaded] == [triplets, answers, labels]
    assert len({t.group for t in loaded[0]}) == groups
    assert {a.triplet_id for a in loaded[1]} <= {t.id for t in loaded[0]}
    assert all(t.reference.strip() or t.points for t in loaded[0])
    committed = read_frames(datasets.ROOT / "data" / "human" / f"{name}_labels.csv")
    pd.testing.assert_frame_equal(committed, loaded[2], check_dtype=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is not the whole file")
def test_the_table_of_rarity_comes_out_of_its_script(mirror):
    if not (mirror / "realsumm").is_dir():
        pytest.skip(f"{mirror} has not all texts that were counted")
    assert rarity.table(mirror) == rarity.TABLE.read_text(encoding="utf-8")
