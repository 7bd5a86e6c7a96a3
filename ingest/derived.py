"""Data that is derived from the events of a lake: `LAKE/derived`. Rooms above make it, and make it again when it is gone.

It may hold values of bodies. So what retention takes out of a lake has to leave this folder too, at once.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .errors import LakeError

FOLDER = "derived"


def derived_folder(lake: str | Path) -> Path:
    """Where data that is derived from a lake is kept."""
    return Path(lake) / FOLDER


def forget_derived(lake: str | Path) -> None:
    """Delete all that is derived from a lake. Raises LakeError if some of it cannot be deleted."""
    folder = derived_folder(lake)
    try:
        if folder.is_dir():
            shutil.rmtree(folder)
    except FileNotFoundError:
        return  # a replay removes what it has replaced
    except OSError as error:
        raise LakeError(f"{folder}: cannot be deleted: {error.strerror}", "fix the owner of the lake") from error
