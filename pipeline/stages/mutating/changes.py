"""The differences between two objects, path by path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ...history.json_values import json_equal
from ...request import Json
from .nil_lists import NilList, as_json

_ABSENT: Final = object()


class Change(NamedTuple):
    """One changed place. `op` is add, remove or replace; the path is written as in messages: `spec.containers[0].image`."""

    op: str
    path: str
    before: Json
    after: Json

    @property
    def value(self) -> dict[str, Any]:
        """The change as JSON, without the values that are not there."""
        values = {"before": as_json(self.before)} if self.op != "add" else {}
        return {"op": self.op, "path": self.path, **values, **({"after": as_json(self.after)} if self.op != "remove" else {})}


def changes(before: Json, after: Json, path: str = "") -> Iterator[Change]:
    """The changes that make one value of another.

    Entries of lists are paired by their names, else by their numbers. Other lists of different length are one change. A nil
    slice is null, as JSON has it.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
            if old is not new and not (old.__class__ is new.__class__ is str and old == new):
                yield from changes(old, new, child(path, name))
        return
    before, after = (None if isinstance(each, NilList) else each for each in (before, after))
    if before is after:
        return
    if (pairs := _by_name(before, after)) is not None:
        for name, old, new in pairs:
            yield from changes(old, new, f"{path}[name={name}]")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from changes(old, new, f"{path}[{number}]")
    elif before is _ABSENT:
        yield Change("add", path, None, after)
    elif after is _ABSENT:
        yield Change("remove", path, before, None)
    elif not json_equal(before, after):
        yield Change("replace", path, before, after)


def _by_name(before: Json, after: Json) -> list[tuple[str, Json, Json]] | None:
    """The entries of two lists in pairs, if names identify them and those in both lists keep their order; else None."""
    if not isinstance(before, list) or not isinstance(after, list):
        return None
    old, new = _names(before), _names(after)
    if old is None or new is None:
        return None
    if [name for name in old if name in new] != [name for name in new if name in old]:
        return None
    return [(name, old.get(name, _ABSENT), new.get(name, _ABSENT)) for name in dict.fromkeys([*old, *new])]


def _names(entries: list[Json]) -> dict[str, Json] | None:
    found = {each["name"]: each for each in entries if isinstance(each, dict) and isinstance(each.get("name"), str)}
    return found if entries and len(found) == len(entries) else None


def child(path: str, name: str) -> str:
    """The path of a field, as messages have it."""
    if any(character in name for character in "./[]"):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def has_changes(before: Json, after: Json, recorded: Json) -> bool:
    """Whether a recorded value already is at every changed place as the change leaves it."""
    if isinstance(before, dict) and isinstance(after, dict):
        if not isinstance(recorded, dict):
            return all(False for _ in changes(before, after))
        return all(
            has_changes(before.get(name, _ABSENT), after.get(name, _ABSENT), recorded.get(name, _ABSENT))
            for name in before.keys() | after.keys()
        )
    if before is _ABSENT or after is _ABSENT:
        return after is recorded or (after is not _ABSENT and recorded is not _ABSENT and json_equal(after, recorded))
    return json_equal(before, after) or (recorded is not _ABSENT and json_equal(after, recorded))
