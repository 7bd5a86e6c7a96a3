"""The lake's list of files and of finished inputs: one small SQLite database, changed in single transactions.

A Parquet file that is not listed here is not part of the lake. One transaction records the input that a writer finished (a spool
segment, a stretch of a log file) and the files that it wrote. So ingestion is exactly once.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path

from .errors import LakeError
from .manifest_check import check_file, check_journal, check_schema, data_file, location_shown
from .sources.place import Place

MANIFEST_VERSION = 2
# Lakes of this version are read; the next writer makes them of today's. Their rows are read as old_rows.py says.
_BEFORE_NOTES = 1
# The property of a lake that may have files of format 1.
OLD_ROWS = "old_rows"
# The URL of the published lake that a folder shows.
PUBLISHED = "published"
_EXPANDED = "*?[]"
_IDENTITY = "identity"

# What helps, by the primary result code (sqlite.org/rescode.html).
_REMEDIES = {
    sqlite3.SQLITE_FULL: "free space on the disk of the lake",
    sqlite3.SQLITE_BUSY: "another process holds the manifest; wait until it ends, or end it",
    sqlite3.SQLITE_LOCKED: "another process holds the manifest; wait until it ends, or end it",
    sqlite3.SQLITE_READONLY: "see who may write it",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is damaged: restore it from a backup",
}
_DISK = "see whether the disk of the lake is well"

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    path TEXT PRIMARY KEY, kind TEXT NOT NULL, cluster TEXT NOT NULL, dt TEXT NOT NULL,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL, min_us INTEGER NOT NULL, max_us INTEGER NOT NULL, digest TEXT NOT NULL, compacted INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE retired (path TEXT PRIMARY KEY, retired_ts REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE props (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file: its path below the lake, its content, and the range of stage_ts (microseconds since the epoch) in it."""

    path: str
    kind: str  # events | objects
    cluster: str
    dt: str  # UTC date of stage_ts, YYYY-MM-DD
    rows: int
    bytes: int
    min_us: int
    max_us: int
    digest: str  # xxh3-128 of the file's bytes
    compacted: int = 0


def refuse_name(folder: Path) -> None:
    """Raise LakeError for a folder that may not be a lake, because of its name."""
    if any(character in str(folder) for character in _EXPANDED):
        raise LakeError(f"{folder}: holds a character that SQL engines expand (one of * ? [ ])", "choose another name for --lake")


class Manifest:
    """The open manifest of one lake. Readers and one writer may have it open at the same time (WAL)."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if not create and not path.is_file():
            raise LakeError(f"{path.parent}: there is no lake here", "fill one with `hindcast ingest`, or give --lake")
        self._path = path
        self._writable = _is_writable(path)
        if create and not self._writable:
            raise LakeError(f"{path.parent}: the lake cannot be written", "fix its owner, or choose another --lake")
        try:
            self._seen = _state(path)
            self._open()
            if create:
                with self.transaction():
                    self._make_tables()
            check_schema(self._opened, path)
            self._check_version(path)
            self._place = Place((path.parent, path))
        except (sqlite3.Error, OSError) as error:
            raise LakeError(
                f"{path}: the lake's manifest cannot be read: {error}", "is this a lake, and is the disk well?"
            ) from error

    def _open(self) -> None:
        """Open the database. It is closed by `close`, or at the latest with the last reference to this object."""
        check_journal(self._path)
        self._opened = _open_to_write(self._path) if self._writable else _open_to_read(self._path)
        self._release = weakref.finalize(self, self._opened.close)

    @property
    def _connection(self) -> sqlite3.Connection:
        if not self._writable and (state := _state(self._path)) != self._seen:
            # Another process writes; a database opened as immutable would go on showing its old content.
            self.close()
            self._seen = state
            self._open()
        return self._opened

    def _make_tables(self) -> None:
        if not self._has_tables():
            for statement in _TABLES.split(";"):
                self._connection.execute(statement)
            self._connection.execute("INSERT INTO meta VALUES ('version', ?)", (str(MANIFEST_VERSION),))

    def _check_version(self, path: Path) -> None:
        """A read-only open, because a reader must not wait for a writer."""
        found = self._connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() if self._has_tables() else None
        if found not in ((str(MANIFEST_VERSION),), (str(_BEFORE_NOTES),)):
            raise LakeError(
                f"{path.parent}: the lake has version {found[0] if found else 'none'}, this program reads {MANIFEST_VERSION}",
                "use the program that wrote it, or ingest into a new lake",
            )

    def upgrade(self) -> None:
        """Make a lake of format 1 one of today's, so that a program which does not know the notes refuses it."""
        if self._version() == str(_BEFORE_NOTES):
            with self.transaction():
                self._connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(MANIFEST_VERSION),))
                self._connection.execute("INSERT OR REPLACE INTO props VALUES (?, '1')", (OLD_ROWS,))

    @property
    def has_old_rows(self) -> bool:
        """Whether files may be of format 1."""
        return self._version() == str(_BEFORE_NOTES) or self.prop(OLD_ROWS) is not None

    def _version(self) -> str:
        return str(self._connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()[0])

    def _has_tables(self) -> bool:
        return self._connection.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchone() is not None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. A full disk raises LakeError, and the earlier content stays."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):  # SQLite rolls back by itself when it cannot continue
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise LakeError(f"the lake's manifest cannot be written: {error}", _REMEDIES.get(_kind(error), _DISK)) from error
            raise

    def commit(
        self,
        add: Iterable[DataFile] = (),
        remove: Iterable[str] = (),
        props: Mapping[str, str | None] | None = None,
        retired_ts: float = 0.0,
    ) -> None:
        """In one transaction: list the files of `add` (already durable on disk), retire those of `remove`, and set `props`.

        A property that is set to None is dropped.
        """
        with self.transaction():
            self._connection.executemany("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [astuple(file) for file in add])
            for path in remove:
                self._connection.execute("DELETE FROM files WHERE path = ?", (path,))
                self._connection.execute("INSERT OR REPLACE INTO retired VALUES (?, ?)", (path, retired_ts))
            for key, value in (props or {}).items():
                if value is None:
                    self._connection.execute("DELETE FROM props WHERE key = ?", (key,))
                else:
                    self._connection.execute("INSERT OR REPLACE INTO props VALUES (?, ?)", (key, value))

    def files(self, kind: str, cluster: str | None = None, span_us: tuple[int, int] | None = None) -> list[DataFile]:
        """The listed files of a kind in the order of time, narrowed to a cluster and to those that overlap `span_us`.

        Raises ForeignNameError for a file outside of the lake.
        """
        low, high = span_us or (-(2**63), 2**63 - 1)
        rows = self._connection.execute(
            "SELECT * FROM files WHERE kind = ? AND (? IS NULL OR cluster = ?) AND max_us >= ? AND min_us <= ?"
            " ORDER BY min_us, path",
            (kind, cluster, cluster, low, high),
        )
        found, shown = rows.fetchall(), location_shown(self.prop(PUBLISHED), self._path)
        for row in found:
            check_file(row, self._path, shown)
        return [DataFile(*row) for row in found]

    def prop(self, key: str) -> str | None:
        """The value that a commit set, or None."""
        row = self._connection.execute("SELECT value FROM props WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def props(self, prefix: str) -> dict[str, str]:
        """All values whose key begins with `prefix`."""
        rows = self._connection.execute(
            "SELECT key, value FROM props WHERE substr(key, 1, ?) = ? ORDER BY key", (len(prefix), prefix)
        )
        return dict(rows.fetchall())

    def identity(self) -> str:
        """A name for this lake that no other lake has; made when it is first asked for. Raises LakeError if it cannot be kept."""
        if (known := self.prop(_IDENTITY)) is None:
            with self.transaction():  # two processes may ask first at the same time
                self._connection.execute("INSERT OR IGNORE INTO props VALUES (?, ?)", (_IDENTITY, secrets.token_hex(8)))
            known = self.prop(_IDENTITY)
        return str(known)

    def listed(self) -> set[str]:
        """Every path that must not be deleted: the files of the lake, and retired files that readers may still need."""
        return {str(path) for (path,) in self._connection.execute("SELECT path FROM files UNION SELECT path FROM retired")}

    def retired(self, before_ts: float) -> list[str]:
        """Paths that were retired before a time (seconds since the epoch).

        Raises ForeignNameError for one that is no file of a table: a stranger's manifest may name the database itself.
        """
        found = self._connection.execute("SELECT path FROM retired WHERE retired_ts < ?", (before_ts,))
        return [data_file(path, str(self._path)) for (path,) in found]

    def retire_by(self, now_ts: float) -> None:
        """Let no path be retired later than now (seconds since the epoch): the clock was ahead then, and it would stay."""
        if self._connection.execute("SELECT 1 FROM retired WHERE retired_ts > ? LIMIT 1", (now_ts,)).fetchone():
            with self.transaction():
                self._connection.execute("UPDATE retired SET retired_ts = ? WHERE retired_ts > ?", (now_ts, now_ts))

    def forget(self, paths: Iterable[str]) -> None:
        """Drop retired paths whose files are gone."""
        with self.transaction():
            self._connection.executemany("DELETE FROM retired WHERE path = ?", [(path,) for path in paths])

    def why_displaced(self) -> str:
        """A sentence why the database that is open is not the one that its name leads to; empty while it is."""
        return self._place.why_displaced()

    def close(self) -> None:
        """Release the database."""
        self._release()


def _kind(error: sqlite3.Error) -> int:
    """The primary result code of an error; 0 for one that SQLite did not raise."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def has_tables(path: Path) -> bool:
    """Whether a manifest is more than an empty file that a killed process had just begun; true for a damaged manifest, too."""
    if not path.is_file():
        return False
    try:
        with closing(_open_to_read(path)) as connection:
            return connection.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchone() is not None
    except (sqlite3.Error, OSError):
        return True


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))


def _state(path: Path) -> tuple[int, int, bool]:
    """A key that changes with the database. The last part says whether a log lies next to it: a writer is at work then, or was
    killed."""
    log = path.with_name(f"{path.name}-wal")
    found = path.stat() if path.exists() else None
    return (found.st_mtime_ns if found else 0, found.st_size if found else 0, log.exists() and log.stat().st_size > 0)


def _open_to_write(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
    with ExitStack() as stack:
        stack.callback(connection.close)
        connection.execute("PRAGMA journal_mode = WAL")
        # An acknowledged event may exist only here and in its file, so every commit reaches the disk.
        connection.execute("PRAGMA synchronous = FULL")
        stack.pop_all()
    return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; it does without the files that even a reader makes (sqlite.org/wal.html)."""
    has_log = _state(path)[2]
    uri = f"{path.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0, check_same_thread=False)
