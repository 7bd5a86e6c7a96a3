"""Whether a name of a cluster stands for one cluster. Only the way in names the cluster of an event, so a mistake there mixes two.

The evidence is in the views `cluster_uids` and `overlapping_lives`; the minors of API servers are in `server_versions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .lake import LakeReader

REMEDY = "ingest the log of each cluster under a name of its own (--cluster), into a new lake"
# One row per cluster and object whose uids say that there are two clusters.
MIXED_NAMES = """
    SELECT
        cluster, 'namespace ' || namespace AS object, arg_min(uid, first_ts) AS uid, arg_max(uid, first_ts) AS other_uid,
        max(first_ts) AS since, 0 AS weight
    FROM cluster_uids GROUP BY cluster, namespace HAVING count(*) > 1
    UNION ALL
    SELECT
        cluster, resource || ' ' || CASE namespace WHEN '' THEN name ELSE namespace || '/' || name END,
        uid, other_uid, first_ts, 1
    FROM overlapping_lives
    ORDER BY cluster, weight, object DESC"""
# The uid of kube-system is a cluster's identity (KEP-2149).
_UIDS = "SELECT cluster, arg_max(uid, last_ts) FROM cluster_uids WHERE namespace = 'kube-system' GROUP BY cluster ORDER BY cluster"
_VERSIONS = "SELECT minor, first_ts, last_ts FROM server_versions ORDER BY first_ts, minor"


@dataclass(frozen=True, slots=True)
class ServerMinor:
    """A Kubernetes minor that API servers of a cluster said they are, and when."""

    minor: str
    first_ts: datetime
    last_ts: datetime


def mixed_names(reader: LakeReader) -> dict[str, str]:
    """The names under which the lake has events of two clusters, each with a sentence on the evidence."""
    return mixed_sentences(reader.rows(MIXED_NAMES))


def mixed_sentences(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """As `mixed_names`, from the rows of MIXED_NAMES."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["cluster"], []).append(row)
    return {cluster: _sentence(cluster, rows) for cluster, rows in found.items()}


def _sentence(cluster: str, rows: list[Mapping[str, Any]]) -> str:
    what, uid, other, since = (rows[0][name] for name in ("object", "uid", "other_uid", "since"))
    more = f", and so had {len(rows) - 1:,} more {'object' if len(rows) == 2 else 'objects'}" if len(rows) > 1 else ""
    day = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"two clusters share the name {cluster}: {what} had the uid {uid}, and from {day} on the uid {other}{more}; "
        "within one cluster this cannot be"
    )


def cluster_uids(reader: LakeReader) -> dict[str, str]:
    """The uid of the namespace kube-system of each cluster whose log or snapshots show it."""
    return dict(reader.connection.execute(_UIDS).fetchall())


def server_minors(reader: LakeReader) -> list[ServerMinor]:
    """The minors of the API servers that a reader sees, in the order in which they were first seen."""
    return [ServerMinor(*row) for row in reader.connection.execute(_VERSIONS).fetchall()]
