"""Two metrics of one's own, an example for notebook 11: of whole answers and of matched points."""

import re


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
