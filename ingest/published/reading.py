"""Reading a published lake: a folder on this machine that lists the published files where they are.

The folder is a lake like any other, except that its files are objects of a store and that it cannot be written. Runs and derived
tables are kept in it. It holds no events, so it can be deleted at any time.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.durable import make_folder
from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.manifest import PUBLISHED, DataFile

from .catalogs import tables_to_read
from .tables import KINDS, check, entries, file_of
from .target import Target, is_url, path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table


def show(target: Target, folder: Path) -> None:
    """Make a folder show the present state of a published lake. Raises LakeError when it does not exist or cannot be read."""
    tables = tables_to_read(target, KINDS)
    if "events" not in tables:
        raise LakeError(f"{target.url}: no lake is published here", "publish one: hindcast publish, or correct the URL")
    with _locked(folder), closing(Lake.create(folder)) as lake:
        if (other := lake.manifest.prop(PUBLISHED)) not in (None, target.url):
            raise LakeError(f"{folder}: shows {other}, not {target.url}", "delete this folder")
        for kind in reversed(KINDS):  # events first: what they refer to was published before them
            if kind in tables:
                check(tables[kind], target.table(kind))
                _list(lake, target, kind, tables[kind])


def _list(lake: Lake, target: Target, kind: str, table: Table) -> None:
    snapshot = table.current_snapshot()
    state = f"{table.metadata.table_uuid} {snapshot.snapshot_id if snapshot else 'empty'}"
    if lake.manifest.prop(f"{PUBLISHED}.{kind}") == state:
        return
    wanted = {file.path: file for file in _files(kind, table)}
    listed = {file.path for file in lake.manifest.files(kind)}
    removed = sorted(listed - wanted.keys())
    props = {PUBLISHED: target.url, f"{PUBLISHED}.{kind}": state}
    lake.manifest.commit([file for path, file in wanted.items() if path not in listed], removed, props)
    lake.manifest.forget(removed)


def _files(kind: str, table: Table) -> Iterator[DataFile]:
    for url, entry in entries(table).items():
        yield file_of(url if is_url(url) else path_of(url), entry, table, kind)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time changes the list."""
    try:
        make_folder(folder, 0o700)
        handle = os.open(folder / ".showing", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LakeError(
            f"{folder}: cannot be made: {error.strerror}", "set XDG_CACHE_HOME to a folder that you may write"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
