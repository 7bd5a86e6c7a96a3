"""How many connections a server keeps open, and which one is closed when there are too many.

A client that has proved nothing can open connections without end. So these connections have a small bound of their own, and the
oldest makes room for the newest. A real sender or reader proves who it is with its first request, within milliseconds. Who may
write or read is never refused because of those that may not.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

UNPROVED_MAX = 128


class Held(Protocol):
    """The part of a connection that this module needs."""

    def is_idle(self) -> bool:
        """Whether no request is being answered on it."""

    def give_way(self) -> None:
        """Close it."""


class Connections:
    """The open connections of one server; all calls come from its event loop.

    Beyond `connections_max` one is closed: the oldest that proved nothing, else the oldest idle one of the sender with the most. No
    sender holds more than half.
    """

    def __init__(self, connections_max: int) -> None:
        self._max = connections_max
        self._unproved_max = max(min(UNPROVED_MAX, connections_max // 4), 1)
        # In the order of opening.
        self._unproved: dict[Held, None] = {}
        self._proved: dict[Held, str] = {}
        self._count_of: Counter[str] = Counter()

    def opened(self, connection: Held) -> None:
        """A connection was made; its client has proved nothing yet."""
        self._unproved[connection] = None
        if len(self._unproved) > self._unproved_max or len(self._unproved) + len(self._proved) > self._max:
            self._close_one(connection)

    def admit(self, connection: Held, sender: str) -> None:
        """The sender behind a connection may write: it proved that, or sent a valid request where no proof is needed."""
        if self._proved.get(connection) == sender:
            return
        if connection not in self._unproved and connection not in self._proved:
            return  # it was closed in the meantime
        self.closed(connection)
        if self._count_of[sender] >= max(self._max // 2, 1):
            self._close_idle_of(sender)
        self._proved[connection] = sender
        self._count_of[sender] += 1

    def closed(self, connection: Held) -> None:
        """A connection ended, on either side."""
        self._unproved.pop(connection, None)
        sender = self._proved.pop(connection, None)
        if sender is not None:
            self._count_of[sender] -= 1
            if not self._count_of[sender]:
                del self._count_of[sender]

    def _close_one(self, newest: Held) -> None:
        oldest = next(iter(self._unproved))
        if oldest is not newest:
            self._give_way(oldest)
            return
        largest = self._count_of.most_common(1)
        if not (largest and self._close_idle_of(largest[0][0])):
            self._give_way(newest)

    def _close_idle_of(self, sender: str) -> bool:
        for connection, owner in self._proved.items():
            if owner == sender and connection.is_idle():
                self._give_way(connection)
                return True
        return False

    def _give_way(self, connection: Held) -> None:
        self.closed(connection)
        connection.give_way()
