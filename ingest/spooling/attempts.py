"""How many events the drain stores at a time: fewer after it was killed, so that it gets on whatever kills it.

An out-of-memory killer meets the same unit at the same place each time. A file in the spool names the unit and the piece that is
being stored. If it is there when a drain begins, the last one died within that piece, which is then stored in quarters. An event on
which the drain died alone, twice, goes into quarantine.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

FILE_NAME = ".storing"
_DEATHS_MAX = 2
_PARTS = 4


class _Piece(msgspec.Struct):
    """The events of a unit that are being stored, from one number on, and how many drains died on exactly these."""

    unit: str
    start: int
    events: int
    deaths: int = 0


class Attempts:
    """The pieces that one drain stores."""

    def __init__(self, spool: Path) -> None:
        self._path = spool / FILE_NAME
        self._last = self._read()

    @property
    def follows_a_death(self) -> bool:
        """Whether the last drain died while it stored a piece."""
        return self._last is not None

    def end_of(self, unit: str, start: int, total: int) -> int:
        """Where the piece ends that begins at one of the `total` events of a unit."""
        last = self._last
        if last is None or last.unit != unit or start >= last.start + last.events:
            return total
        if start < last.start:
            return min(last.start, total)
        return min(start + max(1, last.events // _PARTS), last.start + last.events, total)

    def begin(self, unit: str, start: int, events: int) -> bool:
        """Note that a piece is about to be stored. Returns False for one event that killed too many drains: set it aside."""
        last = self._last
        is_same = last is not None and (last.unit, last.start, last.events) == (unit, start, events)
        deaths = last.deaths + 1 if last is not None and is_same else 0
        if events == 1 and deaths >= _DEATHS_MAX:
            return False
        # Without room for the note, the piece is stored all the same.
        with suppress(OSError):
            self._path.write_bytes(msgspec.json.encode(_Piece(unit, start, events, deaths)))
        return True

    def end(self) -> None:
        """No piece is being stored any more."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _read(self) -> _Piece | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Piece)
        except (OSError, ValueError):
            return None
