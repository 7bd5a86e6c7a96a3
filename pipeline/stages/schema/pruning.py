"""What decoding does to an object before admission: prune, drop nulls, and default.

Follows apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}. The functions change the object that they are given. A
schema that is None describes a value without declarations.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from .field_errors import child, index
from .props import Props

META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))


def prune(value: Any, schema: Props | None, is_resource: bool = True) -> list[str]:
    """Remove every field that the schema does not know; returns the paths of these, sorted.

    `is_resource` says that the value is a whole resource, whose apiVersion, kind and metadata stay.
    """
    removed: list[str] = []
    _prune(value, schema, is_resource, "", removed)
    return sorted(removed)


def _prune(value: Any, schema: Props | None, is_resource: bool, path: str, removed: list[str]) -> None:
    if schema is not None and schema.preserves_unknown_fields:
        _keep(value, schema, is_resource, path, removed)
    elif isinstance(value, dict):
        for name in list(value):
            if is_resource and name in META_FIELDS:
                continue
            below = None if schema is None else schema.properties.get(name)
            if below is not None:
                _prune(value[name], below, below.is_embedded_resource, child(path, name), removed)
            elif schema is not None and schema.additional_properties is not None:
                _prune(value[name], schema.values, _is_embedded(schema.values), child(path, name), removed)
            else:
                if path or name not in META_FIELDS:
                    removed.append(child(path, name))
                del value[name]
    elif isinstance(value, list):
        items = None if schema is None else schema.items
        for number, item in enumerate(value):
            _prune(item, items, _is_embedded(items), index(path, number), removed)


def _keep(value: Any, schema: Props | None, is_resource: bool, path: str, removed: list[str]) -> None:
    """Keep unknown fields here; within declared fields pruning starts again."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            if is_resource and name in META_FIELDS:
                continue
            below = schema.properties.get(name)
            if below is not None:
                _prune(value[name], below, below.is_embedded_resource, child(path, name), removed)
            elif schema.additional_properties is not None:
                _prune(value[name], schema.values, _is_embedded(schema.values), child(path, name), removed)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _keep(item, schema.items, _is_embedded(schema.items), index(path, number), removed)


def _is_embedded(schema: Props | None) -> bool:
    return schema is not None and schema.is_embedded_resource


def drop_nulls(value: Any, schema: Props | None) -> None:
    """Remove keys whose value is null where the schema is neither nullable nor has a default. Items of lists stay."""
    if isinstance(value, dict):
        for name in list(value):
            below = None if schema is None else schema.properties.get(name) or schema.values
            if value[name] is None and below is not None and not below.nullable and not below.has_default:
                del value[name]
            else:
                drop_nulls(value[name], below)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, None if schema is None else schema.items)


def set_defaults(value: Any, schema: Props | None) -> None:
    """Set the default of every declared field that is missing, or null and not nullable; parents before children."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, below in schema.properties.items():
            if below.has_default and (name not in value or (value[name] is None and not below.nullable)):
                value[name] = copy.deepcopy(below.default)
        for name in value:
            found = schema.properties.get(name)
            if found is None and (found := schema.values) is not None:
                value[name] = _or_default(value[name], found)
            set_defaults(value[name], found)
    elif isinstance(value, list) and schema.items is not None:
        for number, item in enumerate(value):
            value[number] = _or_default(item, schema.items)
            set_defaults(value[number], schema.items)


def _or_default(value: Any, schema: Props) -> Any:
    return copy.deepcopy(schema.default) if value is None and not schema.nullable else value


def without_unknown_defaults(schema: Props) -> Props:
    """The schema with its defaults pruned, as the API server uses it (pkg/apiserver/schema/defaulting/prune.go)."""
    values = {name: getattr(schema, name) for name in Props.__slots__}
    if schema.has_default:
        values["default"] = copy.deepcopy(schema.default)
        _prune(values["default"], schema, schema.is_embedded_resource, "", [])
    values["properties"] = {name: without_unknown_defaults(each) for name, each in schema.properties.items()}
    if schema.items is not None:
        values["items"] = without_unknown_defaults(schema.items)
    return Props(**values)
