"""Audit logs of managed clusters, as their providers hand them out: which part of a log entry is the event.

    EKS   CloudWatch Logs: batches of a subscription filter (docs.aws.amazon.com, AmazonCloudWatch Logs "SubscriptionFilters");
          output of `aws logs get-log-events` and `filter-log-events`; lines of an export to S3 or of `aws logs tail`
    AKS   diagnostic settings: the records of an event hub, one record a line in a storage account; `properties` and its `log` are
          objects or JSON in a string (learn.microsoft.com, "Azure resource logs common schema", "Monitor AKS", category kube-audit)

The events of both are kube-apiserver's own. Entries of other logs in the same export are skipped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

AUDIT_CATEGORIES = ("kube-audit", "kube-audit-admin")  # the second kind is a part of the first: an event in both is stored once
# `TIME MESSAGE` in S3, `TIME STREAM MESSAGE` from `aws logs tail`.
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)\s+(?:\S+\s+)?(?=\{)")


_EKS_GROUP = re.compile(r"/aws/eks/([^/]+)/cluster")
_AKS_RESOURCE = re.compile(r"/managedclusters/([^/]+)", re.IGNORECASE)


class Found(NamedTuple):
    """The events in a value, and how many entries in it belong to another log. `form` names the envelope, empty for an event alone.

    `clusters` has the cluster of each event as its envelope names it; it is empty where no envelope names one.
    """

    events: list[bytes]
    passed_over: int = 0
    form: str = ""
    clusters: tuple[str, ...] = ()


class Expand(Protocol):
    """Finds the events in a value that lies `depth` levels inside a record."""

    def __call__(self, value: bytes, depth: int = 0) -> Found: ...


class _LogGroup(msgspec.Struct):
    log_group: str = msgspec.field(name="logGroup", default="")
    log_events: list[msgspec.Raw] | None = msgspec.field(name="logEvents", default=None)
    events: list[msgspec.Raw] | None = None


class _LogEvent(msgspec.Struct):
    message: str


class _Records(msgspec.Struct):
    records: list[msgspec.Raw]


class _Record(msgspec.Struct):
    category: str
    properties: msgspec.Raw
    resource_id: str = msgspec.field(name="resourceId", default="")


class _Properties(msgspec.Struct):
    log: msgspec.Raw


_log_group = msgspec.json.Decoder(_LogGroup)
_log_event = msgspec.json.Decoder(_LogEvent)
_records = msgspec.json.Decoder(_Records)
_record = msgspec.json.Decoder(_Record)
_properties = msgspec.json.Decoder(_Properties)
_text = msgspec.json.Decoder(str)


def unstamped(line: bytes) -> bytes:
    """The JSON of a line that begins with a time; the line itself where it does not begin with one."""
    match = _STAMP.match(line)
    return line[match.end() :] if match else line


def unwrap_log_group(value: bytes, expand: Expand) -> Found | None:
    """The messages of log events of CloudWatch; None where the value is something else."""
    try:
        group = _log_group.decode(value)
    except (ValueError, RecursionError):
        return None
    entries = group.log_events if group.log_events is not None else group.events
    if entries is None:
        return None
    found = joined(_message(bytes(entry), expand) for entry in entries)
    match = _EKS_GROUP.fullmatch(group.log_group)
    return in_cluster(found, match[1] if match else "")


def _message(entry: bytes, expand: Expand) -> Found:
    try:
        message = _log_event.decode(entry).message.strip()
    except (ValueError, RecursionError):
        return Found([entry])  # decoding refuses it, with the reason
    # The other streams of a control plane's log group hold text.
    return expand(message.encode("utf-8", "replace")) if message.startswith("{") else Found([], 1)


def unwrap_records(value: bytes, expand: Expand) -> Found | None:
    """The records of an event hub's message; None where they are of another service, as those of Firehose."""
    try:
        records = [bytes(record) for record in _records.decode(value).records]
    except (ValueError, RecursionError):
        return None
    found = [unwrap_record(record, expand) for record in records]
    if records and not any(found):
        return None
    return joined(each or Found([record]) for each, record in zip(found, records, strict=True))


def unwrap_record(value: bytes, expand: Expand) -> Found | None:
    """The log of one record of diagnostic settings."""
    try:
        record = _record.decode(value)
        if record.category not in AUDIT_CATEGORIES:
            return Found([], 1)
        log = _unquoted(bytes(_properties.decode(_unquoted(bytes(record.properties))).log))
    except (ValueError, RecursionError):
        return None
    match = _AKS_RESOURCE.search(record.resource_id)
    return in_cluster(expand(log.strip()), match[1].lower() if match else "")


def _unquoted(value: bytes) -> bytes:
    """JSON in a string, or as a plain value."""
    return _text.decode(value).encode("utf-8", "replace") if value[:1] == b'"' else value


def in_cluster(found: Found, cluster: str) -> Found:
    """The events as those of a cluster, where the envelope names one."""
    return found._replace(clusters=(cluster,) * len(found.events)) if cluster and not found.clusters else found


def joined(parts: Iterable[Found]) -> Found:
    """All events of several values; the form is that of the first value which has one."""
    events: list[bytes] = []
    clusters: list[str] = []
    passed_over = 0
    form = ""
    for part in parts:
        events += part.events
        clusters += part.clusters or [""] * len(part.events)
        passed_over += part.passed_over
        form = form or part.form
    return Found(events, passed_over, form, tuple(clusters) if any(clusters) else ())
