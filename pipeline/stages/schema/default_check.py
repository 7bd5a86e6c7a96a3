"""Whether the defaults of a schema meet the schema: apiextensions-apiserver pkg/apiserver/schema/defaulting/validation.go."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from .correlation import same
from .field_errors import FieldError, child, invalid, joined, key
from .formats import Version
from .metadata import coerce, embedded_errors
from .props import Props
from .pruning import META_FIELDS, prune
from .rule_run import run_rules
from .rules import compile_rules
from .values import Validator

_TYPE_META = {"apiVersion": "validation/v1", "kind": "Validation"}


def default_errors(schema: Props, path: str, version: Version) -> list[FieldError]:
    """The errors of every default of a schema for a resource."""
    return list(_walk(schema, schema, path, version, None, is_resource=True))


def _walk(
    node: Props, resource: Props, path: str, version: Version, within: tuple[str | int, ...] | None, is_resource: bool = False
) -> Iterator[FieldError]:
    """`within` is the place of the node in its resource if it describes the type or the metadata of that resource."""
    is_resource = is_resource or node.is_embedded_resource
    if is_resource:
        resource, within = node, None
    steps: tuple[str | int, ...] = within or ()
    if node.has_default:
        yield from _default(node, resource, child(path, "default"), version, within, is_resource)
    if node.items is not None:
        below = None if within is None else (*steps, 0)
        yield from _walk(node.items, resource, child(path, "items"), version, below)
    for name, each in node.properties.items():
        below = (*steps, name) if within is not None or (is_resource and name in META_FIELDS) else None
        yield from _walk(each, resource, key(child(path, "properties"), name), version, below)


def _default(
    node: Props, resource: Props, path: str, version: Version, within: tuple[str | int, ...] | None, is_resource: bool
) -> Iterator[FieldError]:
    value = copy.deepcopy(node.default)
    if within is not None:
        whole = _around(value, within)
        problem = coerce(whole, _as_resource(resource), "", [])
        errors = [problem] if problem is not None else list(embedded_errors(whole, _as_resource(resource)))
        if errors:
            yield invalid(path, node.default, f"must result in valid metadata: {joined(errors)}")
            return
    else:
        if prune(value, node, is_resource) and not same(value, node.default):
            yield invalid(path, node.default, "must not have unknown fields")
        value = copy.deepcopy(node.default)
        schema = _as_resource(node) if is_resource else node
        if (problem := coerce(value, schema, path, [])) is not None:
            yield problem
            return
        if errors := list(embedded_errors(value, schema, path)):
            yield from errors
            return
    if errors := Validator(node, version=None).errors(value, path):
        yield from errors
        return
    rules = compile_rules(node, version, is_resource)
    if rules is not None:
        # First as an update without a change, then as a create: rules may read oldSelf as an optional.
        found = run_rules(rules, value, value, path=path).errors
        yield from found or run_rules(rules, value, path=path).errors


def _as_resource(schema: Props) -> Props:
    values = {name: getattr(schema, name) for name in Props.__slots__}
    return Props(**{**values, "is_embedded_resource": True})


def _around(value: Any, place: tuple[str | int, ...]) -> dict[str, Any]:
    """The smallest resource that has this value at a place."""
    for step in reversed(place):
        value = [value] if isinstance(step, int) else {step: value}
    return {**_TYPE_META, **value}
