"""The metadata of a resource: of the root and of embedded ones. It becomes ObjectMeta: unknown fields go, wrong types are errors.

Follows apiextensions-apiserver pkg/apiserver/schema/objectmeta and apimachinery pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from ...cel.evaluation.times import parse_timestamp, timestamp_text
from ...cel.library.formats import RULES, dns_1035_label, dns_label, dns_subdomain
from ...cel.values import CelError, Timestamp
from .field_errors import FieldError, child, forbidden, index, invalid, key, required
from .props import Props

_GO = "ObjectMeta"
_KNOWN_MAX: Final = 4096  # Labels and namespaces come again and again.
_TEXT, _INTEGER, _TIME, _TEXTS, _LABELS, _FLAG = "string", "int64", "time", "[]string", "map[string]string", "bool"
_OWNER: Final = {"apiVersion": _TEXT, "kind": _TEXT, "name": _TEXT, "uid": _TEXT, "controller": _FLAG, "blockOwnerDeletion": _FLAG}
_MANAGED: Final = {
    "manager": _TEXT,
    "operation": _TEXT,
    "apiVersion": _TEXT,
    "time": _TIME,
    "fieldsType": _TEXT,
    "fieldsV1": "any",
    "subresource": _TEXT,
}
_FIELDS: Final[dict[str, Any]] = {
    "name": _TEXT,
    "generateName": _TEXT,
    "namespace": _TEXT,
    "selfLink": _TEXT,
    "uid": _TEXT,
    "resourceVersion": _TEXT,
    "generation": _INTEGER,
    "creationTimestamp": _TIME,
    "deletionTimestamp": _TIME,
    "deletionGracePeriodSeconds": _INTEGER,
    "labels": _LABELS,
    "annotations": _LABELS,
    "ownerReferences": _OWNER,
    "finalizers": _TEXTS,
    "managedFields": _MANAGED,
}
_GO_TYPES: Final = {
    "uid": "types.UID",
    "operation": "v1.ManagedFieldsOperationType",
    "ownerReferences": "[]v1.OwnerReference",
    "managedFields": "[]v1.ManagedFieldsEntry",
}
_JSON: Final[dict[type, str]] = {bool: "bool", str: "string", int: "number", float: "number", list: "array", dict: "object"}
_OWNER_TEXTS: Final = {
    "apiVersion": "version must not be empty",
    "kind": "must not be empty",
    "name": "must not be empty",
    "uid": "must not be empty",
}


class MetadataError(Exception):
    """Metadata that cannot be read; `str()` is what Go's decoder says."""


def object_meta(raw: Any, unknown: list[str] | None = None, drops_malformed: bool = False) -> dict[str, Any]:
    """Metadata as ObjectMeta keeps it. The paths of unknown fields are appended to `unknown`. Raises MetadataError."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise MetadataError(f"json: cannot unmarshal {_JSON[raw.__class__]} into Go value of type v1.{_GO}")
    return _struct(raw, _FIELDS, _GO, "", [] if unknown is None else unknown, drops_malformed)


def _struct(
    raw: dict[str, Any], fields: dict[str, Any], go: str, path: str, unknown: list[str], drops_malformed: bool = False
) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in raw.items():
        kind = fields.get(name)
        if kind is _TEXT and value.__class__ is str and value:
            kept[name] = value  # The usual case, first.
            continue
        if kind is None:
            unknown.append(child(path, name))
            continue
        try:
            found = _read(value, kind, name, go, child(path, name), unknown)
        except MetadataError:
            if not drops_malformed:
                raise
            continue
        is_pointer = kind is _FLAG or name == "deletionGracePeriodSeconds"  # Go leaves out a zero, but not a pointer to one.
        if found not in (None, "", [], {}, 0) or (is_pointer and found is not None) or (found == "" and go != _GO):
            kept[name] = found
    return kept


def _read(value: Any, kind: Any, name: str, go: str, path: str, unknown: list[str]) -> Any:
    if value is None:
        return None
    where = f"Go struct field {go}.{path}"
    wanted: type | tuple[type, ...]
    if isinstance(kind, dict):
        if not isinstance(value, list):
            raise _mismatch(value, where, _GO_TYPES[name])
        inner = "OwnerReference" if kind is _OWNER else "ManagedFieldsEntry"
        for item in value:
            if item is not None and not isinstance(item, dict):
                raise _mismatch(item, where, f"v1.{inner}")
        return [_struct(item or {}, kind, inner, f"{path}[{number}]", unknown) for number, item in enumerate(value)]
    match kind:
        case "any":
            return value
        case "time":
            return _time(value, where)
        case "[]string":
            if not isinstance(value, list):
                raise _mismatch(value, where, kind)
            return [_scalar(item, str, where, "string") or "" for item in value]
        case "map[string]string":
            if not isinstance(value, dict):
                raise _mismatch(value, where, kind)
            return {each: _scalar(item, str, where, "string") or "" for each, item in value.items()}
        case "string":
            wanted = str
        case "bool":
            wanted = bool
        case _:
            wanted = int
            if isinstance(value, float) and value.is_integer():
                return int(value)
    return _scalar(value, wanted, where, _GO_TYPES.get(name, kind))


def _scalar(value: Any, wanted: Any, where: str, go: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise _mismatch(value, where, go)
    return value


def _mismatch(value: Any, where: str, go: str) -> MetadataError:
    return MetadataError(f"json: cannot unmarshal {_JSON.get(value.__class__, 'value')} into {where} of type {go}")


def _time(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise MetadataError(f"json: cannot unmarshal {_JSON[value.__class__]} into Go value of type string")
    try:
        found = parse_timestamp(value)
    except CelError:
        found = None
    if found is None:
        layout = "2006-01-02T15:04:05Z07:00"
        raise MetadataError(f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"')
    return timestamp_text(Timestamp(found.ns - found.ns % 10**9))


def coerce(value: Any, schema: Props | None, path: str, unknown: list[str], drops_malformed: bool = False) -> FieldError | None:
    """Turn the metadata of every embedded resource into ObjectMeta; the first error ends it."""
    if schema is None:
        return None
    if isinstance(value, dict):
        for name in list(value):
            if schema.is_embedded_resource and (problem := _coerce_field(value, name, path, unknown, drops_malformed)):
                return problem
            if name not in value:
                continue
            below = schema.properties.get(name)
            where = child(path, name) if below is not None else key(path, name)
            if below is None and schema.additional_properties is not None:
                below = schema.values
            if problem := coerce(value[name], below, where, unknown, drops_malformed):
                return problem
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if problem := coerce(item, schema.items, index(path, number), unknown, drops_malformed):
                return problem
    return None


def _coerce_field(resource: dict[str, Any], name: str, path: str, unknown: list[str], drops_malformed: bool) -> FieldError | None:
    value = resource[name]
    if name in ("apiVersion", "kind"):
        if isinstance(value, str):
            return None
        if drops_malformed:
            del resource[name]
            return None
        return invalid(child(path, name), value, "must be a string")
    if name == "metadata":
        found: list[str] = []
        try:
            resource[name] = object_meta(value, found, drops_malformed)
        except MetadataError as problem:
            return None if drops_malformed else invalid(child(path, name), value, str(problem))
        unknown += [child(child(path, name), each) for each in found]
    return None


def embedded_errors(value: Any, schema: Props | None, path: str = "") -> Iterator[FieldError]:
    """The errors of the type and metadata of every embedded resource within a value."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.is_embedded_resource:
            yield from _resource_errors(value, path)
        for name, item in value.items():
            below = schema.properties.get(name)
            if below is not None:
                yield from embedded_errors(item, below, child(path, name))
            elif schema.values is not None:
                yield from embedded_errors(item, schema.values, key(path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from embedded_errors(item, schema.items, index(path, number))


def _resource_errors(resource: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        where = child(path, name)
        if name not in resource:
            yield required(where)
            continue
        value = resource[name]
        if not isinstance(value, str):
            yield invalid(where, value, "must be a string")
        elif not value:
            yield invalid(where, value, "must not be empty")
        elif name == "kind" and (errors := dns_1035_label(value.lower())):
            yield invalid(where, value, f"may have mixed case, but should otherwise match: {','.join(errors)}")
        elif name == "apiVersion" and value.count("/") > 1:
            yield invalid(where, value, f"unexpected GroupVersion string: {value}")
    if "metadata" in resource:
        where = child(path, "metadata")
        try:
            found = object_meta(resource["metadata"])
        except MetadataError as problem:
            yield invalid(where, resource["metadata"], str(problem))
        else:
            found.setdefault("name", "fakename")
            yield from metadata_errors(found, where, is_namespaced=bool(found.get("namespace")), is_path_segment=True)


def metadata_errors(
    metadata: dict[str, Any], path: str, is_namespaced: bool, is_path_segment: bool = False
) -> Iterator[FieldError]:
    """The errors of the metadata of a new object; `is_path_segment`: its name only has to fit into a URL."""
    name_errors = _path_segment if is_path_segment else dns_subdomain
    for name in ("generateName", "name"):
        value = metadata.get(name, "")
        if name == "name" and not value:
            yield required(child(path, name), "name or generateName is required")
        elif value:
            # A prefix may end with a dash, because a name follows it.
            checked = value[:-1] + "a" if name == "generateName" and value.endswith("-") and not is_path_segment else value
            for problem in name_errors(checked):
                yield invalid(child(path, name), value, problem)
    namespace = metadata.get("namespace", "")
    if is_namespaced and not namespace:
        yield required(child(path, "namespace"))
    elif is_namespaced:
        for problem in _namespace(namespace):
            yield invalid(child(path, "namespace"), namespace, problem)
    elif namespace:
        yield forbidden(child(path, "namespace"), "not allowed on this type")
    if metadata.get("generation", 0) < 0:
        yield invalid(child(path, "generation"), metadata["generation"], "must be greater than or equal to 0")
    yield from _map_errors(metadata, path)
    for owner in metadata.get("ownerReferences") or ():
        for name, text in _OWNER_TEXTS.items():
            if not (owner or {}).get(name):
                yield invalid(child(child(path, "ownerReferences"), name), "", text)
    for number, given in enumerate(metadata.get("managedFields") or ()):
        entry = given or {}
        if entry.get("operation") not in ("Apply", "Update"):
            where = child(index(child(path, "managedFields"), number), "operation")
            yield invalid(where, entry.get("operation", ""), "must be `Apply` or `Update`")
    for finalizer in metadata.get("finalizers") or ():
        for problem in _qualified(finalizer or ""):
            yield invalid(child(path, "finalizers"), finalizer or "", problem)


def _map_errors(metadata: dict[str, Any], path: str) -> Iterator[FieldError]:
    for name, value in (metadata.get("labels") or {}).items():
        for problem in _qualified(name):
            yield invalid(child(path, "labels"), name, problem)
        text = "" if value is None else value  # Go reads null as an empty text, and a null entry as one without fields
        for problem in _label_value(text):
            yield invalid(child(path, "labels"), text, problem)
    annotations = metadata.get("annotations") or {}
    for name in annotations:
        for problem in _qualified(name.lower()):
            yield invalid(child(path, "annotations"), name, problem)


@lru_cache(_KNOWN_MAX)
def _qualified(name: str) -> tuple[str, ...]:
    return tuple(RULES.qualified_name(name))


@lru_cache(_KNOWN_MAX)
def _label_value(value: str) -> tuple[str, ...]:
    return tuple(RULES.label_value(value))


@lru_cache(_KNOWN_MAX)
def _namespace(name: str) -> tuple[str, ...]:
    return tuple(dns_label(name))


def _path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in ("/", "%") if each in name]
