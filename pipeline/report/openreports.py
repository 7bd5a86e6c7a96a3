"""The report as Kubernetes objects that policy dashboards read: OpenReports, and the PolicyReport that it came from.

Both have the same fields (`config/crd` of openreports/reports-api, `policy-report/crd/v1alpha2` of wg-policy-prototypes), but only
an OpenReports object names its source as a whole. A verdict is a result of the cluster's report. A namespace's would-be denials
are in its own report.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ingest.counted import counted
from pipeline.readiness.model import Counterexample, PolicyReadiness
from pipeline.readiness.report import Report

from .data import plain
from .outcomes import OUTCOMES, Finding, findings, fingerprint
from .texts import yaml_text
from .words import fate_count, fates, policy_name

_RESULTS = ("pass", "fail", "warn", "error", "skip")
_SOURCE = "hindcast"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class _Dialect:
    api_version: str
    kind: str
    names_source: bool


_OPENREPORTS = _Dialect("openreports.io/v1alpha1", "Report", True)
_POLICY_REPORT = _Dialect("wgpolicyk8s.io/v1alpha2", "PolicyReport", False)


def to_openreports(report: Report) -> str:
    """YAML documents: one ClusterReport with the verdicts, and a Report for each namespace with would-be denials."""
    return _documents(report, _OPENREPORTS)


def to_policyreport(report: Report) -> str:
    """The same as wgpolicyk8s.io/v1alpha2: ClusterPolicyReport and PolicyReport."""
    return _documents(report, _POLICY_REPORT)


def _documents(report: Report, dialect: _Dialect) -> str:
    found: dict[str, list[dict[str, Any]]] = {"": [_verdict(report, entry) for entry in report.policies]}
    for entry in report.policies:
        for each in findings(entry):
            owner = each.owner
            # A report needs a namespace with a valid name; a rejected request may name an invalid one.
            home = owner.namespace if _NAMESPACE.fullmatch(owner.namespace) else ""
            found.setdefault(home, []).append(_denied(entry, each))
    objects = [_object(report, dialect, namespace, results) for namespace, results in sorted(found.items())]
    return yaml_text(objects, width=120)


def _object(report: Report, dialect: _Dialect, namespace: str, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": f"hindcast-{report.run_id}",
        "labels": {"app.kubernetes.io/managed-by": "hindcast"},
        "annotations": {"hindcast/clusters": ", ".join(report.clusters), "hindcast/kubernetes-version": report.kubernetes_version},
    }
    counts = Counter(result["result"] for result in results)
    body = {"summary": {name: counts[name] for name in _RESULTS}, "results": list(results)}
    if namespace:
        metadata["namespace"] = namespace
        body = {"scope": {"apiVersion": "v1", "kind": "Namespace", "name": namespace}} | body
    if dialect.names_source:
        body = {"source": _SOURCE} | body
    kind = dialect.kind if namespace else f"Cluster{dialect.kind}"
    return {"apiVersion": dialect.api_version, "kind": kind, "metadata": metadata, **body}


def _verdict(report: Report, entry: PolicyReadiness) -> dict[str, Any]:
    outcome = OUTCOMES[entry.status]
    figures = {
        "status": str(entry.status),
        "requestsMatched": entry.exposure.requests_matched,
        "requestsDenied": entry.denials.requests,
        "requestsUnknown": entry.exposure.requests_unknown,
        "workloadsJudged": entry.exposure.units_judged,
        "run": report.run_id,
    }
    if entry.change is not None:
        figures |= {f"{fate} denials": fate_count(count) for fate, count in fates(entry.change)}
    figures |= {f"counterexample {number}": _example(found) for number, found in enumerate(entry.counterexamples, 1)}
    return _result(entry, outcome.reports, outcome.severity, "; ".join(entry.reasons), report.last_ts, figures)


def _example(found: Counterexample) -> str:
    """One counterexample on one line, with the part of the object that the denial depends on."""
    place = f"{found.namespace}/{found.name}" if found.namespace else found.name
    part = json.dumps(plain(found.object), ensure_ascii=False)
    return f"{found.verb} {found.resource} {place} by {found.user}, audit ID {found.audit_id}: {found.message}; object {part}"


def _denied(entry: PolicyReadiness, found: Finding) -> dict[str, Any]:
    outcome, owner = OUTCOMES[entry.status], found.owner
    kind, _, name = owner.unit.partition("/")
    subject = {"name": name or kind, "namespace": owner.namespace}
    if name and kind[0].isupper():
        # A root owner has a kind. An object without an owner has a resource only, which is not a kind.
        subject["kind"] = kind
    words = (
        found.words
        if found.fate
        else f"{counted(owner.requests, 'request')} of {owner.user} would have been denied: {owner.message}"
    )
    figures = {
        "user": owner.user,
        "resource": owner.resource,
        "workload": owner.unit,
        "requests": owner.requests,
        "auditID": owner.audit_id,
        "fingerprint": fingerprint(entry, owner.namespace, owner.resource, owner.unit, owner.user),
    }
    if found.fate:
        figures["fate"] = found.fate
    status = "fail" if found.fails else "warn"
    result = _result(entry, status, outcome.severity, words, owner.last_ts, figures)
    result["resources"] = [{key: value for key, value in subject.items() if value}]
    return result


def _result(
    entry: PolicyReadiness, result: str, severity: str, message: str, moment: datetime | None, figures: dict[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": _SOURCE,
        "policy": entry.policy,
        "rule": policy_name(entry),
        "category": "admission readiness",
        "result": result,
        "severity": severity,
        "scored": True,
        "message": message,
        # The properties of a result are a map of strings.
        "properties": {key: str(value) for key, value in figures.items()},
    }
    if moment is not None:
        found["timestamp"] = {"seconds": int(moment.timestamp()), "nanos": moment.microsecond * 1000}
    return found
