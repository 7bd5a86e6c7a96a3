"""How often admission runs for one delete: the store may ask once when it marks an object, and again when it removes it.

Follows kubernetes/apiserver pkg/registry/generic/registry/store.go (Delete, updateForGracefulDeletionAndFinalizers,
deletionFinalizersForGarbageCollection) and pkg/registry/rest/delete.go (BeforeDelete). Each pass calls mutating and validating
admission. The numbers are lower bounds: a store that works on a cached copy, or loses a race, asks once more without a trace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..request import AdmissionRequest, Evidence, Grade, Known, Object, Unknown
from .deletion import with_pod_grace
from .event import BodyKind, Event

# Their own storage marks them in one step, and removes them without admission, or in a later request.
_OWN_STORAGE: Final = frozenset({("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")})
_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_BY_COLLECTOR: Final = frozenset({_ORPHAN, _FOREGROUND})
_UNSEEN: Final = Unknown("a store that removes a pod at once asks twice, and neither the pod nor its answer shows whether it did")


def passes_of_delete(event: Event, request: AdmissionRequest) -> int | Unknown:
    """How many passes of admission a delete had at least: 1, or 2 if the store marked the object and then removed it at once.

    A refused delete counts one: the first refusal ends it.
    """
    if (event.resource.group, event.resource.resource) in _OWN_STORAGE or event.subresource or not event.succeeded:
        return 1
    old, options = request.old_object, request.options
    is_pod = (event.resource.group, event.resource.resource) == ("", "pods")
    if is_pod and event.verb == "delete" and event.response_kind in (BodyKind.OBJECT, BodyKind.METADATA):
        return _by_answer(event, old, request.dry_run)
    if isinstance(old, Unknown) or old.value is None or old.grade is Grade.PARTIAL or isinstance(options, Unknown):
        return _UNSEEN if is_pod else 1
    settled = with_pod_grace(options.value or {}, old) if is_pod else options.value or {}
    return passes_of(old.value.get("metadata") or {}, settled, is_graceful=is_pod, is_dry_run=request.dry_run is True)


def passes_of(metadata: Object, options: Object, *, is_graceful: bool, is_dry_run: bool) -> int:
    """The passes of a delete that is not pending already. `metadata` is of the object that it met, `options` are settled.

    `is_graceful`: the kind has a grace period, which pods alone have.
    """
    finalizers = frozenset(metadata.get("finalizers") or ())
    left = _finalizers_left(finalizers, options)
    marks = is_graceful and not _is_marked(metadata)
    if not (marks or finalizers or left):
        return 1
    removes = not left and not (marks and options.get("gracePeriodSeconds"))
    return 2 if removes and not is_dry_run else 1


def _finalizers_left(finalizers: frozenset[str], options: Object) -> frozenset[str]:
    """The finalizers of an object after the store has entered what its options ask of the garbage collector."""
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    if isinstance(orphans, bool):
        asked = {_ORPHAN} if orphans else set()
    elif policy:
        asked = {"Orphan": {_ORPHAN}, "Foreground": {_FOREGROUND}}.get(policy, set())
    else:
        asked = set(finalizers & _BY_COLLECTOR)
    return (finalizers - _BY_COLLECTOR) | asked


def _by_answer(event: Event, old: Evidence[Object | None], is_dry_run: bool | Unknown) -> int | Unknown:
    """The passes of the delete of a pod whose answer shows the pod as the store left it: with grace period 0, it was removed."""
    left = event.response_head.meta
    if left.finalizers or left.deletion_grace_period_seconds:
        return 1
    if left.deletion_grace_period_seconds is None or isinstance(is_dry_run, Unknown):
        return _UNSEEN
    if isinstance(old, Known) and old.value is not None and old.grade is not Grade.PARTIAL and _is_marked(old.value["metadata"]):
        return 1
    return 1 if is_dry_run else 2


def _is_marked(metadata: Object) -> bool:
    """Whether nothing is left to mark: the object is being deleted, without a grace period."""
    return "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")


def second_pass(request: AdmissionRequest) -> AdmissionRequest:
    """The second pass over a deleted object: the store has marked a pod meanwhile."""
    old = request.old_object
    if not isinstance(old, Known) or old.value is None or (request.resource.group, request.resource.resource) != ("", "pods"):
        return request
    pod = old.value
    marks = {"deletionTimestamp": f"{request.ts:%Y-%m-%dT%H:%M:%SZ}", "deletionGracePeriodSeconds": 0}
    marked: Known[Object | None] = Known({**pod, "metadata": {**pod["metadata"], **marks}}, f"{old.source}, marked", old.grade)
    return replace(request, old_object=marked)
