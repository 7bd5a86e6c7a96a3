"""How many bytes of bodies are in memory at one time, shared fairly: no sender may use up the room of the others.

Bytes count when they arrive, not when they are announced, so a body that never comes takes nothing. A sender with little in memory
is served even when others have filled their share.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

# A sender has little in memory below this part of the limit: 4 MiB of 256 MiB, more than two of an API server's batches.
_SMALL_SHARE = 64


class Flights:
    """The bodies that are arriving. Thread-safe.

    Of `bytes_max` one sender gets half at most, and the last quarter is kept for senders with little in memory. `observe` gets the
    bytes of all bodies in memory.
    """

    def __init__(self, bytes_max: int, requests_per_sender_max: int, observe: Callable[[float], object]) -> None:
        self.bytes_max = bytes_max
        self.requests_per_sender_max = requests_per_sender_max
        self._observe = observe
        self._lock = threading.Lock()
        self._bytes = 0
        self._bytes_of: Counter[str] = Counter()
        self._requests_of: Counter[str] = Counter()

    def begin(self, sender: str) -> Flight | str:
        """Admit a body that begins to arrive; returns the reason for a refusal when this sender has too many already."""
        with self._lock:
            if self._requests_of[sender] >= self.requests_per_sender_max:
                return f"{self._requests_of[sender]} requests of this sender are open, the limit is {self.requests_per_sender_max}"
            self._requests_of[sender] += 1
        return Flight(self, sender)

    def take(self, flight: Flight, more: int) -> str:
        """Count arrived bytes; returns the reason if they do not fit, else an empty text."""
        with self._lock:
            total, own = self._bytes + more, self._bytes_of[flight.sender] + more
            # One body alone may be larger than the limit, because it could never be stored otherwise.
            if total > flight.bytes + more and not self._has_room(total, own, flight.bytes + more):
                return f"{self._bytes} bytes are being received, {own - more} of this sender: there is no room for {more} more"
            flight.bytes += more
            self._bytes, self._bytes_of[flight.sender] = total, own
            self._observe(total)
        return ""

    def _has_room(self, total: int, own: int, flight_bytes: int) -> bool:
        if own <= self.bytes_max // _SMALL_SHARE:
            return total <= self.bytes_max
        is_fair = own <= self.bytes_max // 2 or own == flight_bytes
        return is_fair and total <= self.bytes_max - self.bytes_max // 4

    def end(self, flight: Flight) -> None:
        """The body is stored or refused: free its room."""
        with self._lock:
            self._bytes -= flight.bytes
            self._bytes_of[flight.sender] -= flight.bytes
            self._requests_of[flight.sender] -= 1
            if not self._requests_of[flight.sender]:
                del self._requests_of[flight.sender], self._bytes_of[flight.sender]
            self._observe(self._bytes)


class Flight:
    """One body on its way; `bytes` counts the part in memory."""

    def __init__(self, flights: Flights, sender: str) -> None:
        self._flights = flights
        self.sender = sender
        self.bytes = 0

    def take(self, more: int) -> str:
        """Count arrived bytes; returns the reason if they do not fit, else an empty text."""
        return self._flights.take(self, more)

    def end(self) -> None:
        """Free the room."""
        self._flights.end(self)
