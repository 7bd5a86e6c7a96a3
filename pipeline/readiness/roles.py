"""The readiness of a role change: the same figures, rules and words as for a policy.

A request counts as denied if the roles newly deny it: what the cluster refused already is no reason against the change. Where rules
that were found to be missing would keep everybody working, these are the exemptions of a role change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from queries import LakeReader

from ..request import Object
from ..runs import RunStore, RunSummary
from ..runs.window import Window
from ..stages.authorization.calibration import Agreement, Decided
from ..stages.authorization.missing import ExtraRole, MissingRights
from ..stages.grouped import GroupedPlan
from .assess import assess, judge_units
from .build import caveats_of
from .figures import queries
from .measures import Exemption, ExemptionKind
from .model import Fidelity, PolicyReadiness, ResourceAgreement, Status
from .owners import find_owners
from .report import EvidenceRow, Report
from .rules import ReadinessRules
from .sql import rows_of
from .verdict import with_exemptions

NAME = "authorization"
TITLE = "Role readiness"
_SHOWN = 3


@dataclass(frozen=True)
class RoleReport:
    """The report on a role change, and the roles that would keep everybody working; empty without new denials."""

    report: Report
    extra: tuple[Object, ...] = ()


def fidelity_of(found: Agreement) -> dict[str, Fidelity]:
    """The agreement of recorded decisions with the roles of the time, by resource."""
    counts: dict[str, Counter[str]] = {}
    for each in found.compared:
        own = counts.setdefault(each.resource, Counter())
        is_unknown = Decided.UNKNOWN in (each.recorded, each.replayed)
        own["unknown" if is_unknown else "agreed" if each.agrees else "disagreed"] += each.requests
    rows = [
        ResourceAgreement(NAME, resource, own["agreed"] + own["disagreed"], own["agreed"], own["unknown"])
        for resource, own in sorted(counts.items())
    ]
    totals = {name: sum(getattr(row, name) for row in rows) for name in ("compared", "agreed", "unknown")}
    return {NAME: Fidelity(**totals, own_compared=totals["compared"], own_agreed=totals["agreed"], by_resource=tuple(rows))}


def role_report(
    reader: LakeReader,
    lake: Path,
    plan: GroupedPlan[Any],
    summary: RunSummary,
    fidelity: Mapping[str, Fidelity] | None,
    rules: ReadinessRules,
    missing: MissingRights | None = None,
) -> RoleReport:
    """The report on a finished run of the authorization stage.

    `fidelity` is the agreement of the roles of the time with the record; None: not compared. `missing` are the rights that newly
    denied requests lack, and were tried. Leaves tables in the reader's connection.
    """
    connection = reader.connection
    extent = rows_of(connection, "extent")[0]
    judge_units(connection, str(RunStore(lake).run(summary.run_id).verdicts), rules, is_change=True)
    replayed = {(entry.policy, entry.binding): entry.actions for entry in summary.bindings}
    owners = find_owners(reader, rules, None)
    entries = assess(connection, replayed, fidelity, {}, owners, rules)
    entries = tuple(_with_extra(entry, missing, rules) for entry in entries)
    report = Report(
        title=TITLE,
        clusters=tuple(extent["clusters"]),
        first_ts=extent["first_ts"],
        last_ts=extent["last_ts"],
        events=extent["events"],
        requests=extent["requests"],
        run_id=summary.run_id,
        kubernetes_version=".".join(map(str, plan.kubernetes_version)),
        rules=rules,
        policies=entries,
        recorded=(),
        evidence=tuple(EvidenceRow(**row) for row in rows_of(connection, "evidence")),
        caveats=tuple(caveats_of(reader, lake, extent, summary, plan.window.until)),
        queries=queries(),
    )
    return RoleReport(report, tuple(missing.objects) if missing else ())


def _with_extra(entry: PolicyReadiness, missing: MissingRights | None, rules: ReadinessRules) -> PolicyReadiness:
    """The verdict with the roles that would keep everybody working, if these are few and a replay with them denies nothing new."""
    if missing is None or not missing.roles or entry.status is not Status.NOT_READY:
        return entry
    if missing.still_denied:
        reason = f"even with the missing rights given back, {missing.still_denied:,} requests would be denied"
        return replace(entry, reasons=(*entry.reasons, reason))
    if len(missing.roles) > rules.exemptions_max:
        reason = f"{len(missing.roles):,} more roles would keep everybody working, at most {rules.exemptions_max} wanted"
        return replace(entry, reasons=(*entry.reasons, reason))
    return with_exemptions(entry, [_exemption(each) for each in missing.roles], rules)


def _exemption(extra: ExtraRole) -> Exemption:
    """A role that gives rights back, in the form of an exemption: it takes the user's requests out of the change."""
    shown = ", ".join(extra.rights[:_SHOWN])
    more = f" and {len(extra.rights) - _SHOWN:,} more" if len(extra.rights) > _SHOWN else ""
    place = f" in {extra.namespace}" if extra.namespace else ""
    return Exemption(
        ExemptionKind.SUBJECT,
        f"{extra.subject}: {shown}{more}{place}",
        f"{extra.role['kind']}/{extra.role['metadata']['name']}",
        extra.role,
        hides_requests=extra.requests,
        denied_requests=extra.requests,
        reason="recorded requests need these rights",
    )


def window_words(plan: GroupedPlan[Any]) -> str:
    """The window of the requests, for a person."""
    window: Window = plan.window
    return window.words(plan.files.newest_us if plan.files else None)
