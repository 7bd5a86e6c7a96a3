"""Priorities on a busy machine: nice values, each added to the nice value of the parent process.

Acknowledging comes first and is not niced. Storing comes next: the views show only stored events, and a starved drain falls behind
without end. Questions get the rest, because one question can use every core. At a difference of seven, the drain gets nearly five
times the processor time of one answering thread (sched(7)). On an idle machine these values cost no process anything.

Loading takes about two seconds of processor time, and the first page is bounded, too. So a process that answers questions is niced
only after both. Niced from its first line on, it took 26 s to load on a busy machine.
"""

import os
from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")

DRAIN = 3
QUERY = 10
REPLAY = 5  # its parent answers questions


def give_way(nice: int) -> None:
    """Add to the nice value of every thread of this process. On Linux each has its own, and new ones inherit it (sched(7))."""
    if not _THREADS.is_dir():
        os.nice(nice)
        return
    wanted = os.getpriority(os.PRIO_PROCESS, 0) + nice
    for thread in _THREADS.iterdir():
        with suppress(ProcessLookupError):  # the thread has just ended
            os.setpriority(os.PRIO_PROCESS, int(thread.name), wanted)
