"""The members of the report's classes, read from the classes themselves, so that data, schema and tables follow the model."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


@cache
def members(cls: type) -> tuple[tuple[str, Any], ...]:
    """The name and type of every field of a dataclass, in order, then of every figure derived from them (its properties)."""
    hints = get_type_hints(cls)
    stored = [(field.name, hints[field.name]) for field in fields(cls)]
    derived = [
        (name, get_type_hints(value.fget)["return"])
        for name, value in vars(cls).items()
        if isinstance(value, property) and value.fget
    ]
    return tuple(stored + derived)


def without_none(kind: Any) -> tuple[Any, bool]:
    """`X | None` as (X, True), any other type as (it, False)."""
    if get_origin(kind) in (Union, types.UnionType):
        others = [part for part in get_args(kind) if part is not type(None)]
        if len(others) == 1:
            return others[0], True
    return kind, False


def items_of(kind: Any) -> Any:
    """X of `tuple[X, ...]`; None for any other type."""
    arguments = get_args(kind)
    return arguments[0] if get_origin(kind) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis else None


def is_record(kind: Any) -> bool:
    """Whether a type is one of the model's classes."""
    return isinstance(kind, type) and is_dataclass(kind)


def classes(kind: Any) -> Iterator[type]:
    """Every class of the model that values of a type can hold, itself included, each once."""
    seen: list[type] = []
    pending = [kind]
    while pending:
        found = pending.pop()
        if is_record(found):
            if found in seen:
                continue
            seen.append(found)
            pending += [member for _, member in members(found)]
        else:
            pending += [part for part in get_args(found) if part is not Ellipsis]
    return iter(seen)
