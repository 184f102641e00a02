"""What a profile says of a model behind an endpoint, be it a judge or a model that writes answers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..types import InputError
from .client import LLMJudge
from .store import Replies

Count = Annotated[int, Field(ge=0)]


class ModelEndpoint(BaseModel):
    """A model behind an endpoint, as a profile names it. Never a key, only the name of its variable.

    Values of another kind are refused, not converted; errors never repeat a value, which may be a key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    model: str = Field(min_length=1)    # its name in answers and tables
    served: str = ""                    # its name at the endpoint; "" = the same
    base_url: str = ""                  # its address; "" = OPENAI_BASE_URL
    key_env: str = ""                   # variable that holds its key; "" = OPENAI_API_KEY; "none" = no key
    weights: str = ""                   # revision of its weights, if known
    temperature: float | None = 0.0     # of its replies; None sends none
    top_p: float | None = None
    seed: int | None = 7
    thinking_tokens: Count = 0          # tokens of a reply beyond what its task needs, to think in
    context_tokens: Count = 0           # what it can read, its answer included; 0 = not known, no limit
    context_chars: Count | None = None  # most of a document to show it; 0 = closed book; None = all that fits
    max_tokens: Count = 800             # longest answer
    prices: dict[str, Any] | None = None    # money for a million tokens: {prompt, completion, cached}
    spend_limit: float = Field(0.0, ge=0)   # money it may cost, in the currency of its prices; 0 = no limit
    recorded: bool = False              # never ask it, whatever MODE says: REPLIES has all of its replies

    @field_validator("key_env")
    @classmethod
    def _names_a_variable(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|none|", name):
            raise ValueError("must name an environment variable, such as MISTRAL_API_KEY")
        return name

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> ModelEndpoint:
        """From a profile's entry. InputError for an unknown name, a value of another kind, or a key in it."""
        fields = list(cls.model_fields)
        try:
            return cls.model_validate(entry)
        except ValidationError as error:
            problems = {".".join(map(str, problem["loc"])): problem for problem in error.errors()}
        if problems.keys() & {"", "model"}:
            raise InputError(f"a model is given as {{model: NAME, ...}}, with any of {', '.join(fields[1:])}")
        if unknown := sorted(name for name, problem in problems.items()
                             if problem["type"] in ("extra_forbidden", "invalid_key")):
            raise InputError(f"model {entry['model']}: {', '.join(unknown)} unknown; there are "
                             f"{', '.join(fields)}. A key is never given, key_env names the environment "
                             "variable that holds it")
        name, problem = next(iter(problems.items()))
        what = problem["msg"].removeprefix("Value error, ")
        raise InputError(f"model {entry['model']}: {name}: {what[0].lower()}{what[1:]}")

    def judge(self, store: Replies | None = None, *, mode: str = "live", workers: int = 32,
              timeout: float = 3600.0) -> LLMJudge:
        """The model, ready to be asked. InputError when the variable of its key is named but empty.

        `timeout`: seconds for one reply, its retries included; long documents take long.
        """
        key = os.environ.get(self.key_env, "").strip() if self.key_env not in ("", "none") else self.key_env
        if self.key_env and not key and mode in ("live", "refresh"):
            # Another service's key must not be sent to this address instead.
            raise InputError(f"model {self.model}: no key in {self.key_env}; set that environment variable")
        return LLMJudge(self.served or self.model, store=store, mode=mode, base_url=self.base_url or None,
                        api_key=key or None, weights=self.weights or None, temperature=self.temperature,
                        top_p=self.top_p, seed=self.seed, thinking_tokens=self.thinking_tokens,
                        workers=workers, timeout=timeout, prices=self.prices, spend_limit=self.spend_limit)
