"""Checks before any route of the query server: who asks, and whether another site's page made a browser ask.

Everything but /healthz needs a reader. A server without authentication is meant for this machine, so it answers only to names of
this machine. Otherwise a page elsewhere could give its own name our address, and read the lake through a visitor's browser.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.errors import LakeError

from ..error_answers import error_response
from ..pages.errors import for_reader
from ..pages.html import STATIC_TYPES
from .bodies import TimelyBody
from .origin import answers_to
from .readers import NotAReaderError, Readers

# The style and the script hold no data, and the pages that ask for a token or refuse a name need them.
_STATIC_PATHS = frozenset(f"/static/{name}" for name in STATIC_TYPES)
_OPEN_PATHS = _STATIC_PATHS | {"/healthz"}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_AUTHORIZATION_BYTES_MAX = 20_000
# Pages bring their own content policy; every other answer is data, and nothing in it may run.
_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_log = structlog.get_logger("hindcast.query")


class Gate:
    """Lets requests of readers through, with `reader` in the request's state; answers all others.

    `hosts` are names in addition to those of this machine under which it may be asked; None allows any name.
    """

    def __init__(self, app: ASGIApp, readers: Readers, hosts: frozenset[str] | None, body_seconds_max: float) -> None:
        self._app = app
        self._readers = readers
        self._hosts = hosts
        self._body_seconds_max = body_seconds_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refuse_origin(scope, headers)
        if refusal is None and scope["path"] not in _OPEN_PATHS:
            refusal = await self._refuse_reader(scope, headers)
        if refusal is None:
            await self._answer(scope, receive, _with_headers(send))
        else:
            await for_reader(Request(scope), refusal)(scope, receive, _with_headers(send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. The connection counts as a reader's once the request is whole."""
        body = TimelyBody(receive, send, asyncio.get_running_loop().time() + self._body_seconds_max, partial(_admit, scope))
        if scope["method"] in _SAFE_METHODS:
            _admit(scope)
        try:
            await self._app(scope, body.receive, body.send)
        except Exception:
            if not body.is_late:
                raise
        if body.is_late:
            message = f"the body arrived too slowly; the limit is {self._body_seconds_max:g} s"
            await for_reader(Request(scope), error_response(408, "body_too_slow", message))(scope, receive, send)

    def _refuse_origin(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        is_static = scope["path"] in _STATIC_PATHS and scope["method"] in _SAFE_METHODS
        if self._hosts is not None and not is_static and not answers_to(host, self._hosts):
            hint = "use the address it listens on, or let readers show a token: --query-tokens"
            return error_response(403, "wrong_host", f"this server does not answer to the name {ascii(host)[:80]}", hint)
        origin = headers.get("origin")
        is_foreign = headers.get("sec-fetch-site") == "cross-site" or (origin is not None and origin.partition("://")[2] != host)
        if is_foreign and scope["method"] not in _SAFE_METHODS:
            return error_response(403, "wrong_origin", "a page of another site may not change anything here")
        return None

    async def _refuse_reader(self, scope: Scope, headers: Headers) -> Response | None:
        authorization = headers.get("authorization")
        if authorization is not None and len(authorization) > _AUTHORIZATION_BYTES_MAX:
            return error_response(401, "no_reader", "the Authorization header is too long to be one of ours")
        try:
            # In a thread, because the keys of an OIDC issuer may have to be fetched first.
            reader = await asyncio.to_thread(self._readers.reader_of, authorization)
        except NotAReaderError as error:
            peer = scope["client"][0] if scope.get("client") else None
            _log.warning("reader_refused", reason=error.message, path=scope["path"][:200], peer=peer)
            response = error_response(
                error.status, "no_reader" if error.status == 401 else "not_allowed", error.message, error.hint
            )
            if error.status == 401:
                # A browser asks the user for a name and a token; a program gets a hint which header to send.
                is_page = not scope["path"].startswith("/api/")
                response.headers["WWW-Authenticate"] = 'Basic realm="hindcast: token as password"' if is_page else "Bearer"
            return response
        except LakeError as error:
            return error_response(503, "oidc_unavailable", error.message, error.hint)
        scope.setdefault("state", {})["reader"] = reader
        return None


def _admit(scope: Scope) -> None:
    """Mark the connection as one whose client may read, so that the server does not close it in favour of silent ones."""
    state = scope.get("state", {})
    if (admit := state.get("admit")) is not None:
        reader, client = state.get("reader"), scope.get("client")
        admit(f"{reader.name if reader else ''} {client[0] if client else ''}")


def _with_headers(send: Send) -> Send:
    """Adds headers that the answer lacks."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", [])}
            added = [(name.encode(), value.encode()) for name, value in _HEADERS.items() if name.lower().encode() not in present]
            message["headers"] = [*message.get("headers", []), *added]
        await send(message)

    return send_with_headers
