"""A file that is read again when it changes, so that operators can rotate its content while the server runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from ingest.errors import InputError

Content = TypeVar("Content")

_log = structlog.get_logger("hindcast.files")


class WatchedFile(Generic[Content]):
    """The current content of a file. Raises InputError when it cannot be read at first; later the old content stays, and the
    error is logged."""

    def __init__(self, path: Path, read: Callable[[Path], Content]) -> None:
        self._path = path
        self._read = read
        self._stamp = _stamp(path)
        self._content = read(path)

    @property
    def content(self) -> Content:
        """The content; this checks the file's modification time, which costs microseconds."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._content = self._read(self._path)
            except InputError as error:
                _log.error("file_not_reloaded", file=str(self._path), error=str(error))
            else:
                _log.info("file_reloaded", file=str(self._path))
        return self._content


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)
