"""Fields that an update may not change, by kind: what a mutation at UPDATE meets on an older object.

Follows ValidateObjectMetaUpdate of apimachinery pkg/api/validation/objectmeta.go and the `...Update` functions of kubernetes
pkg/apis/{core,apps,batch,networking,rbac,discovery}/validation/validation.go, for the kinds whose fields Hindcast can mutate (see
pipeline/openapi).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ...request import Object
from .taken import Doubt

_IMMUTABLE: Final = "field is immutable"
_IN_PART: Final = "an update may change it within limits, which are not replayed"
PODS_FORBIDDEN: Final = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
STATEFUL_SETS_FORBIDDEN: Final = (
    "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
CLAIMS_FORBIDDEN: Final = (
    "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
# Whether these may change depends on the value before, or on gates.
_CONDITIONAL_OF_PODS: Final = frozenset(
    ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds", "schedulingGates", "nodeSelector", "affinity")
)
_FREE_OF_STATEFUL_SETS: Final = frozenset(
    (
        *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
        "persistentVolumeClaimRetentionPolicy",
    )
)
_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# Fields that stay as they were created. A template and the number of completions may change within limits.
_OF_JOBS: Final = ("selector", "completionMode", "podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "managedBy")
_STAY: Final[dict[tuple[str, str], Mapping[tuple[str, ...], str]]] = {
    ("batch", "jobs"): {
        **{("spec", name): _IMMUTABLE for name in _OF_JOBS},
        **{("spec", name): _IN_PART for name in ("template", "completions")},
    },
    ("rbac.authorization.k8s.io", "rolebindings"): {("roleRef",): "cannot change roleRef"},
    ("rbac.authorization.k8s.io", "clusterrolebindings"): {("roleRef",): "cannot change roleRef"},
    ("discovery.k8s.io", "endpointslices"): {("addressType",): _IMMUTABLE},
    ("networking.k8s.io", "ingressclasses"): {("spec", "controller"): _IMMUTABLE},
    ("networking.k8s.io", "ipaddresses"): {("spec", "parentRef"): _IMMUTABLE},
    ("networking.k8s.io", "servicecidrs"): {("spec", "cidrs"): _IN_PART},
}
_SELECTED: Final = frozenset(("apps", name) for name in ("deployments", "daemonsets", "replicasets"))


def frozen(resource: tuple[str, str], old: Object, before: Object, after: Object) -> Iterator[Doubt]:
    """The fields that only the mutation from `before` to `after` sets to something else than the stored object has."""

    def changed(*path: str) -> bool:
        mutated = _at(after, path)
        return mutated not in (_at(before, path), _at(old, path))

    for name in _METADATA:
        if changed("metadata", name):
            yield Doubt(f"metadata.{name}", _IMMUTABLE)
    for path, why in _STAY.get(resource, {}).items():
        if changed(*path):
            yield Doubt(".".join(path), why)
    fields = sorted({*_spec(before), *_spec(after)})
    if resource == ("", "pods"):
        yield from _of_pods(fields, old, before, after)
    elif resource in _SELECTED and changed("spec", "selector"):
        yield Doubt("spec.selector", _IMMUTABLE)
    elif resource == ("apps", "statefulsets"):
        for name in fields:
            if name not in _FREE_OF_STATEFUL_SETS and changed("spec", name):
                yield Doubt(f"spec.{name}", STATEFUL_SETS_FORBIDDEN)
    elif resource == ("", "persistentvolumeclaims"):
        for name in fields:
            if changed("spec", name):
                yield Doubt(f"spec.{name}", _IN_PART if name in ("resources", "volumeAttributesClassName") else CLAIMS_FORBIDDEN)
    elif resource == ("", "services"):
        # Of one type, the address stays; a change of the type may free it.
        for name in ("clusterIP", "clusterIPs"):
            if changed("spec", name):
                stays = _at(old, ("spec", "type")) == _at(after, ("spec", "type")) and bool(_at(old, ("spec", "clusterIP")))
                yield Doubt(f"spec.{name}", _IMMUTABLE if stays else _IN_PART)
    elif resource in (("", "configmaps"), ("", "secrets")):
        yield from _of_data(resource[1], old, before, after)


def _of_pods(fields: list[str], old: Object, before: Object, after: Object) -> Iterator[Doubt]:
    for name in fields:
        ends = [
            _without_images(_spec(each).get(name)) if name in ("containers", "initContainers") else _spec(each).get(name)
            for each in (old, before, after)
        ]
        if ends[2] in ends[:2]:
            continue
        is_gated = name in ("nodeSelector", "affinity") and bool(_spec(old).get("schedulingGates"))
        is_conditional = name in _CONDITIONAL_OF_PODS and (name not in ("nodeSelector", "affinity") or is_gated)
        yield Doubt(f"spec.{name}", _IN_PART if is_conditional else PODS_FORBIDDEN)


def _of_data(resource: str, old: Object, before: Object, after: Object) -> Iterator[Doubt]:
    if resource == "secrets" and after.get("type") not in (before.get("type"), old.get("type")):
        yield Doubt("type", _IMMUTABLE)
    if old.get("immutable") is not True:
        return
    for name in ("data", "binaryData", "immutable"):
        if after.get(name) not in (before.get(name), old.get(name)):
            yield Doubt(name, "Forbidden: field is immutable when `immutable` is set")


def _without_images(entries: Any) -> Any:
    if not isinstance(entries, list):
        return entries
    return [{**each, "image": None} if isinstance(each, dict) else each for each in entries]


def _spec(value: Object) -> Mapping[str, Any]:
    return value.get("spec") or {}


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
