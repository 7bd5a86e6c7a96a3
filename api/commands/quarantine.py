"""`hindcast quarantine`: the records that were not stored as events, by their reasons; shows them, and reads them again."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import InputError

from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table
    from ingest.quarantine import Quarantined


_TEXT_CHARACTERS = 300


def command(
    context: typer.Context,
    show: Annotated[bool, typer.Option("--show", help="Show the records with their places, the newest first.")] = False,
    again: Annotated[
        bool, typer.Option("--retry", help="Read them again, and store those that are events for this version.")
    ] = False,
    zone: options.Zone = "",
    limit: Annotated[int, typer.Option(min=0, help="How many rows to show; 0: all.")] = 20,
    output: options.Output = Format.TABLE,
) -> int:
    """Show the records in quarantine with their reasons, and try them again. Quarantine keeps records that are not audit events."""
    from api import asked_values
    from api.printing.output import Column, Table, render
    from api.redacting import redactor_of
    from api.settings import Settings
    from ingest.lake import Lake
    from ingest.quarantine import quarantine_files
    from ingest.requarantine import retry

    own: Context = context.obj
    if show and again:
        raise InputError("--show and --retry cannot be given together", "use --retry first, then --show")
    with closing(Lake.open(own.lake)) as lake:
        files = quarantine_files(lake.path / "quarantine")
        if again:
            counts = retry(lake, files, redactor_of(Settings.read(os.environ, lake=own.lake)), asked_values.parse_zone(zone))
            columns = [Column(name, number=True) for name in ("stored", "duplicate", "left")]
            render([Table("retried", columns, [[counts.stored, counts.duplicate, counts.quarantined]], "Tried again")], output)
            return 0
        records, notes = _records(files)
    records.sort(key=lambda record: record.received_ts, reverse=True)
    render([_shown(records, limit, notes) if show else _counted(records, limit, notes)], output)
    return 0


def _records(files: list[Path]) -> tuple[list[Quarantined], list[str]]:
    from ingest.quarantine import read_records

    records: list[Quarantined] = []
    notes: list[str] = []
    for path in files:
        try:
            records += read_records(path)
        except (OSError, ValueError) as error:
            notes.append(f"{path.name}: the quarantine file cannot be read: {error}")
    return records, notes


def _counted(records: list[Quarantined], limit: int, notes: list[str]) -> Table:
    """One row per cluster, source and reason, the commonest first."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    kinds = Counter((record.cluster, record.source, _reason(record)) for record in records)
    examples = {(record.cluster, record.source, _reason(record)): record.reason for record in records}
    columns = [Column("records", number=True), Column("cluster"), Column("source"), Column("example", prose=True)]
    rows = [[count, *key[:2], examples[key]] for key, count in kinds.most_common(limit or None)]
    if records:
        notes = [*notes, "--show shows the records; --retry stores those that are events for this version"]
    return Table("quarantine", columns, rows, f"{counted(len(records), 'record')} in quarantine", notes)


def _reason(record: Quarantined) -> str:
    """The reason without the numbers in it, and without the place of the record: `FILE:7: `, or `FILE, row 7: `."""
    from ingest.refusals import Refusals

    file = re.escape(record.source.partition(":")[2])
    return Refusals.kind(re.sub(rf"^.*?{file}(?::\d+|, \w+ \d+): ", "", record.reason) if file else record.reason)


def _shown(records: list[Quarantined], limit: int, notes: list[str]) -> Table:
    """One row per record, with the beginning of its text."""
    from api.printing.output import Column, Table
    from ingest.counted import counted

    columns = [Column("received_ts", "RECEIVED"), Column("cluster"), Column("reason", prose=True), Column("text", prose=True)]
    rows = [
        [datetime.fromtimestamp(record.received_ts, UTC), record.cluster, record.reason, _text(record.raw)]
        for record in records[: limit or None]
    ]
    if limit and len(records) > limit:
        notes = [*notes, f"{limit:,} of {counted(len(records), 'record is', 'records are')} shown; --limit 0 shows all"]
    return Table("quarantine", columns, rows, "Records in quarantine", notes)


def _text(raw: bytes) -> str:
    from ingest.counted import counted

    text = raw.decode("utf-8", "replace")
    return text if len(text) <= _TEXT_CHARACTERS else f"{text[:_TEXT_CHARACTERS]}... ({counted(len(raw), 'byte')})"
