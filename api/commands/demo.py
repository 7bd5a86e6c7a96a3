"""`hindcast demo`: the whole way of an event through Hindcast, on a real audit log that ships with the program."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from api.context import Context
from ingest.errors import InputError

if TYPE_CHECKING:
    from api.printing.output import Table
    from pipeline.readiness.report import Report
    from queries import LakeReader


# The recording: its first event, its length, and the moment of the snapshot that precedes the first policy.
_START = datetime(2026, 11, 21, 3, 24, 15, 865989, tzinfo=UTC)
_LENGTH = timedelta(seconds=278.268028)
_SNAPSHOT = datetime(2026, 11, 21, 3, 24, 34, 88216, tzinfo=UTC)
_EXEMPTED = timedelta(days=90)  # time until proposed exemptions end
_STORY = timedelta(weeks=3)
_CLUSTER = "demo"
_TOTALS = (
    ("events", "EVENTS"),
    ("failure_events", "EVENTS WITH A FAILURE"),
    ("failures", "FAILURES"),
    ("denied_requests", "REQUESTS DENIED BY A POLICY"),
    ("denial_events", "EVENTS OF THESE DENIALS"),
    ("annotated", "REQUESTS WITH POLICY ANNOTATIONS"),
)
_FIELDS = ("requestReceivedTimestamp", "stageTimestamp")


def command(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="The folder for the lake and the report; an earlier demonstration in it is replaced.")
    ] = Path("demo-out"),
    lake_only: Annotated[bool, typer.Option("--lake-only", help="Fill the lake and stop.")] = False,
    stretch: Annotated[bool, typer.Option(help="Stretch the recording's five minutes to three weeks.")] = True,
    details: Annotated[bool, typer.Option("--details", help="Also print the recorded failures, and the whole report.")] = False,
) -> int:
    """Ingest a real audit log, replay four policies over it, print their verdicts and write a readiness report."""
    from importlib.resources import as_file, files

    from api.printing.output import Format, render
    from api.printing.report_options import ReportFormat
    from api.printing.reports import print_report
    from pipeline.report.html import to_html
    from queries import open_lake

    own: Context = context.obj
    started = time.monotonic()
    lake = Context(lake=_fresh_lake(out), quiet=own.quiet)
    factor = _STORY / _LENGTH if stretch else 1.0
    if stretch:
        seconds = _LENGTH.total_seconds()
        own.say(f"a recording of {seconds:.0f} s, its times stretched by {factor:,.0f} so that the story spans 21 days")
    with as_file(files("api") / "demo") as data:
        _fill(lake, data, factor)
        if lake_only:
            own.say(f"lake: {lake.lake}")
            return 0
        reader = open_lake(lake.lake)
        try:
            totals = _totals_table(reader)
            if details:
                render(_recorded_tables(reader), Format.TABLE)
        finally:
            reader.close()
        policies = _policies_in(out, data)
        report = _report_on(lake, data / "policies")
    if details:
        print_report(report, ReportFormat.TABLE)
    page = out / "report.html"
    page.write_text(to_html(report), encoding="utf-8")
    own.say(f"{time.monotonic() - started:.0f} s in all\n")
    render([totals, _answers(report), _next_steps(lake.lake, page, policies)], Format.TABLE)
    return 0


def _report_on(lake: Context, policies: Path) -> Report:
    from api.given import given_of
    from pipeline.readiness.flow import Wanted
    from pipeline.stages.stage import Asked

    from .parts.made_reports import make_reports
    from .parts.texts import read_texts

    asked = Asked()
    given = given_of(read_texts([policies]), asked.kubernetes_version)
    wanted = Wanted(review_by=datetime.now(UTC).date() + _EXEMPTED)
    (made,) = make_reports(lake, given.texts, given.stages, asked, wanted)
    return made.report


def _answers(report: Report) -> Table:
    """The verdict of each policy with its first reason."""
    from api.printing.output import Column, Table
    from api.printing.reports import VERDICT_STYLES

    columns = [
        Column("verdict", styles=VERDICT_STYLES),
        Column("policy"),
        Column("why", prose=True),
    ]
    rows = [[entry.status, entry.policy, entry.reasons[0]] for entry in report.policies]
    return Table("answers", columns, rows, "May these policies go to Deny? Each was replayed over all these requests")


def _policies_in(out: Path, data: Path) -> Path:
    """The policies as files that a person may read and edit; one that is there already may have been edited, and stays."""
    folder = out / "policies"
    folder.mkdir(exist_ok=True)
    for each in sorted((data / "policies").glob("*.yaml")):
        if not (target := folder / each.name).exists():
            target.write_bytes(each.read_bytes())
    return folder


def _next_steps(lake: Path, page: Path, policies: Path) -> Table:
    """Where to look next, and which commands to type."""
    from api.printing.output import Column, Table

    start = f"hindcast --lake {lake}"
    rows = [
        ["the report", f"{page} (opens without a network)"],
        ["the verdicts", f"{start} readiness -f {policies}"],
        ["the record", f"{start} violations --by workload"],
        ["the pages", f"{start} serve --no-sink"],
        ["your log", "hindcast ingest FILE && hindcast readiness -f POLICIES"],
    ]
    return Table("next", [Column("to_see"), Column("do", "OPEN OR TYPE")], rows, "What to do next")


def _fresh_lake(out: Path) -> Path:
    """An empty folder for the lake; the lake of an earlier demonstration is removed, any other folder is kept."""
    from api.printing.targets import check_folder

    lake = out / "lake"
    if lake.exists():
        if not (lake / "manifest.sqlite").is_file():
            raise InputError(f"{lake} exists and is not a lake", "give another folder with --out")
        shutil.rmtree(lake)
    check_folder("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    return lake


def _fill(own: Context, data: Path, factor: float) -> None:
    from ingest.lake import Lake
    from ingest.sources.files import ingest_files
    from ingest.sources.snapshot import ingest_snapshot

    log = own.lake / "demo-audit.jsonl"
    with closing(Lake.create(own.lake)) as lake:
        if factor == 1.0:
            log = data / "audit.jsonl.zst"
        else:
            with log.open("wb") as handle:
                handle.writelines(stretched(data / "audit.jsonl.zst", factor))
        with own.progress("reading the audit log") as step:
            ingest_files(lake, [log], _CLUSTER, time.time(), progress=step)
        ingest_snapshot(lake, [data / "snapshot"], _CLUSTER, _moved(_SNAPSHOT, factor))
    if factor != 1.0:
        log.unlink()


def stretched(log: Path, factor: float) -> Iterator[bytes]:
    """The lines of the recording with both timestamps scaled away from its start by one factor; the rest is kept byte for byte."""
    import zstandard

    for line in zstandard.ZstdDecompressor().decompress(log.read_bytes()).splitlines(keepends=True):
        # The timestamps come after the bodies, which may have fields of that name, and only annotations come after them.
        for name in _FIELDS:
            start = line.rindex(b'"%s":"' % name.encode()) + len(name) + 4
            end = line.index(b'"', start)
            moment = _moved(datetime.fromisoformat(line[start:end].decode()), factor)
            line = line[:start] + moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode() + line[end:]
        yield line


def _moved(moment: datetime, factor: float) -> datetime:
    return _START - (_STORY if factor != 1.0 else timedelta()) + (moment - _START) * factor


def _totals_table(reader: LakeReader) -> Table:
    from api.printing.output import Column, Table

    totals = reader.sql("FROM recorded_totals()").fetchall()[0]
    columns = [Column(name, heading, number=True) for name, heading in _TOTALS]
    return Table("totals", columns, [totals], "What the cluster recorded")


def _recorded_tables(reader: LakeReader) -> list[Table]:
    """The failures and denials of the bound policies."""
    from . import violations

    rollup = reader.violation_rollup(["policy", "binding"])
    rows = [dict(zip(rollup.columns, row, strict=True)) for row in rollup.fetchall()]
    return [violations.failures(["policy", "binding"], rows), *violations.recorded(reader)]
