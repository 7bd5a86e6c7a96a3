"""The fields of a value that a schema does not know, with their values.

They are the fields that pruning would remove (see pruning.py), but nothing is removed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..field_errors import child, index
from ..props import Props
from ..pruning import META_FIELDS

# The steps to a field: names and indices.
Path: TypeAlias = tuple[str | int, ...]


def unknown_fields(value: Any, schema: Props | None, is_resource: bool = True, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The path and the value of each outermost unknown field. The metadata of a resource has a schema of its own."""
    if schema is not None and schema.preserves_unknown_fields:
        yield from _where_kept(value, schema, is_resource, path)
    elif isinstance(value, dict):
        for name, item in value.items():
            below = None if schema is None else schema.properties.get(name)
            if name in META_FIELDS and (is_resource or (not path and below is None)):
                continue
            if below is None and (schema is None or schema.additional_properties is None):
                yield (*path, name), item
                continue
            if below is None and schema is not None:
                below = schema.values
            yield from unknown_fields(item, below, _is_embedded(below), (*path, name))
    elif isinstance(value, list):
        items = None if schema is None else schema.items
        for number, item in enumerate(value):
            yield from unknown_fields(item, items, _is_embedded(items), (*path, number))


def _where_kept(value: Any, schema: Props | None, is_resource: bool, path: Path) -> Iterator[tuple[Path, Any]]:
    """The same where unknown fields are kept; within declared fields they are not."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, item in value.items():
            if is_resource and name in META_FIELDS:
                continue
            below = schema.properties.get(name)
            if below is None and schema.additional_properties is None:
                continue
            below = below or schema.values
            yield from unknown_fields(item, below, _is_embedded(below), (*path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _where_kept(item, schema.items, _is_embedded(schema.items), (*path, number))


def _is_embedded(schema: Props | None) -> bool:
    return schema is not None and schema.is_embedded_resource


class Place(NamedTuple):
    """Where steps lead: how many of them are known, and the schema there; None where fields of any name are kept as they are.

    `in_metadata`: they lead into the metadata of a resource, which has a schema of its own.
    """

    known: int
    schema: Props | None
    in_metadata: bool = False


def place_of(schema: Props | None, steps: Sequence[str]) -> Place:
    """The place to which the steps of a JSON pointer lead."""
    is_resource = True
    for number, step in enumerate(steps):
        if schema is None or (is_resource and step in META_FIELDS):
            return Place(len(steps), None, schema is not None and step == "metadata")
        if schema.items is not None and (step == "-" or step.isdigit()):
            below: Props | None = schema.items
        else:
            below = schema.properties.get(step)
            if below is None and schema.additional_properties is not None:
                below = schema.values
                if below is None:
                    return Place(len(steps), None)
            elif below is None:
                return Place(len(steps), None) if schema.preserves_unknown_fields else Place(number, None)
        schema, is_resource = below, _is_embedded(below)
    return Place(len(steps), schema)


def text_of(path: Path) -> str:
    """A path as field errors write it: `spec.ports[0].name`."""
    text = ""
    for step in path:
        text = index(text, step) if isinstance(step, int) else child(text, step)
    return text


def general(path: Path) -> str:
    """A path for all elements of its lists: `spec.ports[].name`."""
    text = ""
    for step in path:
        text = f"{text}[]" if isinstance(step, int) else child(text, step)
    return text
