"""One recorded request as validating admission saw it, by the rules of a replay, for a person who studies a single case."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from queries import LakeReader

from ..history.attributes import Discovery
from ..history.event import Event
from ..history.fitness import fit_requests
from ..history.kinds import by_resource
from ..history.outcome import Admission
from ..history.reconstruct import NotReplayed
from ..history.snapshots import ResourceName, snapshot_versions
from ..history.version import ObjectKey
from ..history.versions import LogVersions
from ..history.writes import key_of, record
from ..request import AdmissionRequest, Known
from .past import rows_of_query, snapshot_rows

# Clients may repeat an auditID, and an object may be written for years. Both are bounded; the newest are kept.
SAME_ID_MAX = 10
WRITES_MAX = 500
_NEAR = timedelta(days=1)
_EVER = datetime.min.replace(tzinfo=UTC)


def recall(
    reader: LakeReader, cluster: str, audit_id: str, discovery: Discovery | None = None
) -> Iterator[tuple[Event, list[AdmissionRequest] | NotReplayed]]:
    """Each finished request of an auditID, the newest first, with its admission requests or the reason why it gave none.

    Old objects come from the last WRITES_MAX writes of the object and from snapshots, by the same rules as in a replay.
    `discovery` knows the kinds of custom resources.
    """
    asked = {"cluster": cluster, "audit_id": audit_id, "rows": SAME_ID_MAX}
    for row in list(rows_of_query(reader, "recalled", asked)):
        event = Event.from_row(row)
        yield event, _recalled(reader, event, discovery)


def _recalled(reader: LakeReader, event: Event, discovery: Discovery | None) -> list[AdmissionRequest] | NotReplayed:
    """The admission requests of a request. The last day mostly has the old object; if not, it searches all files."""
    since = event.ts - _NEAR
    with reader.between(since, event.stage_ts) as near:
        found = fit_requests(event, _versions(near, event, since), discovery)
    if isinstance(found, NotReplayed):
        is_settled = found.admission is Admission.NOT_REACHED
    else:
        is_settled = all(isinstance(item.old_object, Known) for item in found)
    return found if is_settled else fit_requests(event, _versions(reader, event, _EVER), discovery)


def _versions(reader: LakeReader, event: Event, since: datetime) -> LogVersions:
    """The versions of the object that a request is about, from some moment up to its answer."""
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
    _add_snapshots(reader, event, key, versions, since)
    return versions


def _add_snapshots(reader: LakeReader, event: Event, key: ObjectKey, versions: LogVersions, since: datetime) -> None:
    built_in = by_resource(key.group, key.resource)
    kind = built_in.kind if built_in else event.request_head.kind or event.response_head.kind
    if not kind:
        return
    resource = ResourceName(key.group, key.resource)
    rows = snapshot_rows(reader, [(key.group, kind)], cluster=key.cluster, names=[key.name], until=event.stage_ts)
    # An older row would wrongly count as the last version if a later one lies between it and the searched time.
    ours = (row for row in rows if row["observed_ts"] >= since)
    for found, version in snapshot_versions(ours, lambda group, name: resource):
        versions.add(found, version)
