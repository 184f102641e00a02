"""A scorer for inspect_ai. The model in the role "grader" judges; errors are clustered by group."""

from functools import cache
from typing import Any

from anyio import from_thread, to_thread

from ..judge import Record, Request
from ..judge.endpoint import ENDINGS
from ..types import Answer, InputError, Triplet
from . import METRIC_PARTS, evaluator, tool

inspect = tool("inspect_ai")
_STATISTICS = [inspect.scorer.mean(), inspect.scorer.stderr(cluster="group")]


@cache  # one for each model, so that its evaluator is built once
class Grader:
    """A model of inspect as a judge, to be asked from a thread that inspect has started.

    Where the model's own `max_tokens` is larger than a request's, that leaves room for thinking.
    """

    def __init__(self, model: Any):
        self.model = model
        self.name = str(model)
        self.config = model.config
        self.signature = {"judge": f"{self.name} {self.config.model_dump(exclude_none=True)}"}

    def ask(self, requests: list[Request], progress: str = "") -> list[Record]:
        return from_thread.run(inspect.util.collect, *map(self._ask, requests))

    async def _ask(self, request: Request) -> Record:
        max_tokens = max(request.max_tokens, self.config.max_tokens or 0)
        config = self.config.merge({"max_tokens": max_tokens})
        output = await self.model.generate(request.prompt, config=config)
        finish_reason = ENDINGS.get(output.stop_reason, "stop")
        return Record("", request.task, self.name, output.completion, finish_reason)


@inspect.scorer.scorer(metrics=dict.fromkeys(METRIC_PARTS, _STATISTICS))
def ems_scorer(scorer: str | None = None, joint: bool = False) -> Any:
    """Recall, precision and F1 of outputs against targets, nan where unscored; see `ems.build`.

    With scorer "local" no judge is asked, and the explanation warns that words are compared.
    """

    async def score(state: Any, target: Any) -> Any:
        if "group" not in state.metadata:
            raise InputError(
                "a sample's metadata needs a 'group', such as its document; else give its id"
            )
        group = str(state.metadata["group"])
        triplet = Triplet(str(state.sample_id), group, state.input_text, target.text)
        answer = Answer(triplet.id, str(state.model), state.output.completion)
        judge = None
        if scorer != "local":
            judge = Grader(inspect.model.get_model(role="grader", required=True))
        evaluate = evaluator(judge, scorer, joint).evaluate
        (result,) = await to_thread.run_sync(evaluate, [triplet], [answer])
        return inspect.scorer.Score(
            value={part: getattr(result, part) for part in METRIC_PARTS},
            answer=answer.answer,
            explanation=f"```text\n{result}```",
            metadata=result.to_dict(),
        )

    return score
