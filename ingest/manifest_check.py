"""What a manifest may hold: somebody may hand over a lake, so its database is looked at before it is asked."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from .inside import HINT, ForeignNameError, inside, inside_location
from .published.target import is_url, path_of
from .user_cache import user_cache

_COLUMNS = {
    "meta": ["key", "value"],
    "files": ["path", "kind", "cluster", "dt", "rows", "bytes", "min_us", "max_us", "digest", "compacted"],
    "retired": ["path", "retired_ts"],
    "props": ["key", "value"],
}
_TEXTS, _NUMBERS = (0, 1, 2, 3, 8), (4, 5, 6, 7, 9)  # columns of `files`
# What the numbers may be: no file is as large, and times are microseconds of the years 1 to 9999.
_COUNTS, _TIMES = range(1 << 53), range(-62_135_596_800_000_000, 253_402_300_800_000_000)
_RANGES = (_COUNTS, _COUNTS, _TIMES, _TIMES, range(2))
_JOURNAL_MARK = bytes.fromhex("d9d505f920a163d7")
_DAY = re.compile(r"\d{1,6}-\d{2}-\d{2}")
_DATA_FILE = re.compile(r"(?:events|objects|repeats)/dt=\d{1,6}-\d{2}-\d{2}/[0-9A-Za-z_-]+\.parquet")
_DIGEST = re.compile(r"[0-9a-f]{32}")


def data_file(name: object, place: str) -> str:
    """The path of a file of a table in a local lake, as it was given. Nothing else is ever merged or deleted.

    Raises ForeignNameError for any other path; `place` says where it stands.
    """
    if not isinstance(name, str) or not _DATA_FILE.fullmatch(inside(name, place)):
        raise ForeignNameError(f"{place}: {ascii(name)[:100]} is not a file of events, objects or repeats", HINT)
    return name


def check_journal(path: Path) -> None:
    """Refuse a rollback journal that names further files: SQLite deletes them when it opens the database. Refuse files next to the
    database that have a second name elsewhere: SQLite writes into them.

    These are super-journals (sqlite.org/tempfiles.html), which only transactions over several databases have. A journal ends with
    this name and a mark (sqlite.org/fileformat.html, readSuperJournal of pager.c). Raises ForeignNameError.
    """
    journal = path.with_name(f"{path.name}-journal")
    with suppress(FileNotFoundError), journal.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOURNAL_MARK)))
        if file.read() == _JOURNAL_MARK:
            raise ForeignNameError(f"{journal}: is not a journal of this lake alone: it names another file", HINT)
    for ending in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + ending)
        with suppress(FileNotFoundError):
            if beside.stat().st_nlink > 1:
                raise ForeignNameError(f"{beside}: has a second name elsewhere, and a change would show there", HINT)


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database with more than the tables of a manifest: a view may never end, a trigger may write what no commit meant.

    Ask nothing of a table before. Raises ForeignNameError.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    for kind, name, text in found:
        is_ours = kind == "table" and name in _COLUMNS and not str(text).upper().startswith("CREATE VIRTUAL")
        if not is_ours and not (kind == "index" and text is None):
            raise ForeignNameError(f"{path}: holds the {kind} {ascii(name)[:100]}, which no lake has", HINT)
    for table in {name for _, name, _ in found} & _COLUMNS.keys():
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        if columns != _COLUMNS[table]:
            raise ForeignNameError(f"{path}: the table {table} has other columns than a lake has: {ascii(columns)[:200]}", HINT)


def check_file(row: Sequence[object], manifest: Path, shown: str) -> None:
    """Refuse a row of `files` with values that no writer makes. `shown` is as `location_shown` returns it.

    Raises ForeignNameError.
    """
    texts, numbers = [row[index] for index in _TEXTS], [row[index] for index in _NUMBERS]
    is_typed = all(isinstance(text, str) for text in texts) and all(
        isinstance(number, int) and number in allowed for number, allowed in zip(numbers, _RANGES, strict=True)
    )
    if not is_typed or not _DAY.fullmatch(str(row[3])) or not _DIGEST.fullmatch(str(row[8])):
        raise ForeignNameError(f"{manifest}: lists {ascii(tuple(row))[:200]}, which is not a file of a lake", HINT)
    name = str(row[0])
    if shown and name.startswith(f"{shown}/"):
        inside_location(name, f"{shown}/{row[1]}")
    else:
        data_file(name, str(manifest))


def location_shown(url: str | None, manifest: Path) -> str:
    """Where the files are of the published lake that a folder shows; empty for a lake of its own.

    Only a folder of this user's cache shows one: another folder may be from somebody who wants to have other files read.
    """
    with suppress(RuntimeError):  # a user without a home
        if url and Path(os.path.realpath(manifest)).is_relative_to(os.path.realpath(user_cache())):
            return url if is_url(url) else path_of(url)
    return ""
