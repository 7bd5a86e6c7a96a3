"""Ends a process when the process that started it ends, even in the middle of work."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends, where the kernel does that (Linux).

    `parent` is the process that must still exist. On other systems the caller must check by itself whether the parent exists.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


def end_with_pipe() -> None:
    """Wait until the parent of this process closes its standard input, then end this process and all that it started.

    For a thread of its own, on every system.
    """
    while os.read(sys.stdin.fileno(), 1024):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
