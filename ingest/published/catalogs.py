"""The catalog that says which metadata file of a table is the current one: it makes a commit atomic.

By default this is a small SQL database within the lake. pyiceberg's own configuration may name another one as `hindcast`: a REST
catalog, or a database that several machines reach (py.iceberg.apache.org/configuration).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import xxhash
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.table import StaticTable, Table
from pyiceberg.utils.config import Config
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from ingest.durable import make_folder
from ingest.errors import LakeError
from ingest.inside import inside_location

from .target import Target, path_of, reaching

NAME = "hindcast"
FOLDER = "published"
_HINT = "metadata/version-hint.text"
CONFLICTS = (CommitFailedException, CommitStateUnknownException, TableAlreadyExistsError)


class _Database(SqlCatalog):
    """A catalog in a SQL database. It holds no connection when it cannot be opened."""

    def __init__(self, name: str, **properties: str) -> None:
        with ExitStack() as stack:
            stack.callback(self.close)
            super().__init__(name, **properties)
            stack.pop_all()


class Tables:
    """The tables of one published lake, in one catalog. `is_own` says that the catalog is the lake's own database."""

    def __init__(self, target: Target, catalog: Catalog, words: str, *, is_own: bool) -> None:
        self.target = target
        self.catalog = catalog
        self.words = words
        self.is_own = is_own

    def find(self, kind: str) -> Table | None:
        """The table of a kind as it is now; None before the first publication. Raises LakeError."""
        with asking(self.words), reaching(self.target.url):
            try:
                return self.catalog.load_table(self.identifier(kind))
            except NoSuchTableError:
                return self._recovered(kind) if self.is_own else None

    def identifier(self, kind: str) -> tuple[str, ...]:
        """The name of a table in the catalog."""
        return (*self.target.namespace, kind)

    def make_namespace(self) -> None:
        """Make the namespace of the tables and those around it. Raises LakeError."""
        parts = self.target.namespace
        with asking(self.words):
            for length in range(1, len(parts) + 1):
                with suppress(NamespaceAlreadyExistsError):
                    self.catalog.create_namespace_if_not_exists(parts[:length])

    def show(self, kind: str) -> None:
        """Write the hint from which engines without the catalog find the current metadata of a table. Raises LakeError.

        Of two publishers the later one may be the first to write its hint. So the hint is compared with the catalog afterwards.
        """
        path = path_of(f"{self.target.table(kind)}/{_HINT}")
        while (table := self.find(kind)) is not None:
            wanted = _hint_of(table)
            with reaching(f"{self.target.table(kind)}/{_HINT}"):
                if _read(self.target, kind) == wanted:
                    return
                with self.target.filesystem().open_output_stream(path) as stream:
                    stream.write(wanted.encode())

    def close(self) -> None:
        """Release the connection of a database."""
        self.catalog.close()

    def _recovered(self, kind: str) -> Table | None:
        """A table that the lake's own catalog has lost, for example with a restored lake: its hint still names the metadata."""
        if (found := static_table(self.target, kind)) is None:
            return None
        self.make_namespace()
        with suppress(TableAlreadyExistsError):
            self.catalog.register_table(self.identifier(kind), found.metadata_location)
        return self.catalog.load_table(self.identifier(kind))


def open_tables(target: Target, lake: Path) -> Tables:
    """The tables of a target in the configured catalog, or in the database of the lake that is published. Raises LakeError."""
    if (configured := _configured(target)) is not None:
        return configured
    folder = lake / FOLDER
    database = folder / f"{xxhash.xxh3_64_hexdigest(target.url.encode())}.sqlite"
    try:
        make_folder(folder)
    except OSError as error:
        raise LakeError(f"{folder}: cannot be made: {error.strerror}", "publish as the owner of the lake") from error
    with asking(str(database)):
        catalog = _Database(NAME, uri=f"sqlite:///{database.absolute()}", **_properties(target))
        return Tables(target, catalog, str(database), is_own=True)


def tables_to_read(target: Target, kinds: tuple[str, ...]) -> dict[str, Table]:
    """The published tables: from the configured catalog, or else from the hints next to them. Raises LakeError."""
    configured = _configured(target)
    if configured is None:
        found = {kind: static_table(target, kind) for kind in kinds}
    else:
        with closing(configured):
            found = {kind: configured.find(kind) for kind in kinds}
    return {kind: table for kind, table in found.items() if table is not None}


def static_table(target: Target, kind: str) -> Table | None:
    """A table by its hint, without a catalog; None when there is no hint. Raises LakeError."""
    with reaching(target.table(kind)):
        hint = _read(target, kind)
        if hint is None:
            return None
        location = inside_location(f"{target.table(kind)}/metadata/{hint}.metadata.json", target.table(kind))
        return StaticTable.from_metadata(location, properties=_properties(target))


@contextmanager
def asking(catalog: str) -> Iterator[None]:
    """Turn errors of a catalog into a LakeError that names it. Conflicts of two publishers pass."""
    try:
        yield
    except CONFLICTS:
        raise
    except (RESTError, RequestException, SQLAlchemyError) as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise LakeError(
            f"the catalog {catalog} cannot be used: {reason}", "check its address and credentials in pyiceberg's configuration"
        ) from error


def _configured(target: Target) -> Tables | None:
    """The catalog that pyiceberg's configuration calls `hindcast`; credentials in its address are not shown."""
    given = Config().get_catalog_config(NAME)
    if not given:
        return None
    properties = {name: str(value) for name, value in given.items()}
    words = properties.get("uri", NAME).rpartition("@")[2]
    with asking(words):
        catalog = _load({**_properties(target), **properties})
    return Tables(target, catalog, words, is_own=False)


def _load(properties: dict[str, str]) -> Catalog:
    is_database = properties.get("uri", "").startswith(("sqlite", "postgresql")) and properties.get("type", "sql") == "sql"
    return _Database(NAME, **properties) if is_database else load_catalog(NAME, **properties)


def _properties(target: Target) -> dict[str, str]:
    return {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", **target.properties()}


def _hint_of(table: Table) -> str:
    return table.metadata_location.rpartition("/")[2].removesuffix(".metadata.json")


def _read(target: Target, kind: str) -> str | None:
    try:
        with target.filesystem().open_input_stream(path_of(f"{target.table(kind)}/{_HINT}")) as stream:
            return str(stream.read().decode().strip())
    except FileNotFoundError:
        return None
