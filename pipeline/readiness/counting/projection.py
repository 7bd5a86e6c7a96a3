"""The Pod that a controller would make from a pod template: the CREATE request that the next rollout, run or restart will send.

Follows the controllers of kubernetes/kubernetes pkg/controller: controller_utils.go (GetPodFromTemplate), deployment/sync.go,
statefulset/stateful_set_utils.go (newStatefulSetPod), daemon/util/daemonset_util.go, job/job_controller.go and cronjob/utils.go.
Values that they compute at that moment (hashes, random names, nodes) are unknown, and so is every answer that depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...cel import Unknown as CelUnknown
from ...history.creation import prepare_for_create
from ...request import (
    AdmissionRequest,
    Grade,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
    worst,
)

PODS = GroupVersionResource("", "v1", "pods")
_POD_KIND = GroupVersionKind("", "v1", "Pod")

_ADMISSION_ADDS = (
    "mutating webhooks, sidecar injection, LimitRanges and priority classes may change it",
    "a token volume is added unless automountServiceAccountToken is false",
)
_SERVICE_ACCOUNTS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
# The service account of the controller that makes the Pods of each kind (kubernetes cmd/kube-controller-manager/app).
_CONTROLLERS = {
    "Deployment": "replicaset-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replication-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "Job": "job-controller",
    "CronJob": "job-controller",
}
# The tolerations of a DaemonSet's Pod (daemon/util/daemonset_util.go, AddOrUpdateDaemonPodTolerations).
_DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(frozen=True, slots=True)
class Projected:
    """The assumed request, and notes on how the real one may differ."""

    request: AdmissionRequest
    notes: tuple[str, ...]


def project(row: Mapping[str, Any], stored: Known[Object], moment: datetime) -> Projected:
    """The request for the next Pod of the owner in a row of sql/templates.sql, which is `stored`, received at `moment`."""
    owner, kind = stored.value, row["kind"]
    pod = _from_template(owner, kind)
    notes = _MAKERS[kind](owner, pod)
    prepare_for_create(pod, PODS)
    source = f"template of {kind}/{row['name']}, {stored.source}"
    name = pod["metadata"]["name"]
    user = row["maker"] or f"system:serviceaccount:kube-system:{_CONTROLLERS[kind]}"
    request = AdmissionRequest(
        cluster=row["cluster"],
        audit_id="",
        pass_index=0,
        ts=moment,
        operation=Operation.CREATE,
        kind=Known(_POD_KIND, "built-in resources"),
        resource=PODS,
        subresource="",
        namespace=row["namespace"],
        name=Known(name, source, Grade.INFERRED) if isinstance(name, str) else Unknown("the server generates it"),
        user=UserInfo(user, "", tuple(row["maker_groups"] or _SERVICE_ACCOUNTS)),
        dry_run=False,
        options=Known({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}, "controllers set none", Grade.INFERRED),
        object=Known(pod, source, worst(stored.grade, Grade.INFERRED)),
        old_object=Known(None, "nothing is stored before a CREATE"),
    )
    return Projected(request, (*notes, *_ADMISSION_ADDS))


def has_template(owner: Object, kind: str) -> bool:
    """Whether the owner has a template to make a Pod from: a recorded object may lack the fields that its kind requires."""
    for path in ("metadata",), ("spec", *(("jobTemplate", "spec") if kind == "CronJob" else ()), "template", "spec"):
        found: Any = owner
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            return False
    return True


def _from_template(owner: Object, kind: str) -> Object:
    spec = owner["spec"]
    template = (spec["jobTemplate"]["spec"] if kind == "CronJob" else spec)["template"]
    meta = template.get("metadata") or {}
    own = owner["metadata"]
    metadata: Object = {
        "name": _unknown("metadata.name", "the server generates it"),
        "generateName": f"{own['name']}-",
        "namespace": own.get("namespace", ""),
        "uid": _unknown("metadata.uid", "the server generates it"),
        "creationTimestamp": _unknown("metadata.creationTimestamp", "the Pod is not there yet"),
        "labels": dict(meta.get("labels") or {}),
        "annotations": dict(meta.get("annotations") or {}),
        "finalizers": list(meta.get("finalizers") or ()),
        "ownerReferences": [_owned_by(owner.get("apiVersion", ""), kind, own["name"], own.get("uid", ""))],
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": deepcopy(template["spec"])}


def _owned_by(api_version: str, kind: str, name: object, uid: object) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _unknown(path: str, why: str) -> CelUnknown:
    return CelUnknown(f"object.{path}: {why}")


def _deployment(owner: Object, pod: Object) -> tuple[str, ...]:
    """The Pod of the next ReplicaSet, whose name ends in a hash of the template."""
    why = "the deployment controller hashes the template"
    metadata = pod["metadata"]
    metadata["labels"]["pod-template-hash"] = _unknown("metadata.labels.pod-template-hash", why)
    metadata["generateName"] = _unknown("metadata.generateName", why)
    reference = "metadata.ownerReferences[0]"
    named = _owned_by("apps/v1", "ReplicaSet", _unknown(f"{reference}.name", why), _unknown(f"{reference}.uid", why))
    metadata["ownerReferences"] = [named]
    return ("the Pod belongs to a new ReplicaSet, whose name and hash are not known",)


def _replica_set(owner: Object, pod: Object) -> tuple[str, ...]:
    return ()


def _stateful_set(owner: Object, pod: Object) -> tuple[str, ...]:
    """The first replica; the others differ by their number."""
    metadata, spec = pod["metadata"], pod["spec"]
    ordinal = (owner["spec"].get("ordinals") or {}).get("start", 0)
    name = f"{owner['metadata']['name']}-{ordinal}"
    metadata["name"] = name
    metadata.pop("generateName")
    metadata["labels"] |= {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        "controller-revision-hash": _unknown("metadata.labels.controller-revision-hash", "the controller hashes the template"),
    }
    spec["hostname"] = name
    spec["subdomain"] = owner["spec"].get("serviceName", "")
    claims = [entry["metadata"]["name"] for entry in owner["spec"].get("volumeClaimTemplates") or ()]
    others = [entry for entry in spec.get("volumes") or () if entry["name"] not in claims]
    mounted = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
    if claims:
        spec["volumes"] = [*mounted, *others]
    return (f"the first replica is assumed, {name}",)


def _daemon_set(owner: Object, pod: Object) -> tuple[str, ...]:
    """The Pod for some node, which its affinity names."""
    metadata, spec = pod["metadata"], pod["spec"]
    generation = (owner["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    if generation is not None:
        metadata["labels"]["pod-template-generation"] = generation
    why = "the controller hashes the template"
    metadata["labels"]["controller-revision-hash"] = _unknown("metadata.labels.controller-revision-hash", why)
    node = _unknown("spec.affinity.nodeAffinity: node", "the Pod is for any node")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    tolerations = spec.setdefault("tolerations", [])
    wanted = [*_DAEMON_TOLERATIONS]
    if spec.get("hostNetwork"):
        wanted.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return ("the Pod is for a node that is not known",)


def _job(owner: Object, pod: Object) -> tuple[str, ...]:
    pod["metadata"]["finalizers"].append("batch.kubernetes.io/job-tracking")
    if owner["spec"].get("completionMode") != "Indexed":
        return ()
    index = "batch.kubernetes.io/job-completion-index"
    pod["metadata"]["annotations"][index] = _unknown(f"metadata.annotations.{index}", "the Pod is for any index")
    return ("the Pod is for an index that is not known",)


def _cron_job(owner: Object, pod: Object) -> tuple[str, ...]:
    """The Pod of the next Job, whose name ends in the time of its schedule."""
    why = "the next Job is not there yet"
    metadata = pod["metadata"]
    for key in ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"):
        metadata["labels"][key] = _unknown(f"metadata.labels.{key}", why)
    metadata["generateName"] = _unknown("metadata.generateName", why)
    reference = "metadata.ownerReferences[0]"
    metadata["ownerReferences"] = [
        _owned_by("batch/v1", "Job", _unknown(f"{reference}.name", why), _unknown(f"{reference}.uid", why))
    ]
    job = {"spec": owner["spec"]["jobTemplate"]["spec"]}
    return ("the Pod belongs to the Job of the next schedule, whose name is not known", *_job(job, pod))


_MAKERS: dict[str, Callable[[Object, Object], tuple[str, ...]]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "ReplicationController": _replica_set,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
}
