"""Do 95 % intervals cover 95 %? Drawn from real results, whose true mean is then known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ...types import InputError
from ..findings.figures import SERIES, panels, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("Student's t over clusters", "percentile bootstrap")
SIZES = (10, 20, 50)          # clusters in a draw
DRAWS, RESAMPLES = 2000, 500


def coverage(values: Sequence[float], cluster: Sequence[object], *, seed: int = 7) -> pd.DataFrame:
    """How often an interval for a mean holds the true one, when only some clusters are seen.

    All clusters of the values are the population, their mean the truth; `DRAWS` times as many clusters as
    each of `SIZES` says are drawn from it (with replacement), whole, and each method makes its interval:
    `stats.jackknifed`'s, and the percentile bootstrap over clusters. Columns clusters, method, coverage with
    its own 95 % interval (`low`, `high`), width (the mean one). InputError for fewer than two clusters.
    """
    table = pd.DataFrame({"value": np.asarray(values, dtype=float), "cluster": list(cluster)}).dropna()
    sums = table.groupby("cluster")["value"].agg(["sum", "count"]).to_numpy(dtype=float)
    if len(sums) < 2:
        raise InputError(f"coverage needs two clusters to draw from, got {len(sums)}")
    truth, rng, rows = sums[:, 0].sum() / sums[:, 1].sum(), np.random.default_rng(seed), []
    for size in SIZES:
        drawn = sums[rng.integers(len(sums), size=(DRAWS, size))]          # (draws, clusters, sum and count)
        intervals = {METHODS[0]: _student(drawn), METHODS[1]: _percentile(drawn, rng)}
        for method, (low, high) in intervals.items():
            share = float(((low <= truth) & (truth <= high)).mean())
            error = 1.96 * math.sqrt(share * (1 - share) / DRAWS)
            rows.append((size, method, share, share - error, share + error, float((high - low).mean())))
    return pd.DataFrame(rows, columns=["clusters", "method", "coverage", "low", "high", "width"])


def of_two_models(scores: pd.DataFrame, a: str, b: str, column: str, *, seed: int = 7) -> pd.DataFrame:
    """`coverage` of a model's mean and of the paired difference of two, in a column `of`. `scores` has
    triplet_id, group, model and the column; a triplet that one model lacks is left out of the difference.
    """
    wide = scores.pivot(index=["triplet_id", "group"], columns="model", values=column).reset_index()
    tried = {f"mean of {a}": wide[a], f"{a} less {b}": wide[a] - wide[b]}
    return pd.concat([coverage(values, wide["group"], seed=seed).assign(of=name)
                      for name, values in tried.items()], ignore_index=True)


def _student(drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `stats.jackknifed`, for all draws at once."""
    clusters, total = drawn.shape[1], drawn.sum(axis=1, keepdims=True)
    without = total - drawn
    left = without[..., 0] / without[..., 1]                                # each cluster left out once
    mean = total[:, 0, 0] / total[:, 0, 1]
    error = np.sqrt((clusters - 1) / clusters * ((left - left.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    reach = stdtrit(clusters - 1, 0.975) * error
    return mean - reach, mean + reach


def _percentile(drawn: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The percentile bootstrap over clusters, with the same resampled places for all draws."""
    clusters = drawn.shape[1]
    counts = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(float)
    means = (drawn[..., 0] @ counts.T) / (drawn[..., 1] @ counts.T)
    return tuple(np.quantile(means, [0.025, 0.975], axis=1))


@styled
def coverage_figure(covered: pd.DataFrame) -> Figure:
    """Coverage by number of clusters, with its own interval, a panel for each value of the column `of`."""
    names = list(dict.fromkeys(covered["of"]))
    fig, axes = panels(len(names), 4.2, "Do 95 % intervals cover 95 % (dotted line)? Bars: 95 % interval of "
                       "each share, from the number of draws", width=6.5 * len(names), sharey=True)
    fig.set_layout_engine("constrained", h_pad=0.1)
    for ax, name in zip(axes, names, strict=True):
        cell = covered[covered["of"] == name]
        places = {size: i for i, size in enumerate(dict.fromkeys(cell["clusters"]))}
        for method, (colour, marker), aside in zip(METHODS, SERIES, (-0.06, 0.06), strict=False):
            rows = cell[cell["method"] == method]
            ax.errorbar([places[size] + aside for size in rows["clusters"]], rows["coverage"],
                        yerr=[rows["coverage"] - rows["low"], rows["high"] - rows["coverage"]],
                        color=colour, marker=marker, markersize=8, capsize=4, linewidth=1.5, label=method)
        ax.axhline(0.95, color="black", linewidth=1, linestyle=":")
        ax.set_xticks(range(len(places)), [str(size) for size in places])
        ax.set_xlabel("clusters in a draw (a cluster: all answers about one document)")
        ax.set_title(name, fontsize=13)
    axes[0].set_ylabel("intervals that hold the true mean")
    axes[0].legend(loc="lower right", fontsize=11)
    return fig
