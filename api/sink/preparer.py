"""A process of the drain: it makes the derived tables of the lake, so that the next replay is quick.

The drain starts it as `python -m api.sink.preparer LAKE` after a merge of files. It only reads events, and what it makes can be
made again, so it may be killed at any moment. It gives way to the drain, and ends with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from ingest.errors import HindcastError
from ingest.maintain import Compacted
from pipeline.runs.lifetime import end_with_pipe

from .. import priorities
from ..damage import ENGINE_ERRORS

# Finding history costs one reading of the lake. It pays for itself if the lake has grown by this share since the last time.
_GROWN = 0.25
_TROUBLES: tuple[type[Exception], ...] = (HindcastError, *ENGINE_ERRORS)


class Preparer:
    """The process, if one was started."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self.process: subprocess.Popen[bytes] | None = None
        self._is_due = False

    def after(self, merged: Compacted) -> None:
        """Start the process once all small files are merged. Do nothing if no file was merged, or if the process still runs."""
        self._is_due = self._is_due or merged.files_before > 0
        if self._is_due and merged.is_whole and (self.process is None or self.process.poll() is not None):
            self._is_due = False
            command = [sys.executable, "-m", "api.sink.preparer", str(self._lake)]
            quiet = subprocess.DEVNULL
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True)

    def stop(self) -> None:
        """End the process now; the next one goes on with the rest."""
        if self.process is not None:
            if self.process.stdin is not None:
                self.process.stdin.close()
            self.process.kill()
            self.process.wait()
            self.process = None


def main(lake: Path) -> int:
    """Make the derived tables; returns an exit code."""
    from pipeline.readiness.prepared import prepare

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_pipe, daemon=True).start()
    os.nice(priorities.QUERY)
    try:
        prepare(lake, grown=_GROWN)
    except _TROUBLES:
        return 1  # the maintenance and `hindcast doctor` name damaged files
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
