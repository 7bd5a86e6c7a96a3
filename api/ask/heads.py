"""HEAD answers as GET does, without the body (RFC 9110 9.3.2): link checkers and load balancers ask so."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Lets the application answer a HEAD request as the GET of the same address, and sends only the head of the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                # End at once: an answer that streams events would otherwise go on.
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app({**scope, "method": "GET"}, receive, send_head)
