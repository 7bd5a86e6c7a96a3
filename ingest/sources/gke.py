"""GKE's audit log: entries of Cloud Logging that hold kube-apiserver's event in other fields.

GKE does not export audit events. It exports LogEntry objects with an AuditLog
(cloud.google.com/kubernetes-engine/docs/how-to/audit-logging;
cloud.google.com/logging/docs/reference/audit/auditlog/rest/Shared.Types/AuditLog). This module translates them. A value of an entry
becomes the field of the same meaning. A value in another form is named, with its source, in the note `translated`.
Fields that an entry lacks stay empty: the request's URI, and all of the user but the name. The rest of the entry is kept in
`logEntry`.

    insertId                            auditID: both are unique
    timestamp                           both timestamps: there is only one
    operation.first, .last              stage
    methodName                          verb, resource, subresource: io.k8s.apps.v1.deployments.scale.update
    resourceName                        objectRef: apps/v1/namespaces/NAMESPACE/deployments/NAME
    request, response                   bodies, without the `@type` that makes them google.protobuf.Any; they tell the level
    status.code                         a google.rpc.Code in place of an HTTP status, unless the response is a Status
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..notes import DRY_RUN, TRANSLATED, Sealed, noted
from .exports import Expand, Found, in_cluster

_SERVICE = "k8s.io"
_CORE = "core"  # the API's name for the empty group
# Its value is not empty where the request was a dry run (docs.cloud.google.com, "GKE audit logging information").
_DRY_RUN_LABEL = "command.gke.io/dryRun"
_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
# google/rpc/code.proto, "HTTP Mapping" of each code.
_HTTP_CODES = {
    0: 200,
    1: 499,
    2: 500,
    3: 400,
    4: 504,
    5: 404,
    6: 409,
    7: 403,
    8: 429,
    9: 400,
    10: 409,
    11: 400,
    12: 501,
    13: 500,
    14: 503,
    15: 500,
    16: 401,
}
_MOVED = ("insertId", "timestamp", "labels", "protoPayload")

Body = dict[str, msgspec.Raw]


class _Authentication(msgspec.Struct, rename="camel"):
    principal_email: str | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    caller_ip: str | None = None
    caller_supplied_user_agent: str | None = None


class _Status(msgspec.Struct):
    code: int = 0
    message: str | None = None


class _AuditLog(msgspec.Struct, rename="camel"):
    service_name: str
    method_name: str
    resource_name: str = ""
    authentication_info: _Authentication = msgspec.field(default_factory=_Authentication)
    request_metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status | None = None
    request: Body | None = None
    response: Body | None = None
    authorization_info: msgspec.Raw = msgspec.Raw(b"null")


class _Operation(msgspec.Struct):
    first: bool = False
    last: bool = False


class _Resource(msgspec.Struct):
    labels: dict[str, str] | None = None


class _LogEntry(msgspec.Struct, rename="camel"):
    insert_id: str
    timestamp: str
    proto_payload: msgspec.Raw
    labels: dict[str, str] | None = None
    operation: _Operation | None = None
    resource: _Resource | None = None


class _Service(msgspec.Struct, rename="camel"):
    service_name: str = ""


class _Answer(msgspec.Struct):
    """The Status among the bodies, which is the answer to the client."""

    kind: str | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None


_entry = msgspec.json.Decoder(_LogEntry)
_service = msgspec.json.Decoder(_Service)
_audit_log = msgspec.json.Decoder(_AuditLog)
_fields = msgspec.json.Decoder(Body)
_answer = msgspec.json.Decoder(_Answer)
_encoder = msgspec.json.Encoder()


def unwrap_log_entry(value: bytes, expand: Expand) -> Found | None:
    """The event of a LogEntry; entries of other services are skipped. None where the value is not a LogEntry."""
    try:
        entry = _entry.decode(value)
        if _service.decode(entry.proto_payload).service_name != _SERVICE:
            return Found([], 1)
        log = _audit_log.decode(entry.proto_payload)
    except (ValueError, RecursionError):
        return None
    cluster = entry.resource.labels.get("cluster_name") if entry.resource and entry.resource.labels else None
    return in_cluster(Found([Sealed(_encoder.encode(_event(entry, log, _fields.decode(value))))]), cluster or "")


def unwrap_row(value: bytes, expand: Expand) -> Found | None:
    """The event of an entry as BigQuery keeps it (cloud.google.com/logging/docs/export/bigquery, "Audit logs fields")."""
    try:
        fields = msgspec.json.decode(value, type=dict[str, Any])
        log = dict(fields.pop("protopayload_auditlog"))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    for name in ("request", "response", "metadata"):
        text = log.pop(f"{name}Json", None)
        if isinstance(text, str) and text:
            log[name] = msgspec.Raw(text.encode())
    fields["protoPayload"] = log
    if isinstance(moment := fields.get("timestamp"), str):
        fields["timestamp"] = moment.replace(" UTC", "Z").replace(" ", "T", 1)
    if isinstance(labels := fields.get("labels"), list):
        fields["labels"] = {str(item.get("key")): str(item.get("value")) for item in labels if isinstance(item, dict)}
    try:
        return unwrap_log_entry(_encoder.encode({name: item for name, item in fields.items() if item is not None}), expand)
    except (ValueError, TypeError):
        return None


def _event(entry: _LogEntry, log: _AuditLog, fields: Body) -> dict[str, Any]:
    request, response = _body(log.request), _body(log.response)
    status, code_from = _response_status(log.status, response)
    is_done = entry.operation is None or entry.operation.last
    origins = ["auditID=insertId", "requestReceivedTimestamp,stageTimestamp=timestamp", "level=bodies", "stage=operation"]
    origins += [f"responseStatus.code={code_from}"] if code_from else []
    verb, reference = _target(log.method_name, log.resource_name)
    event = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse" if response is not None else "Request" if request is not None else "Metadata",
        "auditID": entry.insert_id,
        "stage": "ResponseComplete" if is_done else "ResponseStarted",
        "verb": verb,
        "user": {"username": log.authentication_info.principal_email} if log.authentication_info.principal_email else None,
        "sourceIPs": [log.request_metadata.caller_ip] if log.request_metadata.caller_ip else None,
        "userAgent": log.request_metadata.caller_supplied_user_agent,
        "objectRef": reference,
        "responseStatus": status if is_done or log.status else None,
        "requestObject": request,
        "responseObject": response,
        "requestReceivedTimestamp": entry.timestamp,
        "stageTimestamp": entry.timestamp,
        "annotations": noted(entry.labels or {}, {TRANSLATED: ";".join(origins), **_dry_run(entry.labels or {})}),
        "logEntry": {name: raw for name, raw in fields.items() if name not in _MOVED}
        | {"methodName": log.method_name, "resourceName": log.resource_name, "authorizationInfo": log.authorization_info},
    }
    return {name: value for name, value in event.items() if value is not None}


def _dry_run(labels: Mapping[str, str]) -> dict[str, str]:
    """The note on a dry run; entries from before this label do not say whether they are one."""
    return {DRY_RUN: "true"} if labels.get(_DRY_RUN_LABEL) else {}


def _body(fields: Body | None) -> Body | None:
    return None if fields is None else {name: raw for name, raw in fields.items() if name != "@type"}


def _response_status(status: _Status | None, response: Body | None) -> tuple[dict[str, Any], str]:
    """responseStatus, and the source of its code where that is not an HTTP status.

    An entry without a status means success.
    """
    try:
        answer = _answer.decode(_encoder.encode(response or {}))
    except ValueError:
        answer = _Answer()
    if answer.kind == "Status" and answer.code:
        found = {"code": answer.code, "reason": answer.reason, "message": answer.message}
        return {name: value for name, value in found.items() if value}, ""
    told = status or _Status()
    code = told.code if told.code >= 100 else _HTTP_CODES.get(told.code, 500)
    origin = "" if told.code >= 100 else f"google.rpc.Code {told.code}"
    return {"code": code} | ({"message": told.message} if told.message else {}), origin


def _target(method: str, name: str) -> tuple[str, dict[str, str] | None]:
    """(verb, objectRef) of an entry; no objectRef where the request was for no resource, such as /healthz.

    The version marks the end of the group in the method's name. The group is written backwards there and is not needed.
    """
    *path, verb = method.split(".")
    version = next((index for index, part in enumerate(path) if index and _VERSION.fullmatch(part)), None)
    where = name.split("/")
    if version is None or len(path) == version + 1 or len(where) < 3:
        return verb, None
    group, resource, subresource = where[0], path[version + 1], "/".join(path[version + 2 :])
    rest = where[2:]
    reference = {"resource": resource, "apiVersion": where[1], "subresource": subresource}
    reference["apiGroup"] = "" if group == _CORE else group
    if rest[0] == "namespaces" and resource != "namespaces" and len(rest) > 2:
        reference["namespace"], rest = rest[1], rest[2:]
    elif resource == "namespaces" and len(rest) > 1 and verb != "create":
        reference["namespace"] = rest[1]  # as in kube-apiserver's own events, because the URL names it twice
    if len(rest) > 1 and rest[0] == resource:
        reference["name"] = rest[1]
    return verb, {key: value for key, value in reference.items() if value}
