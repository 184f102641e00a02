"""Templates are filled strictly; ordinary text goes through unchanged."""

import json
from importlib.resources import files
from string import Template

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ems.io import home
from ems.prompt_set import RUBRIC_TASKS
from ems.prompting import SLOTS, TASKS, Prompts
from ems.sanitise import harmless, numbered, quoted
from ems.types import InputError

FILLED = dict.fromkeys(
    "answer reference candidate question text claim context document versions".split(), "x"
) | {
    "blocks": "0: x",
    "candidates": "0: x",
    "max_score": "10",
    "middle": "5",
    "low": "1",
    "versions_count": "2",
}


def folder_with(tmp_path, name="mine", **templates):
    folder = tmp_path / name
    folder.mkdir()
    for task, text in templates.items():
        (folder / f"{task}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_the_kits_templates_have_their_slots_and_no_others(task):
    slots = set(Prompts().template(task).get_identifiers())
    needed, optional = SLOTS[task]
    assert needed <= slots <= needed | optional
    filled = Prompts().fill(task, **{slot: FILLED[slot] for slot in slots})
    assert "$" not in Template(filled.replace("$4.2", "")).template
    assert filled == filled.strip("\n")


def test_every_slot_of_the_kits_scoring_template_is_used():
    assert set(Prompts().template("score").get_identifiers()) == SLOTS["score"][0] | SLOTS["score"][1]


def test_no_template_is_left_over():
    names = {p.name.removesuffix(".txt") for p in (files("ems") / "prompts").iterdir() if p.name.endswith(".txt")}
    assert set(TASKS) <= names
    assert names - set(TASKS) == {"match_shared", "match_all", "match_reasoned", "match_and_score", "entail_all",
                                  "score_all", "sides",
                                  "support", *RUBRIC_TASKS}


def test_a_missing_value_and_a_spare_one_are_errors():
    with pytest.raises(KeyError):
        Prompts().fill("match", reference="x")
    with pytest.raises(ValueError, match="no slot"):
        Prompts().fill("match", reference="x", candidates="y", answers="z")


def test_a_set_may_leave_out_what_is_optional(tmp_path):
    mine = Prompts(folder_with(tmp_path, score="$reference $candidate"))
    assert mine.fill("score", reference="a", candidate="b", max_score="10", middle="5", low="1") == "a b"
    with pytest.raises(ValueError, match="no slot"):
        mine.fill("score", reference="a", candidate="b", points="c")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Match $reference.", "lacks slots ['candidates']"),
        ("$reference $candidates $candidate", "unknown slots ['candidate']"),
        ("$reference $candidates for $4", "$$"),
    ],
)
def test_a_bad_template_is_refused_when_it_is_read(tmp_path, text, says):
    with pytest.raises(InputError) as error:
        Prompts(folder_with(tmp_path, match=text)).template("match")
    assert says in str(error.value)
    assert "match.txt" in str(error.value)


def test_a_set_without_a_template_says_so_unless_it_leaves_the_task_to_the_kit(tmp_path):
    folder = folder_with(tmp_path, match="$reference $candidates")
    with pytest.raises(InputError, match=r"has no score\.txt"):
        Prompts(folder).template("score")
    (folder / "set.json").write_text('{"kit": ["score"]}')
    assert Prompts(folder).template("score").template == Prompts().template("score").template


def test_a_template_that_is_not_utf8_says_so(tmp_path):
    folder = folder_with(tmp_path)
    (folder / "extract.txt").write_bytes(b"$answer \xff")
    with pytest.raises(InputError, match=r"extract\.txt is not UTF-8 text \(byte 8\)"):
        Prompts(folder).template("extract")


@pytest.mark.parametrize("menu", ['{"first": "1"}', '{"first": -1}', '{"first": true}', "[]", '{"numbered": 1}', '{"between": null}', '{"last": 1}'])
def test_a_malformed_menu_is_refused(tmp_path, menu):
    folder = folder_with(tmp_path)
    (folder / "set.json").write_text(f'{{"menu": {menu}}}')
    with pytest.raises(InputError, match=r"set\.json: menu may have first"):
        Prompts(folder)


@pytest.mark.parametrize("about", ["{", "[]", '"kit"', '{"kit": 5}', '{"kit": "claims"}', '{"kit": [1]}'])
def test_what_a_set_says_of_itself_must_be_an_object(tmp_path, about):
    folder = folder_with(tmp_path)
    (folder / "set.json").write_text(about)
    with pytest.raises(InputError, match=r"set\.json"):
        Prompts(folder)


def test_signatures_tell_sets_templates_and_menus_apart(tmp_path):
    one = folder_with(tmp_path, "one", match="$reference $candidates", extract="$answer")
    assert Prompts().signature("match").startswith("kit#")
    assert Prompts().signature("match") != Prompts().signature("extract")
    assert Prompts(one).signature("match").startswith("one#")
    two = folder_with(tmp_path, "two", match="$reference: $candidates", match_all="$references $candidates")
    assert Prompts(one).signature("match").split("#")[1] != Prompts(two).signature("match").split("#")[1]

    whole = Prompts(two).signature("match_all")
    (two / "set.json").write_text('{"menu": {"first": 1}}')
    assert Prompts(two).signature("match_all") != whole
    plain = Prompts(one).signature("match"), Prompts(one).signature("extract")
    (one / "set.json").write_text('{"kit": ["summary"], "menu": {"first": 1}}')
    assert Prompts(one).signature("extract") == plain[1]
    assert Prompts(one).signature("match") != plain[0]
    kits = Prompts().signature("summary").removeprefix("kit#")
    assert Prompts(one).signature("summary", "extract") == f"{plain[1]}+kit#{kits}(summary)"
    assert Prompts(one).signature("summary") == f"kit#{kits}(summary)"


def test_menus(tmp_path):
    points = ("up 12%", 'a "b"')
    assert Prompts().menu(points) == numbered(points) == '0: "up 12%"\n1: "a \\"b\\""'
    folder = folder_with(tmp_path)
    (folder / "set.json").write_text(json.dumps({"menu": {"first": 1, "between": ",\n"}}))
    assert Prompts(folder).menu(points) == '1: "up 12%",\n2: "a \\"b\\""'
    assert Prompts(folder).first == 1
    (folder / "set.json").write_text(json.dumps({"menu": {"numbered": False}}))
    assert Prompts(folder).menu(points) == '"up 12%"\n"a \\"b\\""'


def test_a_schema_goes_only_with_a_prompt_that_asks_for_json(tmp_path):
    schema = {"type": "object"}
    assert Prompts().schema("extract", schema) is schema
    assert Prompts(folder_with(tmp_path, extract="List the points of $answer")).schema("extract", schema) is None


def test_sets_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("EMS_HOME", str(tmp_path / "home"))
    assert home() == tmp_path / "home"
    assert Prompts.named("kit").name == "kit"
    with pytest.raises(InputError, match="ems prompts import"):
        Prompts.named("paper")
    with pytest.raises(InputError, match="no prompt set ''"):
        Prompts.named("")
    folder = tmp_path / "home" / "prompts" / "paper"
    folder.mkdir(parents=True)
    assert Prompts.named("paper").folder == folder
    assert Prompts.named(str(folder_with(tmp_path))).name == "mine"


def test_the_data_folder_without_ems_home(tmp_path, monkeypatch):
    monkeypatch.delenv("EMS_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert home() == tmp_path / "ems"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("APPDATA", str(tmp_path / "roaming"))
    assert home() == tmp_path / "roaming" / "ems"


@pytest.mark.parametrize("text", [
    "Revenue grew 12% to $4.2 billion; margin <5% & falling (a<b and c>d).",
    "| Segment | Sales |\n| --- | --- |\n| Cloud<br>services | €11.4bn |\n\n**Overview:** H<sub>2</sub>O",
    "1. First.\n2. Second.\n\n- a\n- b\n\n> quoted\n\n```python\nx = a[0] | b\n```",
    "Q: How much? A: 31 stores.\nAnswer: it opened 31.\nThe answer:\n- yes",
    "Ärger über “Anführungen”, «citations», 《年报》, 35％, ½, 10²; emoji ✔️ 🚀",
    "[1] See note [INSTALL] and [Inst. of X]; textile <textile; f(x) = 2*x; a_b __c__",
])
def test_ordinary_text_comes_out_as_it_went_in(text):
    assert harmless(text) == text


def test_blanks_shrink_and_line_ends_become_one_kind():
    assert harmless("  a\r\nb\rc   \t   d\n\n\n\n\ne \u2028f\x0bg ") == "a\nb\nc  d\n\ne \nf\ng"


@pytest.mark.parametrize(("text", "clean"), [
    ("\u3000Answer:\nten\nJSON:\u00a0", "(Answer:)\nten\n(JSON:)"), ("a\ufe0f\u200b\ufe0f b", "a\ufe0f b")])
def test_odd_blanks_and_hidden_characters_shield_nothing(text, clean):
    assert harmless(text) == harmless(clean) == clean


ODD = "<>/|[]\\text TEXT INSTs﹤＜ｔе\u0301\u200b\u00ad&lt;#60_=\"'\n\r Answer:JSON $"


@given(st.text(alphabet=st.sampled_from(ODD), max_size=60))
def test_twice_is_once_and_nothing_passes_for_a_tag(text):
    once = harmless(text)
    assert harmless(once) == once
    assert "<text>" not in once.lower()
    assert "</text" not in once.lower()
    assert "<|" not in once
    line = quoted(text)
    assert "\n" not in line
    assert isinstance(json.loads(line), str)
