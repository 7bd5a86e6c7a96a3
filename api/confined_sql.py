"""SQL of others over the views of a lake: it reads the lake's files and nothing else, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from ingest.errors import InputError
from queries import LakeReader, open_lake

from .published import published_url

# Nothing but a SELECT is run. Among these are FROM, WITH, VALUES, DESCRIBE, SUMMARIZE and SHOW TABLES.
_READS = duckdb.StatementType.SELECT
_NEXT = "`hindcast sql` lists the views, `hindcast sql 'DESCRIBE requests'` the columns of one"
_MISTAKES = (
    duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException, duckdb.ConversionException, duckdb.PermissionException,
    duckdb.OutOfRangeException, duckdb.InvalidInputException, duckdb.TypeMismatchException, duckdb.SyntaxException,
    duckdb.NotImplementedException,
)  # fmt: skip


def confine(reader: LakeReader, lake: Path, memory_bytes_max: int) -> None:
    """Restrict all statements of a reader's database to the lake's files, and lock that setting."""
    connection = reader.connection
    connection.execute(f"SET memory_limit = '{int(memory_bytes_max)}B'")
    connection.execute("SET temp_directory = ''")  # a question that needs more memory fails; DuckDB writes no temporary files
    # A name that no view has would else be looked for among the variables of this program.
    connection.execute("SET python_enable_replacements = false")
    # What an extension would read lies outside of the lake; without this DuckDB tries to download it.
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    places = [f"{lake}/"]
    if (published := published_url(lake)) is not None:
        places.append(f"{published.removeprefix('file://')}/")
    connection.execute("SET allowed_directories = ?", [places])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


@contextmanager
def asked(lake: Path, text: str, memory_bytes_max: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """The answer to one SELECT over the views of a lake, to fetch from.

    Raises InputError for text that is not one SELECT, that names what the lake does not have, or that reads other files.
    """
    with closing(open_lake(lake)) as reader:
        confine(reader, lake.resolve(), memory_bytes_max)
        try:
            statements = duckdb.extract_statements(text)
            if len(statements) != 1 or statements[0].type is not _READS:
                found = f"{len(statements)} statements" if len(statements) != 1 else statements[0].type.name
                raise InputError(f"this SQL cannot be run: found {found}, wanted one SELECT", _NEXT)
            yield reader.connection.execute(statements[0])
        except _MISTAKES as error:
            raise InputError(f"this SQL cannot be run: {str(error).splitlines()[0]}", _NEXT) from error
