"""Statistics against cases that can be worked out by hand, against scipy, and against Table 1 of the default run."""

import fractions
import itertools
import math
from statistics import mean, stdev

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
    out = []
    for model, triplet, group, value, *rest in rows:
        num, den = rest[:2] or (value, 1.0)
        units, unscored = rest[2:] or (1, 0)
        out.append((metric, part, model, triplet, group, value, num, den, units, unscored, "sig"))
    return pd.DataFrame(out, columns=COLUMNS)


def family(values_by_model, groups=None):
    """One metric, one value per model and triplet; a group per triplet unless told."""
    rows = []
    for model, values in values_by_model.items():
        rows += [
            (model, f"t-{i}", str((groups or range(len(values)))[i]), v)
            for i, v in enumerate(values)
        ]
    return frame(rows)


def one(values, **settings):
    return stats.summarise(values, **settings).iloc[0]


# --- means


def test_the_value_is_the_mean_of_answers_whatever_their_number_of_points():
    values = frame([("m", "a", "A", 1.0, 1, 1), ("m", "b", "B", 0.0, 0, 3)])  # not 1 of 4 points
    assert one(values).value == (1 + 0) / 2


def test_the_interval_of_a_mean_by_hand():
    # Six companies of one answer: mean 0.2, squares of the distances to it 0.32 in sum, so that the standard error
    # is sqrt(0.32 / 5 / 6); Student's t with five degrees of freedom has its 97.5 % point at 2.570582.
    row = one(family({"m": [0.0, 0.0, 0.0, 0.2, 0.4, 0.6]}))
    reach = 2.570582 * math.sqrt(0.32 / 5 / 6)
    assert (row.value, row.ci_low, row.ci_high) == pytest.approx((0.2, 0.2 - reach, 0.2 + reach))


def test_clusters_are_left_out_whole():
    # Within a company the answers differ, between companies they do not: whole companies leave nothing to vary.
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
        (
            [("m", "a", "A", 0.3), *(("m", str(i), str(i), NAN, NAN, NAN) for i in range(6))],
            0.3,
        ),  # unscored ones
        ([("m", "a", "A", NAN, NAN, NAN)], NAN),
    ],
)
def test_no_interval_with_fewer_than_six_clusters(rows, value):
    row = one(frame(rows))
    assert (row.value, row.ci_low, row.ci_high) == pytest.approx((value, NAN, NAN), nan_ok=True)


def test_unscored_answers_leave_value_and_n_but_not_the_share_that_is_scored():
    row = one(
        frame(
            [
                ("m", "a", "A", 0.8, 8, 10, 10, 0),
                ("m", "b", "B", 0.4, 4, 10, 10, 1),
                ("m", "c", "C", NAN, NAN, NAN, 10, 10),
            ]
        )
    )
    assert row.value == pytest.approx((0.8 + 0.4) / 2)
    assert (row.n, row.unscored, row.units, row.clusters, row.scored) == (2, 11, 30, 2, 1 - 11 / 30)
    assert row.flagged


@pytest.mark.parametrize(
    ("rows", "flagged"),
    [
        ([("m", "a", "A", 0.5, 1, 2, 100, 5)], False),
        ([("m", "a", "A", 0.5, 1, 2, 100, 6)], True),
        (
            [("m", "a", "A", 0.5, 1, 2, 999, 0), ("m", "b", "B", NAN, NAN, NAN, 1, 1)],
            True,
        ),  # half of the answers
    ],
)
def test_under_95_percent_of_points_or_answers_is_flagged(rows, flagged):
    assert bool(one(frame(rows)).flagged) is flagged


def test_bounds_by_hand():
    # Four points, one unscored, the others sum to 2; a second answer without a value.
    recall = frame(
        [("m", "a", "A", 2 / 3, 2, 3, 4, 1), ("m", "b", "B", NAN, NAN, NAN, 5, 5)], part="Recall"
    )
    precision = frame(
        [("m", "a", "A", 0.5, 1, 2, 4, 1), ("m", "b", "B", NAN, NAN, NAN, 5, 5)], part="Precision"
    )
    f1 = frame([("m", "a", "A", 4 / 7, NAN, NAN, 4, 1), ("m", "b", "B", NAN, NAN, NAN, 5, 5)])
    table = stats.summarise(pd.concat([recall, precision, f1])).set_index("part")
    assert (table.low["Recall"], table.high["Recall"]) == ((2 / 4 + 0) / 2, (3 / 4 + 1) / 2)
    assert (table.low["Precision"], table.high["Precision"]) == ((1 / 3 + 0) / 2, (2 / 3 + 1) / 2)
    low, high = (2 * p * r / (p + r) for p, r in ((1 / 3, 2 / 4), (2 / 3, 3 / 4)))
    assert (table.low["F1"], table.high["F1"]) == (
        pytest.approx(low / 2),
        pytest.approx((high + 1) / 2),
    )
    whole = one(family({"m": [0.2, 0.4]}))
    assert (whole.low, whole.high) == (whole.value, whole.value)
    alone = one(
        frame([("m", "a", "A", NAN, NAN, NAN, 1, 1), ("m", "b", "B", 0.5)])
    )  # an F1 without its sides
    assert (alone.low, alone.high) == ((0 + 0.5) / 2, (1 + 0.5) / 2)


def test_a_cells_numbers_do_not_depend_on_what_else_is_in_the_frame_nor_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    values = family(
        {m: rng.random(40) for m in ("a", "b", "c")}, groups=[i // 4 for i in range(40)]
    )
    for of in (stats.summarise, stats.paired_table):
        pd.testing.assert_frame_equal(
            of(values), of(values.sample(frac=1, random_state=5)), check_exact=True
        )
    other = family({"z": rng.random(30)}).assign(triplet_id=lambda f: "z" + f["triplet_id"])
    both = stats.summarise(pd.concat([other, values]))
    pd.testing.assert_frame_equal(
        both[both.model != "z"].reset_index(drop=True), stats.summarise(values)
    )


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda v: v.drop(columns=["num", "units"]), "lacks 'num', 'units'"),
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
    # Differences 0.3, 0.2, -0.1 sum to 0.4. The patterns of +-0.3 +-0.2 +-0.1 give sizes 0.6, 0.4, 0.2 and 0, twice
    # each: 4 of 8 are at least 0.4.
    row = stats.paired_table(
        family({"a": [0.5, 0.5, 0.5], "b": [0.2, 0.3, 0.6]}), models=["b", "a"]
    ).iloc[0]
    assert (row.a, row.b, row.difference) == ("a", "b", pytest.approx((0.3 + 0.2 - 0.1) / 3))
    assert (row.p, row.n, row.clusters, row.ordered) == (4 / 8, 3, 3, 2 / 3)
    assert math.isnan(row.g)  # as the interval: too few clusters
    assert not row.clear
    gaps = [0.1, 0.2, 0.3, 0.0, -0.1, 0.1, 0.2]
    row = stats.paired_table(family({"a": gaps, "b": [0.0] * 7}), models=["b", "a"]).iloc[0]
    assert row.g == pytest.approx(
        (1 - 3 / (4 * 6 - 1)) * mean(gaps) / stdev(gaps)
    )  # six degrees of freedom
    assert row.ordered == (5 + 1 / 2) / 7


def test_the_sign_flip_test_counts_every_tie():
    """Terms with few digits have many equal sums, which floating point tells apart: each must still count."""
    rng = np.random.default_rng(8)
    drawn = [rng.integers(-9, 10, 7) / 10 for _ in range(20)]
    for sums in ([1, 1, 1, 1], [0.1, 0.2, -0.3], [0, 0, 0], [5.0], *drawn):
        terms = [fractions.Fraction(str(term)) for term in sums]
        sizes = [
            abs(sum(s * t for s, t in zip(signs, terms, strict=True)))
            for signs in itertools.product((1, -1), repeat=len(terms))
        ]
        assert stats.sign_flip_test(sums) == sum(size >= abs(sum(terms)) for size in sizes) / len(
            sizes
        )
    assert math.isnan(stats.sign_flip_test([]))


def test_beyond_2_to_the_14_patterns_are_drawn():
    sums = np.random.default_rng(4).normal(0.2, 1, 15)
    p = stats.sign_flip_test(sums)
    assert p == stats.sign_flip_test(sums, seed=7)
    sizes = np.abs(np.array(list(itertools.product((1, -1), repeat=15))) @ sums)
    assert p == pytest.approx((sizes >= abs(sums.sum()) - 1e-12).mean(), abs=0.02)
    assert stats.sign_flip_test([1.0] * 40) == 1 / 10_000  # never 0


def test_triplets_are_joined_by_id_and_gaps_are_counted():
    a = [("a", "t1", "A", 0.9), ("a", "t2", "B", 0.5), ("a", "t3", "C", 0.4), ("a", "t5", "E", NAN)]
    b = [("b", "t4", "D", 0.1), ("b", "t5", "E", 0.3), ("b", "t2", "B", 0.3), ("b", "t1", "A", 0.5)]
    row = stats.paired_table(frame(a + b), models=["b", "a"]).iloc[0]
    assert row.difference == pytest.approx(((0.9 - 0.5) + (0.5 - 0.3)) / 2)
    assert (row.n, row.only_a, row.only_b, row.unscored) == (2, 1, 1, 1)
    swapped = stats.paired_table(frame(a + b), models=["a", "b"]).iloc[0]
    assert (swapped.difference, swapped.p, swapped.ordered) == (-row.difference, row.p, 0.0)
    apart = stats.paired_table(frame([("a", "t1", "A", 0.5), ("b", "t2", "B", 0.5)])).iloc[0]
    assert (apart.n, apart.only_a, apart.only_b) == (0, 1, 1)
    assert math.isnan(apart.difference)
    assert math.isnan(apart.p_holm)


def test_later_models_are_compared_with_earlier_ones():
    values = family({"m-8B": [0.5] * 6, "m-70B": [0.7] * 6, "m-3B": [0.4] * 6})
    table = stats.paired_table(values)
    assert list(zip(table.a, table.b, strict=True)) == [
        ("m-8B", "m-3B"),
        ("m-70B", "m-3B"),
        ("m-70B", "m-8B"),
    ]
    assert list(table.difference) == pytest.approx([0.1, 0.3, 0.2])
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
    x, y = rng.integers(0, 6, 60).astype(float), rng.integers(0, 2, 60).astype(float)  # many ties
    x, y = x[order := np.lexsort([y, x, cluster])], y[order]
    found = stats.bootstrap(getattr(stats, measure), (x, y), cluster, resamples=50, seed=3)
    assert found.value == pytest.approx(SCIPY[measure](x, y))
    drawn = [
        np.concatenate([np.flatnonzero(cluster == c) for c in draw])
        for draw in np.random.default_rng(3).integers(8, size=(50, 8))
    ]
    ends = np.quantile([SCIPY[measure](x[rows], y[rows]) for rows in drawn], [0.025, 0.975])
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends))
    shuffled = rng.permutation(60)
    again = stats.bootstrap(
        getattr(stats, measure), (x[shuffled], y[shuffled]), cluster[shuffled], resamples=50, seed=3
    )
    assert again == found
    assert (found.n, found.clusters, found.left_out) == (60, 8, 0)


def test_what_has_no_agreement():
    assert math.isnan(stats.spearman([0.1] * 8, range(8)))
    assert math.isnan(stats.bootstrap(stats.spearman, ([NAN] * 8, range(8)), range(8)).value)
    assert math.isnan(stats.auc([0.1, 0.2], [1, 1]))
    found = stats.bootstrap(stats.spearman, ([1, 2, 3, NAN], [1, 2, 3, 4]), "abcd")
    assert (found.value, found.n, found.left_out, found.ci_low) == pytest.approx(
        (1, 3, 1, NAN), nan_ok=True
    )
    assert math.isnan(
        stats.bootstrap(
            stats.pearson, (range(30), range(30)), [i % 5 for i in range(30)], resamples=50
        ).ci_low
    )
