"""The last events of many files, stored together: an archive of ten thousand small files makes a few units, and not as many.

A unit of its own for each would cost a transaction and a file in the lake, and each search for duplicates would read all of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..manifest import Manifest
from ..store import Counts, EventStore, Lines

_EVENTS_MAX = 20_000
_BYTES_MAX = 32 << 20
_UNITS_MAX = 2_000
_SECONDS_MAX = 5.0


class _Unit(NamedTuple):
    """The arguments of one EventStore.store call, and the counts of the file that it belongs to."""

    parts: Sequence[Lines]
    marks: Mapping[str, str]
    name: str
    counts: Counts


class Pool:
    """Units that wait to be stored together. A unit with an event that is not simply new is stored by itself."""

    def __init__(self, store: EventStore, manifest: Manifest) -> None:
        self._store, self._manifest = store, manifest
        self._waiting: list[_Unit] = []
        self._marks: set[str] = set()
        self._events = self._bytes = 0
        self._since = time.monotonic()

    def mark(self, key: str) -> str | None:
        """What the manifest says of a key, once everything that waits with this key is stored."""
        if key in self._marks:
            self.settle()
        return self._manifest.prop(key)

    def add(self, parts: Sequence[Lines], marks: Mapping[str, str], name: str, counts: Counts) -> None:
        """Store a unit with others, soon. Raises LakeError as `settle`."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(_Unit(parts, marks, name, counts))
        self._marks.update(marks)
        self._events += sum(len(part.lines) for part in parts)
        self._bytes += sum(sum(map(len, part.lines)) for part in parts)
        is_full = self._events >= _EVENTS_MAX or self._bytes >= _BYTES_MAX or len(self._waiting) >= _UNITS_MAX
        if is_full or time.monotonic() - self._since >= _SECONDS_MAX:
            self.settle()

    def settle(self) -> None:
        """Store everything that waits. Raises LakeError when the disk cannot take it."""
        waiting, self._waiting = self._waiting, []
        self._marks.clear()
        self._events = self._bytes = 0
        self._settle(waiting)

    def _settle(self, units: Sequence[_Unit]) -> None:
        if not units:
            return
        if len(units) == 1:
            (unit,) = units
            unit.counts.add(self._store.store(unit.parts, unit.marks, unit.name))
            return
        marks = {key: mark for unit in units for key, mark in unit.marks.items()}
        if self._store.store_new([part for unit in units for part in unit.parts], marks):
            for unit in units:
                events = sum(len(part.lines) for part in unit.parts)
                unit.counts.add(Counts(read=events, stored=events))
            return
        half = len(units) // 2
        self._settle(units[:half])
        self._settle(units[half:])
