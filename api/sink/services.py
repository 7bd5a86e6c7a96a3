"""The objects that the routes share while the server runs: opened when it starts, finished and sealed when it stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

import structlog
from fastapi import Request

from ingest.apart import APART_BYTES
from ingest.errors import HindcastError, InputError
from ingest.lake import Lake
from ingest.manifest import refuse_name
from ingest.sink import Accepted, Refused, Sink
from ingest.spooling.spool import Spool, SpoolWriteError
from ingest.telemetry import SinkMetrics

from ..access.identities import IdentityFile
from ..published import published_url
from ..redacting import redactor_of
from ..settings import Settings
from .behind import LagGauge
from .supervise import DrainSupervisor, QuerySupervisor

# As many threads as batches that share one fdatasync; more threads would only wait for each other.
_ACK_THREADS = 16
# A large body may take seconds, above all a broken one. It waits only for other large ones, and no ordinary batch waits for it.
_LARGE_THREADS = 2
_TICK_SECONDS = 0.5

_log = structlog.get_logger("hindcast.server")


@dataclass(slots=True)
class Services:
    """The objects that the routes share while the server runs."""

    settings: Settings
    sink: Sink
    spool: Spool
    metrics: SinkMetrics
    executor: ThreadPoolExecutor
    large_executor: ThreadPoolExecutor
    identities: IdentityFile | None
    drain: DrainSupervisor | None
    query: QuerySupervisor | None
    behind: LagGauge
    # One large body of a sender at one time, so that no sender takes all threads for large bodies.
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    housekeepers: list[asyncio.Task[None]] = field(default_factory=list)

    async def accept(self, cluster: str, body: bytes | bytearray, sender: str, *, is_review: bool = False) -> Accepted | Refused:
        """Store a body in a thread, under the id of the request that is being answered."""
        store = self.sink.accept_review if is_review else self.sink.accept
        call = partial(copy_context().run, store, cluster, body, time.time())
        loop = asyncio.get_running_loop()
        if len(body) <= APART_BYTES:
            return await loop.run_in_executor(self.executor, call)
        turn = self.turns.get(sender)
        if turn is None:
            turn = self.turns[sender] = asyncio.Lock()
        async with turn:
            return await loop.run_in_executor(self.large_executor, call)


def services_of(request: Request) -> Services:
    """The services of the application that serves this request."""
    services: Services = request.app.state.services
    return services


def open_services(settings: Settings) -> Services:
    """Open the spool and everything that needs no event loop. Raises LakeError or InputError, and then holds no resource."""
    if (source := published_url(settings.lake)) is not None:
        raise InputError(f"{source}: a published lake takes no events", "give --no-sink, or the lake that was published")
    refuse_name(settings.lake)  # under such a name no event would ever leave the spool
    if not Lake.is_begun(settings.lake):
        # Only this place makes a lake: a restarted process must not make one where its lake has disappeared.
        Lake.create(settings.lake).close()
    metrics = SinkMetrics()
    identities = IdentityFile(settings.identities) if settings.identities else None
    spool = Spool(
        settings.spool,
        quarantine=settings.quarantine,
        segment_seconds_max=settings.drain_interval_seconds,
        on_sync=metrics.fsync_seconds.observe,
    )
    for repaired in spool.repaired:
        _log.warning("segment_repaired", segment=repaired.name, bytes_kept=repaired.bytes_kept, bytes_cut=repaired.bytes_cut)
        if (lost := repaired.lost) is not None:
            metrics.lost_segments.labels("yes" if lost.is_certain else "possibly").inc()
            _log.error("evidence_lost", segment=repaired.name, bytes=lost.end - lost.start, reason=lost.reason)
    try:
        sink = Sink(spool, settings.quarantine, redactor=redactor_of(settings), limits=settings.limits, metrics=metrics)
    except HindcastError:
        spool.close()
        raise
    if identities is not None:
        _expect(identities, metrics, _newest_events(settings.lake, time.time()), time.time())
    executor = ThreadPoolExecutor(_ACK_THREADS, thread_name_prefix="ack")
    large_executor = ThreadPoolExecutor(_LARGE_THREADS, thread_name_prefix="ack-large")
    drain = DrainSupervisor(settings, metrics) if settings.drain else None
    query = QuerySupervisor(settings, metrics) if settings.query else None
    behind = LagGauge(settings.lake, spool, metrics)
    return Services(settings, sink, spool, metrics, executor, large_executor, identities, drain, query, behind)


def _newest_events(lake: Path, now: float) -> dict[str, float]:
    """When the newest stored event of each cluster was made, in seconds since the epoch; empty if the lake cannot be read."""
    found: dict[str, float] = {}
    with suppress(HindcastError), closing(Lake.open(lake)) as opened:
        for file in opened.manifest.files("events"):
            found[file.cluster] = max(found.get(file.cluster, 0.0), min(now, file.max_us / 1e6))
    return found


def _expect(identities: IdentityFile, metrics: SinkMetrics, newest: Mapping[str, float], now: float) -> None:
    """Clusters that may write have a series from the start, so that an alert sees those that are silent after a restart."""
    for cluster in sorted(identities.clusters):
        metrics.expect_cluster(cluster, newest.get(cluster, now))


async def start_services(services: Services) -> None:
    """Start the other processes and the housekeeping; needs the server's event loop."""
    for process in (services.drain, services.query):
        if process is not None:
            process.start()
    services.housekeepers.append(asyncio.create_task(_keep_house(services)))


async def stop_services(services: Services) -> None:
    """Finish accepted batches, seal them, and let the drain store them."""
    services.sink.stop_accepting()
    for task in services.housekeepers:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    for executor in (services.executor, services.large_executor):
        await asyncio.to_thread(executor.shutdown)
    services.sink.close()
    try:
        services.spool.close()
    except SpoolWriteError as error:
        _log.error("segment_not_sealed", error=str(error))
    services.behind.close()
    await asyncio.gather(*(process.stop() for process in (services.query, services.drain) if process is not None))


async def _keep_house(services: Services) -> None:
    """Twice a second: seal old segments, measure the backlog and the disk, reload changed identities."""
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        try:
            await asyncio.to_thread(_tick, services)
        except Exception as error:  # The next tick tries again; without sealing, new events would never reach the views.
            _log.error("housekeeping_failed", error=str(error))


def _tick(services: Services) -> None:
    # The spool remembers its failures; the other work must go on meanwhile.
    with suppress(SpoolWriteError):
        services.spool.seal_if_old()
    services.sink.look_around()
    if services.identities is not None:
        services.identities.reload_if_changed()
        _expect(services.identities, services.metrics, {}, time.time())
    if services.drain is not None:
        services.drain.observe(services.spool.directory)
    services.behind.measure(time.time())
