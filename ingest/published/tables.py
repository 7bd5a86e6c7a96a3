"""The Iceberg table of one kind of files: how it is made, which files it lists, and one commit that changes the list.

A file is added as it is. Its name holds the digest of its bytes, so a name never stands for two contents, and a second upload of
the same file writes the same bytes. Properties of each snapshot say which state of the lake it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import xxhash
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile as Entry
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table, Transaction
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import TimestamptzType
from pyiceberg.utils.concurrent import ExecutorFactory

from ingest.counted import counted
from ingest.errors import LakeError
from ingest.inside import ForeignNameError, inside_location
from ingest.manifest import DataFile
from ingest.schema import EVENTS, OBJECTS, REPEATS, time_column

from .catalogs import CONFLICTS, Tables, asking
from .target import reaching

# In the order of publication: what events refer to comes before them.
KINDS = ("objects", "repeats", "events")
_SCHEMAS = {"events": EVENTS, "objects": OBJECTS, "repeats": REPEATS}
FORMAT = 1
LAKE, FORMAT_KEY, POSITION = "hindcast.lake", "hindcast.format", "hindcast.position"
# Without a name mapping, engines cannot tell which column of a file is which column of the table: the files have no field ids.
_NAME_MAPPING = "schema.name-mapping.default"
_PROPERTIES = {
    # pyiceberg would repeat a failed commit on top of the other publisher's, and list the same files twice.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "8",
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Change:
    """What a publication has to do with one table: URLs of files to add with their entries in the manifest, entries to remove."""

    add: Mapping[str, DataFile]
    remove: Sequence[Entry]


def find_or_make(tables: Tables, kind: str, lake: str) -> Table:
    """The table of a kind, made if it does not exist. `lake` is the identity of the lake that is published.

    Raises LakeError for a table of another lake or of a newer format.
    """
    table = tables.find(kind)
    while table is None:
        try:
            tables.make_namespace()
            _make(tables, kind, lake)
        except CONFLICTS:
            pass  # another publisher has just made it
        table = tables.find(kind)
    check(table, tables.target.table(kind))
    if (found := table.properties.get(LAKE)) != lake:
        raise LakeError(
            f"{table.location()}: another lake is published here ({found or 'no lake of Hindcast'}, this one is {lake})",
            "choose another name, or drop the tables of that lake first",
        )
    missing = set(_SCHEMAS[kind].names) - set(table.schema().column_names)
    if missing:
        _add_columns(tables, table, kind)
    return table


def check(table: Table, location: str) -> None:
    """Raise LakeError for a table that this program cannot read, or that says that it lies at another location."""
    found = table.properties.get(FORMAT_KEY)
    if found is None:
        raise LakeError(f"{table.location()}: this table was not published by Hindcast", "give the URL of a published lake")
    if found != str(FORMAT):
        raise LakeError(
            f"{table.location()}: the published lake has format {found}, this program knows {FORMAT}",
            "use the program that published it",
        )
    if table.location().rstrip("/") != location:
        raise ForeignNameError(f"{location}: the table says that it lies at {table.location()}", "publish the lake at its own URL")


def entries(table: Table) -> dict[str, Entry]:
    """The files that the current snapshot lists, by URL.

    Raises LakeError when another program has deleted rows of them, and ForeignNameError for a file outside of the table's location.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return {}
    with reaching(table.location()):
        inside_location(snapshot.manifest_list, table.location())
        manifests = snapshot.manifests(table.io)
        for manifest in manifests:
            inside_location(manifest.manifest_path, table.location())
        if any(manifest.content == ManifestContent.DELETES for manifest in manifests):
            raise LakeError(
                f"{table.location()}: another program has deleted rows of this table",
                "roll the table back to the last snapshot of Hindcast, and let only Hindcast change it",
            )
        lists = ExecutorFactory.get_or_create().map(lambda manifest: manifest.fetch_manifest_entry(table.io), manifests)
        return {inside_location(entry.data_file.file_path, table.location()): entry.data_file for found in lists for entry in found}


def url_of(location: str, file: DataFile) -> str:
    """The URL of a file of the lake in a table."""
    return f"{location}/data/dt={file.dt}/{PurePosixPath(file.path).stem}-{file.digest}.parquet"


def file_of(url: str, entry: Entry, table: Table, kind: str) -> DataFile:
    """The entry of the lake's manifest that a published file stands for. Raises LakeError for a file that Hindcast did not name."""
    path = PurePosixPath(url)
    digest = path.stem.rpartition("-")[2]
    day = path.parent.name.removeprefix("dt=")
    if len(digest) != 32 or not path.parent.name.startswith("dt="):
        raise LakeError(f"{url}: another program has added this file to the table", "run `hindcast publish` again")
    column = table.schema().find_field(time_column(kind)).field_id
    low, high = (from_bytes(TimestamptzType(), bounds[column]) for bounds in (entry.lower_bounds, entry.upper_bounds))
    cluster = str(entry.partition[0])
    return DataFile(url, kind, cluster, day, entry.record_count, entry.file_size_in_bytes, _us(low), _us(high), digest, 1)


def change_of(table: Table, listed: Iterable[DataFile]) -> Change:
    """The difference between the files of a table and those that the lake lists; nothing is read if the position says so."""
    wanted = {url_of(table.location(), file): file for file in listed}
    snapshot = table.current_snapshot()
    if snapshot is not None and snapshot.summary is not None and snapshot.summary.get(POSITION) == position_of(wanted):
        return Change({}, ())
    there = entries(table)
    add = {url: file for url, file in wanted.items() if url not in there}
    return Change(add, [entry for url, entry in there.items() if url not in wanted])


def commit(table: Table, change: Change, position: str, lake: str) -> int:
    """Add and remove files in one snapshot, and return its number.

    Raises one of CONFLICTS when another publisher was first, and LakeError when an uploaded file is not the one of the manifest.
    """
    properties = {LAKE: lake, POSITION: position}
    transaction = table.transaction()
    update = transaction.update_snapshot(snapshot_properties=properties)
    with asking(table.location()), reaching(table.location()):
        found = ExecutorFactory.get_or_create().map(
            lambda url: parquet_file_to_data_file(table.io, transaction.table_metadata, url), change.add
        )
        added = [_checked(entry, change.add[entry.file_path]) for entry in found]
        with update.overwrite() if change.remove else update.merge_append() as producer:
            for entry in added:
                producer.append_data_file(entry)
            for entry in change.remove:
                producer.delete_data_file(entry)
        snapshot = producer.snapshot_id
        transaction.commit_transaction()
    return snapshot


def position_of(urls: Iterable[str]) -> str:
    """A name for a state of the lake's files of one kind: their number, and a digest of their names."""
    names = sorted(url.rpartition("/")[2] for url in urls)
    return f"{len(names)}-{xxhash.xxh3_128_hexdigest(' '.join(names).encode())}"


def _checked(entry: Entry, file: DataFile) -> Entry:
    found, wanted = (entry.file_size_in_bytes, entry.record_count), (file.bytes, file.rows)
    if found != wanted:
        raise LakeError(
            f"{entry.file_path}: has {found[0]:,} bytes and {counted(found[1], 'row')}, the manifest of the lake says "
            f"{wanted[0]:,} and {wanted[1]:,}",
            "delete this object, and publish again",
        )
    return entry


def _make(tables: Tables, kind: str, lake: str) -> None:
    properties = {**_PROPERTIES, LAKE: lake, FORMAT_KEY: str(FORMAT), "write.object-storage.enabled": "false"}
    schema = _without_metadata(_SCHEMAS[kind])
    with asking(tables.words), reaching(tables.target.table(kind)):
        creation = tables.catalog.create_table_transaction(
            tables.identifier(kind), schema, location=tables.target.table(kind), properties=properties
        )
        with creation as transaction:
            with transaction.update_spec() as spec:
                spec.add_field("cluster", IdentityTransform(), "cluster")
                spec.add_field(time_column(kind), DayTransform(), "dt")
            _map_names(transaction)


def _add_columns(tables: Tables, table: Table, kind: str) -> None:
    """Give a table the columns that this version of the lake has in addition. A conflict means that another publisher did it."""
    with asking(tables.words), reaching(table.location()):
        try:
            with table.transaction() as transaction:
                with transaction.update_schema() as update:
                    update.union_by_name(_without_metadata(_SCHEMAS[kind]))
                _map_names(transaction)
        except CONFLICTS:
            pass
    table.refresh()


def _map_names(transaction: Transaction) -> None:
    transaction.set_properties({_NAME_MAPPING: transaction.table_metadata.schema().name_mapping.model_dump_json()})


def _without_metadata(schema: pa.Schema) -> Any:
    return schema.remove_metadata()


def _us(moment: Any) -> int:
    """Microseconds since the epoch of a bound, which pyiceberg decodes to them or to a time."""
    return int(moment) if isinstance(moment, int) else (moment - _EPOCH) // timedelta(microseconds=1)
