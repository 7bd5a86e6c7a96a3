"""The files of a spool: their names, a list of them, and the lock that one process holds on their folder."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from ..durable import make_folder
from ..errors import LakeError

SEALED_SUFFIX = ".jsonl.zst"
OPEN_SUFFIX = ".open"


def segment_name(path: Path) -> str:
    """The name of a segment, open or sealed; it is never used again."""
    return path.name.removesuffix(SEALED_SUFFIX).removesuffix(OPEN_SUFFIX)


def sealed_path(path: Path) -> Path:
    """Where an open segment lies once it is sealed."""
    return path.with_name(path.name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX)


def sealed_segments(directory: Path) -> list[Path]:
    """The sealed segments of a spool, oldest first. Read one with `read_segment`; unlink it once its rows are committed."""
    return sorted(path for path in directory.iterdir() if path.name.endswith(SEALED_SUFFIX)) if directory.is_dir() else []


def segment_files(directory: Path) -> list[Path]:
    """All segments of a spool, oldest first, with the one that is being written."""
    names = (SEALED_SUFFIX, OPEN_SUFFIX)
    return sorted(path for path in directory.iterdir() if path.name.endswith(names)) if directory.is_dir() else []


def is_segment_there(directory: Path, name: str) -> bool:
    """Whether a segment is open or sealed in a spool, and not removed yet."""
    # Look in this order: a segment may be sealed between the two looks, but never opened again.
    return any((directory / f"{name}{suffix}").exists() for suffix in (OPEN_SUFFIX, SEALED_SUFFIX))


def segments_bytes(directory: Path) -> int:
    """The compressed bytes of all segments of a spool. Raises OSError if the folder is missing."""
    found = 0
    for path in directory.iterdir():
        if path.name.endswith((SEALED_SUFFIX, OPEN_SUFFIX)):
            # The drain may remove a segment, or another sender seal it, between the listing and this look.
            with suppress(FileNotFoundError):
                found += path.stat().st_size
    return found


def lock_folder(directory: Path) -> int:
    """Create the folder if needed and lock it, so that two servers never repair each other's open segment.

    Returns the handle of its lock file, which holds the lock until it is closed and takes the mark (mark.py). Raises LakeError.
    """
    try:
        make_folder(directory, 0o700)
        handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LakeError(
            f"{directory}: the spool cannot be written: {error.strerror}", "choose another --lake or fix its owner"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise LakeError(
            f"{directory}: another process is writing this spool", "stop the other server or choose another --lake"
        ) from error
    return handle
