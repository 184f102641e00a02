"""Statistics against cases small enough to work out by hand, and against scipy on expanded samples."""

import fractions
import itertools
import math
import time

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from ems import data as frames
from ems import stats
from ems.types import InputError

NAN = math.nan


def frame(rows, metric="EMS(local)", part="F1"):
    """Values frame from (model, triplet, group, value[, num, den[, units, unscored]])."""
    out = []
    for model, triplet, group, value, *rest in rows:
        num, den = rest[:2] or (value, 1.0)
        units, unscored = rest[2:] or (1, 0)
        out.append((metric, part, model, triplet, group, value, num, den, units, unscored, "sig"))
    return pd.DataFrame(out, columns=frames.COLUMNS)


def family(values_by_model, groups=None):
    """One metric, one value per model and triplet; a group per triplet unless told."""
    rows = []
    for model, values in values_by_model.items():
        rows += [(model, f"t-{i}", (groups or list(range(len(values))))[i], v) for i, v in enumerate(values)]
    return frame(rows)


def shuffled(values):
    return values.sample(frac=1, random_state=5)


# --- reading

def test_names_are_read_as_they_stand(tmp_path):
    """What pandas would take for a number or for missing is a name, in ids, groups and models."""
    ids, groups, models = ["1.1", "1.10", "007"], ["N/A", "", "nan"], ["None", "7", "70"]
    rows = [(m, i, g, v) for m in models for i, g, v in zip(ids, groups, [0.25, NAN, 1 / 3], strict=True)]
    frame(rows).to_csv(tmp_path / "a.csv", index=False)
    frame(rows, metric="BLEU", part="Score").to_csv(tmp_path / "b.csv", index=False)
    values = frames.read_frames(tmp_path / "a.csv", tmp_path / "b.csv")
    assert len(values) == 2 * 3 * 3
    assert list(values.triplet_id[:3]) == ids
    assert list(values.group[:3]) == groups
    assert list(values.model[::3]) == models * 2
    assert [v if v == v else None for v in values.value[:3]] == [0.25, None, 1 / 3]
    table = stats.paired_table(values[values.group != ""], models=["7", "70"])
    assert set(table.a) == {"70"}
    (tmp_path / "labels.csv").write_text("triplet_id,model,correct\n1.10,7,True\n007,7,False\n")
    labels = frames.read_frames(tmp_path / "labels.csv")
    assert list(labels.triplet_id) == ["1.10", "007"]
    assert labels.correct.dtype == bool
    with pytest.raises(InputError, match="nowhere.csv cannot be read"):
        frames.read_frames(tmp_path / "labels.csv", tmp_path / "nowhere.csv")


# --- summarise

def test_macro_is_the_mean_of_answers_and_micro_the_pooled_ratio():
    values = frame([("m", "a", "A", 1.0, 1.0, 1.0), ("m", "b", "B", 0.0, 0.0, 3.0)])
    assert stats.summarise(values).value[0] == (1 + 0) / 2
    assert stats.summarise(values, pool="micro").value[0] == (1 + 0) / (1 + 3)


def test_an_unscored_answer_weighs_nothing_in_either_pooling():
    values = frame([("m", "a", "A", 0.6), ("m", "b", "B", NAN, NAN, 1.0)])
    assert stats.summarise(values).value[0] == stats.summarise(values, pool="micro").value[0] == 0.6


def test_micro_f1_is_the_harmonic_mean_of_pooled_precision_and_recall():
    answers = [("m", "a", "A"), ("m", "b", "B")]
    precision = frame([(*answers[0], 1.0, 1, 1), (*answers[1], 0.0, 0, 3)], part="Precision")        # 1 of 4
    recall = frame([(*answers[0], 1.0, 2, 2), (*answers[1], 0.0, 0, 2)], part="Recall")              # 2 of 4
    f1 = frame([(*answers[0], 1.0, NAN, NAN), (*answers[1], 0.0, NAN, NAN)])
    values = pd.concat([f1, precision, recall])
    micro = stats.summarise(values, pool="micro").set_index("part")
    assert micro.value["F1"] == 2 * (1 / 4) * (2 / 4) / (1 / 4 + 2 / 4) == 1 / 3
    assert stats.summarise(values).set_index("part").value["F1"] == (1 + 0) / 2
    with pytest.raises(InputError, match="needs num and den, or Precision and Recall"):
        stats.summarise(pd.concat([f1, precision]), pool="micro")


def test_micro_of_a_model_that_refuses_everything_is_zero_not_nan():
    """Two answers without a point, to references of three: recall 0 of 6, precision 0 of nothing: 0."""
    answers = [("m", "a", "A"), ("m", "b", "B")]
    parts = [
        frame([(*a, 0.0, 0.0, 0.0) for a in answers], part="Precision"),
        frame([(*a, 0.0, 0.0, 3.0) for a in answers], part="Recall"),
        frame([(*a, 0.0, NAN, NAN) for a in answers]),
    ]
    micro = stats.summarise(pd.concat(parts), pool="micro").set_index("part")
    assert list(micro.value[["Precision", "Recall", "F1"]]) == [0.0, 0.0, 0.0]
    # An answer that could not be scored is no refusal.
    parts[0] = frame([(*a, NAN, NAN, NAN) for a in answers], part="Precision")
    micro = stats.summarise(pd.concat(parts), pool="micro").set_index("part")
    assert math.isnan(micro.value["Precision"])
    assert math.isnan(micro.value["F1"])


def test_the_interval_of_a_mean_by_hand():
    # Six companies of one answer: mean 0.2, squares of the distances to it 0.32 in sum, so that the standard error
    # is sqrt(0.32 / 5 / 6); Student's t with five degrees of freedom has its 97.5 % point at 2.570582.
    values = family({"m": [0.0, 0.0, 0.0, 0.2, 0.4, 0.6]})
    row = stats.summarise(values).iloc[0]
    assert row.value == pytest.approx(0.2)
    reach = 2.570582 * math.sqrt(0.32 / 5 / 6)
    assert (row.ci_low, row.ci_high) == (pytest.approx(0.2 - reach), pytest.approx(0.2 + reach))


def test_under_six_clusters_there_is_no_interval():
    row = stats.summarise(family({"m": [0.0, 0.1, 0.2, 0.6, 0.3]})).iloc[0]
    assert (row.value, row.clusters) == (pytest.approx(0.24), 5)
    assert math.isnan(row.ci_low)
    assert math.isnan(row.ci_high)


def test_clusters_are_left_out_whole():
    # Within a company the answers differ, between companies they do not: whole companies leave nothing to vary.
    values = family({"m": [0.0, 1.0] * 6}, groups=list("AABBCCDDEEFF"))
    row = stats.summarise(values).iloc[0]
    assert (row.value, row.ci_low, row.ci_high, row.clusters) == (0.5, 0.5, 0.5, 6)
    single = stats.summarise(values, cluster="triplet_id").iloc[0]
    assert single.clusters == 12
    assert single.ci_low < 0.5 < single.ci_high


def test_intervals_cover():
    # Ten companies that differ, five questions each: the share of 400 draws whose interval has the true mean 0.
    draws = np.random.default_rng(3)
    covered = 0
    for _ in range(400):
        company = (draws.normal(size=(10, 1)) + draws.normal(size=(10, 5))).mean(axis=1)
        mean = stats.jackknifed(lambda counts, of=company: (counts * of).sum(axis=1) / counts.sum(axis=1), 10, 50)
        covered += mean.ci_low <= 0 <= mean.ci_high
    assert 0.92 <= covered / 400 <= 0.98


def test_unscored_answers_leave_value_and_n_but_not_the_coverage():
    values = frame([("m", "a", "A", 0.8, 8, 10, 10, 0), ("m", "b", "B", 0.4, 4, 10, 10, 1),
                    ("m", "c", "C", NAN, 0, 0, 10, 10)])
    row = stats.summarise(values).iloc[0]
    assert row.value == pytest.approx((0.8 + 0.4) / 2)
    assert (row.n, row.unscored, row.units, row.clusters) == (2, 11, 30, 2)
    assert row.coverage == 1 - 11 / 30
    assert row.flagged
    assert row.signature == "sig|pool:macro|n:2|unscored:11|interval:t,cluster=group,clusters=2"


@pytest.mark.parametrize(("unscored", "flagged"), [(0, False), (5, False), (6, True)])
def test_flag(unscored, flagged):  # of 100 points: a coverage of 0.95 is not under 0.95
    row = stats.summarise(frame([("m", "a", "A", 0.5, 1, 2, 100, unscored)])).iloc[0]
    assert bool(row.flagged) is flagged


def test_a_lost_answer_with_few_points_among_many_is_flagged():
    values = frame([("m", "a", "A", 0.5, 1, 2, 999, 0), ("m", "b", "B", NAN, 0, 0, 1, 1)])
    row = stats.summarise(values).iloc[0]
    assert row.coverage == 0.999
    assert row.flagged


@pytest.mark.parametrize(("rows", "value"), [
    ([("m", "a", "A", 0.3)], 0.3),                                    # one answer
    ([("m", "a", "A", 0.2), ("m", "b", "A", 0.4)], 0.3),              # two answers, one company
    ([("m", "a", "A", 0.3), ("m", "b", "B", NAN, 0, 0)], 0.3),        # the other company is unscored
    ([("m", "a", "A", NAN, 0, 0)], NAN),                              # nothing scored at all
])
def test_no_interval_without_two_clusters(rows, value):
    row = stats.summarise(frame(rows)).iloc[0]
    assert row.value == pytest.approx(value, nan_ok=True)
    assert math.isnan(row.ci_low)
    assert math.isnan(row.ci_high)


def test_rows_come_in_the_papers_order_and_models_by_number():
    parts = [("ROUGE", "F1"), ("EMS(LLM)", "Recall"), ("BLEU", "Score"), ("ROUGE", "Precision"),
             ("own", "Score")]
    values = pd.concat([frame([(model, "t", "A", 0.5) for model in ("llama-70B", "llama-8B", "llama-3B")], *key)
                        for key in parts])
    table = stats.summarise(values)
    assert list(table.columns[:9]) == list(stats.COLUMNS)
    assert list(dict.fromkeys(zip(table.metric, table.part, strict=True))) == [
        ("BLEU", "Score"), ("ROUGE", "Precision"), ("ROUGE", "F1"), ("EMS(LLM)", "Recall"), ("own", "Score")]
    assert list(table.model[:3]) == ["llama-3B", "llama-8B", "llama-70B"]


def test_names_are_ordered_by_their_numbers_whatever_else_they_hold():
    assert sorted(["m²", "Q10", "Q2", "5²", "Q2①"], key=stats.natural) == ["5²", "Q2", "Q2①", "Q10", "m²"]


def test_models_are_ordered_by_the_size_in_their_name():
    names = ["SmolLM2-135M-Instruct", "llama3.2_1b_instruct", "Qwen2.5-Coder-1.5B with the call",
             "Llama-3.2-3B", "Meta-Llama-3_1-8B-Instruct", "llama3.2_11b_vision_instruct",
             "Llama-3.1-70B-AWQ-INT4", "gpt-4o", "gpt-10"]
    assert sorted(names, key=stats.by_size) == [*names[:7], "gpt-4o", "gpt-10"]


def test_a_metrics_interval_does_not_depend_on_what_else_is_in_the_frame():
    rng = np.random.default_rng(1)
    one = family({"m": rng.random(12)}, groups=[i // 3 for i in range(12)])
    other = family({"z": rng.random(30)}, groups=[i // 2 for i in range(30)])
    other["triplet_id"] = "z" + other["triplet_id"]
    both = stats.summarise(pd.concat([other, one]))
    pd.testing.assert_frame_equal(both[both.model == "m"].reset_index(drop=True), stats.summarise(one))


def test_order_of_rows_never_matters():
    rng = np.random.default_rng(2)
    values = family({m: rng.random(40) for m in ("s", "m", "l")}, groups=[i // 4 for i in range(40)])
    sizes = {"s": 1, "m": 8, "l": 70}
    for of in (stats.summarise, stats.paired_table, lambda v: stats.trend(v, sizes)):
        pd.testing.assert_frame_equal(of(values), of(shuffled(values)), check_exact=True)
    x, y, c = rng.random(50), rng.random(50), rng.integers(0, 9, 50)
    order = rng.permutation(50)
    for args in ((x, y, c), (x, y, None)):
        other = [a if a is None else a[order] for a in args]
        pd.testing.assert_frame_equal(stats.correlate(*args), stats.correlate(*other), check_exact=True)
        assert stats.auc(x, y > 0.5, args[2]) == stats.auc(other[0], other[1] > 0.5, other[2])


@pytest.mark.slow
def test_thousands_of_answers_take_seconds():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 255, 700).tolist()
    values = pd.concat([
        family({m: rng.random(700) for m in "abc"}, groups).assign(metric=f"metric {i}") for i in range(20)])
    start = time.process_time()
    assert len(stats.summarise(values)) == 60
    assert time.process_time() - start < 5


@pytest.mark.parametrize(("spoil", "says"), [
    (lambda v: v.drop(columns=["num", "units"]), "lacks 'num', 'units'"),
    (lambda v: v.iloc[:0], "no rows"),
    (lambda v: v.assign(group=None), "column 'group' must be filled"),
    (lambda v: pd.concat([v, v.iloc[:1]]), "one row per metric, part, model and triplet, got 1 more"),
    (lambda v: v.assign(group=["A", "B", "C", "D"]), "must lie in one group"),
    (lambda v: v.assign(signature=["x", "y", "x", "x"]), "mixes 2 settings"),
])
def test_broken_frames_are_refused_in_one_line(spoil, says):
    values = family({"a": [0.1, 0.2], "b": [0.3, 0.4]})
    with pytest.raises(InputError, match=says) as error:
        stats.summarise(spoil(values))
    assert "\n" not in str(error.value)


def test_pool_is_one_of_two():
    with pytest.raises(InputError, match="'macro' or 'micro', got 'mean'"):
        stats.summarise(family({"a": [0.1]}), pool="mean")


# --- paired

def test_sign_flip_by_listing_all_eight_patterns():
    # Differences 0.3, 0.2, -0.1 sum to 0.4. The patterns of +-0.3 +-0.2 +-0.1 give sizes 0.6, 0.4, 0.2 and
    # 0, twice each: 4 of 8 are at least 0.4.
    values = family({"a": [0.5, 0.5, 0.5], "b": [0.2, 0.3, 0.6]})
    result = stats.paired(values, "EMS(local)", "F1", "a", "b")
    assert result.difference == pytest.approx((0.3 + 0.2 - 0.1) / 3)
    assert (result.p, result.exact, result.n, result.clusters) == (4 / 8, True, 3, 3)


def test_sign_flip_flips_clusters_not_triplets():
    # Ten triplets of two companies, all in favour of a: 2 of 2^2 patterns are as extreme, not 2 of 2^10.
    values = family({"a": [0.6] * 10, "b": [0.5] * 10}, groups=[i % 2 for i in range(10)])
    assert stats.paired(values, "EMS(local)", "F1", "a", "b").p == 2 / 4
    assert stats.paired(values, "EMS(local)", "F1", "a", "b", cluster="triplet_id").p == 2 / 2**10


@pytest.mark.parametrize(
    ("sums", "p"),
    [
        ([0.3, 0.2, -0.1], 4 / 8),  # sizes 0.6, 0.4, 0.2 and 0 of the sum, two patterns each: see above
        ([1, 1, 1, 1], 2 / 16),  # only all plus and all minus reach 4
        ([1, 1, 1, -1], 10 / 16),  # 2 is reached with at most one odd sign: 2 x (1 + 4)
        ([0.1, 0.2, -0.3], 8 / 8),  # 0 but for rounding: every pattern reaches it
        ([0.1] * 5 + [0.3, -0.8], 128 / 128),  # the same, with a sum of 1e-16
        ([0, 0, 0], 1),
        ([5.0], 1),
        ([], NAN),  # one term: both patterns are as extreme
    ],
)
def test_sign_flip_test_by_hand(sums, p):
    assert stats.sign_flip_test(sums) == (pytest.approx(p, abs=0, nan_ok=True), True)


def sign_flip_by_listing(sums):
    """The same test, pattern by pattern, in exact arithmetic."""
    terms = [fractions.Fraction(str(term)) for term in sums]
    sizes = [abs(sum(s * t for s, t in zip(signs, terms, strict=True)))
             for signs in itertools.product((1, -1), repeat=len(terms))]
    return sum(size >= abs(sum(terms)) for size in sizes) / len(sizes)


def test_sign_flip_test_counts_every_tie():
    """Terms with few digits have many equal sums, which floating point tells apart: each must still count."""
    rng = np.random.default_rng(8)
    for _ in range(40):
        sums = rng.integers(-9, 10, 7) / 10
        assert stats.sign_flip_test(sums) == (sign_flip_by_listing(sums), True)


def test_beyond_the_exact_limit_patterns_are_drawn():
    sums = np.random.default_rng(4).normal(0.2, 1, 15)
    p, exact = stats.sign_flip_test(sums)
    assert not exact
    assert stats.sign_flip_test(sums, seed=7) == (p, False)              # drawn with a seed
    counted, exact = stats.sign_flip_test(sums, permutations=2**15)
    assert exact
    assert p == pytest.approx(counted, abs=0.02)


def test_monte_carlo_p_is_never_zero():
    values = family({"a": [1.0] * 15, "b": [0.0] * 15})
    result = stats.paired(values, "EMS(local)", "F1", "a", "b", permutations=99)
    assert not result.exact
    assert 1 / 100 <= result.p <= 2 / 100


def test_triplets_are_joined_by_id_and_gaps_are_counted():
    a = [("a", "t1", "A", 0.9), ("a", "t2", "B", 0.5), ("a", "t3", "C", 0.4), ("a", "t5", "E", NAN)]
    b = [("b", "t4", "D", 0.1), ("b", "t5", "E", 0.3), ("b", "t2", "B", 0.3), ("b", "t1", "A", 0.5)]
    result = stats.paired(frame(a + b), "EMS(local)", "F1", "a", "b")
    assert result.difference == pytest.approx(((0.9 - 0.5) + (0.5 - 0.3)) / 2)
    assert (result.n, result.only_a, result.only_b, result.unscored) == (2, 1, 1, 1)      # t3, t4, t5
    swapped = stats.paired(frame(a + b), "EMS(local)", "F1", "b", "a")
    assert (swapped.difference, swapped.p) == (-result.difference, result.p)


def test_one_cluster_gives_no_interval_and_no_evidence():
    result = stats.paired(
        family({"a": [0.9, 0.8], "b": [0.1, 0.1]}, ["A", "A"]), "EMS(local)", "F1", "a", "b"
    )
    assert math.isnan(result.ci_low)
    assert result.p == 1


@pytest.mark.parametrize(("metric", "part", "a", "b", "says"), [
    ("EMS", "F1", "a", "b", "no metric 'EMS' among the values; there are 'EMS\\(local\\)'"),
    ("EMS(local)", "f1", "a", "b", "no part 'f1' among the values; there are 'F1'"),
    ("EMS(local)", "F1", "a", "c", "no model 'c' among the values; there are 'a', 'b'"),
])
def test_paired_names_what_is_missing(metric, part, a, b, says):
    with pytest.raises(InputError, match=says):
        stats.paired(family({"a": [0.1], "b": [0.2]}), metric, part, a, b)


def test_holm_by_hand():
    # sorted 0.01, 0.03, 0.04 -> 3 x 0.01, 2 x 0.03, 1 x 0.04 raised to the 0.06 before it
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.9, NAN, 0.8]) == pytest.approx([1.0, NAN, 1.0], nan_ok=True)


def test_paired_table_compares_later_models_with_earlier_ones():
    values = family({"m-8B": [0.5] * 6, "m-70B": [0.7] * 6, "m-3B": [0.4] * 6})
    table = stats.paired_table(values)
    assert list(zip(table.a, table.b, strict=True)) == [
        ("m-8B", "m-3B"), ("m-70B", "m-3B"), ("m-70B", "m-8B")]
    assert list(table.difference) == pytest.approx([0.1, 0.3, 0.2])
    assert list(table.p) == [2 / 2**6] * 3
    assert list(table.p_holm) == [3 * 2 / 2**6] * 3


def test_paired_table_keeps_a_pair_that_shares_nothing():
    values = frame([("a", "t1", "A", 0.5), ("b", "t2", "B", 0.5)])
    row = stats.paired_table(values).iloc[0]
    assert (row.n, row.only_a, row.only_b) == (0, 1, 1)
    assert math.isnan(row.difference)
    assert math.isnan(row.p_holm)


# --- trend

def test_trend_on_an_obvious_case():
    # 0.1 more per doubling, in each of three companies. Page's L is at its most: 3 x (1x1 + 2x2 + 3x3),
    # which one of the 3! orders per company gives: p = (1/6)^3. Too few companies for an interval.
    values = family({"s": [0.1, 0.2, 0.3], "m": [0.2, 0.3, 0.4], "l": [0.3, 0.4, 0.5]})
    row = stats.trend(values, {"l": 4, "s": 1, "m": 2}).iloc[0]
    assert (row.slope, row.ci_low, row.ci_high) == pytest.approx((0.1, NAN, NAN), nan_ok=True)
    assert (row.page_l, row.page_over, row.n, row.incomplete) == (42, "clusters", 3, 0)
    assert row.p == pytest.approx((1 / 6) ** 3)


def test_trend_slope_is_per_doubling():
    values = family({"s": [0.1, 0.1], "l": [0.4, 0.4]})
    row = stats.trend(values, {"s": 1, "l": 8}).iloc[0]                   # three doublings
    assert row.slope == pytest.approx((0.4 - 0.1) / 3)
    assert math.isnan(row.p)                                              # Page needs three models


def test_trend_over_triplets_when_clusters_are_few():
    rising = {"s": [0.1] * 4, "m": [0.2] * 4, "l": [0.3] * 4}
    row = stats.trend(family(rising, groups=list("AABB")), {"s": 1, "m": 2, "l": 4}).iloc[0]
    assert (row.page_over, row.page_l) == ("triplets", 4 * 14)
    assert row.p == pytest.approx((1 / 6) ** 4)


def test_trend_sees_a_fall_and_leaves_incomplete_triplets_out():
    values = family({"s": [0.3, 0.3, 0.3, 0.9], "m": [0.2, 0.2, 0.2, NAN], "l": [0.1, 0.1, 0.1, 0.9]})
    row = stats.trend(values, {"s": 1, "m": 2, "l": 4}).iloc[0]
    assert row.slope == pytest.approx(-0.1)
    assert row.p == pytest.approx(1)
    assert (row.n, row.incomplete) == (3, 1)


@pytest.mark.parametrize(("order", "says"), [
    ({"s": 1}, "two or more models"), ({"s": 1, "l": 1}, "different sizes"), ({"s": 0, "l": 1}, "above 0"),
    ({"s": 1, "x": 2}, "no model 'x'"),
])
def test_trend_refuses_an_order_that_is_none(order, says):
    with pytest.raises(InputError, match=says):
        stats.trend(family({"s": [0.1], "l": [0.2]}), order)


# --- correlations

REFERENCE = {
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y).statistic,
    "kendall": lambda x, y: scipy.stats.kendalltau(x, y).statistic,
    "auc": lambda x, y: scipy.stats.mannwhitneyu(x[y > 0], x[y == 0]).statistic / sum(y > 0) / sum(y == 0),
}


@pytest.mark.parametrize("name", REFERENCE)
def test_each_resample_gives_what_scipy_gives_on_the_rows_drawn(name):
    rng = np.random.default_rng(5)
    codes = np.sort(rng.integers(0, 8, 40))
    codes = np.unique(codes, return_inverse=True)[1]
    x, y = rng.integers(0, 6, 40).astype(float), rng.normal(size=40).round(1)             # many ties
    counts = rng.multinomial(codes.max() + 1, np.full(codes.max() + 1, 1 / (codes.max() + 1)), size=6)
    if name == "auc":
        y = (y > 0).astype(float)
    ours = stats.COEFFICIENTS[name](x, y, codes)(counts.astype(float))
    for value, drawn in zip(ours, counts, strict=True):
        rows = np.repeat(np.arange(40), drawn[codes])
        assert value == pytest.approx(REFERENCE[name](x[rows], y[rows]), abs=1e-12)


def test_correlate_reports_three_coefficients_and_what_it_left_out():
    x, y = [1, 2, 3, 4, 5, NAN], [1, 2, 3, 4, 5, 6]
    table = stats.correlate(x, y).set_index("coefficient")
    assert list(table.index) == ["pearson", "spearman", "kendall"]
    assert list(table.value) == pytest.approx([1, 1, 1])
    assert (table.n["pearson"], table.left_out["pearson"], table.clusters["pearson"]) == (5, 1, 5)


def test_a_constant_column_has_no_correlation():
    table = stats.correlate([0.1] * 5, [1, 2, 3, 4, 5])
    assert table[["value", "ci_low", "ci_high"]].isna().all(axis=None)


def test_clustering_widens_the_interval():
    rng = np.random.default_rng(6)
    x, y = np.repeat(rng.normal(size=20), 10), np.repeat(rng.normal(size=20), 10)  # ten copies of twenty rows
    wide = stats.correlate(x, y, np.repeat(np.arange(20), 10)).iloc[0]
    narrow = stats.correlate(x, y).iloc[0]
    assert wide.value == pytest.approx(narrow.value)
    assert wide.ci_high - wide.ci_low > 2 * (narrow.ci_high - narrow.ci_low)


def test_under_six_clusters_no_statistic_has_an_interval():
    # Over two clusters the percentile bootstrap of a correlation would hold the true one in half of the cases.
    x, y = np.arange(30.0), np.tile([0.0, 1.0], 15)
    for k in (2, 5, 6):
        of_k = [i % k for i in range(30)]
        rows = [stats.auc(x, y, of_k, resamples=50), stats.sign_accuracy(x - 9, 2 * y - 1, of_k, resamples=50),
                *(stats.Estimate(**row) for row in stats.correlate(x, y, of_k, resamples=50)
                  .drop(columns="coefficient").to_dict("records"))]
        assert [math.isnan(row.ci_low) for row in rows] == [k < 6] * len(rows)
        assert not any(math.isnan(row.value) for row in rows)


def test_difference_of_correlations_is_paired():
    rng = np.random.default_rng(7)
    y = rng.normal(size=200)
    good, bad = y + 0.5 * rng.normal(size=200), y + 2 * rng.normal(size=200)
    table = stats.correlate_difference(good, bad, y).set_index("coefficient")
    single = stats.correlate(good, y).set_index("coefficient")
    assert (table.a == single.value).all()
    assert list(table.value) == pytest.approx(list(table.a - table.b))
    assert (table.ci_low > 0).all()
    same = stats.correlate_difference(good, good, y)
    assert (same[["value", "ci_low", "ci_high"]] == 0).all(axis=None)


def test_auc_counts_pairs():
    # positives 0.9 and 0.5 against negatives 0.5 and 0.1: 3 wins and a tie in 4 pairs
    result = stats.auc([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
    assert result.value == (3 + 0.5) / 4
    assert math.isnan(stats.auc([0.1, 0.2], [1, 1]).value)
    with pytest.raises(InputError, match="0 or 1"):
        stats.auc([0.1, 0.2], [0, 2])


def test_sign_accuracy_skips_pairs_without_a_preference():
    # right, wrong, tie, no preference: (1 + 0 + 1/2) / 3
    result = stats.sign_accuracy([0.2, 0.2, 0.0, 0.3], [2, -1, 1, 0])
    assert result.value == (1 + 0 + 0.5) / 3
    assert (result.n, result.left_out) == (3, 1)
