"""Limits the resources of a replay or a command. The kernel enforces the bounds against any policy."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ingest.errors import HindcastError, InputError

# A replay process cannot start with less.
MEMORY_BYTES_MIN = 512 * 1024**2
_GIB = 1024**3
_DEFAULT_MOST = 4 * _GIB
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def memory_bytes(given: int) -> int:
    """The memory limit of a replay: the given one, or half of the memory of this machine or container, at most 4 GiB."""
    return given or min(_machine_bytes() // 2, _DEFAULT_MOST)


def command_memory_bytes(given: int) -> int:
    """The memory limit of each process of a command: the given one, or three quarters of the memory of the machine or container.

    Raises InputError for less than a replay needs to start.
    """
    if given and given < MEMORY_BYTES_MIN:
        raise InputError(
            f"--memory-bytes-max is {given}, a replay does not start with less than {MEMORY_BYTES_MIN}",
            "0 takes three quarters of the machine's memory",
        )
    return given or max(_machine_bytes() * 3 // 4, MEMORY_BYTES_MIN)


def _machine_bytes() -> int:
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # `max` means unlimited
        found = min(found, int(_CGROUP.read_text()))
    return found


def memory_in_force() -> int | None:
    """The bound on the memory of this process, or None."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if limit == resource.RLIM_INFINITY else limit


def out_of_memory(error: Exception) -> HindcastError:
    """The error for a user when memory ran out, with the bound in force."""
    limit, hint = memory_in_force(), "narrow the question with --since and --until"
    lines = str(error).strip().splitlines()
    problem = f"there is not enough memory: {lines[0] if lines else error.__class__.__name__}"
    if limit is None:
        return HindcastError(problem, hint)
    return HindcastError(
        f"{problem}; each process of this command may take {limit // 1024**2:,} MiB",
        f"{hint}, give fewer policies, or raise --memory-bytes-max where the machine has more",
    )


@contextmanager
def bounded_memory(memory_bytes_max: int) -> Iterator[None]:
    """While the context lasts, this process and each process that it starts have this memory bound, or a lower one in force.

    The bound counts the memory that a process writes to (RLIMIT_DATA): mapped files and reserved addresses are free.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    in_force = [limit for limit in (before, hard) if limit != resource.RLIM_INFINITY]
    with suppress(OSError, ValueError):  # a system without such a limit
        resource.setrlimit(resource.RLIMIT_DATA, (min([memory_bytes_max, *in_force]), hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def confine(memory_bytes_max: int, processor_seconds_max: int, output_bytes_max: int) -> None:
    """Bound the memory of this process and of each that it starts, its processor time, and the size of a file that it writes.

    A process beyond its memory gets a MemoryError, or the kernel ends it. SIGXCPU ends one beyond its processor time.
    """
    _lower(resource.RLIMIT_DATA, memory_bytes_max)
    _lower(resource.RLIMIT_CPU, processor_seconds_max, more=1)
    _lower(resource.RLIMIT_FSIZE, output_bytes_max)  # a larger file raises EFBIG: Python ignores the signal
    _lower(resource.RLIMIT_CORE, 0)


def processor_seconds(seconds_max: float) -> int:
    """The processor time that a process can use in so many seconds on this machine, with all of its threads."""
    return int(seconds_max * (os.cpu_count() or 1)) + 1


def _lower(kind: int, most: int, more: int = 0) -> None:
    """Set a limit, but never above one in force. With `more`, the kernel sends a signal that says why before it kills."""
    _, hard = resource.getrlimit(kind)
    limits = [limit if hard == resource.RLIM_INFINITY else min(limit, hard) for limit in (most, most + more)]
    with suppress(OSError, ValueError):  # a system without such a limit
        resource.setrlimit(kind, (limits[0], limits[1]))
