"""Extract, match and score over many answers; any extractor, matcher and scorer combine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from .extract import Extractor
from .io import progress_bar, progress_bars
from .match import Matcher
from .metrics import ems_scores, side_scores
from .score import GroupScorer, Scorer, WholeScorer
from .types import Answer, EMSResult, InputError, MissingReplies, Points, Triplet

CHUNK = 128                   # answers laid before a judge at once, at least


class EMS:
    """The evaluation pipeline of the paper (section 2) from three interchangeable stages.

    A scorer of whole sides (`score.WholeScorer`) needs no matcher: pass None.
    """

    def __init__(self, extractor: Extractor, matcher: Matcher | None, scorer: Scorer | WholeScorer):
        if matcher is None and not isinstance(scorer, WholeScorer):
            raise InputError(f"the {scorer.name} scorer scores matched pairs and needs a matcher, got None")
        self.extractor, self.matcher, self.scorer = extractor, matcher, scorer

    @property
    def judges(self) -> list[Any]:
        """The distinct judges that the stages ask, if any."""
        stages = (self.extractor, self.matcher, self.scorer)
        by_identity = {id(j): j for stage in stages if (j := getattr(stage, "judge", None)) is not None}
        return list(by_identity.values())

    @property
    def signature(self) -> str:
        """Everything that can change a result: version, stages with prompt hashes, judge and its decoding."""
        from . import __version__

        judged = [j.signature for j in self.judges] or ["judge:none"]
        whole = self.matcher is None or isinstance(self.scorer, WholeScorer)
        match = "none" if self.matcher is None or whole else self.matcher.signature
        return "|".join([f"ems:{__version__}", f"extract:{self.extractor.signature}", f"match:{match}",
                         f"score:{self.scorer.signature}", *judged])

    @property
    def unread(self) -> Counter[str]:
        """Replies that gave nothing usable so far, by stage and reason."""
        stages = (self.extractor, self.matcher, self.scorer)
        total: Counter[str] = Counter()
        for stage in stages:
            total.update(getattr(stage, "unread", {}))
        return total

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
        """As `evaluate`, result by result with flat memory: answers may come from a generator.

        A reference is extracted once, however many answers there are to it.
        """
        for judge in self.judges:
            if workers is not None and hasattr(judge, "workers"):
                judge.workers = workers
        references_by_id(triplets)                 # ids are unique
        by_id = {t.id: t for t in triplets}
        points: dict[str, Points | None] = {}
        chunks = _chunks(answers, batch_size(*self.judges), progress)

        def evaluated(chunk: list[Answer]) -> list[EMSResult]:
            with progress_bars(progress):          # without progress the stages draw no bars either
                return self.score_alignments(self.align(by_id, chunk, points))

        yield from through(chunks, evaluated)

    def align(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer],
              extracted: dict[str, Points | None] | None = None) -> list[EMSResult]:
        """Stages 1 and 2: points of both sides and their matches, without scores. `triplets` is by id.

        `extracted` keeps the points of references from call to call. A text that occurs twice is extracted
        once, and a reference whose points are given not at all.
        """
        if unknown := sorted({a.triplet_id for a in answers} - triplets.keys()):
            raise InputError(
                f"{len(unknown)} triplet ids of the answers are not among the {len(triplets)} triplets, "
                f"e.g. {unknown[0]!r}; give the triplets these answers belong to"
            )
        extracted = {} if extracted is None else extracted
        wanted = [t.reference for t in (triplets[a.triplet_id] for a in answers) if not t.points]
        texts = list(dict.fromkeys([t for t in wanted if t not in extracted] + [a.answer for a in answers]))
        points = dict(zip(texts, self.extractor(texts), strict=True))
        extracted.update({text: points[text] for text in wanted if text in points})
        alignments = [_unmatched(a, triplets[a.triplet_id], extracted, points[a.answer]) for a in answers]
        if self.matcher is None or isinstance(self.scorer, WholeScorer):
            return alignments
        readable = [i for i, a in enumerate(alignments) if not a.lost]
        matches = self.matcher([(alignments[i].ref_points, alignments[i].ans_points) for i in readable])
        for i, match in zip(readable, matches, strict=True):
            alignments[i] = replace(alignments[i], match=match)
        return alignments

    def score_alignments(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """Stage 3 on given points and matches, and the metrics; whatever scores they had are replaced."""
        if isinstance(self.scorer, WholeScorer):
            scored = self._covered(self.scorer, alignments)
        else:
            scored = self._paired(self.scorer, alignments)
        signature = self.signature
        return [with_metrics(replace(a, signature=signature)) for a in scored]

    @staticmethod
    def _paired(scorer: Scorer, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """s_i for every matched pair (eq. 5)."""
        groups = [
            [(a.ref_points[i], a.ans_points[j]) for i, j in enumerate(a.match) if j is not None and j >= 0]
            for a in alignments
        ]
        scores: Iterator[float | None]
        if isinstance(scorer, GroupScorer):
            scores = chain.from_iterable(scorer.by_answer(groups))
        else:
            scores = iter(scorer(list(chain.from_iterable(groups))))
        return [
            replace(a, score=tuple(None if j is None else 0.0 if j < 0 else next(scores) for j in a.match),
                    ans_score=(), ans_match=(), ref_weights=a.ref_weights if a.given else (), ans_weights=(),
                    whole_sides=False)
            for a in alignments
        ]

    @staticmethod
    def _covered(scorer: WholeScorer, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        covered = iter(scorer.cover([a for a in alignments if not a.lost]))
        return [replace(a if a.lost else next(covered), whole_sides=True) for a in alignments]


def _unmatched(answer: Answer, triplet: Triplet, extracted: Mapping[str, Points | None],
               ans: Points | None) -> EMSResult:
    """An alignment after stage 1: all matches and scores open."""
    given = triplet.points
    ref = tuple(p.text for p in given) if given else extracted[triplet.reference]
    lost = tuple(side for side, points in (("reference", ref), ("answer", ans)) if points is None)
    unknown = (None,) * len(ref or ())
    return EMSResult(answer.triplet_id, answer.model, ref or (), ans or (), unknown, unknown, lost=lost,
                     question=triplet.question, ref_weights=tuple(p.weight for p in given),
                     given=tuple(p.kind for p in given))


def with_metrics(a: EMSResult) -> EMSResult:
    """The alignment with recall, precision and F1 from its scores (eq. 6-9)."""
    if a.lost:
        reason = f"the points of the {' and the '.join(a.lost)} could not be read"
        return replace(a, score=(None,) * len(a.match), unscored=max(1, len(a.match)), reason=reason)
    if a.whole_sides:
        s = side_scores(a.score, a.ans_score, a.ref_weights, a.ans_weights)
    else:
        s = ems_scores(a.match, a.score, len(a.ans_points), ref_weights=a.ref_weights)
    reason = s.reason or (f"{s.unscored} of {len(a.match)} points unscored" if s.unscored else "")
    return replace(a, recall=s.recall, precision=s.precision, f1=s.f1, unscored=s.unscored,
                   ans_score=s.ans_score, reason=reason)


def rescored(results: Sequence[EMSResult], scorer: Scorer | WholeScorer, pipeline: EMS) -> list[EMSResult]:
    """The same points and matches under another scorer: what tells EMS(ROUGE) from EMS(LLM) in the paper."""
    return EMS(pipeline.extractor, pipeline.matcher, scorer).score_alignments(results)


def references_by_id(triplets: Sequence[Triplet]) -> dict[str, str]:
    """Reference by triplet id; InputError when an id occurs twice."""
    by_id: dict[str, str] = {}
    for t in triplets:
        if t.id in by_id:
            raise InputError(f"triplet ids must be unique; {t.id!r} occurs more than once")
        by_id[t.id] = t.reference
    return by_id


def build(judge: Any = None, scorer: str = "local", *, encoder: str | None = None, prompts: Any = None,
          max_score: int | None = None, variant: str = "faithful") -> EMS:
    """The pipeline behind `ems score` and `ems evaluate`.

    Without a judge: sentence points, similarity matching and a scorer of rouge, bleu, bertscore, local or
    local-pair. With one, extraction and matching are the judge's, and `scorer` may also be llm, llm-expected
    (see `LLMScorer`) or llm-sides (both sides whole, see `SidesLLMScorer`). `encoder` names the model for
    bertscore (roberta-large if None), `max_score` the top of the judge's scale (10, or 9 for llm-expected, if
    None), `variant` the way a judge is asked for matches (`match.VARIANTS`; with "all" the llm scorer asks
    jointly as well). InputError for a scorer, a scale or a variant that does not go with the rest.
    """
    from .extract import LLMExtractor
    from .local.encoder import Encoder
    from .local.scorers import LocalScorer, PairScorer, SimilarityMatcher
    from .local.sentences import SentenceExtractor
    from .match import LLMMatcher
    from .score import BERTScorer, BLEUScorer, JointLLMScorer, LLMScorer, RougeScorer, SidesLLMScorer

    llm = JointLLMScorer if variant == "all" else LLMScorer
    judged: dict[str, Callable[[], Any]] = {
        "llm": lambda: llm(judge, prompts, max_score=max_score or 10),
        "llm-sides": lambda: SidesLLMScorer(judge, prompts, max_score=max_score or 10),
        "llm-expected": lambda: LLMScorer(judge, prompts, max_score=max_score or 9, expected=True)}
    local: dict[str, Callable[[], Scorer | WholeScorer]] = {
        "rouge": RougeScorer, "bleu": BLEUScorer,
        "bertscore": lambda: BERTScorer(Encoder(encoder or "roberta-large")),
        "local": LocalScorer, "local-pair": PairScorer}
    allowed = {**local, **(judged if judge is not None else {})}
    if scorer not in allowed:
        hint = f"; the {scorer} scorer needs a judge" if scorer in judged else ""
        raise InputError(f"scorer must be one of {', '.join(allowed)}, got {scorer!r}{hint}")
    if judge is None and variant != "faithful":
        raise InputError(f"variant {variant!r} is a way to ask a judge, and there is none")
    if judge is None:
        return EMS(SentenceExtractor(), None if scorer == "local" else SimilarityMatcher(), allowed[scorer]())
    matcher = None if scorer in ("local", "llm-sides") else LLMMatcher(judge, prompts, variant=variant)
    return EMS(LLMExtractor(judge, prompts), matcher, allowed[scorer]())


def batch_size(*judges: Any) -> int:
    """How many answers to lay before judges at once: so many that every worker is busy nearly to a stage's
    end.

    A judge may name its own (`batch`).
    """
    return max((getattr(judge, "batch", CHUNK) for judge in judges), default=CHUNK)


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


def _chunks(answers: Iterable[Answer], size: int, progress: bool) -> Iterator[list[Answer]]:
    source = iter(answers)
    total = len(answers) if isinstance(answers, Sized) else None
    with progress_bar("answers" if progress else "", total) as bar:
        while chunk := list(islice(source, size)):
            yield chunk
            bar.update(len(chunk))
