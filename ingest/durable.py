"""Writing files whole: under a name that no other process uses, then renamed. `write_durably` also syncs for a power cut."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def own_name(path: Path) -> Path:
    """A name next to a path for its unfinished content. No other process or thread has it, also none of another machine."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def write_whole(path: Path, content: bytes) -> None:
    """Give a file new content: readers see all of it or the content before, also while other processes write the same file.

    Raises OSError; then nothing is left behind.
    """
    unfinished = own_name(path)
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def write_durably(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file next to `path`, then give it its name. Readers never see a half-written file.

    Raises OSError, also when the disk is full; then nothing is left behind.
    """
    if not path.parent.is_dir():
        make_folder(path.parent)
    temporary = own_name(path)
    try:
        write(temporary)
        handle = os.open(temporary, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and its parents so that their names survive a power cut, even if an interrupted process made some of them.

    Raises OSError.
    """
    missing = [above for above in (folder, *folder.parents) if not above.is_dir()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for made in missing or (folder,):
        sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
