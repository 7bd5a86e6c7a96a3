"""Which mutating policies cannot influence each other in one request, so that their order does not matter.

A policy's footprint is what its expressions read of the object, and what its patches name or change in it. Paths end at entries of
labels and annotations, at other fields of the metadata, and at other fields of the object: defaults never reach beyond these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from ...cel.readset import Reads
from ...history.json_values import json_equal
from ...policies.reads import reads_of
from ...request import Json, Object
from .compiled import CompiledMutating
from .invocation import Invocation, Key

Path: TypeAlias = tuple[str, ...]
_MAPS: Final = ("labels", "annotations")
_EVERYTHING: Final[Path] = ()
_ABSENT: Final = object()


@dataclass
class Footprint:
    """What one policy, binding and param reads, and what it may change. A path stands for everything below it too."""

    reads: set[Path] = field(default_factory=set)
    writes: set[Path] = field(default_factory=set)

    def add(self, found: Invocation, entered: Object) -> None:
        """Add what an invocation changed, and what its patches name: these may agree by chance with what was there."""
        if found.before is not None and found.after is not None:
            self.writes.update(_changed(found.before, found.after))
        for patch in found.patches:
            self.writes.update(_of_operations(patch, entered) if isinstance(patch, list) else _changed({}, patch))


def read_paths(policy: CompiledMutating, entered: Object) -> set[Path]:
    """What the expressions of a policy read of the object."""
    variables = {name: each.program for name, each in policy.variables.items() if each.program}
    expressions = (*policy.match_conditions, *(each.expression for each in policy.mutations))
    reads = reads_of([each.program for each in expressions if each.program], variables)
    return set(_read(reads.of("object"), entered)) if "object" in reads.variables() else set()


def components(prints: Mapping[Key, Footprint]) -> list[tuple[Key, ...]]:
    """The groups of policies whose order among each other may matter, each in the given order."""
    leader = {key: key for key in prints}

    def of(key: Key) -> Key:
        while leader[key] != key:
            leader[key] = key = leader[leader[key]]
        return key

    at, below = _indexed(prints)
    for key, each in prints.items():
        for path in each.writes:
            above = (at[path[:length]] for length in range(len(path) + 1) if path[:length] in at)
            for others in (below.get(path, ()), *above):
                for other in others:
                    leader[of(other)] = of(key)
    found: dict[Key, list[Key]] = defaultdict(list)
    for key in prints:
        found[of(key)].append(key)
    return [tuple(each) for each in found.values() if len(each) > 1]


def _indexed(prints: Mapping[Key, Footprint]) -> tuple[dict[Path, set[Key]], dict[Path, set[Key]]]:
    """The policies with exactly a path, and those with a path at or below it."""
    at: dict[Path, set[Key]] = defaultdict(set)
    below: dict[Path, set[Key]] = defaultdict(set)
    for key, each in prints.items():
        for path in each.reads | each.writes:
            at[path].add(key)
            for length in range(len(path) + 1):
                below[path[:length]].add(key)
    return at, below


def _entries(value: Json, name: str) -> Any:
    """The labels or annotations of an object; nothing where it has no such map, or an empty one."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    entries = metadata.get(name) if isinstance(metadata, dict) else None
    return entries if isinstance(entries, dict) and entries else None


def _read(reads: Reads, entered: Object) -> Iterator[Path]:
    if reads.whole or reads.members or reads.elements is not None:
        yield _EVERYTHING
    for top, part in reads.fields.items():
        if top != "metadata" or part.whole or part.members or part.elements is not None:
            yield (top,)
            continue
        for name, within in part.fields.items():
            is_whole = within.whole or within.elements is not None or not within.fields
            if name not in _MAPS or is_whole or _entries(entered, name) is None:
                yield (top, name)  # Where there are no labels yet, whoever writes the first one decides whether there are some.
            else:
                yield from ((top, name, entry) for entry in within.fields)


def _of_operations(operations: Iterable[Mapping[str, Any]], entered: Object) -> Iterator[Path]:
    """What JSON patches name. One that names an entry of a map that is not there yet depends on who makes the map."""
    for operation in operations:
        for pointer in (operation.get("path"), operation.get("from")):
            if pointer is not None:
                parts = [part.replace("~1", "/").replace("~0", "~") for part in str(pointer).split("/")[1:]]
                yield _cut(parts, entered)


def _cut(parts: Sequence[str], entered: Object) -> Path:
    if not parts or parts[0] != "metadata":
        return tuple(parts[:1])
    is_entry = len(parts) > 2 and parts[1] in _MAPS and _entries(entered, parts[1]) is not None
    return tuple(parts[:3] if is_entry else parts[:2])


def _changed(before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[Path]:
    for top in before.keys() | after.keys():
        old, new = before.get(top, _ABSENT), after.get(top, _ABSENT)
        if top == "metadata" and isinstance(new, dict) and (old is _ABSENT or isinstance(old, dict)):
            metadata = old if isinstance(old, dict) else {}
            for name in metadata.keys() | new.keys():
                yield from _in_metadata(name, metadata.get(name, _ABSENT), new.get(name, _ABSENT))
        elif old is _ABSENT or new is _ABSENT or not json_equal(old, new):
            yield (top,)


def _in_metadata(name: str, old: Any, new: Any) -> Iterator[Path]:
    if name not in _MAPS or not isinstance(new, dict) or not (old is _ABSENT or isinstance(old, dict)):
        if old is _ABSENT or new is _ABSENT or not json_equal(old, new):
            yield ("metadata", name)
        return
    entries = old if isinstance(old, dict) else {}
    if entries.keys() - new.keys() or not new:
        yield ("metadata", name)  # Without its last entry the whole map is gone.
    for entry, value in new.items():
        if entry not in entries or not json_equal(entries[entry], value):
            yield ("metadata", name, entry)
