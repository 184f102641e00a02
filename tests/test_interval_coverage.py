"""Coverage of intervals: the vectorised ones are the kit's, and what they cover on a known population."""

import numpy as np
import pandas as pd
import pytest

from ems import stats
from ems.data import read_frames
from ems.io import data_path
from ems.study.people import interval_coverage
from ems.types import InputError


def test_the_vectorised_interval_is_the_kits():
    rng = np.random.default_rng(2)
    sums = np.stack([rng.random((1, 9)), rng.integers(1, 5, (1, 9))], axis=-1)
    low, high = interval_coverage._student(sums)
    table = pd.DataFrame({"cluster": range(9), "num": sums[0, :, 0], "den": sums[0, :, 1]})
    kit = stats.jackknifed(*stats._pooled(table))
    assert (low[0], high[0]) == (pytest.approx(kit.ci_low), pytest.approx(kit.ci_high))


def test_intervals_over_real_results_cover():
    """FinDVer's filings: what the kit's intervals claim, and what the percentile bootstrap misses over ten."""
    scores, labels = (read_frames(data_path(f"human/findver_{kind}.csv")) for kind in ("scores", "labels"))
    one = labels.merge(scores, on=["triplet_id", "model"]).query("model == 'Llama-3.1-70B'")
    table = interval_coverage.coverage(one["EMS(local) F1"], one["group"])
    by = table.pivot(index="clusters", columns="method", values="coverage")
    student, percentile = (by[method] for method in interval_coverage.METHODS)
    assert student.between(0.93, 0.97).all()
    assert percentile[10] < 0.915
    assert (percentile < student).all()


def test_nothing_to_draw_from_is_said():
    with pytest.raises(InputError, match="two clusters"):
        interval_coverage.coverage([1.0, 2.0], ["a", "a"])
