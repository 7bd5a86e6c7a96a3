"""The name of each verdict in the formats of other tools, in one table, so that no two formats disagree."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from ingest.counted import counted
from pipeline.readiness.change import ChangedUnit, Fate
from pipeline.readiness.model import Owner, PolicyReadiness, Status
from pipeline.readiness.report import PolicySource, Report

from .of_stage import words_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """`mark` and `tone` (a class of colour) are HTML's, `sign` is Markdown's, `slug` names a rule, `sarif` is a level.

    `junit` is the element in a test case, and empty if it passes.
    `reports` and `severity` are OpenReports'. `denials` is the element in the test case of one workload that would be denied.
    """

    mark: str
    tone: str
    sign: str
    slug: str
    sarif: str
    junit: str | None
    reports: str
    severity: str
    denials: str
    meaning: str
    next: str


OUTCOMES: dict[Status, Outcome] = {
    Status.READY: Outcome(
        mark="✓",
        tone="good",
        sign="✅",
        slug="ready",
        sarif="none",
        junit=None,
        reports="pass",
        severity="info",
        denials="skipped",
        meaning="The policy may go to Deny.",
        next="Go to Deny. Keep Audit as well, so that what it denies stays on record.",
    ),
    Status.READY_WITH_EXEMPTIONS: Outcome(
        mark="✓",
        tone="unsure",
        sign="🟡",
        slug="ready-with-exemptions",
        sarif="note",
        junit=None,
        reports="warn",
        severity="low",
        denials="skipped",
        meaning="The policy may go to Deny once exemptions are in place.",
        next="Put the exemptions below in place, then go to Deny. Review them by their day: nothing in the cluster enforces it.",
    ),
    Status.NOT_READY: Outcome(
        mark="✕",
        tone="bad",
        sign="❌",
        slug="not-ready",
        sarif="error",
        junit="failure",
        reports="fail",
        severity="high",
        denials="failure",
        meaning="The policy may not go to Deny.",
        next="Keep it on Warn and Audit. Have the owners below change what they send, or exempt them, then replay again.",
    ),
    Status.INSUFFICIENT_EVIDENCE: Outcome(
        mark="?",
        tone="unsure",
        sign="❔",
        slug="insufficient-evidence",
        sarif="warning",
        junit="error",
        reports="error",
        severity="medium",
        denials="skipped",
        meaning="Too little is known to let the policy deny.",
        next="Keep it on Audit and close the gaps above, then replay again.",
    ),
    Status.NO_NEW_DENIALS: Outcome(
        mark="=",
        tone="good",
        sign="☑️",
        slug="no-new-denials",
        sarif="none",
        junit=None,
        reports="pass",
        severity="info",
        denials="skipped",
        meaning="The change denies no recorded request that the version before did not deny.",
        next="The change can be merged. To ask whether the policy may go to Deny, run `hindcast readiness`.",
    ),
    Status.NEW_DENIALS: Outcome(
        mark="✕",
        tone="bad",
        sign="❌",
        slug="new-denials",
        sarif="error",
        junit="failure",
        reports="fail",
        severity="high",
        denials="failure",
        meaning="The change would deny requests that the version before did not deny.",
        next="Do not merge the change yet. Have the owners below change what they send, or narrow the change, then ask again.",
    ),
}


def next_step(entry: PolicyReadiness) -> str:
    """What to do after a verdict."""
    words = words_of(entry)
    if words.goes_to_deny:
        is_failing = entry.status is Status.NOT_READY and entry.denials.requests_failed == entry.denials.requests > 0
        return _MEND if is_failing else OUTCOMES[entry.status].next
    return _NEXT_OF_STAGE[entry.status].format(remedy=words.remedy)


_MEND = "Do not enforce it. Every denial is an error of the policy itself: mend the policy, then ask again."
_NEXT_OF_STAGE = {
    Status.READY: "Put them into force.",
    Status.READY_WITH_EXEMPTIONS: "Put them into force together with the manifests below.",
    Status.NOT_READY: "Do not put them into force yet. {remedy}, then replay again.",
    Status.INSUFFICIENT_EVIDENCE: "Close the gaps above, then replay again.",
    Status.NO_NEW_DENIALS: "The change can be merged.",
    Status.NEW_DENIALS: "Do not merge the change yet. {remedy}, then ask again.",
}


def source_of(report: Report, entry: PolicyReadiness) -> PolicySource | None:
    """The place where the policy was written; None if unknown, as for a policy from the log."""
    return next((source for source in report.sources if source.policy == entry.policy), None)


@dataclass(frozen=True, slots=True)
class Finding:
    """Would-be denials of one workload by one user. `fate` is empty for policies alone; `fails` where the finding decides."""

    owner: Owner | ChangedUnit
    fate: str
    fails: bool
    words: str


def findings(entry: PolicyReadiness) -> list[Finding]:
    """The would-be denials by workload and user; against a version before, the new, perhaps new, kept and gone ones."""
    if entry.change is None:
        fails = OUTCOMES[entry.status].denials == "failure"
        return [
            Finding(owner, "", fails, f"{counted(owner.requests, 'request')} would have been denied: {owner.message}")
            for owner in entry.owners
        ]
    return [
        Finding(unit, unit.fate, unit.fate is Fate.NEW and entry.status is Status.NEW_DENIALS, _fate_words(unit))
        for unit in entry.change.units
        if unit.fate in _FATES
    ]


def by_workload(found: Iterable[Finding]) -> list[list[Finding]]:
    """The findings of each workload, the one that decides most first: a person and a controller act for one workload."""
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for each in found:
        grouped.setdefault((each.owner.namespace, each.owner.unit), []).append(each)
    order = list(_FATES)
    return [
        sorted(parts, key=lambda each: (order.index(Fate(each.fate)) if each.fate else 0, -each.owner.requests))
        for parts in grouped.values()
    ]


# The worst fate first.
_FATES = {
    Fate.NEW: "new denials",
    Fate.UNSURE: "perhaps new denials",
    Fate.KEPT: "kept denials (both versions deny)",
    Fate.GONE: "gone denials (only the base denies)",
    Fate.UNENFORCED: "not enforced (the binding only warns or audits)",
}


def _fate_words(unit: ChangedUnit) -> str:
    return f"{_FATES[unit.fate]}: {counted(unit.requests, 'request')}: {unit.message}"


def fingerprint(entry: PolicyReadiness, *names: str) -> str:
    """A name for a finding that stays the same from run to run: it holds names only, no count, time or line."""
    return hashlib.sha256("\0".join([entry.policy, entry.binding or "", *names]).encode()).hexdigest()[:32]
