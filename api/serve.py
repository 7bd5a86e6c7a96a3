"""`serve`: one HTTP worker that acknowledges, one niced process that stores, and an orderly end for both."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import uvicorn

from ingest.errors import InputError

from . import logs
from .app import create_app
from .connection import KEEP_ALIVE_SECONDS, connection_type
from .services import Services, open_services
from .settings import Settings
from .tls import ServerCertificate

_CERTIFICATE_CHECK_SECONDS = 2
_BACKLOG_CONNECTIONS = 256
_KEPT_BLOCK_BYTES = 8 * 1024 * 1024

_log = structlog.get_logger("hindcast.server")


def serve(settings: Settings) -> int:
    """Serve until a termination signal; returns 0 after an orderly end and 1 when what was begun could not be finished.

    Raises HindcastError when it cannot start: another server holds the spool, the address is taken, a file cannot be read.
    """
    logs.configure(settings.log_level, as_json=settings.log_json)
    _keep_freed_memory()
    certificate = ServerCertificate.of(settings)
    listener = _listen(settings.host, settings.port)
    try:
        services = open_services(settings)
    except BaseException:
        listener.close()
        raise
    server = uvicorn.Server(_config(settings, services, certificate))
    host, port = listener.getsockname()[:2]
    _log.info("listening", url=f"{'https' if certificate else 'http'}://{host}:{port}", lake=str(settings.lake))
    with _quiet_signals():
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _keep_freed_memory() -> None:
    """Teach glibc to keep freed blocks of the size of a batch.

    It raises its threshold for giving memory back to the kernel when a larger mapped block is freed (malloc(3), M_MMAP_THRESHOLD).
    Otherwise the buffers of every batch are mapped, zeroed and unmapped again, which is a quarter of the CPU of an acknowledgement.
    """
    bytes(_KEPT_BLOCK_BYTES)


def _config(settings: Settings, services: Services, certificate: ServerCertificate | None) -> uvicorn.Config:
    async def renew_certificate() -> None:
        if certificate is not None:
            certificate.reload_if_changed()

    return uvicorn.Config(
        create_app(settings, services),
        http=connection_type(settings.body_seconds_max),
        loop="uvloop",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.connections_max,
        backlog=_BACKLOG_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
        timeout_notify=_CERTIFICATE_CHECK_SECONDS,
        callback_notify=renew_certificate,
        ssl_context_factory=(lambda config, default: certificate.context) if certificate else None,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A socket bound to the address. Raises InputError when it is taken or none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Senders that come before the application has started wait in the queue instead of being turned away.
        listener.listen(_BACKLOG_CONNECTIONS)
    except OSError as error:
        listener.close()
        raise InputError(
            f"{host}:{port}: cannot listen there: {error.strerror or error}", "choose another --host or --port"
        ) from error
    return listener


@contextmanager
def _quiet_signals() -> Iterator[None]:
    """Ignore the signal that uvicorn raises once more when it is done: by then everything is in order."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
