"""What one replay may take of the machine: bounds that the kernel keeps, whatever the replay does."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

_GIB = 1024**3
_DEFAULT_MOST = 4 * _GIB
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(given: int) -> int:
    """The memory that a replay may take: what was given, or half of what this machine or container has, at most 4 GiB."""
    if given:
        return given
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # `max` stands for no limit
        found = min(found, int(_CGROUP.read_text()))
    return min(found // 2, _DEFAULT_MOST)


def confine(memory_bytes_max: int, seconds_max: float) -> None:
    """Bound the memory of this process and of each that it starts, and its processor time.

    Who exceeds the memory gets a MemoryError, or is ended. Processor time ends a process that lost whoever would end it.
    """
    _lower(resource.RLIMIT_DATA, memory_bytes_max)
    _lower(resource.RLIMIT_CPU, int(seconds_max * (os.cpu_count() or 1)) + 1)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(kind: int, most: int) -> None:
    """Set a limit, but none above one that is in force."""
    _, hard = resource.getrlimit(kind)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with suppress(OSError, ValueError):  # a system that knows no such limit
        resource.setrlimit(kind, (limit, limit))
