"""What the bodies of events tell of their objects, kept per file of events: `LAKE/derived/told/CODE/EVENTS-DIGEST.parquet`.

No manifest decides it, and to read bodies as JSON takes longer than all else that a report asks of them. EVENTS is the name of the
file of events, and DIGEST that of the kept file, so that a damaged one does not count. CODE is a digest of the statement that makes
the rows. The kept rows are of the objects that most policies judge; others are read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.derived import derived_folder
from ingest.durable import own_name
from ingest.lake import stems_of_events
from queries import LakeReader
from queries.catalog import file_literal, needed_by, show_part, text_literal

from .facts import state_of
from .place import by_events, digest_of, file_digest, forget_gone, is_whole
from .sql import statement

# Controllers write these all the time, and few policies judge them: what they wrote is read when somebody asks for it.
SELDOM_JUDGED = frozenset((
    "events", "leases", "endpoints", "endpointslices", "ipaddresses", "controllerrevisions", "bindings", "tokenreviews",
    "subjectaccessreviews", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews",
))  # fmt: skip
_OF = b"hindcast.of"


def keep_told(reader: LakeReader, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Keep what the files of events tell that no run has kept yet; returns False if it was stopped.

    A lake that cannot be written keeps nothing. Raises LakeError if a file of events is gone.
    """
    lake = reader.files.lake
    if not lake:
        return True
    there = _kept(lake, reader.files.events)
    with reader.session() as own:
        for events in reader.files.events:
            if events not in there:
                if stopped():
                    return False
                _keep(own.connection, lake, events)
    forget_gone(_folder(lake), stems_of_events(Path(lake)))
    return True


def show_told(reader: LakeReader, asked: str, by: str) -> None:
    """Make the view `told`: the rows of told.sql for at least the events that join the table `asked` by some columns of both.

    Where rows are kept, no body is read.
    """
    files, connection = reader.files, reader.connection
    kept = _kept(files.lake, files.events) if files.lake else {}
    show_part(connection, "part_kept", tuple(kept))
    show_part(connection, "part_other", tuple(path for path in files.events if path not in kept))
    sources = [f"FROM part_other SEMI JOIN {asked} USING ({by})"]
    # Rows that are not kept are of requests that policies seldom judge. To look for them reads no body.
    seldom = f"FROM (FROM part_kept WHERE {_is_kept()} IS NOT TRUE) SEMI JOIN {asked} USING ({by})"
    if connection.execute(f"SELECT true {seldom} LIMIT 1").fetchall():
        sources.append(seldom)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW asked_events AS {' UNION ALL '.join(sources)}")
    connection.execute(f"CREATE OR REPLACE TEMP TABLE told_now AS {statement('told')}")
    read = f"FROM read_parquet([{', '.join(map(file_literal, kept.values()))}]) UNION ALL BY NAME " if kept else ""
    connection.execute(f"CREATE OR REPLACE TEMP VIEW told AS {read}FROM told_now")


def _is_kept() -> str:
    """The condition on events whose rows are kept."""
    seldom = ", ".join(map(text_literal, sorted(SELDOM_JUDGED)))
    return f"(coalesce(subresource, '') <> 'status' AND resource NOT IN ({seldom}))"


def _folder(lake: str | Path) -> Path:
    return derived_folder(lake) / "told" / _code()


def _kept(lake: str, events: Collection[str]) -> dict[str, str]:
    """The kept file of each file of events that has one."""
    by_stem = by_events(_folder(lake))
    found: dict[str, str] = {}
    for file in events:
        for path in by_stem.get(Path(file).stem, ()):
            if _mark_in(path) == _mark(file):
                found[file] = str(path)
    return found


def _mark(events: str) -> bytes:
    """The state of a file of events, by which its kept rows name it."""
    return repr(state_of(events)).encode()


def _mark_in(path: Path) -> bytes | None:
    try:
        status = path.stat()
        return _checked(path, status.st_size, status.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _checked(path: Path, size_bytes: int, changed_ns: int) -> bytes | None:
    """Which file of events a kept file is of; None if it is damaged. A file that has not changed since is not read again."""
    try:
        return (pq.read_metadata(path).metadata or {}).get(_OF) if is_whole(path) else None
    except (OSError, pa.ArrowException):
        return None


def _keep(connection: duckdb.DuckDBPyConnection, lake: str, events: str) -> None:
    folder = _folder(lake)
    unfinished = own_name(folder / Path(events).stem)  # two processes may keep one at a time
    mark = _mark(events)
    show_part(connection, "part_kept", (events,))
    connection.execute(f"CREATE OR REPLACE TEMP VIEW asked_events AS FROM part_kept WHERE {_is_kept()}")
    rows = connection.sql(statement("told")).to_arrow_table()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.replace_schema_metadata({_OF: mark}), unfinished, compression="zstd", write_statistics=False)
        unfinished.replace(folder / f"{Path(events).stem}-{file_digest(unfinished)}.parquet")
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


@cache
def _code() -> str:
    """What kept rows depend on except for the events: the statement, and DuckDB."""
    text = statement("told")
    return digest_of([duckdb.__version__, text, _is_kept(), *(each.body for each in needed_by([text]))])
