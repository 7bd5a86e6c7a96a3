"""Quick checks of values that need no work: most objects have no unknown field, no null to drop, every default, and no error.

A check is one closure per node of a schema, made once. True is sure: pruning, defaulting or validation would find nothing. False
says only that the full functions must look (pruning.py, values.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...cel.evaluation.patterns import matches
from .props import Props
from .pruning import META_FIELDS

Check: TypeAlias = Callable[[Any], bool]
_INT64, _INT32 = 2**63, 2**31
_CONTAINERS = frozenset((dict, list))


def never(value: Any) -> bool:
    """The check of a node that only the full functions understand."""
    return False


def anything(value: Any) -> bool:
    """The check of a node that takes every value."""
    return True


def tidy_check(schema: Props) -> Check:
    """Whether pruning, the removal of nulls and defaulting would leave a whole resource as it is."""
    declared = [below for name in META_FIELDS if (below := schema.properties.get(name)) is not None]
    if any(node.has_default for each in declared for node in each.nodes()):
        return never
    fields = {name: _tidy(below) for name, below in schema.properties.items() if name not in META_FIELDS}
    return _tidy_object(schema, {**fields, "apiVersion": _is_text, "kind": _is_text, "metadata": anything})


def _is_text(value: Any) -> bool:
    return value.__class__ is str


def _tidy(schema: Props) -> Check:
    """The check of a value in its place: null stays only where it is allowed."""
    if schema.is_embedded_resource:
        return never
    takes_null = schema.nullable
    inner = _tidy_value(schema)
    if inner is _is_scalar and not takes_null:
        return inner
    return lambda value: takes_null if value is None else inner(value)


def _is_scalar(value: Any) -> bool:
    return value is not None and value.__class__ not in _CONTAINERS


def _tidy_value(schema: Props) -> Check:
    """The check of a value that is not null."""
    within_object = bool(schema.properties) or schema.additional_properties is not None
    keeps_all = bool(schema.preserves_unknown_fields)
    if not within_object and schema.items is None:
        return anything if keeps_all else _is_scalar
    objects = _tidy_object(schema, {name: _tidy(below) for name, below in schema.properties.items()}) if within_object else never
    lists = never if schema.items is None or keeps_all else _each(_tidy(schema.items))

    def check(value: Any) -> bool:
        kind = value.__class__
        return objects(value) if kind is dict else lists(value) if kind is list else True

    return check


def _tidy_object(schema: Props, fields: Mapping[str, Check]) -> Check:
    defaults = frozenset(name for name, below in schema.properties.items() if below.has_default)
    others: Check | None = None
    if schema.additional_properties is not None:
        others = _is_scalar if schema.values is None else _tidy(schema.values)
    elif schema.preserves_unknown_fields:
        others = anything
    known = fields.get

    def check(value: Any) -> bool:
        if defaults and not defaults <= value.keys():
            return False
        for name, item in value.items():
            below = known(name, others)
            if below is None or not below(item):
                return False
        return True

    return check


def _each(below: Check) -> Check:
    return lambda value: all(map(below, value))


@dataclass(frozen=True, slots=True)
class Parts:
    """The checks within a node: of its format, of its fields, of the values of a map, and of the items of a list."""

    has_format: Check | None
    fields: Mapping[str, Check]
    values: Check | None
    items: Check | None


def valid_check(schema: Props, types: tuple[str, ...], format_: str, parts: Parts) -> Check | None:
    """Whether a value has no error at one node and within it; None where only the validator of the node can say so.

    `types` and `format_` are those of the validator, which follow from the version of Kubernetes.
    """
    junctors = schema.any_of or schema.all_of or schema.one_of or schema.not_
    # A type that does not exist is an error of the definition, which its check reports.
    make = _OF_TYPE.get(types[0]) if len(types) == 1 else None
    if make is None or schema.multiple_of is not None or junctors:
        return None
    inner = make(schema, format_, parts)
    if inner is None or not schema.nullable or schema.enum:
        return inner
    return lambda value: value is None or inner(value)


def _text(schema: Props, format_: str, parts: Parts) -> Check:
    least, most, pattern, has_format = schema.min_length, schema.max_length, schema.pattern, parts.has_format
    listed = frozenset(each for each in schema.enum if isinstance(each, str)) if schema.enum else None
    if least is None and most is None and not pattern and listed is None and has_format is None:
        return _is_text

    def check(value: Any) -> bool:
        return (
            value.__class__ is str
            and (listed is None or value in listed)
            and (most is None or len(value) <= most)
            and (least is None or len(value) >= least)
            and (not pattern or matches(value, pattern))
            and (has_format is None or has_format(value))
        )

    return check


def _integer(schema: Props, format_: str, parts: Parts) -> Check | None:
    bound = _INT32 if format_ == "int32" else _INT64
    low, high = -bound, bound - 1
    limits = [each for each in (schema.minimum, schema.maximum) if each is not None]
    if schema.enum or any(not each.is_integer() or not low <= each <= high for each in limits):
        return None
    if schema.minimum is not None:
        low = int(schema.minimum) + schema.exclusive_minimum
    if schema.maximum is not None:
        high = int(schema.maximum) - schema.exclusive_maximum
    return lambda value: value.__class__ is int and low <= value <= high


def _number(schema: Props, format_: str, parts: Parts) -> Check | None:
    is_limited = schema.enum or schema.minimum is not None or schema.maximum is not None
    return None if is_limited or format_ not in ("", "double") else lambda value: value.__class__ in (float, int)


def _flag(schema: Props, format_: str, parts: Parts) -> Check | None:
    return None if schema.enum else lambda value: value is True or value is False


def _object(schema: Props, format_: str, parts: Parts) -> Check | None:
    least, most, required = schema.min_properties, schema.max_properties, frozenset(schema.required)
    refuses_others = schema.additional_properties is not None and not schema.additional_properties.allows
    if schema.enum or refuses_others:
        return None
    known, others = parts.fields.get, parts.values or anything

    def check(value: Any) -> bool:
        if value.__class__ is not dict or (required and not required <= value.keys()):
            return False
        if (least is not None and len(value) < least) or (most is not None and len(value) > most):
            return False
        for name, item in value.items():  # A generator would take a third longer.
            if not known(name, others)(item):
                break
        else:
            return True
        return False

    return check


def _list(schema: Props, format_: str, parts: Parts) -> Check | None:
    least, most = schema.min_items, schema.max_items
    if schema.enum:
        return None
    items = anything if parts.items is None else _each(parts.items)

    def check(value: Any) -> bool:
        if value.__class__ is not list or (least is not None and len(value) < least) or (most is not None and len(value) > most):
            return False
        return items(value)

    return check


_OF_TYPE: Final[Mapping[str, Callable[[Props, str, Parts], Check | None]]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _flag,
    "object": _object,
    "array": _list,
}
