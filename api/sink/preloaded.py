"""A process that loads the application and forks the process that serves it. When that one ends for any reason, the next starts at
once.

Loading takes two seconds of processor time, and ten times as long on a busy machine. A process that answers questions mostly dies
of one question: of its memory use, or of a defect in a library. So the loading process takes no questions. It shares its loaded
memory with the serving process, and runs no Python thread when it forks.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable

import structlog

# A process that ends sooner would end again. Then the supervisor waits longer and longer, and loads everything again.
_WELL_AFTER_SECONDS = 2.0

RESTARTED = "restarted"  # printed after a restart, for the supervisor

_log = structlog.get_logger("hindcast.query")


def serve_in_forks(serve: Callable[[], int], on_restart: Callable[[], None]) -> int:
    """Run `serve` in a process of its own, and restart it when a signal ended it; returns an exit code.

    It ends when `serve` returns, on a termination signal, and at once when standard input ends, because then its server is gone.
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
    # Imported here, because it imports the pipeline; by now that is loaded.
    from pipeline.runs.lifetime import end_with_parent

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
    """The exit code of the child, negative for a signal. Signals to this process are passed to the child."""
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
