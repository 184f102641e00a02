"""Templates are filled strictly; a folder lacks some, and the kit has them; signatures differ."""

import hashlib

import pytest
from doubles import refused

from ems.prompts import KIT, OPTIONAL_SLOTS, Prompts


def folder_with(tmp_path, **templates):
    folder = tmp_path / "mine"
    folder.mkdir()
    for task, text in templates.items():
        (folder / f"{task}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("task", sorted(path.stem for path in KIT.glob("*.txt")))
def test_every_template_of_the_kit_is_filled_whole(task):
    slots = Prompts().template(task).get_identifiers()
    filled = Prompts().fill(task, **{slot: f"<{slot}>" for slot in slots})
    assert all(f"<{slot}>" in filled for slot in slots)
    assert filled == filled.strip("\n")
    assert "$" not in filled.replace("$4.2 billion", "")


def test_a_folder_may_leave_out_what_is_optional(tmp_path):
    mine = Prompts(folder_with(tmp_path, score="$reference $candidate"))
    assert {"max_score", "middle", "low"} <= OPTIONAL_SLOTS
    assert (
        mine.fill("score", reference="a", candidate="b", max_score="10", middle="5", low="1")
        == "a b"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"Match $reference.", "['candidates']"),
        (b"$reference $candidates $candidate", "['candidate']"),
        (b"$reference $candidates for $4", "$$"),
        (b"$reference $candidates \xff", "not UTF-8"),
    ],
)
def test_a_bad_template_is_refused_by_name(tmp_path, text, says):
    folder = folder_with(tmp_path)
    (folder / "match.txt").write_bytes(text)
    with refused(says, "match.txt"):
        Prompts(folder).template("match")


def test_what_a_folder_lacks_is_the_kits(tmp_path):
    mine = Prompts(folder_with(tmp_path, match="$reference $candidates", rubric="Is it so? $claim"))
    assert mine.template("score").template == Prompts().template("score").template
    assert mine.fill("rubric", claim="x") == "Is it so? x"  # a task of one's own
    with refused("nonsense.txt"):
        mine.template("nonsense")


def test_a_signature_hashes_the_templates_and_says_whose_they_are(tmp_path):
    def short(*texts):
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]

    kit = Prompts()
    both = short(kit.template("summary").template, kit.template("extract").template)
    assert kit.signature("summary", "extract") == f"kit#{both}"
    mine = Prompts(folder_with(tmp_path, extract="Say again: $answer"))
    own, left = short("Say again: $answer"), short(kit.template("summary").template)
    assert mine.signature("extract") == f"mine#{own}"
    assert mine.signature("summary", "extract") == f"mine#{own}+kit#{left}(summary)"
    assert mine.signature("summary") == f"kit#{left}(summary)"


def test_sets_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("EMS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "prompts" / "paper"
    with refused("no prompt set 'paper'"):
        Prompts.named("paper")
    folder.mkdir(parents=True)
    assert Prompts.named("kit").name == "kit"
    assert Prompts.named("paper").folder == folder
    assert Prompts.named(str(folder_with(tmp_path))).name == "mine"
