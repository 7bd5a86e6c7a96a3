"""What a run was made for, and that it is in use: marks in its folder, next to the plan.

The plan cannot hold the kind: its digest names the run, and a replay that is also the version before of another one is one run.
A mark is an empty file. Its time says when the run was last asked for.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

_PREFIX = "made-as-"


class RunKind(StrEnum):
    """What a run was made for; the first one of several is what it is called."""

    REPLAY = "replay"  # policies that somebody wants to know about
    CALIBRATION = "calibration"  # what was bound at the time, to compare with the record
    BASE = "base"  # the version before, which another replay is compared with
    TRIAL = "trial"  # policies with exemptions, for as long as these are tried


def mark_kind(folder: Path, kind: RunKind) -> None:
    """Keep in a run's folder that it was asked for as this kind, now."""
    (folder / f"{_PREFIX}{kind}").touch()


def asked_ns(folder: Path) -> dict[RunKind, int]:
    """When a run was last asked for as each kind, in nanoseconds; empty for a run of an earlier version of Hindcast."""
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
def unused(folder: Path) -> Iterator[bool]:
    """Whether nothing uses a run; where that is so, nothing begins to while the context lasts."""
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
