"""Structured logs on standard error, each line with the id of the request that it belongs to."""

from __future__ import annotations

import logging
import os
import re
import sys
import uuid
from collections.abc import MutableMapping
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_HEADER = b"x-request-id"


def configure(level: str, *, as_json: bool | None) -> None:
    """Send our own and the libraries' log lines to standard error in one format; None means JSON, except on a terminal."""
    if as_json is None:
        as_json = not sys.stderr.isatty()
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # It would log every POST of every API server; the routes log failures with their reason.
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    # It tells a person the steps of its start, which our own lines say already; warnings and, at debug, all lines stay.
    is_brief = not as_json and root.level == logging.INFO
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING if is_brief else logging.NOTSET)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class RequestIds:
    """Gives every request an id (the sender's own if it is harmless), binds it to the log and returns it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex.encode()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: MutableMapping[str, Any] = message
                headers["headers"] = [*message.get("headers", []), (_HEADER, request_id)]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id.decode()):
            await self._app(scope, receive, send_with_id)
