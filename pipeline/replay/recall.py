"""One recorded request as validating admission saw it: what a replay makes of it, for a person who looks at a single case."""

from __future__ import annotations

from collections.abc import Iterator

from queries import LakeReader

from ..history.event import Event
from ..history.kinds import by_resource
from ..history.reconstruct import NotReplayed, admission_requests
from ..history.snapshots import ResourceName, snapshot_versions
from ..history.versions import LogVersions, ObjectKey
from ..history.writes import key_of, record
from ..request import AdmissionRequest
from .past import rows_of_query, snapshot_rows

# Clients may repeat an auditID, and an object may be written for years: both are bounded, the newest count.
SAME_ID_MAX = 10
WRITES_MAX = 500


def recall(reader: LakeReader, cluster: str, audit_id: str) -> Iterator[tuple[Event, list[AdmissionRequest] | NotReplayed]]:
    """Each finished request of an auditID, the newest first, with the admission requests that it gave or why it gave none.

    Old objects come from the last WRITES_MAX writes of the object and from snapshots, by the same rules as in a replay.
    """
    asked = {"cluster": cluster, "audit_id": audit_id, "rows": SAME_ID_MAX}
    for row in list(rows_of_query(reader, "recalled", asked)):
        event = Event.from_row(row)
        yield event, admission_requests(event, _versions(reader, event))


def _versions(reader: LakeReader, event: Event) -> LogVersions:
    """The versions of the object that a request is about, up to its answer."""
    versions = LogVersions()
    key = key_of(event, event.response_head)
    if not key.resource:
        return versions
    parameters = {
        "cluster": key.cluster,
        "resource": key.resource,
        "namespace": event.namespace,
        "name": key.name,
        "until": event.stage_ts,
        "rows": WRITES_MAX,
    }
    for row in list(rows_of_query(reader, "recalled_writes", parameters)):
        record(Event.from_row(row), versions)
    _add_snapshots(reader, event, key, versions)
    return versions


def _add_snapshots(reader: LakeReader, event: Event, key: ObjectKey, versions: LogVersions) -> None:
    built_in = by_resource(key.group, key.resource)
    kind = built_in.kind if built_in else event.request_head.kind or event.response_head.kind
    if not kind:
        return
    resource = ResourceName(key.group, key.resource)
    rows = snapshot_rows(
        reader,
        [(key.group, kind)],
        cluster=key.cluster,
        first_namespace=key.namespace,
        last_namespace=key.namespace,
        until=event.stage_ts,
    )
    for found, version in snapshot_versions((row for row in rows if row["name"] == key.name), lambda group, name: resource):
        versions.add(found, version)
