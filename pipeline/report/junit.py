"""The report as JUnit XML, which every CI system draws: a suite per (policy, binding), its verdict and workloads as test cases.

JUnit has no one schema. This keeps to what both Ant's (every attribute it requires, no element it does not know) and Jenkins'
xunit plugin's (`junit-10.xsd`) allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from xml.etree import ElementTree as Xml

from pipeline.readiness.model import POLICIES, Counterexample, PolicyReadiness
from pipeline.readiness.report import Report

from .cells import visible
from .data import plain
from .outcomes import OUTCOMES, findings
from .texts import yaml_text
from .words import fate_count, fates, policy_name, workload

# Characters that XML 1.0 cannot hold, even escaped (its production `Char`).
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """One `testsuites` document. The time of a suite is the end of the evidence, its duration 0: a report has no clock."""
    suites = Xml.Element("testsuites")
    for number, entry in enumerate(report.policies):
        suites.append(_suite(report, entry, number))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _suite(report: Report, entry: PolicyReadiness, number: int) -> Xml.Element:
    outcome = OUTCOMES[entry.status]
    may = "may go to Deny" if entry.stage == POLICIES else "may be put into force"
    asked = may if entry.change is None else "makes no new denials"
    cases = [_case(entry, asked, outcome.junit, str(entry.status), entry.reasons)]
    for found in findings(entry):
        owner = found.owner
        name = f"{owner.namespace or 'cluster'}/{workload(owner)} by {owner.user}{f': {found.fate}' if found.fate else ''}"
        denied = (found.words, f"audit ID {owner.audit_id}")
        cases.append(_case(entry, name, "failure" if found.fails else "skipped", found.fate or "would be denied", denied))
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    suite = Xml.Element(
        "testsuite",
        name=_text(policy_name(entry)),
        package="hindcast.readiness",
        id=str(number),
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time="0",
        timestamp=_timestamp(report.last_ts),
        hostname=_text(" ".join(report.clusters)).strip() or "localhost",
    )
    properties = Xml.SubElement(suite, "properties")
    facts = [("run", report.run_id), ("kubernetes", report.kubernetes_version), ("status", str(entry.status))]
    if entry.change is not None:
        facts += [(f"{fate} denials (requests / workloads)", fate_count(count)) for fate, count in fates(entry.change)]
    for key, value in facts:
        Xml.SubElement(properties, "property", name=key, value=_text(value))
    suite.extend(cases)
    shown = (*entry.reasons, *(line for found in entry.counterexamples for line in _counterexample(found)))
    Xml.SubElement(suite, "system-out").text = _text("\n".join(shown))
    Xml.SubElement(suite, "system-err").text = _text("\n".join(report.caveats))
    return suite


def _counterexample(found: Counterexample) -> Iterator[str]:
    """One denied request, with the part of the judged object that the denial depends on."""
    what = f"{found.verb} {found.resource} {found.namespace}/{found.name}"
    yield f"counterexample: {what} by {found.user}, audit ID {found.audit_id}: {found.message}"
    text = yaml_text([plain(found.object)])
    yield from (f"    {line}" for line in text.splitlines())


def _case(entry: PolicyReadiness, name: str, element: str | None, kind: str, words: tuple[str, ...]) -> Xml.Element:
    case = Xml.Element("testcase", name=_text(name).strip(), classname=_text(policy_name(entry)), time="0")
    if element is not None:
        found = Xml.SubElement(case, element, message=_text(words[0]))
        if element != "skipped":
            found.set("type", kind)
        found.text = _text("\n".join(words))
    return case


def _timestamp(moment: datetime | None) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S") if moment else "1970-01-01T00:00:00"


def _text(words: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", visible(words))
