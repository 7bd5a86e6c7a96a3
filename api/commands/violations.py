"""`hindcast violations`: recorded failures by policy, binding, namespace, user, workload or time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from api.context import Context
from api.printing.output import Format
from queries import DIMENSIONS

from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from queries import LakeReader


FIRST_FAILURE_ONLY = (
    "up to Kubernetes 1.36 the API server records only the first failure of a request, so these counts are lower bounds; "
    "`hindcast replay` counts them all"
)
Window = tuple[datetime | None, datetime | None]
_COLUMN_OF = {"user": "user_name"}
_HEADINGS = {"user_name": "USER", "first_ts": "FIRST", "last_ts": "LAST"}
# Where the terminal is narrow, these columns are left out, the highest first.
_MAY_GO = {"first_ts": 2, "last_ts": 1}
_COUNTS = ("failures", "requests", "admitted", "users", "namespaces")
# The dimensions that notes of Pod Security have, as SQL.
_POD_SECURITY = {
    "cluster": "cluster",
    "namespace": "namespace",
    "workload": "workload",
    "user": "user_name",
    "message": "message",
    "resource": "resource",
    "day": "ts::DATE AS day",
}
_QUESTIONS = (
    ("denials", "Requests that policies denied", "SELECT {columns} FROM denial_rollup(?, ?, ?)"),
    ("audit_annotations", "Audit annotations of policies", "SELECT {columns} FROM annotation_rollup(?, ?, ?)"),
)


def command(
    context: typer.Context,
    by: Annotated[list[str] | None, typer.Option(help=f"Count by this; repeatable. One of {', '.join(DIMENSIONS)}.")] = None,
    namespace: Annotated[str | None, typer.Option("-n", "--namespace", help="Only this namespace.")] = None,
    cluster: Annotated[
        str, typer.Option(help="Only this cluster of the lake. [default: each cluster apart]", show_default=False)
    ] = "",
    since: options.Since = None,
    until: options.Until = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> None:
    """Print the failures, denials and audit annotations of policies, and the notes of Pod Security, that the audit log recorded."""
    from api import asked_values
    from api.printing.output import render
    from queries import open_lake
    from queries.lake import violation_question

    from .parts.clusters import cluster_files, known_clusters

    own: Context = context.obj
    window = asked_values.parse_window(since, until)
    reader = open_lake(own.lake, files=cluster_files(own, cluster))
    are_several = not cluster and len(known_clusters(own)) > 1
    dimensions = list(by or ["policy", "binding"])
    # Figures of several clusters are never summed.
    if are_several and "cluster" not in dimensions:
        dimensions = ["cluster", *dimensions]
    if namespace is not None and "namespace" not in dimensions:
        dimensions = [*dimensions, "namespace"]
    if "workload" in dimensions and "namespace" not in dimensions:
        dimensions = [*(each for each in dimensions if each != "workload"), "namespace", "workload"]
    rows = reader.rows(*violation_question(dimensions, *window))
    kept = [row for row in rows if namespace is None or row["namespace"] == namespace]
    tables = recorded(reader, window, namespace, by_cluster="cluster" in dimensions)
    tables.append(pod_security(reader, dimensions, window, namespace))
    render([failures(dimensions, kept), *tables], output, limit=limit)


def failures(dimensions: Sequence[str], rows: Sequence[dict[str, Any]]) -> Table:
    """Recorded failures per combination of the dimensions, most first."""
    from api.printing.output import Column, Table

    names = [_COLUMN_OF.get(dimension, dimension) for dimension in dimensions]
    columns = [
        *(Column(name, _HEADINGS.get(name, ""), prose=name == "message", may_shorten=name != "message") for name in names),
        *(Column(name, number=True, wide=name in ("users", "namespaces")) for name in _COUNTS),
        Column("first_ts", "FIRST", may_go=2),
        Column("last_ts", "LAST", may_go=1),
    ]
    cells = [[row[column.key] for column in columns] for row in rows]
    return Table("failures", columns, cells, "Recorded validation failures", (FIRST_FAILURE_ONLY,) if rows else ())


def recorded(
    reader: LakeReader, window: Window = (None, None), namespace: str | None = None, *, by_cluster: bool = False
) -> list[Table]:
    """Requests that policies denied, and the audit annotations that policies declared. The reader sees one cluster unless asked
    `by_cluster`."""
    columns = "*" if by_cluster else "* EXCLUDE (cluster)"
    return [_table(reader, [*window, namespace], name, title, text.format(columns=columns)) for name, title, text in _QUESTIONS]


def pod_security(reader: LakeReader, dimensions: Sequence[str], window: Window, namespace: str | None) -> Table:
    """What Pod Security noted and refused, by level and version, and by the asked dimensions that it has; most requests first."""
    others = [_POD_SECURITY[each] for each in dimensions if each in _POD_SECURITY]
    names = [*(each.rpartition(" AS ")[2] for each in others), "note", "level", "version"]
    text = (
        f"SELECT {', '.join([*others, 'note', 'level', 'version'])}, count(*) AS requests, count(DISTINCT user_name) AS users, "
        "count(DISTINCT namespace) AS namespaces, min(ts) AS first_ts, max(ts) AS last_ts FROM pod_security_notes "
        "WHERE (?1 IS NULL OR ts >= ?1) AND (?2 IS NULL OR ts < ?2) AND (?3 IS NULL OR namespace = ?3) "
        f"GROUP BY ALL ORDER BY requests DESC, {', '.join(names)}"
    )
    return _table(reader, [*window, namespace], "pod_security", "Pod Security: what the API server noted and refused", text)


def _table(reader: LakeReader, parameters: Sequence[object], name: str, title: str, text: str) -> Table:
    # A relation would plan the query twice, which takes longer than to run it on a small lake.
    from api.printing.output import Column, Table

    answer = reader.connection.execute(text, parameters)
    columns = [
        Column(
            key,
            _HEADINGS.get(key, ""),
            number=key in (*_COUNTS, "distinct_values"),
            prose=key == "message",
            may_go=_MAY_GO.get(key, 0),
        )
        for key, *_ in answer.description or ()
    ]
    return Table(name, columns, answer.fetchall(), title)
