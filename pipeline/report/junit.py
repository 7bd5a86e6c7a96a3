"""The report as JUnit XML, which every CI system draws: one test case per (policy, binding), with the workloads in its text.

JUnit has no one schema. This keeps to what both Ant's (every attribute it requires, no element it does not know) and Jenkins'
xunit plugin's (`junit-10.xsd`) allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from xml.etree import ElementTree as Xml

from ingest.counted import counted
from pipeline.readiness.model import Counterexample, PolicyReadiness
from pipeline.readiness.report import Report

from .cells import visible
from .data import plain
from .of_stage import words_of
from .outcomes import OUTCOMES, by_workload, findings
from .texts import yaml_text
from .words import fate_count, fates, policy_name

# A case's text stays short enough to read; the other formats list all.
_WORKLOADS_MAX = 20
# Characters that XML 1.0 cannot hold, even escaped (its production `Char`).
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """One `testsuites` document. The time of its suite is the end of the evidence, its duration 0: a report has no clock."""
    suites = Xml.Element("testsuites")
    suites.append(_suite(report))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _suite(report: Report) -> Xml.Element:
    cases = [_case_of(entry) for entry in report.policies]
    counts = {kind: sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error", "skipped")}
    suite = Xml.Element(
        "testsuite",
        name=_text(report.title).strip(),
        package="hindcast.readiness",
        id="0",
        tests=str(len(cases)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time="0",
        timestamp=_timestamp(report.last_ts),
        hostname=_text(" ".join(report.clusters)).strip() or "localhost",
    )
    properties = Xml.SubElement(suite, "properties")
    for key, value in (("run", report.run_id), ("kubernetes", report.kubernetes_version), *_facts(report)):
        Xml.SubElement(properties, "property", name=_text(key).strip(), value=_text(value))
    suite.extend(cases)
    shown = [line for entry in report.policies for line in _shown(entry)]
    Xml.SubElement(suite, "system-out").text = _text("\n".join(shown))
    Xml.SubElement(suite, "system-err").text = _text("\n".join(report.caveats))
    return suite


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    for entry in report.policies:
        yield f"{policy_name(entry)}: status", str(entry.status)
        for fate, count in fates(entry.change) if entry.change is not None else ():
            yield f"{policy_name(entry)}: {fate} denials (requests / workloads)", fate_count(count)


def _shown(entry: PolicyReadiness) -> Iterator[str]:
    yield f"{policy_name(entry)}: {entry.status}"
    yield from entry.reasons
    yield from (line for found in entry.counterexamples for line in _counterexample(found))


def _case_of(entry: PolicyReadiness) -> Xml.Element:
    """The one case of a policy: it fails with its reasons, and with the workloads that would be denied."""
    asked = f"may {words_of(entry).may}" if entry.change is None else "makes no new denials"
    return _case(entry, asked, OUTCOMES[entry.status].junit, str(entry.status), (*entry.reasons, *_workloads(entry)))


def _workloads(entry: PolicyReadiness) -> Iterator[str]:
    found = [parts for parts in by_workload(findings(entry)) if parts[0].fails]
    for first, *others in found[:_WORKLOADS_MAX]:
        owner = first.owner
        who = f"{owner.user} and {counted(len(others), 'more user')}" if others else owner.user
        yield f"{owner.namespace or 'cluster'}/{owner.unit} by {who}: {first.words} (audit ID {owner.audit_id})"
    if len(found) > _WORKLOADS_MAX:
        yield f"and {counted(len(found) - _WORKLOADS_MAX, 'more workload')}"


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
