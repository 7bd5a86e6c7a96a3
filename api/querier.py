"""The process that answers questions: the read API and the pages, beside a sink or alone.

Beside a sink, the supervisor starts it as `python -m api.querier`; whatever it is asked, it then costs the sink nothing but
processor time that the sink does not want. It ends when it is told to, and at once when the server is gone.

It answers "starting" before it loads the application: so this module imports little, and the application only when it listens.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog
import uvicorn

from ingest.errors import HindcastError

from . import logs, priorities
from .settings import Settings
from .sockets import QUERY_OPTIONS, listen, quiet_signals
from .starting import StartingAnswers
from .tls import ServerCertificate

if TYPE_CHECKING:
    from fastapi import FastAPI

_CONNECTIONS_MAX = 256
_CERTIFICATE_CHECK_SECONDS = 2
_KEEP_ALIVE_SECONDS = 30
_SHUTDOWN_SECONDS = 5

_log = structlog.get_logger("hindcast.query")


def serve_queries(settings: Settings, listener: socket.socket | None = None, nice: int = 0) -> int:
    """Answer until a termination signal; returns 0 after an orderly end and 1 when the lake could not be opened.

    `listener` is a listening socket that somebody else opened; without it, one is opened here. Once everything is loaded, the
    process gives way by `nice`. Raises HindcastError when it cannot start: there is no lake, the address is taken, a file cannot
    be read.
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
        priorities.give_way(nice)
        _log.info("query_listening", url=url, lake=str(settings.lake))
        if sys.stderr.isatty():
            sys.stderr.write(f"open {url}/\n")

    try:
        server = _Server(_config(_application(settings), certificate), started)
    except BaseException:
        starting.close()
        listener.close()
        raise
    with quiet_signals():
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _application(settings: Settings) -> FastAPI:
    """The application, which takes most of the time that a start takes."""
    from ingest.lake import Lake

    from .query_app import create_query_app

    # The sink made the lake when it started; made here again, it would hide that its folder was deleted.
    Lake.open(settings.lake).close()
    return create_query_app(settings)


class _Server(uvicorn.Server):
    """Says when it answers. For a moment both it and what answered before take connections, so that no one is refused."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application and take connections."""
        await super().startup(sockets)
        self._on_started()


def _config(app: FastAPI, certificate: ServerCertificate | None) -> uvicorn.Config:
    async def renew_certificate() -> None:
        if certificate is not None:
            certificate.reload_if_changed()

    return uvicorn.Config(
        app,
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_notify=_CERTIFICATE_CHECK_SECONDS,
        callback_notify=renew_certificate,
        ssl_context_factory=(lambda config, default: certificate.context) if certificate else None,
    )


def main() -> int:
    """Answer beside a sink, on the listening socket whose number is the first argument; returns an exit code."""
    settings = Settings.read(os.environ)
    threading.Thread(target=_end_with_server, daemon=True).start()
    try:
        return serve_queries(settings, socket.socket(fileno=int(sys.argv[1])), priorities.QUERY)
    except HindcastError as error:
        logs.configure(settings.log_level, as_json=settings.log_json)
        _log.error("query_cannot_start", error=str(error))
        return error.exit_code


def _end_with_server() -> None:
    """Wait for the end of the pipe that the server holds open, and end with it. Replays end in the same way."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
