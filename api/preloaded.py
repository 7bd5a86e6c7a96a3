"""A process that has loaded the application, and forks the one that serves it: whatever ends that one, the next is there at once.

Loading takes two seconds of a processor, and ten times as long on a machine that is busy. A process that answers questions is
mostly ended by one question: by its memory, or by a defect in a library. So the process that loads takes no question. It shares the
memory of what it loaded with the one that serves, and runs no Python thread when it forks.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable

import structlog

# One that ends sooner would end again: then the supervisor waits longer and longer, and loads everything once more.
_WELL_AFTER_SECONDS = 2.0

RESTARTED = "restarted"  # what is printed then, for the supervisor

_log = structlog.get_logger("hindcast.query")


def serve_in_forks(serve: Callable[[], int], on_restart: Callable[[], None]) -> int:
    """Run `serve` in a process of its own, and again when a signal ended it; returns an exit code.

    It ends when `serve` returns, when it is told to, and at once when standard input ends, because then its server is gone.
    """
    while True:
        started = time.monotonic()
        child = _forked(serve)
        code = _end_of(child)
        if code >= 0 or time.monotonic() - started < _WELL_AFTER_SECONDS:
            return code if code >= 0 else 1
        _log.error("query_ended", exit_code=code, again_in_seconds=0)
        on_restart()


def _forked(serve: Callable[[], int]) -> int:
    # Imported here, because it brings the pipeline with it; by now that is loaded.
    from pipeline.replay.lifetime import end_with_parent

    loader = os.getpid()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        end_with_parent(loader)
        code = serve()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_of(child: int) -> int:
    """The exit code of the child, negative for a signal. What this process is told to, the child is told."""
    told = False

    def tell(number: int, frame: object) -> None:
        nonlocal told
        told = True
        os.kill(child, number)

    before = {number: signal.signal(number, tell) for number in (signal.SIGTERM, signal.SIGINT)}
    handle = os.pidfd_open(child)
    try:
        while True:
            ready, _, _ = select.select([handle, sys.stdin.fileno()], [], [])
            if handle in ready:
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                return max(code, 0) if told else code
            if not os.read(sys.stdin.fileno(), 1024):
                os._exit(0)  # the kernel ends the child
    finally:
        os.close(handle)
        for number, handler in before.items():
            signal.signal(number, handler)
