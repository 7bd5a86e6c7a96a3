"""The process that answers questions: the read API and the pages, beside a sink or alone.

Beside a sink, the supervisor starts it as `python -m api.querier`; whatever it is asked, it then costs the sink nothing but
processor time that the sink does not want. It ends when it is told to, and at once when the server is gone.
"""

from __future__ import annotations

import os
import sys
import threading

import structlog
import uvicorn

from ingest.errors import HindcastError
from ingest.lake import Lake

from . import logs, priorities
from .query_app import create_query_app
from .settings import Settings
from .sockets import listen, quiet_signals
from .tls import ServerCertificate

_CONNECTIONS_MAX = 256
_CERTIFICATE_CHECK_SECONDS = 2
_KEEP_ALIVE_SECONDS = 30
_SHUTDOWN_SECONDS = 5

_log = structlog.get_logger("hindcast.query")


def serve_queries(settings: Settings) -> int:
    """Answer until a termination signal; returns 0 after an orderly end and 1 when the lake could not be opened.

    Raises HindcastError when it cannot start: there is no lake, the address is taken, a file cannot be read.
    """
    logs.configure(settings.log_level, as_json=settings.log_json)
    Lake.open(settings.lake).close()
    certificate = ServerCertificate.of(settings)
    app = create_query_app(settings)
    listener = listen(settings.query_host, settings.query_port, "--query-host or --query-port")
    server = uvicorn.Server(_config(app, certificate))
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"{'https' if certificate else 'http'}://{shown}:{port}"
    _log.info("query_listening", url=url, lake=str(settings.lake))
    if sys.stderr.isatty():
        sys.stderr.write(f"open {url}/\n")
    with quiet_signals():
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _config(app: object, certificate: ServerCertificate | None) -> uvicorn.Config:
    async def renew_certificate() -> None:
        if certificate is not None:
            certificate.reload_if_changed()

    return uvicorn.Config(
        app,  # type: ignore[arg-type]
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
    """Answer beside a sink; returns an exit code."""
    settings = Settings.read(os.environ)
    os.nice(priorities.QUERY)
    threading.Thread(target=_end_with_server, daemon=True).start()
    try:
        # The sink made the lake when it started; made here again, it would hide that its folder was deleted.
        return serve_queries(settings)
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
