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
from ...runs.window import Window
from .logic.formula import Key, Model
from .sql import statement

# States of one resource that are looked at; the newest count. Each keeps its metadata and the fields that chains read.
STATES_MAX = 50_000
_BATCH_ROWS = 1024
NEVER = datetime.max.replace(tzinfo=UTC)
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

    def __init__(self, reader: LakeReader, window: Window) -> None:
        self._reader = reader
        self._until = window.until
        self._states: dict[tuple[str, str, str], list[State]] = {}
        self._by_name: dict[tuple[str, str, str], dict[tuple[str, str], list[State]]] = {}
        rows = reader.rows(statement("namespaced"))
        self._resources = {(row["cluster"], row["api_group"], row["resource"]): row for row in rows}

    def is_namespaced(self, cluster: str, group: str, resource: str) -> bool | None:
        """Whether the objects of a resource are in namespaces; None where neither the API nor the log tells."""
        built_in = by_resource(group, resource)
        if built_in is not None:
            return built_in.namespaced
        row = self._resources.get((cluster, group, resource))
        return True if row is not None and row["is_namespaced"] else None

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
    values = {key: value for key in keys if isinstance(value := _at(obj, key.path), str)}
    return Model(values, frozenset(path for path in paths if _at(obj, path) is not None))


def is_plain(obj: Mapping[str, Any], keys: tuple[Key, ...]) -> bool:
    """Whether the values of these keys are texts or absent, so that formulas see the object as it is."""
    return all(_at(obj, key.path) is None or isinstance(_at(obj, key.path), str) for key in keys)


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        if not isinstance(obj, dict) or part not in obj:
            return None
        obj = obj[part]
    return obj


def _rows(reader: LakeReader, parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for batch in reader.sql(statement("versions"), parameters).to_arrow_reader(_BATCH_ROWS):
        yield from batch.to_pylist()


def _reduced(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without the parts of its metadata that no chain should read, which are the largest."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        obj["metadata"] = {name: metadata[name] for name in _METADATA if name in metadata}
    return obj
