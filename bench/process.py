"""Commands in processes of their own: their time, their memory, their output."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data" / "q3-2024"
Row = tuple[str, str, str]  # what was measured, its value, the ratio to compare


class Finished(NamedTuple):
    """A process that has ended."""

    seconds: float
    memory: float  # the peak, in MiB
    output: str


def run(*command: Any) -> Finished:
    """Run a Python command. RuntimeError when it fails; exit status 3 is a result as well."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, resources = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise RuntimeError(f"{command[:4]} ended with status {process.returncode}")
    return Finished(time.perf_counter() - start, resources.ru_maxrss / 1024, output)


def quickest(*command: Any) -> float:
    """The shortest time of five runs, in seconds."""
    return min(run(*command).seconds for _ in range(5))
