"""Statistics against cases that can be worked out by hand, and against scipy."""

import fractions
import itertools
import math
import operator

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from doubles import refused

from ems.analysis import stats
from ems.analysis.frames import COLUMNS

NAN = math.nan


def frame(rows, metric="EMS(LLM)", part="F1"):
    """A frame of values from (model, triplet, group, value[, num, den[, units, unscored]])."""
    values = []
    for model, triplet, group, value, *more in rows:
        num, den = more[:2] or (value, 1.0)
        units, unscored = more[2:] or (1, 0)
        names = metric, part, model, triplet, group
        values.append((*names, value, num, den, units, unscored, "sig"))
    return pd.DataFrame(values, columns=COLUMNS)


def family(values_by_model, groups=None):
    """One metric, one value per model and triplet; by default each triplet is a group."""
    rows = []
    for model, values in values_by_model.items():
        for i, value in enumerate(values):
            group = groups[i] if groups else i
            rows.append((model, f"t-{i}", str(group), value))
    return frame(rows)


def one(values, **settings):
    return stats.summarise(values, **settings).iloc[0]


# --- means


def test_the_value_is_the_mean_of_answers_whatever_their_number_of_points():
    values = frame([("m", "a", "A", 1.0, 1, 1), ("m", "b", "B", 0.0, 0, 3)])  # not 1 of 4 points
    assert one(values).value == (1 + 0) / 2


def test_the_interval_of_a_mean_by_hand():
    # Six companies of one answer: mean 0.2, squares of the distances to it 0.32 in sum, so that the
    # standard error is sqrt(0.32 / 5 / 6); Student's t with five degrees of freedom has its 97.5 %
    # point at 2.570582.
    row = one(family({"m": [0.0, 0.0, 0.0, 0.2, 0.4, 0.6]}))
    reach = 2.570582 * math.sqrt(0.32 / 5 / 6)
    assert (row.value, row.ci_low, row.ci_high) == pytest.approx((0.2, 0.2 - reach, 0.2 + reach))


def test_means_stand_in_the_order_of_table_1_and_models_as_they_come():
    models = {"small": [0.5], "gpt-8B": [0.5], "gpt-70B": [0.5]}
    frames = []
    for metric, part in (("EMS(LLM)", "F1"), ("EMS(LLM)", "Recall"), ("BLEU", "Score")):
        frames.append(family(models).assign(metric=metric, part=part))
    values = pd.concat(frames)
    of_first = (values["metric"] == "BLEU") & (values["model"] == "small")
    means = stats.summarise(values[~of_first])  # the first metric lacks the first model
    rows = means[["metric", "part", "model"]].to_numpy().tolist()
    assert rows[:2] == [["BLEU", "Score", "gpt-8B"], ["BLEU", "Score", "gpt-70B"]]
    assert [row[1] for row in rows[2:]] == ["Recall"] * 3 + ["F1"] * 3
    assert [row[2] for row in rows[2:]] == list(models) * 2


def test_clusters_are_left_out_whole():
    # Within a company the answers differ, between companies they do not: whole companies leave
    # nothing to vary.
    values = family({"m": [0.0, 1.0] * 6}, groups=list("AABBCCDDEEFF"))
    row = one(values)
    assert (row.value, row.ci_low, row.ci_high, row.clusters) == (0.5, 0.5, 0.5, 6)
    single = one(values, cluster="triplet_id")
    assert single.clusters == 12
    assert single.ci_low < 0.5 < single.ci_high


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([("m", "a", "A", 0.3)], 0.3),  # one answer
        ([("m", str(i), str(i), 0.3) for i in range(5)], 0.3),  # under six
        # Six more that are unscored.
        ([("m", "a", "A", 0.3), *(("m", str(i), str(i), NAN, NAN, NAN) for i in range(6))], 0.3),
        ([("m", "a", "A", NAN, NAN, NAN)], NAN),
    ],
)
def test_no_interval_with_fewer_than_six_clusters(rows, value):
    row = one(frame(rows))
    assert (row.value, row.ci_low, row.ci_high) == pytest.approx((value, NAN, NAN), nan_ok=True)


def test_unscored_answers_leave_value_and_n_but_not_the_share_that_is_scored():
    rows = [
        ("m", "a", "A", 0.8, 8, 10, 10, 0),
        ("m", "b", "B", 0.4, 4, 10, 10, 1),
        ("m", "c", "C", NAN, NAN, NAN, 10, 10),
    ]
    row = one(frame(rows))
    assert row.value == pytest.approx((0.8 + 0.4) / 2)
    assert (row.n, row.unscored, row.units, row.clusters, row.scored) == (2, 11, 30, 2, 1 - 11 / 30)
    assert row.flagged


@pytest.mark.parametrize(
    ("rows", "flagged"),
    [
        ([("m", "a", "A", 0.5, 1, 2, 100, 5)], False),
        ([("m", "a", "A", 0.5, 1, 2, 100, 6)], True),
        # One of 1,000 points, and half of the answers.
        ([("m", "a", "A", 0.5, 1, 2, 999, 0), ("m", "b", "B", NAN, NAN, NAN, 1, 1)], True),
    ],
)
def test_under_95_percent_of_points_or_answers_is_flagged(rows, flagged):
    assert bool(one(frame(rows)).flagged) is flagged


def test_bounds_by_hand():
    # Four points, one unscored, the others sum to 2; a second answer without a value.
    lost = ("m", "b", "B", NAN, NAN, NAN, 5, 5)
    recall = frame([("m", "a", "A", 2 / 3, 2, 3, 4, 1), lost], part="Recall")
    precision = frame([("m", "a", "A", 0.5, 1, 2, 4, 1), lost], part="Precision")
    f1 = frame([("m", "a", "A", 4 / 7, NAN, NAN, 4, 1), lost], part="F1")
    table = stats.summarise(pd.concat([recall, precision, f1])).set_index("part")
    low, high = table["low"], table["high"]
    assert (low["Recall"], high["Recall"]) == ((2 / 4 + 0) / 2, (3 / 4 + 1) / 2)
    assert (low["Precision"], high["Precision"]) == ((1 / 3 + 0) / 2, (2 / 3 + 1) / 2)
    assert low["F1"] == pytest.approx((scipy.stats.hmean([1 / 3, 2 / 4]) + 0) / 2)
    assert high["F1"] == pytest.approx((scipy.stats.hmean([2 / 3, 3 / 4]) + 1) / 2)


def test_bounds_without_unscored_points_and_of_an_f1_without_its_sides():
    whole = one(family({"m": [0.2, 0.4]}))
    assert (whole.low, whole.high) == (whole.value, whole.value)
    alone = one(frame([("m", "a", "A", NAN, NAN, NAN, 1, 1), ("m", "b", "B", 0.5)]))
    assert (alone.low, alone.high) == ((0 + 0.5) / 2, (1 + 0.5) / 2)
    sides = [("m", "a", "A", 0.0, 0, 1, 2, 1)]
    f1 = frame([("m", "a", "A", 0.0, NAN, NAN, 2, 1)])
    zero = pd.concat([frame(sides, part="Recall"), frame(sides, part="Precision"), f1])
    low = stats.summarise(zero).set_index("part")["low"]
    assert low["F1"] == 0.0  # precision and recall may both be 0


def test_a_cells_numbers_do_not_depend_on_what_else_is_in_the_frame_nor_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    groups = [i // 4 for i in range(40)]
    values = family({model: rng.random(40) for model in ("a", "b", "c")}, groups)
    first = values.drop_duplicates("model")  # the models come in the same order
    shuffled = pd.concat([first, values.drop(first.index).sample(frac=1, random_state=5)])
    for table_of in (stats.summarise, stats.paired_table):
        pd.testing.assert_frame_equal(table_of(values), table_of(shuffled), check_exact=True)
    other = family({"z": rng.random(30)}).assign(triplet_id=lambda f: "z" + f["triplet_id"])
    both = stats.summarise(pd.concat([other, values]))
    without_z = both[both.model != "z"].reset_index(drop=True)
    pd.testing.assert_frame_equal(without_z, stats.summarise(values))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda v: v.iloc[:0], "no rows"),
        (lambda v: v.assign(group=None), "column 'group' must be filled"),
        (
            lambda v: pd.concat([v, v.iloc[:1]]),
            "more than one row for ('EMS(LLM)', 'F1', 'a', 't-0')",
        ),
        (
            lambda v: v.assign(signature=["x", "y", "x", "x"]),
            "mixes settings: 'x', 'y'; summarise them apart",
        ),
    ],
)
def test_broken_frames_are_refused_in_one_line(spoil, says):
    with refused(says):
        stats.summarise(spoil(family({"a": [0.1, 0.2], "b": [0.3, 0.4]})))


# --- paired differences


def test_a_paired_difference_by_hand():
    # Differences 0.3, 0.2, -0.1 sum to 0.4. The patterns of +-0.3 +-0.2 +-0.1 give sizes 0.6, 0.4,
    # 0.2 and 0, twice each: 4 of 8 are at least 0.4.
    values = family({"a": [0.5, 0.5, 0.5], "b": [0.2, 0.3, 0.6]})
    row = stats.paired_table(values, models=["b", "a"]).iloc[0]
    assert (row.a, row.b, row.difference) == ("a", "b", pytest.approx((0.3 + 0.2 - 0.1) / 3))
    assert (row.p, row.n, row.clusters) == (4 / 8, 3, 3)
    assert not row.clear


def test_the_sign_flip_test_counts_every_tie():
    """Terms with few digits have many equal sums, which floating point tells apart: all count."""
    rng = np.random.default_rng(8)
    drawn = [rng.integers(-9, 10, 7) / 10 for _ in range(20)]
    for sums in ([1, 1, 1, 1], [0.1, 0.2, -0.3], [0, 0, 0], [5.0], *drawn):
        terms = [fractions.Fraction(str(term)) for term in sums]
        patterns = list(itertools.product((1, -1), repeat=len(terms)))
        as_far = 0
        for signs in patterns:
            size = abs(sum(map(operator.mul, signs, terms)))
            as_far += size >= abs(sum(terms))
        assert stats.sign_flip_test(sums) == as_far / len(patterns)
    assert math.isnan(stats.sign_flip_test([]))


def test_beyond_2_to_the_14_patterns_are_drawn():
    sums = np.random.default_rng(4).normal(0.2, 1, 15)
    p = stats.sign_flip_test(sums)
    assert p == stats.sign_flip_test(sums, seed=7)
    sizes = np.abs(np.array(list(itertools.product((1, -1), repeat=15))) @ sums)
    assert p == pytest.approx((sizes >= abs(sums.sum()) - 1e-12).mean(), abs=0.02)
    assert stats.sign_flip_test([1.0] * 40) == 1 / 10_000  # never 0


@pytest.mark.parametrize("n_terms", [2, 9, 14, 15, 40])
def test_the_sign_flip_test_is_scipys(n_terms):
    """The same patterns too: beyond 14 terms the p value is equal to the last digit."""
    terms = np.random.default_rng(n_terms).normal(0.1, 1, n_terms)
    test = scipy.stats.permutation_test(
        (terms,),
        lambda signed, axis: np.abs(signed.sum(axis=axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=2**14 if n_terms <= 14 else 9_999,
        vectorized=True,
        rng=np.random.default_rng(7),
    )
    assert stats.sign_flip_test(terms) == test.pvalue


def test_triplets_are_joined_by_id_and_missing_ones_are_counted():
    a = [("a", "t1", "A", 0.9), ("a", "t2", "B", 0.5), ("a", "t3", "C", 0.4), ("a", "t5", "E", NAN)]
    b = [("b", "t4", "D", 0.1), ("b", "t5", "E", 0.3), ("b", "t2", "B", 0.3), ("b", "t1", "A", 0.5)]
    row = stats.paired_table(frame(a + b), models=["b", "a"]).iloc[0]
    assert row.difference == pytest.approx(((0.9 - 0.5) + (0.5 - 0.3)) / 2)
    assert (row.n, row.only_a, row.only_b, row.unscored) == (2, 1, 1, 1)
    swapped = stats.paired_table(frame(a + b), models=["a", "b"]).iloc[0]
    assert (swapped.difference, swapped.p) == (-row.difference, row.p)
    apart = stats.paired_table(frame([("a", "t1", "A", 0.5), ("b", "t2", "B", 0.5)])).iloc[0]
    assert (apart.n, apart.only_a, apart.only_b) == (0, 1, 1)
    assert math.isnan(apart.difference)
    assert math.isnan(apart.p_holm)


def test_later_models_are_compared_with_earlier_ones():
    values = family({"m-8B": [0.5] * 6, "m-70B": [0.7] * 6, "m-3B": [0.4] * 6})
    table = stats.paired_table(values)
    assert list(zip(table.a, table.b, strict=True)) == [
        ("m-70B", "m-8B"),
        ("m-3B", "m-8B"),
        ("m-3B", "m-70B"),
    ]
    assert list(table.difference) == pytest.approx([0.2, -0.1, -0.3])
    assert list(table.p_holm) == [3 * 2 / 2**6] * 3
    assert not table.clear.any()  # 0.094 with three tests
    pair = stats.paired_table(values, models=["m-3B", "m-70B"]).iloc[0]
    assert (pair.p_holm, pair.clear) == (2 / 2**6, True)
    assert stats.paired_table(values, models=["m-3B"]).empty


def test_holm_by_hand():
    # sorted 0.01, 0.03, 0.04 -> 3 x 0.01, 2 x 0.03, 1 x 0.04 raised to the 0.06 before it
    assert stats.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert stats.holm([0.9, NAN, 0.8]) == pytest.approx([1.0, NAN, 1.0], nan_ok=True)


# --- agreement with labels

SCIPY = {
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y).statistic,
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y).statistic,
    "auc": lambda x, y: (
        scipy.stats.mannwhitneyu(x[y > 0], x[y == 0]).statistic / sum(y > 0) / sum(y == 0)
    ),
}


@pytest.mark.parametrize("measure", SCIPY)
def test_values_are_scipys_and_intervals_the_quantiles_over_drawn_clusters(measure):
    rng = np.random.default_rng(5)
    cluster = np.sort(rng.integers(0, 8, 60))
    x = rng.integers(0, 6, 60).astype(float)  # many ties
    y = rng.integers(0, 2, 60).astype(float)
    order = np.lexsort([y, x, cluster])
    x, y = x[order], y[order]
    ours, scipys = getattr(stats, measure), SCIPY[measure]
    estimate = stats.bootstrap(ours, (x, y), cluster, resamples=50, seed=3)
    assert estimate.value == pytest.approx(scipys(x, y))
    assert (estimate.n, estimate.clusters, estimate.left_out) == (60, 8, 0)
    members = [np.flatnonzero(cluster == name) for name in range(8)]
    values = []
    for clusters in np.random.default_rng(3).integers(8, size=(50, 8)):
        rows = np.concatenate([members[name] for name in clusters])
        values.append(scipys(x[rows], y[rows]))
    ends = np.quantile(values, [0.025, 0.975])
    assert (estimate.ci_low, estimate.ci_high) == pytest.approx(tuple(ends))
    rows = rng.permutation(60)
    shuffled = stats.bootstrap(ours, (x[rows], y[rows]), cluster[rows], resamples=50, seed=3)
    assert shuffled == estimate


def test_what_has_no_agreement():
    assert math.isnan(stats.spearman([0.1] * 8, range(8)))
    assert math.isnan(stats.bootstrap(stats.spearman, ([NAN] * 8, range(8)), range(8)).value)
    assert math.isnan(stats.auc([0.1, 0.2], [1, 1]))
    estimate = stats.bootstrap(stats.spearman, ([1, 2, 3, NAN], [1, 2, 3, 4]), "abcd")
    assert (estimate.value, estimate.n, estimate.left_out) == (pytest.approx(1), 3, 1)
    assert math.isnan(estimate.ci_low)
    five_clusters = [i % 5 for i in range(30)]
    columns = range(30), range(30)
    estimate = stats.bootstrap(stats.pearson, columns, five_clusters, resamples=50)
    assert math.isnan(estimate.ci_low)
