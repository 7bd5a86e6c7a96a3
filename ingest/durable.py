"""Writing files so that they are there, whole, after a power cut: write, sync, rename, sync the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def write_durably(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file next to `path`, then give it its name. Readers never see a half-written file.

    Raises OSError, also when the disk is full; then nothing is left behind.
    """
    if not path.parent.is_dir():
        make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.tmp")
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
