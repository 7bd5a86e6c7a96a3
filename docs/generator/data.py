"""The data dictionary: every view, macro, check and table, as the SQL files and schemas describe them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from ingest.schema import EVENTS, OBJECTS, REPEATS
from pipeline.runs.verdict import VERDICTS
from queries.catalog import LakeFiles, Statement, install, statements

from .text import join, table

# Tables with what one row is.
TABLES = {
    "events": ("one row per recorded stage of a request, as stored in Parquet", EVENTS),
    "objects": ("one row per object of a snapshot, as stored in Parquet", OBJECTS),
    "repeats": ("one row per event that arrived again from another source, as stored in Parquet", REPEATS),
    "verdicts": ("one row per verdict of a run: `hindcast replay --export` writes them", VERDICTS),
}


def page() -> str:
    """The page, as Markdown."""
    connection = duckdb.connect()
    install(connection, LakeFiles())
    known = {kind: [each for each in statements() if each.kind == kind] for kind in ("view", "macro", "check")}
    parts = ["# Data dictionary", _ABOUT, "## Views"]
    for view in sorted(known["view"], key=lambda each: each.name):
        parts += _view(view, connection)
    parts.append("## Macros")
    for macro in sorted(known["macro"], key=lambda each: each.name):
        parts += [f"### {macro.name}", _sentence(macro.promise), _names("argument", macro), macro.remark]
    parts += ["## Checks", _CHECKS]
    parts.append(
        table(
            ["check", "meaning"], [(f"`{each.name}`", each.promise) for each in sorted(known["check"], key=lambda each: each.name)]
        )
    )
    parts.append("## Stored tables")
    for name, (promise, schema) in TABLES.items():
        parts += [f"### {name} (stored)", _sentence(promise), _columns(schema)]
    return join(parts)


def _view(view: Statement, connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    yield f"### {view.name}"
    yield _sentence(view.promise)
    columns = connection.execute(f"DESCRIBE {view.name}").fetchall()
    rows = [(f"`{name}`", f"`{kind}`", view.names.get(name, _MEANINGS.get(name, ""))) for name, kind, *_ in columns]
    yield table(["column", "type", "meaning"], rows)
    yield view.remark


def _names(what: str, statement: Statement) -> str:
    return table([what, "meaning"], [(f"`{name}`", text) for name, text in statement.names.items()])


def _columns(schema: pa.Schema) -> str:
    rows = [(f"`{field.name}`", f"`{field.type}`", "yes" if field.nullable else "no") for field in schema]
    return table(["column", "type", "may be null"], rows)


def _sentence(promise: str) -> str:
    return promise[:1].upper() + promise[1:] + ("" if promise.endswith((".", ":")) else ".")


# Columns that many views take from the event without change.
_MEANINGS = {
    "cluster": "the cluster's name, as ingested",
    "audit_id": "the Audit-ID of the request; a client may choose it",
    "ts": "when the API server received the request",
    "stage_ts": "when the API server reached this stage",
    "verb": "the verb of the request",
    "api_group": "the group of the resource; empty for the core group",
    "api_version": "the version of the resource",
    "resource": "the plural name of the resource",
    "subresource": "the subresource, if any",
    "namespace": "the namespace of the object; empty without one",
    "name": "the name of the object",
    "user_name": "the effective user: the impersonated one, if any",
    "code": "the HTTP status of the answer",
    "level": "the audit level of the event",
}
_ABOUT = """This page is made from the SQL files and the schemas. `hindcast` answers from these views; in Python,
`open_lake(PATH).sql(...)` asks them. A type is one of DuckDB's or Arrow's."""
_CHECKS = "`hindcast doctor` runs these checks over the lake. `fail` means wrong data, and `warn` less evidence."
