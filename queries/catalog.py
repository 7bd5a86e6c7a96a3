"""The SQL of this package: views, table and scalar macros, and checks, read from their files and installed in dependency order.

The macros about how far a request came are made from the table of queries/reach_rules.py, and the one about kinds from that of
queries/built_in_kinds.py.

A file's leading comment is its documentation and is kept in the database. Its first line is the grain of a view, the promise of a
macro, or `fail:`/`warn:` with the meaning of a check. Lines `name: text` describe a column or argument; text after an empty comment
line is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from graphlib import TopologicalSorter
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple

import duckdb
import pyarrow as pa

from ingest.errors import LakeError
from ingest.old_rows import as_now, is_old
from ingest.published.target import are_there, is_url
from ingest.quarantine import HEADS, quarantine_heads
from ingest.schema import EVENTS, OBJECTS, REPEATS

from . import built_in_kinds, reach_sql
from .audit_stages import are_final
from .store import attach_store

Kind = Literal["view", "macro", "check"]

_FOLDERS: Mapping[Kind, str] = {"view": "views", "macro": "macros", "check": "checks"}
# The tables of a lake. Each has an empty table `no_NAME` of the same columns.
_TABLES = {"events": EVENTS, "objects": OBJECTS, "repeats": REPEATS}
# In place of queries/views/deciding_events.sql, where every event is of the final stage.
_ALL_DECIDE = "SELECT *, true AS complete, 1::BIGINT AS stages FROM lake_events"
# Whether this process has seen a lake with files of format 1. Others need not look into the footers of their files.
_may_be_old = False
_NAMED_LINE = re.compile(r"([a-z_]+): (.+)")
_WORD = re.compile(r"[a-z_]+")
_COMMENT = re.compile(r"--[^\n]*")
_COMMENT_OR_TEXT = re.compile(r"'(?:[^']|'')*'|--[^\n]*")


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL file. `promise` is the first line of its header, `names` the documented columns or arguments, `remark` the rest."""

    kind: Kind
    name: str
    promise: str
    names: Mapping[str, str]
    remark: str
    body: str

    @property
    def severity(self) -> str:
        """`fail` or `warn`, of a check."""
        return self.promise.partition(":")[0]

    @property
    def words(self) -> frozenset[str]:
        """Every lower-case word of the statement outside comments and string literals: the names that it may depend on."""
        return frozenset(_WORD.findall(_COMMENT_OR_TEXT.sub("", self.body)))


@cache
def statements() -> tuple[Statement, ...]:
    """All views, macros and checks, each after its dependencies. Raises graphlib.CycleError when two name each other."""
    found = {statement.name: statement for kind in _FOLDERS for statement in _read_folder(kind)}
    found |= {name: parse_statement("macro", name, text) for name, text in (reach_sql.macros() | built_in_kinds.macros()).items()}
    graph = {name: sorted((found.keys() & statement.words) - {name}) for name, statement in sorted(found.items())}
    return tuple(found[name] for name in TopologicalSorter(graph).static_order())


def _read_folder(kind: Kind) -> Iterable[Statement]:
    folder = resources.files("queries") / _FOLDERS[kind]
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            yield parse_statement(kind, file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))


def parse_statement(kind: Kind, name: str, text: str) -> Statement:
    """Split a file into its header and its SQL. Raises ValueError for a file that does not begin with a comment."""
    lines = text.splitlines()
    header = []
    while lines and lines[0].startswith("--"):
        header.append(lines.pop(0).removeprefix("--").removeprefix(" "))
    if not header:
        raise ValueError(f"{name}.sql does not begin with a comment; its first line describes one row")
    names: dict[str, str] = {}
    remark: list[str] = []
    current = ""
    for line in header[1:]:
        named = _NAMED_LINE.fullmatch(line)
        if not line or remark:
            remark.append(line)
        elif named:
            current = named[1]
            names[current] = named[2]
        else:
            names[current] = f"{names[current]} {line.strip()}"
    return Statement(kind, name, header[0], names, "\n".join(remark).strip(), "\n".join(lines).strip())


@dataclass(frozen=True, slots=True)
class LakeFiles:
    """The Parquet files of a lake's tables, and the files of its quarantine.

    `event_spans` are the ranges of stage_ts (microseconds since the epoch) of the files of `events`, in their order; empty if
    unknown. `lake` is the folder of the lake; empty for files without one. With a `cluster` they are the files of that cluster
    alone. `event_rows` is the number of events; 0 if unknown. `has_old_rows`: files of `events` may be of format 1.
    """

    events: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    quarantine: tuple[str, ...] = ()
    event_spans: tuple[tuple[int, int], ...] = ()
    lake: str = ""
    cluster: str = ""
    event_rows: int = 0
    has_old_rows: bool = False

    def absolute(self) -> LakeFiles:
        """The same files with absolute paths, for a process in another folder."""
        events, objects, repeats, quarantine = (
            tuple(path if is_url(path) else str(Path(path).absolute()) for path in paths)
            for paths in (self.events, self.objects, self.repeats, self.quarantine)
        )
        lake = str(Path(self.lake).absolute()) if self.lake else ""
        return LakeFiles(
            events, objects, repeats, quarantine, self.event_spans, lake, self.cluster, self.event_rows, self.has_old_rows
        )

    def are_there(self) -> bool:
        """Whether every Parquet file is still on disk: a file that was merged with others, or expired, is deleted after a while."""
        paths = (*self.events, *self.objects, *self.repeats)
        return are_there([path for path in paths if is_url(path)]) and all(
            Path(path).exists() for path in paths if not is_url(path)
        )

    @property
    def newest_us(self) -> int | None:
        """The newest stage_ts of any event (microseconds since the epoch); None without events, or if unknown."""
        return max((high for _, high in self.event_spans), default=None)

    def events_between(self, first_us: int, last_us: int) -> tuple[str, ...]:
        """The files that may hold events of this range of stage_ts; all files if the ranges are unknown."""
        if len(self.event_spans) != len(self.events):
            return self.events
        spans = zip(self.events, self.event_spans, strict=True)
        return tuple(path for path, (low, high) in spans if high >= first_us and low <= last_us)


def needed_by(texts: Iterable[str]) -> tuple[Statement, ...]:
    """The views and macros that some SQL texts may depend on, each after its dependencies."""
    wanted = {word for text in texts for word in _WORD.findall(_COMMENT.sub("", text))}
    needed = []
    for statement in reversed(statements()):
        if statement.name in wanted:
            wanted |= statement.words
            needed.append(statement)
    return tuple(reversed(needed))


class Shown(NamedTuple):
    """What a database shows of files: how it knows the events that decided, and whether there are records in quarantine."""

    deciding: str
    has_quarantine: bool


def install(connection: duckdb.DuckDBPyConnection, files: LakeFiles) -> None:
    """Install all views and macros into a connection, over explicit lists of Parquet files. Its cursors see them too.

    The lists are written as literals: a view takes no parameters, and cursors do not see a variable.
    """
    configure(connection)
    for name, schema in _TABLES.items():
        _make_table(connection, f"no_{name}", schema.empty_table())
    # Creating a view binds all views below it, down to the footers of files. So the lake's files are attached only after all views
    # exist.
    install_files(connection, LakeFiles())
    for statement in statements():
        if statement.kind == "view":
            _make_view(connection, statement)
        elif statement.kind == "macro":
            connection.execute(statement.body.replace("CREATE MACRO", "CREATE OR REPLACE MACRO", 1))
    install_files(connection, files)


def configure(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the settings that every connection needs."""
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    # A progress bar would print into the results of a command. Within Jupyter, DuckDB raises an error for bar settings unless
    # ipywidgets is installed.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")


def install_files(connection: duckdb.DuckDBPyConnection, files: LakeFiles, shown: Shown | None = None) -> Shown:
    """Point the views below all others at these files, all at one moment. Views are bound when queried, so no other is made again.

    Returns what the database shows now. Whoever gives it the next time as `shown` saves what would be made again as it is. Raises
    LakeError when a file is missing, or so damaged that its columns cannot be read; then the connection shows what it did.
    """
    global _may_be_old
    _may_be_old = _may_be_old or files.has_old_rows
    every = (*files.events, *files.objects, *files.repeats)
    deciding = _deciding(files.events)
    attach_store(connection, every)
    try:
        with _at_once(connection):
            for name, paths in (("events", files.events), ("objects", files.objects), ("repeats", files.repeats)):
                connection.execute(f"CREATE OR REPLACE VIEW lake_{name} AS FROM {_reading(name, paths)}")
            if shown is None or shown.deciding != deciding.body:
                _make_view(connection, deciding)
            if shown is None or shown.has_quarantine or files.quarantine:
                _make_table(connection, "lake_quarantine", _quarantined(files))
    except duckdb.Error:
        _refuse_unreadable(connection, every)
        raise
    return Shown(deciding.body, bool(files.quarantine))


@contextmanager
def _at_once(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A transaction: queries of other cursors see all of its changes, or none."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _deciding(paths: tuple[str, ...]) -> Statement:
    """The view of the events in these files that decided requests. If all of them did, it needs no join."""
    general = next(statement for statement in statements() if statement.name == "deciding_events")
    return replace(general, body=_ALL_DECIDE) if are_final(paths) else general


def _make_view(connection: duckdb.DuckDBPyConnection, statement: Statement) -> None:
    connection.execute(f"CREATE OR REPLACE VIEW {statement.name} AS\n{statement.body}")
    _comment(connection, statement)


def _quarantined(files: LakeFiles) -> pa.Table:
    """The records in quarantine. A file has records of any cluster; those without a cluster may be of the wanted one."""
    heads = quarantine_heads(map(Path, files.quarantine)) if files.quarantine else HEADS.empty_table()
    if not files.cluster:
        return heads
    clusters: list[str | None] = heads["cluster"].to_pylist()
    return heads.filter(pa.array([each in (None, files.cluster) for each in clusters], pa.bool_()))


def narrow_files(connection: duckdb.DuckDBPyConnection, files: LakeFiles) -> None:
    """Let every view show this cursor only these files; other cursors still see all. It is far quicker than to install views."""
    narrow_events(connection, files.events)
    for name, paths in (("objects", files.objects), ("repeats", files.repeats)):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW lake_{name} AS FROM {_reading(name, paths)}")
    connection.register("given", _quarantined(files))
    connection.execute("CREATE OR REPLACE TEMP TABLE lake_quarantine AS FROM given")
    connection.unregister("given")


def narrow_events(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...]) -> None:
    """Let every view show this cursor only the events of these files; other cursors still see all."""
    show_events(connection, paths)
    _decide_among(connection, paths)


def show_events(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...], rows: tuple[int, int] | None = None) -> None:
    """Let the view `events` show this cursor only the events of these files. Do not ask it for requests then: see narrow_events.

    `rows` are the first row to show of a single file, and the row after the last. A temporary view comes before the database's own
    view, also within its views.
    """
    shown = _reading("events", paths)
    if rows is not None:
        # DuckDB pushes the condition on the row number down to the file's row groups, so it reads only the needed ones.
        numbered = (
            f"(SELECT * EXCLUDE (file_row_number) FROM read_parquet({file_literal(paths[0])}, file_row_number = true, "
            f"hive_partitioning = false) WHERE file_row_number BETWEEN {rows[0]} AND {rows[1] - 1})"
        )
        shown = _as_now(numbered, paths)
    connection.execute(f"CREATE OR REPLACE TEMP VIEW lake_events AS FROM {shown}")


def show_part(connection: duckdb.DuckDBPyConnection, name: str, paths: tuple[str, ...]) -> None:
    """Give this cursor a view of this name of the events of some files, next to those that its other views show."""
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {_reading('events', paths)}")


def _decide_among(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...]) -> None:
    connection.execute(f"CREATE OR REPLACE TEMP VIEW deciding_events AS\n{_deciding(paths).body}")


def split_events(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...]) -> None:
    """Let every view show this cursor the events of these files as if each file were a cluster, to count all files in one query.

    `cluster` is then the number of the path (from 0), a slash and the name of the cluster. So no view folds events of different
    files into one request.
    """
    listed = ", ".join(map(file_literal, paths))
    reading = (
        f"read_parquet([{listed}], union_by_name = true, hive_partitioning = false, filename = true)" if paths else "no_events"
    )
    number = f"list_position([{listed}], filename) - 1"
    numbered = f"(SELECT * EXCLUDE (filename) REPLACE (({number}) || '/' || cluster AS cluster) FROM {reading})"
    shown = f"FROM {_as_now(numbered, paths)}"
    connection.execute(f"CREATE OR REPLACE TEMP VIEW lake_events AS {shown}")
    _decide_among(connection, paths)


def _reading(name: str, paths: tuple[str, ...]) -> str:
    """The operand of FROM for the rows of these files. There may be none: a cursor may be narrowed to no file at all."""
    if not paths:
        return f"no_{name}"
    rows = f"read_parquet([{', '.join(map(file_literal, paths))}], union_by_name = true, hive_partitioning = false)"
    return _as_now(rows, paths) if name == "events" else rows


def _as_now(rows: str, paths: tuple[str, ...]) -> str:
    """The operand of FROM for rows of events, some perhaps of format 1: with today's columns."""
    is_published = any(map(is_url, paths))
    if not is_published and not (_may_be_old and any(map(_is_old, paths))):
        return rows
    return as_now(f"(FROM {rows} UNION ALL BY NAME FROM no_events)", are_ours=not is_published)


def _is_old(path: str) -> bool:
    try:
        return is_old(path)
    except (OSError, pa.ArrowException):
        return False  # DuckDB says what is wrong with the file


def _refuse_unreadable(connection: duckdb.DuckDBPyConnection, paths: tuple[str, ...]) -> None:
    """Raise LakeError for the first file without a readable footer; DuckDB's own message mostly does not name it."""
    for path in paths:
        try:
            connection.execute(f"DESCRIBE FROM read_parquet({file_literal(path)}, hive_partitioning = false)")
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            hint = "`hindcast doctor --verify` names every damaged file"
            raise LakeError(f"{path}: the file cannot be read: {reason}", hint) from error


def _make_table(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """This is a table, because cursors of the connection would not see a registered name."""
    connection.register("given", rows)
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM given")
    connection.unregister("given")


def file_literal(path: str) -> str:
    """A path as an SQL string that DuckDB takes for one file. Raises LakeError for a path that it would expand to several."""
    if any(character in path for character in "*?[]\0"):
        raise LakeError(f"{path!r} holds a character that SQL engines expand (one of * ? [ ])", "move the lake to a plain path")
    quoted = path.replace("'", "''")
    return f"'{quoted}'"


def _comment(connection: duckdb.DuckDBPyConnection, statement: Statement) -> None:
    text = f"{statement.promise}\n\n{statement.remark}".strip()
    connection.execute(f"COMMENT ON VIEW {statement.name} IS {text_literal(text)}")
    for column, description in statement.names.items():
        connection.execute(f"COMMENT ON COLUMN {statement.name}.{column} IS {text_literal(description)}")


def text_literal(text: str) -> str:
    """A text as an SQL string."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'"
