"""The report as SARIF 2.1.0, which code hosts show at the policy's line in a pull request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from ingest.counted import counted
from pipeline.readiness.change import Fate
from pipeline.readiness.model import PolicyReadiness
from pipeline.readiness.report import PolicySource, Report
from pipeline.readiness.words import day

from .cells import visible
from .data import plain
from .outcomes import OUTCOMES, Finding, by_workload, findings, fingerprint, source_of
from .texts import json_text
from .words import fates, policy_name

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_WOULD_DENY = ("would-deny", "A workload whose recorded requests the policy would have denied.", "warning")
_NEWLY_DENY = ("new-denial", "A workload whose recorded requests the change would deny and the version before did not.", "error")
_KEPT_OR_GONE = (
    "other-denial",
    "A denial that is not new: both versions deny, only the base does, or the binding does not deny.",
    "note",
)
# A public page about authorization and admission, which the results of all stages are about.
_HELP_URI = "https://kubernetes.io/docs/concepts/security/controlling-access/"
_HELP = "Hindcast judged recorded requests; `hindcast explain AUDIT_ID -f POLICIES` explains one of them."
_HELP_LINKED = f"{_HELP} [How an API server decides on a request]({_HELP_URI})."
_RULES = (*((item.slug, item.meaning, item.sarif) for item in OUTCOMES.values()), _WOULD_DENY, _NEWLY_DENY, _KEPT_OR_GONE)
_RULE_INDEX = {slug: index for index, (slug, _, _) in enumerate(_RULES)}


def to_sarif(report: Report) -> str:
    """One run: a result for each verdict, and one for each policy and workload that would be denied."""
    results = [result for entry in report.policies for result in _results(report, entry)]
    driver = {"name": "hindcast", "fullName": "Hindcast readiness", "rules": [_rule(*rule) for rule in _RULES]}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"hindcast/readiness/{report.run_id}"},
        "columnKind": "unicodeCodePoints",
        "properties": {"clusters": list(report.clusters), "events": report.events, "caveats": list(report.caveats)},
        "results": results,
    }
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(slug: str, meaning: str, level: str) -> dict[str, Any]:
    return {
        "id": slug,
        "shortDescription": {"text": meaning},
        "help": {"text": f"{meaning} {_HELP}", "markdown": f"{meaning} {_HELP_LINKED}"},
        "helpUri": _HELP_URI,
        "defaultConfiguration": {"level": level},
    }


def _results(report: Report, entry: PolicyReadiness) -> list[dict[str, Any]]:
    outcome = OUTCOMES[entry.status]
    source = source_of(report, entry)
    text = f"{policy_name(entry)}: {entry.status}: {'; '.join(entry.reasons)}"
    verdict = _result(outcome.slug, outcome.sarif, text, fingerprint(entry), source, policy_name(entry), "policy")
    verdict["properties"] = {
        "policy": entry.policy,
        "binding": entry.binding or "",
        "requestsMatched": entry.exposure.requests_matched,
        "requestsDenied": entry.denials.requests,
        "requestsUnknown": entry.exposure.requests_unknown,
    }
    if entry.counterexamples:
        verdict["properties"]["counterexamples"] = plain(entry.counterexamples)
    if entry.change is not None:
        verdict["properties"]["denials"] = {str(fate): plain(count) for fate, count in fates(entry.change)}
    # What is the same in both versions is nothing to review.
    found = [] if entry.change is not None and entry.change.is_same else by_workload(findings(entry))
    return [verdict, *(_denied(entry, parts, source) for parts in found)]


def _denied(entry: PolicyReadiness, parts: Sequence[Finding], source: PolicySource | None) -> dict[str, Any]:
    """The result of one workload: its worst part decides, and says how many requests and users there are in all."""
    found = parts[0]
    owner, alike = found.owner, [each.owner for each in parts if each.fate == found.fate]
    requests, users = sum(each.requests for each in alike), list(dict.fromkeys(each.user for each in alike))
    rule, level = _WOULD_DENY[0], "warning" if found.fails else "note"
    if found.fate:
        rule = _NEWLY_DENY[0] if found.fate in (Fate.NEW, Fate.UNSURE) else _KEPT_OR_GONE[0]
        level = "error" if found.fails else "warning" if found.fate in (Fate.NEW, Fate.UNSURE) else "note"
    where = f"{owner.namespace}/{owner.unit}" if owner.namespace else owner.unit
    said = f"{found.fate}: {counted(requests, 'request')}" if found.fate else f"would have denied {counted(requests, 'request')}"
    who = owner.user + (f" and {counted(len(users) - 1, 'more user')}" if len(users) > 1 else "")
    text = f"{policy_name(entry)} {said} of {who} for {where}, last {day(max(each.last_ts for each in alike))}: {owner.message}"
    place = _at_validation(source, owner.expression_index)
    result = _result(rule, level, text, fingerprint(entry, owner.namespace, owner.unit), place, where, "resource")
    result["occurrenceCount"] = requests
    result["properties"] = {"policy": entry.policy, "users": users, "namespace": owner.namespace, "auditID": owner.audit_id}
    if found.fate:
        result["properties"]["fate"] = found.fate
    return result


def _at_validation(source: PolicySource | None, index: int | None) -> PolicySource | None:
    """The place of the validation that denied, where it is known which one did."""
    if source is None or index is None or index >= len(source.validation_lines):
        return source
    return replace(source, line=source.validation_lines[index])


def _result(rule: str, level: str, text: str, name: str, source: PolicySource | None, subject: str, kind: str) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": subject, "kind": kind}]}
    if source is not None:
        location = {"physicalLocation": _physical(source)} | location
    return {
        "ruleId": rule,
        "ruleIndex": _RULE_INDEX[rule],
        # Section 3.27.10: a result has the level none if, and only if, it is not a failure.
        "kind": "pass" if level == "none" else "fail",
        "level": level,
        "message": {"text": visible(text)},
        "locations": [location],
        # GitHub tracks a finding by the first fingerprint, even when the file's lines move; other tools use ours.
        "partialFingerprints": {"primaryLocationLineHash": name, "hindcast/v1": name},
    }


def _physical(source: PolicySource) -> dict[str, Any]:
    artifact = {"uri": quote(source.file)}
    if source.file.startswith("/"):
        artifact["uri"] = "file://" + artifact["uri"]
    else:
        artifact["uriBaseId"] = "%SRCROOT%"
    return {"artifactLocation": artifact, "region": {"startLine": source.line}}
