"""Finds out when a snapshot was taken. A list does not say it, but its content does, and the log gives the times of
resourceVersions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ingest.sources.object_lists import KindOf
from ingest.sources.snapshot_content import SnapshotContent
from pipeline.history.kinds import built_in_resources
from queries import LakeReader

_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
# Groups whose kinds are served by other groups under the same names; a file name means the other group.
_SECOND_CHOICE = frozenset({"extensions", "events.k8s.io", "metrics.k8s.io"})

_SPAN = "SELECT cluster, count(*), min(ts), max(stage_ts) FROM events GROUP BY cluster ORDER BY cluster"
# Event objects may be in a store of their own, with its own counter. A write that changes nothing answers with an old
# resourceVersion.
_REACHED = """
    WITH writes AS (
        SELECT stage_ts, TRY_CAST(json_extract_string(response_object, '$.metadata.resourceVersion') AS BIGINT) AS number
        FROM events
        WHERE cluster = $cluster AND stage = 'ResponseComplete' AND code BETWEEN 200 AND 299 AND resource <> 'events'
            AND verb IN ('create', 'update', 'patch') AND response_object IS NOT NULL AND stage_ts >= $since
    ), changes AS (
        FROM writes
        QUALIFY number > coalesce(max(number) OVER (ORDER BY stage_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
    )
    SELECT max(stage_ts) FILTER (number <= $number), min(stage_ts) FILTER (number > $number) FROM changes"""
_CUSTOM = """
    SELECT DISTINCT object ->> '$.spec.group', object ->> '$.spec.names.kind', object ->> '$.spec.names.plural',
        object ->> '$.spec.versions[0].name'
    FROM objects WHERE kind = 'CustomResourceDefinition'"""


@dataclass(frozen=True, slots=True)
class Taken:
    """The assumed moment of a snapshot, the reason, and the notes for the user."""

    moment: datetime
    why: str
    warnings: list[str] = field(default_factory=list)


def time_taken(reader: LakeReader, cluster: str, content: SnapshotContent, given: datetime | None, newest_file: datetime) -> Taken:
    """When a snapshot of a cluster was taken: as given, or from its content and the log, or else the time of its newest file."""
    spans = {name: (first, last) for name, _, first, last in reader.sql(_SPAN).fetchall()}
    if given is not None:
        moment, why = given, "as --at says"
    elif content.known is not None:
        moment, why = content.known, "as when these files were taken in before"
    else:
        moment, why = _told(reader, cluster, content, spans) or (newest_file, "the time of the newest file: no content tells one")
    return Taken(moment, why, list(_warnings(cluster, content, moment, spans)))


def _told(
    reader: LakeReader, cluster: str, content: SnapshotContent, spans: dict[str, tuple[datetime, datetime]]
) -> tuple[datetime, str] | None:
    """The moment from content and log. Each piece of evidence is a bound: a list is not older than the newest time in it."""
    number = content.list_rv or content.object_rv
    reached = following = None
    if number and cluster in spans:
        since = max(content.newest - _SECOND, spans[cluster][0]) if content.newest else spans[cluster][0]
        asked = {"cluster": cluster, "number": number, "since": since}
        with reader.between(since, datetime.max.replace(tzinfo=UTC, year=9000)) as near:
            reached, following = near.sql(_REACHED, asked).fetchall()[0]
    if content.list_rv and following is not None:
        bound = following - _MICROSECOND
        latest = min(max(filter(None, (reached, content.newest)), default=bound), bound)
        return latest, f"the log dates resourceVersion {number:,} of the lists"
    if reached is not None and (content.newest is None or reached >= content.newest):
        what = "the lists" if content.list_rv else "the newest object"
        return reached, f"the log dates resourceVersion {number:,} of {what}; no older than that"
    if content.newest is not None:
        return content.newest, "the newest time in the objects; no older than that"
    return None


def _warnings(cluster: str, content: SnapshotContent, moment: datetime, spans: dict[str, tuple[datetime, datetime]]) -> list[str]:
    found = []
    if content.newest is not None and content.newest > moment + _SECOND:
        found.append(f"warning: the lists show what happened later, at {_text(content.newest)}: is the time right?")
    if cluster not in spans:
        others = f"; it has events of {', '.join(sorted(spans))}" if spans else ""
        found.append(f"warning: the lake has no events of cluster {cluster}{others}. A snapshot serves only its own cluster")
        return found
    first, last = spans[cluster]
    if moment < first:
        found.append(f"warning: it lies {_span(first - moment)} before the log, and writes in between are not recorded")
    elif moment > last:
        found.append(
            f"warning: it lies {_span(moment - last)} after the log, and writes in between are not recorded; "
            "ingest the log up to then"
        )
    return found


def kinds_by_name(reader: LakeReader) -> KindOf:
    """The kind that a word of a file name means: a built-in kind, or one that a listed CustomResourceDefinition defines."""
    found: dict[str, tuple[str, str]] = {}
    for row in sorted(built_in_resources(), key=lambda row: (row.group in _SECOND_CHOICE, row.group)):
        for word in _words(row.kind, row.resource, row.group):
            found.setdefault(word, (f"{row.group}/v1".lstrip("/"), row.kind))
    for group, kind, plural, version in reader.sql(_CUSTOM).fetchall():
        if group and kind and plural:
            for word in _words(kind, plural, group):
                found.setdefault(word, (f"{group}/{version or 'v1'}", kind))
    return found.get


def _words(kind: str, resource: str, group: str) -> tuple[str, ...]:
    """How users name the file of a kind: pods, pod, deployments.apps."""
    return (resource, kind.lower(), f"{kind.lower()}s", *((f"{resource}.{group}",) if group else ()))


def _text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    for name, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s" if seconds >= 1 else "less than a second"


def described(cluster: str, content: SnapshotContent, taken: Taken) -> list[str]:
    """The ingested snapshot in sentences: the moment and why, the cluster, the kinds, and its problems."""
    kinds = [f"{count:,} {kind}" for kind, count in sorted(content.kinds.items()) if count]
    empty = [kind for kind, count in sorted(content.kinds.items()) if not count and kind != "List"]
    listed = ", ".join(kinds) or "no objects"
    none = f"; none of {', '.join(empty)}" if empty else ""
    return [f"cluster {cluster} as of {_text(taken.moment)} ({taken.why}): {listed}{none}", *taken.warnings]
