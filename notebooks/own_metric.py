"""Functions of one's own, examples for notebooks 11 and 12: a metric, a scorer, and a value."""

import re

from ems.metrics import mean_score


def overlap(one: str, other: str) -> float:
    """Jaccard index of the words of two texts: shared words by all words, in [0, 1]."""
    first = set(re.findall(r"\w+", one.lower()))
    second = set(re.findall(r"\w+", other.lower()))
    return len(first & second) / max(1, len(first | second))


def jaccard(references, answers):
    """A metric: one value an answer."""
    return [
        overlap(reference, answer) for reference, answer in zip(references, answers, strict=True)
    ]


def point_jaccard(pairs):
    """A scorer: one score a matched pair of points."""
    return [overlap(reference, answer) for reference, answer in pairs]


def recall_by_length(result):
    """A value of a result: recall, where a reference point weighs as much as it has words."""
    words = [len(point.split()) for point in result.ref_points]
    return mean_score(result.score, words)
