"""What a recorded body does not show: fields that the schema of the time dropped and a new schema knows, and values that may be
defaults.

The API server records the body of a create or an update after it pruned and defaulted it. A stored object that was last written
before the log begins may hold such fields as well: reads prune them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..correlation import same
from ..field_errors import FieldError, Reason, child, index
from ..props import Props

_RESOURCE: Final = frozenset({"apiVersion", "kind", "metadata"})
_COMBINATIONS_MAX: Final = 16
# In place of a name: fields of any name.
_ANY: Final = "*"


def hidden_fields(
    value: Any, old: Props | None, new: Props, path: str = "", is_resource: bool = True
) -> Iterator[tuple[str, Props | None]]:
    """The places in a value at which the old schema would have dropped a field that the new one keeps, with its new schema."""
    if isinstance(value, dict):
        keeps = old is not None and (bool(old.preserves_unknown_fields) or old.additional_properties is not None)
        known = old.properties if old is not None else {}
        skipped = _RESOURCE if is_resource or new.is_embedded_resource else frozenset()
        for name, node in new.properties.items():
            if name in skipped or name in value:
                continue
            if name not in known and not keeps:
                yield child(path, name), node
            elif name in known and node.nullable and not known[name].nullable and not known[name].has_default:
                yield child(path, name), node  # a null was dropped
        if not keeps and (new.preserves_unknown_fields or new.additional_properties is not None):
            yield child(path, _ANY), None
        for name, item in value.items():
            below_new = new.properties.get(name) or new.values
            if name not in skipped and below_new is not None:
                below_old = None if old is None else known.get(name) or old.values
                is_kept = old is not None and below_old is None and bool(old.preserves_unknown_fields)
                if not is_kept:
                    yield from hidden_fields(item, below_old, below_new, child(path, name), False)
    elif isinstance(value, list) and new.items is not None:
        items = None if old is None else old.items
        if items is None and old is not None and old.preserves_unknown_fields:
            return
        for number, item in enumerate(value):
            yield from hidden_fields(item, items, new.items, index(path, number), False)


def without_defaults(value: dict[str, Any], old: Props, new: Props) -> dict[str, Any] | None:
    """The value without what may be defaults of the old schema that the new one sets otherwise; None if there is nothing."""
    found = copy.deepcopy(value)
    return found if _drop_defaults(found, old, new) else None


def _drop_defaults(value: Any, old: Props | None, new: Props | None) -> bool:
    dropped = False
    if isinstance(value, dict) and old is not None:
        for name in list(value):
            below = old.properties.get(name) or old.values
            other = None if new is None else new.properties.get(name) or new.values
            if below is None:
                continue
            dropped |= _drop_defaults(value[name], below, other)
            is_same = other is not None and other.has_default and same(other.default, below.default)
            if name in old.properties and below.has_default and not is_same and same(value[name], below.default):
                del value[name]
                dropped = True
    elif isinstance(value, list) and old is not None:
        for item in value:
            dropped |= _drop_defaults(item, old.items, None if new is None else new.items)
    return dropped


def is_certain(error: FieldError, hidden: Mapping[str, Props | None]) -> bool:
    """Whether an error stays, whatever the hidden fields hold: it is about one value that none of them can change.

    Errors of junctors and rules may depend on other fields, so they are not counted. Neither is the note that rules did not run.
    """
    if error.field in ("", "<nil>") or error.reason not in _OF_ONE_VALUE:
        return False
    if error.reason is Reason.INVALID and " in body " not in error.message:
        return False  # a rule, or metadata
    # Whether an item repeats another one depends on all items of its list.
    place = error.field.rpartition("[")[0] if error.reason is Reason.DUPLICATE and error.field.endswith("]") else error.field
    return not any(_may_concern(each, place) for each in hidden)


def _may_concern(hidden: str, place: str) -> bool:
    """Whether a hidden field is the value at a place, or below it; `spec.*` stands for every field of spec."""
    if hidden.endswith(f".{_ANY}") and place.startswith(hidden.removesuffix(_ANY)):
        return True
    return hidden == place or hidden.startswith((f"{place}.", f"{place}["))


_OF_ONE_VALUE: Final = frozenset(
    {Reason.REQUIRED, Reason.NOT_SUPPORTED, Reason.TOO_LONG, Reason.TOO_MANY, Reason.TYPE_INVALID, Reason.DUPLICATE, Reason.INVALID}
)


def fillings(hidden: Mapping[str, Props | None]) -> list[dict[str, Any]] | None:
    """Every way to fill hidden fields with valid values, if their schemas allow few; else None.

    A field with another value is refused as well. `{}` leaves all fields out.
    """
    choices: list[list[tuple[str, Any]]] = []
    count = 1
    for path, schema in hidden.items():
        values = _values_of(schema)
        if values is None or "[" in path:
            return None
        choices.append([(path, _MISSING), *((path, value) for value in values)])
        count *= len(choices[-1])
        if count > _COMBINATIONS_MAX:
            return None
    return [{path: value for path, value in each if value is not _MISSING} for each in itertools.product(*choices)]


_MISSING: Final = object()


def _values_of(schema: Props | None) -> list[Any] | None:
    if schema is None or schema.nullable:
        return None
    if schema.enum is not None:
        return list(schema.enum)
    return [False, True] if schema.type == "boolean" else None


def filled(value: dict[str, Any], filling: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a value with fields set at paths such as `spec.tier`; the objects around them exist."""
    found = copy.deepcopy(value)
    for path, item in filling.items():
        *around, last = path.split(".")
        place = found
        for name in around:
            place = place[name]
        place[last] = item
    return found
