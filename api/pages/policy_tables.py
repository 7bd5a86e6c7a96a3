"""The tables of a policy's page, with the meaning of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.explaining.missing import SHOWN_MAX
from pipeline.readiness.counting.figures import FIGURES, Figure
from pipeline.readiness.exempting.measures import Exemption
from pipeline.readiness.model import (
    CriticalSubject,
    DayCount,
    HiddenDenial,
    LatentViolation,
    NamespaceCount,
    PolicyReadiness,
    ResourceAgreement,
    TemplateProjection,
)
from pipeline.report.workloads import Denied, denied_workloads

from .tables import Asked, Column, Table, table

# A page shows this many rows of a table until all are asked for.
_ROWS_SHOWN = 8


def policy_tables(entry: PolicyReadiness, days: Sequence[DayCount], asked: Asked) -> Mapping[str, Table[Any] | None]:
    """Every table of one (policy, binding) by its name; None for an empty one. `days` are the selected days."""
    namespaces = sorted(entry.namespaces, key=lambda row: (-row.denied, -row.matched, row.namespace))

    def of(name: str, caption: str, columns: tuple[Column[Any], ...], rows: Iterable[Any]) -> Any:
        given = list(rows)
        return table(asked, name, caption, columns, given, _ROWS_SHOWN) if given else None

    return {
        "figures": table(asked, "figures", "Figures of this policy", _figures(entry), FIGURES),
        "days": of("days", "Requests per UTC day", _DAYS, days),
        "critical": of("critical", "Matched requests whose denial would do more harm than others", _CRITICAL, entry.critical),
        "owners": of("owners", _OWNERS_CAPTION, _OWNERS, denied_workloads(entry.owners)),
        "reasons": of("reasons", _REASONS_CAPTION, _REASONS, entry.unknown_reasons[SHOWN_MAX:]),
        "hidden": of("hidden", _HIDDEN_CAPTION, _HIDDEN, entry.hidden),
        "objects": of("objects", _OBJECTS_CAPTION, _OBJECTS, entry.latent.violations),
        "templates": of("templates", _TEMPLATES_CAPTION, _TEMPLATES, entry.latent.projections),
        "exemptions": of("exemptions", _EXEMPTIONS_CAPTION, _EXEMPTIONS, entry.exemptions),
        "namespaces": of("namespaces", "Namespaces, most would-be denials first", _NAMESPACES, namespaces),
        "agreement": of("agreement", _AGREEMENT_CAPTION, _AGREEMENT, entry.fidelity.by_resource),
    }


def _figures(entry: PolicyReadiness) -> tuple[Column[Figure], ...]:
    """The columns of the figures; the values are those of one (policy, binding)."""
    return (
        Column("figure", "Figure", lambda row: row.label, "name"),
        Column("value", "Value", lambda row: row.show(entry), "n"),
        Column("query", "Query", lambda row: row.query.sql, "wide"),
        Column("note", "", lambda row: row.note),
    )


_DAYS: tuple[Column[DayCount], ...] = (
    Column("day", "Day", lambda row: row.day, "time"),
    Column("matched", "Matched", lambda row: row.matched, "n"),
    Column("denied", "Would deny", lambda row: row.denied, "n"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
)
_CRITICAL: tuple[Column[CriticalSubject], ...] = (
    Column("subject", "Subject", lambda row: row.subject, "name"),
    Column("denied", "Would deny", lambda row: row.denied, "n"),
    Column("message", "Message", lambda row: row.message, "text"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
    Column("matched", "Matched", lambda row: row.requests, "n"),
    Column("last_ts", "Last seen", lambda row: row.last_ts, "time"),
    Column("kind", "", lambda row: str(row.kind)),
    Column("audit_id", "", lambda row: row.audit_id),
)
_OWNERS_CAPTION = "Workloads, most would-be denials first. Each leads to its latest request."
_OWNERS: tuple[Column[Denied], ...] = (
    Column("workload", "Workload", lambda row: row.unit, "name"),
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("message", "Message", lambda row: row.example.message, "text"),
    Column("user", "Who", lambda row: [client.user for client in row.clients], "who"),
    Column("namespace", "", lambda row: row.namespace),
    Column("last_ts", "First and last seen", lambda row: row.last_ts, "time"),
    Column("first_ts", "", lambda row: row.first_ts),
    Column("team", "", lambda row: row.example.team),
    Column("identity", "", lambda row: [str(client.identity) for client in row.clients]),
    Column("resources", "", lambda row: row.resources),
    Column("passes_with", "", lambda row: row.example.difference),
    Column("audit_id", "", lambda row: row.example.audit_id),
)
# The most frequent ones are among the reasons of the verdict.
_REASONS_CAPTION = "More evidence that was missing; the most frequent reasons are under Why"
_REASONS: tuple[Column[tuple[str, int]], ...] = (
    Column("reason", "Missing evidence", lambda row: row[0], "wide"),
    Column("requests", "Requests", lambda row: row[1], "n"),
)
_HIDDEN_CAPTION = "Requests that something else denied first. This policy would have denied them too, and the log cannot show it."
_HIDDEN: tuple[Column[HiddenDenial], ...] = (
    Column("denied_by", "Denied by", lambda row: f"{row.denier} {row.name}".strip(), "name"),
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("workloads", "Workloads", lambda row: row.units, "n"),
    Column("last_ts", "Last seen", lambda row: row.last_ts, "time"),
    Column("message", "Message", lambda row: row.message, "text"),
    Column("audit_id", "", lambda row: row.audit_id),
)
_OBJECTS_CAPTION = "Objects, as their last recorded version has them"
_OBJECTS: tuple[Column[LatentViolation], ...] = (
    Column("object", "Object", lambda row: f"{row.resource}/{row.name}", "name"),
    Column("outcome", "Outcome", lambda row: row.outcome),
    Column("message", "Message", lambda row: row.message, "text"),
    Column("namespace", "Namespace", lambda row: row.namespace, "name"),
    Column("assumed", "Assumed request", lambda row: row.assumed, "name"),
    Column("version_ts", "Recorded", lambda row: row.version_ts, "time"),
)
_TEMPLATES_CAPTION = "Pod templates, and what their next Pod would meet"
_TEMPLATES: tuple[Column[TemplateProjection], ...] = (
    Column("owner", "Workload", lambda row: row.owner, "name"),
    Column("next_pod", "Its next Pod", lambda row: row.outcome),
    Column("message", "Message", lambda row: row.message, "text"),
    Column("namespace", "Namespace", lambda row: row.namespace, "name"),
    Column("owner_passes", "The workload itself", lambda row: row.owner_passes),
)
_EXEMPTIONS_CAPTION = "The smallest changes found, and what each of them exempts"
_EXEMPTIONS: tuple[Column[Exemption], ...] = (
    Column("subject", "For", lambda row: row.subject, "subject"),
    Column("who", "Who can use it", lambda row: row.who, "text"),
    Column("denied_requests", "Would-be denials", lambda row: row.denied_requests, "n"),
    Column("exempt_requests", "Exempt requests", lambda row: row.hides_requests, "n"),
    Column("exempt_workloads", "Exempt workloads", lambda row: row.hides_units, "n"),
    Column("review_by", "Review by", lambda row: row.review_by, "time"),
    Column("kind", "", lambda row: row.kind),
    Column("reason", "", lambda row: row.reason),
)
_NAMESPACES: tuple[Column[NamespaceCount], ...] = (
    Column("namespace", "Namespace", lambda row: row.namespace, "name"),
    Column("denied", "Would deny", lambda row: row.denied, "n"),
    Column("denied_workloads", "Workloads", lambda row: row.denied_units, "n"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
    Column("matched", "Matched", lambda row: row.matched, "n"),
)
_AGREEMENT_CAPTION = "Outcomes that the log recorded of the policies in force, and how many of them the replay gives as well"
_AGREEMENT: tuple[Column[ResourceAgreement], ...] = (
    Column("resource", "Resource", lambda row: row.resource, "name"),
    Column("policy", "Policy in force", lambda row: row.policy, "name"),
    Column("compared", "Recorded", lambda row: row.compared, "n"),
    Column("agreed", "Same in the replay", lambda row: row.agreed, "n"),
    Column("unknown", "Unknown", lambda row: row.unknown, "n"),
)
