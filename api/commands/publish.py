"""`hindcast publish`: keeps a lake on object storage, as Apache Iceberg tables that other engines read."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from api.printing.output import Format

from .parts import options

if TYPE_CHECKING:
    from api.printing.output import Table


if TYPE_CHECKING:
    from ingest.published.publish import Published


def command(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="URL", help="Where to publish: s3://BUCKET/LAKE, or file:///FOLDER.")],
    keep: Annotated[str, typer.Option(help="How long replaced files stay for readers that began before: 24h, 7d or 30m.")] = "24h",
    output: options.Output = Format.TABLE,
) -> int:
    """Publish the lake as Apache Iceberg tables, or bring published ones up to date. Safe to interrupt and to repeat."""
    from api import asked_values
    from api.printing.output import render
    from api.published import need_extra
    from ingest.lake import Lake

    own: Context = context.obj
    need_extra()
    from ingest.published.publish import publish
    from ingest.published.target import Target

    place = Target.parse(target)
    now = datetime.now(UTC)
    before = asked_values.parse_time("--keep", keep, now) or now
    with closing(Lake.open(own.lake)) as lake, own.progress(f"publishing to {place.url}") as step:
        done = publish(lake, place, now.timestamp(), before.timestamp(), step)
    render([_table(done, place.url)], output)
    return 0


def _table(done: list[Published], url: str) -> Table:
    from api.printing.output import Column, Table

    names = ("files", "rows", "bytes", "added", "removed", "uploaded_bytes", "objects_deleted")
    columns = [Column("table"), *(Column(name, number=True) for name in names)]
    rows = [[result.kind, *(getattr(result, name) for name in names)] for result in done]
    notes = [f"read it with: hindcast --lake {url} violations"]
    if retried := max(result.attempts for result in done) - 1:
        notes.append(f"another publisher was at work: the commit was repeated {retried} times")
    return Table("published", columns, rows, f"Published at {url}", notes)
