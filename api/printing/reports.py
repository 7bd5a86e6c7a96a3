"""How a report leaves a command: printed with `-o`, written to files with `--report-file`, as tables with `--export`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path

from api.context import Context
from ingest.counted import counted
from ingest.errors import InputError
from pipeline.readiness.assess import export_outcomes
from pipeline.readiness.change import Change, Fate
from pipeline.readiness.counting.writers import last_writers
from pipeline.readiness.gaps import TO_KNOW_IT
from pipeline.readiness.model import Fidelity, PolicyReadiness, Status
from pipeline.readiness.report import Report
from pipeline.readiness.words import percent
from pipeline.report.formats import TEXT_FORMATS, format_of
from pipeline.report.messages import denied_places, messages, to_messages
from pipeline.report.of_stage import words_of
from pipeline.report.over_time import MOMENT, sparkline
from pipeline.report.tables import export_tables
from pipeline.report.words import exemptions_title, fate_count, policy_name, step, together, workload
from pipeline.report.workloads import denied_workloads
from pipeline.stages.over_time import OverTime, span_words
from queries import LakeReader, open_lake

from .output import Column, Format, Table, render
from .report_options import EVERY_ENDING, ReportFormat
from .targets import check_file, check_folder

_OWNERS_SHOWN = 5
_OWNERS_SHOWN_WIDE = 10
VERDICT_STYLES = {
    str(Status.NOT_READY): "red",
    str(Status.NEW_DENIALS): "red",
    str(Status.INSUFFICIENT_EVIDENCE): "yellow",
    str(Status.READY_WITH_EXEMPTIONS): "cyan",
    str(Status.NO_NEW_DENIALS): "green",
    str(Status.READY): "green",
}


def check_outputs(paths: Sequence[Path] | None, folder: Path | None = None) -> None:
    """Raise InputError, before the work and not after it, for a `--report-file` or `--export` that could not be written."""
    for path in paths or ():
        _format_of(path)
        check_file("--report-file", path)
    if folder is not None:
        check_folder("--export", folder)


def print_report(report: Report, form: ReportFormat, tables: Sequence[Table] | None = None, limit: int | None = None) -> None:
    """Write the report to standard output; `tables` are its tables for a terminal, by default `report_tables`."""
    if form in (ReportFormat.TABLE, ReportFormat.WIDE, ReportFormat.CSV):
        shown = report_tables(report, wide=form is not ReportFormat.TABLE) if tables is None else tables
        render(shown, Format(form), limit=limit)
    else:
        sys.stdout.write(TEXT_FORMATS[form].render(report))


def print_messages(own: Context, report: Report, by: date) -> None:
    """Write one message to each owner of a denied workload, which asks for a change by this day, to standard output."""
    with closing(open_lake(own.lake)) as reader:
        writers = last_writers(reader.connection, denied_places(report))
    sys.stdout.write(to_messages(messages(report, writers, by)))
    if more := sum(entry.owners_total - len(entry.owners) for entry in report.policies):
        own.warn(f"{counted(more, 'more workload')} with fewer requests had no room in the report, and got no message")


def write_report(report: Report, paths: Sequence[Path] | None, folder: Path | None = None) -> list[Path]:
    """Write the report into files and its tables into a folder; returns their paths. Raises InputError if that fails."""
    written: list[Path] = []
    for path in paths or ():
        text = TEXT_FORMATS[_format_of(path)].render(report)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"--report-file: {path} cannot be written: {error.strerror}") from error
        written.append(path)
    if folder is not None:
        try:
            export_tables(report, folder)
        except OSError as error:
            raise InputError(f"--export: {folder} cannot be written: {error.strerror}") from error
        written.append(folder)
    return written


def write_outcomes(reader: LakeReader, folder: Path) -> None:
    """Write the rows behind a report's figures next to its tables. Raises InputError if they cannot be written."""
    try:
        export_outcomes(reader.connection, folder)
    except OSError as error:
        raise InputError(f"--export: {folder} cannot be written: {error.strerror}") from error


def _format_of(path: Path) -> str:
    found = format_of(path.name)
    if found is None:
        raise InputError(f"--report-file: {path} ends in {path.suffix or 'nothing'}", f"use one of {EVERY_ENDING}")
    return found


def report_tables(report: Report, *, wide: bool = False) -> list[Table]:
    """The report for a terminal: the verdicts, then for each policy the reasons and whom it would deny; with more detail if
    `wide`."""
    columns = [
        Column("policy", may_shorten=True),
        Column("binding", may_shorten=True, may_go=3),
        Column("verdict", styles=VERDICT_STYLES),
        *(Column(name, number=True) for name in ("matched", "deny", "unknown")),
        Column("workloads", number=True, may_go=1),
        Column("agreement", number=True, may_go=2),
        *(Column(name, number=True, wide=True) for name in ("users", "namespaces", "days")),
        Column("unit_rate_upper", "UPPER BOUND", number=True, wide=True),
        Column("last_denied", wide=True),
    ]
    rows = [_verdict_row(entry) for entry in report.policies]
    joint = (together(report),) if report.together is not None else ()
    notes = (
        *joint,
        "`hindcast readiness --export FOLDER` writes the query of every figure, and the rows to run it over",
    )
    verdicts = Table("verdicts", columns, rows, report.title, notes if rows else ())
    said: dict[str, str] = {}
    times = [_over_time(found) for found in report.over_time] if wide else []
    return [
        verdicts,
        *times,
        *_changes(report),
        *(table for entry in report.policies for table in _policy_tables(entry, wide, said)),
    ]


def _over_time(found: OverTime) -> Table:
    """The counts of a stage over time: a row of signs for each thing, from the first span to the last."""
    columns = [
        Column("what", ""),
        Column("over_time", f"{found.first:{MOMENT}} TO {found.last:{MOMENT}} UTC"),
        Column("count", found.unit.upper(), number=True),
        Column("peak", f"MOST PER {span_words(found.slot_seconds).upper()}", number=True),
        Column("busiest", may_go=1),
    ]
    rows = [[row.what, sparkline(found, row), row.total, row.peak, row.busiest] for row in found.bars]
    return Table("over_time", columns, rows, found.chart, (found.note,))


def _changes(report: Report) -> Iterator[Table]:
    """New, kept and gone denials side by side; empty without a version before."""
    changes = [
        *((entry.change, str(entry.status)) for entry in report.policies if entry.change),
        *((each, "") for each in report.removed),
    ]
    if not changes:
        return
    shown = (Fate.NEW, Fate.KEPT, Fate.GONE, Fate.UNSURE)
    others = tuple(fate for fate in (Fate.UNKNOWN, Fate.UNENFORCED) if any(change.count(fate).requests for change, _ in changes))
    columns = [
        Column("policy", may_shorten=True),
        Column("binding", may_shorten=True, may_go=1),
        Column("verdict", styles=VERDICT_STYLES),
    ]
    columns += [Column(fate.replace(" ", "_"), str(fate).upper(), number=True) for fate in (*shown, *others)]
    rows = [
        [
            change.policy,
            change.binding,
            verdict or "not in this version",
            *(fate_count(change.count(fate)) for fate in (*shown, *others)),
        ]
        for change, verdict in changes
    ]
    yield Table("changes", columns, rows, "Denials against the version before: requests / workloads")


def _agreement(fidelity: Fidelity) -> str:
    """The share of recorded outcomes that the replay reproduces, or `not compared`, or `unknown`."""
    if not fidelity.is_compared:
        return "not compared"
    return "unknown" if fidelity.agreement is None else percent(fidelity.agreement)


def _verdict_row(entry: PolicyReadiness) -> list[object]:
    return [
        entry.policy,
        entry.binding,
        entry.status,
        entry.exposure.requests_matched,
        entry.denials.requests,
        entry.exposure.requests_unknown,
        entry.exposure.units_judged,
        _agreement(entry.fidelity),
        entry.exposure.users,
        entry.exposure.namespaces,
        entry.exposure.days_span,
        percent(entry.denials.unit_rate_upper),
        entry.denials.last_ts,
    ]


def _these(exemptions: int) -> str:
    return "this exemption" if exemptions == 1 else f"these {counted(exemptions, 'exemption')}"


def _policy_tables(entry: PolicyReadiness, wide: bool, said: dict[str, str]) -> Iterator[Table]:
    """The lines of one policy: the reasons, whom it would deny, exemptions, and the next steps. `said` has the remedies so far."""
    title = f"{policy_name(entry)}: {entry.status}"
    why = [[_once(reason, policy_name(entry), said)] for reason in entry.reasons]
    notes = [*_latent(entry)]
    # Exemptions that do not help would only hide the reasons.
    lists_exemptions = wide or entry.status is not Status.NOT_READY
    if entry.exemptions and not lists_exemptions:
        notes.append(f"still not ready with {_these(len(entry.exemptions))}: -o wide lists them")
    columns = [Column("reason", "WHY")]
    yield Table("reasons", columns, why, title, tuple(notes), VERDICT_STYLES.get(str(entry.status), ""))
    if entry.change is not None:
        yield from _changed(entry.change, wide)
    elif entry.owners:
        yield _owners(entry, wide)
    if entry.exemptions and lists_exemptions:
        yield _exemptions(entry)
    if entry.rollout:
        steps = [[number, step(found)] for number, found in enumerate(entry.rollout, start=1)]
        yield Table("rollout", [Column("step", "", number=True), Column("action", "WHAT TO DO NEXT")], steps)


def _once(reason: str, policy: str, said: dict[str, str]) -> str:
    """A reason. Its remedy stands only under the first policy that needs it; `said` leads from remedies to these policies."""
    sentence, _, remedy = reason.partition(TO_KNOW_IT)
    first = said.setdefault(remedy, policy) if remedy else policy
    return reason if first == policy else f"{sentence}; the remedy stands under {first}"


def _latent(entry: PolicyReadiness) -> Iterator[str]:
    """A sentence about objects that exist and were not written; empty where the reasons of READY say it."""
    latent = entry.latent
    if latent.is_assessed and (latent.objects or latent.templates) and entry.status is not Status.READY:
        yield (
            f"{counted(latent.objects, 'object')} and {latent.templates:,} pod templates exist that were not "
            "written in the window: "
            f"{latent.objects_denied + latent.templates_denied:,} would be denied, "
            f"{latent.objects_unknown + latent.templates_unknown:,} are unknown"
        )


def _changed(change: Change, wide: bool) -> Iterator[Table]:
    """The users whom the change would deny; the table of changes counts gone and kept denials."""
    found = change.units_of(Fate.NEW, Fate.UNSURE)
    if not found:
        return
    columns = [
        Column("denials"),
        Column("namespace"),
        Column("workload"),
        Column("user", may_go=2),
        Column("requests", number=True),
    ]
    columns += [Column("last_seen", wide=True), Column("message", prose=True, may_go=1), Column("audit_id", wide=True)]
    rows = [
        [row.fate, row.namespace, workload(row), row.user, row.requests, row.last_ts, row.message, row.audit_id]
        for row in found[: _OWNERS_SHOWN_WIDE if wide else _OWNERS_SHOWN]
    ]
    more = len(found) - len(rows)
    yield Table("changed", columns, rows, "Whom the change would deny", _more(more, wide))


def _more(more: int, wide: bool) -> tuple[str, ...]:
    """Where to find the entries that a list leaves out; empty if it shows all."""
    if more <= 0:
        return ()
    return (f"{more:,} more in the report" if wide else f"{more:,} more: -o wide, and --report-file for all",)


def _owners(entry: PolicyReadiness, wide: bool) -> Table:
    columns = [
        Column("namespace"),
        Column("workload"),
        Column("user", may_go=2),
        Column("requests", number=True),
        Column("first_seen", wide=True),
        Column("last_seen", wide=True),
        Column("message", prose=True, may_go=1),
        Column("passes_with", wide=True, prose=True),
        Column("audit_id", wide=True),
    ]
    found = denied_workloads(entry.owners)
    rows = [
        [
            each.namespace,
            each.label,
            each.users,
            each.requests,
            each.first_ts,
            each.last_ts,
            each.example.message,
            each.example.difference,
            each.example.audit_id,
        ]
        for each in found[: _OWNERS_SHOWN_WIDE if wide else _OWNERS_SHOWN]
    ]
    more = max(entry.denials.units, len(found)) - len(rows)
    # `explain` shows the values in the expressions of policies, which other stages do not have.
    explain = f"`hindcast explain {entry.owners[0].audit_id} -f POLICIES` explains the first of these denials"
    notes = (*_more(more, wide), explain) if words_of(entry).goes_to_deny else _more(more, wide)
    return Table("owners", columns, rows, "Whom it would have denied", notes)


def _exemptions(entry: PolicyReadiness) -> Table:
    columns = [
        Column("exempts"),
        Column("who", "WHO CAN USE IT", prose=True),
        Column("on", wide=True),
        Column("denied", "DENIALS", number=True),
        Column("hides", "EXEMPT REQUESTS", number=True),
        Column("review_by"),
    ]
    rows = [
        [found.subject, found.who, found.target, found.denied_requests, found.hides_requests, found.review_by or "no day"]
        for found in entry.exemptions
    ]
    note = (
        "`hindcast exemptions -o merge-patch` prints them as patches to apply"
        if words_of(entry).goes_to_deny
        else "`hindcast readiness --extra-roles FILE` writes them"
    )
    return Table("exemptions", columns, rows, exemptions_title(entry), (note,))
