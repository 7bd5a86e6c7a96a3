"""Who last wrote a workload: a person or a pipeline behind the controller that was denied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from pipeline.report.workloads import Denied

from ..ask.reads import Source

# Controllers of the cluster write owners, too; who asked for the workload is somebody else.
_WRITERS = """
    WITH wanted AS (SELECT unnest($namespaces) AS namespace, unnest($kinds) AS kind, unnest($names) AS name)
    SELECT namespace, kind, name, arg_max(user_name, ts), max(ts)
    FROM requests JOIN wanted USING (namespace, name)
    WHERE verb IN ('create', 'update', 'patch') AND subresource IS NULL AND code BETWEEN 200 AND 299
        AND resource IN (kind || 's', kind || 'es')
        AND (NOT starts_with(user_name, 'system:') OR starts_with(user_name, 'system:serviceaccount:'))
        AND NOT starts_with(user_name, 'system:serviceaccount:kube-system:')
    GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who last wrote a workload, and when."""

    user: str
    ts: datetime


def last_writers(source: Source, found: Iterable[Denied]) -> Mapping[tuple[str, str], Writer]:
    """The last writers of workloads, by (namespace, unit); one without a recorded write is missing."""
    named = {(row.namespace, *_kind_and_name(row.unit)): row.unit for row in found if "/" in row.unit}
    if not named:
        return {}
    columns = dict(zip(("namespaces", "kinds", "names"), map(list, zip(*named, strict=True)), strict=True))
    rows = source.reader.connection.execute(_WRITERS, columns).fetchall()
    return {(namespace, named[namespace, kind, name]): Writer(user, ts) for namespace, kind, name, user, ts in rows}


def _kind_and_name(unit: str) -> tuple[str, str]:
    kind, _, name = unit.partition("/")
    return kind.lower(), name
