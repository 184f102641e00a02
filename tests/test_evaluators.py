"""Evaluators by name, stages and metrics of one's own, and what is refused."""

import re
from math import isnan, nan
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from doubles import ScriptedJudge, refused
from study import rescored

import ems
from ems.analysis.frames import METRIC_ORDER, metric_of, to_frame
from ems.baselines import JudgeAlone, RAGChecker
from ems.coverage import Coverage
from ems.custom import as_stage, load
from ems.evaluators import SCORERS, OwnMetric, build, score_answer
from ems.local.encoder import Encoder
from ems.pipeline import EMS
from ems.prompts import Prompts
from ems.results import CoverageResult, EMSResult
from ems.types import Answer, Triplet

REFERENCE = "Revenue was $5 billion. Margin was 20%."
ANSWER = "Sales came to 5 billion dollars. Costs fell. Margin was 20%."


def kinds(evaluator):
    """What each stage is, by the beginning of its signature."""
    return {
        name: value.partition(":")[0].partition("#")[0]
        for name, value in evaluator.signature.items()
        if name != "ems"
    }


LLM = {"extract": "llm", "match": "llm", "judge": "scripted"}


@pytest.mark.parametrize(
    ("judge", "scorer", "kind", "stages"),
    [
        (True, None, EMS, {**LLM, "score": "llm"}),
        (True, "llm", EMS, {**LLM, "score": "llm"}),
        (True, "rouge", EMS, {**LLM, "score": "rouge"}),
        (True, "bleu", EMS, {**LLM, "score": "bleu"}),
        (True, "bertscore", EMS, {**LLM, "score": "bertscore"}),
        (True, "coverage", Coverage, {"extract": "llm", "coverage": "llm", "judge": "scripted"}),
        (True, "local", Coverage, {"extract": "rules", "coverage": "words"}),
        (True, "judge", JudgeAlone, {"judge_alone": "kit", "judge": "scripted"}),
        (True, "ragchecker", RAGChecker, {"ragchecker": "kit", "judge": "scripted"}),
        (False, None, Coverage, {"extract": "rules", "coverage": "words"}),
        (False, "local", Coverage, {"extract": "rules", "coverage": "words"}),
        (False, "rouge", EMS, {"extract": "rules", "match": "words", "score": "rouge"}),
        (False, "bertscore", EMS, {"extract": "rules", "match": "words", "score": "bertscore"}),
    ],
)
def test_a_judge_and_a_scorer_name_an_evaluator(judge, scorer, kind, stages):
    evaluator = build(ScriptedJudge() if judge else None, scorer)
    assert type(evaluator) is kind
    assert kinds(evaluator) == stages


def test_settings_reach_their_stages(tmp_path):
    judge, folder = ScriptedJudge(), tmp_path / "mine"
    folder.mkdir()
    (folder / "match.txt").write_text(Prompts().template("match").template + "\nMine.")
    default = build(judge).signature
    for settings, differ in (({"joint": True}, {"match", "score"}), ({"max_score": 5}, {"score"})):
        signature = build(judge, **settings).signature
        assert {name for name in default if signature[name] != default[name]} == differ
    own = build(judge, prompts=Prompts(folder)).signature
    assert [name for name in ("extract", "match", "score") if "mine#" in own[name]] == ["match"]
    for encoder in (Encoder("roberta-base"), "roberta-base"):
        assert "roberta-base" in build(None, "bertscore", encoder=encoder).signature["score"]


@pytest.mark.parametrize(
    ("judge", "settings", "says"),
    [
        (None, {"scorer": "rogue"}, "did you mean 'rouge'?"),
        (None, {"scorer": 3}, "the scorer is a function or an import path"),
        (None, {"scorer": "llm"}, "the llm scorer needs a judge"),
        (None, {"scorer": "coverage"}, "the coverage scorer needs a judge"),
        (None, {"scorer": "judge"}, "the judge scorer needs a judge"),
        (None, {"scorer": "ragchecker"}, "the ragchecker scorer needs a judge"),
        (None, {"scorer": "no_such_module:f"}, "no_such_module"),
        (None, {"extractor": "lines"}, "reads module:name"),
        (None, {"matcher": len}, "the local scorer without a judge has no use for matcher"),
        (True, {"scorer": "judge", "extractor": len}, "the judge scorer has no use for extractor"),
        (True, {"max_score": 0}, "max_score must be 1 to a million"),
        (3, {}, "a judge is an LLMJudge or a function"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(judge, settings, says):
    with refused(says):
        build(ScriptedJudge() if judge is True else judge, **settings)


# --- the table of scorers ---


NOT_IN_TABLE_1 = {"EMS(BLEU)"}
MAKES = {
    "llm": "EMS(LLM)",
    "rouge": "EMS(ROUGE)",
    "bertscore": "EMS(BERTScore)",
    "bleu": "EMS(BLEU)",
    "coverage": "Coverage(LLM)",
    "judge": "Judge alone",
    "ragchecker": "RAGChecker",
    "local": "Coverage(local)",
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_makes_a_metric_whose_place_tables_know(name):
    settings = {}
    if name == "bertscore":
        settings["encoder"] = SimpleNamespace(signature="none", bertscore=lambda *texts: [])
    result = build(ScriptedJudge(), name, **settings).score("", "")
    assert metric_of(result) == MAKES[name]
    assert (MAKES[name] in METRIC_ORDER) == (MAKES[name] not in NOT_IN_TABLE_1)


def test_the_documentation_lists_the_scorers():
    page = (Path(__file__).parents[1] / "docs" / "usage.md").read_text(encoding="utf-8")
    table = page.partition("| `--scorer` |")[2].partition("\n\n")[0]
    documented = {}
    for line in table.splitlines()[2:]:
        names, *_, judge = line.strip("| ").split(" | ")
        documented |= dict.fromkeys(re.findall("`([^`]+)`", names), judge)
    expected = {"MODULE:NAME": "optional"}
    for name, scorer in SCORERS.items():
        can_ask = "prompts" in scorer.takes
        expected[name] = "yes" if scorer.needs_judge else "optional"
        if not can_ask:
            expected[name] = "no"
    assert documented == expected


# --- options without a use ---

OPTIONS = {
    "joint": True,
    "extractor": lambda texts: [[text] for text in texts],
    "matcher": lambda pairs: [[-1] * len(reference) for reference, _ in pairs],
    "prompts": None,  # made by the test
    "encoder": "roberta-base",
    "max_score": 5,
}
# The table's column "takes" once more, the other way round, so that a slip in it is noticed.
UNUSED = {
    "llm": {"encoder"},
    "rouge": {"encoder", "max_score"},
    "bertscore": {"max_score"},
    "bleu": {"encoder", "max_score"},
    "coverage": {"joint", "matcher", "encoder"},
    "judge": {"joint", "extractor", "matcher", "encoder", "max_score"},
    "ragchecker": {"joint", "extractor", "matcher", "encoder", "max_score"},
    "local": {"joint", "matcher", "prompts", "encoder", "max_score"},
    "own": {"encoder", "max_score"},
}
WITHOUT_A_JUDGE = ("rouge", "bertscore", "bleu", "local", "own")


def test_each_scorer_says_which_options_it_has_no_use_for():
    assert UNUSED.keys() == {*SCORERS, "own"}


@pytest.fixture
def own_prompts(tmp_path):
    """Prompts of which every template differs from the kit's."""
    for path in Prompts().folder.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        (tmp_path / path.name).write_text(text + "\nMine.", encoding="utf-8")
    return Prompts(tmp_path)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    ("scorer", "has_judge"),
    [*((name, True) for name in UNUSED), *((name, False) for name in WITHOUT_A_JUDGE)],
)
def test_an_option_changes_the_signature_or_is_refused(scorer, has_judge, option, own_prompts):
    judge = ScriptedJudge() if has_judge else None
    settings = {option: own_prompts if option == "prompts" else OPTIONS[option]}
    named = half if scorer == "own" else scorer
    needs_judge = option in ("joint", "prompts")
    if option in UNUSED[scorer] or (needs_judge and not has_judge):
        with refused(f" has no use for {option}; leave it out"):
            build(judge, named, **settings)
    else:
        assert build(judge, named, **settings).signature != build(judge, named).signature


@pytest.mark.parametrize("scorer", SCORERS)
def test_defaults_are_not_refused(scorer):
    defaults = {"joint": False, "extractor": None, "matcher": None, "prompts": None}
    build(ScriptedJudge(), scorer, **defaults, encoder="roberta-large", max_score=10)


# --- stages and metrics of one's own ---


def lines(texts):
    return [text.split(". ") for text in texts]


def first(pairs):
    return [[0 if answer else -1] * len(reference) for reference, answer in pairs]


def half(pairs):
    return [0.5 for _ in pairs]


def test_own_stages_make_an_ems_of_one_s_own():
    evaluator = build(None, half, extractor=lines, matcher=first)
    result = evaluator.score(REFERENCE, ANSWER)
    assert (result.match, result.score) == ((0, 0), (0.5, 0.5))
    assert (result.recall, result.precision) == (
        0.5,
        0.5 / 3,
    )  # one of three answer points is chosen
    named = {"extract": "lines", "match": "first", "score": "half"}
    assert kinds(evaluator) == {name: f"{__name__}.{function}" for name, function in named.items()}
    assert metric_of(result) == f"EMS({__name__}.half)"
    assert (
        build(None, f"{__name__}:half").score(REFERENCE, ANSWER).signature["score"]
        == result.signature["score"]
    )


def test_functions_are_stages_of_ems_and_coverage_too():
    named = build(None, half, extractor=lines, matcher=first)
    by_hand = EMS(lines, first, half)
    assert by_hand.signature == named.signature
    assert by_hand.score(REFERENCE, ANSWER) == named.score(REFERENCE, ANSWER)
    again = rescored([by_hand.score(REFERENCE, ANSWER)], lambda pairs: [1.0 for _ in pairs], named)
    assert [(r.match, r.score) for r in again] == [((0, 0), (1.0, 1.0))]
    assert Coverage(lines).signature == build(None, extractor=lines).signature
    with refused("the scorer is a function or an import path to one, got 3"):
        EMS(lines, first, 3)


def test_an_own_metric_gives_a_value_an_answer_and_none_is_unscored():
    def share(references, answers):
        return [
            len(answer) / len(reference) if answer else None
            for reference, answer in zip(references, answers, strict=True)
        ]

    triplets = [Triplet("a", "g", "q", "four"), Triplet("b", "h", "q", "eight---")]
    results = OwnMetric(share).evaluate(
        triplets, [Answer("b", "m", "four"), Answer("a", "m", "two!"), Answer("b", "n", "")]
    )
    assert [r.value for r in results[:2]] == [0.5, 1.0]
    assert isnan(results[2].value)
    assert [(r.unscored, r.group) for r in results] == [(0, "h"), (0, "g"), (1, "h")]
    frame = to_frame(results)
    assert {name.rpartition(".")[2] for name in frame["metric"]} == {"share"}
    assert len(frame[["part", "signature"]].drop_duplicates()) == 1


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("jaccard", "jaccard"),
        (":jaccard", ":jaccard"),
        ("../x:y", "../x:y"),
        ("no_such_module:jaccard", "no_such_module"),
        ("in_this_folder:shar", "no attribute 'shar'"),
        ("needs_more:f", "absent_package_of_mine"),
    ],
)
def test_a_path_that_leads_nowhere_is_one_clear_line(path, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in_this_folder.py").write_text("share = 3\n")
    (tmp_path / "needs_more.py").write_text("import absent_package_of_mine\n")
    with refused(says, "module:name"):
        load(path)


class Half:
    def __call__(self, pairs):
        return half(pairs)


def test_a_function_is_signed_with_its_name_and_its_source():
    signatures = [as_stage(stage, "scorer").signature for stage in (half, lines, Half())]
    names, sources = zip(*(signature.split(":") for signature in signatures), strict=True)
    assert names == tuple(f"{__name__}.{name}" for name in ("half", "lines", "Half"))
    assert len(set(sources)) == 3
    assert as_stage(max, "scorer").signature == "builtins.max:source unknown"
    stage = as_stage(half, "scorer")
    assert as_stage(stage, "scorer") is stage  # what has a signature is a stage already


@pytest.mark.parametrize(
    ("kind", "entry", "read"),
    [
        ("extractor", ["one", "two"], ("one", "two")),
        ("extractor", [], ()),
        ("extractor", None, None),
        ("matcher", [0, -1, None], (0, -1, None)),
        ("metric", 1, 1.0),
        ("metric", nan, None),
        ("metric", None, None),
    ],
)
def test_what_a_function_returns_is_read(kind, entry, read):
    assert as_stage(lambda items, *answers: [entry for _ in items], kind)(["item", "item"]) == [
        read,
        read,
    ]


@pytest.mark.parametrize(
    ("kind", "entry", "gives"),
    [
        *(
            ("scorer", entry, "a number in [0, 1]")
            for entry in (1.5, -0.1, "high", {"score": 0.5}, np.array([0.5, 1]))
        ),
        ("extractor", "one text", "a list of texts"),
        ("extractor", [1], "a list of texts"),
        ("extractor", 3, "a list of texts"),
        ("matcher", 0, "an index or -1"),
        ("matcher", ["one"], "an index or -1"),
    ],
)
def test_an_entry_of_another_kind_is_refused_with_what_is_wanted(kind, entry, gives):
    with refused(f"1 here, and must return {gives}", "; got ["):
        as_stage(lambda items: [entry for _ in items], kind)([[("a", "b")]])


@pytest.mark.parametrize(("returned", "got"), [([0.5], "1"), (None, "None"), (0.5, "0.5")])
def test_a_wrong_number_of_entries_is_refused(returned, got):
    with refused(
        "takes a list of references and one of answers, 2 here, ", f" for each; got {got}"
    ):
        as_stage(lambda items: returned, "metric")(["a", "b"])


def test_a_scorer_gets_all_pairs_at_once_and_its_scores_stay_with_their_answer():
    seen = []

    def scorer(pairs):
        seen.append(list(pairs))
        return [None if ref == ans else len(ref) / 10 for ref, ans in pairs]

    groups = [[("a", "b"), ("same", "same")], [], [("ccc", "d")]]
    assert as_stage(scorer, "scorer")(groups) == [[0.1, None], [], [0.3]]
    assert seen == [[("a", "b"), ("same", "same"), ("ccc", "d")]]


@pytest.mark.parametrize("extract", [lambda text: text.split(), lambda text: re.split(" ", text)])
def test_a_function_of_one_text_is_told_that_it_gets_a_list(extract):
    contract = "takes a list of texts, 2 here, and must return a list of texts, or None, for each"
    with refused(f"{contract}; it does not take a list: ", "'list'"):
        as_stage(extract, "extractor")(["one", "two"])


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda items: 1 / 0, ZeroDivisionError),
        (lambda items: items[0].absent, AttributeError),
        (lambda items: len(3), TypeError),
    ],
)
def test_an_own_functions_errors_pass_through(function, error):
    with pytest.raises(error):
        as_stage(function, "metric")(["a"])
    with refused("the metric is a function"):
        as_stage(dict, "metric")  # a class, not an object that can be called


# --- one answer ---


def test_one_answer_needs_no_judge():
    assert ems.score_answer(REFERENCE, REFERENCE).f1 == 1.0
    result = score_answer(REFERENCE, ANSWER, question="What was the margin?")
    assert isinstance(result, CoverageResult)
    assert result.question == "What was the margin?"
    assert 0 < result.f1 < 1


def test_one_answer_with_a_judge_is_scored_the_paper_s_way():
    result = score_answer(REFERENCE, ANSWER, judge=lambda prompt: "no answer")
    assert isinstance(result, EMSResult)
    assert isnan(result.f1)  # its replies cannot be read
    assert score_answer(REFERENCE, ANSWER, judge=lambda prompt: "50", scorer="judge").value == 0.5
