"""`hindcast quarantine --retry`: records in quarantine are read again, because this version may know what an older one refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import groupby
from pathlib import Path

from .decode import decode_events
from .errors import LakeError
from .lake import Lake
from .notes import sealed
from .quarantine import Quarantined, read_records, write_quarantine
from .redaction.redact import Redactor
from .sources.envelopes import expand
from .sources.rows import in_zone
from .store import Counts, EventStore, Lines


def retry(lake: Lake, paths: Iterable[Path], redactor: Redactor | None, zone: tzinfo | None = None) -> Counts:
    """Store the events in quarantine files, and keep the other records. Times without a zone are read in `zone`. Raises LakeError.

    The events are stored before their file changes. So after a crash a record may be in both places, and the next run mends that.
    """
    total = Counts()
    with lake.writer() as writer:
        store = EventStore(writer)
        try:
            for path in paths:
                total.add(_retry_file(store, path, partial(_cleaned, redactor, zone)))
        finally:
            store.close()
    return total


def _retry_file(store: EventStore, path: Path, cleaned: Callable[[bytes], bytes]) -> Counts:
    try:
        records = read_records(path)
    except (OSError, ValueError) as error:
        raise LakeError(f"{path}: the quarantine file cannot be read: {error}", "move it away") from error
    units: list[Lines] = []
    left: list[Quarantined] = []
    for (cluster, source, received_ts), group in groupby(
        records, key=lambda record: (record.cluster, record.source, record.received_ts)
    ):
        accepted, refused = _sorted_out(list(group), cleaned)
        left += refused
        if accepted:
            units.append(Lines(cluster or "default", source, received_ts, accepted))
    counts = store.store(units, {}, "") if units else Counts()
    counts.quarantined = len(left)
    if len(left) < len(records):
        _replace(path, left)
    return counts


def _sorted_out(records: Sequence[Quarantined], cleaned: Callable[[bytes], bytes]) -> tuple[list[bytes], list[Quarantined]]:
    """The events in records of one cluster, and the records that hold none."""
    accepted: list[bytes] = []
    refused: list[Quarantined] = []
    for record in records:
        found = expand(record.raw).events
        # A record is sealed as it stands; what lies in an envelope is not.
        events = [cleaned(event if record.sealed and event == record.raw else sealed(event)) for event in found]
        decoded = decode_events(events, record.cluster or "default", datetime.fromtimestamp(record.received_ts, UTC), record.source)
        if events and not decoded.rejected:
            accepted += events
        else:
            refused.append(record)
    return accepted, refused


def _cleaned(redactor: Redactor | None, zone: tzinfo | None, event: bytes) -> bytes:
    event = event if zone is None else in_zone(event, zone)
    return event if redactor is None else redactor.apply(event)


def _replace(path: Path, left: Sequence[Quarantined]) -> None:
    try:
        if left:
            write_quarantine(path.parent, left, path.name.removesuffix(".jsonl.zst"))
        else:
            path.unlink()
    except OSError as error:
        raise LakeError(f"{path}: the quarantine cannot be written: {error}", "run it again once the disk takes it") from error
