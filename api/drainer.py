"""The second process of `serve`: stores what the spool holds, until the server that started it goes away.

It reads its settings from the environment. Its standard input is a pipe that nobody writes to; when that closes the server is gone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from types import FrameType

import structlog

from ingest.drain import drain
from ingest.errors import HindcastError
from ingest.lake import Lake

from . import logs
from .settings import Settings

_NICENESS = 10  # acknowledgements go first
_log = structlog.get_logger("hindcast.drain")


class _Stop:
    """True once a signal came or the server's end of the pipe closed."""

    def __init__(self) -> None:
        self._signalled = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def __call__(self) -> bool:
        return self._signalled or self._parent_is_gone(0.0)

    def wait(self, seconds: float) -> bool:
        """Sleep until the time is over or there is a reason to stop."""
        return self._signalled or self._parent_is_gone(seconds) or self._signalled

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True

    def _parent_is_gone(self, seconds: float) -> bool:
        readable, _, _ = select.select([sys.stdin], [], [], seconds)
        return bool(readable) and not os.read(sys.stdin.fileno(), 1)


def main() -> int:
    """Drain until told to stop; a last round stores what the server sealed while it ended. Returns an exit code."""
    settings = Settings.read(os.environ)
    logs.configure(settings.log_level, as_json=settings.log_json)
    os.nice(_NICENESS)
    stop = _Stop()
    try:
        with Lake.create(settings.lake).writer() as writer:
            while True:
                stopping = stop()
                counts = drain(writer, settings.spool, stop if not stopping else lambda: False)
                if counts.read:
                    _log.info("stored", events=counts.stored, duplicate=counts.duplicate, quarantined=counts.quarantined)
                if stopping:
                    return 0
                stop.wait(settings.drain_interval_seconds / 4)
    except HindcastError as error:
        _log.error("drain_failed", error=str(error))
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
