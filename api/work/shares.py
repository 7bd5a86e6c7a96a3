"""Slots for the work of readers, in fair shares: the long work of some readers never blocks that of another.

With several slots a reader holds all but one of them at most. A free slot goes to the reader who holds the fewest, and among these
to the one who has waited longest. While readers hold all slots, one more begins the work of those who hold none. Work that takes
longer than it may there goes on in a slot as soon as one is free, and has to stop if none is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class Turn:
    """The turn of a reader's work. `begins` is set when it may begin, and `ends` when it has to stop and wait again."""

    reader: str
    is_new: bool
    begins: asyncio.Event = field(default_factory=asyncio.Event)
    ends: asyncio.Event = field(default_factory=asyncio.Event)


class Shares:
    """The slots. Lives in one event loop. `first_seconds` is how long work may take in the slot for beginnings."""

    def __init__(self, slots: int, first_seconds: float) -> None:
        self._slots = slots
        self._own_max = max(1, slots - 1)
        self._first_seconds = first_seconds
        self._holding: list[Turn] = []
        self._beginning: Turn | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[Turn] = []

    @asynccontextmanager
    async def slot(self, reader: str, *, is_new: bool) -> AsyncIterator[Turn]:
        """Wait for a slot, and hold it. Work that had to stop is not new."""
        turn = Turn(reader, is_new)
        self._waiting.append(turn)
        self._give()
        try:
            await turn.begins.wait()
            yield turn
        finally:
            for turns in (self._waiting, self._holding):
                if turn in turns:
                    turns.remove(turn)
            if turn is self._beginning:
                self._leave_beginning()
            self._give()

    def _give(self) -> None:
        held = Counter(turn.reader for turn in self._holding)
        while len(self._holding) < self._slots:
            wanting = [*([self._beginning] if self._beginning else []), *self._waiting]
            may = [turn for turn in wanting if held[turn.reader] < self._own_max]
            if not may:
                break
            turn = min(may, key=lambda turn: held[turn.reader])
            if turn is self._beginning:
                self._leave_beginning()
            else:
                self._waiting.remove(turn)
            self._holding.append(turn)
            held[turn.reader] += 1
            turn.begins.set()
        if self._beginning is None and (
            first := next((each for each in self._waiting if each.is_new and not held[each.reader]), None)
        ):
            self._waiting.remove(first)
            self._beginning = first
            self._timer = asyncio.get_running_loop().call_later(self._first_seconds, first.ends.set)
            first.begins.set()

    def _leave_beginning(self) -> None:
        self._beginning = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
