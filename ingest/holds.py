"""Holds: a reader that asks several questions about one state of a lake keeps that state's files on disk.

Compaction and retention take files out of the manifest at once and delete them later. `LAKE/.holds/` has one file for each reader
that needs files longer. The file's name is the time; a lock on it shows that the reader lives. A killed reader loses the lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = ".holds"
# No reader keeps files longer than this: a stopped and forgotten reader must not fill the disk.
HOLD_SECONDS_MAX = 86_400.0


@contextmanager
def hold_files(lake: Path, now_ts: float) -> Iterator[None]:
    """Keep on disk every file that the lake lists from `now_ts` (seconds since the epoch) on, until the context ends.

    Where the lake is not there or cannot be written, files are kept only for the time that every reader has.
    """
    handle, path = _locked(lake, now_ts)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            os.close(handle)


def _locked(lake: Path, now_ts: float) -> tuple[int | None, Path]:
    path = lake / FOLDER / f"{now_ts:.3f}-{os.urandom(4).hex()}"
    if not lake.is_dir():
        return None, path
    unlocked = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(exist_ok=True)
        handle = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError:
        return None, path
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        unlocked.rename(path)  # a file without a lock would be taken for that of a dead reader
    except OSError:
        os.close(handle)
        return None, path
    return handle, path


def oldest_hold(lake: Path, now_ts: float) -> float | None:
    """The time (seconds since the epoch) of the oldest hold of a living reader; those of dead ones are removed."""
    found: list[float] = []
    for path in sorted((lake / FOLDER).glob("*")):
        with suppress(OSError, ValueError):
            held_ts = float(path.name.partition("-")[0])
            if now_ts - held_ts > HOLD_SECONDS_MAX:
                path.unlink()
            elif path.suffix == ".new" or _is_locked(path):
                found.append(held_ts)
            else:
                path.unlink()
    return min(found, default=None)


def _is_locked(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
