"""The schemas of resources, as a cluster publishes them: OpenAPI v3 documents, and CustomResourceDefinitions.

Type checking asks two questions: which kinds a resource has, and which schema an object of a kind has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from ..cel.checking.schema_types import resolved
from ..request import GroupVersionKind, GroupVersionResource

Schema: TypeAlias = Mapping[str, Any]

_REFERENCE = "#/components/schemas/"
_KINDS = "x-kubernetes-group-version-kind"
# How many parts of a path come before its resource.
_ROOTS = {"api": 2, "apis": 3}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_INTEGER: Schema = {"type": "integer", "format": "int64"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_LABELS: Schema = {"type": "object", "additionalProperties": _TEXT}
_OWNER: Schema = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
        **dict.fromkeys(("controller", "blockOwnerDeletion"), _FLAG),
    },
}
_MANAGED_FIELDS: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("apiVersion", "fieldsType", "manager", "operation", "subresource"), _TEXT),
        "fieldsV1": {"type": "object"},
        "time": _TIME,
    },
}
# An API server replaces a custom resource's metadata by this (apiextensions-apiserver pkg/controller/openapi/builder).
OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _TEXT),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INTEGER),
        **dict.fromkeys(("labels", "annotations"), _LABELS),
        "finalizers": _TEXTS,
        "ownerReferences": {"type": "array", "items": _OWNER},
        "managedFields": {"type": "array", "items": _MANAGED_FIELDS},
    },
}


class Schemas:
    """The kinds and schemas of some documents. Type checking skips kinds without a schema."""

    def __init__(self, definitions: Iterable[Mapping[str, Any]] = (), documents: Iterable[Mapping[str, Any]] = ()) -> None:
        """`definitions` are CustomResourceDefinitions, `documents` the answers of `/openapi/v3/apis/GROUP/VERSION`."""
        self._kinds: dict[GroupVersionResource, list[GroupVersionKind]] = {}
        self._schemas: dict[GroupVersionKind, Schema] = {}
        self._whole: set[tuple[str, ...]] = set()
        self._described: dict[GroupVersionKind, tuple[str, Mapping[str, Schema]]] = {}
        for document in documents:
            self._add_document(document)
        for definition in definitions:
            self._add_definition(definition)

    def kinds_of(self, resource: GroupVersionResource) -> list[GroupVersionKind]:
        """The kinds of a resource; empty if it is not known."""
        return self._kinds.get(resource, [])

    def describes(self, group: str, version: str) -> bool:
        """Whether a document lists all resources of a group's version."""
        return (group, version) in self._whole

    def schema_of(self, kind: GroupVersionKind) -> Schema | None:
        """The schema of a kind, without references; None if it is not known."""
        if kind not in self._schemas and kind in self._described:
            reference, by_reference = self._described.pop(kind)
            # A reference into another document: upstream finds no schema either.
            with suppress(KeyError):
                self._schemas[kind] = resolved({"$ref": reference}, by_reference)
        return self._schemas.get(kind)

    def _add_document(self, document: Mapping[str, Any]) -> None:
        schemas = (document.get("components") or {}).get("schemas") or {}
        by_reference = {f"{_REFERENCE}{name}": schema for name, schema in schemas.items()}
        for reference, schema in by_reference.items():
            for kind in schema.get(_KINDS) or ():
                self._described[_kind(kind)] = reference, by_reference
        for path, item in (document.get("paths") or {}).items():
            parts = path.strip("/").split("/")
            if parts[0] in _ROOTS:
                self._whole.add(("", *parts[1:2]) if parts[0] == "api" else tuple(parts[1:3]))
            resource = _resource_at(parts)
            for action in item.values() if resource else ():
                if isinstance(action, Mapping) and _KINDS in action:
                    self._add_kind(str(resource), _kind(action[_KINDS]))

    def _add_kind(self, resource: str, kind: GroupVersionKind) -> None:
        known = self._kinds.setdefault(GroupVersionResource(kind.group, kind.version, resource), [])
        if kind not in known:
            known.append(kind)

    def _add_definition(self, definition: Mapping[str, Any]) -> None:
        spec = definition.get("spec") or {}
        names = spec.get("names") or {}
        for version in spec.get("versions") or ():
            schema = (version.get("schema") or {}).get("openAPIV3Schema")
            if not version.get("served") or not schema:
                continue
            kind = GroupVersionKind(spec.get("group", ""), version.get("name", ""), names.get("kind", ""))
            self._add_kind(names.get("plural", ""), kind)
            properties = {**(schema.get("properties") or {}), "kind": _TEXT, "apiVersion": _TEXT, "metadata": OBJECT_META}
            self._schemas[kind] = {**schema, "type": "object", "properties": properties}


def _kind(of: Mapping[str, Any]) -> GroupVersionKind:
    return GroupVersionKind(of.get("group", ""), of.get("version", ""), of.get("kind", ""))


def _resource_at(parts: list[str]) -> str | None:
    """The resource of a path such as `/apis/apps/v1/namespaces/{namespace}/deployments`; None for any other path."""
    rest = parts[_ROOTS.get(parts[0], len(parts)) :]
    if rest[:2] == ["namespaces", "{namespace}"] and len(rest) > 2:
        rest = rest[2:]
    return rest[0] if rest and rest[0] != "watch" and rest[1:] in ([], ["{name}"]) else None
