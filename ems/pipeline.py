"""Extract, match and score over many answers (paper, section 2); any three stages combine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from operator import length_hint
from typing import Any, Generic, TypeVar

from . import __version__
from .extract import Extractor
from .judge import MissingReplies
from .match import Matcher
from .metrics import check_alignment, ems_scores, reference_scores
from .results import CoverageResult, EMSResult, Result
from .score import Scorer
from .terminal import first_few, progress_bar
from .types import Answer, InputError, Signature, Triplet, rendered

R = TypeVar("R", bound=Result)
AT_ONCE = 512  # answers in a batch: enough requests to keep a judge's workers busy


class Evaluator(Generic[R]):
    """Holds answers against the references of their triplets, in batches. A subclass says what a batch gives.

    A stage is anything with a `signature` and, if it asks a judge, `judge` and `failures`.
    """

    def __init__(self, **stages: Any):
        self.stages = stages  # by the name that the signature gives them

    def batch(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]) -> list[R]:
        """One result per answer, in their order; `triplets` is by id and has those of the answers."""
        raise NotImplementedError

    @property
    def signature(self) -> Signature:
        """Everything that can change a value: version, stages, and the settings of the judge or judges."""
        signed = {
            "ems": __version__,
            **{name: stage.signature for name, stage in self.stages.items()},
        }
        judges = {
            name: one.judge.signature for name, one in self.stages.items() if hasattr(one, "judge")
        }
        first: Signature = next(iter(judges.values()), {})
        if all(judge == first for judge in judges.values()):
            return {**signed, **first}
        return {
            **signed,
            "judge": "; ".join(f"{name} by {rendered(one)}" for name, one in judges.items()),
        }

    @property
    def failures(self) -> Counter[str]:
        """Replies that gave no value so far, by task and reason."""
        counts: list[Any] = [
            getattr(stage, "failures", Counter()) for stage in self.stages.values()
        ]
        return sum(counts, Counter())

    def score(
        self, reference: str, answer: str, question: str = "", context: str | None = None
    ) -> R:
        """Evaluate one answer against one reference."""
        triplet = Triplet("answer", "answer", question, reference, context)
        return self.evaluate([triplet], [Answer("answer", "answer", answer)])[0]

    def evaluate(
        self, triplets: Sequence[Triplet], answers: Iterable[Answer], progress: bool = False
    ) -> list[R]:
        """One result per answer, in order. InputError for an unknown triplet, and one that occurs twice."""
        return list(self.stream(triplets, answers, length_hint(answers) if progress else None))

    def stream(
        self, triplets: Sequence[Triplet], answers: Iterable[Answer], total: int | None = None
    ) -> Iterator[R]:
        """As `evaluate`, one by one, in flat memory; a bar shows how many of `total` (0: not known) are done.

        A replay without some reply goes through all answers, then raises MissingReplies about all of them.
        """
        by_id = {triplet.id: triplet for triplet in triplets}
        if len(by_id) < len(triplets):
            raise InputError("triplet ids must be unique, and one occurs more than once")
        missing: set[tuple[str, str, str]] = set()
        source = iter(answers)
        with progress_bar("" if total is None else "answers", total or None) as bar:
            while batch := list(islice(source, AT_ONCE)):
                if unknown := {answer.triplet_id for answer in batch} - by_id.keys():
                    raise InputError(
                        f"there are answers to unknown triplets: {first_few(sorted(unknown))}"
                    )
                try:
                    yield from self.batch(by_id, batch)
                except MissingReplies as error:
                    missing |= error.missing
                bar.update(len(batch))
        if missing:
            raise MissingReplies(missing)

    def points_of(
        self, extractor: Extractor, triplets: Mapping[str, Triplet], answers: Sequence[Answer]
    ) -> list[EMSResult]:
        """Stage 1: results with the points of both sides; given points stand in place of a reference's."""
        asked = [triplets[answer.triplet_id] for answer in answers]
        references = [t.reference for t in asked if not t.points]
        texts = list(dict.fromkeys([*references, *(answer.answer for answer in answers)]))
        points = dict(zip(texts, extractor(texts), strict=True))
        results = []
        for t, answer in zip(asked, answers, strict=True):
            ref = tuple(point.text for point in t.points) or points[t.reference]
            ans = points[answer.answer]
            lost, nothing = ref is None or ans is None, (None,) * len(ref or ())
            results.append(
                EMSResult(
                    t.id,
                    answer.model,
                    ref or (),
                    ans or (),
                    match=nothing,
                    question=t.question,
                    group=t.group,
                    ref_weights=tuple(point.weight for point in t.points),
                    unscored=max(1, len(nothing)) if lost else 0,
                    reason="the points of a side could not be read" if lost else "",
                )
            )
        return results


class EMS(Evaluator[EMSResult]):
    """The paper's pipeline from three interchangeable stages."""

    def __init__(self, extractor: Extractor, matcher: Matcher, scorer: Scorer):
        super().__init__(extract=extractor, match=matcher, score=scorer)
        self.extractor, self.matcher, self.scorer = extractor, matcher, scorer

    def batch(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer]) -> list[EMSResult]:
        """Extract, match and score."""
        results = self.points_of(self.extractor, triplets, answers)
        readable = [i for i, result in enumerate(results) if not is_lost(result)]
        matches = self.matcher([(results[i].ref_points, results[i].ans_points) for i in readable])
        for i, match in zip(readable, matches, strict=True):
            check_alignment(match, results[i].match, len(results[i].ans_points))
            results[i] = replace(results[i], match=match)
        return self.scored(results)

    def scored(self, results: Sequence[EMSResult]) -> list[EMSResult]:
        """Stage 3 on given points and matches, and the metrics; earlier scores go, and labels of support."""
        pairs = [
            [
                (r.ref_points[i], r.ans_points[j])
                for i, j in enumerate(r.match)
                if j not in (None, -1)
            ]
            for r in results
        ]
        signature, scored = self.signature, []
        for r, scores in zip(results, self.scorer(pairs), strict=True):
            values = iter(scores)
            given = [None if j in (None, -1) else next(values) for j in r.match]
            new = replace(
                r, score=reference_scores(r.match, given), signature=signature, support=()
            )
            if not is_lost(r):
                new = replace(
                    new, **asdict(ems_scores(r.match, new.score, len(r.ans_points), r.ref_weights))
                )
            scored.append(new)
        return scored


def is_lost(result: EMSResult | CoverageResult) -> bool:
    """Whether a side's points could not be read: it has none, and yet points are unscored."""
    return result.unscored > 0 and not (result.ref_points and result.ans_points)
