"""What the numbers say in words: small frames with known answers, and the empty, tied and missing cases."""

from math import nan

import pandas as pd
import pytest

from ems import data as frames
from ems import stats
from ems.results.display import markdown_text
from ems.study.ablations import ablation
from ems.study.findings import verdicts
from ems.study.findings.verdicts import comparison, with_interval
from ems.study.people import agreement
from ems.types import EMSResult, InputError

HOSTILE = "<script>alert(1)</script>[x](javascript:alert(1))*`_|\u202e"


ROW = {"value": 0.625, "ci_low": 0.5, "ci_high": 0.75, "vs M": 0.1, "vs M low": -0.1, "vs M high": 0.3}


def test_a_value_with_its_interval():
    assert with_interval(ROW) == "0.62 [0.50, 0.75]"
    assert with_interval({**ROW, "ci_low": nan, "ci_high": nan}) == "0.62"


@pytest.mark.parametrize(("gap", "low", "high", "words"), [
    (0.1, -0.1, 0.3, "not distinguishable from M (+0.10 [-0.10, +0.30])"),
    (0.1, 0.05, 0.3, "above M (+0.10 [+0.05, +0.30])"),
    (-0.1, -0.3, -0.05, "below M (-0.10 [-0.30, -0.05])"),
    (0.1, 0.0, 0.3, "not distinguishable from M (+0.10 [+0.00, +0.30])"),        # an interval that touches 0
])
def test_a_comparison_says_no_more_than_its_interval(gap, low, high, words):
    assert comparison(ROW | {"vs M": gap, "vs M low": low, "vs M high": high}, "M") == words


# --- text from outside ---

def test_a_name_from_outside_is_shown_and_neither_runs_nor_links():
    text = markdown_text(HOSTILE)
    assert "<" not in text
    assert "\\[x\\]" in text                                     # no link without an unescaped bracket
    assert not any(f"{sign}" in text.replace(f"\\{sign}", "") for sign in "*`_|[]")
    assert "\u202e" not in text
    name = "Qwen2.5-Coder-1.5B-Instruct (closed book)"
    assert markdown_text(name) == name


# --- notebook 3 ---

def result(match, score, ans=("a", "b"), f1=0.5, unscored=0):
    return EMSResult("t", "m", ("r",) * len(match), ans, match, score, f1, f1, f1, unscored, "s")


def test_signs_of_a_weak_judge_count_what_was_read_and_found():
    """Six points: two found at 0, one at 1, one without a match, two that could not be read."""
    one = result((0, 0, 1, -1, None, None), (1.0, 1.0, 0.5, 0.0, None, None), unscored=2)
    signs = verdicts.judge_signs({"EMS(LLM)": [one]}).loc["EMS(LLM)"]
    assert signs["unmatched"] == 1 / 4
    assert signs["commonest index"] == signs["commonest score"] == 2 / 3
    assert (signs["points per reference"], signs["points per answer"]) == (6, 2)


def test_signs_where_nothing_was_matched_or_read_are_missing_and_no_error():
    signs = verdicts.judge_signs({"EMS(LLM)": [result((-1, -1), (0.0, 0.0)), result((), (), ans=())],
                                  "EMS(local)": [result((None,), (None,), ans=())]})
    assert signs.loc["EMS(LLM)", "unmatched"] == 1
    assert signs.loc[["EMS(LLM)", "EMS(local)"], ["commonest index", "commonest score"]].isna().all(axis=None)
    assert pd.isna(signs.loc["EMS(local)", "unmatched"])
    assert "matched nothing" in verdicts.judge(signs, nan, "j")


@pytest.mark.parametrize(("index", "score", "weak"), [(0.9, 0.2, True), (0.2, 0.9, True), (0.5, 0.5, False)])
def test_a_judge_is_weak_when_over_half_of_its_indices_or_scores_are_equal(index, score, weak):
    signs = pd.DataFrame({"unmatched": [0.25], "commonest index": [index], "commonest score": [score]},
                         index=["EMS(LLM)"])
    text = verdicts.judge(signs, 0.5, f"j{HOSTILE}")
    assert text.startswith("**This is a weak judge.**" if weak else "**No sign of a weak judge.**")
    assert "25 % of the reference points" in text
    assert "is 0.50" in text
    assert "<script" not in text
    assert "no rank correlation" in verdicts.judge(signs, nan, "j")


def test_without_a_judge_there_is_nothing_to_say_of_one():
    assert "no judge" in verdicts.judge(verdicts.judge_signs({"EMS(local)": [result((0,), (1.0,))]}), nan, "")


def test_the_example_is_in_the_middle_of_the_best_model_or_the_best_of_its_triplet():
    def one(triplet, model, f1):
        return EMSResult(triplet, model, ("point",), ("point",), match=(0,), score=(f1,), f1=f1)
    results = [one("a", "low", 0.9), one("b", "low", 0.1), one("a", "high", 0.5), one("b", "high", 0.6),
               one("c", "high", 0.8), one("d", "high", nan)]
    assert (verdicts.example(results).model, verdicts.example(results).triplet_id) == ("high", "b")
    assert (verdicts.example(results, "a").model, verdicts.example(results, "a").f1) == ("low", 0.9)
    assert verdicts.example(results[-1:]).triplet_id == "d"
    with pytest.raises(InputError, match="EXAMPLE: no answer to triplet 'z'"):
        verdicts.example(results, "z")


def test_coverage_counts_points_and_answers_without_a_value():
    rows = [result((0, None), (1.0, None), unscored=1), result((), (), ans=(), f1=nan, unscored=1)]
    assert verdicts.coverage({"x": rows}).loc["x"].tolist() == [3, 2, 1]


def used(**numbers):
    return {"requests": 10, "stored": 7, "shared": 0, "calls": 0, "prompt_tokens": 0, "cached_tokens": 0,
            "completion_tokens": 0, "cost": None, "seconds": 0.0, "failures": {}, **numbers}


def test_what_a_judge_was_asked_is_summed_over_its_tasks():
    assert verdicts.judge_use({}) == "No model was asked."
    replayed = verdicts.judge_use({"m*": {"match": used(), "score": used(failures={"missing": 2})}})
    assert "20 questions, 14 replies from the store, 0 calls; 2 questions without a usable reply" in replayed
    assert "m\\*" in replayed
    assert "tokens" not in replayed
    tasks = {"match": used(calls=3, cost=0.5, prompt_tokens=2000), "score": used(cost=0.25)}
    paid = verdicts.judge_use({"m": tasks})
    assert "2,000 prompt tokens" in paid
    assert "0.75 money" in paid


# --- notebook 4 ---

def paired(groups, ahead, better="high", models=("low", "high")):
    """`better` is ahead by 0.4 in the first groups and equal to the other model in the rest."""
    rows = [("EMS(local)", "F1", model, f"t{i}", f"g{i}",
             0.1 + i / 100 + (0.4 if model == better and i < ahead else 0), 0.1, 1.0, 1, 0, "s")
            for model in models for i in range(groups)]
    return stats.paired_table(pd.DataFrame(rows, columns=frames.COLUMNS), models=list(models))


@pytest.mark.parametrize(("groups", "ahead", "by", "better"), [
    (3, 3, "no `p_holm` is below 0.25, and there is no interval either", False),    # p is 2 / 2^3 at the least
    (6, 6, "By interval and `p_holm`, over 6", True),          # p = 2 / 2^6 = 0.03
    (8, 4, "By interval and `p_holm`, over 8", False),                # four ties: p = 2 / 2^4
])
def test_models_are_distinguished_by_interval_and_by_p_where_p_can_be_small(groups, ahead, by, better):
    table = paired(groups, ahead)
    assert groups < 6 or table["ci_low"].iloc[0] > 0.01     # the interval excludes 0 in each case
    first, _, ahead_by, unclear, worse = verdicts.models(table).splitlines()
    assert by in first
    assert worse == "- **The later system is worse:** in no pair."
    chosen, other = (ahead_by, unclear) if better else (unclear, ahead_by)
    assert "**high** against **low** by EMS(local)." in chosen
    assert "in no pair." in other


def test_a_pair_over_fewer_clusters_is_judged_by_its_interval_alone_and_says_so():
    few = paired(6, 6, models=("low", "high"))
    table = pd.concat([few, paired(10, 10, models=("other", "high")), paired(6, 0, models=("other", "low"))])
    _, _, better, unclear, _, _, *notes = verdicts.models(table).splitlines()
    assert better.endswith("**high** against **low** by EMS(local); **high** against **other** by EMS(local).")
    assert unclear.endswith("**low** against **other** by EMS(local).")
    assert notes[0] == ("**high** against **low** by the interval alone: over its 6 clusters no `p_holm` is below "
                        "0.062.")
    assert [note.split(" by ")[0] for note in notes[1:]] == ["**low** against **other**"]


def test_equal_models_one_cluster_and_one_model_have_no_difference():
    assert "**No clear difference:** **high** against **low** by EMS(local)." in verdicts.models(paired(8, 0))
    alone = verdicts.models(paired(1, 1))                   # no interval at all
    assert "over 1 clusters no `p_holm` is below 1" in alone
    assert "**No clear difference:** **high** against **low** by EMS(local)." in alone
    assert "one system" in verdicts.models(paired(3, 3, models=("only",)))


def test_a_hostile_model_name_stays_text():
    assert "<script" not in verdicts.models(paired(3, 3, HOSTILE, ("low", HOSTILE)))


# --- notebook 5 ---

BASE = f"pair: {ablation.BASE}"


def test_choices_are_listed_by_their_verdict():
    apart = pd.DataFrame({"gap": [0.5, 0.9, nan], "first": "<b>", "last": "big"},
                         index=[BASE, "pair: x", "pair: y"])
    compared = pd.DataFrame({"name": ["x", "y", "base"], "verdict": ["harms", "no clear difference", ""]})
    text = verdicts.choices(compared, apart, BASE)
    assert "does harm in x; it helps in no case" in text
    assert "0.50 under the paper's choices" in text
    assert "widest for pair: x (0.90)" in text
    assert "<b>" not in text
    assert "There is no gap" in verdicts.choices(compared, apart.assign(gap=nan), BASE)


def noticed(*rows, n=10):
    table = pd.DataFrame(rows, columns=["metric", "edit", "loss", "passes"]).assign(
        n=n, ci_low=nan if n < 6 else 0.01)
    return table.astype({"passes": "boolean"})


def test_edits_say_who_passed_what_failed_and_what_was_lost():
    text = verdicts.edits(noticed(
        ("EMS(local)", "change numbers", 0.2, True), ("EMS(local)", "swap names", 0.01, False),
        ("BLEU", "change numbers", 0.05, True), ("BLEU", "swap names", 0.3, True)))
    assert "of 2," in text
    assert "BLEU 2, EMS(local) 1" in text
    assert "fails at: swap names" in text
    assert "EMS(local) loses 20.0 and nan" in text              # no stop words were changed here
    assert "No reference has a number" not in text
    assert "no interval" not in text
    few = verdicts.edits(noticed(("EMS(local)", "change numbers", 0.2, pd.NA), n=5))
    assert "The texts are of fewer than 6 groups: there is no interval" in few


def test_edits_without_numbers_have_no_verdict_on_what_should_cost_little():
    text = verdicts.edits(noticed(("EMS(local)", "paraphrase lightly", 0.1, pd.NA)))
    assert "No reference has a number" in text
    assert "fails at: none of these edits" in text


@pytest.mark.parametrize("passes", [True, False, pd.NA])
def test_a_light_paraphrase_stands_beside_the_edits_that_cost_less(passes):
    harms = {"change numbers": "worse", "negate": "worse", "swap names": "worse", "paraphrase lightly": "none"}
    rows = [("EMS(local)", edit, loss, True) for edit, loss in zip(harms, (0.14, 0.05, 0.02), strict=False)]
    table = noticed(*rows, ("EMS(local)", "paraphrase lightly", 0.06, passes))
    text = verdicts.edits(table.assign(harm=table["edit"].map(harms)))
    assert "a light paraphrase, which loses nothing, 6.0, more than for: negate, swap names" in text
    assert ("(it passes, since the bar is half of its own loss for changed numbers, 7.0)" in text) is (passes is True)


# --- notebook 6 ---

def agreed(asked, metric, value, **against):
    gaps = {f"vs {other}{end}": gap + width for other, gap in against.items()
            for end, width in (("", 0), (" low", -0.1), (" high", 0.1))}
    return {"asked": asked, "metric": metric, "measure": "spearman", "value": value, "ci_low": value - 0.1,
            "ci_high": value + 0.1, **gaps}


def test_pairs_name_the_ceiling_and_the_metrics_above():
    rows = [
        agreed("overall", agreement.PEOPLE, 0.7),
        agreed("overall", "RAGChecker", 0.6),
        agreed("overall", "length", 0.3),
        agreed("overall", "EMS(local)", 0.65, unigram=0.2, RAGChecker=0.05),
        agreed("overall", "BLEU", 0.6504),
        agreed("overall", "EMS(local-pair)", 0.5, unigram=-0.2),
        agreed("completeness", "EMS(local)", 0.6),
        agreed("completeness", "length", 0.4),
        agreed("correctness", "EMS(local)", 0.5),
    ]
    text = verdicts.pairs(pd.DataFrame(rows), 140)
    assert "On 140 pairs" in text
    assert "0.70 [0.60, 0.80]; RAGChecker" in text
    assert "above unigram (+0.20 [+0.10, +0.30]), not distinguishable from RAGChecker" in text
    assert "below unigram" in text
    assert "Metrics with a higher value: RAGChecker, EMS(local), BLEU;" in text
    assert "higher than EMS(local): none" in text                     # BLEU is level with it as both are shown
    assert "EMS(LLM)" not in text
    names = "EMS(LLM)", "EMS(LLM, sides)", "EMS(LLM, all or nothing)"
    rows += [agreed(ask, name, 0.55 + 0.1 * i, RAGChecker=0.2 * i) for i, name in enumerate(names)
             for ask in ("overall", "completeness", "correctness")]
    rows += [agreed(ask, "RAGChecker", 0.6) for ask in ("completeness", "correctness")]
    text = verdicts.pairs(pd.DataFrame(rows), 140)
    assert "**EMS(LLM) F1**, sentence points and a large model as the judge, reaches 0.55 [0.45, 0.65]: " in text
    assert "EMS(LLM, sides) reaches 0.65 [0.55, 0.75]: above RAGChecker (+0.20 [+0.10, +0.30])" in text
    assert "Scores cut to all or nothing: 0.75" in text


def test_right_and_wrong_name_the_metrics_above():
    def frame(*values):
        gaps = {f"vs {o}{e}": 0.0 for o in ("ROUGE-L", "unigram") for e in ("", " low", " high")}
        return pd.DataFrame([
            {"subset": "all", "measure": measure, "metric": metric, "value": value, "ci_low": value - 0.1,
             "ci_high": value + 0.1, "n": 2100, **gaps} for measure in ("AUC", "pearson") for metric, value in values])
    text = verdicts.right_wrong(frame(("EMS(local)", 0.6), ("BLEU", 0.7)), frame(("EMS(local)", 0.8)),
                                frame(("EMS(local)", 0.55), ("BLEU", 0.5504)))
    assert "AUC of 0.60 [0.50, 0.70] (0.5 is chance); higher, of the metrics computed on all 2,100 answers: BLEU" in text
    assert "0.80 [0.70, 0.90]; higher, of the metrics computed on all 2,100 answers: none" in text
    # 0.5504 is shown as 0.55 too
    assert "AUC of 0.55 [0.45, 0.65]; higher, of the metrics computed on all 2,100 answers: none" in text
