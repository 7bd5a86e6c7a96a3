"""The kind of a run, and whether it is in use: marks in its folder, next to the plan.

The plan cannot hold the kind: its digest names the run, and one run may serve both as a replay and as the base of another one.
A mark is an empty file. Its time says when the run was last asked for.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path

_PREFIX = "made-as-"


class RunKind(StrEnum):
    """The purpose of a run; a run of several kinds is called by the first of them."""

    REPLAY = "replay"  # policies that a user asked about
    CALIBRATION = "calibration"  # the policies bound at the time, to compare with the record
    BASE = "base"  # the version before, for comparison with another replay
    FLEET = "fleet"  # policies on one cluster of a fleet
    TRIAL = "trial"  # policies with exemptions, kept only during the trial


def mark_kind(folder: Path, kind: RunKind) -> None:
    """Mark in a run's folder that it was requested as this kind, now."""
    (folder / f"{_PREFIX}{kind}").touch()


def asked_ns(folder: Path) -> dict[RunKind, int]:
    """When a run was last requested as each kind, in nanoseconds; empty for a run of an earlier version of Hindcast."""
    found = {}
    for kind in RunKind:
        try:
            found[kind] = (folder / f"{_PREFIX}{kind}").stat().st_mtime_ns
        except FileNotFoundError:
            continue
    return found


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep a run from being removed while the context lasts. Several may use one run at a time."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@contextmanager
def in_use_if_there(folder: Path) -> Iterator[None]:
    """As in_use, for a folder that need not exist."""
    with ExitStack() as used:
        with suppress(FileNotFoundError, NotADirectoryError):
            used.enter_context(in_use(folder))
        yield


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Whether a run is not in use; if so, no process can begin to use it while the context lasts."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
