"""Extract, match and score over many answers; any extractor, matcher and scorer combine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from .extract import Extractor
from .io import progress_bar, progress_bars
from .match import Matcher, Points
from .metrics import ems_scores
from .score import Scorer
from .types import Answer, EMSResult, InputError, MissingReplies, Triplet


@dataclass(frozen=True, slots=True)
class Alignment:
    """Stages 1 and 2 of one answer, ready for any scorer. Points None = the judge's list could not be read."""

    triplet_id: str
    model: str
    ref_points: Points | None
    ans_points: Points | None
    match: tuple[int | None, ...]          # per reference point, as in eq. 4

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary, one line of `alignments.jsonl`."""
        return {"triplet_id": self.triplet_id, "model": self.model,
                "ref_points": None if self.ref_points is None else list(self.ref_points),
                "ans_points": None if self.ans_points is None else list(self.ans_points), "match": list(self.match)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Alignment:
        """The inverse of `to_dict`."""
        points = {k: None if data[k] is None else tuple(data[k]) for k in ("ref_points", "ans_points")}
        return cls(data["triplet_id"], data["model"], points["ref_points"], points["ans_points"], tuple(data["match"]))


class EMS:
    """The evaluation pipeline of the paper (section 2) from three interchangeable stages."""

    def __init__(self, extractor: Extractor, matcher: Matcher, scorer: Scorer):
        self.extractor, self.matcher, self.scorer = extractor, matcher, scorer

    @property
    def judges(self) -> list[Any]:
        """The distinct judges that the stages ask, if any."""
        stages = (self.extractor, self.matcher, self.scorer)
        found = {id(j): j for stage in stages if (j := getattr(stage, "judge", None)) is not None}
        return list(found.values())

    @property
    def signature(self) -> str:
        """Everything that can change a result: version, stages with prompt hashes, judge and its decoding."""
        from . import __version__

        judged = [j.signature for j in self.judges] or ["judge:none"]
        return "|".join([f"ems:{__version__}", f"extract:{self.extractor.signature}",
                         f"match:{self.matcher.signature}", f"score:{self.scorer.signature}", *judged])

    @property
    def unread(self) -> Counter[str]:
        """Replies that gave nothing usable so far, by stage and reason."""
        return sum((getattr(s, "unread", Counter()) for s in (self.extractor, self.matcher, self.scorer)), Counter())

    def score(self, reference: str, answer: str) -> EMSResult:
        """Evaluate one answer against one reference."""
        triplet = Triplet("answer", "answer", "", reference)
        return self.evaluate([triplet], [Answer("answer", "answer", answer)])[0]

    def evaluate(self, triplets: Sequence[Triplet], answers: Iterable[Answer], workers: int | None = None,
                 progress: bool = False) -> list[EMSResult]:
        """One result per answer, in the order of the answers, joined to the triplets by id.

        `workers` sets how many questions the judge may have under way. InputError for an answer to an unknown
        triplet or a repeated triplet id.
        """
        return list(self.stream(triplets, answers, workers=workers, progress=progress))

    def stream(self, triplets: Sequence[Triplet], answers: Iterable[Answer], workers: int | None = None,
               progress: bool = False) -> Iterator[EMSResult]:
        """As `evaluate`, result by result with flat memory: answers may come from a generator."""
        for judge in self.judges:
            if workers is not None and hasattr(judge, "workers"):
                judge.workers = workers
        by_id = references_by_id(triplets)
        chunks = _chunks(answers, batch_size(*self.judges), progress)
        matched = not hasattr(self.scorer, "sides")        # such a scorer says itself what matches

        def evaluated(chunk: list[Answer]) -> list[EMSResult]:
            with progress_bars(progress):                  # without progress the stages draw no bars either
                return self.score_alignments(self.align(by_id, chunk, matched=matched))

        yield from through(chunks, evaluated)

    def align(self, references: dict[str, str], answers: Sequence[Answer], *, matched: bool = True) -> list[Alignment]:
        """Stages 1 and 2: points of both sides and their matches, or stage 1 alone unless `matched`.

        A text that occurs twice is extracted once.
        """
        if unknown := sorted({a.triplet_id for a in answers} - references.keys()):
            raise InputError(f"{len(unknown)} triplet ids of the answers are not among the {len(references)} triplets, "
                             f"e.g. {unknown[0]!r}; give the triplets these answers belong to")
        texts = list(dict.fromkeys([references[a.triplet_id] for a in answers] + [a.answer for a in answers]))
        points = dict(zip(texts, self.extractor(texts), strict=True))
        sides = [(points[references[a.triplet_id]], points[a.answer]) for a in answers]
        readable = [i for i, (ref, ans) in enumerate(sides) if matched and ref is not None and ans is not None]
        found = self.matcher([sides[i] for i in readable]) if readable else []
        matches = dict(zip(readable, found, strict=True))
        return [Alignment(a.triplet_id, a.model, ref, ans, matches.get(i, (None,) * len(ref or ())))
                for i, (a, (ref, ans)) in enumerate(zip(answers, sides, strict=True))]

    def score_alignments(self, alignments: Sequence[Alignment]) -> list[EMSResult]:
        """Stage 3 on given points and matches, and the metrics."""
        if hasattr(self.scorer, "sides"):
            if hasattr(self.scorer, "prepare"):
                self.scorer.prepare(p for a in alignments for p in (*(a.ref_points or ()), *(a.ans_points or ())))
            signature = self.signature
            return [self._whole(a, signature) for a in alignments]
        pairs = [(a.ref_points[i], a.ans_points[j]) for a in alignments
                 for i, j in enumerate(a.match) if j is not None and j >= 0]
        scores = iter(self.scorer(pairs))
        results, signature = [], self.signature      # read now: a judge's says what its server made of the questions
        for a in alignments:
            score = tuple(None if j is None else 0.0 if j < 0 else next(scores) for j in a.match)
            results.append(_result(a, a.match, score, signature))
        return results

    def _whole(self, a: Alignment, signature: str) -> EMSResult:
        """The result of a scorer that looks at both sides whole."""
        if a.ref_points is None or a.ans_points is None:
            return _result(a, a.match, (None,) * len(a.match), signature)
        sides = self.scorer.sides(a.ref_points, a.ans_points)
        return _result(a, sides.match, sides.score, signature, ans_score=sides.ans_score,
                       ref_weights=sides.ref_weights, ans_weights=sides.ans_weights)


def _result(a: Alignment, match: tuple, score: tuple, signature: str, **sides: Sequence) -> EMSResult:
    if a.ref_points is None or a.ans_points is None:
        # An answer whose points could not be read has a recall nobody knows: nan, with all its points unscored.
        who = "reference" if a.ref_points is None else "answer"
        return EMSResult(a.triplet_id, a.model, a.ref_points or (), a.ans_points or (), match, score, math.nan,
                         math.nan, math.nan, max(1, len(match)), signature, f"the points of the {who} could not be read")
    scores = ems_scores(match, score, len(a.ans_points), **sides)
    reason = scores.reason or (f"{scores.unscored} of {len(match)} points unscored" if scores.unscored else "")
    return EMSResult(a.triplet_id, a.model, a.ref_points, a.ans_points, match, score, scores.recall, scores.precision,
                     scores.f1, scores.unscored, signature, reason, scores.ans_score, scores.tally)


def rescored(results: Sequence[EMSResult], scorer: Scorer, pipeline: EMS) -> list[EMSResult]:
    """The same points and matches under another scorer: what tells EMS(ROUGE) from EMS(LLM) in the paper."""
    other = EMS(pipeline.extractor, pipeline.matcher, scorer)
    return other.score_alignments([alignment_of(r) for r in results])


def alignment_of(result: EMSResult) -> Alignment:
    """Stages 1 and 2 of a result."""
    lost = result.reason.endswith("could not be read")
    ref = None if lost and "reference" in result.reason else result.ref_points
    ans = None if lost and "answer" in result.reason else result.ans_points
    return Alignment(result.triplet_id, result.model, ref, ans, result.match)


def references_by_id(triplets: Sequence[Triplet]) -> dict[str, str]:
    """Reference by triplet id; InputError when an id occurs twice."""
    by_id = {t.id: t.reference for t in triplets}
    if len(by_id) < len(triplets):
        seen: set[str] = set()
        twice = next(t.id for t in triplets if t.id in seen or seen.add(t.id))
        raise InputError(f"triplet ids must be unique; {twice!r} occurs more than once")
    return by_id


def build(judge: Any = None, scorer: str = "local", *, encoder: str | None = None, prompts: Any = None,
          max_score: int = 10, variant: str = "faithful") -> EMS:
    """The pipeline behind `ems score` and `ems evaluate`.

    Without a judge: sentence points, similarity matching and a scorer of rouge, bertscore, local or local-pair. With
    one, extraction and matching are the judge's, and `scorer` may also be llm or llm-expected (see `LLMScorer`).
    `encoder` names the model for bertscore (roberta-large if None), `variant` the way a judge is asked for matches
    (`VARIANTS`). InputError for a scorer or a variant that does not go with the rest.
    """
    from .extract import LLMExtractor
    from .local.scorers import LocalScorer, PairScorer, SimilarityMatcher
    from .local.sentences import SentenceExtractor
    from .match import LLMMatcher
    from .score import BERTScorer, LLMScorer, RougeScorer

    allowed = ("rouge", "bertscore", "local", "local-pair") + (("llm", "llm-expected") if judge is not None else ())
    if scorer not in allowed:
        hint = f"; the {scorer} scorer needs a judge" if scorer in ("llm", "llm-expected") else ""
        raise InputError(f"scorer must be one of {', '.join(allowed)}, got {scorer!r}{hint}")
    if judge is None and variant != "faithful":
        raise InputError(f"variant {variant!r} is a way to ask a judge, and there is none")
    if judge is None:
        extractor, matcher = SentenceExtractor(), SimilarityMatcher()
    else:
        extractor, matcher = LLMExtractor(judge, prompts), LLMMatcher(judge, prompts, variant=variant)
    made: dict[str, Callable[[], Scorer]] = {
        "rouge": RougeScorer, "local": lambda: LocalScorer(), "local-pair": lambda: PairScorer(),
        "bertscore": lambda: BERTScorer(_encoder(encoder)),
        "llm": lambda: LLMScorer(judge, prompts, max_score=max_score),
        "llm-expected": lambda: LLMScorer(judge, prompts, max_score=min(max_score, 9), expected=True)}
    return EMS(extractor, matcher, made[scorer]())


def _encoder(name: str | None):
    from .local.encoder import Encoder

    return Encoder(name or "roberta-large")


def _chunks(answers: Iterable[Answer], size: int, progress: bool) -> Iterator[list[Answer]]:
    total = len(answers) if hasattr(answers, "__len__") else None
    source = iter(answers)
    with progress_bar("answers" if progress else "", total, unit="answer") as bar:
        while chunk := list(islice(source, size)):
            yield chunk
            bar.update(len(chunk))


CHUNK = 128                                           # answers laid before a judge at once, at least


def batch_size(*judges: Any) -> int:
    """How many answers to lay before judges at once: so many that every worker is busy nearly to a stage's end.

    Fewer in a dry run, whose assumed lists are long.
    """
    if any(getattr(judge, "mode", "") in ("dry", "likely") for judge in judges):
        return 8
    return max([CHUNK, *(4 * getattr(judge, "workers", 0) for judge in judges)])


def through(batches: Iterable[Any], work: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """The results of all batches in order. A replay notes what is missing of every batch before it stops."""
    missing: MissingReplies | None = None
    for batch in batches:
        try:
            yield from work(batch)
        except MissingReplies as error:
            missing = error if missing is None else missing | error
    if missing is not None:
        raise missing
