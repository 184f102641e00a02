"""Extract, match and score over many answers (paper, section 2); any three stages combine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, Generic, TypeVar

from . import __version__
from .custom import as_stage
from .extract import Extractor
from .judge import MissingReplies
from .local.figures import compare_figures
from .metrics import check_alignment, ems_scores, reference_scores
from .results import EMSResult, PointsResult, Result
from .score import PointPair
from .terminal import first_few, progress_bar
from .types import (
    Answer,
    InputError,
    Match,
    Points,
    Signature,
    Signed,
    Triplet,
    Triplets,
    rendered,
)

AnyResult = TypeVar("AnyResult", bound=Result)
AT_ONCE = 512  # answers in a batch: enough requests to keep a judge's workers busy
PORTIONS = 3  # of a batch, which ask a live judge at once


class Evaluator(Signed, Generic[AnyResult]):
    """Evaluates answers against the references of their triplets, in batches.

    A subclass defines `batch`. A stage is anything with a `signature` and, if it asks a judge, with
    `judge` and `failures`.
    """

    def __init__(self, **stages: Any):
        self.stages = stages  # by the name that the signature gives them

    def batch(self, triplets: Triplets, answers: Sequence[Answer]) -> list[AnyResult]:
        """One result per answer, in order; `triplets` has, by id, those of the answers."""
        raise NotImplementedError

    @property
    def signature(self) -> Signature:
        """Everything that can change a value: version, stages, and the settings of the judges."""
        signature = {"ems": __version__}
        judges = {}
        for name, stage in self.stages.items():
            signature[name] = stage.signature
            if hasattr(stage, "judge"):
                judges[name] = stage.judge.signature
        settings = list(judges.values())
        if all(setting == settings[0] for setting in settings):
            return signature | dict(*settings[:1])
        by_stage = [f"{name} by {rendered(setting)}" for name, setting in judges.items()]
        return signature | {"judge": "; ".join(by_stage)}

    @property
    def failures(self) -> Counter[str]:
        """Replies that gave no value so far, by task and reason."""
        failures: Counter[str] = Counter()
        for stage in self.stages.values():
            failures += getattr(stage, "failures", Counter())
        return failures

    def score(
        self, reference: str, answer: str, question: str = "", context: str | None = None
    ) -> AnyResult:
        """Evaluate one answer against one reference. InputError unless these are texts."""
        for text in (reference, answer, question):
            if not isinstance(text, str):
                raise InputError(
                    f"reference, answer and question are texts, got {type(text).__name__}"
                )
        triplet = Triplet("answer", "answer", question, reference, context)
        return self.evaluate([triplet], [Answer("answer", "answer", answer)])[0]

    def evaluate(
        self, triplets: Sequence[Triplet], answers: Iterable[Answer], progress: bool = False
    ) -> list[AnyResult]:
        """One result per answer, in order.

        InputError for an unknown triplet, a repeated id, a second answer of a model to a triplet,
        and for rows that are no records, which `ems.evaluate` reads.
        """
        answers = _checked(answers, Answer, ["triplet_id", "model"])
        triplets = _checked(triplets, Triplet, ["id"])
        return list(self.stream(triplets, answers, len(answers) if progress else None))

    def stream(
        self, triplets: Sequence[Triplet], answers: Iterable[Answer], total: int | None = None
    ) -> Iterator[AnyResult]:
        """As `evaluate`, one by one, in flat memory. A bar shows how many of `total` are done.

        The ids of `triplets` are unique. Without a `total` there is no bar; 0 stands for a number
        that is not known. A replay in which a reply is missing goes through all answers, then
        raises MissingReplies about all.
        """
        by_id = {triplet.id: triplet for triplet in triplets}
        missing: set[tuple[str, str, str]] = set()
        source = iter(answers)
        with progress_bar("" if total is None else "answers", total or None) as bar:
            while batch := list(islice(source, AT_ONCE)):
                if unknown := {answer.triplet_id for answer in batch} - by_id.keys():
                    raise InputError(
                        f"there are answers to unknown triplets: {first_few(sorted(unknown))}"
                    )
                try:
                    yield from self._dated(self._in_portions(by_id, batch))
                except MissingReplies as error:
                    missing |= error.missing
                bar.update(len(batch))
        if missing:
            raise MissingReplies(missing)

    def _in_portions(self, triplets: Triplets, answers: Sequence[Answer]) -> list[AnyResult]:
        """As `batch`; threads evaluate portions at once where all stages ask one live judge.

        While one portion waits for the last replies of a stage, the others keep the workers of the
        judge busy. An error in one portion, or an interrupt, ends the asking of all.
        """
        judges = [getattr(stage, "judge", None) for stage in self.stages.values()]
        judge: Any = judges[0]
        is_live = getattr(judge, "mode", "") == "live" and judge.workers > 1
        if not is_live or any(other is not judge for other in judges):
            return self.batch(triplets, answers)
        results: list[Any] = [None] * len(answers)
        with judge.asking() as stop, ThreadPoolExecutor(PORTIONS) as threads:
            try:
                portions = [answers[i::PORTIONS] for i in range(min(PORTIONS, len(answers)))]
                futures = [threads.submit(self.batch, triplets, portion) for portion in portions]
                wait(futures, return_when=FIRST_EXCEPTION)
                for i, future in enumerate(futures):
                    results[i::PORTIONS] = future.result()
            except BaseException:
                stop.set()
                raise
        return results

    def _dated(self, results: Sequence[AnyResult]) -> list[AnyResult]:
        """The results with the day of the newest reply that the stages have had so far."""
        newest = max(getattr(stage, "newest", "") for stage in self.stages.values())
        return [replace(r, date=newest) if newest > r.date else r for r in results]

    def points_of(
        self, extractor: Extractor, triplets: Triplets, answers: Sequence[Answer]
    ) -> list[EMSResult]:
        """Stage 1: results with the points of both sides, and nothing matched.

        Points that a triplet gives stand in place of its reference's.
        """
        references = []
        for answer in answers:
            triplet = triplets[answer.triplet_id]
            if not triplet.points:
                references.append(triplet.reference)
        texts = list(dict.fromkeys([*references, *(answer.answer for answer in answers)]))
        lists = _one_each("extractor", "text", extractor(texts), texts)
        points = dict(zip(texts, lists, strict=True))
        results = []
        for answer in answers:
            triplet = triplets[answer.triplet_id]
            ref = tuple(point.text for point in triplet.points) or points[triplet.reference]
            results.append(_unmatched(triplet, answer, ref, points[answer.answer]))
        return results


def _checked(rows: Iterable[Any], kind: type[Any], key: Sequence[str]) -> list[Any]:
    """The rows as a list. InputError for a row of another kind, and for two rows of one key."""
    records = list(rows)
    seen = set()
    for record in records:
        if not isinstance(record, kind):
            raise InputError(
                f"an ems.{kind.__name__} is needed, got {record!r:.40}; ems.evaluate also reads "
                "files, frames and dictionaries"
            )
        names = tuple(getattr(record, name) for name in key)
        if names in seen:
            raise InputError(
                f"the {' and '.join(key)} of an ems.{kind.__name__} must be unique, and there are "
                f"two of {first_few(names)}"
            )
        seen.add(names)
    return records


class EMS(Evaluator[EMSResult]):
    """The paper's pipeline from three interchangeable stages.

    An extractor gives for each text its points, or None for a lost reply. A matcher gives one
    `Match` for each pair of point lists, with an entry for each reference point. A scorer gives for
    each answer's pairs as many values in [0, 1], None for an unscored pair. Each has a `signature`.
    Each may also be a plain function, or its import path (`custom`).
    """

    def __init__(self, extractor: Any, matcher: Any, scorer: Any):
        self.extractor = as_stage(extractor, "extractor")
        self.matcher = as_stage(matcher, "matcher")
        self.scorer = as_stage(scorer, "scorer")
        super().__init__(extract=self.extractor, match=self.matcher, score=self.scorer)

    def batch(self, triplets: Triplets, answers: Sequence[Answer]) -> list[EMSResult]:
        """Extract, match and score. InputError unless the matcher gives each point one match."""
        results = self.points_of(self.extractor, triplets, answers)
        readable = [i for i, result in enumerate(results) if not result.unscored]
        lists = [(results[i].ref_points, results[i].ans_points) for i in readable]
        matches = _one_each("matcher", "answer", self.matcher(lists), lists)
        for i, match in zip(readable, matches, strict=True):
            result = results[i]
            match = _one_each("matcher", "reference point", match, result.ref_points)
            check_alignment(match, (None,) * len(match), len(result.ans_points))
            results[i] = replace(result, match=tuple(match))
        return self.scored(results)

    def scored(self, results: Sequence[EMSResult]) -> list[EMSResult]:
        """Stage 3 on given points and matches, and the metrics.

        Earlier scores and labels of support are dropped. InputError unless the scorer gives each
        matched pair one score.
        """
        groups = []
        for result in results:
            matched: list[PointPair] = []
            for ref, index in zip(result.ref_points, result.match, strict=True):
                if index not in (None, -1):
                    matched.append((ref, result.ans_points[index]))
            groups.append(matched)
        lists = _one_each("scorer", "answer", self.scorer(groups), groups)
        signature = self.signature
        scored = []
        for result, pairs, values in zip(results, groups, lists, strict=True):
            values = iter(_one_each("scorer", "matched pair", values, pairs))
            by_point = [None if index in (None, -1) else next(values) for index in result.match]
            score = reference_scores(result.match, by_point)
            result = replace(result, score=score, signature=signature, support=())
            if not is_lost(result):
                n_answer_points = len(result.ans_points)
                metrics = ems_scores(result.match, score, n_answer_points, result.ref_weights)
                result = replace(result, **asdict(metrics))
            scored.append(result)
        return self._dated(scored)


def is_lost(result: PointsResult) -> bool:
    """Whether the points of a side could not be read: it has none, and yet points are unscored."""
    return result.unscored > 0 and not (result.ref_points and result.ans_points)


def _unmatched(
    triplet: Triplet, answer: Answer, ref_points: Points | None, ans_points: Points | None
) -> EMSResult:
    """A result with points and figures, and nothing matched; None = points that are unreadable."""
    is_unreadable = ref_points is None or ans_points is None
    ref_points, ans_points = ref_points or (), ans_points or ()
    match: Match = (None,) * len(ref_points)
    return EMSResult(
        triplet.id,
        answer.model,
        ref_points,
        ans_points,
        match=match,
        question=triplet.question,
        group=triplet.group,
        ref_weights=tuple(point.weight for point in triplet.points),
        unscored=max(1, len(match)) if is_unreadable else 0,
        reason="the points of a side could not be read" if is_unreadable else "",
        figures=compare_figures(triplet, answer.answer, ref_points, ans_points),
    )


def _one_each(stage: str, input_name: str, outputs: Iterable[Any], inputs: Sized) -> list[Any]:
    """What a stage returned, as a list. InputError unless it has one entry for each input."""
    entries = list(outputs)
    if len(entries) != len(inputs):
        raise InputError(
            f"the {stage} must return one entry for each {input_name}: "
            f"{len(inputs)} needed, {len(entries)} returned"
        )
    return entries
