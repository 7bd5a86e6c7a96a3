"""Slots for the work of readers, in fair shares: the long work of one reader never blocks that of another.

With several slots a reader holds all but one of them at most. A free slot goes to the reader who holds the fewest, and among these
to the one who has waited longest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Shares:
    """The slots. Lives in one event loop."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._own_max = max(1, slots - 1)
        self._held: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Event]] = []

    @asynccontextmanager
    async def slot(self, reader: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it."""
        given = asyncio.Event()
        entry = (reader, given)
        self._waiting.append(entry)
        self._give()
        try:
            await given.wait()
            yield
        finally:
            if given.is_set():
                self._held[reader] -= 1
            else:
                self._waiting.remove(entry)
            self._give()

    def _give(self) -> None:
        while self._held.total() < self._slots:
            may = [entry for entry in self._waiting if self._held[entry[0]] < self._own_max]
            if not may:
                return
            reader, given = chosen = min(may, key=lambda entry: self._held[entry[0]])
            self._waiting.remove(chosen)
            self._held[reader] += 1
            given.set()
