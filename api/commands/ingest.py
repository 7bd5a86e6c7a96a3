"""`hindcast ingest`: audit log files, folders, exports of managed clusters and object snapshots into the lake."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import EvidenceError, InputError
from ingest.sources.forms import NAMES

from .parts import options

if TYPE_CHECKING:
    import threading

    from api.printing.output import Table
    from ingest.lake import Lake
    from ingest.redaction.redact import Redactor
    from ingest.sources.files import IngestSummary
    from ingest.sources.logfile import Reading
    from ingest.sources.snapshot import SnapshotSummary


PARTIAL = 4
_COUNTS = ("files", "objects", "duplicate")
_REPORT_SECONDS = 10.0
_EMPTY = (
    "the logs hold no event, so nothing was stored; look where --audit-log-path of kube-apiserver points, and whether its "
    "--audit-policy-file records writes"
)


def command(
    context: typer.Context,
    paths: Annotated[
        list[str], typer.Argument(help="Audit log files, folders of them, s3://BUCKET/PREFIX, or - for standard input.")
    ],
    cluster: Annotated[
        str | None,
        typer.Option(help="The name of the cluster that the events come from. Default: the name in the export, else `default`."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help=f"The form of the files: {', '.join(NAMES)}. Default: found from their content.")
    ] = "",
    zone: options.Zone = "",
    snapshot: Annotated[bool, typer.Option("--snapshot", help="The paths are `kubectl get -A -o json` lists, not logs.")] = False,
    at: Annotated[
        str | None, typer.Option(help="When the snapshot was taken (RFC 3339). Default: derived from its content and the log.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep reading as the files grow and are rotated, until Ctrl-C.")] = False,
    s3_endpoint: Annotated[
        str,
        typer.Option(
            envvar=["HINDCAST_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"],
            help="The URL of an object store other than AWS.",
        ),
    ] = "",
    redact: Annotated[
        bool | None, typer.Option("--redact/--no-redact", help="Remove credentials before events reach the disk.")
    ] = None,
    redact_paths: Annotated[
        list[str] | None,
        typer.Option(
            help="Also remove these values from bodies, as pods:spec.containers.env.value; repeatable.", show_default=False
        ),
    ] = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Store audit logs in the lake, in any form that holds their events (files, container logs, exports), or object snapshots."""
    from api import asked_values
    from api.printing.output import render
    from api.redacting import redactor_of
    from api.settings import Settings
    from ingest.lake import Lake
    from ingest.sink import is_cluster_name
    from ingest.sources.files import ingest_files
    from ingest.sources.logfile import DEFAULT_CLUSTER, Reading

    own: Context = context.obj
    if cluster is not None and not is_cluster_name(cluster):
        raise InputError(
            f"--cluster: {cluster!r} does not name a cluster", "use lower-case letters, digits, -, _ and ., at most 63"
        )
    if form and form not in NAMES:
        raise InputError(f"--format: {form!r} is not a form of files", f"use one of {', '.join(NAMES)}")
    if snapshot and follow:
        raise InputError("--follow: a snapshot does not grow", "leave out --follow or --snapshot")
    reading = Reading(cluster or "", form, asked_values.parse_zone(zone))
    paths_given = tuple(redact_paths) if redact_paths else None
    with closing(Lake.create(own.lake)) as lake:
        redactor = redactor_of(Settings.read(os.environ, lake=own.lake, redact=redact, redact_paths=paths_given))
        if snapshot:
            render([_snapshot(lake, [Path(path) for path in paths], cluster or DEFAULT_CLUSTER, at, redactor)], output)
            return 0
        if follow:
            return _follow(own, lake, paths, reading, redactor, output)
        with own.progress("reading audit logs") as step:
            summary = ingest_files(
                lake, paths, reading.cluster, time.time(), redactor, step, s3_endpoint, form=form, zone=reading.zone
            )
    return _tell(own, summary, output)


def _tell(own: Context, summary: IngestSummary, output: Format) -> int:
    """Print the result for each file, the content of the lake, and the next command.

    The exit code is 3 where the logs have no event at all, and no earlier ingest read them; also where the lake holds none. It is
    4 where a file gave none, because each of its records was quarantined.
    """
    from api.printing.output import render
    from queries import open_lake
    from queries.identity import REMEDY, mixed_names

    from .parts.held import held_in, held_table

    with closing(open_lake(own.lake)) as reader:
        found, mixed = held_in(reader), mixed_names(reader)
    for sentence in mixed.values():
        own.warn(f"warning: {sentence}; {REMEDY}")
    files = files_table(summary)
    is_empty = not any(file.counts.read or file.known_lines or file.passed_over for file in summary.files)
    if is_empty:
        files = replace(files, notes=[*files.notes, _EMPTY])
    render([files, held_table(found)] if found else [files], output)
    if any(file.note for file in summary.files):
        return PARTIAL
    if is_empty or not found:
        return EvidenceError.exit_code
    if any(file.counts.is_fruitless and not file.known_lines for file in summary.files):
        return PARTIAL
    own.say(f"next: hindcast --lake {own.lake} readiness -f POLICIES (a file or folder of ValidatingAdmissionPolicies)")
    return 0


def _follow(own: Context, lake: Lake, paths: list[str], reading: Reading, redactor: Redactor | None, output: Format) -> int:
    """Ends in order at the first signal, and prints the results so far. Ctrl-C counts as an interruption; SIGTERM does not."""
    import threading

    from api.printing.output import render
    from ingest.sources.follow import follow_files

    stop = threading.Event()
    with _signals(stop) as received:
        own.say(f"following {', '.join(paths)}; Ctrl-C ends it")
        summary = follow_files(
            lake, paths, reading.cluster, time.time, stop, redactor, _reporter(own), form=reading.form, zone=reading.zone
        )
    render([files_table(summary)], output)
    if signal.SIGINT in received:
        raise KeyboardInterrupt
    return 0


@contextmanager
def _signals(stop: threading.Event) -> Iterator[list[int]]:
    """Set `stop` at the first SIGINT or SIGTERM; a second one has its usual effect."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        stop.set()
        restore()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield received
    finally:
        restore()


def _reporter(own: Context) -> Callable[[IngestSummary, str], None]:
    """Reports progress every ten seconds if there was any, and each problem once."""
    from ingest.counted import counted

    said_at, said = -_REPORT_SECONDS, ""

    def report(summary: IngestSummary, problem: str) -> None:
        nonlocal said_at, said
        counts = summary.counts
        text = (
            problem
            or f"{counted(counts.stored, 'event')} stored, {counts.duplicate:,} duplicate, {counts.quarantined:,} quarantined"
        )
        if text != said and (problem or time.monotonic() - said_at >= _REPORT_SECONDS):
            said, said_at = text, time.monotonic()
            if problem:
                own.tell(f"{problem}; it is tried again")
            else:
                own.say(text)

    return report


def files_table(summary: IngestSummary) -> Table:
    """One row per file, and the notes on damaged ones."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    names = ("read", "stored", "duplicate", "quarantined")
    columns = [
        Column("file"),
        Column("form", may_go=2),
        *(Column(name, number=True) for name in names),
        Column("known_lines", "READ BEFORE", number=True, may_go=1),
    ]
    rows = [
        [file.path, file.described(), *(getattr(file.counts, name) for name in names), file.known_lines] for file in summary.files
    ]
    notes = [f"{file.path}: {file.note}" for file in summary.files if file.note]
    if passed_over := sum(file.passed_over for file in summary.files):
        notes.append(f"{counted(passed_over, 'record')} of other logs were skipped")
    if summary.counts.quarantined:
        notes.append(
            f"{counted(summary.counts.quarantined, 'record is', 'records are')} not audit events; `hindcast "
            "quarantine` shows them; "
            f"{summary.counts.refusals.commonest()}"
        )
    if summary.counts.conflicting:
        notes.append(f"{summary.counts.conflicting:,} duplicates have other bodies than the events that were stored first")
    return Table("files", columns, rows, "Ingested events", notes)


def _snapshot(lake: Lake, paths: list[Path], cluster: str, at: str | None, redactor: Redactor | None) -> Table:
    """Store lists, and print their time and kinds."""
    from api import asked_values
    from api.checks.snapshot_time import described, kinds_by_name, time_taken
    from ingest.sources.snapshot import ingest_snapshot
    from ingest.sources.snapshot_content import snapshot_content
    from queries import open_lake

    now = datetime.now(UTC)
    with closing(open_lake(lake.path)) as reader:
        kind_of = kinds_by_name(reader)
        content = snapshot_content(lake, paths, cluster, now, kind_of)
        taken = time_taken(reader, cluster, content, asked_values.parse_time("--at", at, now), _newest(paths))
    summary = ingest_snapshot(lake, paths, cluster, taken.moment, redactor, kind_of)
    return snapshot_table(summary, cluster, taken.moment, described(cluster, content, taken))


def snapshot_table(summary: SnapshotSummary, cluster: str, taken: datetime, notes: Sequence[str] = ()) -> Table:
    """The objects that a snapshot added; `notes` come before those of the summary."""
    from api.printing.output import Column, Table

    columns = [Column("cluster"), Column("taken_ts", "TAKEN"), *(Column(name, number=True) for name in _COUNTS)]
    row = [cluster, taken, *(getattr(summary, name) for name in _COUNTS)]
    return Table("snapshot", columns, [row], "Ingested objects", [*notes, *summary.notes])


def _newest(paths: list[Path]) -> datetime:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else (path,)) if file.is_file()]
    newest = max((file.stat().st_mtime for file in files), default=0.0)
    return datetime.fromtimestamp(newest, UTC)
