"""A process that ends with the one that started it, whatever it is doing."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it ends, where the kernel does that (Linux).

    `parent` is the process that must still be there. Everywhere else, whoever calls this has to look by itself.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it went before the kernel was asked
        os._exit(1)


def end_with_pipe() -> None:
    """Wait until whoever started this process closes its standard input, and end with everything that was started here.

    For a thread of its own, on every system.
    """
    while os.read(sys.stdin.fileno(), 1024):
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)
