"""`hindcast doctor`: lost evidence, its effect on verdicts, and the health of the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from api.context import Context
from api.printing.output import Format
from ingest.errors import LakeError

from .parts import options

if TYPE_CHECKING:
    from api.checks.checkup import Finding, LakeState
    from api.printing.output import Table
    from ingest.server.log import PluginFailure
    from ingest.server.metrics import ServerMetrics
    from queries.rows import Source


About = TypeVar("About", "Source", "Finding")
_GATE = 1
_UNDECIDED = 3
# Kinds of possible loss that the counters of API servers decide. Events missing from a log file may be in the lake.
_DECIDED_BY_METRICS = frozenset({"unseen_write", "silence", "burst", "never_posted", "server_count", "server_log"})
_FINDING = ("severity", "cluster", "kind", "count", "found", "detail", "first_ts", "last_ts", "means", "action")
_HEADINGS = {"detail": "WHERE", "first_ts": "FIRST", "last_ts": "LAST"}


def command(
    context: typer.Context,
    verify: Annotated[bool, typer.Option("--verify", help="Read every file again and compare it with its checksum.")] = False,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            help="Saved `kubectl get --raw /metrics` of an API server, or the URL of its /metrics, to compare counts; "
            "one for each server."
        ),
    ] = None,
    metrics_token: Annotated[
        Path | None, typer.Option("--metrics-token-file", help="A file with the bearer token for URLs of --metrics.")
    ] = None,
    metrics_ca: Annotated[
        Path | None, typer.Option(help="PEM file with the authority that signed the certificates of URLs of --metrics.")
    ] = None,
    server_log: Annotated[
        list[Path] | None,
        typer.Option(
            help="A log of kube-apiserver, also compressed: the events that its audit backends dropped are looked up in the lake."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Only this cluster of the lake; --metrics is about it. Needed with --metrics if the lake has several."),
    ] = None,
    limit: options.Limit = None,
    output: options.Output = Format.TABLE,
) -> int:
    """Report lost or doubtful evidence, its effect on verdicts, and the next step.

    Exit code 1: evidence was lost. Exit code 3: evidence may be lost, and only the counters of the API servers (`--metrics`) can
    decide that. Lines `Error in audit plugin` in their logs (`--server-log`) prove losses, but never their absence.
    """
    from api.checks.checkup import (
        UNREADABLE,
        clock_findings,
        damage_findings,
        drain_findings,
        lake_state,
        spool_findings,
        token_findings,
        twice_findings,
    )
    from api.checks.scraping import refuse_unused, server_metrics
    from api.printing.output import render
    from ingest.lake import Lake
    from ingest.server.log import read_server_log

    from .parts.clusters import cluster_files

    own: Context = context.obj
    refuse_unused(metrics or (), metrics_token, metrics_ca)
    scraped = [server_metrics(where, metrics_token, metrics_ca) for where in metrics or ()]
    failures = [failure for path in server_log or () for failure in read_server_log(path)]
    cluster_files(own, cluster or "")  # refuses an unknown name
    lake = Lake.open(own.lake)
    try:
        sources, findings = _examine(own.lake, cluster, scraped, failures)
        # Only the checksums tell which file is damaged.
        verify = verify or any(finding.kind == UNREADABLE for finding in findings)
        if verify:
            findings += damage_findings(lake)
        findings += [*spool_findings(lake), *drain_findings(lake), *token_findings(lake)]
        findings += clock_findings(lake, datetime.now(UTC))
        findings += _of_cluster([*twice_findings(lake)], cluster)
        state = lake_state(lake)
    finally:
        lake.close()
    tables = [_sources_table(sources), _lake_table(state, datetime.now(UTC)), _findings_table(findings, verify)]
    render(tables, output, limit=limit)
    code = exit_code(findings)
    own.tell(f"doctor: {answer(findings, code)}; exit code {code}")
    return code


_STYLES = {"lost": "red", "possible": "yellow"}


def answer(findings: Sequence[Finding], code: int) -> str:
    """The sentence of `queries.ledger.loss_answer` over all tables, without possible losses that the counters decided."""
    from queries.ledger import loss_answer

    decided = set() if code == _UNDECIDED else {id(each) for each in _undecided(findings)}
    said = loss_answer((each.severity, each.found) for each in findings if id(each) not in decided)
    return f"{said}; --metrics of every API server decides it" if code == _UNDECIDED else said


def exit_code(findings: Sequence[Finding]) -> int:
    """1 where evidence is known to be lost, else 0; 3 where it may be and no counters of API servers say otherwise, and where the
    drain died."""
    from api.checks.checkup import DRAIN_DIED
    from queries.ledger import Severity

    if any(finding.severity is Severity.LOST for finding in findings):
        return _GATE
    if any(finding.kind == "server_count" and finding.count == 0 for finding in findings):
        return 0
    return _UNDECIDED if _undecided(findings) or any(finding.kind == DRAIN_DIED for finding in findings) else 0


def _undecided(findings: Sequence[Finding]) -> list[Finding]:
    from queries.ledger import Severity

    return [item for item in findings if item.severity is Severity.POSSIBLE and item.kind in _DECIDED_BY_METRICS]


def _examine(
    lake: Path, cluster: str | None, scraped: Sequence[ServerMetrics], failures: Sequence[PluginFailure]
) -> tuple[list[Source], list[Finding]]:
    """The sources, and the findings from the views; if no engine can read the events, the finding says so."""
    import duckdb

    from api.checks.checkup import ledger_findings, review_findings, unreadable_finding
    from api.checks.server_findings import failure_findings, metrics_findings
    from pipeline.requests.kept.whole import losses_of
    from queries import open_lake, rows_of
    from queries.rows import Loss, Source

    try:
        reader = open_lake(lake)
        try:
            findings = ledger_findings([Loss(**row) for row in losses_of(reader).to_pylist()], datetime.now(UTC))
            if scraped:
                findings += metrics_findings(reader, cluster, scraped)
            findings += [*failure_findings(reader, failures), *review_findings(reader)]
            return _of_cluster(rows_of(reader.sources(), Source), cluster), _of_cluster(findings, cluster)
        finally:
            reader.close()
    except (duckdb.Error, LakeError) as error:
        return [], [unreadable_finding(error)]


def _of_cluster(found: list[About], cluster: str | None) -> list[About]:
    """What is about one cluster, or about no cluster, such as a damaged file."""
    return [each for each in found if cluster is None or each.cluster in ("", cluster)]


def _sources_table(sources: Sequence[Source]) -> Table:
    from api.printing.output import Column, Table
    from queries.rows import Source

    names = [item.name for item in fields(Source)]
    leaving = {"last_ingest_ts": 2, "first": 1, "first_ts": 1}
    columns = [
        Column(
            name,
            _HEADINGS.get(name, ""),
            wide=name == "source",
            number=name in ("events", "stored"),
            may_go=leaving.get(name, 0),
            may_shorten=name == "ingest_source",
        )
        for name in names
    ]
    rows = [[getattr(source, name) for name in names] for source in sources]
    note = "an event does not say which API server wrote it: several servers of one cluster are one source"
    return Table("sources", columns, rows, "Where events came from", (note,))


def _lake_table(state: LakeState, now: datetime) -> Table:
    from api.printing.output import Column, Table

    columns = [Column(item.name, number=item.type == "int") for item in fields(state)]
    notes = []
    if state.waiting_since is not None:
        seconds = (now - state.waiting_since).total_seconds()
        notes.append(
            f"{state.waiting:,} acknowledged events are not in the views yet, the oldest was received {seconds:,.0f} s ago; "
            "`hindcast serve` stores them while it runs, and until then the newest events are missing here"
        )
    if state.unlisted:
        notes.append(f"{state.unlisted} files belong to no table: a writer is at work, or was killed; the next one removes them")
    return Table("lake", columns, [[getattr(state, column.key) for column in columns]], "The lake", notes)


def _findings_table(findings: Sequence[Finding], verified: bool) -> Table:
    from api.printing.output import Column, Table

    columns = [
        Column(
            name,
            _HEADINGS.get(name, ""),
            wide=name in ("kind", "count", "means", "action"),
            prose=name in ("found", "detail"),
            may_go={"first_ts": 2, "last_ts": 1}.get(name, 0),
            styles=_STYLES if name == "severity" else {},
        )
        for name in _FINDING
    ]
    rows = [[_cell(getattr(finding, name)) for name in _FINDING] for finding in findings]
    notes = [f"{finding.kind}: {finding.means}; do: {finding.action}" for finding in _one_of_each(findings)]
    if _undecided(findings):
        notes.append(
            "possible losses are decided by --metrics (FILE of `kubectl get --raw /metrics`, or URL) of every API server; "
            "losses are proven by --server-log FILE, the log of kube-apiserver with its lines `Error in audit plugin`"
        )
    if not verified:
        notes.append("files were not read again; --verify compares each with its checksum")
    return Table("findings", columns, rows, "Missing or doubtful evidence", notes)


def _cell(value: object) -> object:
    from queries.ledger import Severity

    return value.value if isinstance(value, Severity) else value


def _one_of_each(findings: Sequence[Finding]) -> list[Finding]:
    return list({(finding.kind, finding.means): finding for finding in findings}.values())
