"""The process that answers questions: the read API and the pages, next to a sink or alone.

Next to a sink, the supervisor starts it as `python -m api.ask.querier`. Then its questions cost the sink only processor time that
the sink does not need. It ends on a signal, and at once when the server is gone. Its loaded modules stay loaded when the process
that answers is killed (preloaded.py).

It answers "starting" before it loads the application. So this module imports little, and imports the application only once it
listens.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn

from ingest.errors import HindcastError

from .. import logs, priorities
from ..settings import Settings
from ..sink.connection import FIRST_REQUEST_SECONDS_MAX, connection_type
from ..sink.preloaded import RESTARTED, serve_in_forks
from ..sink.sockets import QUERY_OPTIONS, listen, quiet_signals
from ..sink.tls import ServerCertificate
from .starting import StartingAnswers

if TYPE_CHECKING:
    from fastapi import FastAPI

_CONNECTIONS_MAX = 256
_CERTIFICATE_CHECK_SECONDS = 2
_KEEP_ALIVE_SECONDS = 30
_SHUTDOWN_SECONDS = 5
_FIRST_PAGE_SECONDS_MAX = 20.0

_log = structlog.get_logger("hindcast.query")


def serve_queries(settings: Settings, listener: socket.socket | None = None, nice: int = 0, made: FastAPI | None = None) -> int:
    """Answer until a termination signal; returns 0 after an orderly end, and 1 when the lake could not be opened.

    `listener` is an open listening socket; without it, this function opens one. `made` is the application, if it was made before.
    After the first page, the process is niced by `nice`. Raises HindcastError when it cannot start: there is no lake, the address
    is taken, a file cannot be read.
    """
    logs.configure(settings.log_level, as_json=settings.log_json)
    certificate = ServerCertificate.of(settings)
    listener = listener or listen(settings.query_host, settings.query_port, QUERY_OPTIONS)
    starting = StartingAnswers(listener, certificate.context if certificate else None)
    host, port = listener.getsockname()[:2]
    url = f"{'https' if certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    _log.info("query_starting", url=url, lake=str(settings.lake))

    def started() -> None:
        starting.close()
        _log.info("query_listening", url=url, lake=str(settings.lake), pid=os.getpid())
        if sys.stderr.isatty():
            sys.stderr.write(f"open {url}/\n")

    try:
        server = _Server(_config(_GivesWay(_application(settings, made), nice), certificate), started)
    except BaseException:
        starting.close()
        listener.close()
        raise
    with quiet_signals():
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _application(settings: Settings, made: FastAPI | None) -> FastAPI:
    """Make the application, which takes most of the start's time."""
    from ingest.lake import Lake

    from .query_app import create_query_app

    # The sink made the lake when it started; a new lake made here would hide that its folder was deleted.
    Lake.open(settings.lake).close()
    return made or create_query_app(settings)


class _GivesWay:
    """Nices the process once it has given an answer of its own, or has run for a while: the first page needs most time."""

    def __init__(self, app: FastAPI, nice: int) -> None:
        self._app = app
        self._nice = nice

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request to the application."""
        if scope["type"] == "lifespan":
            asyncio.get_running_loop().call_later(_FIRST_PAGE_SECONDS_MAX, self._give_way)
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["path"] != "/healthz":
            self._give_way()

    def _give_way(self) -> None:
        nice, self._nice = self._nice, 0
        if nice:
            priorities.give_way(nice)


class _Server(uvicorn.Server):
    """Announces when the application answers. For a moment both it and the starter take connections, so that no client is
    refused."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and take connections."""
        await super().startup(sockets)
        self._on_started()


def _config(app: _GivesWay, certificate: ServerCertificate | None) -> uvicorn.Config:
    async def renew_certificate() -> None:
        if certificate is not None:
            certificate.reload_if_changed()

    return uvicorn.Config(
        app,
        http=connection_type(FIRST_REQUEST_SECONDS_MAX, _CONNECTIONS_MAX),
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_notify=_CERTIFICATE_CHECK_SECONDS,
        callback_notify=renew_certificate,
        ssl_context_factory=(lambda config, default: certificate.context) if certificate else None,
    )


def main() -> int:
    """Answer next to a sink, on the listening socket whose number is the first argument; returns an exit code."""
    settings = Settings.read(os.environ)
    listener = socket.socket(fileno=int(sys.argv[1]))
    try:
        if sys.platform == "linux":
            logs.configure(settings.log_level, as_json=settings.log_json)
            app = _load(settings, listener)
            return serve_in_forks(partial(serve_queries, settings, listener, priorities.QUERY, app), _tell_restart)
        else:
            threading.Thread(target=_end_with_server, daemon=True).start()
            return serve_queries(settings, listener, priorities.QUERY)
    except HindcastError as error:
        logs.configure(settings.log_level, as_json=settings.log_json)
        _log.error("query_cannot_start", error=str(error))
        return error.exit_code


def _load(settings: Settings, listener: socket.socket) -> FastAPI:
    """Make the application, and answer "starting" meanwhile. It leaves no thread behind."""
    certificate = ServerCertificate.of(settings)
    starting = StartingAnswers(listener, certificate.context if certificate else None)
    try:
        from .query_app import create_query_app, prepare

        app = create_query_app(settings)
        prepare(app)
        return app
    finally:
        starting.close()
        starting.wait()


def _tell_restart() -> None:
    """Report to the supervisor that a new process answers, for its metrics."""
    sys.stdout.write(f"{RESTARTED}\n")
    sys.stdout.flush()


def _end_with_server() -> None:
    """Wait for the end of the pipe that the server holds open, and then end. Replays end in the same way."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
