"""The body of a request must arrive in time: a client that trickles it must not hold a connection for as long as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Message, Receive, Send


class TimelyBody:
    """Receives the body of one request, up to `deadline` (seconds of the event loop's clock), and sends the answer.

    Calls `on_whole` once the body is whole. After the deadline the application sees a client that went away, and nothing that it
    sends reaches the client: the caller answers instead.
    """

    def __init__(self, receive: Receive, send: Send, deadline: float, on_whole: Callable[[], None]) -> None:
        self._receive, self._send = receive, send
        self._deadline: float | None = deadline
        self._on_whole = on_whole
        self.is_late = False

    async def receive(self) -> Message:
        """The next message of the client."""
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self.is_late = True
            return {"type": "http.disconnect"}
        if self._deadline is not None and message["type"] == "http.request" and not message.get("more_body", False):
            self._deadline = None  # a later message only says that the client went away
            self._on_whole()
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if not self.is_late:
            await self._send(message)
