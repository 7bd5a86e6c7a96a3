"""Lets DuckDB read objects of an S3-compatible store through pyarrow, because DuckDB's own extension may have to be downloaded."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from itertools import islice
from typing import Any

import duckdb
from pyarrow import NativeFile

from ingest.errors import LakeError
from ingest.published.target import filesystem_of, is_url

_SCHEME = "s3"


def attach_store(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> None:
    """Let a database read the objects among some paths; a database without such paths stays as it is. Raises LakeError."""
    found = list(islice((path for path in paths if is_url(path)), 1))
    if not found or has_store(connection):
        return
    try:
        from fsspec.implementations.arrow import ArrowFSWrapper
    except ImportError as error:
        raise LakeError(
            "reading a published lake needs the package fsspec", "install the extra: pip install 'kube-hindcast[object-storage]'"
        ) from error

    class Store(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
        protocol = _SCHEME  # the wrapper takes any scheme, and DuckDB asks which

        def _open(self, path: str, mode: str = "rb", **options: Any) -> StoredFile:
            return StoredFile(self.fs.open_input_file(self._strip_protocol(path)))

    connection.register_filesystem(Store(filesystem_of(found[0])))
    connection.execute("RESET GLOBAL async_threads")  # requests to a store wait for it at the same time


def has_store(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether `attach_store` gave a database a store."""
    return connection.filesystem_is_registered(_SCHEME)


class StoredFile(io.RawIOBase):
    """An object as a file in which every thread has a position of its own.

    DuckDB's threads share one handle. Each calls `seek` and then `read`, and another thread may run between the two calls.
    """

    def __init__(self, stored: NativeFile) -> None:
        super().__init__()
        self._stored = stored
        self._local = threading.local()

    @property
    def size(self) -> int:
        """The bytes of the object."""
        return int(self._stored.size())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(getattr(self._local, "position", 0))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self.size}[whence]
        self._local.position = base + offset
        return self.tell()

    def read(self, size: int = -1) -> bytes:
        position = self.tell()
        wanted = self.size - position if size < 0 else size
        found = bytes(self._stored.read_at(wanted, position))  # type: ignore[call-arg]  # its stub lacks the position
        self._local.position = position + len(found)
        return found

    def close(self) -> None:
        self._stored.close()
        super().close()
