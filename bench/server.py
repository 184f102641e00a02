"""A judge that counts words, in a process of its own, so that its work is not counted as the kit's.

`python bench/server.py SECONDS SECONDS_PER_TOKEN` prints its address. A reply takes a fixed time,
and a time for each of its tokens. A token is a word here.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from loopback import Fault, Loopback, by_words


def main(latency: float, seconds_per_token: float) -> None:
    def slow(number: int, body: dict) -> Fault | None:
        if not seconds_per_token:
            return None
        return Fault(delay=seconds_per_token * len(by_words(body).split()))

    with Loopback(by_words, latency=latency, faults=slow) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
