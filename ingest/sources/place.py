"""Whether a name still leads to the file or folder that was opened: names can be deleted, moved, replaced and mounted over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

Identity = tuple[int, int]  # device and inode


def identity_of(path: Path | int) -> Identity:
    """The identity of a file, folder or open handle, independent of its name. Raises OSError."""
    status = os.stat(path)  # noqa: PTH116  (a handle, too)
    return status.st_dev, status.st_ino


class Place:
    """Some paths, and the file or folder that each led to at the start. Raises OSError when one of them does not exist."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._found = {path: identity_of(path) for path in paths}

    def why_displaced(self) -> str:
        """A sentence about the path that now leads somewhere else; empty while all lead to the opened files."""
        for path, opened in self._found.items():
            try:
                found = identity_of(path)
            except OSError as error:
                return f"{path} is gone: {error.strerror or error}"
            if found != opened:
                return f"{path} is another file than the opened one: it was replaced, or something was mounted over it"
        return ""
