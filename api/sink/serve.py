"""`serve`: one HTTP worker that acknowledges, niced processes that store and answer questions, and an orderly stop of all."""

from __future__ import annotations

import structlog
import uvicorn

from .. import logs
from ..access.readers import readers_of
from ..settings import Settings
from .app import create_app
from .connection import KEEP_ALIVE_SECONDS, connection_type
from .services import Services, open_services
from .sockets import BACKLOG_CONNECTIONS, allow_files, listen, quiet_signals
from .tls import ServerCertificate

_CERTIFICATE_CHECK_SECONDS = 2
_KEPT_BLOCK_BYTES = 8 * 1024 * 1024

_log = structlog.get_logger("hindcast.server")


def serve(settings: Settings) -> int:
    """Serve until a termination signal; returns 0 after an orderly end and 1 when begun work could not be finished.

    Raises HindcastError when it cannot start: another server holds the spool, the address is taken, a file cannot be read.
    """
    if not settings.sink:
        # Imported here, because a sink does not need the pipeline, nor the memory for it.
        from ..ask.querier import serve_queries

        return serve_queries(settings)
    logs.configure(settings.log_level, as_json=settings.log_json)
    if settings.query:
        readers_of(settings)  # a mistake in them is reported here, and not by a process that is restarted again and again
    _keep_freed_memory()
    allow_files(settings.connections_max)
    certificate = ServerCertificate.of(settings)
    listener = listen(settings.host, settings.port)
    try:
        services = open_services(settings)
    except BaseException:
        listener.close()
        raise
    server = uvicorn.Server(_config(settings, services, certificate))
    host, port = listener.getsockname()[:2]
    _log.info("listening", url=f"{'https' if certificate else 'http'}://{host}:{port}", lake=str(settings.lake))
    with quiet_signals():
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _keep_freed_memory() -> None:
    """Teach glibc to keep freed blocks of the size of a batch.

    When a larger mapped block is freed, glibc raises its threshold for returning memory to the kernel (malloc(3),
    M_MMAP_THRESHOLD). Otherwise the buffers of every batch are mapped, zeroed and unmapped again, which is a quarter of the CPU of
    an acknowledgement.
    """
    bytes(_KEPT_BLOCK_BYTES)


def _config(settings: Settings, services: Services, certificate: ServerCertificate | None) -> uvicorn.Config:
    async def renew_certificate() -> None:
        if certificate is not None:
            certificate.reload_if_changed()

    return uvicorn.Config(
        create_app(settings, services),
        http=connection_type(settings.body_seconds_max, settings.connections_max),
        loop="api.sink.sockets:sink_loop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        timeout_notify=_CERTIFICATE_CHECK_SECONDS,
        callback_notify=renew_certificate,
        ssl_context_factory=(lambda config, default: certificate.context) if certificate else None,
    )
