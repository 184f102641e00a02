"""inspect_ai: a scorer with errors clustered by document; the model in the role "grader" judges."""

from functools import cache
from typing import Any

from anyio import from_thread, to_thread

from ..judge import Record, Request
from ..judge.endpoint import ENDINGS
from ..types import Answer, InputError, Triplet
from . import PARTS, evaluator, tool

inspect = tool("inspect_ai")
METRICS = [inspect.scorer.mean(), inspect.scorer.stderr(cluster="group")]


@cache  # one for each model, so that its evaluator is built once
class Grader:
    """An inspect model as a judge, for threads of inspect; a larger `max_tokens` leaves room for thinking."""

    def __init__(self, model: Any):
        self.model, self.name, self.config = model, str(model), model.config
        self.signature = {"judge": f"{self.name} {self.config.model_dump(exclude_none=True)}"}

    def ask(self, requests: list[Request], progress: str = "") -> list[Record]:
        return from_thread.run(inspect.util.collect, *map(self._ask, requests))

    async def _ask(self, request: Request) -> Record:
        room = {"max_tokens": max(request.max_tokens, self.config.max_tokens or 0)}
        output = await self.model.generate(request.prompt, config=self.config.merge(room))
        return Record(
            "", request.task, self.name, output.completion, ENDINGS.get(output.stop_reason, "stop")
        )


@inspect.scorer.scorer(metrics=dict.fromkeys(PARTS, METRICS))
def ems_scorer(scorer: str | None = None, joint: bool = False) -> Any:
    """Recall, precision and F1 of outputs against targets, nan where unscored; see `ems.build`."""

    async def score(state: Any, target: Any) -> Any:
        if "group" not in state.metadata:
            raise InputError(
                "a sample's metadata needs a 'group', such as its document; else give its id"
            )
        triplet = Triplet(
            str(state.sample_id), str(state.metadata["group"]), state.input_text, target.text
        )
        answers = [Answer(triplet.id, str(state.model), state.output.completion)]
        judge = (
            None
            if scorer == "local"
            else Grader(inspect.model.get_model(role="grader", required=True))
        )
        (result,) = await to_thread.run_sync(
            evaluator(judge, scorer, joint).evaluate, [triplet], answers
        )
        return inspect.scorer.Score(
            value={part: getattr(result, part) for part in PARTS},
            explanation=f"```text\n{result}```",
            metadata=result.to_dict(),
        )

    return score
