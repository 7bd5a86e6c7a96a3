"""The object behind a version: its body, or the body before it with the recorded change applied."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from ..request import Evidence, Grade, Json, Known, Object, Unknown, worst
from .creation import as_stored_namespace
from .event import Decode, decode_json, moment_of
from .evidence import LazyKnown
from .patching import PatchError, PatchType, apply_patch
from .version import Form, Version

# Longer chains of changes without a whole body between them are not reliable.
_CHAIN_LENGTH_MAX = 64


def object_of(version: Version, decode: Decode = decode_json) -> Evidence[Object | None]:
    """The object of a version, decoded when it is read. Known(None) for a deleted object, Unknown if no body leads to it."""
    chain: list[Version] = []
    step: Version | None = version
    while step is not None and step.form not in _GROUNDS:
        chain.append(step)
        step = step.previous
        if len(chain) > _CHAIN_LENGTH_MAX:
            return Unknown(f"no whole body among the {_CHAIN_LENGTH_MAX} versions before {version.source}")
    if step is None:
        return Unknown(f"no body known before {chain[-1].source}")
    if step.form is Form.OPAQUE:
        return Unknown(f"changed by {step.source}")
    if step.form is Form.DISTURBED:
        return Unknown(f"perhaps changed by {step.source}")
    if step.form is Form.GONE:
        return Unknown(f"written after its deletion: {chain[-1].source}") if chain else Known(None, step.source, step.grade)
    ground, changes = step, list(reversed(chain))
    grade = worst(ground.grade, *(_CHANGES[change.form][1] for change in changes), *(change.grade for change in changes))
    source = version.source if not chain else f"{ground.source}, then {', '.join(change.source for change in changes)}"
    return LazyKnown(lambda: _read(ground, changes, decode), source, grade if ground.form is Form.WHOLE else Grade.PARTIAL)


def api_version_of(version: Version) -> str:
    """The apiVersion in which the body behind a version was recorded; empty without a body."""
    step: Version | None = version
    while step is not None and step.form not in _GROUNDS:
        step = step.previous
    return step.api_version if step else ""


def _read(ground: Version, changes: list[Version], decode: Decode) -> Object:
    assert ground.body is not None
    value: Object = decode(ground.body)
    if ground.form is Form.CREATED:
        assert ground.metadata is not None
        with_metadata(value, decode_json(ground.metadata)["metadata"])
        if (ground.api_version, value.get("kind")) == ("v1", "Namespace"):
            as_stored_namespace(value)
    elif ground.form is Form.FOUND:
        _unmark(value, ground)
    for change in changes:
        value = _CHANGES[change.form][0](value, change)
    return value


def _unmark(value: Object, found: Version) -> None:
    """Undo the marks of a deletion (kubernetes/apiserver pkg/registry/rest/delete.go); its answer has its own resourceVersion.

    The phase of a namespace is such a mark too (kubernetes pkg/registry/core/namespace/storage/storage.go).
    """
    metadata = value.setdefault("metadata", {})
    metadata.pop("resourceVersion", None)
    marked = moment_of(metadata.get("deletionTimestamp"))
    if marked is None or marked < found.began.replace(microsecond=0):
        return  # it was not marked, or by an earlier deletion
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)
    if "generation" in metadata:
        metadata["generation"] -= 1
    if value.get("kind") == "Namespace" and value.get("apiVersion") == "v1":
        value.setdefault("status", {})["phase"] = "Active"


def with_metadata(value: Object, metadata: Object) -> None:
    """Replace an object's metadata, without managedFields, which every body of the log leaves out."""
    value["metadata"] = {key: entry for key, entry in metadata.items() if key != "managedFields"}


def _apply_metadata(value: Object, change: Version) -> Object:
    """Apply a patch whose answer shows metadata alone: the garbage collector's, which changes metadata only, or another one."""
    assert change.metadata is not None
    if change.body is not None and change.patch:
        # If the patch does not apply, the earlier body differs from the server's. The metadata is still as answered.
        with suppress(PatchError):
            value = apply_patch(PatchType(change.patch), value, decode_json(change.body))
    with_metadata(value, decode_json(change.metadata)["metadata"])
    return value


def _apply_scale(value: Object, change: Version) -> Object:
    assert change.body is not None
    scale = decode_json(change.body)
    spec = value.setdefault("spec", {})
    metadata = value.setdefault("metadata", {})
    # A custom resource may keep its replicas elsewhere.
    is_here = "replicas" in spec or change.grade is not Grade.PARTIAL
    if is_here and spec.get("replicas") != scale["spec"].get("replicas", 0):
        spec["replicas"] = scale["spec"].get("replicas", 0)
        _bump_generation(metadata)
    metadata["resourceVersion"] = change.resource_version
    return value


def _apply_binding(value: Object, change: Version) -> Object:
    """Apply a binding to its pod (kubernetes pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata)."""
    assert change.body is not None
    binding = decode_json(change.body)
    value.setdefault("spec", {})["nodeName"] = binding["target"]["name"]
    metadata = value.setdefault("metadata", {})
    metadata.pop("resourceVersion", None)
    for field in ("annotations", "labels"):
        if binding["metadata"].get(field):
            metadata.setdefault(field, {}).update(binding["metadata"][field])
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": _seconds(change)}
    conditions: list[Json] = value.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition.get("type") != "PodScheduled"] + [scheduled]
    return value


def _apply_mark(value: Object, change: Version) -> Object:
    """Write the marks of BeforeDelete (kubernetes/apiserver pkg/registry/rest/delete.go)."""
    metadata = value.setdefault("metadata", {})
    metadata.pop("resourceVersion", None)
    if "deletionTimestamp" in metadata:
        return value
    grace_seconds = change.grace_seconds
    if grace_seconds is None:
        grace_seconds = value.get("spec", {}).get("terminationGracePeriodSeconds") or 0
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    metadata["deletionTimestamp"] = f"{change.since + timedelta(seconds=grace_seconds):%Y-%m-%dT%H:%M:%SZ}"
    _bump_generation(metadata)
    return value


def _bump_generation(metadata: Object) -> None:
    if "generation" in metadata:
        metadata["generation"] += 1


def _seconds(change: Version) -> str:
    return f"{change.since:%Y-%m-%dT%H:%M:%SZ}"


_GROUNDS = frozenset({Form.WHOLE, Form.CREATED, Form.FOUND, Form.OPAQUE, Form.DISTURBED, Form.GONE})

# How a change is applied, and how good the result is at best.
_CHANGES: dict[Form, tuple[Callable[[Object, Version], Object], Grade]] = {
    Form.METADATA: (_apply_metadata, Grade.PARTIAL),
    Form.SCALE: (_apply_scale, Grade.INFERRED),
    Form.BINDING: (_apply_binding, Grade.PARTIAL),
    Form.MARKED: (_apply_mark, Grade.PARTIAL),
}
