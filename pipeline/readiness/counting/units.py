"""The root owner of each request: the end of the chain of controllers, followed through the recorded objects."""

from __future__ import annotations

import pyarrow as pa

from queries import LakeReader

from ...history.kinds import built_in_resources
from ...requests.kept.told import show_told
from ..sql import statement

# Chains in Kubernetes have three or four steps (Pod, ReplicaSet, Deployment, and perhaps an operator's custom resource).
_STEPS_MAX = 8


def find_units(reader: LakeReader) -> None:
    """Make the tables `subjects`, `controllers` and `roots` of the requests in the table `judged`.

    Reads what the bodies of the requests tell, then for each step of the chains one recorded body of each object on the way.
    """
    connection = reader.connection
    rows = list(built_in_resources())
    columns = {name: [getattr(row, name) for row in rows] for name in ("group", "resource", "kind")}
    connection.register("given_kinds", pa.table(columns))
    connection.execute('CREATE OR REPLACE TEMP TABLE kinds AS SELECT "group" AS api_group, resource, kind FROM given_kinds')
    connection.unregister("given_kinds")
    show_told(reader, "judged", "cluster, audit_id, ts")
    for name in ("subjects", "subjects_repeated", "subjects_custom"):
        connection.execute(statement(name))
    for column in ("stage_ts", "body_kind", "has_metadata"):
        connection.execute(f"ALTER TABLE subjects DROP COLUMN {column}")
    connection.execute(statement("controllers_named"))
    for _ in range(_STEPS_MAX):
        connection.execute(statement("frontier"))
        if not connection.execute("FROM frontier LIMIT 1").fetchall():
            break
        connection.execute(statement("controllers_found"))
    connection.execute(statement("roots"))


def find_units_unless_found(reader: LakeReader) -> None:
    """As `find_units`, for requests that a report on this connection may have looked at already, over the same events."""
    connection = reader.connection
    tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()}
    if "roots" not in tables or connection.execute(statement("other_subjects")).fetchall():
        find_units(reader)
