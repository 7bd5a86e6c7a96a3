"""Checks the name by which a server was asked. A web page elsewhere can give its own name our address; a browser then posts to
us."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ..error_answers import error_response
from ..settings import is_loopback

_OPEN_PATHS = frozenset({"/healthz"})


@lru_cache(maxsize=256)
def answers_to(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header names this machine, or is one of `names`."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name in names


class OwnNames:
    """Refuses requests to an open sink that name another machine, or that a web page made."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        app = self._app
        if scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            headers = Headers(scope=scope)
            host, origin = headers.get("host", ""), headers.get("origin")
            if not answers_to(host, self._names):
                hint = "use the address that it listens on, or let senders show who they are: --identities"
                app = error_response(403, "wrong_host", f"this sink does not answer to the name {ascii(host)[:80]}", hint)
            elif origin is not None:
                hint = "an API server sends no Origin header; only a web page does"
                app = error_response(403, "wrong_origin", "a web page may not post events", hint)
        await app(scope, receive, send)
