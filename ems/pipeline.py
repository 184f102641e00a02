"""Extract, match and score over many answers; any extractor, matcher and scorer combine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from .batches import batch_size, check_known, in_batches, through, triplets_by_id
from .extract import Extractor
from .io import progress_bars
from .match import Matcher
from .metrics import ems_scores, side_scores
from .score import GroupScorer, Scorer, WholeScorer
from .support.stage import Supporter, contexts_by_id, support_ending, supported
from .types import Answer, EMSResult, InputError, Points, Triplet
from .variants.references import best_ending, best_of


class EMS:
    """The evaluation pipeline of the paper (section 2) from three interchangeable stages.

    A scorer of whole sides (`score.WholeScorer`) needs no matcher: pass None. A `supporter` checks every
    answer point against the triplet's context as well, beside the paper's metrics and without a change to
    them.
    """

    def __init__(self, extractor: Extractor, matcher: Matcher | None,
                 scorer: Scorer | GroupScorer | WholeScorer,
                 supporter: Supporter | None = None):
        if matcher is None and not isinstance(scorer, WholeScorer):
            raise InputError(f"the {scorer.name} scorer scores matched pairs and needs a matcher, got None")
        self.extractor, self.scorer, self.supporter = extractor, scorer, supporter
        self.matcher = None if isinstance(scorer, WholeScorer) else matcher

    @property
    def judges(self) -> list[Any]:
        """The distinct judges that the stages ask, if any."""
        judges = (getattr(stage, "judge", None) for stage in self._stages.values())
        return list({id(judge): judge for judge in judges if judge is not None}.values())

    @property
    def signature(self) -> str:
        """Everything that can change a result: version, stages with prompt hashes, judge and its decoding.

        Of several judges it says which stages each does.
        """
        from . import __version__

        stages = [f"{name}:{'none' if stage is None else stage.signature}"
                  for name, stage in self._stages.items()]
        return "|".join([f"ems:{__version__}", *stages, *(_judged(self._stages) or ["judge:none"])])

    @property
    def _stages(self) -> dict[str, Any]:
        """The stages by name, as signatures have them."""
        support = {} if self.supporter is None else {"support": self.supporter}
        return {"extract": self.extractor, "match": self.matcher, "score": self.scorer, **support}

    @property
    def unread(self) -> Counter[str]:
        """Replies that gave nothing usable so far, by stage and reason."""
        total: Counter[str] = Counter()
        for stage in self._stages.values():
            total.update(getattr(stage, "unread", {}))
        return total

    def score(self, reference: str, answer: str, context: str | None = None) -> EMSResult:
        """Evaluate one answer against one reference; a supporter checks it against `context`."""
        triplet = Triplet("answer", "answer", "", reference, context)
        return self.evaluate([triplet], [Answer("answer", "answer", answer)])[0]

    def evaluate(self, triplets: Sequence[Triplet], answers: Iterable[Answer], workers: int | None = None,
                 progress: bool = False) -> list[EMSResult]:
        """One result per answer, in the order of the answers, joined to the triplets by id.

        `workers` sets how many questions the judge may have under way. InputError for an answer to an unknown
        triplet or a repeated triplet id, and with a supporter for a triplet without context.
        """
        return list(self.stream(triplets, answers, workers=workers, progress=progress))

    def stream(self, triplets: Sequence[Triplet], answers: Iterable[Answer], workers: int | None = None,
               progress: bool = False) -> Iterator[EMSResult]:
        """As `evaluate`, result by result with flat memory: answers may come from a generator.

        A reference is extracted once, however many answers there are to it. Where a triplet has several, an
        answer's result is that with the reference of the highest F1, and the signature says so.
        """
        for judge in self.judges:
            if workers is not None and hasattr(judge, "workers"):
                judge.workers = workers
        by_id = triplets_by_id(triplets)
        most = max((len(t.others) for t in triplets), default=0)
        contexts = {} if self.supporter is None else contexts_by_id(triplets)
        extracted: dict[str, Points | None] = {}

        def stages(triplets: Mapping[str, Triplet], batch: Sequence[Answer]) -> list[EMSResult]:
            return self.score_alignments(self.align(triplets, batch, extracted))

        def evaluated(batch: Sequence[Answer]) -> list[EMSResult]:
            with progress_bars(progress):          # without progress the stages draw no bars either
                results = best_of(most, by_id, batch, stages) if most else stages(by_id, batch)
                return results if self.supporter is None else supported(results, contexts, self.supporter)

        yield from through(in_batches(answers, batch_size(*self.judges), progress), evaluated)

    def align(self, triplets: Mapping[str, Triplet], answers: Sequence[Answer],
              extracted: dict[str, Points | None] | None = None) -> list[EMSResult]:
        """Stages 1 and 2: points of both sides and their matches, without scores. `triplets` is by id.

        `extracted` keeps the points of references from call to call. A text that occurs twice is extracted
        once, and a reference whose points are given not at all.
        """
        check_known(answers, triplets)
        extracted = {} if extracted is None else extracted
        wanted = [t.reference for t in (triplets[a.triplet_id] for a in answers) if not t.points]
        texts = list(dict.fromkeys([t for t in wanted if t not in extracted] + [a.answer for a in answers]))
        points = dict(zip(texts, self.extractor(texts), strict=True))
        extracted.update({text: points[text] for text in wanted if text in points})
        alignments = [_unmatched(a, triplets[a.triplet_id], extracted, points[a.answer]) for a in answers]
        if self.matcher is None:
            return alignments
        readable = [i for i, a in enumerate(alignments) if not a.lost]
        matches = self.matcher([(alignments[i].ref_points, alignments[i].ans_points) for i in readable])
        for i, match in zip(readable, matches, strict=True):
            alignments[i] = replace(alignments[i], match=match)
        return alignments

    def score_alignments(self, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """Stage 3 on given points and matches, and the metrics; whatever scores they had are replaced.

        InputError for a scorer of pairs and alignments by a scorer of whole sides, which have no matches.
        """
        if not isinstance(self.scorer, WholeScorer) and any(a.whole_sides for a in alignments):
            raise InputError(f"the {self.scorer.name} scorer needs matches; these results have none, but the "
                             "nearest points that a scorer of whole sides names; evaluate the answers anew")
        bare = [replace(a, ans_score=(), ans_match=(), ref_weights=a.ref_weights if a.given else (),
                        ans_weights=(), whole_sides=False) for a in alignments]
        if isinstance(self.scorer, WholeScorer):
            scored = self._covered(self.scorer, bare)
        else:
            scored = self._paired(self.scorer, bare)
        signature = self.signature
        return [with_metrics(replace(a, signature=signature)) for a in scored]

    @staticmethod
    def _paired(scorer: Scorer | GroupScorer, alignments: Sequence[EMSResult]) -> list[EMSResult]:
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
            replace(a, score=tuple(None if j is None else 0.0 if j < 0 else next(scores) for j in a.match))
            for a in alignments
        ]

    @staticmethod
    def _covered(scorer: WholeScorer, alignments: Sequence[EMSResult]) -> list[EMSResult]:
        """The scores of each point against the whole other side, as the scorer gives them."""
        covered = iter(scorer.cover([a for a in alignments if not a.lost]))
        return [replace(a if a.lost else next(covered), whole_sides=True) for a in alignments]


def _judged(stages: Mapping[str, Any]) -> list[str]:
    """The judges of the stages, each by its signature; where there are several, after the stages it does."""
    by: dict[str, list[str]] = {}
    for name, stage in stages.items():
        if (judge := getattr(stage, "judge", None)) is not None:
            by.setdefault(judge.signature, []).append(name)
    return [s if len(by) == 1 else f"{','.join(names)} by {s}" for s, names in by.items()]


def _unmatched(answer: Answer, triplet: Triplet, extracted: Mapping[str, Points | None],
               ans: Points | None) -> EMSResult:
    """An alignment after stage 1: matches and scores are not known yet."""
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
        unscored, points = s.unscored + s.ans_score.count(None), len(a.match) + len(a.ans_points)
    else:
        s = ems_scores(a.match, a.score, len(a.ans_points), ref_weights=a.ref_weights)
        unscored, points = s.unscored, len(a.match)
    reason = s.reason or (f"{unscored} of {points} points unscored" if unscored else "")
    return replace(a, recall=s.recall, precision=s.precision, f1=s.f1, unscored=unscored,
                   ans_score=s.ans_score, reason=reason)


def rescored(results: Sequence[EMSResult], scorer: Scorer | GroupScorer | WholeScorer,
             pipeline: EMS) -> list[EMSResult]:
    """The same points and matches under another scorer: what tells EMS(ROUGE) from EMS(LLM) in the paper.

    Of several references it is the one that was best before, and the signature goes on to say so, as it does
    of support that was added. InputError for a scorer of pairs and results of a scorer of whole sides.
    """
    again = EMS(pipeline.extractor, pipeline.matcher, scorer, pipeline.supporter).score_alignments(results)
    kept = (best_ending(before.signature) + ("" if pipeline.supporter else support_ending(before.signature))
            for before in results)
    return [replace(r, signature=r.signature + ending) for r, ending in zip(again, kept, strict=True)]
