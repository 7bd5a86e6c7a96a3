"""The report as Markdown, fit for a pull request."""

from __future__ import annotations

from pipeline.readiness.model import PolicyReadiness, Status

from .model import Report
from .words import day, percent, policy_name, workload

_SIGNS = {Status.READY: "✅", Status.NOT_READY: "❌", Status.INSUFFICIENT_EVIDENCE: "❔"}


def to_markdown(report: Report) -> str:
    """The whole report; one heading per policy, owners as a table."""
    lines = [
        f"# {report.title}",
        "",
        f"{report.events:,} audit events of {', '.join(report.clusters) or 'no cluster'}, {day(report.first_ts)} to "
        f"{day(report.last_ts)}; run `{report.run_id}`, Kubernetes {report.kubernetes_version}.",
        "",
        "| policy | binding | verdict | matched | would deny | unknown | agreement |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for entry in report.policies:
        agreement = entry.fidelity.agreement
        lines.append(
            f"| {entry.policy} | {entry.binding or ''} | {_SIGNS[entry.status]} {entry.status} "
            f"| {entry.exposure.requests_matched:,} | {entry.denials.requests:,} | {entry.exposure.requests_unknown:,} "
            f"| {'not known' if agreement is None else percent(agreement)} |"
        )
    for entry in report.policies:
        lines += ["", *_policy(entry)]
    lines += ["", "## What weakens these figures", "", *(f"- {caveat}" for caveat in report.caveats)]
    return "\n".join(lines) + "\n"


def _policy(entry: PolicyReadiness) -> list[str]:
    lines = [f"## {policy_name(entry)}: {entry.status}", "", *(f"- {reason}" for reason in entry.reasons)]
    lines += [f"- unknown for {count:,} requests: {why}" for why, count in entry.unknown_reasons]
    if entry.owners:
        lines += ["", "| namespace | workload | user | requests | last seen | message |", "| --- | --- | --- | ---: | --- | --- |"]
        for owner in entry.owners:
            cells = (
                owner.namespace,
                workload(owner),
                owner.user,
                f"{owner.requests:,}",
                day(owner.last_ts),
                owner.message,
            )
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return lines
