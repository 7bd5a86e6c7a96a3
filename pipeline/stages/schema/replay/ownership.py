"""Who owns the fields of a custom resource: what its `managedFields` say, from the bodies of all writes since it was created.

Follows structured-merge-diff merge/update.go and typed/{compare,remove,tofieldset}.go. An apply removes the fields that the same
manager applied before, and that no manager owns now. Which updater owns a field does not matter, so all of them are one owner.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from ..props import Props, Values
from ..writing import ObjectKind
from .applying import Path, is_granular, merged, remove, step_of
from .outcome import NO_MANAGED_FIELDS
from .sent import Sent, Way
from .served import UndecidedError

_Fields: TypeAlias = frozenset[Path]
_Manager: TypeAlias = tuple[str, str]  # of applies, with the subresource
_UPDATERS: Final = ("", "")
_INNER: Final = object()
_TEXT: Final = Props(type="string")
_TEXTS: Final = Props(type="object", additional_properties=Values(True, _TEXT))
_REFERENCE: Final = Props(type="object", map_type="atomic")
_METADATA: Final = Props(
    type="object",
    properties={
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": Props(type="array", list_type="set", items=_TEXT),
        "ownerReferences": Props(
            type="array", list_type="map", list_map_keys=("uid",), items=Props(type="object", map_type="atomic")
        ),
    },
)
# kubernetes/apimachinery pkg/util/managedfields/internal/lastappliedmanager.go: this manager takes fields over by an annotation.
_KUBECTL: Final = "kubectl"


class Owners(NamedTuple):
    """The fields that each manager of an object owns, in one API version. The updaters are one of them."""

    version: str
    fields: Mapping[_Manager, _Fields]


def owners_after(
    before: Owners | None, kind: ObjectKind, sent: Sent, old: dict[str, Any] | None, new: dict[str, Any]
) -> Owners | None:
    """The owners after a write that made `old` into `new`; None where they are not known. Without `old` it was a create."""
    if sent.webhook_patches or _names_managers(sent) or (old is not None and (before is None or before.version != sent.version)):
        return None
    try:
        return _owners_after(before, kind, sent, old, new)
    except UndecidedError:
        return None


def _owners_after(before: Owners | None, kind: ObjectKind, sent: Sent, old: dict[str, Any] | None, new: dict[str, Any]) -> Owners:
    schema = _schema(kind)
    was = dict(_nodes({} if old is None else _view(old, kind, sent), schema))
    became = dict(_nodes(_view(new, kind, sent), schema))
    gone = was.keys() - became.keys()
    changed = {path for path, item in became.items() if path not in was or not _same(was[path], item)}
    found = {manager: own - changed - gone for manager, own in (before.fields if before is not None else {}).items()}
    if sent.way is Way.APPLY:
        found[_manager(sent)] = _applied_fields(sent, kind)
    else:
        found[_UPDATERS] = found.get(_UPDATERS, frozenset()) | changed
    return Owners(sent.version, {manager: frozenset(own) for manager, own in found.items() if own})


def applied_to(owners: Owners | None, kind: ObjectKind, sent: Sent, old: dict[str, Any]) -> dict[str, Any]:
    """The object after an apply, before defaults. `old` is the object as the apply meets it. Raises UndecidedError."""
    if owners is None or owners.version != sent.version or sent.manager == _KUBECTL or not isinstance(sent.body, dict):
        raise UndecidedError(NO_MANAGED_FIELDS)
    schema = _schema(kind)
    value = copy.deepcopy(merged(_view(old, kind, sent), _view(sent.body, kind, sent), schema))
    last = owners.fields.get(_manager(sent), frozenset())
    others = [own for manager, own in owners.fields.items() if manager != _manager(sent)]
    gone = _gone(value, last, _applied_fields(sent, kind).union(*others), schema)
    if not all(_is_declared(path, schema) for path in gone):
        raise UndecidedError("an apply removes a field that the schema of that time does not declare")
    for path in sorted(gone, key=len, reverse=True):
        remove(value, path, schema)
    if gone and _emptied(value, gone, schema):
        raise UndecidedError("an apply removes the last item of a map or list that stays")
    left = {name: item for name, item in old.items() if name not in _view(old, kind, sent)}
    metadata = {name: item for name, item in (old.get("metadata") or {}).items() if name not in _METADATA.properties}
    return {**left, **value, "metadata": {**metadata, **(value.get("metadata") or {})}}


def _names_managers(sent: Sent) -> bool:
    """Whether a body writes `managedFields` itself."""
    if isinstance(sent.body, list):
        return any(str(each.get("path", "")) in ("", "/metadata") or str(each.get("path")).startswith("/metadata/managedFields")
                   for each in sent.body if isinstance(each, dict) and each.get("op") != "test")  # fmt: skip
    return isinstance(sent.body, dict) and "managedFields" in (sent.body.get("metadata") or {})


def _manager(sent: Sent) -> _Manager:
    return sent.manager, sent.subresource


def _schema(kind: ObjectKind) -> Props:
    return replace(kind.schema, properties={**kind.schema.properties, "metadata": _METADATA})


def _view(value: dict[str, Any], kind: ObjectKind, sent: Sent) -> dict[str, Any]:
    """The fields of an object that a write may own: those of its subresource, without what the server sets."""
    if sent.subresource == "status":
        return {"status": value["status"]} if "status" in value else {}
    found = {name: item for name, item in value.items() if name not in ("apiVersion", "kind", "metadata")}
    if kind.has_status:
        found.pop("status", None)
    metadata = {name: item for name, item in (value.get("metadata") or {}).items() if name in _METADATA.properties}
    return {**found, "metadata": metadata} if metadata else found


def _children(value: Any, schema: Props | None) -> Iterator[tuple[Any, Any, Props | None, bool]]:
    """The parts of a value that have owners of their own: step, part, schema, and whether the schema names the step."""
    if isinstance(value, dict) and (schema is None or is_granular(schema)):
        for name, item in value.items():
            is_named = schema is not None and name in schema.properties
            yield name, item, _below(schema, name), is_named
    elif isinstance(value, list) and schema is not None and schema.list_type in ("set", "map"):
        steps = [step_of(item, schema) for item in value]
        if None in steps or len(set(steps)) != len(steps):
            raise UndecidedError("an associative list repeats an item or lacks a key")
        yield from ((step, item, schema.items, False) for step, item in zip(steps, value, strict=True))


def _below(schema: Props | None, step: Any) -> Props | None:
    if schema is None:
        return None
    return schema.properties.get(step) or schema.values if isinstance(step, str) else schema.items


def _nodes(value: Any, schema: Props | None, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every part of a value by its path. A part with parts of its own has the value _INNER."""
    for step, item, below, _ in _children(value, schema):
        parts = list(_nodes(item, below, (*path, step)))
        yield (*path, step), _INNER if parts else item
        yield from parts


def _same(one: Any, other: Any) -> bool:
    """Whether a part is equal; parts of its own are compared by themselves."""
    return one is _INNER or other is _INNER or (one == other and isinstance(one, bool) == isinstance(other, bool))


def _field_set(value: Any, schema: Props | None, path: Path = ()) -> Iterator[Path]:
    """The paths of all leaves and items: not those of fields with parts of their own."""
    for step, item, below, is_named in _children(value, schema):
        own = list(_field_set(item, below, (*path, step)))
        if not own or not is_named:
            yield (*path, step)
        yield from own


def _applied_fields(sent: Sent, kind: ObjectKind) -> _Fields:
    return frozenset(_field_set(_view(sent.body, kind, sent), _schema(kind)))


def _ensured(paths: Iterable[Path], schema: Props) -> set[Path]:
    """The paths, with all named fields around them."""
    found = set(paths)
    for path in list(found):
        node: Props | None = schema
        for place, step in enumerate(path[:-1], 1):
            if node is not None and isinstance(step, str) and step in node.properties:
                found.add(path[:place])
            node = _below(node, step)
    return found


def _gone(value: Any, last: _Fields, owned: _Fields, schema: Props) -> set[Path]:
    """The outermost paths that an apply removes from the merged value."""
    if not last:
        return set()
    every, before = _ensured(_field_set(value, schema), schema), _ensured(last, schema)
    dropped = every - _left(value, before, schema) - _ensured(owned, schema)
    gone = (every - _left(value, dropped, schema)) & before
    return {path for path in gone if not _is_within(path[:-1], gone)}


def _left(value: Any, dropped: set[Path], schema: Props) -> set[Path]:
    """The paths of a value without the dropped ones. A map or list that becomes empty is a leaf."""
    left = {path for path in _field_set(value, schema) if not _is_within(path, dropped)}
    inner = {path for path, item in _nodes(value, schema) if item is _INNER and not _is_within(path, dropped)}
    around = {path[:end] for path in left for end in range(1, len(path))}
    return _ensured(left | (inner - around), schema)


def _is_declared(path: Path, schema: Props) -> bool:
    """Whether the typed form of what lies at a path is known: its schema, or what follows from any value in an untyped place."""
    node = schema
    for step in path:
        below = _below(node, step)
        if below is None:
            is_metadata = node.is_embedded_resource and step in ("apiVersion", "kind", "metadata")
            return bool(node.preserves_unknown_fields) and not is_metadata
        node = below
    return True


def _is_within(path: Path, paths: set[Path]) -> bool:
    return any(path[:end] in paths for end in range(1, len(path) + 1))


def _emptied(value: Any, gone: Iterable[Path], schema: Props) -> bool:
    """Whether a map or list around a removed path has nothing left."""
    parents = {path[:-1] for path in gone if len(path) > 1}
    return any(path in parents and item is not _INNER for path, item in _nodes(value, schema))
