"""Typed access to a lake: one method per question. An answer is a DuckDB relation: filter it, join it, fetch it as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from ingest.errors import InputError, LakeError
from ingest.lake import Lake

from .catalog import LakeFiles, narrow_events, narrow_files, statements
from .databases import give_back, take
from .dimensions import DIMENSIONS
from .rows import CheckResult

Row = TypeVar("Row")
Parameters = Sequence[object] | Mapping[str, object]

_COLUMN_OF = {"user": "user_name"}
# DuckDB's default memory limit here; its own default is four fifths of the machine.
MEMORY_BYTES_MAX = 2 * 1024**3
_CHECK_ROWS_SHOWN = 5
# With fewer events, further threads cost DuckDB more time than they save.
_SEVERAL_THREADS_FROM_EVENTS = 100_000
# What people ask, and where the meaning of a column stands that other views repeat.
_ASKED = (
    "violations", "denials", "requests", "admission_writes", "known_policies", "audit_annotations", "object_versions", "objects",
    "events", "evidence", "sources", "losses",
)  # fmt: skip
_TELLING = ("events", "requests", "reach", "objects")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rollup_columns(by: Iterable[str]) -> str:
    """The columns to select from macro violation_rollup: the asked ones of DIMENSIONS, in that order, and the counts."""
    asked = [_COLUMN_OF.get(dimension, dimension) for dimension in dict.fromkeys(by)]
    left_out = ", ".join(_COLUMN_OF.get(dimension, dimension) for dimension in DIMENSIONS)
    return ", ".join([*asked, f"* EXCLUDE ({left_out})"])


def violation_question(by: Sequence[str], since: datetime | None, until: datetime | None) -> tuple[str, list[object]]:
    """The SELECT of LakeReader.violation_rollup, and its parameters. Raises InputError for a dimension that does not exist."""
    for dimension in by:
        if dimension not in DIMENSIONS:
            raise InputError(f"violations cannot be counted by {dimension!r}", f"use one of {', '.join(DIMENSIONS)}")
    return f"SELECT {rollup_columns(by)} FROM violation_rollup(?, ?, ?)", [list(by), since, until]


def open_lake(
    path: str | Path,
    threads: int | None = None,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    files: LakeFiles | None = None,
    cluster: str = "",
) -> LakeReader:
    """A reader of the lake at `path`, over the files that it holds now; `refresh()` also sees later commits.

    With the `files` of another reader it always sees the same state of the lake. With a `cluster` it sees that cluster alone.

    `threads` limits DuckDB's threads; by default it takes one per core, and a single one if the lake has few events now. Sorts and
    joins that need more than `memory_bytes_max` spill to a private temporary folder. Raises LakeError when there is no lake.
    """
    lake = Lake.open(path)  # closed with the last of the readers that share this list
    return LakeReader(lambda: files or files_of(lake, cluster), threads, memory_bytes_max)


@contextmanager
def open_if_there(path: Path | None) -> Iterator[LakeReader | None]:
    """A reader of a lake, closed at the end; None without a lake."""
    if path is None or not (path / "manifest.sqlite").exists():
        yield None
        return
    with closing(open_lake(path)) as reader:
        yield reader


def files_of(lake: Lake, cluster: str = "") -> LakeFiles:
    """The files that a lake lists now, or those of one cluster: each Parquet file holds rows of one cluster."""
    only = cluster or None
    listed = lake.manifest.files("events", only)
    objects = tuple(lake.paths("objects", only))
    # Most lakes have no repeats, and a lake made by an older version has no empty file for them.
    events, repeats = (tuple(map(lake.located, files)) for files in (listed, lake.manifest.files("repeats", only)))
    quarantine = tuple(map(str, sorted((lake.path / "quarantine").glob("*.jsonl.zst"))))
    spans = tuple((file.min_us, file.max_us) for file in listed)
    rows = sum(file.rows for file in listed)
    return LakeFiles(
        events, objects, repeats, quarantine, spans, str(lake.path), cluster, rows, has_old_rows=lake.manifest.has_old_rows
    )


class LakeReader:
    """Questions that a lake answers. Not thread-safe: give each thread its own `session()`.

    `ledger` holds the rows of `losses`, if they are known already: they are asked for all clusters at once.
    """

    ledger: pa.Table | None = None
    _takes_one_thread = False
    _shares = False
    _is_closed = False

    def __init__(
        self,
        list_files: Callable[[], LakeFiles],
        threads: int | None = None,
        memory_bytes_max: int = MEMORY_BYTES_MAX,
    ) -> None:
        self._list_files = list_files
        self._files = list_files()
        self._takes_one_thread = threads is None and 0 < self._files.event_rows < _SEVERAL_THREADS_FROM_EVENTS
        self._database = take((1 if self._takes_one_thread else threads, memory_bytes_max))
        self.connection = self._database.begin()
        self._database.show(self.connection, self._files)

    @property
    def files(self) -> LakeFiles:
        """The Parquet files that this reader reads, as of the last refresh."""
        return self._files

    def refresh(self) -> bool:
        """Switch to the files that the lake holds now. Returns True if they changed."""
        files = self._list_files()
        if files == self._files:
            return False
        self._database.show(self.connection, files)
        self._files = files
        if self._takes_one_thread and files.event_rows >= _SEVERAL_THREADS_FROM_EVENTS:
            self.take_every_thread()
        return True

    def take_every_thread(self) -> None:
        """Take one thread per core, also for few events: the lake will grow."""
        self.connection.execute("RESET threads")
        self._takes_one_thread = False

    @contextmanager
    def session(self) -> Iterator[LakeReader]:
        """A reader for another thread: it shares the database, and has a cursor of its own."""
        other = self._sharing(self._list_files, self._files)
        try:
            yield other
        finally:
            other.close()

    def narrowed(self, files: LakeFiles) -> LakeReader:
        """A reader of these files of the lake, such as those of one cluster; it shares the database, and has a cursor of its own.

        Close it after use. To open another database takes longer than to ask a small cluster.
        """
        other = self._sharing(lambda: files, files)
        other.ledger = self.ledger
        narrow_files(other.connection, files)
        return other

    def _sharing(self, list_files: Callable[[], LakeFiles], files: LakeFiles) -> LakeReader:
        other = object.__new__(LakeReader)
        other._list_files, other._files = list_files, files
        other._database, other._shares = self._database, True
        other.connection = self._database.begin()
        return other

    @contextmanager
    def between(self, first: datetime, last: datetime) -> Iterator[LakeReader]:
        """A session that sees the events of only those files that may hold a stage reached from `first` to `last` (aware times).

        Use it for questions that need no other event: on a large lake they are then many times faster.
        """
        with self.session() as other:
            paths = self._files.events_between(_microseconds(first), _microseconds(last))
            if paths != self._files.events:
                narrow_events(other.connection, paths)
            yield other

    def close(self) -> None:
        """Release the memory; relations of this reader cannot be fetched afterwards."""
        if self._is_closed:
            return
        self._is_closed = True
        self._database.end(self.connection)
        if not self._shares:
            give_back(self._database)

    # Questions. queries/views/NAME.sql, queries/macros/NAME.sql and `columns(NAME)` describe the columns.

    def events(self) -> duckdb.DuckDBPyRelation:
        """One row per audit event."""
        return self.connection.view("events")

    def objects(self) -> duckdb.DuckDBPyRelation:
        """One row per object of a snapshot that was ingested."""
        return self.connection.view("objects")

    def requests(self) -> duckdb.DuckDBPyRelation:
        """One row per audit request, its stages folded, with the effective user and the outcome."""
        return self.connection.view("requests")

    def violations(self) -> duckdb.DuckDBPyRelation:
        """One row per recorded policy failure (rows.Violation); up to 1.36 a cluster records only the first of a request."""
        return self.connection.view("violations")

    def violation_rollup(
        self, by: Sequence[str], since: datetime | None = None, until: datetime | None = None
    ) -> duckdb.DuckDBPyRelation:
        """Recorded failures of requests in [since, until), counted by some of DIMENSIONS, most first.

        Columns: the asked dimensions in the order given, then the counts of rows.ViolationCount. Raises InputError for a dimension
        that does not exist.
        """
        return self.sql(*violation_question(by, since, until))

    def denials(self) -> duckdb.DuckDBPyRelation:
        """One row per request that somebody refused on purpose (rows.Denial); `denier = 'vap'` marks the denials of policies."""
        return self.connection.view("denials")

    def audit_annotations(self) -> duckdb.DuckDBPyRelation:
        """One row per audit annotation that a policy declared (rows.AuditAnnotation)."""
        return self.connection.view("audit_annotations")

    def known_policies(self) -> duckdb.DuckDBPyRelation:
        """One row per policy that the lake has seen by name (rows.KnownPolicy)."""
        return self.connection.view("known_policies")

    def admission_writes(self) -> duckdb.DuckDBPyRelation:
        """One row per request that validating admission saw, or would have seen, with its operation and whether policies ran."""
        return self.connection.view("admission_writes")

    def object_versions(self) -> duckdb.DuckDBPyRelation:
        """One row per whole object that a response carried (rows.ObjectVersion)."""
        return self.connection.view("object_versions")

    def object_history(self, cluster: str, api_group: str, resource: str, namespace: str, name: str) -> duckdb.DuckDBPyRelation:
        """The recorded versions of one object, oldest first (rows.ObjectVersion). `namespace` is empty for a cluster-scoped one."""
        return self.sql("FROM object_history(?, ?, ?, ?, ?)", [cluster, api_group, resource, namespace, name])

    def evidence(self) -> duckdb.DuckDBPyRelation:
        """How many events of each kind there are, and which bodies they hold (rows.Evidence)."""
        return self.connection.view("evidence")

    def sources(self) -> duckdb.DuckDBPyRelation:
        """The events that each log file and the webhook brought (rows.Source)."""
        return self.connection.view("sources")

    def losses(self) -> duckdb.DuckDBPyRelation:
        """The missing or doubtful evidence, by cluster, kind and resource (rows.Loss); queries.ledger explains the kinds."""
        return self.connection.view("losses")

    def checks(self) -> list[CheckResult]:
        """Run every check of queries/checks. A `fail` with rows is a defect of the lake or of a view; a `warn` weakens answers."""
        return [self._check(name, severity, meaning, body) for name, severity, meaning, body in _checks()]

    def sql(self, text: str, parameters: Parameters = ()) -> duckdb.DuckDBPyRelation:
        """Any SELECT over the views and macros. Raises InputError, with DuckDB's words, when it cannot be bound."""
        try:
            return self.connection.sql(text, params=parameters or None)
        except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
            raise InputError(
                f"this SQL cannot be run: {error}", "`SHOW TABLES` names the views, `DESCRIBE violations` the columns"
            ) from error

    def arrow(self, text: str, parameters: Parameters = ()) -> pa.Table:
        """As `sql`, fetched as an Arrow table."""
        table: pa.Table = self.sql(text, parameters).to_arrow_table()
        return table

    def rows(self, text: str, parameters: Parameters = ()) -> list[dict[str, Any]]:
        """The few rows of a SELECT as dictionaries. Raises duckdb.Error when it cannot be run.

        A relation would plan the query twice, which takes longer than to run it on a small lake.
        """
        answer = self.connection.execute(text, parameters or None)
        names = [column[0] for column in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def put_table(self, name: str, table: pa.Table) -> None:
        """Give the SQL of this reader a temporary table. It replaces an earlier one of that name."""
        self.connection.register(f"given_{name}", table)
        try:
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM given_{name}")
        finally:
            self.connection.unregister(f"given_{name}")

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a view, in order, with their meanings."""
        described: list[tuple[str, str]] = self.connection.execute(
            "SELECT column_name, coalesce(comment, '') FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index", [name]
        ).fetchall()
        if not described:
            raise InputError(f"found no view {name!r}", f"there are {', '.join(view_names())}")
        return {column: meaning or _meaning_of(column) for column, meaning in described}

    def _check(self, name: str, severity: str, meaning: str, body: str) -> CheckResult:
        found = self.connection.sql(body)
        first = tuple(found.limit(_CHECK_ROWS_SHOWN).fetchall())
        rows = len(first) if len(first) < _CHECK_ROWS_SHOWN else int(found.aggregate("count(*)").fetchall()[0][0])
        return CheckResult(name, severity, meaning, rows, tuple(found.columns), first)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def rows_of(relation: duckdb.DuckDBPyRelation, row: Callable[..., Row]) -> list[Row]:
    """Fetch a relation as instances of one of the classes in queries.rows. Its columns must be the class's fields, in order.

    Raises LakeError when the columns differ, so that a changed view cannot shift values between fields.
    """
    names = tuple(field.name for field in fields(row))  # type: ignore[arg-type]  # a dataclass is also a callable
    if tuple(relation.columns) != names:
        raise LakeError(
            f"the columns {', '.join(relation.columns)} are not those of {getattr(row, '__name__', row)}: {', '.join(names)}"
        )
    return [row(*values) for values in relation.fetchall()]


def view_names() -> tuple[str, ...]:
    """The names of all views: those that people ask come first, and then those that the others are made from."""
    found = [statement.name for statement in statements() if statement.kind == "view"]
    return (*_ASKED, *(name for name in found if name not in _ASKED))


def _meaning_of(column: str) -> str:
    """The meaning of a column that a view has from another one, as events, requests or objects say it."""
    found = {statement.name: statement.names for statement in statements() if statement.name in _TELLING}
    return next((found[name][column] for name in _TELLING if column in found[name]), "")


def _checks() -> Iterator[tuple[str, str, str, str]]:
    for statement in sorted(statements(), key=lambda statement: statement.name):
        if statement.kind == "check":
            severity, _, meaning = statement.promise.partition(": ")
            yield statement.name, severity, meaning, statement.body
