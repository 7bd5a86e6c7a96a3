"""Tells every reader of a name under which the lake has two clusters: no answer about such a name is about one cluster.

Answers of the HTTP API have a header `Warning` (code 299, as Kubernetes uses it) for each such name; pages show the same sentence.
"""

from __future__ import annotations

from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.errors import HindcastError

from ..shared_names import sentences_of
from .asking import Asker
from .kept import about_lake
from .reads import Source
from .waiting import in_time

# The rest is one more sentence: servers and clients limit how long headers may be.
NAMES_MAX = 5
_UNCHECKED = ("/healthz", "/static/")
# No answer waits long for this: it is ready for a later one.
_SECONDS = 0.25
_NOT_YET = "Hindcast still checks whether two clusters share a name in this lake"


class SharedNames:
    """Adds the sentences to the state of a request, and to the head of its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._known: tuple[object, list[str]] | None = None  # the files of the lake, and the sentences about them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI call."""
        asker = getattr(scope["app"].state, "asker", None) if scope["type"] == "http" else None
        if asker is None or scope["path"].startswith(_UNCHECKED):
            await self._app(scope, receive, send)
            return
        told = await self._sentences(asker)
        scope.setdefault("state", {})["shared_names"] = told

        async def send_told(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *map(_header, told)]}
            await send(message)

        await self._app(scope, receive, send_told)

    async def _sentences(self, asker: Asker) -> list[str]:
        if self._known is not None and self._known[0] == asker.files:
            return self._known[1]
        files, found = asker.files, None
        with suppress(HindcastError, OSError):  # the answer itself tells of a lake that cannot be read
            found = await in_time(asker, "shared names", _question, _SECONDS)
        if found is None:
            return [_NOT_YET]
        shown = [*found[:NAMES_MAX], *([f"{len(found) - NAMES_MAX:,} more names are shared"] if len(found) > NAMES_MAX else [])]
        self._known = files, shown
        return shown


def _question(source: Source) -> list[str]:
    return about_lake(source, "shared names", lambda: sentences_of(source.reader))


def _header(sentence: str) -> tuple[bytes, bytes]:
    """The name of a cluster may have any character; a header may not."""
    text = sentence.replace("\\", "\\\\").replace('"', '\\"').encode("ascii", "backslashreplace")
    return b"warning", b'299 hindcast "' + bytes(byte if 32 <= byte < 127 else 63 for byte in text) + b'"'
