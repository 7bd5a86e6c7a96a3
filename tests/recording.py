"""Audit events of small made-up clusters, as an API server would record them, and the lakes that they make."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.lake import Lake
from ingest.redaction.redact import Redactor
from ingest.sources.files import ingest_files

START = datetime(2026, 1, 1, tzinfo=UTC)
Object = dict[str, Any]
# A policy that a Deployment of up to four replicas meets.
FEW_REPLICAS = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  validations: [{expression: "object.spec.replicas < 5"}]
"""


def recorded(
    audit_id: str,
    at: datetime,
    verb: str,
    obj: Mapping[str, Any],
    *,
    user: str = "alice",
    groups: Sequence[str] = ("system:authenticated",),
    answer: Mapping[str, Any] | None = None,
    level: str = "RequestResponse",
    subresource: str | None = None,
    **more: Any,
) -> Object:
    """The final event of one request about an object; `plural` in the object names its resource and is not recorded."""
    body = {key: value for key, value in obj.items() if key != "plural"}
    plural = obj.get("plural") or f"{obj['kind'].lower()}s"
    group, _, version = body["apiVersion"].rpartition("/")
    metadata = body["metadata"]
    reference = {"resource": plural, "namespace": metadata.get("namespace", ""), "name": metadata["name"]}
    reference |= {"apiGroup": group, "apiVersion": version} | ({"subresource": subresource} if subresource else {})
    bodies = {"requestObject": body, "responseObject": answer or body} if level == "RequestResponse" else {}
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level,
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "requestURI": uri_of(verb, reference),
        "verb": verb,
        "user": {"username": user, "groups": list(groups)},
        "objectRef": reference,
        "responseStatus": {"metadata": {}, "code": 201 if verb == "create" else 200},
        "requestReceivedTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "stageTimestamp": f"{at + timedelta(milliseconds=4):%Y-%m-%dT%H:%M:%S.%f}Z",
        **bodies,
        **more,
    }


def uri_of(verb: str, reference: Mapping[str, str]) -> str:
    """As a client asks for it: the name of a new object is in its body alone."""
    group, version, namespace = reference["apiGroup"], reference["apiVersion"], reference["namespace"]
    parts = [f"/apis/{group}/{version}" if group else f"/api/{version}", *(["namespaces", namespace] if namespace else [])]
    parts.append(reference["resource"])
    subresource = reference.get("subresource")
    parts += [] if verb == "create" and not subresource else [reference["name"]]
    return "/".join([*parts, *([subresource] if subresource else [])])


def reference_of(uri: str) -> Object:
    """`objectRef` as a server writes it for a URL, as a member of an event; nothing for a URL that names no resource."""
    parts = [part for part in uri.partition("?")[0].split("/") if part]
    start = {"api": 1, "apis": 2}.get(parts[0] if parts else "", 0)
    if not start or len(parts) < start + 2 or "*" in uri:
        return {}
    reference = {"apiGroup": parts[1] if start == 2 else "", "apiVersion": parts[start]}
    rest = parts[start + 1 :]
    if rest[0] == "namespaces" and len(rest) > 1:
        reference["namespace"] = rest[1]
        rest = rest[2:] if len(rest) > 2 and rest[2] not in ("status", "finalize") else rest
    named = zip(("resource", "name", "subresource"), rest, strict=False)
    return {"objectRef": {name: text for name, text in (reference | dict(named)).items() if text}}


def deployment(name: str, replicas: int, namespace: str = "shop", **metadata: Any) -> Object:
    """A Deployment for policies that look at its replicas."""
    named = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1", **metadata}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": {"replicas": replicas}}


class Log:
    """Events an hour apart, in the order in which they are written."""

    def __init__(self, step: timedelta = timedelta(hours=1)) -> None:
        self.lines: list[Object] = []
        self._step = step

    def write(self, verb: str, obj: Mapping[str, Any], **more: Any) -> None:
        """One more request; see `recorded`."""
        number = len(self.lines)
        self.lines.append(recorded(f"id-{number:04}", START + number * self._step, verb, obj, **more))


def take_in(
    lake: Path,
    events: Iterable[Mapping[str, Any]],
    log: str = "audit.jsonl",
    cluster: str = "lab",
    redactor: Redactor | None = None,
) -> Path:
    """Write events of a cluster to a log file next to a lake, and ingest this file. Makes the lake if it does not exist."""
    path = lake.parent / log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    opened = Lake.create(lake)
    ingest_files(opened, [path], cluster, 0.0, redactor)
    opened.close()
    return lake
