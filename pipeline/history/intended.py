"""The object of a request whose response is not that object: the client's object, with the recorded changes of the server.

A refused create is its body with the recorded webhook patches. A refused update has in addition the fields that the server
copies from the stored object. A refused patch is the stored object, patched. An answer that shows metadata alone replaces the
metadata. Where changes by in-tree admission plugins or defaults are neither recorded nor known by a rule, the object is PARTIAL.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

from ingest.altered import altered_bodies

from ..request import Evidence, Grade, Known, Object, Unknown, worst
from .creation import counts_generation, default_parts, keeps_status, leave_out_empty, prepare_for_create
from .event import Decode, Event, Raw, decode_json
from .evidence import LazyKnown
from .followed import grade_of_create, grade_of_update
from .options import query_of
from .patching import PatchError, PatchType, apply_patch, patch_type, why_unpatched
from .webhook_changes import has_patches, operations_of, with_webhook_patches
from .writes import answered_metadata, why_no_body, why_not_kept

# Stored metadata that an update keeps, regardless of the client's values (kubernetes/apiserver pkg/registry/rest/update.go).
_KEPT_METADATA = (
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)

# Built-in resources whose status is written together with metadata, and the metadata that such a write leaves alone. For others a
# write of the status changes nothing else (kubernetes pkg/registry/*/*/strategy.go, PrepareForUpdate of the status strategies).
_WITH_METADATA: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "namespaces"): (),
    ("", "nodes"): (),
    ("", "persistentvolumeclaims"): (),
    ("", "persistentvolumes"): (),
    ("", "pods"): ("ownerReferences",),
    ("", "replicationcontrollers"): (),
    ("", "resourcequotas"): (),
    ("", "services"): (),
    ("apps", "daemonsets"): (),
    ("apps", "deployments"): ("labels",),
    ("apps", "replicasets"): (),
    ("apps", "statefulsets"): (),
    ("autoscaling", "horizontalpodautoscalers"): (),
    ("batch", "cronjobs"): (),
    ("batch", "jobs"): (),
    ("networking.k8s.io", "ingresses"): (),
    ("policy", "poddisruptionbudgets"): (),
}

# Metadata that a create never takes from a client (kubernetes/apiserver pkg/registry/rest/meta.go, WipeObjectMetaSystemFields).
_NOT_FROM_CLIENTS = ("namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def created_object(
    event: Event, name: Evidence[str], decode: Decode, by_policies: bool, sets_defaults: bool
) -> Evidence[Object | None]:
    """The object of a create that left no whole response. `by_policies`: mutating policies may have changed it.

    `sets_defaults`: the API may add fields. The log has the body of an apply without them, and that of any other create with them.
    """
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {why_no_request(event)}")
    if event.verb == "patch" and sets_defaults:
        return Unknown("an apply that was to create its object: what the API would have added is not recorded")
    sent, answered = _sent(event, event.request_raw, decode), answered_metadata(event)
    if isinstance(sent, Unknown):
        return sent

    def read() -> Object:
        value = prepared_create(sent(), name, event)
        if answered is not None:
            replace_metadata(value, answered, resource_version="")
        return value

    shown = "" if answered is None else ", metadata of responseObject"
    grade = grade_of_create(event, operations_of(event), by_policies)
    return LazyKnown(read, f"requestObject and recorded webhook patches{shown}", grade)


def prepared_create(value: Object, name: Evidence[str], event: Event) -> Object:
    """A new object after mutating admission as validating admission sees it: with names, times and its strategy's changes.

    It changes the given object. The uid is not known and left out, and so is the time of creation where the request took longer
    than to the end of its second.
    """
    metadata = value.setdefault("metadata", {})
    if isinstance(name, Known) and name.value:
        metadata["name"] = name.value
    for field in _NOT_FROM_CLIENTS:
        metadata.pop(field, None)
    metadata.pop("creationTimestamp", None)
    if event.ts.replace(microsecond=0) == event.stage_ts.replace(microsecond=0):
        metadata["creationTimestamp"] = f"{event.ts:%Y-%m-%dT%H:%M:%SZ}"
    if event.namespace and event.resource.resource != "namespaces":
        metadata["namespace"] = event.namespace
    prepare_for_create(value, event.resource)
    return value


def updated_object(
    event: Event, old: Evidence[Object | None], decode: Decode, by_policies: bool, tried_once: bool
) -> Evidence[Object | None]:
    """The object of an update that left no whole response. `tried_once`: the recorded patches are those of its only try."""
    if event.request_raw is None:
        return Unknown(f"the requested object was not recorded: {why_no_request(event)}")
    sent = _sent(event, event.request_raw, decode)
    if isinstance(sent, Unknown):
        return sent
    if isinstance(old, Unknown):
        return LazyKnown(sent, "requestObject and recorded webhook patches; the stored object is not known", Grade.PARTIAL)
    grade = _grade_over(event, old, by_policies, tried_once)
    return LazyKnown(lambda: prepared_update(sent(), old.value or {}, event), f"requestObject over {old.source}", grade)


def _grade_over(event: Event, old: Known[Object | None], by_policies: bool, tried_once: bool) -> Grade:
    return worst(old.grade, grade_of_update(event, operations_of(event), by_policies)) if tried_once else Grade.PARTIAL


def patched_object(
    event: Event, old: Evidence[Object | None], decode: Decode, by_policies: bool, tried_once: bool
) -> Evidence[Object | None]:
    """The object of a patch that left no whole response: the stored one, patched. See updated_object."""
    if event.request_raw is None:
        return Unknown(f"the patch was not recorded: {why_no_request(event)}")
    if isinstance(old, Unknown):
        return Unknown(f"the patched object is unknown: {old.reason}")
    patch = decode_json(event.request_raw)
    kind = patch_type(patch, event.request_uri, event.resource, event.subresource)
    try:
        patched = apply_patch(kind, old.value or {}, patch)
    except PatchError as error:
        return Unknown(why_unpatched(kind, error))
    admitted = with_webhook_patches(patched, event.annotations)
    if isinstance(admitted, Unknown):
        return admitted
    value = prepared_update(admitted, old.value or {}, event)
    answered = answered_metadata(event)
    if answered is not None:
        replace_metadata(value, answered, (old.value or {}).get("metadata", {}).get("resourceVersion", ""))
    return Known(value, f"{kind} over {old.source}", _grade_over(event, old, by_policies, tried_once))


def may_apply(event: Event) -> bool:
    """Whether a request is an apply, which may create the object that it names, as far as the log tells."""
    if event.verb != "patch":
        return False
    if event.request_raw is None:
        return "force" in query_of(event.request_uri) or not event.request_uri  # only apply takes it
    patch = decode_json(event.request_raw)
    return patch_type(patch, event.request_uri, event.resource, event.subresource) in (PatchType.APPLY, PatchType.UNTOLD)


def replace_metadata(value: Object, metadata: Object, resource_version: str) -> None:
    """Replace an object's metadata with that of an answer, with the resourceVersion that admission saw."""
    kept = {name: entry for name, entry in metadata.items() if name not in ("managedFields", "resourceVersion")}
    value["metadata"] = {**kept, **({"resourceVersion": resource_version} if resource_version else {})}


def why_no_request(event: Event) -> str:
    """Why an event lacks a requestObject, in words for a report."""
    is_gone = event.level not in ("Request", "RequestResponse") or "requestObject" in altered_bodies(event.notes)
    return why_not_kept(event) if is_gone else why_no_body(event)


def _sent(event: Event, raw: Raw, decode: Decode) -> Callable[[], Object] | Unknown:
    """A function that reads the client's object, with the patches of webhooks; Unknown where one of them does not fit.

    With patches it is read at once, and whole, because a patch may change a part that `decode` leaves out.
    """
    if not has_patches(event):
        return lambda: decode(raw)
    found = with_webhook_patches(decode_json(raw), event.annotations)
    return found if isinstance(found, Unknown) else lambda: found


def prepared_update(value: Object, old: Object, event: Event) -> Object:
    """An object that replaces a stored one, after webhooks, strategies and BeforeUpdate. It changes the given object."""
    if event.subresource in ("status", "approval", "finalize"):
        value = _only_subresource(value, old, event.subresource, (event.resource.group, event.resource.resource))
    metadata, stored = value.setdefault("metadata", {}), old.get("metadata", {})
    for name in _KEPT_METADATA:
        if name in stored:
            metadata[name] = stored[name]
        else:
            metadata.pop(name, None)
    if event.subresource == "scale":
        if value.get("spec", {}).get("replicas") == 0:
            del value["spec"]["replicas"]
        return value
    default_parts(value, event.resource)
    leave_out_empty(value, event.resource)
    if not event.subresource and keeps_status(event.resource):
        value.pop("status", None)
        if "status" in old:
            value["status"] = old["status"]
    if event.subresource in ("", "ephemeralcontainers", "resize") and counts_generation(value, old, event.resource):
        metadata["generation"] = stored.get("generation", 0) + 1
    return value


def _only_subresource(value: Object, old: Object, subresource: str, place: tuple[str, str]) -> Object:
    changed = "spec" if subresource == "finalize" else "status"
    kept = {name: deepcopy(entry) for name, entry in old.items() if name != changed}
    found = {**kept, **({changed: value[changed]} if changed in value else {})}
    if place in _WITH_METADATA:
        stored = found.get("metadata", {})
        found["metadata"] = dict(value.get("metadata", {}))
        for name in _WITH_METADATA[place]:
            found["metadata"].pop(name, None)
            if name in stored:
                found["metadata"][name] = stored[name]
    return found
