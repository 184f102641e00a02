"""The command line: which command is run, and how it ends. `commands/` has what each does, and its options.

Exit 0 done, 2 bad input, 3 coverage too low; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

from .commands.output import say
from .commands.parser import parse
from .types import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. One line on stderr says what was wrong with the input."""
    from . import __version__

    if isinstance(sys.stdout, io.TextIOWrapper):       # not every terminal has a dash or an arrow
        sys.stdout.reconfigure(errors="replace")
    args = parse(__version__, argv)
    stopped: list[int] = []
    try:
        with _terminable(stopped):
            return _run(args)
    except InputError as error:
        say(error)
        return 2
    except KeyboardInterrupt as stop:
        say(stop.args[0] if stop.args else "stopped")
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    except BrokenPipeError:      # `ems ... | head` has read enough
        sys.stdout = open(os.devnull, "w")
        return 0
    except OSError as error:
        if error.errno == errno.ENOSPC:
            say("the disk is full; make room and give the same command again: no saved reply is lost")
        elif error.filename is None:
            raise
        else:
            say(f"{error.filename} cannot be written or read ({error.strerror}); name another place")
        return 2


def _run(args: argparse.Namespace) -> int:
    """Run the command that was named, whose module is loaded only now; the help without one."""
    if args.run is None:
        args.parser.print_help()
        return 0
    module, _, name = args.run.rpartition(".")
    return getattr(import_module(f"ems.commands.{module}"), name)(args)


@contextmanager
def _terminable(stopped: list[int]) -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, with replies on their way saved; `stopped` gets its number."""
    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():      # where alone signals can be handled
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
