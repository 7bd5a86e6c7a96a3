"""The difference between two objects as answers show them, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..correlation import same
from ..field_errors import child, index

# What the API server fills in, and what logs leave out.
NOT_COMPARED: Final = frozenset({"uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "managedFields", "selfLink"})
_ABSENT: Final = object()


class Change(NamedTuple):
    """One field that differs. `kind` is added, removed or changed, from the recorded object to the predicted one."""

    kind: str
    path: str
    before: Any
    after: Any


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """The differences of two objects, without what the API server fills in; numbers such as 2.0 and 2 are equal."""
    return list(_changes(comparable(before), comparable(after), ""))


def comparable(value: dict[str, Any]) -> dict[str, Any]:
    """An object without what the API server fills in."""
    metadata = {name: item for name, item in (value.get("metadata") or {}).items() if name not in NOT_COMPARED}
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]
    plain: dict[str, Any] = _plain({**value, "metadata": metadata})
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            old, new, where = before.get(name, _ABSENT), after.get(name, _ABSENT), child(path, name)
            if old is _ABSENT:
                yield Change("added", where, None, new)
            elif new is _ABSENT:
                yield Change("removed", where, old, None)
            else:
                yield from _changes(old, new, where)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changes(old, new, index(path, number))
    elif not same(before, after):
        yield Change("changed", path, before, after)
