"""What is done to a lake while system calls fail, how it is set right afterwards, and what must then be true."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow.parquet as pq

from ingest.errors import HindcastError, LakeError
from ingest.lake import Lake
from ingest.maintain import compact, remove_retired, verify
from ingest.quarantine import read_quarantine
from ingest.redaction.redact import Redactor
from ingest.retention import expire, expire_objects
from ingest.sink import Accepted, Sink
from ingest.sink_limits import SinkLimits
from ingest.sources import logfile
from ingest.sources.files import ingest_files
from ingest.spooling import drain as drain_module
from ingest.spooling.drain import drain
from ingest.spooling.spool import Spool, SpoolWriteError, sealed_segments
from ingest.store import EventStore, Lines

Say = Callable[[str], None]
# As often as an API server tries a batch, and as often as a process is started again.
TRIES = 5
DAY_SECONDS = 86_400
FIRST_DAY = date(2026, 11, 1)
LATER = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
ODD = b'{"auditID":1}'  # the sink takes it for an event, the drain does not
BROKEN = b"[5]"


@dataclass(frozen=True, slots=True)
class Scenario:
    """`work` says what it acknowledged; `look` and `check` say what is wrong, right after the fault and after `settle`."""

    name: str
    prepare: Callable[[Path], None]
    work: Callable[[Path, Say], None]
    settle: Callable[[Path, Say], None]
    check: Callable[[Path, list[str], Say], None]
    look: Callable[[Path, Say], None]


def event(number: int) -> bytes:
    """One raw event; a hundred numbers are a day."""
    day, second = divmod(number, 100)
    stamp = f"2026-11-{FIRST_DAY.day + day:02}T00:00:{second % 60:02}.{second:06}Z"
    head = {"kind": "Event", "level": "RequestResponse", "auditID": f"id-{number}", "stage": "ResponseComplete"}
    rest = {"stageTimestamp": stamp, "objectRef": {"resource": "pods", "name": f"p-{number % 5}"}, "requestObject": {"n": number}}
    return json.dumps(head | rest, separators=(",", ":")).encode()


def stored(folder: Path) -> Counter[str]:
    """How often each audit ID is in the lake."""
    found: Counter[str] = Counter()
    lake = Lake.open(folder / "lake")
    for path in lake.files():
        found.update(pq.read_table(path, columns=["audit_id"], partitioning=None)["audit_id"].to_pylist())
    lake.close()
    return found


def _again(what: Callable[[], bool]) -> None:
    """Do something until it says that it is done; an error of ours ends a try, as it ends a pass of the drain."""
    for _ in range(TRIES):
        try:
            if what():
                return
        except HindcastError:
            continue


def _compare(folder: Path, least: set[str], most: set[str], complain: Say) -> None:
    found = stored(folder)
    for name in sorted(least - set(found)):
        complain(f"lost: {name}")
    for name in sorted(set(found) - most):
        complain(f"not taken out, or never sent: {name}")
    for name, count in found.items():
        if count > 1:
            complain(f"stored {count} times: {name}")
    lake = Lake.open(folder / "lake")
    for fault in verify(lake):
        complain(f"{fault.path} {fault.reason}")
    lake.close()


def _readable(folder: Path, complain: Say) -> None:
    """A reader that comes now sees whole files and nothing twice."""
    if not (folder / "lake" / "manifest.sqlite").is_file():
        return
    try:
        found = stored(folder)
    except LakeError as error:
        if "has version none" not in str(error):  # killed while the lake was being made
            complain(f"a reader cannot open the lake: {error}")
    except OSError as error:
        complain(f"a reader cannot read a listed file: {error}")
    else:
        for name, count in found.items():
            if count > 1:
                complain(f"a reader sees {count} times: {name}")


def _drain_all(folder: Path) -> bool:
    lake = Lake.create(folder / "lake")
    try:
        with lake.writer() as writer:
            drain(writer, folder / "lake" / "spool")
    finally:
        lake.close()
    return not sealed_segments(folder / "lake" / "spool")


def _settle(folder: Path, complain: Say) -> None:
    """What the next start does on a disk that is well."""
    try:
        Spool(folder / "lake" / "spool").close()
        _drain_all(folder)
    except HindcastError as error:
        complain(f"cannot go on: {error}")


# The sink: bodies come in and are acknowledged.


def _bodies() -> list[tuple[list[str], bytes]]:
    bodies = []
    for number in range(5):
        names = [number * 3 + n for n in range(3)]
        items = [event(name) for name in names] + [b'%s,{"odd":%d}' % (BROKEN, number)] * (number == 2)
        body = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[%s]}' % b",".join(items)
        bodies.append(([f"id-{name}" for name in names], body))
    return bodies


def _accept(folder: Path, acknowledge: Say) -> None:
    opened: list[Spool] = []

    def start() -> bool:
        opened.append(Spool(folder / "lake" / "spool", segment_bytes_max=700))
        return True

    _again(start)
    if not opened:
        return
    sink = Sink(opened[0], folder / "lake" / "quarantine", redactor=Redactor(), limits=SinkLimits(disk_free_bytes_min=0))
    for names, body in _bodies():
        for _ in range(TRIES):
            if isinstance(sink.accept("c", body, 1.0), Accepted):
                acknowledge(" ".join(names))
                break
    with suppress(SpoolWriteError):
        opened[0].close()


def _check_accepted(folder: Path, acknowledged: list[str], complain: Say) -> None:
    names = {name for line in acknowledged for name in line.split()}
    _compare(folder, names, {name for sent, _ in _bodies() for name in sent}, complain)
    records = read_quarantine(folder / "lake" / "quarantine")
    for record in records:
        if record.source == "spool":
            complain(f"a false alarm: {record.reason}")
    kept = Counter(record.raw for record in records)
    if kept[BROKEN] > 1 or ("id-6" in names and not kept[BROKEN]):
        complain(f"the odd item is {kept[BROKEN]} times in quarantine")


# The drain: sealed segments become rows.


def _spooled(folder: Path) -> None:
    Lake.create(folder / "lake").close()
    with Spool(folder / "lake" / "spool") as spool:
        for number in range(6):
            lines = [event(number * 60 + n) for n in range(2)] + [event(0)] + [ODD] * (number == 1)
            spool.append("c", f"digest-{number}", 1.0, lines)
            if number == 3:
                spool.seal()


def _drained(folder: Path, acknowledge: Say) -> None:
    drain_module.UNIT_EVENTS_MAX = 5
    _again(lambda: _drain_all(folder))


def _drained_by_one_process(folder: Path, acknowledge: Say) -> None:
    """As the drain process does it: the lake stays open over failed passes."""
    drain_module.UNIT_EVENTS_MAX = 5
    opened: list[Lake] = []

    def start() -> bool:
        opened.append(Lake.create(folder / "lake"))
        return True

    def one_pass() -> bool:
        with opened[0].writer() as writer:
            drain(writer, folder / "lake" / "spool")
        return not sealed_segments(folder / "lake" / "spool")

    _again(start)
    if opened:
        _again(one_pass)


def _check_drained(folder: Path, acknowledged: list[str], complain: Say) -> None:
    names = {f"id-{number * 60 + n}" for number in range(6) for n in range(2)}
    _compare(folder, names, names, complain)
    if left := sealed_segments(folder / "lake" / "spool"):
        complain(f"segments are left: {left}")
    kept = [record.raw for record in read_quarantine(folder / "lake" / "quarantine")]
    if kept != [ODD]:
        complain(f"in quarantine are {kept}")


# Upkeep: many files become few, bodies go before their events, days go as a whole.

_UPKEEP = [number * 100 + n for number in range(3) for n in range(4)]
_KEPT = {f"id-{number}" for number in _UPKEEP if number >= 100}


def _small_files(folder: Path) -> None:
    lake = Lake.create(folder / "lake")
    with lake.writer() as writer:
        store = EventStore(writer)
        for number in _UPKEEP:
            store.store([Lines("c", "webhook", 1.0, [event(number)])], {}, "q")
        store.store([Lines("c", "file:a", 1.0, [event(205)])], {}, "q")
        store.store([Lines("c", "webhook", 1.0, [event(205)])], {}, "q")
        store.close()
    lake.close()


def _upkeep(folder: Path) -> bool:
    lake = Lake.create(folder / "lake")
    try:
        with lake.writer() as writer:
            compact(writer, LATER)
            expire_objects(writer, date(2026, 11, 3), LATER)
            expire(writer, date(2026, 11, 2), LATER)
            remove_retired(writer, LATER + 1, 0.0)
    finally:
        lake.close()
    return True


def _kept_up(folder: Path, acknowledge: Say) -> None:
    _again(lambda: _upkeep(folder))


def _settle_upkeep(folder: Path, complain: Say) -> None:
    try:
        _upkeep(folder)
    except HindcastError as error:
        complain(f"cannot go on: {error}")


def _look_upkeep(folder: Path, complain: Say) -> None:
    _readable(folder, complain)
    found = set(stored(folder))
    if not found >= _KEPT | {"id-205"}:
        complain(f"a reader misses {sorted(_KEPT - found)}")


def _check_upkeep(folder: Path, acknowledged: list[str], complain: Say) -> None:
    names = _KEPT | {"id-205"}
    _compare(folder, names, names, complain)
    lake = Lake.open(folder / "lake")
    for path in lake.files():
        table = pq.read_table(path, columns=["audit_id", "request_object", "stage_ts"], partitioning=None)
        for row in table.to_pylist():
            if (row["request_object"] is None) != (row["stage_ts"].date() < date(2026, 11, 3)):
                complain(f"the body of {row['audit_id']} is {row['request_object']}")
    if left := lake.unlisted():
        complain(f"orphans are left: {left}")
    if len(lake.files()) != 2:
        complain(f"not merged: {lake.files()}")
    lake.close()


# A log file, from an empty folder on.


def _log(folder: Path) -> None:
    lines = [event(number * 30) for number in range(9)]
    (folder / "audit.log").write_bytes(b"\n".join([*lines[:4], b"no event", *lines[4:], lines[0]]) + b"\n")


def _ingest(folder: Path) -> bool:
    lake = Lake.create(folder / "lake")
    try:
        ingest_files(lake, [folder / "audit.log"], "c", 1.0)
    finally:
        lake.close()
    return True


def _read_log(folder: Path, acknowledge: Say) -> None:
    logfile.UNIT_BYTES_MAX = 1000
    _again(lambda: _ingest(folder))


def _settle_log(folder: Path, complain: Say) -> None:
    try:
        _ingest(folder)
        _ingest(folder)
    except HindcastError as error:
        complain(f"cannot go on: {error}")


def _check_log(folder: Path, acknowledged: list[str], complain: Say) -> None:
    names = {f"id-{number * 30}" for number in range(9)}
    _compare(folder, names, names, complain)
    kept = [record.raw for record in read_quarantine(folder / "lake" / "quarantine")]
    if kept != [b"no event"]:
        complain(f"in quarantine are {kept}")


def _empty(folder: Path) -> None:
    (folder / "lake").mkdir()


SCENARIOS = (
    Scenario("sink", _empty, _accept, _settle, _check_accepted, _readable),
    Scenario("drain", _spooled, _drained, _settle, _check_drained, _readable),
    Scenario("drain, one process", _spooled, _drained_by_one_process, _settle, _check_drained, _readable),
    Scenario("upkeep", _small_files, _kept_up, _settle_upkeep, _check_upkeep, _look_upkeep),
    Scenario("log file", _log, _read_log, _settle_log, _check_log, _readable),
)
