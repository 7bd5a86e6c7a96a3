"""Lets DuckDB read objects of an S3-compatible store through pyarrow, because DuckDB's own extension may have to be downloaded."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import duckdb

from ingest.errors import LakeError
from ingest.published.target import filesystem_of, is_url

_SCHEME = "s3"


def attach_store(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> None:
    """Let a database read the objects among some paths; a database without such paths stays as it is. Raises LakeError."""
    found = list(islice((path for path in paths if is_url(path)), 1))
    if not found or connection.filesystem_is_registered(_SCHEME):
        return
    try:
        from fsspec.implementations.arrow import ArrowFSWrapper
    except ImportError as error:
        raise LakeError(
            "reading a published lake needs the package fsspec", "install the extra: pip install 'kube-hindcast[object-storage]'"
        ) from error

    class Store(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
        protocol = _SCHEME  # the wrapper takes any scheme, and DuckDB asks which

    connection.register_filesystem(Store(filesystem_of(found[0])))
