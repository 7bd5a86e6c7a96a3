"""`hindcast ingest`: audit log files, folders, EventList bodies and object snapshots into the lake."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from api.context import Context
from api.output import Column, Format, Table, render
from api.services import redactor_of
from api.settings import Settings
from ingest.errors import InputError
from ingest.files import IngestSummary, ingest_files
from ingest.lake import Lake
from ingest.sink import is_cluster_name
from ingest.snapshot import SnapshotSummary, ingest_snapshot

from . import options

PARTIAL = 4


def command(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Audit log files, folders of them, or - for standard input.")],
    cluster: Annotated[str, typer.Option(help="The name under which the events are kept.")] = "default",
    snapshot: Annotated[bool, typer.Option("--snapshot", help="The paths are `kubectl get -A -o json` lists, not logs.")] = False,
    at: Annotated[str | None, typer.Option(help="When the snapshot was taken (RFC 3339); default: the newest file's time.")] = None,
    redact: Annotated[
        bool | None, typer.Option("--redact/--no-redact", help="Take credentials out of events before they reach the disk.")
    ] = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Take audit logs (plain, .gz, .zst, rotated) or object snapshots into the lake; what is there already is not added again."""
    own: Context = context.obj
    if not is_cluster_name(cluster):
        raise InputError(
            f"--cluster: {cluster!r} does not name a cluster", "use lower-case letters, digits, -, _ and ., at most 63"
        )
    lake = Lake.create(own.lake)
    if snapshot:
        observed = options.parse_time("--at", at, datetime.now(UTC)) or _newest(paths)
        render([snapshot_table(ingest_snapshot(lake, paths, cluster, observed))], output)
        return 0
    redactor = redactor_of(Settings.read(os.environ, lake=own.lake, redact=redact))
    with own.progress("reading audit logs") as step:
        summary = ingest_files(lake, paths, cluster, time.time(), redactor, step)
    render([files_table(summary)], output)
    return PARTIAL if any(file.note for file in summary.files) else 0


def files_table(summary: IngestSummary) -> Table:
    """One row per file, and the notes on damaged ones."""
    names = ("read", "stored", "duplicate", "quarantined")
    columns = [Column("file"), *(Column(name, number=True) for name in names), Column("known_lines", "KNOWN LINES", number=True)]
    rows = [[file.path, *(getattr(file.counts, name) for name in names), file.known_lines] for file in summary.files]
    notes = [f"{file.path}: {file.note}" for file in summary.files if file.note]
    if summary.counts.quarantined:
        notes.append(f"{summary.counts.quarantined:,} lines are no audit events; they are kept, with the reasons, in quarantine/")
    if summary.counts.conflicting:
        notes.append(f"{summary.counts.conflicting:,} duplicates have other bodies than the events that were stored first")
    return Table("files", columns, rows, "Events taken in", notes)


def snapshot_table(summary: SnapshotSummary) -> Table:
    """What a snapshot added."""
    columns = [Column(name, number=True) for name in ("files", "objects", "duplicate")]
    return Table("snapshot", columns, [[summary.files, summary.objects, summary.duplicate]], "Objects taken in")


def _newest(paths: list[Path]) -> datetime:
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else (path,)) if file.is_file()]
    newest = max((file.stat().st_mtime for file in files), default=0.0)
    return datetime.fromtimestamp(newest, UTC)
