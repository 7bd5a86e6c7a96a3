"""The objects of a resource that the lake knows, and since when: from recorded answers and snapshots.

An object counts as known to exist from a recorded state until the next one, and until anything that may have deleted it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from queries import LakeReader

from ...history.event import decode_json
from ...history.kinds import by_resource
from ...openapi import built_in_schemas
from ...request import GroupVersionResource
from ...runs.window import Window
from .fields import Fields, kind_of, rendered, value_at
from .logic.formula import Key, Kind, Model
from .sql import statement

# States of one resource that are looked at; the newest count. Each keeps its metadata and the fields that chains read.
STATES_MAX = 50_000
_BATCH_ROWS = 1024
NEVER = datetime.max.replace(tzinfo=UTC)
_KINDS = {"string": Kind.TEXT, "boolean": Kind.BOOLEAN, "integer": Kind.INTEGER}
_METADATA = ("name", "namespace", "labels", "annotations")


class State(NamedTuple):
    """One known state of an object, which it had from `since` on and before `until`."""

    namespace: str
    name: str
    since: datetime
    until: datetime
    object: dict[str, Any]
    writer: str | None


class KnownObjects:
    """The known states of objects, by resource. They are read when they are first needed."""

    def __init__(self, reader: LakeReader, window: Window, paths: frozenset[tuple[str, ...]]) -> None:
        """`paths` are those of the fields whose types matter."""
        self._reader = reader
        self._paths = sorted(paths)
        self._until = window.until
        self._states: dict[tuple[str, str, str], list[State]] = {}
        self._by_name: dict[tuple[str, str, str], dict[tuple[str, str], list[State]]] = {}
        rows = reader.rows(statement("namespaced"))
        self._resources = {(row["cluster"], row["api_group"], row["resource"]): row for row in rows}
        self._fields: dict[tuple[str, str, str], Fields] = {}
        self._defined: dict[str, list[dict[str, Any]]] = {}

    def is_namespaced(self, cluster: str, group: str, resource: str) -> bool | None:
        """Whether the objects of a resource are in namespaces; None where neither the API nor the log tells."""
        built_in = by_resource(group, resource)
        if built_in is not None:
            return built_in.namespaced
        row = self._resources.get((cluster, group, resource))
        return True if row is not None and row["is_namespaced"] else None

    def fields(self, cluster: str, group: str, resource: str) -> Fields:
        """The fields of a resource. Of a custom resource its definition, or else its objects, tell the types.

        Of a built-in kind its schema tells them, whichever version: a field that several have has one type.
        """
        place = (cluster, group, resource)
        found = self._fields.get(place)
        if found is None:
            found = self._fields[place] = self._read_fields(place) if self._paths else Fields(group, resource)
        return found

    def _read_fields(self, place: tuple[str, str, str]) -> Fields:
        if by_resource(*place[1:]) is None:
            return self._custom(place)
        schemas = [schema for version in ("v1", "v2") if (schema := _schema(*place[1:], version)) is not None]
        typed = {path: kind for path in self._paths for each in schemas if (kind := _typed(each, path)) is not None}
        return Fields(*place[1:], tuple(typed.items()))

    def _custom(self, place: tuple[str, str, str]) -> Fields:
        cluster, group, resource = place
        if cluster not in self._defined:
            states = self._read(cluster, "apiextensions.k8s.io", "customresourcedefinitions")
            self._defined[cluster] = [spec for state in states if isinstance(spec := state.object.get("spec"), dict)]
        defined = [each for each in self._defined[cluster] if _defines(each, group, resource)]
        typed: dict[tuple[str, ...], Kind] = {}
        for path in self._paths:
            kinds = {kind for each in defined for kind in _declared(each, path)}
            kinds = kinds or {kind_of(found) for state in self.of(*place) if (found := value_at(state.object, path)) is not None}
            if len(kinds) == 1 and (kind := kinds.pop()) is not None:
                typed[path] = kind
        selectable = frozenset(name for each in defined for name in _selectable(each))
        return Fields(group, resource, tuple(typed.items()), selectable)

    def of(self, cluster: str, group: str, resource: str) -> list[State]:
        """Every known state of the objects of a resource."""
        place = (cluster, group, resource)
        found = self._states.get(place)
        if found is None:
            found = self._states[place] = self._read(*place)
            by_name = self._by_name[place] = {}
            for state in found:
                by_name.setdefault((state.namespace, state.name), []).append(state)
        return found

    def named(self, cluster: str, group: str, resource: str, namespace: str, name: str) -> list[State]:
        """Every known state of one object, in the order of time."""
        self.of(cluster, group, resource)
        return self._by_name[cluster, group, resource].get((namespace, name), [])

    def _read(self, cluster: str, group: str, resource: str) -> list[State]:
        built_in = by_resource(group, resource)
        row = self._resources.get((cluster, group, resource)) or {}
        parameters = {
            "cluster": cluster,
            "api_group": group,
            "resource": resource,
            "kind": built_in.kind if built_in is not None else row.get("kind") or "",
            "until": self._until,
        }
        open_states: dict[tuple[str, str], State] = {}
        found: list[State] = []

        def close(key: tuple[str, str], moment: datetime) -> None:
            state = open_states.pop(key, None)
            if state is not None and state.since < moment:
                found.append(state._replace(until=moment))

        for version in _rows(self._reader, parameters):
            key, since = (version["namespace"], version["name"]), version["since"]
            if version["object"] is None:
                for other in [key] if key[1] else [each for each in open_states if key[0] in ("", each[0])]:
                    close(other, since)
                continue
            close(key, since)
            obj = decode_json(version["object"].encode())
            if isinstance(obj, dict):
                open_states[key] = State(*key, since, NEVER, _reduced(obj), version["writer"])
            del found[:-STATES_MAX]
        found += open_states.values()
        return sorted(found, key=lambda state: (state.since, state.namespace, state.name))[-STATES_MAX:]


def model_of(obj: Mapping[str, Any], keys: tuple[Key, ...], paths: tuple[tuple[str, ...], ...] = ()) -> Model:
    """An object as formulas see it, with the keys and paths that these formulas read."""
    values = {key: text for key in keys if (text := _text_of(obj, key)) is not None}
    return Model(values, frozenset(path for path in paths if value_at(obj, path) is not None))


def is_plain(obj: Mapping[str, Any], keys: tuple[Key, ...]) -> bool:
    """Whether the values of these keys have their types or are absent, so that formulas see the object as it is."""
    return all(value_at(obj, key.path) is None or _text_of(obj, key) is not None for key in keys)


def _text_of(obj: Mapping[str, Any], key: Key) -> str | None:
    value = value_at(obj, key.path)
    return rendered(value) if kind_of(value) is key.kind else None


def _rows(reader: LakeReader, parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for batch in reader.sql(statement("versions"), parameters).to_arrow_reader(_BATCH_ROWS):
        yield from batch.to_pylist()


def _reduced(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without the parts of its metadata that no chain should read, which are the largest."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        obj["metadata"] = {name: metadata[name] for name in _METADATA if name in metadata}
    return obj


def _defines(spec: dict[str, Any], group: str, resource: str) -> bool:
    return spec.get("group") == group and value_at(spec, ("names", "plural")) == resource


def _versions(spec: dict[str, Any]) -> list[dict[str, Any]]:
    found = spec.get("versions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _schema(group: str, resource: str, version: str) -> Mapping[str, Any] | None:
    schemas = built_in_schemas()
    kinds = schemas.kinds_of(GroupVersionResource(group, version, resource))
    return schemas.schema_of(kinds[0]) if kinds else None


def _typed(schema: Mapping[str, Any], path: tuple[str, ...]) -> Kind | None:
    """The type of the field at a path; None where selectors compare no such type, or where the schema has no such field."""
    inner = tuple(part for name in path for part in ("properties", name))
    return _KINDS.get(value_at(schema, (*inner, "type")))


def _declared(spec: dict[str, Any], path: tuple[str, ...]) -> Iterator[Kind | None]:
    """The types that the versions of a definition give the field at a path."""
    inner = tuple(part for name in path for part in ("properties", name))
    for version in _versions(spec):
        declared = value_at(version, ("schema", "openAPIV3Schema", *inner, "type"))
        if declared is not None:
            yield _KINDS.get(declared)


def _selectable(spec: dict[str, Any]) -> Iterator[str]:
    for version in _versions(spec):
        for each in version.get("selectableFields") or ():
            if isinstance(each, dict) and isinstance(each.get("jsonPath"), str):
                yield each["jsonPath"].lstrip(".")
