"""What the routes share while the server runs: opened when it starts, finished and sealed when it stops."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from fastapi import Request

from ingest.errors import HindcastError
from ingest.manifest import refuse_name
from ingest.sink import Sink
from ingest.spool import Spool, SpoolWriteError
from ingest.telemetry import SinkMetrics

from .behind import LagGauge
from .identities import IdentityFile
from .redacting import redactor_of
from .settings import Settings
from .supervise import DrainSupervisor, ProcessSupervisor

# As many batches as wait for one fdatasync together; more threads would only wait for each other.
_ACK_THREADS = 16
# A large body may take seconds, most of all a broken one. It waits for another large one, and no ordinary batch waits for it.
_LARGE_BYTES = 8 * 1024 * 1024
_LARGE_THREADS = 2
_TICK_SECONDS = 0.5

_log = structlog.get_logger("hindcast.server")


@dataclass(slots=True)
class Services:
    """What the routes share while the server runs."""

    settings: Settings
    sink: Sink
    spool: Spool
    metrics: SinkMetrics
    executor: ThreadPoolExecutor
    large_executor: ThreadPoolExecutor
    identities: IdentityFile | None
    drain: DrainSupervisor | None
    query: ProcessSupervisor | None
    behind: LagGauge
    housekeepers: list[asyncio.Task[None]] = field(default_factory=list)

    def executor_for(self, body_bytes: int) -> ThreadPoolExecutor:
        """The threads that store a body of this size."""
        return self.large_executor if body_bytes > _LARGE_BYTES else self.executor


def services_of(request: Request) -> Services:
    """The services of the application that serves this request."""
    services: Services = request.app.state.services
    return services


def open_services(settings: Settings) -> Services:
    """Open the spool and everything that needs no event loop. Raises LakeError or InputError, and holds nothing then."""
    refuse_name(settings.lake)  # nothing would ever leave the spool
    metrics = SinkMetrics()
    identities = IdentityFile(settings.identities) if settings.identities else None
    spool = Spool(
        settings.spool,
        segment_seconds_max=settings.drain_interval_seconds,
        on_sync=metrics.fsync_seconds.observe,
    )
    for repaired in spool.repaired:
        _log.warning("segment_repaired", segment=repaired.name, bytes_kept=repaired.bytes_kept, bytes_cut=repaired.bytes_cut)
    try:
        sink = Sink(spool, settings.quarantine, redactor=redactor_of(settings), limits=settings.limits, metrics=metrics)
    except HindcastError:
        spool.close()
        raise
    executor = ThreadPoolExecutor(_ACK_THREADS, thread_name_prefix="ack")
    large_executor = ThreadPoolExecutor(_LARGE_THREADS, thread_name_prefix="ack-large")
    drain = DrainSupervisor(settings, metrics) if settings.drain else None
    query = ProcessSupervisor("query", "api.querier", settings, metrics) if settings.query else None
    behind = LagGauge(settings.lake, spool, metrics)
    return Services(settings, sink, spool, metrics, executor, large_executor, identities, drain, query, behind)


async def start_services(services: Services) -> None:
    """Start the other processes and the housekeeping; needs the server's event loop."""
    for process in (services.drain, services.query):
        if process is not None:
            process.start()
    services.housekeepers.append(asyncio.create_task(_keep_house(services)))


async def stop_services(services: Services) -> None:
    """Finish what was accepted, seal it, and let the drain store it."""
    services.sink.stop_accepting()
    for task in services.housekeepers:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for executor in (services.executor, services.large_executor):
        await asyncio.to_thread(executor.shutdown)
    try:
        services.spool.close()
    except SpoolWriteError as error:
        _log.error("segment_not_sealed", error=str(error))
    services.behind.close()
    await asyncio.gather(*(process.stop() for process in (services.query, services.drain) if process is not None))


async def _keep_house(services: Services) -> None:
    """Twice a second: seal what is old enough, measure the backlog and the disk, take over changed identities."""
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        try:
            await asyncio.to_thread(_tick, services)
        except Exception as error:  # The next tick tries again; a server that no longer seals would show nothing in the views.
            _log.error("housekeeping_failed", error=str(error))


def _tick(services: Services) -> None:
    services.spool.seal_if_old()
    services.sink.look_around()
    if services.identities is not None:
        services.identities.reload_if_changed()
    if services.drain is not None:
        services.drain.observe(services.spool.directory)
    services.behind.measure(time.time())
